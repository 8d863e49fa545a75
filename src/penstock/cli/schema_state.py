"""Which schema a store has, found out without changing anything: opening a store would make or move it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from penstock.cli.sessions import sqlite_path
from penstock.engine.errors import SchemaMismatch, StoreError, StoreReadOnly
from penstock.store import migrations


@dataclass(slots=True, frozen=True)
class SchemaState:
    """`revision` is None for a store without tables; `exists` is False where not even the file is there."""

    revision: str | None
    exists: bool = True

    @property
    def current(self) -> bool:
        return self.revision == migrations.HEAD


async def schema_state(url: str) -> SchemaState:
    """Raises `SchemaMismatch` for tables that are not ours; a newer revision is an answer, not an error."""
    path = sqlite_path(url)
    if path is not None:
        return await asyncio.to_thread(_sqlite, path, url) if path.exists() else SchemaState(None, exists=False)
    if url.startswith(("postgresql://", "postgres://")):
        return await _postgres(url)
    return SchemaState(migrations.HEAD)


def _sqlite(path: Path, url: str) -> SchemaState:
    from penstock.store.sql.sqlite import revision_of

    try:
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5)
        try:
            return SchemaState(revision_of(connection))
        finally:
            connection.close()
    except sqlite3.Error as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            raise SchemaMismatch(f"{url} is not a SQLite database: point Penstock at another file") from error
        if not os.access(path.parent, os.W_OK):
            raise StoreReadOnly(
                f"{url} cannot be opened: its folder cannot be written, and SQLite needs files of its own beside the "
                "store even for reading; make the folder writable, or copy the store elsewhere and name it with --store"
            ) from error
        raise StoreError(f"{url} cannot be read ({error}): check the file and the permissions of its folder") from error


async def _postgres(url: str) -> SchemaState:
    from penstock.store.sql.postgres_connection import connect, quietly_close

    connection = await connect(url)
    try:
        if await connection.fetchval("SELECT to_regclass('alembic_version')") is None:
            return SchemaState(None)
        return SchemaState(await connection.fetchval("SELECT version_num FROM alembic_version"))
    finally:
        await quietly_close(connection)
