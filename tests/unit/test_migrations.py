"""The schema is written down three times (tables, revisions, rendered SQL): all three say the same."""

from __future__ import annotations

import asyncio
import io
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest
from alembic.script import ScriptDirectory
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from penstock.engine.call import Fact, Hold, NewCall
from penstock.engine.errors import SchemaMismatch
from penstock.engine.model import Event, NewJob
from penstock.engine.outcome import Move
from penstock.pipelines.documents import tables as documents_tables
from penstock.pipelines.ingestion import tables as ingestion_tables
from penstock.pipelines.pages import tables as pages_tables
from penstock.store import migrations
from penstock.store.migrations.render import HERE, config, render
from penstock.store.protocol import (
    Announce,
    Beat,
    Budget,
    Claim,
    Commit,
    Control,
    Intend,
    Learn,
    SetBudget,
    Submit,
    Tidy,
)
from penstock.store.schema import metadata
from penstock.store.sql.postgres import PostgresStore
from penstock.store.sql.sqlite import SqliteStore
from tests.support.postgres import PostgresServer

assert pages_tables.metadata is metadata, "a pipeline's tables are described beside the others"
assert documents_tables.metadata is metadata
assert ingestion_tables.metadata is metadata

OURS = "relname <> 'alembic_version'"


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_the_sql_files_are_what_alembic_renders(dialect: str) -> None:
    assert (HERE / f"{dialect}.sql").read_text() == render(dialect), "run: python -m penstock.store.migrations"


def test_the_known_revisions_are_alembics() -> None:
    script = ScriptDirectory.from_config(config("sqlite", io.StringIO()))
    assert script.get_heads() == [migrations.HEAD]
    in_order = [revision.revision for revision in script.walk_revisions()][::-1]
    assert tuple(in_order) == migrations.REVISIONS


def test_every_older_revision_can_be_upgraded() -> None:
    for revision in migrations.REVISIONS[:-1]:
        for dialect in ("sqlite", "postgresql"):
            assert f"'{migrations.HEAD}'" in migrations.upgrade_script(dialect, revision)


