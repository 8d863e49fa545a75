"""Looks at the store after every transaction, and ends the run when a rule is broken.

Only what changed is looked at, so the checks cost little: a row that is as it was has nothing new to break.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter

from pydantic_core import from_json

from penstock.engine.model import FINAL, Event, JobRow
from penstock.simulation import rules
from penstock.simulation.call_checker import ABOUT_CALLS, CallChecker
from penstock.simulation.record_checker import RecordChecker
from penstock.simulation.rules import Occupancy, Seen
from penstock.simulation.view import View
from penstock.simulation.world import World
from penstock.store.protocol import (
    AddMeters,
    Applied,
    Asked,
    Beat,
    Claim,
    Claimed,
    Commit,
    Control,
    HandBack,
    Intend,
    Learn,
    Note,
    Op,
    OpenBatch,
    RetryBatch,
    Seal,
    SetLimits,
    unwrapped,
)  # fmt: skip

_QUIET = frozenset({AddMeters, Beat, Note})
_ABOUT_BATCHES = frozenset({OpenBatch, RetryBatch, Seal})
_columns = attrgetter(*Seen._fields)


class Checker:
    """One for each run; it remembers what every row was."""

    def __init__(self, world: World, view: View) -> None:
        self.view = view
        self._world = world
        self._live: dict[str, Seen] = {}
        self._final: dict[str, Seen] = {}
        self._runs: dict[tuple[str, str, str], list[str]] = {}
        self._told: dict[str, int] = {}
        self._moves: set[tuple[str, int, int]] = set()
        self._follow_ups: Counter[str] = Counter()
        self._occupied = Occupancy(Counter(), Counter())
        self._tallied: dict[str, Counter[str]] = {}
        self._tallies = 0
        self._tally_numbers: set[tuple[int, str]] = set()
        self._inside: dict[tuple[str, str], str] = {}
        self.transactions = 0
        self.calls = CallChecker(world, view)
        self.records = RecordChecker(world, view)

    @property
    def unfinished(self) -> dict[str, Seen]:
        """The jobs that are not final."""
        return self._live

    @property
    def jobs(self) -> int:
        return len(self._live) + len(self._final)

    def after(self, who: str, ops: Sequence[Op], applied: Applied, *, replay: bool) -> None:
        """Called when a transaction was made."""
        self.transactions += 1
        kinds: set[type] = {type(op) for op in ops}
        asked_for: Sequence[Op] = ops if Asked in kinds else ()
        if asked_for:
            ops = [unwrapped(op) for op in ops]
            kinds = {type(op) for op in ops}
        self._world.note(who, "applies" if not replay else "applies again", *(_told(op) for op in ops))
        if kinds <= _QUIET:
            return
        self.view.refresh()
        asked = {op.job for op in ops if type(op) is Control} if Control in kinds else set()
        changed = self._changed()
        for before, row in changed:
            self._check_row(before, row, ops, asked=row.id in asked)
        if self.view.limits or self.view.batches:
            self._check_limits(lowered=SetLimits in kinds)
        if Claim in kinds:
            for op, answer in zip(ops, applied.answers, strict=True):
                if type(op) is Claim and isinstance(answer, Claimed):
                    self._check_claim(op, answer)
        self._check_tallies([row for _, row in changed])
        if changed or kinds & _ABOUT_BATCHES:
            self._check_locks()
            self._check_batches()
        if self._world.providers and kinds & ABOUT_CALLS:
            earlier = {row.id: before for before, row in changed}
            self.calls.after(ops, applied.answers, lambda job: earlier.get(job, self._live.get(job)))
        if asked_for:
            self.records.after(asked_for, applied.answers, replay=replay)

    def _changed(self) -> list[tuple[Seen | None, JobRow]]:
        found: list[tuple[Seen | None, JobRow]] = []
        by_id = self.view.rows
        for job, seen in self._live.items():
            row = by_id.get(job)
            if row is None:
                self._world.fail("final is final", f"job {job} is gone, and was {seen.status}")
            if _columns(row) != seen:
                found.append((seen, row))
        known = len(self._live) + len(self._final)
        if len(by_id) > known:
            found.extend((None, row) for row in islice(by_id.values(), known, None))
        return found

    def _check_row(self, before: Seen | None, row: JobRow, ops: Sequence[Op], *, asked: bool) -> None:
        for wrong in rules.shape(row):
            self._world.fail("a row's shape", f"job {row.id}: {wrong}")
        for wrong in rules.change(before, row, asked=asked):
            self._world.fail("legal changes", f"job {row.id}: {wrong}")
        if before is None:
            self._born(row)
        for wrong in self._history(before, row, ops):
            self._world.fail("one door", f"job {row.id}: {wrong}")
        now = Seen._make(_columns(row))
        where = f"{row.status}/{row.step}" + (f" gate={row.gate}" if row.gate else "")
        self._world.note("store", row.id[-6:], where, f"epoch={row.epoch}", f"moves={row.moves}")
        if row.status in FINAL:
            self._live.pop(row.id, None)
            self._final[row.id] = now
            for place in [place for place, job in self._inside.items() if job == row.id]:
                del self._inside[place]
        else:
            self._live[row.id] = now

    def _born(self, row: JobRow) -> None:
        runs = self._runs.setdefault((row.tenant, row.workflow, row.key), [])
        for other in runs:
            if self.view.rows[other].status not in FINAL:
                self._world.fail("one run a key", f"jobs {other} and {row.id} of key {row.key!r} are both at work")
        runs.append(row.id)
        if row.run != len(runs):
            self._world.fail(
                "one run a key", f"job {row.id} is run {row.run} of key {row.key!r}, and {len(runs)} is next"
            )
        if row.fan_in is not None and row.run == 1:
            self._follow_ups[row.fan_in] += 1

    def _history(self, before: Seen | None, row: JobRow, ops: Sequence[Op]) -> Iterator[str]:
        """A job moves only by a commit of the claim that holds it, and each commit is told once."""
        since = self._told.get(row.id, 0)
        events = self.view.events(row.id, since)
        self._told[row.id] = since + len(events)
        moves = [event for event in events if event.move]
        if before is None:
            if moves:
                yield f"it was born with commits {moves}"
            return
        for event in moves:
            if before.phase != "held" or event.epoch != before.epoch:
                yield f"a commit of epoch {event.epoch} counted, when it was {before.phase} with epoch {before.epoch}"
            if (row.id, event.epoch, event.move) in self._moves:
                yield f"commit {event.move} of epoch {event.epoch} counted twice"
            self._moves.add((row.id, event.epoch, event.move))
        numbers = [before.moves, *(event.move for event in moves)]
        if sorted(set(numbers)) != numbers or row.moves != numbers[-1]:
            yield f"moves went from {before.moves} to {row.moves}, and the commits {numbers[1:]} are told"
        yield from self._gate(before, row, moves)
        if not moves:
            if row.payload != before.payload or row.counters != before.counters:
                yield "its payload or counters changed without a commit"
            if row.step != before.step and row.step != row.cleanup:
                yield f"it went from step {before.step!r} to {row.step!r} without a commit"
        applied = {(event.epoch, event.move) for event in moves if event.kind != "refused"}
        for op in ops:
            if type(op) is Commit and op.move.job == row.id and (op.move.epoch, op.move.number) in applied:
                for name in op.move.release:
                    self._inside.pop((row.tenant, name), None)

    def _gate(self, before: Seen, row: JobRow, moves: list[Event]) -> Iterator[str]:
        """A tick in flight commits, and no more: pause rests the job, cancel refuses what was decided."""
        ended = [event for event in moves if event.kind != "checkpoint"]
        if not before.gate or not ended:
            return
        if row.phase == "held" and row.epoch == before.epoch:
            yield f"somebody asked to {before.gate} it, and its tick went on after a commit"
        if before.gate == "cancel" and before.status != "canceling" and ended[0].kind != "refused":
            yield f"it was to be canceled, and {ended[0].kind!r} counted"

    def _check_limits(self, *, lowered: bool) -> None:
        occupied = rules.occupancy(self.view.rows[job] for job in self._live)
        earlier = occupied if lowered else self._occupied
        for wrong in rules.over_limit(occupied, earlier, self.view.limits, self.view.batches):
            self._world.fail("limits", wrong)
        self._occupied = occupied

    def _check_claim(self, op: Claim, answer: Claimed) -> None:
        """Whatever is left and could have been taken is less urgent than what was."""
        now = self._world.store_clock.now()
        rows, limits, batches = self.view.rows, self.view.limits, self.view.batches
        left = [
            rows[job] for job, seen in self._live.items()
            if seen.phase == "ready" and rows[job].queue == op.queue and rows[job].workflow in op.workflows
        ]  # fmt: skip
        if not left:
            return
        occupied = rules.occupancy(rows[job] for job in self._live)
        left = [row for row in left if rules.fits(row, occupied, limits, batches)]
        if not left:
            return
        if answer.wake != 0.0:
            self._world.fail(
                "forgotten work", f"job {left[0].id} is claimable, and the claim answered wake={answer.wake}"
            )
        if len(answer.rows) < op.room:
            self._world.fail(
                "forgotten work", f"a claim with room for {op.room} took {len(answer.rows)}, not {left[0].id}"
            )
        best = min(rules.urgency(row, now) for row in left)
        eldest = min((row.aged_from, row.id) for row in left)
        for place, taken in enumerate(answer.rows):
            if place < op.oldest:
                if (taken.aged_from, taken.id) > eldest:
                    self._world.fail("fair share", f"job {taken.id} was taken as the oldest, and {eldest} is older")
            elif rules.before(best, rules.urgency(taken, now)):
                self._world.fail("priority", f"job {taken.id} was taken {rules.urgency(taken, now)} before {best}")

    def _check_tallies(self, changed: list[JobRow]) -> None:
        """What was counted is what the committed ticks counted, no more and no less."""
        touched = {row.id: row for row in changed}
        for tally in self.view.tallies(self._tallies):
            self._tallies += 1
            if (tally.number, tally.name) in self._tally_numbers:
                self._world.fail(
                    "transitions exactly once", f"job {tally.job}: its row {tally.number} was written twice"
                )
            self._tally_numbers.add((tally.number, tally.name))
            self._tallied.setdefault(tally.job, Counter())[tally.name] += tally.amount
            touched[tally.job] = self.view.rows[tally.job]
        for job, row in touched.items():
            own = self._tallied.get(job)
            counters = from_json(row.counters) if row.counters else {}
            if own is not None and any(counters.get(name, 0) != amount for name, amount in own.items()):
                self._world.fail(
                    "transitions exactly once", f"job {job} counts {counters} and its rows say {dict(own)}"
                )
            if own is None and counters and self._tallies:
                self._world.fail("transitions exactly once", f"job {job} counts {counters} and has written no row")

    def _check_locks(self) -> None:
        for (tenant, name), job in self.view.locks.items():
            row = self.view.rows.get(job)
            if row is None or row.status in FINAL:
                self._world.fail("final holds nothing", f"lock {name!r} of {tenant} belongs to {job}, which is over")
        for (tenant, name), job in self._inside.items():
            if self.view.locks.get((tenant, name)) != job:
                self._world.fail("locks", f"job {job} is inside {name!r} and does not have its lock")

    def _check_batches(self) -> None:
        for batch in self.view.batches.values():
            members = self.view.members[batch.id]
            for wrong in rules.batch_is_sound(batch, members, self.view.rows, self._follow_ups[batch.id]):
                self._world.fail("batches", f"batch {batch.id}: {wrong}")

    def step_begins(self, job: str, epoch: int, step: str) -> None:
        """A step runs only for a claim that stands, or for one whose owner cannot know yet that it was lost."""
        row = self.view.rows.get(job)
        if row is None or row.epoch != epoch:
            return
        if row.phase != "held":
            self._world.fail("gates", f"job {job} is {row.status}, and its step {step!r} begins under epoch {epoch}")
        if row.step != step:
            self._world.fail("one door", f"job {job} is at step {row.step!r}, and {step!r} begins under epoch {epoch}")

    def entered(self, job: str, epoch: int, lock: str) -> None:
        row = self.view.rows.get(job)
        if row is None or row.epoch != epoch or row.phase != "held":
            return
        other = self._inside.get((row.tenant, lock))
        if other is not None and other != job:
            self._world.fail("locks", f"jobs {other} and {job} are both inside {lock!r}")
        if self.view.locks.get((row.tenant, lock)) != job:
            self._world.fail("locks", f"job {job} goes into {lock!r} without its lock")
        self._inside[row.tenant, lock] = job

    def at_the_end(self) -> None:
        """What must hold when all is over: no final row has changed since, and nothing is left behind."""
        self.view.refresh()
        for job, seen in self._final.items():
            row = self.view.rows.get(job)
            if row is None or _columns(row) != seen:
                self._world.fail("final is final", f"job {job} was {seen}, and is {row}")
        if self.view.locks:
            self._world.fail("final holds nothing", f"locks are left: {dict(self.view.locks)}")
        for batch in self.view.batches.values():
            if batch.sealed is not None and batch.finished is None:
                self._world.fail("batches", f"batch {batch.id} is sealed, all jobs are over, and it has not ended")
        self.calls.at_the_end()
        self.records.at_the_end()


def _told(op: Op) -> str:
    if type(op) is Commit:
        move = op.move
        return f"Commit({move.job[-6:]} {move.kind} epoch={move.epoch} n={move.number})"
    if isinstance(op, Claim):
        return f"Claim({op.queue} room={op.room})"
    if isinstance(op, Control):
        return f"Control({op.job[-6:]} {op.action})"
    if isinstance(op, HandBack):
        return f"HandBack(knows {len(op.known)})"
    if isinstance(op, Intend):
        return f"Intend({op.job[-6:]} {op.call.remote} {op.call.key}#{op.call.attempt} epoch={op.epoch})"
    if isinstance(op, Learn):
        return f"Learn({op.fact.call[-6:]} {op.fact.kind})"
    return type(op).__name__
