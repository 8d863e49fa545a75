"""The rules, as data and pure functions over rows. They are written from the design, not from the engine: what is
computed here is computed anew, from the stored rows alone.

Each function yields what is wrong, in words; silence means that the rule holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from penstock.engine.model import FINAL, JobRow
from penstock.store.protocol import BatchRow

PHASES: dict[str, frozenset[str]] = {
    "queued": frozenset({"ready"}),
    "running": frozenset({"held"}),
    "waiting": frozenset({"timed"}),
    "paused": frozenset({"idle"}),
    "canceling": frozenset({"ready", "timed", "held"}),
    "completed": frozenset({"idle"}),
    "failed": frozenset({"idle"}),
    "canceled": frozenset({"idle"}),
}
"""Where a job of each status may be."""

EDGES: dict[str, frozenset[str]] = {
    "": frozenset({"queued", "waiting"}),
    "queued": frozenset({"running", "paused", "canceling", "canceled"}),
    "running": frozenset({"queued", "waiting", "paused", "canceling", "completed", "failed", "canceled"}),
    "waiting": frozenset({"queued", "paused", "canceling", "canceled"}),
    "paused": frozenset({"queued", "waiting", "canceling", "canceled"}),
    "canceling": frozenset({"canceled", "failed", "paused"}),
    "completed": frozenset(),
    "failed": frozenset(),
    "canceled": frozenset(),
}
"""Every legal change of status. One transaction may take several; only a person's request leads out of `paused`."""


def _closure(leaving_paused: bool) -> dict[str, frozenset[str]]:
    reach = {}
    for start in EDGES:
        found: set[str] = set()
        todo = [start]
        while todo:
            status = todo.pop()
            if status == "paused" and not leaving_paused:
                continue
            new = EDGES[status] - found
            found |= new
            todo.extend(sorted(new))
        reach[start] = frozenset(found | {start})
    return reach


_ASKED, _UNASKED = _closure(True), _closure(False)

LEAST_CRASHES_THAT_END = 5


class Seen(NamedTuple):
    """What is remembered of a row between two transactions."""

    status: str
    phase: str
    epoch: int
    moves: int
    gate: str
    worker: str | None
    due: float | None
    step: str
    payload: str
    counters: str | None
    attempt: int
    crashes: int
    batch_slot: str | None
    lane: str


def shape(row: JobRow) -> Iterator[str]:
    """Status, phase and what the row holds fit together; final is final and holds nothing."""
    if row.phase not in PHASES[row.status]:
        yield f"a {row.status} job cannot be {row.phase}"
    if (row.worker is not None) != (row.phase == "held"):
        yield f"phase {row.phase} with worker {row.worker}"
    if row.phase == "timed" and row.due is None:
        yield "it waits for no time"
    if row.phase == "ready" and row.due is not None:
        yield "it is ready and has a timer"
    if row.phase == "held" and (row.started is None or row.attempt < 1):
        yield f"it runs, with started={row.started} and attempt={row.attempt}"
    if row.gate and row.phase != "held":
        yield f"gate {row.gate!r} is set, and no tick runs that could honour it"
    if row.status == "canceling" and row.step != row.cleanup:
        yield f"it is being canceled and is to run {row.step!r}, not its clean-up step {row.cleanup!r}"
    if row.crashes > LEAST_CRASHES_THAT_END:
        yield f"{row.crashes} crashes, and it still goes on"
    if row.status in FINAL and (row.due is not None or row.batch_slot is not None or row.gate or row.finished is None):
        yield f"it is final and holds due={row.due} slot={row.batch_slot} gate={row.gate!r} finished={row.finished}"


def change(before: Seen | None, row: JobRow, *, asked: bool) -> Iterator[str]:
    """Only legal edges; claims and commits are counted up, never back."""
    status = "" if before is None else before.status
    if row.status not in (_ASKED if asked else _UNASKED)[status]:
        yield f"{status or 'nothing'} became {row.status}" + ("" if asked else ", and nobody asked for it")
    if before is None:
        return
    if status in FINAL:
        yield f"it was {status}, which is final, and changed: {before} is now {row}"
    if row.epoch < before.epoch or row.moves < before.moves:
        yield f"epoch {before.epoch} became {row.epoch}, moves {before.moves} became {row.moves}"
    if row.phase == "held" and before.phase != "held" and row.epoch == before.epoch:
        yield f"it was claimed without a new epoch ({row.epoch})"
    if row.phase == "held" and row.worker != before.worker and row.epoch == before.epoch:
        yield f"it went from {before.worker} to {row.worker} under one epoch ({row.epoch})"


