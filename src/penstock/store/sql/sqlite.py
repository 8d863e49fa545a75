"""SQLite: one file, no server. One connection writes, others read; the disk is waited for in a thread, not on the loop.

The statements of a transaction run on the event loop's own thread: a handful for a whole group, each a few microseconds
a job, where CPython would pay more than that for handing them to a thread and back (measured: a third of throughput).
What can take long does not run there: waiting for another process's lock, COMMIT with its fsync, and every question.
"""

from __future__ import annotations

import asyncio
import errno
import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from pydantic_core import from_json

from penstock.engine.clock import Clock, SystemClock, to_the_tick
from penstock.engine.errors import (
    Conflict,
    InvalidRequest,
    PenstockError,
    SchemaMismatch,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from penstock.engine.model import JOB_COLUMNS
from penstock.store import migrations
from penstock.store.protocol import (
    Applied,
    Beat,
    Commit,
    Expect,
    Leave,
    Op,
    RetryBatch,
    SetBudget,
    SetLimits,
    Submit,
    Tidy,
    Write,
    unwrapped,
)
from penstock.store.sql.reading import Reading
from penstock.store.sql.requests import Ask, AskMany, Contended, Guarded, Opening, Steps, Tell
from penstock.store.sql.script import Script
from penstock.store.sql.statements import ROWS, statements

T = TypeVar("T")

OLDEST_SQLITE = (3, 35, 0)
MANY_JOBS = 2000
"""A submit of more than this is carried out off the event loop."""

MANY_STATEMENTS = 50
MANY_VALUES = 100
"""And so is the commit of a step that wrote more statements of its own than this, or one with more values."""

LOCK_PATIENCE = 30.0
"""Seconds to wait for another process's transaction before saying that the store is unavailable."""

_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "foreign_keys=OFF",
    "temp_store=MEMORY",
    "cache_size=-65536",
    "wal_autocheckpoint=4000",
)
_SQL = statements("sqlite")
_MOST_ROWS = 512
_JOB = ", ".join(f'"{column}"' for column in JOB_COLUMNS)
_WHOLE_JOBS = {
    name: f"SELECT json_group_array(json_array({_JOB})) FROM ({_SQL[name]})"
    for name in ("lock_jobs", "take_lane", "last_runs")
}
"""Whole jobs come as one JSON text, which is parsed faster than rows are fetched one by one."""
_WATCH_EVERY = 0.02
READERS = 4
"""Questions that are answered at the same time: a slow one must not keep the others waiting."""


