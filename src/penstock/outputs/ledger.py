"""Which version of an output counts: one row for each public name, written in the same commit as the step that made it.

The public file is made from the row, never the other way round, so a worker that lost its claim cannot bring an old
content back.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TextIO, runtime_checkable

from penstock.engine.errors import InvalidRequest, PenstockError
from penstock.outputs.files import Content, Stored, checked_output, drop_older, fingerprint, publish, store_version

_COLUMNS = "name, version, sha256, size, previous"
_COUNTS = (
    "INSERT INTO outputs (name, version, sha256, size, job, published)"
    " VALUES (:name, :version, :sha256, :size, :job, 0)"
    " ON CONFLICT (name) DO UPDATE SET previous = outputs.version, version = excluded.version,"
    " sha256 = excluded.sha256, size = excluded.size, job = excluded.job, published = 0"
)
_PUBLISHED = "UPDATE outputs SET published = 1, previous = NULL WHERE name = :name AND version = :version"


log = logging.getLogger("penstock.outputs")

Statement = tuple[str, dict[str, Any]]


@runtime_checkable
class Database(Protocol):
    """What the ledger needs of a store: answers to SQL questions."""

    async def rows(self, sql: str, args: tuple[Any, ...]) -> list[tuple[Any, ...]]: ...


class Outputs:
    """The outputs of all tenants under one folder, `{root}/{tenant}/…`. Given to an engine, which connects it to its
    store."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._store: Database | None = None
        self._carry_out: Callable[[Statement], Awaitable[None]] | None = None

    def connect(self, store: object, write: Callable[[Statement], Awaitable[None]]) -> None:
        """`write` carries out a statement on the same store, outside of a tick."""
        self._store = store if isinstance(store, Database) and callable(store.rows) else None
        self._carry_out = write

    def path(self, name: str, *, tenant: str = "default") -> Path:
        """Where the public file of this name is, or will be."""
        return self.root / tenant / checked_output(name)

    async def add(self, name: str, content: Content, *, tenant: str, job: str, epoch: int) -> tuple[Stored, Statement]:
        """Write a version, and give the statement that makes it count when it joins the step's commit."""
        if self._store is None:
            raise InvalidRequest("outputs need a SQL store: the memory store keeps no files")
        full = f"{tenant}/{checked_output(name)}"
        stored = await asyncio.to_thread(store_version, self.root, full, content, job=job, epoch=epoch)
        return stored, _counts(stored, job)

    async def adopt(self, name: str, *, tenant: str = "default", job: str = "") -> Stored | None:
        """A public file that has no row (it was there before, or its row was lost) becomes an output as it is."""
        full = f"{tenant}/{checked_output(name)}"
        public = self.root / full
        if await self._row(full) is not None or not public.is_file():
            return None
        content = await asyncio.to_thread(public.read_bytes)
        stored = await asyncio.to_thread(store_version, self.root, full, content, job=job or "adopted", epoch=1)
        await self._write(_counts(stored, job))
        await self.publish([full])
        return stored

    async def current(self, name: str, *, tenant: str = "default") -> Stored | None:
        """The version that counts, or None."""
        found = await self._row(f"{tenant}/{checked_output(name)}")
        return None if found is None else found[0]

    async def publish(self, names: list[str]) -> int:
        """Make the public files show what the rows say; returns how many do now. One publisher at a time on this
        machine. A name that cannot be made public now is left for the next sweep, and does not hold up the others."""
        done = 0
        gate = await asyncio.to_thread(self._enter)
        try:
            for name in names:
                try:
                    done += await self._publish_one(name)
                except (OSError, PenstockError) as error:
                    log.warning("output %s is stored but not yet public: %s", name, error)
        finally:
            gate.close()
        return done

    async def _publish_one(self, name: str) -> bool:
        found = await self._row(name)
        if found is None:
            return False
        stored, previous = found
        if not await asyncio.to_thread(publish, self.root, stored):
            return False
        await self._write((_PUBLISHED, {"name": name, "version": stored.version}))
        await asyncio.to_thread(drop_older, self.root, stored, previous)
        return True

    async def mend(self, *, most: int = 500) -> int:
        """Publish what a crash left unpublished. Part of every sweep."""
        found = await self._ask("SELECT name FROM outputs WHERE published = 0 ORDER BY name LIMIT ?", (most,))
        return await self.publish([name for (name,) in found]) if found else 0

    async def check(self, name: str, *, tenant: str = "default") -> bool:
        """Whether the public file is there and is what the row says."""
        stored = await self.current(name, tenant=tenant)
        public = self.path(name, tenant=tenant)
        if stored is None or not public.is_file():
            return False
        return await asyncio.to_thread(fingerprint, public) == (stored.sha256, stored.size)

    async def _row(self, full: str) -> tuple[Stored, str | None] | None:
        found = await self._ask(f"SELECT {_COLUMNS} FROM outputs WHERE name = ?", (full,))
        return (Stored(*found[0][:4]), found[0][4]) if found else None

    async def _ask(self, sql: str, args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return [] if self._store is None else await self._store.rows(sql, args)

    async def _write(self, statement: Statement) -> None:
        if self._carry_out is not None:
            await self._carry_out(statement)

    def _enter(self) -> TextIO:
        self.root.mkdir(parents=True, exist_ok=True)
        gate = (self.root / ".publishing").open("w")
        fcntl.flock(gate, fcntl.LOCK_EX)
        return gate


def _counts(stored: Stored, job: str) -> Statement:
    values = {"name": stored.name, "version": stored.version, "sha256": stored.sha256, "size": stored.size, "job": job}
    return _COUNTS, values
