"""What a process counts while it works, for `/metrics` and the dashboard: ticks, jobs, calls, tokens and money.

Counts gather here in memory and are added to the store every few seconds and when the engine closes, so the totals are
those of all processes and go on growing when one of them is started anew. A process that is killed takes up to
`FLUSH_EVERY` seconds of counts with it. What was sent in a transaction of which nobody knows whether it was stored is
not sent again: each thing is counted at most once.

A tenant is never a label: there may be many thousands, each would make every metric as many series, and whoever reads
the metrics would see all their names. What a tenant has used is told by `costs` and the audit log.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.engine.call import CallRow
    from penstock.engine.model import JobRow
    from penstock.engine.outcome import Move

FLUSH_EVERY = 5.0

MOST_LABELS = 500
"""Label sets that one name may have in a process; what comes after that is counted as `other`."""

OTHER = "other"

LABELS: dict[str, tuple[str, ...]] = {
    "ticks": ("workflow", "step", "outcome"),
    "tick_seconds": ("workflow", "step"),
    "queue_seconds": ("workflow",),
    "jobs_ended": ("workflow", "status"),
    "crashes": ("workflow",),
    "calls": ("remote", "state"),
    "call_seconds": ("remote",),
    "tokens": ("remote", "model", "kind"),
    "cost_microdollars": ("remote", "model"),
    "sla_breaches": ("workflow",),
}
"""Everything that is counted, by which labels."""

BUCKETS: dict[str, tuple[float, ...]] = {
    "tick_seconds": (0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 1800),
    "queue_seconds": (0.01, 0.05, 0.25, 1, 5, 15, 60, 300, 1800, 7200, 86400),
    "call_seconds": (0.1, 0.5, 1, 5, 15, 60, 300, 1800, 7200, 21600, 86400),
}
"""The upper bounds of the buckets of what is counted as a histogram; the last bucket has none."""

_TICK_BOUNDS = BUCKETS["ticks"] = BUCKETS["tick_seconds"]

BY_MINUTE = ("jobs_ended", "cost_microdollars")
"""What is also kept minute by minute, for charts."""

Amounts = tuple[tuple[str, str, float], ...]
_Key = tuple[str, ...]


@dataclass(slots=True, frozen=True)
class KnownCall:
    """What was known of a call before something was learned about it."""

    state: str
    amounts: tuple[int, int, int, int]
    cost: int


@dataclass(slots=True, frozen=True)
class Counted:
    """What was taken out to be stored."""

    counts: dict[_Key, float]
    spread: dict[_Key, list[float]]


class Meters:
    """One for each engine, used by its event loop only. `on_first` is told when there is something to store."""

    def __init__(self, on_first: Callable[[], None] = lambda: None) -> None:
        self._counts: dict[_Key, float] = {}
        self._spread: dict[_Key, list[float]] = {}
        self._sets: dict[str, set[_Key]] = {name: set() for name in LABELS}
        self._calls: dict[str, KnownCall] = {}
        self._on_first = on_first
        self._quiet = True

    def add(self, name: str, labels: _Key, amount: float = 1) -> None:
        key = (name, *labels)
        try:
            self._counts[key] += amount
        except KeyError:
            key = self._known(key)
            self._counts[key] = self._counts.get(key, 0) + amount
            self._wake()

    def observe(self, name: str, labels: _Key, value: float) -> None:
        key = (name, *labels)
        try:
            spread = self._spread[key]
        except KeyError:
            key = self._known(key)
            spread = self._spread.setdefault(key, [0.0] * (len(BUCKETS[name]) + 2))
            self._wake()
        spread[bisect_left(BUCKETS[name], value)] += 1
        # Somebody may have set the clock back meanwhile.
        if value > 0:
            spread[-1] += value

    def claimed(self, row: JobRow) -> None:
        """A tick begins. Of a job's first one it is known how long the job waited for it."""
        if row.epoch == 1 and row.started is not None:
            self.observe("queue_seconds", (row.workflow,), row.started - row.created)

    def ticked(self, workflow: str, step: str, move: Move, after: JobRow | None) -> None:
        """A tick of `step` ended as `move`, and left the job as `after`; None: it could not be stored. The hot path:
        how many there were and how long they took is one list for each outcome, told apart in `totals`."""
        outcome: str = move.kind if not move.throttled else "throttled"
        if after is None:
            outcome = "lost"
        elif after.finished is not None:
            self.add("jobs_ended", (workflow, after.status))
        took = move.took
        try:
            spread = self._spread["ticks", workflow, step, outcome]
        except KeyError:
            self.observe("ticks", (workflow, step, outcome), took)
            return
        spread[bisect_left(_TICK_BOUNDS, took)] += 1
        if took > 0:
            spread[-1] += took

    def ended(self, workflow: str, status: str) -> None:
        self.add("jobs_ended", (workflow, status))

    def crashed(self, crashes: Iterable[tuple[str, str]]) -> None:
        """Jobs were taken away from workers that died: the workflow of each, and the status it has now."""
        for workflow, status in crashes:
            self.add("crashes", (workflow,))
            if status in ("failed", "canceled"):
                self.ended(workflow, status)

    def call_begins(self, row: CallRow) -> None:
        """From now on what is learned about this call is compared with what it is now."""
        self._calls[row.id] = _known_call(row)

    def known_call(self, call: str) -> KnownCall | None:
        return self._calls.get(call)

    def call_intended(self, row: CallRow) -> None:
        self.call_begins(row)
        self.add("calls", (row.remote, row.state))

    def call_learned(self, row: CallRow, before: KnownCall | None) -> None:
        """Something was learned about a call; only what is new counts."""
        if before is None:
            return
        now = _known_call(row)
        if row.id in self._calls:
            self._calls[row.id] = now
        if now.state != before.state:
            self.call_entered(row)
            if row.finished is not None:
                self.observe("call_seconds", (row.remote,), row.finished - (row.submitted or row.created))
        if now.cost > before.cost:
            self.add("cost_microdollars", (row.remote, row.model), now.cost - before.cost)
        for kind, amount, was in zip(_KINDS, now.amounts, before.amounts, strict=True):
            if amount > was:
                self.add("tokens", (row.remote, row.model, kind), amount - was)

    def call_entered(self, row: CallRow) -> None:
        self.add("calls", (row.remote, row.state))

    def call_left(self, call: str) -> None:
        self._calls.pop(call, None)

    def take(self) -> Counted | None:
        """Everything that was counted since the last time; None: nothing."""
        self._quiet = True
        if not self._counts and not self._spread:
            return None
        counted = Counted(self._counts, self._spread)
        self._counts, self._spread = {}, {}
        return counted

    def put_back(self, counted: Counted) -> None:
        """It was not stored, that is sure: it is part of what is stored next."""
        for key, amount in counted.counts.items():
            self.add(key[0], key[1:], amount)
        for key, spread in counted.spread.items():
            now = self._spread.setdefault(key, [0.0] * len(spread))
            self._spread[key] = [a + b for a, b in zip(now, spread, strict=True)]
        self._wake()

    def _known(self, key: _Key) -> _Key:
        sets = self._sets[key[0]]
        if key not in sets:
            if len(sets) >= MOST_LABELS:
                return (key[0], *(OTHER for _ in key[1:]))
            sets.add(key)
        return key

    def _wake(self) -> None:
        if self._quiet:
            self._quiet = False
            self._on_first()


