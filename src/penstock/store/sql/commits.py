"""Commits of ticks inside a transaction: the fence, what the tick decided, and what it brought along."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

from penstock.engine import lifecycle
from penstock.engine.errors import LostClaim, PenstockError
from penstock.engine.model import JobRow
from penstock.engine.outcome import Move
from penstock.store.protocol import (
    ANY_QUEUE,
    Commit,
    Landed,
    Seal,
    brings_along,
)
from penstock.store.sql.requests import Ask, AskMany, Contended, Guarded, Steps, Tell
from penstock.store.sql.settling import all_of
from penstock.store.sql.statements import MOVED_COLUMNS
from penstock.store.sql.submits import Submits

_moved = attrgetter(*MOVED_COLUMNS, "id")


class Commits(Submits):
    """The part of a transaction that moves jobs on."""

    def _plain_commits(self, commits: list[tuple[int, Commit]], answers: list[Any]) -> Steps[list[tuple[int, Move]]]:
        """Ticks that bring nothing along, on jobs that are still what their workers know: one look at the fence is
        enough. Returns the others.

        The worker's own row is changed in place. Should this transaction fail, the row is a move ahead of what is
        stored, and the next try takes the other way.
        """
        plain: dict[str, tuple[int, Move, JobRow]] = {}
        others: list[tuple[int, Move]] = []
        seen: set[str] = set()
        for place, op in commits:
            move, row = op.move, op.row
            known = row is not None and row.moves + 1 == move.number and not row.gate
            if row is None or not known or self.replay or brings_along(move) or move.job in seen:
                others.append((place, move))
            else:
                plain[move.job] = (place, move, row)
            seen.add(move.job)
        if plain:
            believed = [(move.job, move.epoch, row.moves, row.batch) for _, move, row in plain.values()]
            held = set((yield AskMany("still_held", believed)))
            moved = _Moved([], [], [])
            for job, (place, move, row) in plain.items():
                if job in held:
                    self._land(row, move, moved)
                    answers[place] = Landed(row, row.phase == "held")
                else:
                    others.append((place, move))
            yield from self._write_moved(moved)
        return sorted(others, key=_in_turn)

    def _commits(self, commits: list[tuple[int, Move]], answers: list[Any]) -> Steps[None]:
        rows = self.committing = yield from self._lock_jobs([move.job for _, move in commits])
        moved = _Moved([], [], [])
        for place, move in commits:
            row = rows.get(move.job)
            if row is None or row.epoch != move.epoch or row.phase != "held" or row.moves >= move.number:
                applied = yield from self._applied_before(row, move)
                answers[place] = (
                    _landed(JobRow(*all_of(row)), move.epoch) if applied and row else lost(move.job, move.epoch)
                )
                continue
            if move.until and (yield Ask("over_calls", (list(move.until),))):
                move = replace(move, after=0.0)
            follows = bool(move.spawn or move.seal) and not _cancel_wins(row, move)
            if follows:
                # What went before in this group may decide whether the spawned jobs are refused.
                yield from self._write_moved(moved)
            if follows or move.writes:
                refused = yield from self._side_effects(row, move)
                if refused is not None:
                    answers[place] = refused
                    continue
            self._land(row, move, moved)
            if follows:
                yield from self._write_moved(moved)
                yield from self._follow(move)
            answers[place] = _landed(JobRow(*all_of(row)), move.epoch)
        yield from self._write_moved(moved)
        self.committing = {}

    def _land(self, row: JobRow, move: Move, moved: _Moved) -> None:
        lane, resource, ran = row.lane, row.resource, (row.step, row.attempt)
        refused = _cancel_wins(row, move)
        lifecycle.land(row, move, now=self.now, by_tenant=self.by_tenant)
        self.events.append(lifecycle.told(row, move, now=self.now, ran=ran, refused=refused))
        if move.logs:
            self.lines.extend((row.id, at, *ran, level, text) for at, level, text in move.logs)
        if row.phase == "held" and row.lane == lane:
            moved.kept.append(row)
        else:
            moved.left.append(row)
        if resource and resource != row.resource and self.limits:
            self.hints.add(ANY_QUEUE)
        if move.release and not refused:
            moved.freed.extend((row.tenant, name, row.id) for name in move.release)

    def _write_moved(self, moved: _Moved) -> Steps[None]:
        if moved.freed:
            yield Tell("free_lock", moved.freed.copy())
        if moved.kept:
            yield Tell("move_jobs", [_moved(row) for row in moved.kept])
        yield from self._settle(moved.left.copy())
        for done in moved:
            done.clear()

    def _follow(self, move: Move) -> Steps[None]:
        told: list[Any] = [None]
        yield from self._submits([(0, move.spawn)], told)
        if isinstance(told[0], PenstockError):
            # It was allowed a moment ago: another transaction has got in between.
            raise Contended
        for batch in move.seal:
            yield from self._seal(Seal(batch))

    def _side_effects(self, row: JobRow, move: Move) -> Steps[BaseException | None]:
        """What can refuse a commit is tried before anything of it is written."""
        if _cancel_wins(row, move):
            return None
        landed = replace(row)
        lifecycle.land(landed, move, now=self.now, by_tenant=self.by_tenant)
        try:
            keys = [(new.tenant, new.workflow, new.key) for new in move.spawn if new.key is not None]
            last = yield from self._last_runs(keys)
            # The job itself counts as it lands: it may spawn its own next run.
            last.update({key: landed for key, run in last.items() if run.id == row.id})
            yield from self._plan(move.spawn, last)
            for batch_id in move.seal:
                yield from self._batch(batch_id)
        except PenstockError as refused:
            return refused
        if move.writes:
            error: BaseException | None = yield Guarded(move.writes)
            return error
        return None

    def _applied_before(self, row: JobRow | None, move: Move) -> Steps[bool]:
        """After an unknown COMMIT the history tells whether this very commit happened."""
        if row is None:
            return False
        if any((e.job, e.epoch, e.move) == (move.job, move.epoch, move.number) for e in self.events):
            return True
        found = yield Ask("find_move", (move.job, move.epoch, move.number))
        return bool(found)


class _Moved(NamedTuple):
    """Rows that commits have changed and that are still to be written: in their lane, out of it, and the locks they
    gave up."""

    kept: list[JobRow]
    left: list[JobRow]
    freed: list[tuple[str, str, str]]


def _cancel_wins(row: JobRow, move: Move) -> bool:
    return row.gate == "cancel" and row.status != "canceling" and move.kind != "checkpoint"


def _in_turn(commit: tuple[int, Move]) -> tuple[bool, int]:
    """What `in_order` says of commits."""
    place, move = commit
    return brings_along(move), place


def _landed(row: JobRow, epoch: int) -> Landed:
    return Landed(row, row.phase == "held" and row.epoch == epoch)


def lost(job_id: str, epoch: int) -> LostClaim:
    return LostClaim(f"job {job_id} is no longer held by claim {epoch}")
