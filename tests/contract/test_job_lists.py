"""A page of jobs is found by way of few rows, however many there are; and every way leads to the same page."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from penstock.engine.model import JOB_COLUMNS, STATUSES, JobRow
from penstock.store import migrations
from penstock.store.protocol import JobFilter
from penstock.store.sql import listing
from penstock.store.sql.postgres import PostgresStore
from penstock.store.sql.sqlite import SqliteStore

PHASES = {"queued": "ready", "running": "held", "waiting": "timed"}
MANY = 30_000
Ask = Callable[[str, tuple[Any, ...]], Awaitable[list[Any]]]


def job(number: int, *, tenant: str, workflow: str, status: str, run: int = 1, parent: str | None = None) -> JobRow:
    return JobRow(
        id=f"j{number:06}", tenant=tenant, workflow=workflow, key=f"k{number}", run=run, queue="default", digest="d",
        parent=parent, fan_in=None, cleanup=None, base=50, period=3600, cap=20, aged_from=1.0, created=1.0 * number,
        status=status, phase=PHASES.get(status, "idle"), step="one", payload="{}", lane="default/draw", batch=None,
        batch_slot=None, resource="", due=5.0 if status == "waiting" else None,
        finished=2.0 if status in ("completed", "failed", "canceled") else None,
    )  # fmt: skip


def small() -> list[JobRow]:
    """Every status in every tenant and workflow, in an order that puts none of them together."""
    kinds = list(product(("acme", "Zen", "default"), ("draw", "read"), STATUSES)) * 3
    rows = [
        job(
            number * 7919 % 1000,
            tenant=tenant,
            workflow=workflow,
            status=status,
            parent="j000000" if number % 5 else None,
        )
        for number, (tenant, workflow, status) in enumerate(kinds)
    ]
    failed = next(row for row in rows if row.status == "failed")
    again = job(1001, tenant=failed.tenant, workflow=failed.workflow, status="completed", run=2)
    again.key = failed.key
    return [*rows, again]


def large() -> list[JobRow]:
    """Nearly all have completed, for one tenant, in one workflow; what else there is is old."""
    others = [job(n, tenant="small", workflow="rare", status=STATUSES[n % 8], parent="j000001") for n in range(24)]
    return others + [job(n, tenant="large", workflow="common", status="completed") for n in range(24, MANY)]


FILTERS = [
    JobFilter(tenant=tenant, workflow=workflow, status=status, before=before, limit=limit, **more)
    for tenant in (None, "acme", "nobody")
    for workflow in (None, "draw")
    for status in (
        (),
        ("running",),
        ("queued", "waiting"),
        ("failed", "canceled"),
        ("completed",),
        ("failed", "queued"),
    )
    for before in (None, "j000500")
    for limit in (1, 4, 500)
    for more in ({}, {"dead": True}, {"key": "k7"}, {"parent": "j000000"}, {"after": "j000300"})
]


def expected(rows: list[JobRow], where: JobFilter) -> list[str]:
    runs = {(row.tenant, row.workflow, row.key, row.run) for row in rows}
    fits = [
        row.id
        for row in rows
        if where.tenant in (None, row.tenant)
        and where.workflow in (None, row.workflow)
        and (not where.status or row.status in where.status)
        and where.key in (None, row.key)
        and where.parent in (None, row.parent)
        and (where.before is None or row.id < where.before)
        and (where.after is None or row.id > where.after)
        and (
            not where.dead or (row.status == "failed" and (row.tenant, row.workflow, row.key, row.run + 1) not in runs)
        )
    ]
    return sorted(fits, reverse=True)[: where.limit]


async def every_way_leads_there(ask: Ask, rows: list[JobRow]) -> None:
    position = JOB_COLUMNS.index("id")
    for where in FILTERS:
        wanted = expected(rows, where)
        *first, last = [[values[position] for values in await ask(sql, args)] for sql, args in listing.questions(where)]
        assert last == wanted, where
        for answer in first:
            # One that looked at the newest only: the page, or as much of it as is among them.
            assert answer == wanted[: len(answer)], where


async def a_brief_list_has_neither_payload_nor_result(store: SqliteStore | PostgresStore) -> None:
    for where in (JobFilter(), JobFilter(status=("completed",)), JobFilter(tenant="acme"), JobFilter(dead=True)):
        whole = await store.jobs(where)
        brief = await store.jobs(replace(where, brief=True))
        assert whole
        assert any(row.payload for row in whole)
        assert brief == [replace(row, payload="", result=None) for row in whole]


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "every_way" in request.node.name:
        monkeypatch.setattr(listing, "WINDOW", 20)


def test_every_way_leads_to_the_same_page_on_sqlite(tmp_path: Path) -> None:
    async def go() -> None:
        fill_sqlite(tmp_path / "jobs.db", small())
        store = SqliteStore(tmp_path / "jobs.db")
        await store.open()
        await every_way_leads_there(store.rows, small())
        await counts_are_right(store, small())
        await a_brief_list_has_neither_payload_nor_result(store)
        await store.close()

    asyncio.run(go())


def test_every_way_leads_to_the_same_page_on_postgres(postgres_url: str) -> None:
    async def go() -> None:
        await fill_postgres(postgres_url, small())
        store = PostgresStore(postgres_url)
        await store.open()
        await every_way_leads_there(store.rows, small())
        await counts_are_right(store, small())
        await a_brief_list_has_neither_payload_nor_result(store)
        await store.close()

    asyncio.run(go())


async def counts_are_right(store: SqliteStore | PostgresStore, rows: list[JobRow]) -> None:
    for tenant in (None, "acme", "nobody"):
        counts: dict[tuple[str, str], int] = {}
        for row in rows:
            if tenant in (None, row.tenant):
                counts[row.workflow, row.status] = counts.get((row.workflow, row.status), 0) + 1
        assert await store.count(tenant=tenant) == counts


RARE = {
    "failed ones": JobFilter(status=("failed",)),
    "running ones": JobFilter(status=("running",)),
    "live ones": JobFilter(status=("queued", "running", "waiting")),
    "cancelled ones": JobFilter(status=("canceled",)),
    "dead letters": JobFilter(dead=True),
    "a tenant's failed ones": JobFilter(tenant="large", status=("failed",)),
    "a tenant's": JobFilter(tenant="small"),
    "a tenant's of a workflow": JobFilter(tenant="small", workflow="rare"),
    "a workflow's": JobFilter(workflow="rare"),
    "a workflow's that completed": JobFilter(workflow="rare", status=("completed",)),
    "a key's": JobFilter(key="k3"),
    "a job's children": JobFilter(parent="j000001"),
}


@pytest.mark.parametrize("name", RARE)
def test_sqlite_walks_no_jobs_to_find_rare_ones(name: str) -> None:
    sql, args = listing.questions(RARE[name])[-1]
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(migrations.whole_schema("sqlite"))
        plan = [line for *_, line in database.execute(f"EXPLAIN QUERY PLAN {sql}", args)]
    walked = [line for line in plan if line.startswith(("SCAN j", "SCAN jobs", "SCAN n"))]
    assert [line for line in walked if "USING INDEX jobs_held" not in line and "INDEX jobs_ready" not in line] == [], (
        plan
    )


def test_postgres_walks_no_jobs_to_find_rare_ones(postgres_url: str) -> None:
    async def go() -> None:
        await fill_postgres(postgres_url, large())
        database = await asyncpg.connect(postgres_url)
        walked = {}
        for name, where in RARE.items():
            for sql, args in listing.questions(where):
                plan = await database.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) {numbered(sql)}", *args)
                read = most_rows(plan[0][0])
                if read > listing.WINDOW:
                    walked[name] = (read, sql)
        await database.close()
        assert walked == {}

    asyncio.run(go())


def numbered(sql: str) -> str:
    first, *others = sql.split("?")
    return first + "".join(f"${number}{part}" for number, part in enumerate(others, 1))


def most_rows(plan: str) -> int:
    """The most rows that any part of a plan has read."""

    def of(node: dict[str, Any]) -> int:
        read = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        return max([read, *(of(child) for child in node.get("Plans", []))])

    return of(json.loads(plan)[0]["Plan"])


def fill_sqlite(path: Path, rows: list[JobRow]) -> None:
    marks = ", ".join("?" * len(JOB_COLUMNS))
    columns = ", ".join(f'"{column}"' for column in JOB_COLUMNS)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(migrations.whole_schema("sqlite"))
        database.executemany(f"INSERT INTO jobs ({columns}) VALUES ({marks})", map(values_of, rows))
        database.commit()


async def fill_postgres(url: str, rows: list[JobRow]) -> None:
    database = await asyncpg.connect(url)
    await database.execute(migrations.whole_schema("postgresql"))
    await database.copy_records_to_table("jobs", records=list(map(values_of, rows)), columns=list(JOB_COLUMNS))
    await database.execute("ANALYZE")
    await database.close()


def values_of(row: JobRow) -> tuple[Any, ...]:
    return tuple(getattr(row, column) for column in JOB_COLUMNS)