def outcome_of(move: Move) -> str:
    """How a tick ended, as a label says it."""
    if move.throttled:
        return "throttled"
    return "hand_back" if move.kind == "hand back" else move.kind


def totals(counted: Counted) -> Amounts:
    """As the store keeps it: a histogram is one amount for each bucket, not added up, and the sum of what was seen."""
    found = [(key[0], _labels(key), amount) for key, amount in counted.counts.items()]
    spreads: dict[_Key, list[float]] = {}
    for key, spread in counted.spread.items():
        if key[0] != "ticks":
            spreads[key] = spread
            continue
        workflow, step, outcome = key[1:]
        told = ("ticks", workflow, step, outcome.replace(" ", "_"))
        found.append(("ticks", _labels(told), sum(spread[:-1])))
        if outcome != "hand back":
            took = ("tick_seconds", workflow, step)
            spreads[took] = [a + b for a, b in zip(spreads.get(took, [0.0] * len(spread)), spread, strict=True)]
    for key, spread in spreads.items():
        name = key[0]
        bounds = [*map(bound, BUCKETS[name]), "+Inf"]
        found += [
            (f"{name}_bucket", _labels(key, le=le), amount)
            for le, amount in zip(bounds, spread[:-1], strict=True)
            if amount
        ]
        found.append((f"{name}_sum", _labels(key), spread[-1]))
    return tuple(found)


def by_minute(counted: Counted) -> Amounts:
    return tuple((key[0], _labels(key), amount) for key, amount in counted.counts.items() if key[0] in BY_MINUTE)


def bound(seconds: float) -> str:
    """A bucket's upper bound as its label has it."""
    return repr(float(seconds))


def _labels(key: _Key, **more: str) -> str:
    named = dict(zip(LABELS[key[0]], key[1:], strict=True))
    return json.dumps({**named, **more}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


_KINDS = ("input", "output", "cached", "thinking")


def _known_call(row: CallRow) -> KnownCall:
    return KnownCall(row.state, (row.input, row.output, row.cached, row.thinking), row.cost)
