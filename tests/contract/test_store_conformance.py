"""Every store answers every operation as the in-memory oracle does."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from penstock.store.conformance import Coverage, ManualClock, compare
from penstock.store.memory import MemoryStore
from penstock.store.protocol import LockRow
from penstock.store.schema import metadata
from penstock.store.sql.postgres import PostgresStore
from penstock.store.sql.sqlite import SqliteStore

LENGTH = 60


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: fourteen thousand commits would wait for a disk, and none is lost here."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.mark.parametrize("first", range(0, 240, 40))
def test_sqlite_answers_as_the_oracle(first: int, quick_folder: Path) -> None:
    empty = quick_folder / "empty.db"

    async def conform(seed: int) -> None:
        clock = ManualClock()
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
        for seed in range(first, first + 40):
            await conform(seed)

    asyncio.run(all_seeds())


def test_postgres_answers_as_the_oracle(postgres_url: str) -> None:
    async def all_seeds() -> None:
        clock = ManualClock()
        store = PostgresStore(postgres_url, clock=clock)
        await store.open()
        cleaner = await asyncpg.connect(postgres_url)
        try:
            for seed in range(1000, 1020):
                await compare(MemoryStore(clock), store, clock=clock, seed=seed, length=LENGTH)
                await cleaner.execute("TRUNCATE " + ", ".join(table.name for table in metadata.sorted_tables))
        finally:
            await cleaner.close()
            await store.close()

    asyncio.run(all_seeds())


def test_sequences_reach_every_operation_done_and_refused() -> None:
    """A suite that only ever sees refusals, or only successes, would prove nothing."""
    coverage = Coverage()

    async def look() -> None:
        for seed in range(120):
            clock = ManualClock()
            oracle, same = MemoryStore(clock), MemoryStore(clock)
            coverage.update(await compare(oracle, same, clock=clock, seed=seed, length=LENGTH))

    asyncio.run(look())
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
    assert wanted <= coverage.seen.keys(), f"never seen: {sorted(wanted - coverage.seen.keys())}"


def test_a_difference_names_the_seed_and_the_shortest_sequence() -> None:
    class Forgetful(MemoryStore):
        async def locks(self, *, tenant: str | None = None) -> list[LockRow]:
            return []

    async def differ() -> None:
        clock = ManualClock()
        await compare(MemoryStore(clock), Forgetful(clock), clock=clock, seed=3, length=200)

    with pytest.raises(AssertionError, match=r"seed 3, step \d+ \(shown by length=\d+\)") as raised:
        asyncio.run(differ())
    assert "locks() should be" in str(raised.value)
