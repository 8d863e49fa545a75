"""Which version of an output counts: one row for each public name, written in the same commit as the step that made it.

The public file is made from the row, never the other way round, so a worker that lost its claim cannot bring an old
content back.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TextIO, runtime_checkable

from penstock.engine.errors import InvalidRequest, NotFound, PenstockError
from penstock.outputs.files import (
    Content,
    Stored,
    checked_output,
    drop_older,
    fingerprint,
    publish,
    store_version,
    store_versions,
    sync_folder,
)

_COLUMNS = "name, version, sha256, size, previous"
_COUNTS = (
    "INSERT INTO outputs (name, version, sha256, size, job, published)"
    " VALUES (:name, :version, :sha256, :size, :job, 0)"
    " ON CONFLICT (name) DO UPDATE SET previous = outputs.version, version = excluded.version,"
    " sha256 = excluded.sha256, size = excluded.size, job = excluded.job, published = 0"
)
_PUBLISHED = "UPDATE outputs SET published = 1, previous = NULL WHERE name = :name AND version = :version"
_MOST_NAMED = 500
"""Names in one question."""

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
        self._carry_out: Callable[..., Awaitable[object]] | None = None
        self._turn = asyncio.Lock()
        self._due: list[tuple[list[str], asyncio.Future[set[str]]]] = []

    def connect(self, store: object, write: Callable[..., Awaitable[object]]) -> None:
        """`write` carries out statements on the same store, in one transaction, outside of a tick."""
        self._store = store if isinstance(store, Database) and callable(store.rows) else None
        self._carry_out = write

    def path(self, name: str, *, tenant: str = "default") -> Path:
        """Where the public file of this name is, or will be."""
        return self.root / tenant / checked_output(name)

    async def add(self, name: str, content: Content, *, tenant: str, job: str, epoch: int) -> tuple[Stored, Statement]:
        """Write a version, and give the statement that makes it count when it joins the step's commit."""
        return (await self.add_all(lambda: {name: content}, tenant=tenant, job=job, epoch=epoch))[0]

    async def add_all(
        self, contents: Callable[[], Mapping[str, Content]], *, tenant: str, job: str, epoch: int
    ) -> list[tuple[Stored, Statement]]:
        """The same for several at once, which are made in the thread that writes them."""
        if self._store is None:
            raise InvalidRequest("outputs need a SQL store: the memory store keeps no files")

        def store() -> list[Stored]:
            named = {f"{tenant}/{checked_output(name)}": content for name, content in contents().items()}
            return store_versions(self.root, named, job=job, epoch=epoch)

        return [(stored, _counts(stored, job)) for stored in await asyncio.to_thread(store)]

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

    async def shown(self, name: str, *, tenant: str = "default") -> Path:
        """The public file, which shows what the last commit says of it. A file is public a moment after its step's
        commit; a reader that has just waited for the job does not have to look twice."""
        full = f"{tenant}/{checked_output(name)}"
        if not await self.publish([full]):
            raise NotFound(f"there is no output {name!r}" if await self._row(full) is None else f"{name!r} is lost")
        return self.root / full

    async def publish(self, names: list[str]) -> int:
        """Make the public files show what the rows say; returns how many do now. One publisher at a time on this
        machine, who does all that has come up meanwhile in one go. A name that cannot be made public now is left for
        the next sweep, and does not hold up the others."""
        mine: asyncio.Future[set[str]] = asyncio.get_running_loop().create_future()
        self._due.append((names, mine))
        async with self._turn:
            if not mine.done():
                await self._publish_due()
        shown = mine.result()
        return sum(name in shown for name in names)

    async def _publish_due(self) -> None:
        due, self._due = self._due, []
        names = sorted({name for asked, _ in due for name in asked})
        work = asyncio.create_task(self._published(names), name="penstock-publish")
        try:
            shown = await asyncio.shield(work)
        except asyncio.CancelledError:
            # This one is stopped, not the others: whoever is next does it for them, once the files are let go of.
            self._due = due + self._due
            work.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise
        except BaseException as error:
            for _, waiting in due:
                if not waiting.done():
                    waiting.set_exception(error)
            raise
        for _, waiting in due:
            if not waiting.done():
                waiting.set_result(shown)

    async def _published(self, names: list[str]) -> set[str]:
        # Waiting for the others' turn takes a thread: one at a time, or none would be left for whoever has it.
        gate = await asyncio.to_thread(self._enter)
        try:
            found = await self._rows(names)
            shown = await asyncio.to_thread(self._show, [stored for stored, _ in found])
            if not shown:
                return set()
            new = [(stored, previous) for stored, previous in found if stored.name in shown]
            await self._write(*((_PUBLISHED, {"name": each.name, "version": each.version}) for each, _ in new))
            await asyncio.to_thread(self._drop_older, new)
            return shown
        finally:
            gate.close()

    def _show(self, all_stored: list[Stored]) -> set[str]:
        """The names of those whose public files show them now."""
        shown: dict[str, Path] = {}
        for stored in all_stored:
            try:
                if publish(self.root, stored):
                    shown[stored.name] = (self.root / stored.name).parent
            except (OSError, PenstockError) as error:
                log.warning("output %s is stored but not yet public: %s", stored.name, error)
        for folder in set(shown.values()):
            sync_folder(folder)
        return set(shown)

    def _drop_older(self, published: list[tuple[Stored, str | None]]) -> None:
        for stored, previous in published:
            try:
                drop_older(self.root, stored, previous)
            except OSError as error:
                log.warning("an older version of output %s could not be removed: %s", stored.name, error)

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
        found = await self._rows([full])
        return found[0] if found else None

    async def _rows(self, names: list[str]) -> list[tuple[Stored, str | None]]:
        rows: list[tuple[Any, ...]] = []
        for start in range(0, len(names), _MOST_NAMED):
            some = names[start : start + _MOST_NAMED]
            marks = ", ".join("?" * len(some))
            rows += await self._ask(f"SELECT {_COLUMNS} FROM outputs WHERE name IN ({marks})", tuple(some))
        return [(Stored(*row[:4]), row[4]) for row in rows]

    async def _ask(self, sql: str, args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return [] if self._store is None else await self._store.rows(sql, args)

    async def _write(self, *statements: Statement) -> None:
        if self._carry_out is not None:
            await self._carry_out(*statements)

    def _enter(self) -> TextIO:
        self.root.mkdir(parents=True, exist_ok=True)
        gate = (self.root / ".publishing").open("w")
        fcntl.flock(gate, fcntl.LOCK_EX)
        return gate


def _counts(stored: Stored, job: str) -> Statement:
    values = {"name": stored.name, "version": stored.version, "sha256": stored.sha256, "size": stored.size, "job": job}
    return _COUNTS, values