class SqliteStore(Reading):
    """A store in one SQLite file. `inline=True` (simulations) does everything on the calling thread."""

    def __init__(self, path: str | Path, *, clock: Clock | None = None, inline: bool = False) -> None:
        self.path = Path(path)
        self.url = f"sqlite:///{self.path}"
        self.clock = clock or SystemClock()
        self._inline = inline
        self._write: sqlite3.Connection | None = None
        self._idle: list[sqlite3.Connection] = []
        self._disk = ThreadPoolExecutor(1, "penstock-disk")
        self._readers = ThreadPoolExecutor(READERS, "penstock-read")
        self._turn = asyncio.Lock()
        self._listeners: list[Callable[[set[str]], None]] = []
        self._watcher: asyncio.Task[None] | None = None

    async def open(self) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old: Penstock needs 3.35 or newer")
        await self._off_loop(self._disk, self._open_and_migrate)

    def _open_and_migrate(self) -> None:
        with _translated(self.url):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._write = connect(self.path)
            self._bring_up_to_date(self._write)

    def _bring_up_to_date(self, connection: sqlite3.Connection) -> None:
        revision = revision_of(connection)
        if not migrations.check(revision, self.url):
            return
        begin(connection, patience=LOCK_PATIENCE)
        try:
            revision = revision_of(connection)
            if migrations.check(revision, self.url):
                script = (
                    migrations.whole_schema("sqlite")
                    if revision is None
                    else migrations.upgrade_script("sqlite", revision)
                )
                for statement in script.split(";\n"):
                    if statement.strip():
                        connection.execute(statement)
            connection.execute("COMMIT")
        except BaseException:
            rollback(connection)
            raise

    async def close(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None
        async with self._turn:
            write, self._write = self._write, None
            await self._off_loop(self._disk, self._close_connections, write)
        self._disk.shutdown(wait=False)

    def _close_connections(self, write: sqlite3.Connection | None) -> None:
        self._readers.shutdown(wait=True)
        for connection in self._idle if write is None else (*self._idle, write):
            connection.close()
        self._idle.clear()

    async def apply(self, ops: Sequence[Op], *, replay: bool = False) -> Applied:
        connection = self._opened(self._write)
        script = Script(ops, replay=replay, exact=True).run()
        async with self._turn:
            with _translated(self.url):
                if any(_takes_long(op) for op in ops) or not _began_at_once(connection):
                    return await self._off_loop(self._disk, transact, connection, script, self.clock)
                try:
                    applied = run_script(connection, script, self.clock)
                    await self._off_loop(self._disk, connection.execute, "COMMIT")
                except BaseException:
                    rollback(connection)
                    raise
        return applied

    async def _off_loop(self, pool: ThreadPoolExecutor, call: Callable[..., T], *args: Any) -> T:
        if self._inline:
            return call(*args)
        return await asyncio.get_running_loop().run_in_executor(pool, call, *args)

    def _opened(self, connection: sqlite3.Connection | None) -> sqlite3.Connection:
        if connection is None:
            raise StoreError(f"{self.url} is not open")
        return connection

    async def now(self) -> float:
        return to_the_tick(self.clock.now())

    async def rows(self, sql: str, args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """A question: on a reading connection, off the event loop."""
        self._opened(self._write)
        with _translated(self.url):
            return await self._off_loop(self._readers, self._answer, sql, args)

    async def own_rows(self, statement: Any) -> list[tuple[Any, ...]]:
        from penstock.store.sql.foreign import compiled

        return await self.rows(*compiled(statement, "sqlite"))

    def _answer(self, sql: str, args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """The connection that was used last is used first: what it has read is still at hand."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = connect(self.path)
        try:
            return connection.execute(sql, _bound(args)).fetchall()
        finally:
            self._idle.append(connection)

    def day_of(self, column: str) -> str:
        return f"CAST({column} / 86400 AS INTEGER)"

    def on_change(self, listener: Callable[[set[str]], None]) -> Callable[[], None]:
        """`PRAGMA data_version` changes when another connection has committed: cheap to ask, and it needs no server."""
        self._listeners.append(listener)
        if self._watcher is None:
            self._watcher = asyncio.get_running_loop().create_task(self._watch(), name="penstock-sqlite-watch")
        return lambda: self._listeners.remove(listener)

    async def _watch(self) -> None:
        connection = self._opened(self._write)
        seen = None
        while True:
            async with self._turn:
                (version,) = connection.execute("PRAGMA data_version").fetchone()
            if seen is not None and version != seen:
                for listener in list(self._listeners):
                    listener({"*"})
            seen = version
            await self.clock.sleep(_WATCH_EVERY)

    def keeper(self) -> SqliteKeeper:
        return SqliteKeeper(self.path, self.clock)


class SqliteKeeper:
    """A worker's heartbeat, on a connection of its own. Made and used in one thread."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._connection: sqlite3.Connection | None = None

    def beat(self, worker: str, ttl: float) -> bool:
        return bool(self._apply(Beat(worker, ttl)))

    def leave(self, worker: str, blamed: str | None) -> None:
        self._apply(Leave(worker, blamed))

    def _apply(self, op: Op) -> Any:
        with _translated(str(self._path)):
            if self._connection is None:
                self._connection = connect(self._path)
            answer = transact(self._connection, Script([op], replay=False, exact=True).run(), self._clock).answers[0]
        if isinstance(answer, PenstockError):
            raise answer
        return answer

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256, timeout=0)
    for pragma in _PRAGMAS:
        deadline = time.monotonic() + LOCK_PATIENCE
        while True:
            try:
                connection.execute(f"PRAGMA {pragma}").fetchall()
                break
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
    return connection


def begin(connection: sqlite3.Connection, patience: float) -> None:
    """Wait for the write lock; blocking, so never called on the event loop. SQLite's own wait would poll ever more
    rarely."""
    deadline = time.monotonic() + patience
    pause = 0.0005
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause = min(pause * 1.5, 0.01)


def transact(connection: sqlite3.Connection, script: Steps[Applied], clock: Clock) -> Applied:
    """A whole transaction, waiting for its turn; blocking. Nothing of it needs the event loop, which may itself be
    blocked while other processes wait for this lock."""
    begin(connection, LOCK_PATIENCE)
    try:
        applied = run_script(connection, script, clock)
        connection.execute("COMMIT")
    except BaseException:
        rollback(connection)
        raise
    return applied


def _began_at_once(connection: sqlite3.Connection) -> bool:
    """Whether the write lock was free; it is not waited for here."""
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if _is_busy(error):
            return False
        raise
    return True


def rollback(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def revision_of(connection: sqlite3.Connection) -> str | None:
    """The schema's revision, or None for a database without our tables."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE name IN ('alembic_version', 'jobs')").fetchall()
    names = {name for (name,) in found}
    if not names:
        return None
    if "alembic_version" not in names:
        raise SchemaMismatch("this SQLite file has a table 'jobs' that Penstock did not make: point it at another file")
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return None if row is None else str(row[0])


def run_script(connection: sqlite3.Connection, script: Steps[T], clock: Clock) -> T:
    """Drive a script to its end inside the open transaction."""
    execute = connection.execute
    answer: Any = None
    try:
        while True:
            request = script.send(answer)
            if type(request) is Ask:
                if request.name in _WHOLE_JOBS:
                    ((text,),) = execute(_WHOLE_JOBS[request.name], _bound(request.args))
                    answer = from_json(text)
                else:
                    answer = execute(_SQL[request.name], _bound(request.args)).fetchall()
            elif type(request) is AskMany:
                answer = _ask_many(connection, request)
            elif type(request) is Tell:
                answer = _tell(connection, request)
            elif type(request) is Opening:
                answer = (to_the_tick(clock.now()), dict(execute('SELECT "key", most FROM limits').fetchall()))
            else:
                assert isinstance(request, Guarded)
                answer = _guarded(connection, request)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _tell(connection: sqlite3.Connection, request: Tell) -> int:
    if ROWS not in _SQL[request.name]:
        return connection.executemany(_SQL[request.name], request.rows).rowcount if request.rows else 0
    # A cursor's own count is -1 for a statement that begins with WITH.
    before = connection.total_changes
    for _ in _in_chunks(connection, request):
        pass
    return connection.total_changes - before


def _ask_many(connection: sqlite3.Connection, request: AskMany) -> list[Any]:
    return [value for cursor in _in_chunks(connection, request) for (text,) in cursor for value in from_json(text)]


def _in_chunks(connection: sqlite3.Connection, request: Tell | AskMany) -> Iterator[sqlite3.Cursor]:
    """Many rows in one statement. Sizes are powers of two, filled up with empty rows, so that few statements are ever
    prepared."""
    sql, rows = _SQL[request.name], request.rows
    columns = len(rows[0]) if rows else 0
    for start in range(0, len(rows), _MOST_ROWS):
        part = rows[start : start + _MOST_ROWS]
        size = 1 << (len(part) - 1).bit_length()
        values = list(chain.from_iterable(part))
        values += [None] * ((size - len(part)) * columns)
        yield connection.execute(_expanded(sql, size, columns), values)


@lru_cache(maxsize=512)
def _expanded(sql: str, rows: int, columns: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return sql.replace(ROWS, ", ".join([row] * rows))


def _guarded(connection: sqlite3.Connection, request: Guarded) -> BaseException | None:
    """The pipeline's own statements: all of them, or none and the error."""
    from penstock.store.sql.foreign import checked, compiled

    connection.execute("SAVEPOINT own")
    try:
        for statement in request.statements:
            sql, parameters = compiled(statement, "sqlite")
            cursor = connection.execute(sql, parameters)
            changed = cursor.rowcount
            cursor.close()
            checked(statement, changed)
    except Conflict as refused:
        connection.execute("ROLLBACK TO own")
        connection.execute("RELEASE own")
        return refused
    except Exception as error:
        # A full disk ends the whole transaction, and so it must.
        if not connection.in_transaction or getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            raise
        connection.execute("ROLLBACK TO own")
        connection.execute("RELEASE own")
        return InvalidRequest(f"own rows were refused: {type(error).__name__}: {error}")
    connection.execute("RELEASE own")
    return None


def _takes_long(op: Op) -> bool:
    """Operations whose size the caller or the store's content decides."""
    op = unwrapped(op)
    return type(op) in (Tidy, SetLimits, SetBudget, RetryBatch, Leave, Write) or (
        (type(op) is Submit and len(op.jobs) > MANY_JOBS)
        or (type(op) is Commit and (len(op.move.writes) > MANY_STATEMENTS or any(map(_is_large, op.move.writes))))
    )


def _is_large(statement: Any) -> bool:
    written = statement.statement if type(statement) is Expect else statement
    return type(written) is tuple and len(written[1]) > MANY_VALUES


def _bound(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(json.dumps(a) if type(a) in (list, tuple) else a for a in args)


def _is_busy(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class _translated:
    """Turns SQLite's errors into ours, once, here."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Contended):
            raise Conflict("an id that was given to a new job or batch is in use already") from error
        if isinstance(error, PermissionError | FileExistsError | FileNotFoundError | NotADirectoryError) or (
            isinstance(error, OSError) and error.errno == errno.EROFS
        ):
            why = error.strerror.lower() if error.strerror else str(error)
            raise StoreReadOnly(
                f"{self._url}: {why} ({error.filename}): choose a place that can be written (--home, --store)"
            ) from error
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(f"{self._url}: no space left on the disk; free some and try again") from error
        if not isinstance(error, sqlite3.Error):
            return
        exact = getattr(error, "sqlite_errorcode", None) or 0
        code = exact & 0xFF
        # The first thing that does not fit on a full disk is the shared memory of the write-ahead log.
        if code == sqlite3.SQLITE_FULL or exact == sqlite3.SQLITE_IOERR_SHMSIZE:
            raise StoreFull(
                f"{self._url}: the disk is full; free some space and try again, nothing was lost"
            ) from error
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            raise StoreReadOnly(
                f"{self._url} cannot be written ({error}): check the permissions of the file and its folder"
            ) from error
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StoreUnavailable(f"{self._url} has been locked by another process for too long") from error
        if code == sqlite3.SQLITE_NOTADB:
            raise SchemaMismatch(f"{self._url} is not a SQLite database: point Penstock at another file") from error
        raise StoreError(f"{self._url}: {error}") from error
