"""Every store answers every operation as the in-memory oracle does."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import asyncpg
import pytest

from penstock.engine.call import LIVE, MOVES, RESTING, CallRow
from penstock.engine.model import STATUSES, JobRow, NewJob
from penstock.engine.outcome import Move
from penstock.store.conformance import Coverage, ManualClock, compare
from penstock.store.memory import MemoryStore
from penstock.store.protocol import (
    Beat,
    Budget,
    Claim,
    Commit,
    Control,
    Intend,
    Intended,
    Landed,
    Learn,
    LockFilter,
    LockRow,
    SetBudget,
    Submit,
)
from penstock.store.schema import metadata
from penstock.store.sql.postgres import PostgresStore
from penstock.store.sql.sqlite import SqliteStore

LENGTH = 60

BEFORE_MIDNIGHT = 20 * 86_400 - 60.0
"""Costs are also added up by day."""


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: fourteen thousand commits would wait for a disk, and none is lost here."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.mark.parametrize("first", range(0, 240, 20))
def test_sqlite_answers_as_the_oracle(first: int, quick_folder: Path) -> None:
    empty = quick_folder / "empty.db"

    async def conform(seed: int) -> None:
        clock = ManualClock(BEFORE_MIDNIGHT)
        path = quick_folder / "store.db"
        shutil.copy(empty, path)
        store = SqliteStore(path, clock=clock, inline=True)
        await store.open()
        try:
            await compare(MemoryStore(clock), store, clock=clock, seed=seed, length=LENGTH)
        finally:
            await store.close()

    async def all_seeds() -> None:
        made = SqliteStore(empty, inline=True)
        await made.open()
        await made.close()
        for seed in range(first, first + 20):
            await conform(seed)

    asyncio.run(all_seeds())


@pytest.mark.parametrize("first", range(1000, 1020, 2))
def test_postgres_answers_as_the_oracle(first: int, postgres_url: str) -> None:
    async def all_seeds() -> None:
        clock = ManualClock(BEFORE_MIDNIGHT)
        store = PostgresStore(postgres_url, clock=clock)
        await store.open()
        cleaner = await asyncpg.connect(postgres_url)
        try:
            for seed in range(first, first + 2):
                await compare(MemoryStore(clock), store, clock=clock, seed=seed, length=LENGTH)
                await cleaner.execute("TRUNCATE " + ", ".join(table.name for table in metadata.sorted_tables))
        finally:
            await cleaner.close()
            await store.close()

    asyncio.run(all_seeds())


def test_sequences_reach_every_operation_done_and_refused() -> None:
    """A suite that only ever sees refusals, or only successes, would prove nothing."""
    moves = ("next", "again", "done", "retry", "fail", "park", "hand back", "checkpoint", "cleaned")
    wanted = {(f"Commit {kind}", verdict) for kind in moves for verdict in ("done", "LostClaim", "NotFound")}
    wanted |= {(f"Control {action}", "done") for action in ("pause", "resume", "cancel", "retry")}
    wanted |= {(f"Control {action}", "Conflict") for action in ("pause", "resume", "cancel", "retry")}
    wanted |= {("Control polish", "InvalidRequest"), ("Control pause", "NotFound"), ("Commit next", "Conflict")}
    wanted |= {(kind, verdict) for kind in ("Submit", "RetryBatch") for verdict in ("done", "Conflict", "NotFound")}
    wanted |= {(kind, verdict) for kind in ("Claim", "ClaimJob") for verdict in ("done", "nothing", "LostClaim")}
    wanted |= {("TakeLock", "done"), ("TakeLock", "nothing"), ("TakeLock", "LostClaim")}
    wanted |= {("Note", "done"), ("Note", "LostClaim"), ("Seal", "done"), ("Seal", "NotFound")}
    wanted |= {("OpenBatch", "done"), ("OpenBatch", "InvalidRequest"), ("SetLimits", "done"), ("SetSchedule", "done")}
    wanted |= {("Fire", "done"), ("Fire", "nothing"), ("Fire", "Conflict")}
    wanted |= {(k, v) for k in ("RemoveSchedule", "Beat", "Leave", "HandBack", "Tidy") for v in ("done", "nothing")}
    wanted |= _wanted_of_calls() | _wanted_of_records()
    coverage = Coverage()

    async def look() -> None:
        for seed in range(300):
            clock = ManualClock()
            oracle, same = MemoryStore(clock), MemoryStore(clock)
            coverage.update(await compare(oracle, same, clock=clock, seed=seed, length=LENGTH))
            if wanted <= coverage.seen.keys():
                return

    asyncio.run(look())
    assert wanted <= coverage.seen.keys(), f"never seen: {sorted(wanted - coverage.seen.keys())}"


def _wanted_of_calls() -> set[tuple[str, str]]:
    verdicts = ("done", "nothing", "Blocked", "OverBudget", "Halted", "LostClaim", "Permanent", "NotFound")
    wanted = {("Intend", verdict) for verdict in verdicts} | {("TakeCalls", "done"), ("TakeCalls", "nothing")}
    wanted |= {(f"Learn {kind}", after) for kind, moves in MOVES.items() for after in moves.values()}
    wanted |= {(f"Learn {kind}", "Conflict") for kind in ("adopt", "resubmit", "discard")}
    wanted |= {("Learn running", "NotFound"), ("Learn guessed", "InvalidRequest"), ("Learn adopt", "InvalidRequest")}
    wanted |= {("Learn missed", "intent"), ("Learn unwanted", "submitted"), ("Learn checked", "absent")}
    wanted |= {("Learn collected", "lost"), ("Learn succeeded", "collected"), ("Learn resubmit", "cancelled")}
    wanted |= {("told of a job that is", how) for how in (*STATUSES, "gone", "stripped")}
    wanted |= {("told of a call that is", "inherited")}
    again = ("intent", "unsent", "absent", "lost", "failed", "expired", "cancelled")
    wanted |= {("sent again after", state) for state in again}
    waits = ("intent", "submitted", "collected", "failed", "absent", "lost", "quarantined", "unsent")
    wanted |= {("waits for a call that is", state) for state in waits}
    wanted |= {
        (f"budget of a {kind}", how) for kind in ("tenant", "job", "batch") for how in ("set", "changed", "removed")
    }
    return wanted


def _wanted_of_records() -> set[tuple[str, str]]:
    wanted = {(kind, "done") for kind in ("Record", "TouchToken", "AddMeters", "SetCursor", "PutSession")}
    wanted |= {("Announce", verdict) for verdict in ("done", "nothing", "NotFound")}
    wanted |= {("PutToken", "done"), ("PutToken", "Conflict"), ("RevokeToken", "done"), ("RevokeToken", "NotFound")}
    wanted |= {("DropSession", "done"), ("DropSession", "nothing")}
    done = ("Control pause", "Control retry", "Seal", "SetLimits", "SetSchedule", "RemoveSchedule", "SetBudget")
    wanted |= {(f"Asked {kind}", "done") for kind in (*done, "PutToken", "RevokeToken", "PutSession", "DropSession")}
    wanted |= {("Asked Control pause", "Conflict"), ("Asked PutToken", "Conflict"), ("Asked Learn adopt", "submitted")}
    wanted |= {(f"Asked {kind}", v) for kind in ("Submit", "RetryBatch") for v in ("done", "Conflict", "NotFound")}
    for kind in ("Submit", "OpenBatch", "RetryBatch"):
        wanted |= {(f"{kind} once, done, and again", "done"), (f"Asked {kind}", "done")}
    for kind in ("Submit", "OpenBatch"):
        wanted |= {(f"Asked {kind}", "KeyReused"), (f"{kind} once, done, and replayed", "done")}
    wanted |= {("Submit once, refused, and again", "done"), ("Submit once, refused, and again", "refused")}
    return wanted | {("once", "forgotten, and done anew")}


class ForgetsResources(MemoryStore):
    """Claims see the ticks that run, not what unfinished calls hold."""

    def _fits(self, row: JobRow) -> bool:
        kept, self.call_rows = self.call_rows, {}
        try:
            return super()._fits(row)
        finally:
            self.call_rows = kept


class WaitsForTheEnded(MemoryStore):
    def _commit(self, op: Commit) -> Landed:
        return super()._commit(replace(op, move=replace(op.move, until=())))

    _DO: ClassVar[Any] = {**MemoryStore._DO, Commit: _commit}


class WakesNobody(MemoryStore):
    def _tell_job(self, job: JobRow, row: CallRow, was: str) -> None:
        if row.state not in RESTING:
            super()._tell_job(job, row, was)


class InheritsNothing(MemoryStore):
    def _inherit_calls(self, new: str, old: str) -> None:
        pass


class InheritsNoBudget(MemoryStore):
    def _inherit_calls(self, new: str, old: str) -> None:
        kept, self.budget_rows = self.budget_rows, {}
        super()._inherit_calls(new, old)
        self.budget_rows = kept


class OrphansNothing(MemoryStore):
    def _orphan_calls(self) -> None:
        pass


class StripsNothing(MemoryStore):
    def _strip_calls(self, job: str) -> None:
        pass


class ChargesOnce(MemoryStore):
    """What is learned of a call's cost later is not charged."""

    def _learn(self, op: Learn) -> CallRow:
        before = dict(self.budget_rows)
        known = self.call_rows.get(op.fact.call)
        ended = known is not None and known.state not in LIVE
        row = super()._learn(op)
        if ended:
            self.budget_rows = before
        return row

    _DO: ClassVar[Any] = {**MemoryStore._DO, Learn: _learn}


