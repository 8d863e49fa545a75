"""A job keeps its newest lines, however much its steps say; and what one says takes nothing from another."""

from __future__ import annotations

import asyncio
from pathlib import Path

from penstock import Again, Context, Penstock, Workflow
from penstock.store.memory import MemoryStore
from penstock.store.protocol import KEPT_LINES, Store
from penstock.store.sql.postgres import PostgresStore
from penstock.store.sql.sqlite import SqliteStore

A_TICK = 190
TICKS = KEPT_LINES // A_TICK + 2


async def check_lines(store: Store) -> None:
    talk = Workflow("talk")

    @talk.step
    async def say(said: int, ctx: Context) -> Again | None:
        for n in range(said, said + A_TICK):
            ctx.log.info("line %d", n)
        return Again(said + A_TICK) if said < (TICKS - 1) * A_TICK else None

    app = Penstock(workflows=[talk], store=store)
    async with app:
        loud, quiet = [(await app.submit("talk", said)).job_id for said in (0, (TICKS - 1) * A_TICK)]
        while any(job.status != "completed" for job in [await app.job(loud), await app.job(quiet)]):
            await app.engine.advance_next()
        everything = [f"line {n}" for n in range(TICKS * A_TICK)]
        assert [line.text for line in await app.logs(loud, limit=9999)] == everything[-KEPT_LINES:]
        assert [line.text for line in await app.logs(quiet, limit=9999)] == everything[-A_TICK:]


def test_a_job_keeps_its_newest_lines_in_memory() -> None:
    asyncio.run(check_lines(MemoryStore()))


def test_a_job_keeps_its_newest_lines_on_sqlite(tmp_path: Path) -> None:
    asyncio.run(check_lines(SqliteStore(tmp_path / "penstock.db")))


def test_a_job_keeps_its_newest_lines_on_postgres(postgres_url: str) -> None:
    asyncio.run(check_lines(PostgresStore(postgres_url)))
