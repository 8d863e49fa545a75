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
from penstock.engine.outcome import Move
from penstock.store import migrations
from penstock.store.migrations.render import HERE, config, render
from penstock.store.protocol import Beat, Budget, Claim, Commit, Intend, Learn, SetBudget
from penstock.store.schema import metadata
from penstock.store.sql.postgres import PostgresStore
from penstock.store.sql.sqlite import SqliteStore
from tests.support.postgres import PostgresServer

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


def _from_tables(dialect: Dialect) -> str:
    statements = []
    for table in metadata.sorted_tables:
        statements.append(str(CreateTable(table).compile(dialect=dialect)))
        statements.extend(str(CreateIndex(index).compile(dialect=dialect)) for index in table.indexes)
    return ";\n".join(statements) + ";"