def test_the_tables_are_what_the_revisions_make_on_sqlite() -> None:
    def made_by(sql: str) -> set[object]:
        with closing(sqlite3.connect(":memory:")) as database:
            database.executescript(sql)
            found: set[object] = set()
            tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (table,) in tables:
                if table != "alembic_version":
                    columns = database.execute(f"PRAGMA table_info({table})").fetchall()
                    found |= {(table, name, kind, needed, key) for _, name, kind, needed, _, key in columns}
            indexes = database.execute("SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
            return found | {" ".join(sql.split()) for (sql,) in indexes}

    assert made_by(_from_tables(sqlite.dialect())) == made_by(migrations.whole_schema("sqlite"))


def test_the_tables_are_what_the_revisions_make_on_postgres(postgres_server: PostgresServer) -> None:
    async def made_by(sql: str, url: str) -> set[object]:
        connection = await asyncpg.connect(url)
        await connection.execute(sql)
        columns = await connection.fetch(
            "SELECT relname, attname, format_type(atttypid, atttypmod), attnotnull, attcollation::regcollation::text,"
            " pg_get_expr(adbin, adrelid) FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid"
            " LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum"
            f" WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND attnum > 0 AND {OURS}"
        )
        indexes = await connection.fetch(
            "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'alembic_version'"
        )
        await connection.close()
        return {tuple(column) for column in columns} | {index[0] for index in indexes}

    async def both() -> tuple[set[object], set[object]]:
        tables, revisions = (postgres_server.url(name) for name in names)
        return (
            await made_by(_from_tables(postgresql.dialect()), tables),
            await made_by(migrations.whole_schema("postgresql"), revisions),
        )

    names = [re.findall(r"/(test_\d+)", postgres_server.fresh_database())[0] for _ in range(2)]
    from_tables, from_revisions = asyncio.run(both())
    assert from_tables == from_revisions


def test_text_sorts_as_python_sorts_it_on_postgres() -> None:
    made = migrations.whole_schema("postgresql")
    plain = re.findall(r"^ +\S+ TEXT(?! COLLATE \"C\").*$", made, re.MULTILINE)
    assert plain == []


def test_a_sqlite_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    async def go() -> None:
        path = tmp_path / "store.db"
        store = SqliteStore(path)
        await store.open()
        await store.close()
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("UPDATE alembic_version SET version_num = '9999'")
        newer = SqliteStore(path)
        with pytest.raises(SchemaMismatch, match="newer Penstock"):
            await newer.open()
        await newer.close()

    asyncio.run(go())


FIRST_SCHEMA = "0001"
A_JOB = {
    "id": "old", "tenant": "acme", "workflow": "draw", "key": "old", "run": 1, "queue": "default", "digest": "d",
    "base": 50, "period": 3600, "cap": 20, "aged_from": 1.0, "created": 1.0, "status": "queued", "phase": "ready",
    "step": "one", "payload": "[]", "lane": "default/draw/50,3600,20///", "resource": "",
}  # fmt: skip
INSERT = f"INSERT INTO jobs ({', '.join(A_JOB)}) VALUES ({{}})"


async def _calls_work(store: SqliteStore | PostgresStore) -> None:
    """A job from before there were calls makes one."""
    await store.apply([Beat("w", 600, first=True), SetBudget("tenant:acme", 100)])
    [claimed] = (await store.apply([Claim("w", "default", ("draw",))])).answers
    [row] = claimed.rows
    new = NewCall(remote="batch", key="k", attempt=1, estimate=30, holds=(Hold("tokens", 5, 10),))
    [intended] = (await store.apply([Intend(row.id, row.epoch, new)])).answers
    wait = Move(row.id, row.epoch, 1, "again", "one", "[]", after=3600.0, until=(intended.row.id,))
    await store.apply([Commit(wait)])
    await store.apply([Learn(Fact(call=intended.row.id, kind="collected", result="1", cost=20))])
    job = await store.job("old")
    assert job is not None and job.status == "queued"
    assert await store.budgets() == [Budget("tenant:acme", 100, spent=20)]


def test_a_sqlite_file_with_jobs_is_upgraded_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(render("sqlite", to=FIRST_SCHEMA))
        database.execute(INSERT.format(", ".join("?" * len(A_JOB))), tuple(A_JOB.values()))
        database.commit()

    async def go() -> None:
        store = SqliteStore(path)
        await store.open()
        try:
            await _calls_work(store)
        finally:
            await store.close()

    asyncio.run(go())


def test_a_postgres_database_with_jobs_is_upgraded_when_asked(postgres_url: str) -> None:
    async def go() -> None:
        old = await asyncpg.connect(postgres_url)
        await old.execute(render("postgresql", to=FIRST_SCHEMA))
        places = ", ".join(f"${n}" for n in range(1, len(A_JOB) + 1))
        await old.execute(INSERT.format(places), *A_JOB.values())
        await old.close()
        store = PostgresStore(postgres_url)
        with pytest.raises(SchemaMismatch, match="penstock migrate"):
            await store.open()
        assert await store.migrate()
        await store.open()
        try:
            await _calls_work(store)
        finally:
            await store.close()

    asyncio.run(go())


BEFORE_THE_SERVICE = "0002"
TOLD = ("job", "at", "kind", "step", "status", "epoch", "move", "attempt", "took", "worker", "note")
OLD_LINES = [
    ("old", 1.0, "next", "one", "running", 1, 1, 1, 0.25, "w", None),
    ("gone", 2.0, "done", "one", "completed", 1, 1, 1, None, None, None),
    ("old", 3.0, "pause", "two", "paused", 0, 0, 0, None, "ann", "lunch \U0001f35c; 'later'"),
    ("old", 4.0, "resume", "two", "queued", 0, 0, 0, None, None, None),
]


async def _history_goes_on(store: SqliteStore | PostgresStore, numbers: list[int]) -> None:
    """Every line is there under its number; the next ones are larger, also when the last have been dropped."""
    lines = await store.changes(0)
    kept = [line for line in OLD_LINES if line[0] == "old"]
    assert [line.id for line in lines] == numbers
    assert [line.event for line in lines] == [Event(*line) for line in kept] == await store.history("old")
    [paused, told] = (await store.apply([Control("old", "pause"), Announce("old", "sla breached")])).answers
    assert paused.status == "paused" and told is True
    newer = await store.changes(numbers[-1])
    assert [line.event.kind for line in newer] == ["pause", "sla breached"]
    await store.apply([Control("old", "cancel"), Submit((NewJob("new", "draw", "one", "[]", "d"),))])
    last = await store.last_change()
    assert last > newer[-1].id
    await store.apply([Tidy(keep_completed=0.0)])
    assert await store.job("old") is None and await store.last_change() == 0
    await store.apply([Control("new", "pause")])
    [line] = await store.changes(last)
    assert line.event.job == "new"


def test_a_sqlite_file_with_history_keeps_its_lines_and_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(render("sqlite", to=BEFORE_THE_SERVICE))
        database.execute(INSERT.format(", ".join("?" * len(A_JOB))), tuple(A_JOB.values()))
        marks = ", ".join("?" * len(TOLD))
        database.executemany(f"INSERT INTO history ({', '.join(TOLD)}) VALUES ({marks})", OLD_LINES)
        database.execute("DELETE FROM history WHERE job = 'gone'")
        database.commit()

    async def go() -> None:
        store = SqliteStore(path)
        await store.open()
        try:
            await _history_goes_on(store, [1, 3, 4])
        finally:
            await store.close()

    asyncio.run(go())
    with closing(sqlite3.connect(path)) as database:
        assert [row[0] for row in database.execute("PRAGMA integrity_check")] == ["ok"]
        assert database.execute("SELECT name FROM sqlite_master WHERE name LIKE 'old_%'").fetchall() == []


def test_a_postgres_database_with_history_keeps_its_lines_and_their_numbers(postgres_url: str) -> None:
    async def go() -> None:
        old = await asyncpg.connect(postgres_url)
        await old.execute(render("postgresql", to=BEFORE_THE_SERVICE))
        places = ", ".join(f"${n}" for n in range(1, len(A_JOB) + 1))
        await old.execute(INSERT.format(places), *A_JOB.values())
        marks = ", ".join(f"${n}" for n in range(1, len(TOLD) + 1))
        await old.executemany(f"INSERT INTO history ({', '.join(TOLD)}) VALUES ({marks})", OLD_LINES)
        await old.execute("DELETE FROM history WHERE job = 'gone'")
        await old.close()
        store = PostgresStore(postgres_url)
        assert await store.migrate()
        await store.open()
        try:
            await _history_goes_on(store, [1, 3, 4])
        finally:
            await store.close()

    asyncio.run(go())


def _from_tables(dialect: Dialect) -> str:
    statements = []
    for table in metadata.sorted_tables:
        statements.append(str(CreateTable(table).compile(dialect=dialect)))
        statements.extend(str(CreateIndex(index).compile(dialect=dialect)) for index in table.indexes)
    return ";\n".join(statements) + ";"
