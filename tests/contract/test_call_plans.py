"""What is asked about calls costs what the answer is worth: an index leads to it, however many calls were ever made."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from typing import Any

import asyncpg
import pytest

from penstock.engine.call import CALL_COLUMNS, CallRow
from penstock.store import migrations
from penstock.store.protocol import CallFilter, CostFilter
from penstock.store.sql.reading import Reading
from penstock.store.sql.statements import statements

STATEMENTS: dict[str, tuple[Any, ...]] = {
    "take_calls": (1.0, ["batch"], 8),
    "last_call": ("j", "k"),
    "superseded": ("j", "k", 1),
    "over_calls": (["c1", "c2"],),
    "held_amounts": (["tokens", "budget:tenant:acme"],),
    "budgets": (["tenant:acme"],),
    "calls_of_tenant": ("acme",),
    "calls_of_job": ("j",),
    "calls_of_batch": ("b",),
    "holds_of_calls": (["c1"],),
    "orphaned_calls": (),
}
"""Asked by every transaction that sends, learns, sets a budget or tidies up."""

SWEPT = {"strip_calls": ("j",), "inherit_calls": ("new", "old")}
ENDED, LIVE = 20_000, 500
A_JOB = ("acme", "draw", 1, "default", "d", 50, 3600, 20, 1.0, 1.0, "running", "held", "one", "[]", "lane", "")
JOB_COLUMNS = (
    "tenant", "workflow", "run", "queue", "digest", "base", "period", "cap", "aged_from", "created", "status", "phase",
    "step", "payload", "lane", "resource",
)  # fmt: skip
QUESTIONS = {
    "next_call_due": lambda asked: asked.next_call_due(("batch",)),
    "costs since a day": lambda asked: asked.costs(CostFilter(by=("tenant", "day"), since=5.0)),
    "costs of a job": lambda asked: asked.costs(CostFilter(job="j")),
    "the newest calls": lambda asked: asked.calls(CallFilter()),
    "the overdue calls": lambda asked: asked.calls(CallFilter(state=("overdue", "quarantined"))),
}


class Asked(Reading):
    """Keeps what a question asks the database."""

    def __init__(self) -> None:
        self.sql: tuple[str, tuple[Any, ...]] = ("", ())

    async def rows(self, sql: str, args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        self.sql = (sql, args)
        raise NotImplementedError

    def day_of(self, column: str) -> str:
        return f"round({column} / 86400)"


def asked_by(question: str) -> tuple[str, tuple[Any, ...]]:
    reading = Asked()
    with pytest.raises(NotImplementedError):
        asyncio.run(QUESTIONS[question](reading))
    return reading.sql


@pytest.mark.parametrize("name", [*STATEMENTS, *SWEPT, *QUESTIONS])
def test_sqlite_walks_no_table_of_calls(name: str) -> None:
    sql, values = asked_by(name) if name in QUESTIONS else (statements("sqlite")[name], (STATEMENTS | SWEPT)[name])
    bound = tuple(json.dumps(value) if isinstance(value, list) else value for value in values)
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(migrations.whole_schema("sqlite"))
        plan = [line for *_, line in database.execute(f"EXPLAIN QUERY PLAN {sql}", bound)]
    walked = [line for line in plan if line.startswith(("SCAN calls", "SCAN c", "SCAN holds", "SCAN jobs"))]
    assert [line for line in walked if "INDEX calls_by_time" not in line or "LIMIT" not in sql] == [], plan


def test_postgres_walks_no_table_of_calls(postgres_url: str) -> None:
    async def go() -> None:
        database = await asyncpg.connect(postgres_url)
        await database.execute(migrations.whole_schema("postgresql"))
        states = ["collected"] * ENDED + ["running"] * LIVE
        calls = [
            CallRow(f"c{n}", "acme", f"j{n}", "draw", "batch", "k", 1, 1.0 * n, state) for n, state in enumerate(states)
        ]
        values = [tuple(getattr(row, column) for column in CALL_COLUMNS) for row in calls]
        await database.copy_records_to_table("calls", records=values, columns=list(CALL_COLUMNS))
        jobs = [(row.job, row.job, *A_JOB) for row in calls]
        await database.copy_records_to_table("jobs", records=jobs, columns=["id", "key", *JOB_COLUMNS])
        await database.execute("ANALYZE")
        asked = {name: (statements("postgresql")[name], values) for name, values in STATEMENTS.items()}
        asked |= {
            name: (statements("postgresql")[name], tuple([value] for value in values)) for name, values in SWEPT.items()
        }
        walked = {}
        for name, (sql, arguments) in asked.items():
            plan = "\n".join(line for (line,) in await database.fetch(f"EXPLAIN {sql}", *arguments))
            if "Seq Scan on calls" in plan or "Seq Scan on jobs" in plan:
                walked[name] = plan
        await database.close()
        assert walked == {}

    asyncio.run(go())
