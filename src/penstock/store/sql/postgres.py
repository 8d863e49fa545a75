"""PostgreSQL: many processes on one database. One connection writes, a few read, one listens for what others have done.

The same scripts run here as on SQLite (`script.py`), at READ COMMITTED; where another transaction got in between, they
are run again.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import count
from typing import Any, TypeVar

import asyncpg

from penstock.engine.clock import Clock, SystemClock, to_the_tick
from penstock.engine.errors import (
    CommitUnknown,
    Conflict,
    InvalidRequest,
    PenstockError,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
)
from penstock.store import migrations
from penstock.store.protocol import ANY_QUEUE, Applied, Beat, Leave, Op, SetBudget, SetLimits, unwrapped
from penstock.store.sql.postgres_connection import (
    CANNOT_WAIT,
    LOST,
    Connection,
    connect,
    our_error,
    quietly_close,
    without_password,
)
from penstock.store.sql.reading import Reading
from penstock.store.sql.requests import Ask, AskMany, Contended, Guarded, Opening, Steps, Tell
from penstock.store.sql.script import Script
from penstock.store.sql.statements import statements

T = TypeVar("T")

OLDEST_POSTGRES = 12
MOST_READERS = 4
MOST_TRIES = 30
"""How often a transaction that lost to others is run before the store is called unavailable (about ten seconds)."""

log = logging.getLogger("penstock.store")

_SQL = statements("postgresql")
_CHANNEL = "penstock"
_LONGEST_NOTE = 7000
_LIMITS_KEY = "7302, 1"
"""Advisory lock: shared by all transactions, alone for one that changes the limits or budgets that the others work
with."""
_SCHEMA_KEY = "7302, 2"
_NOW = "extract(epoch FROM clock_timestamp())::float8"
_OPENING = (
    f"SELECT {_NOW},"
    " (SELECT array_agg(key ORDER BY key) FROM limits), (SELECT array_agg(most ORDER BY key) FROM limits)"
)
_LOOK_EVERY = 30.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0


class PostgresStore(Reading):
    """A store in a PostgreSQL database (or in the schema that `?search_path=NAME` names).

    Its clock is the server's, unless one is given. `url` is the address without its password.
    """

    line_order = "id + 0"
    """Hides the primary key: PostgreSQL would walk through the lines of all jobs, hoping to meet those of this one."""

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        self.url = without_password(url)
        self.clock = clock or SystemClock()
        self._dsn = url
        self._time = clock
        self._turn = asyncio.Lock()
        self._writer = _Writer(url, clock)
        self._readers = _Readers(url)
        self._listeners: list[Callable[[set[str]], None]] = []
        self._ear: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect. An empty database gets its tables; an older one is left alone until `migrate`."""
        try:
            revision = await self._writer.revision()
            if revision is None:
                await self._writer.bring_up_to_date()
            elif migrations.check(revision, self.url):
                raise SchemaMismatch(
                    f"{self.url} was made by an older Penstock (schema {revision}, this one needs {migrations.HEAD}): "
                    "stop its workers, then run `penstock migrate`"
                )
        except BaseException:
            await self._writer.close()
            raise

    async def migrate(self) -> bool:
        """Bring the tables up to date, in one transaction. Needs no `open`; answers whether it did anything."""
        async with self._turn:
            try:
                return await self._writer.bring_up_to_date()
            except BaseException:
                await self._writer.close()
                raise

    async def close(self) -> None:
        if self._ear is not None:
            self._ear.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ear
            self._ear = None
        async with self._turn:
            await self._writer.close()
            await self._readers.close()

    async def apply(self, ops: Sequence[Op], *, replay: bool = False) -> Applied:
        async with self._turn:
            return await self._writer.apply(ops, replay=replay)

    async def now(self) -> float:
        now = self._time.now() if self._time is not None else (await self.rows(f"SELECT {_NOW}", ()))[0][0]
        return to_the_tick(now)

    async def rows(self, sql: str, args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return await self._readers.fetch(_numbered(sql), args)

    async def own_rows(self, statement: Any) -> list[tuple[Any, ...]]:
        from penstock.store.sql.foreign import compiled

        return await self._readers.fetch(*compiled(statement, "postgresql"))

    def day_of(self, column: str) -> str:
        return f"CAST(floor({column} / 86400) AS bigint)"

    def on_change(self, listener: Callable[[set[str]], None]) -> Callable[[], None]:
        """What this store itself has committed is not told: its caller has the hints already."""
        self._listeners.append(listener)
        if self._ear is None:
            self._ear = asyncio.get_running_loop().create_task(self._listen(), name="penstock-postgres-listen")
        return lambda: self._listeners.remove(listener)

    async def _listen(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                connection = await connect(self._dsn, known=True)
                try:
                    await connection.add_listener(_CHANNEL, self._heard)
                    pause = _FIRST_PAUSE
                    # Nobody listened until now, so something may have been missed.
                    self._tell({ANY_QUEUE})
                    await _until_lost(connection)
                finally:
                    await quietly_close(connection)
            except (PenstockError, asyncpg.PostgresError, *LOST) as error:
                log.info("%s: not listening (%s); trying again", self.url, error)
            await self.clock.sleep(pause * (0.5 + random.random()))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _heard(self, _connection: object, pid: int, _channel: str, note: object) -> None:
        if pid != self._writer.pid:
            self._tell(set(str(note).split(",")))

    def _tell(self, hints: set[str]) -> None:
        for listener in list(self._listeners):
            listener(set(hints))

    @contextlib.asynccontextmanager
    async def apart(self) -> AsyncIterator[Any]:
        """A connection of one's own, outside of all transactions, for what takes minutes."""
        connection = await connect(self._dsn, known=True)
        try:
            yield connection
        finally:
            await quietly_close(connection)

    def keeper(self) -> PostgresKeeper:
        return PostgresKeeper(self._dsn, self._time)


class PostgresKeeper:
    """A worker's heartbeat, on an event loop and a connection of its own. Made and used in one thread."""

    def __init__(self, dsn: str, clock: Clock | None) -> None:
        self._writer = _Writer(dsn, clock, sleep=SystemClock().sleep)
        self._loop: asyncio.AbstractEventLoop | None = None

    def beat(self, worker: str, ttl: float) -> bool:
        return bool(self._apply(Beat(worker, ttl)))

    def leave(self, worker: str, blamed: str | None) -> None:
        self._apply(Leave(worker, blamed))

    def _apply(self, op: Op) -> Any:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        answer = self._loop.run_until_complete(self._writer.apply([op], replay=False)).answers[0]
        if isinstance(answer, PenstockError):
            raise answer
        return answer

    def close(self) -> None:
        if self._loop is not None:
            self._loop.run_until_complete(self._writer.close())
            self._loop.close()
            self._loop = None


class _Writer:
    """The connection that changes things: made when it is first needed, and anew when it was lost."""

    def __init__(self, dsn: str, clock: Clock | None, *, sleep: Callable[[float], Any] | None = None) -> None:
        self._dsn = dsn
        self._url = without_password(dsn)
        self._clock = clock
        self._sleep = sleep or (clock or SystemClock()).sleep
        self._connection: Connection | None = None
        self.pid = 0

    async def apply(self, ops: Sequence[Op], *, replay: bool) -> Applied:
        alone = any(type(unwrapped(op)) in (SetLimits, SetBudget) for op in ops)
        lock = f"pg_advisory_xact_lock{'' if alone else '_shared'}({_LIMITS_KEY})"

        async def work(connection: Connection) -> Applied:
            return await _run_script(connection, Script(ops, replay=replay, exact=False).run(), self._clock)

        return await self._in_transaction(lock, work, lambda applied: applied.hints)

    async def bring_up_to_date(self) -> bool:
        """One of several processes does it, the others wait for that one and find it done."""

        async def work(connection: Connection) -> bool:
            await connection.execute(f"SELECT pg_advisory_xact_lock({_LIMITS_KEY})")
            revision = await _revision(connection, self._url)
            if not migrations.check(revision, self._url):
                return False
            script = (
                migrations.whole_schema("postgresql")
                if revision is None
                else migrations.upgrade_script("postgresql", revision)
            )
            await connection.execute(script)
            return True

        return await self._in_transaction(f"pg_advisory_xact_lock({_SCHEMA_KEY})", work, lambda _: set())

    async def revision(self) -> str | None:
        """The schema's revision, or None for a database without our tables."""
        connection = await self._connected()
        version = connection.get_server_version()
        if version.major < OLDEST_POSTGRES:
            raise StoreError(f"{self._url} is PostgreSQL {version.major}: Penstock needs {OLDEST_POSTGRES} or newer")
        try:
            return await _revision(connection, self._url)
        except (asyncpg.PostgresError, *LOST) as error:
            raise our_error(error, self._url) from error

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await quietly_close(connection)

    async def _in_transaction(
        self, lock: str, work: Callable[[Connection], Awaitable[T]], hints_of: Callable[[T], set[str]]
    ) -> T:
        for turn in count(1):
            try:
                connection = await self._begin(lock)
                done = await work(connection)
                await self._commit(connection, hints_of(done))
                return done
            except (Contended, *CANNOT_WAIT) as busy:
                await self._roll_back()
                if turn == MOST_TRIES:
                    raise StoreUnavailable(
                        f"{self._url} is too busy: other transactions were in the way {turn} times"
                    ) from busy
                await self._sleep(min(0.005 * 2**turn, 0.5) * random.random())
            except LOST as error:
                self._drop()
                raise our_error(error, self._url) from error
            except asyncpg.PostgresError as error:
                await self._roll_back()
                raise our_error(error, self._url) from error
            except PenstockError:
                await self._roll_back()
                raise
            except BaseException:
                # Cancelled, or a bug: nobody knows what the connection is in the middle of.
                self._drop()
                raise
        raise AssertionError("unreachable")

    async def _begin(self, lock: str) -> Connection:
        """A connection that broke since it was last used is replaced at once: nothing has been asked of it yet."""
        for last in (False, True):
            connection = await self._connected()
            try:
                await connection.execute(f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT {lock}")
                break
            except LOST:
                self._drop()
                if last:
                    raise
        return connection

    async def _commit(self, connection: Connection, hints: set[str]) -> None:
        note = ",".join(sorted(hints))
        if len(note) > _LONGEST_NOTE:
            note = ANY_QUEUE
        notify = f"NOTIFY {_CHANNEL}, {_quoted(note)}; " if note else ""
        try:
            ended = await connection.execute(f"{notify}COMMIT")
        except LOST as error:
            self._drop()
            raise CommitUnknown(
                f"{self._url}: the connection broke while the transaction was being stored, so it may or may not be"
            ) from error
        if ended != "COMMIT":
            raise Contended

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect(self._dsn, known=bool(self.pid))
            self.pid = self._connection.get_server_pid()
        return self._connection

    async def _roll_back(self) -> None:
        if self._connection is None or self._connection.is_closed():
            return
        try:
            await self._connection.execute("ROLLBACK")
        except (asyncpg.PostgresError, *LOST):
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


class _Readers:
    """At most `MOST_READERS` connections that only ask; twice, where the first try met a connection that was gone."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._room = asyncio.Semaphore(MOST_READERS)
        self._idle: list[Connection] = []

    async def fetch(self, sql: str, args: tuple[Any, ...]) -> list[Any]:
        async with self._room:
            for last in (False, True):
                try:
                    return await self._fetch(sql, args)
                except (asyncpg.PostgresError, *LOST) as error:
                    if last or not isinstance(error, LOST):
                        raise our_error(error, without_password(self._dsn)) from error
        raise AssertionError("unreachable")

    async def _fetch(self, sql: str, args: tuple[Any, ...]) -> list[Any]:
        connection = self._idle.pop() if self._idle else await connect(self._dsn, known=True)
        try:
            found = await connection.fetch(sql, *args)
        except BaseException:
            connection.terminate()
            raise
        self._idle.append(connection)
        return found

    async def close(self) -> None:
        while self._idle:
            await quietly_close(self._idle.pop())


async def _run_script(connection: Connection, script: Steps[T], clock: Clock | None) -> T:
    """Drive a script to its end inside the open transaction."""
    answer: Any = None
    try:
        while True:
            request = script.send(answer)
            if type(request) is Ask:
                answer = await connection.fetch(_SQL[request.name], *request.args)
            elif type(request) is AskMany:
                columns = zip(*request.rows, strict=True)
                answer = [value for (value,) in await connection.fetch(_SQL[request.name], *columns)]
            elif type(request) is Tell:
                answer = await _tell(connection, request)
            elif type(request) is Opening:
                now, keys, most = (await connection.fetch(_OPENING))[0]
                limits = dict(zip(keys or (), most or (), strict=True))
                answer = (to_the_tick(now if clock is None else clock.now()), limits)
            else:
                assert isinstance(request, Guarded)
                answer = await _guarded(connection, request)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def _tell(connection: Connection, request: Tell) -> int:
    """One statement for all rows: a column of each goes into `unnest`."""
    if not request.rows:
        return 0
    tag = await connection.execute(_SQL[request.name], *zip(*request.rows, strict=True))
    return int(tag.rpartition(" ")[2])


async def _guarded(connection: Connection, request: Guarded) -> BaseException | None:
    """The pipeline's own statements: all of them, or none and the error."""
    from penstock.store.sql.foreign import checked, compiled

    await connection.execute("SAVEPOINT own")
    try:
        for statement in request.statements:
            sql, parameters = compiled(statement, "postgresql")
            tag = await connection.execute(sql, *parameters)
            checked(statement, tag.rpartition(" ")[2])
    except Conflict as refused:
        await connection.execute("ROLLBACK TO own; RELEASE own")
        return refused
    except (*CANNOT_WAIT, *LOST, asyncpg.InsufficientResourcesError):
        raise
    except Exception as error:
        await connection.execute("ROLLBACK TO own; RELEASE own")
        return InvalidRequest(f"own rows were refused: {type(error).__name__}: {error}")
    await connection.execute("RELEASE own")
    return None


async def _revision(connection: Connection, url: str) -> str | None:
    # Asked of the catalogue itself: `to_regclass` may answer from before we waited for the lock.
    found = await connection.fetch(
        "SELECT relname FROM pg_class WHERE relname IN ('alembic_version', 'jobs') AND pg_table_is_visible(oid)"
    )
    if not found:
        return None
    if len(found) == 1:
        raise SchemaMismatch(
            f"{url} has a table {found[0][0]!r} that Penstock did not make: "
            "point it at another database, or at a schema of its own with ?search_path=NAME"
        )
    found = await connection.fetch("SELECT version_num FROM alembic_version")
    return str(found[0][0]) if found else None


async def _until_lost(connection: Connection) -> None:
    """Ends when the server closes the connection, or no longer answers on it."""
    lost = asyncio.Event()
    connection.add_termination_listener(lambda _: lost.set())
    while not lost.is_set() and not connection.is_closed():
        try:
            await asyncio.wait_for(lost.wait(), _LOOK_EVERY)
        except TimeoutError:
            await connection.execute("SELECT 1")


@functools.lru_cache(maxsize=256)
def _numbered(sql: str) -> str:
    """`?` placeholders as PostgreSQL writes them: $1, $2, …"""
    first, *others = sql.split("?")
    return first + "".join(f"${n}{part}" for n, part in enumerate(others, 1))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