class Occupancy(NamedTuple):
    """Who is at work: running ticks by limit key, and members started and not ended by batch."""

    ticks: Counter[str]
    batches: Counter[str]


def occupancy(rows: Iterable[JobRow]) -> Occupancy:
    ticks: Counter[str] = Counter()
    batches: Counter[str] = Counter()
    for row in rows:
        if row.phase == "held":
            ticks[f"workflow:{row.workflow}"] += 1
            ticks[f"tenant:{row.tenant}"] += 1
            if row.resource:
                ticks[f"resource:{row.resource}"] += 1
        if row.batch_slot is not None and row.started is not None:
            batches[row.batch_slot] += 1
    return Occupancy(ticks, batches)


def most(key: str, limits: Mapping[str, int]) -> int | None:
    """The limit under a key; tenants without one of their own have the one for all."""
    return limits.get(key, limits.get("tenant:*") if key.startswith("tenant:") else None)


def over_limit(
    now: Occupancy, earlier: Occupancy, limits: Mapping[str, int], batches: Mapping[str, BatchRow]
) -> Iterator[str]:
    """Nothing above its limit, but for what ran already when the limit was lowered."""
    for key, count in sorted(now.ticks.items()):
        limit = most(key, limits)
        if limit is not None and count > limit and count > earlier.ticks[key]:
            yield f"{count} ticks run under {key}, which allows {limit}"
    for batch, count in sorted(now.batches.items()):
        limit = batches[batch].limit
        if limit is not None and count > limit:
            yield f"{count} members of batch {batch} are at work, and its limit is {limit}"


def fits(row: JobRow, now: Occupancy, limits: Mapping[str, int], batches: Mapping[str, BatchRow]) -> bool:
    """Whether a claim could take this job without breaking a limit."""
    keys = [f"workflow:{row.workflow}", f"tenant:{row.tenant}"] + ([f"resource:{row.resource}"] if row.resource else [])
    for key in keys:
        limit = most(key, limits)
        if limit is not None and now.ticks[key] >= limit:
            return False
    if row.batch_slot is not None and row.started is None:
        limit = batches[row.batch_slot].limit
        return limit is None or now.batches[row.batch_slot] < limit
    return True


def urgency(row: JobRow, now: float) -> tuple[float, float, str]:
    """Sorts the most urgent first: priority with age, then the older, then the lower id."""
    age = max(0.0, now - row.aged_from)
    grown = min(age / row.period, row.cap) if row.period else 0.0
    return (-min(100.0, row.base + grown), row.aged_from, row.id)


def before(one: tuple[float, float, str], other: tuple[float, float, str]) -> bool:
    """Whether the first is clearly more urgent: stores round their clock, so a hair's breadth decides nothing."""
    return one[0] < other[0] - 1e-6 or (one[0] == other[0] and one < other)


def batch_is_sound(
    batch: BatchRow, members: Mapping[str, str | None], rows: Mapping[str, JobRow], follow_ups: int
) -> Iterator[str]:
    """Counts are the members' own; it ends once, when sealed and all have ended, and then has exactly one follow-up."""
    if batch.members != len(members):
        yield f"it counts {batch.members} members and has {len(members)}"
    ends: Counter[str] = Counter()
    for job, ended in sorted(members.items()):
        status = rows[job].status if job in rows else ended
        if (status if status in FINAL else None) != ended:
            yield f"member {job} is {status} and is booked as {ended}"
        if ended is not None:
            ends[ended] += 1
    counted = {"completed": batch.completed, "failed": batch.failed, "canceled": batch.canceled}
    if any(ends[status] != count for status, count in counted.items()):
        yield f"it counts {counted} and its members ended {dict(ends)}"
    over = batch.sealed is not None and sum(ends.values()) == len(members)
    if over != (batch.finished is not None):
        yield f"sealed={batch.sealed}, {sum(ends.values())} of {len(members)} ended, finished={batch.finished}"
    wanted = 1 if over and batch.then is not None else 0
    if follow_ups != wanted or (batch.follow_up is not None) != bool(wanted):
        yield f"it has {follow_ups} follow-up jobs ({batch.follow_up}), and {wanted} is right"