class CountsFromNow(MemoryStore):
    """A new budget does not know of the calls that are under way."""

    def _set_budget(self, op: SetBudget) -> Budget | None:
        kept, self.call_rows = self.call_rows, {}
        try:
            return super()._set_budget(op)
        finally:
            self.call_rows = kept

    _DO: ClassVar[Any] = {**MemoryStore._DO, SetBudget: _set_budget}


class SendsTwice(MemoryStore):
    """What an unknown COMMIT stored is not found again."""

    def _intend(self, op: Intend) -> Intended:
        kept, self._replay = self._replay, False
        try:
            return super()._intend(op)
        finally:
            self._replay = kept

    _DO: ClassVar[Any] = {**MemoryStore._DO, Intend: _intend}


@pytest.mark.parametrize(
    "wrong",
    [
        ForgetsResources, WaitsForTheEnded, WakesNobody, InheritsNothing, InheritsNoBudget, OrphansNothing,
        StripsNothing, ChargesOnce, CountsFromNow, SendsTwice,
    ],
)  # fmt: skip
def test_a_store_that_is_wrong_about_calls_is_found_out(wrong: type[MemoryStore]) -> None:
    async def differ() -> None:
        for seed in range(400):
            clock = ManualClock()
            await compare(MemoryStore(clock), wrong(clock), clock=clock, seed=seed, length=LENGTH)

    with pytest.raises(AssertionError, match="seed"):
        asyncio.run(differ())


