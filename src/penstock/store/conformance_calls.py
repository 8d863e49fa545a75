"""The remote calls and budgets of the conformance suite: what `conformance.py` asks of them, made up from the calls the
reference store holds at the moment.

Facts are told mostly in an order that a real remote might follow, so that calls get to their ends; the rest are wrong,
late or told twice, and about calls whose jobs were paused, failed, retried or dropped since.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from penstock.engine.call import DECISIONS, LIVE, MOVES, STATES, CallRow, Fact, Hold, NewCall, Usage, may_send
from penstock.engine.model import JobRow
from penstock.store.protocol import (
    COST_GROUPS,
    Budget,
    CallFilter,
    CostFilter,
    Intend,
    Learn,
    SetBudget,
    Store,
    TakeCalls,
)

EVERYTHING = 100_000

_REMOTES = ("batch", "Batch", "pool")
_MODELS = ("", "flash", "Pro")
_KEYS = ("c1", "c1", "c2", "C3")
_HOLDS: tuple[tuple[Hold, ...], ...] = (
    (),
    (),
    (Hold("resource:gpu"),),
    (Hold("resource:cpu"), Hold("tokens", 30, 100)),
    (Hold("tokens", 60, 100),),
    (Hold("tokens", 20, 100), Hold("tokens", 50, 100)),
    (Hold("tokens", 120, 100),),
    (Hold("unlimited", 7),),
)
_AMOUNTS = (0, 0, 7, 40, 90, 400)
_BUDGETS = (None, 0, 50, 200, 1000, 1000)
_LIKELY: dict[str, tuple[str, ...]] = {
    "intent": ("sent", "sent", "found", "absent", "lost", "refused", "collected", "doubted", "missed"),
    "unsent": ("sent",),
    "submitted": ("running", "late", "succeeded", "doubted", "failed", "expired", "cancelled", "unwanted"),
    "running": ("running", "late", "succeeded", "expired", "missed"),
    "overdue": ("running", "succeeded", "cancelled", "expired"),
    "succeeded": ("collected", "collected", "missed", "failed"),
    "quarantined": (*DECISIONS, "succeeded", "collected", "found"),
    "lost": ("collected",),
    "absent": ("found", "checked"),
    "cancelled": ("sent", "found"),
    "discarded": ("sent", "found"),
}
_KINDS = (*MOVES, "guessed")


class CallOperations:
    """Makes up what is asked and told of calls. `met` counts the situations that an answer alone does not show."""

    def __init__(self, reference: Store, rng: random.Random, tenants: Sequence[str]) -> None:
        self._reference = reference
        self._rng = rng
        self._tenants = tenants
        self._jobs: dict[str, JobRow] = {}
        self._batches: Sequence[str] = ()
        self._calls: list[CallRow] = []
        self._budgets: list[Budget] = []
        self._told: list[Fact] = []
        self.met: Counter[tuple[str, str]] = Counter()

    async def look(self, jobs: Sequence[JobRow], batches: Sequence[str]) -> None:
        self._jobs = {row.id: row for row in jobs}
        self._batches = batches
        self._calls = await self._reference.calls(CallFilter(limit=EVERYTHING))
        self._budgets = await self._reference.budgets()

    def moments(self) -> list[float]:
        """When somebody is to look at a call."""
        return [call.due for call in self._calls if call.due is not None]

    def has(self, job: str) -> bool:
        return any(call.job == job for call in self._calls)

    def intend(self, job: JobRow) -> Intend:
        rng = self._rng
        lasts = {c.key: c for c in sorted(self._calls, key=lambda c: c.attempt) if c.job == job.id}
        again = [c.key for c in lasts.values() if c.state == "intent" or c.state not in LIVE]
        key = rng.choice(again if again and self._maybe(0.5) else _KEYS)
        last, resend = lasts.get(key), self._maybe(0.4)
        same = last is not None and (last.state == "unsent" or (last.state == "intent" and resend))
        attempt = 1 if last is None else last.attempt + (not same)
        if self._maybe(0.1):
            attempt += rng.choice((-1, 1))
        new = NewCall(
            remote=rng.choice(_REMOTES), key=key, attempt=attempt, model=rng.choice(_MODELS), digest="d",
            prepared='{"file":"x"}', holds=rng.choice(_HOLDS), estimate=rng.choice(_AMOUNTS),
            window=rng.choice((5.0, 10 * rng.random())), proof_after=rng.choice((0.0, 20.0)), resend=resend,
        )  # fmt: skip
        if last is not None and may_send(last, new):
            self.met["sent again after", last.state] += 1
        return Intend(job.id, job.epoch - self._maybe(0.06), new)

    def learn(self) -> Learn | None:
        """None where there is no call to speak of."""
        rng = self._rng
        if self._told and self._maybe(0.08):
            return self._tell(rng.choice(self._told))
        if self._maybe(0.02):
            return Learn(Fact(call="nowhere", kind="running"))
        if not self._calls:
            return None
        live = [call for call in self._calls if call.state in LIVE]
        awaited = [call for call in live if call.job in self._jobs and self._jobs[call.job].status == "waiting"]
        unwanted = [call for call in live if call.unwanted]
        chosen = awaited if awaited and self._maybe(0.3) else live if live and self._maybe(0.75) else self._calls
        if unwanted and self._maybe(0.25):
            chosen = unwanted
        call = rng.choice(chosen)
        kind = rng.choice(_LIKELY.get(call.state, _KINDS) if self._maybe(0.85) else _KINDS)
        return self._tell(
            Fact(
                call=call.id, kind=kind, provider_id=f"p{rng.randint(1, 9)}" if self._maybe(0.5) else None,
                error=rng.choice((None, None, "Odd: \x00 \udcff", "x" * 3000)), result='"there"',
                usage=Usage(*(rng.randint(0, 9) for _ in range(4))) if self._maybe(0.5) else None,
                cost=rng.choice((None, *_AMOUNTS)), done=rng.choice((None, 1)), total=rng.choice((None, 2**40)),
                look_in=rng.choice((None, 0.0, 4.0, 9 * rng.random())), actor="me" if kind in DECISIONS else None,
                intent=rng.choice((call.submit_before, 1.0)) if self._maybe(0.15) else None,
            )
        )  # fmt: skip

    def _tell(self, fact: Fact) -> Learn:
        self._told.append(fact)
        call = next(call for call in self._calls if call.id == fact.call)
        job = self._jobs.get(call.job)
        self.met["told of a job that is", "gone" if job is None else "stripped" if not job.lane else job.status] += 1
        if job is not None and job.run > 1 and call.created < job.created:
            self.met["told of a call that is", "inherited"] += 1
        return Learn(fact)

    def take_calls(self) -> TakeCalls:
        rng = self._rng
        remotes = _REMOTES if self._maybe(0.6) else tuple(rng.sample((*_REMOTES, "nobody"), 2))
        return TakeCalls(remotes, rng.choice((0, 1, 2, 8)), rng.choice((3.0, 8 * rng.random())))

    def set_budget(self) -> SetBudget:
        rng = self._rng
        with_calls = [f"job:{call.job}" for call in self._calls] or ["job:nobody"]
        scope = rng.choice(
            (
                f"tenant:{rng.choice(self._tenants)}",
                rng.choice([f"job:{job}" for job in self._jobs] or ["job:nobody"]),
                rng.choice(with_calls),
                f"batch:{rng.choice(self._batches) if self._batches else 'nothing'}",
            )
        )
        if self._budgets and self._maybe(0.4):
            scope = rng.choice(self._budgets).scope
        op = SetBudget(scope, rng.choice(_BUDGETS))
        known = any(budget.scope == scope for budget in self._budgets)
        self.met[f"budget of a {scope.partition(':')[0]}", _what(op, known=known)] += 1
        return op

    def until(self, job: JobRow) -> tuple[str, ...]:
        """Calls for a job to wait for: its own, mostly."""
        rng = self._rng
        own = [call for call in self._calls if call.job == job.id]
        if not own or self._maybe(0.5):
            return ("nowhere",) if self._maybe(0.05) else ()
        chosen = rng.sample(own, rng.randint(1, min(2, len(own))))
        for call in chosen:
            self.met["waits for a call that is", call.state] += 1
        return tuple(call.id for call in chosen)

    def questions(self, *, thorough: bool) -> dict[str, Callable[[Store], Any]]:
        """What is asked of both stores after a group, by name."""
        rng = self._rng
        known = [call.id for call in self._calls]
        where = CallFilter(
            tenant=self._one_or_none(self._tenants), job=self._one_or_none(list(self._jobs)),
            key=self._one_or_none(_KEYS), remote=self._one_or_none(_REMOTES),
            state=tuple(rng.sample(STATES, rng.randint(1, len(STATES)))) if self._maybe(0.5) else (),
            before=self._one_or_none([(call.created, call.id) for call in self._calls]), limit=rng.randint(1, 5),
        )  # fmt: skip
        some = CostFilter(
            by=tuple(rng.sample(COST_GROUPS, rng.randint(0, len(COST_GROUPS)))),
            tenant=self._one_or_none(self._tenants), workflow=self._one_or_none(("draw", "print")),
            job=self._one_or_none(list(self._jobs)), batch=self._one_or_none(list(self._batches)),
            since=self._one_or_none([call.created for call in self._calls]),
            until=self._one_or_none([call.created for call in self._calls]),
        )  # fmt: skip
        call, job, key = rng.choice((*known, "nowhere")), rng.choice((*self._jobs, "nobody")), rng.choice(_KEYS)
        asked: dict[str, Callable[[Store], Any]] = {
            "count_calls()": lambda s: s.count_calls(),
            "calls()": lambda s: s.calls(CallFilter(limit=EVERYTHING)),
            f"calls({where})": lambda s: s.calls(where),
            f"call({call!r})": lambda s: s.call(call),
            f"last_call({job!r}, {key!r})": lambda s: s.last_call(job, key),
            "next_call_due()": lambda s: s.next_call_due(_REMOTES),
            "next_call_due('pool')": lambda s: s.next_call_due(("pool",)),
            "next_call_due of nobody": lambda s: s.next_call_due(()),
            "costs()": lambda s: s.costs(CostFilter()),
            f"costs({some})": lambda s: s.costs(some),
            "budgets()": lambda s: s.budgets(),
            "budgets(scope='nothing')": lambda s: s.budgets(scope="nothing"),
            **{f"budgets(scope={one.scope!r})": _budget_of(one.scope) for one in self._budgets[:1]},
        }
        if thorough:
            for group in COST_GROUPS:
                asked[f"costs(by={group})"] = lambda s, group=group: s.costs(CostFilter(by=(group,)))  # type: ignore[misc]
            for batch in self._batches:
                asked[f"costs(batch={batch!r})"] = lambda s, batch=batch: s.costs(CostFilter(batch=batch))  # type: ignore[misc]
        return asked

    def _maybe(self, chance: float) -> bool:
        return self._rng.random() < chance

    def _one_or_none(self, options: Sequence[Any]) -> Any:
        return self._rng.choice(options) if options and self._maybe(0.3) else None


def _what(op: SetBudget, *, known: bool) -> str:
    if op.most is None:
        return "removed" if known else "removed in vain"
    return "changed" if known else "set"


def _budget_of(scope: str) -> Callable[[Store], Any]:
    return lambda store: store.budgets(scope=scope)
