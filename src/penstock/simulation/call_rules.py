"""The rules for remote calls, as data and pure functions over rows: written from the design, not from the code they
check. Each function yields what is wrong, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pydantic_core import from_json

from penstock.engine.call import CallRow
from penstock.simulation.rules import Seen
from penstock.store.protocol import Budget

KEEPING = frozenset({"intent", "submitted", "running", "overdue", "succeeded", "quarantined"})
"""States in which the other side has the work, or may have: what such a call holds counts."""

UNSETTLED = KEEPING - {"quarantined"}
"""States that must not last: somebody looks, until the other side or a person says how it ended."""

ENDS = frozenset({"collected", "failed", "expired", "cancelled", "absent", "lost", "discarded"})

_OUTSIDE = frozenset({"submitted", "running", "overdue", "succeeded", "quarantined"})
_ANSWERS = frozenset({"collected", "failed", "expired", "cancelled"})

EDGES: dict[str, frozenset[str]] = {
    "": frozenset({"intent"}),
    "intent": frozenset({"unsent", "submitted", "absent", "lost", "quarantined", "cancelled", "collected"}),
    "unsent": frozenset({"intent", "submitted", "collected"}),
    "submitted": _OUTSIDE | _ANSWERS,
    "running": _OUTSIDE | _ANSWERS,
    "overdue": _OUTSIDE | _ANSWERS,
    "succeeded": frozenset({"collected", "failed", "quarantined"}),
    "quarantined": _OUTSIDE | _ANSWERS,
    "absent": frozenset({"submitted"}),
    "cancelled": frozenset({"submitted"}),
    "discarded": frozenset({"submitted"}),
    "collected": frozenset(),
    "failed": frozenset(),
    "expired": frozenset(),
    "lost": frozenset(),
}
"""Every change of state a program may make. One transaction may take several."""

DECIDED: dict[str, str] = {"adopt": "submitted", "resubmit": "absent", "discard": "discarded"}
"""What a person makes of a quarantined call."""

MOST_LOOKS = 600
MOST_LOOKS_AFTER_THE_END = 120


def _closure() -> dict[str, frozenset[str]]:
    reach = {}
    for start in EDGES:
        found: set[str] = set()
        todo = [start]
        while todo:
            new = EDGES[todo.pop()] - found
            found |= new
            todo.extend(sorted(new))
        reach[start] = frozenset(found | {start})
    return reach


_REACH = _closure()


class CallSeen(NamedTuple):
    """What is remembered of a call between two transactions."""

    state: str
    job: str
    epoch: int
    unwanted: int
    provider_id: str | None
    submit_before: float | None
    estimate: int
    cost: int
    holds: str


def shape(row: CallRow) -> Iterator[str]:
    """State and what the row holds fit together; what has ended waits for nothing, and no loop goes on for ever."""
    if row.state in ENDS and row.due is not None and not unanswered(row):
        yield f"it is {row.state}, and somebody is to look at it at {row.due}"
    if row.state in UNSETTLED and row.due is None:
        yield f"it is {row.state}, and nobody will ever look at it"
    if (row.state in ENDS) != (row.finished is not None):
        yield f"it is {row.state}, with finished={row.finished}"
    if row.state in ("submitted", "running", "overdue", "succeeded") and not row.provider_id:
        yield f"it is {row.state}, and nobody knows under which id"
    if row.looks > MOST_LOOKS:
        yield f"it was looked at {row.looks} times"


def unanswered(row: CallRow) -> bool:
    """Ended without a word from the other side: it may be looked for once more."""
    return row.state in ("absent", "discarded") or (row.state == "cancelled" and row.provider_id is None)


def change(before: CallSeen | None, row: CallRow, decision: str | None) -> Iterator[str]:
    """Only legal edges; what only a person may decide, a person decided."""
    state = "" if before is None else before.state
    reach = _REACH[state]
    if decision is not None:
        reach = reach | {DECIDED[decision]} | _REACH[DECIDED[decision]]
    if row.state not in reach:
        yield f"{state or 'nothing'} became {row.state}"
    if before is not None and row.cost < before.cost and state != "lost":
        yield f"its cost went from {before.cost} to {row.cost}"


def begins(row: CallRow, job: Seen | None, *, most: int) -> Iterator[str]:
    """A call is about to be sent: only for a job that a tick holds and nobody asked to stop, and not too often."""
    if job is None or job.phase != "held" or job.epoch != row.epoch:
        yield f"it is to be sent under claim {row.epoch}, and its job is {job and (job.status, job.epoch)}"
    elif job.gate:
        yield f"it is to be sent, and somebody asked to {job.gate} its job"
    if row.attempt > most:
        yield f"attempt {row.attempt} is made, and {most} are allowed"


def held(rows: Iterable[CallRow]) -> Counter[str]:
    """What unfinished calls hold, by name."""
    amounts: Counter[str] = Counter()
    for row in rows:
        if row.state in KEEPING:
            for name, amount in from_json(row.holds):
                own = name.startswith("budget:job:")
                amounts[f"budget:job:{row.job}" if own else name] += amount
    return amounts


def over_limit(
    now: Counter[str], names: Iterable[str], limits: Mapping[str, int], fixed: Mapping[str, int]
) -> Iterator[str]:
    """What was just taken fits under its limits."""
    for name in names:
        most = fixed.get(name, limits.get(name))
        if most is not None and now[name] > most:
            yield f"calls hold {now[name]} of {name}, which allows {most}"


def over_budget(now: Counter[str], names: Iterable[str], budgets: Mapping[str, Budget]) -> Iterator[str]:
    """At the moment of admission: spent and promised together are within the budget."""
    for name in names:
        budget = budgets.get(name.removeprefix("budget:")) if name.startswith("budget:") else None
        if budget is not None and budget.spent + now[name] > budget.most:
            yield f"{budget.scope}: {budget.spent} spent and {now[name]} promised, of {budget.most}"
