"""A page of a job's history or logs costs what the job has, however many lines all the others have; and how the audit
log is read."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from penstock.store import migrations
from penstock.store.protocol import AuditFilter
from penstock.store.sql.postgres import PostgresStore
from penstock.store.sql.sqlite import SqliteStore

QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "its newest lines": lambda store: store.history_page("old", limit=10, newest=True),
    "lines before another": lambda store: store.history_page("old", before=10**6, limit=10, newest=True),
    "its first lines": lambda store: store.history_page("late", limit=10),
    "its logs": lambda store: store.logs("old", limit=10),
}


def asked_by(store: Any, question: Callable[[Any], Any]) -> tuple[str, tuple[Any, ...]]:
    found: list[tuple[str, tuple[Any, ...]]] = []

    async def rows(sql: str, args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        found.append((sql, args))
        return []

    store.rows = rows
    asyncio.run(question(store))
    return found[0]


@pytest.mark.parametrize("question", QUESTIONS)
def test_sqlite_goes_to_the_lines_of_the_job_and_sorts_nothing(question: str, tmp_path: Path) -> None:
    sql, args = asked_by(SqliteStore(str(tmp_path / "penstock.db")), QUESTIONS[question])
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(migrations.whole_schema("sqlite"))
        plan = [line for *_, line in database.execute(f"EXPLAIN QUERY PLAN {sql}", args)]
    assert len(plan) == 1 and "USING INDEX" in plan[0] and "(job=?" in plan[0], plan


def test_postgres_goes_to_the_lines_of_the_job(postgres_url: str) -> None:
    async def fill(database: Any) -> None:
        await database.execute(migrations.whole_schema("postgresql"))
        # Jobs of many lines each: one that was early, one that is late, and others between.
        jobs = ["old"] * 2000 + [f"job {n % 10}" for n in range(30_000)] + ["late"] * 2000
        events = [(job, 1.0, "again", "poll", "waiting", 1, n, 1) for n, job in enumerate(jobs)]
        columns = ["job", "at", "kind", "step", "status", "epoch", "move", "attempt"]
        await database.copy_records_to_table("history", records=events, columns=columns)
        lines = [(job, 1.0, "poll", 1, "info", "said") for job in jobs]
        columns = ["job", "at", "step", "attempt", "level", "text"]
        await database.copy_records_to_table("logs", records=lines, columns=columns)
        await database.execute("ANALYZE")

    async def plan_of(sql: str, args: tuple[Any, ...]) -> str:
        database = await asyncpg.connect(postgres_url)
        (text,) = await database.fetchrow(f"EXPLAIN (FORMAT JSON) {sql}", *args)
        await database.close()
        return json.dumps(json.loads(text))

    async def filled() -> None:
        database = await asyncpg.connect(postgres_url)
        await fill(database)
        await database.close()

    asyncio.run(filled())
    walked = {}
    for question in QUESTIONS:
        sql, args = asked_by(PostgresStore(postgres_url), QUESTIONS[question])
        for n in range(1, len(args) + 1):
            sql = sql.replace("?", f"${n}", 1)
        plan = asyncio.run(plan_of(sql, args))
        if "_pkey" in plan or "Seq Scan" in plan:
            walked[question] = plan
    assert walked == {}


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        (AuditFilter(tenant="acme"), "SEARCH audit USING INDEX audit_by_tenant (tenant=?)"),
        (AuditFilter(target="job:x", action="job.pause"), "SEARCH audit USING INDEX audit_by_target (target=?)"),
        (AuditFilter(actor="ann"), "SCAN audit USING INDEX sqlite_autoindex_audit_1"),
        (AuditFilter(action="login"), "SCAN audit USING INDEX sqlite_autoindex_audit_1"),
    ],
)
def test_entries_of_the_audit_log_are_read_newest_first(where: AuditFilter, wanted: str, tmp_path: Path) -> None:
    sql, args = asked_by(SqliteStore(str(tmp_path / "penstock.db")), lambda store: store.audit(where))
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(migrations.whole_schema("sqlite"))
        assert [line for *_, line in database.execute(f"EXPLAIN QUERY PLAN {sql}", args)] == [wanted]