def test_a_pause_that_was_taken_back_stops_nobody_who_had_heard_of_it(tmp_path: Path) -> None:
    async def go() -> None:
        store = SqliteStore(tmp_path / "store.db", inline=True)
        await store.open()
        await store.apply([Beat("w", 600, first=True), Submit((NewJob("j", "draw", "one", "[]", "d"),))])
        [claimed] = (await store.apply([Claim("w", "default", ("draw",))])).answers
        await store.apply([Control("j", "pause")])
        [row] = claimed.rows
        [landed] = (await store.apply([Commit(Move("j", row.epoch, 1, "checkpoint", "one", "[]"), row)])).answers
        assert landed.row.gate == "pause"
        await store.apply([Control("j", "resume")])
        move = Move("j", row.epoch, 2, "next", "two", "[]", keep=True)
        [landed] = (await store.apply([Commit(move, landed.row)])).answers
        assert landed.kept and landed.row.status == "running"
        await store.close()

    asyncio.run(go())


def test_a_difference_names_the_seed_and_the_shortest_sequence() -> None:
    class Forgetful(MemoryStore):
        async def locks(self, where: LockFilter | None = None) -> list[LockRow]:
            return []

    async def differ() -> None:
        clock = ManualClock()
        await compare(MemoryStore(clock), Forgetful(clock), clock=clock, seed=3, length=200)

    with pytest.raises(AssertionError, match=r"seed 3, step \d+ \(shown by length=\d+\)") as raised:
        asyncio.run(differ())
    assert "locks() should be" in str(raised.value)
