"""What PostgreSQL adds to a store's contract: other processes, a server that goes away, and transactions that meet."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from penstock.engine.call import LIVE
from penstock.engine.errors import (
    CommitUnknown,
    InvalidConfiguration,
    InvalidRequest,
    LostClaim,
    PenstockError,
    SchemaMismatch,
    StoreReadOnly,
    StoreUnavailable,
)
from penstock.engine.model import NewJob
from penstock.engine.outcome import Move
from penstock.store import migrations
from penstock.store.conformance import ManualClock, apply_group, random_operations
from penstock.store.connect import store_from_url
from penstock.store.protocol import (
    ANY_QUEUE,
    Beat,
    Claim,
    Commit,
    JobFilter,
    Op,
    OpenBatch,
    Seal,
    SetLimits,
    Submit,
    Submitted,
    TakeLock,
    Write,
)
from penstock.store.sql.postgres import PostgresStore
from tests.support.postgres import PostgresServer


def job(job_id: str, **options: Any) -> NewJob:
    return NewJob(job_id, options.pop("workflow", "draw"), "one", "[]", "d", **options)


def done(row: Any) -> Commit:
    return Commit(Move(row.id, row.epoch, row.moves + 1, "done", row.step, row.payload))


@contextlib.asynccontextmanager
async def opened(url: str, many: int = 1) -> AsyncIterator[list[PostgresStore]]:
    stores = [PostgresStore(url) for _ in range(many)]
    try:
        for store in stores:
            await store.open()
        yield stores
    finally:
        for store in stores:
            await store.close()


async def do(store: PostgresStore, *ops: Any) -> list[Any]:
    answers = (await store.apply(ops)).answers
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return answers


class Proxy:
    """A TCP proxy before the server. A message with `cut_at` in it ends the connection: instead of being passed on, or,
    with `after`, once the server has answered it."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._tasks: set[asyncio.Task[None]] = set()
        self.cut_at: bytes | None = None
        self.after = False

    async def __aenter__(self) -> Proxy:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._listener.wait_closed()

    async def _serve(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        server, questions = await asyncio.open_connection("127.0.0.1", self._server_port)
        back = asyncio.create_task(self._copy(server, answers))
        try:
            while data := await client.read(65536):
                if self.cut_at is not None and self.cut_at in data:
                    if self.after:
                        back.cancel()
                        await asyncio.wait([back])
                        questions.write(data)
                        await questions.drain()
                        await server.read(65536)
                    self.cut_at = None
                    return
                questions.write(data)
                await questions.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            back.cancel()
            for writer in (questions, answers):
                writer.transport.abort()

    @staticmethod
    async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
            target.close()


def test_a_store_goes_on_after_the_server_was_restarted(postgres_server: PostgresServer, postgres_url: str) -> None:
    async def go() -> None:
        async with opened(postgres_url) as [store]:
            await do(store, Submit((job("a"),)), Beat("w", 600, first=True))
            postgres_server.shut_down(signal.SIGQUIT)
            with pytest.raises(StoreUnavailable, match="cannot be reached"):
                await store.apply([Submit((job("b"),))])
            with pytest.raises(StoreUnavailable):
                await store.job("a")
            postgres_server.start()
            await do(store, Submit((job("b"),)))
            assert [row.id for row in await store.jobs(JobFilter())] == ["b", "a"]

    try:
        asyncio.run(go())
    finally:
        if not postgres_server._answers():
            postgres_server.start()


def test_a_restart_between_two_transactions_is_not_noticed(postgres_server: PostgresServer, postgres_url: str) -> None:
    async def go() -> None:
        async with opened(postgres_url) as [store]:
            await do(store, Submit((job("a"),)))
            assert await store.job("a")
            postgres_server.shut_down()
            postgres_server.start()
            assert await store.job("a")
            await do(store, Submit((job("b"),)))

    asyncio.run(go())


def test_a_commit_of_one_store_wakes_the_others_and_not_itself(postgres_url: str) -> None:
    async def go() -> None:
        async with opened(postgres_url, many=2) as [ours, theirs]:
            heard: dict[str, list[set[str]]] = {"ours": [], "theirs": []}
            listening, woken = asyncio.Event(), asyncio.Event()

            def ours_hears(hints: set[str]) -> None:
                heard["ours"].append(hints)

            def theirs_hears(hints: set[str]) -> None:
                heard["theirs"].append(hints)
                (listening if len(heard["theirs"]) == 1 else woken).set()

            ours.on_change(ours_hears)
            stop = theirs.on_change(theirs_hears)
            await listening.wait()
            assert heard["theirs"] == [{ANY_QUEUE}], "what was missed before it listened"
            await do(ours, Submit((job("a", queue="it's"), job("b", queue="q"))))
            await woken.wait()
            assert heard["theirs"][1] == {"it's", "q"}
            assert set().union(*heard["ours"]) <= {ANY_QUEUE}
            stop()

    asyncio.run(go())


def test_a_listener_learns_that_something_may_have_been_missed(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async def go() -> None:
        async with opened(postgres_url, many=2) as [ours, theirs]:
            heard: asyncio.Queue[set[str]] = asyncio.Queue()
            theirs.on_change(heard.put_nowait)
            assert await heard.get() == {ANY_QUEUE}
            postgres_server.shut_down()
            postgres_server.start()
            assert await heard.get() == {ANY_QUEUE}
            await do(ours, Submit((job("a", queue="q"),)))
            assert await heard.get() == {"q"}

    asyncio.run(go())


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "not stored"])
def test_a_connection_that_breaks_in_commit_leaves_it_unknown(
    postgres_server: PostgresServer, postgres_url: str, stored: bool
) -> None:
    async def go() -> None:
        name = postgres_url.split("/")[3].split("?")[0]
        async with (
            Proxy(postgres_server.port) as proxy,
            opened(postgres_server.tcp_url(name, port=proxy.port)) as [store],
        ):
            await do(store, Beat("w", 600, first=True), Submit((job("a"),)))
            [claimed] = await do(store, Claim("w", "default", ("draw",)))
            ops: list[Op] = [done(claimed.rows[0]), Submit((job("b"),))]
            proxy.cut_at, proxy.after = b"COMMIT\x00", stored
            with pytest.raises(CommitUnknown):
                await store.apply(ops)
            again = await store.apply(ops, replay=True)
            assert again.answers[0].row.status == "completed"
            assert again.answers[1] == [Submitted("b", True, 1, "queued")]
            assert [event.kind for event in await store.history("a")] == ["done"]

    asyncio.run(go())


def test_a_connection_that_breaks_before_commit_has_stored_nothing(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async def go() -> None:
        name = postgres_url.split("/")[3].split("?")[0]
        async with (
            Proxy(postgres_server.port) as proxy,
            opened(postgres_server.tcp_url(name, port=proxy.port)) as [store],
        ):
            proxy.cut_at = b"INSERT INTO jobs"
            with pytest.raises(StoreUnavailable):
                await store.apply([Submit((job("a"),))])
            assert await store.job("a") is None
            await do(store, Submit((job("a"),)))
            proxy.cut_at = b"BEGIN"
            await do(store, Submit((job("b"),)))

    asyncio.run(go())


def test_two_processes_may_create_the_schema_at_once(postgres_url: str) -> None:
    program = (
        "import asyncio, sys\n"
        "from penstock.store.sql.postgres import PostgresStore\n"
        "async def go():\n"
        "    store = PostgresStore(sys.argv[1])\n"
        "    print('ready', flush=True); sys.stdin.readline()\n"
        "    await store.open(); await store.close()\n"
        "asyncio.run(go())\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", program, postgres_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    for process in started:
        assert process.stdout is not None and process.stdout.readline()
    for process in started:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
    for process in started:
        process.communicate(timeout=60)
    assert [process.returncode for process in started] == [0] * 4


def test_a_database_of_another_version_is_left_alone(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with opened(postgres_url):
            pass
        other = await asyncpg.connect(postgres_url)
        await other.execute("UPDATE alembic_version SET version_num = '9999'")
        with pytest.raises(SchemaMismatch, match="newer Penstock"):
            await PostgresStore(postgres_url).open()
        with pytest.raises(SchemaMismatch, match="newer Penstock"):
            await PostgresStore(postgres_url).migrate()
        await other.execute("UPDATE alembic_version SET version_num = '0000'")
        monkeypatch.setattr(migrations, "REVISIONS", ("0000", *migrations.REVISIONS))
        monkeypatch.setattr(
            migrations, "upgrade_script",
            lambda *_: f"UPDATE alembic_version SET version_num = '{migrations.HEAD}'; CREATE TABLE added ()",
        )  # fmt: skip
        store = PostgresStore(postgres_url)
        with pytest.raises(SchemaMismatch, match="penstock migrate"):
            await store.open()
        assert await store.migrate() is True
        assert await store.migrate() is False
        await store.open()
        await store.close()
        assert await other.fetchval("SELECT to_regclass('added')::text") == "added"
        await other.close()

    asyncio.run(go())


def test_tables_of_somebody_else_are_refused(postgres_url: str) -> None:
    async def go() -> None:
        other = await asyncpg.connect(postgres_url)
        await other.execute("CREATE TABLE jobs (n int); CREATE SCHEMA own")
        await other.close()
        with pytest.raises(SchemaMismatch, match="did not make"):
            await PostgresStore(postgres_url).open()
        async with opened(f"{postgres_url}&search_path=own") as [store]:
            await do(store, Submit((job("a"),)))

    asyncio.run(go())


def test_many_claims_at_once_never_take_a_job_twice(postgres_url: str) -> None:
    async def go() -> None:
        async with opened(postgres_url, many=5) as stores:
            await do(stores[0], *(Beat(f"w{n}", 600, first=True) for n in range(5)))
            await do(stores[0], Submit(tuple(job(f"j{n:03}", base=n % 3) for n in range(200))))
            taken: list[str] = []

            async def work(n: int) -> None:
                while True:
                    [claimed] = await do(stores[n], Claim(f"w{n}", "default", ("draw",), room=3))
                    taken.extend(row.id for row in claimed.rows)
                    if claimed.rows:
                        await do(stores[n], *map(done, claimed.rows))
                    elif claimed.wake is None:
                        return

            await asyncio.gather(*map(work, range(5)))
            assert sorted(taken) == [f"j{n:03}" for n in range(200)]
            assert await stores[0].count() == {("draw", "completed"): 200}

    asyncio.run(go())


def test_a_limit_holds_whoever_claims_at_once(postgres_url: str) -> None:
    async def go() -> None:
        async with opened(postgres_url, many=6) as stores:
            await do(stores[0], SetLimits({"workflow:draw": 3, "tenant:*": 2}))
            await do(stores[0], *(Beat(f"w{n}", 600, first=True) for n in range(6)))
            [batch] = await do(stores[0], OpenBatch("b", "default", "b", limit=1))
            jobs = [job(f"j{n:02}", tenant=f"t{n % 3}") for n in range(36)]
            jobs += [job(f"b{n}", workflow="print", batch=batch.id) for n in range(4)]
            await do(stores[0], Submit(tuple(jobs)), Seal("b"))

            async def work(n: int) -> None:
                while True:
                    [claimed] = await do(stores[n], Claim(f"w{n}", "default", ("draw", "print"), room=2))
                    held = [row for row in await stores[n].jobs(JobFilter(limit=100)) if row.phase == "held"]
                    assert sum(row.workflow == "draw" for row in held) <= 3
                    assert sum(row.batch == "b" for row in held) <= 1
                    for tenant in ("t0", "t1", "t2", "default"):
                        assert sum(row.tenant == tenant for row in held) <= 2
                    if claimed.rows:
                        await do(stores[n], *map(done, claimed.rows))
                    counts = await stores[n].count()
                    if counts == {("draw", "completed"): 36, ("print", "completed"): 4}:
                        return

            await asyncio.gather(*map(work, range(6)))
            ended = await stores[0].batch("b")
            assert ended is not None and ended.finished is not None

    asyncio.run(go())


LIVE_STATES = ", ".join(f"'{state}'" for state in sorted(LIVE))

BROKEN_RULES = {
    "a worker that is gone holds a job": (
        "SELECT id FROM jobs WHERE phase = 'held' AND due IS NULL AND worker NOT IN (SELECT id FROM workers)"
    ),
    "a final job holds something": (
        "SELECT id FROM jobs WHERE finished IS NOT NULL AND (phase <> 'idle' OR worker IS NOT NULL OR gate <> ''"
        " OR batch_slot IS NOT NULL OR due IS NOT NULL OR id IN (SELECT job FROM locks))"
    ),
    "a key has two runs that are not final": (
        "SELECT key FROM jobs WHERE finished IS NULL GROUP BY tenant, workflow, key HAVING count(*) > 1"
    ),
    "a member's end was not counted": (
        "SELECT m.job FROM members m JOIN jobs j ON j.id = m.job WHERE j.finished IS NOT NULL AND m.ended IS NULL"
    ),
    # Members that ended long ago may have been dropped.
    "a batch counts wrongly": (
        "SELECT b.id FROM batches b LEFT JOIN members m ON m.batch = b.id GROUP BY b.id"
        " HAVING members - completed - failed - canceled <> count(m.job) FILTER (WHERE ended IS NULL)"
        " OR completed < count(m.job) FILTER (WHERE ended = 'completed')"
        " OR failed < count(m.job) FILTER (WHERE ended = 'failed')"
        " OR canceled < count(m.job) FILTER (WHERE ended = 'canceled')"
    ),
    "a batch should have ended": (
        "SELECT id FROM batches WHERE sealed IS NOT NULL"
        " AND (finished IS NULL) <> (completed + failed + canceled < members)"
    ),
    "a batch that ended has no follow-up": (
        'SELECT id FROM batches WHERE (finished IS NOT NULL AND "then" IS NOT NULL) <> (follow_up IS NOT NULL)'
    ),
    "a call that is not live holds something": (
        f"SELECT id FROM calls WHERE state NOT IN ({LIVE_STATES}) AND id IN (SELECT call FROM holds)"
    ),
    "a live call does not hold what it should": (
        f"SELECT id FROM calls c WHERE state IN ({LIVE_STATES})"
        " AND json_array_length(holds::json) <> (SELECT count(*) FROM holds WHERE call = c.id)"
    ),
    "a job's budget is charged wrongly": (
        "SELECT scope FROM budgets WHERE scope LIKE 'job:%'"
        " AND spent <> (SELECT coalesce(sum(cost), 0) FROM calls WHERE 'job:' || job = scope)"
    ),
    "an answer was not kept": "SELECT key FROM answers WHERE answer IS NULL",
    "a change has no job": "SELECT id FROM history WHERE job NOT IN (SELECT id FROM jobs)",
    "a tick was counted twice": "SELECT job FROM history WHERE move > 0 GROUP BY job, move HAVING count(*) > 1",
}


def test_the_rules_hold_when_many_do_anything_at_once(postgres_url: str) -> None:
    async def go() -> None:
        clock = ManualClock()
        stores = [PostgresStore(postgres_url, clock=clock) for _ in range(4)]
        look = await asyncpg.connect(postgres_url)

        async def do_anything(store: PostgresStore, seed: int) -> None:
            async for group in random_operations(store, clock, seed=seed, length=60):
                for answer in (await apply_group(store, group)).answers:
                    assert not isinstance(answer, BaseException) or isinstance(answer, PenstockError), repr(answer)

        try:
            for store in stores:
                await store.open()
            await asyncio.gather(*(do_anything(store, seed) for seed, store in enumerate(stores)))
            broken = {rule: found for rule, sql in BROKEN_RULES.items() if (found := await look.fetch(sql))}
            assert broken == {}
        finally:
            await look.close()
            for store in stores:
                await store.close()

    asyncio.run(go())


def test_one_key_submitted_by_many_at_once_is_one_job(postgres_url: str) -> None:
    async def go() -> None:
        async with opened(postgres_url, many=6) as stores:
            await do(stores[0], OpenBatch("b", "default", "b"))

            async def submit(n: int) -> Submitted:
                [[told]] = await do(stores[n], Submit((job(f"j{n}", key="k", batch="b"),)))
                return told  # type: ignore[no-any-return]

            told = await asyncio.gather(*map(submit, range(6)))
            assert sum(one.created for one in told) == 1
            assert len({one.job_id for one in told}) == 1
            batch = await stores[0].batch("b")
            assert batch is not None and batch.members == 1

    asyncio.run(go())


def test_a_job_that_ends_while_it_joins_a_batch_still_counts_in_it(postgres_url: str) -> None:
    async def go() -> None:
        async with opened(postgres_url, many=2) as [ours, theirs]:
            await do(ours, Beat("w", 600, first=True))
            for turn in range(20):
                key, batch = f"k{turn}", f"b{turn}"
                await do(ours, Submit((job(f"j{turn}", key=key),)), OpenBatch(batch, "default", batch))
                [claimed] = await do(ours, Claim("w", "default", ("draw",)))
                await asyncio.gather(
                    do(ours, done(claimed.rows[0])), do(theirs, Submit((job(f"n{turn}", key=key, batch=batch),)))
                )
                await do(ours, Seal(batch))
                ended = await ours.batch(batch)
                assert ended is not None and (ended.members, ended.completed) == (1, 1)
                assert ended.finished is not None

    asyncio.run(go())


def test_a_lock_has_one_holder_whoever_asks_at_once(postgres_url: str) -> None:
    async def go() -> None:
        async with opened(postgres_url, many=4) as stores:
            await do(stores[0], Beat("w", 600, first=True), Submit(tuple(job(f"j{n}") for n in range(4))))
            [claimed] = await do(stores[0], Claim("w", "default", ("draw",), room=4))

            async def take(n: int) -> bool:
                row = claimed.rows[n]
                [got] = await do(stores[n], TakeLock(row.id, row.epoch, "x"))
                if got:
                    await do(stores[n], done(row))
                return bool(got)

            first = await asyncio.gather(*map(take, range(4)))
            assert any(first)
            assert await stores[0].locks() == []

    asyncio.run(go())


def test_a_keeper_beats_from_its_own_thread_and_survives_a_restart(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async def go() -> None:
        async with opened(postgres_url) as [store]:
            await do(store, Beat("w", 600, first=True), Submit((job("a"),)))
            await do(store, Claim("w", "default", ("draw",)))
            outcome: list[Any] = []
            await asyncio.to_thread(_keep, store, postgres_server, outcome)
            assert outcome == [True, "unavailable", True, False]
            row = await store.job("a")
            assert row is not None and (row.status, row.crashes) == ("queued", 1)
            assert [event.kind for event in await store.history("a")] == ["crash"]

    asyncio.run(go())


def _keep(store: PostgresStore, server: PostgresServer, outcome: list[Any]) -> None:
    assert threading.current_thread() is not threading.main_thread()
    keeper = store.keeper()
    outcome.append(keeper.beat("w", 600))
    server.shut_down()
    try:
        keeper.beat("w", 600)
    except StoreUnavailable:
        outcome.append("unavailable")
    server.start()
    outcome.append(keeper.beat("w", 600))
    keeper.leave("w", blamed="a")
    outcome.append(keeper.beat("w", 600))
    keeper.close()


things = sa.Table(
    "things", sa.MetaData(),
    sa.Column("id", sa.BigInteger, primary_key=True),
    sa.Column("name", sa.Text, default="unnamed"),
    sa.Column("seen", sa.DateTime(timezone=True)),
    sa.Column("day", sa.Date),
    sa.Column("price", sa.Numeric(10, 2)),
    sa.Column("doc", sa.JSON),
    sa.Column("mark", sa.Uuid, default=uuid.uuid4),
    sa.Column("raw", sa.LargeBinary),
)  # fmt: skip


def test_a_pipelines_own_rows_join_the_commit_or_refuse_it(postgres_url: str) -> None:
    async def go() -> None:
        other = await asyncpg.connect(postgres_url)
        async with opened(postgres_url) as [store]:
            await do(store, Write((_create_things(),)), Beat("w", 600, first=True))
            await do(store, Submit((job("a"), job("b"))))
            [claimed] = await do(store, Claim("w", "default", ("draw",), room=2))
            good, bad = (done(row) for row in claimed.rows)
            now = datetime(2025, 1, 2, 3, 4, tzinfo=UTC)
            good.move.writes = (
                sa.insert(things).values(
                    id=2**40, seen=now, day=date(2025, 1, 2), price=Decimal("1.25"), doc={"a": [1, None]}, raw=b"\x00"
                ),
                sa.insert(things).values([{"id": 1, "name": "x"}, {"id": 2, "name": "y"}]),
                insert(things).values(id=1, name="z").on_conflict_do_update(index_elements=["id"], set_={"name": "z"}),
                sa.update(things).where(things.c.id.in_([2, 3])).values(doc=None),
                sa.text("UPDATE things SET name = :name WHERE id = :id OR name = :name").bindparams(name="w", id=2),
                ("INSERT INTO things (id, price) VALUES (:id, :price)", {"id": 4, "price": Decimal("9.99")}),
                sa.delete(things).where(things.c.id == 4),
            )
            bad.move.writes = (sa.insert(things).values(id=5), sa.insert(things).values(id=1))
            landed, refused = (await store.apply([good, bad])).answers
            assert landed.row.status == "completed"
            assert isinstance(refused, InvalidRequest) and "UniqueViolationError" in str(refused)
            rows = await other.fetch("SELECT id, name, seen, price, doc, raw, mark FROM things ORDER BY id")
            assert [(row["id"], row["name"]) for row in rows] == [(1, "z"), (2, "w"), (2**40, "unnamed")]
            assert (rows[2]["seen"], rows[2]["price"], rows[2]["raw"]) == (now, Decimal("1.25"), b"\x00")
            assert json.loads(rows[2]["doc"]) == {"a": [1, None]}
            assert all(row["mark"] is not None for row in rows)
            still = await store.job("b")
            assert still is not None and still.status == "running"
        await other.close()

    asyncio.run(go())


def _create_things() -> sa.TextClause:
    return sa.text(
        "CREATE TABLE things (id BIGINT PRIMARY KEY, name TEXT, seen TIMESTAMPTZ, day DATE, price NUMERIC(10, 2),"
        " doc JSON, mark UUID, raw BYTEA)"
    )


def test_a_store_that_cannot_be_reached_says_so_without_the_password(postgres_server: PostgresServer) -> None:
    secrets = "s3/cr:e@t"
    addresses = {
        f"postgresql://u:{secrets}@127.0.0.1:1/db": StoreUnavailable,
        f"postgresql://u:{secrets}@/db?host=/nowhere": StoreUnavailable,
        f"postgresql://u@127.0.0.1:x/db?password={secrets}": InvalidConfiguration,
        f"postgresql://nobody:s3cret@127.0.0.1:{postgres_server.port}/postgres": InvalidConfiguration,
        f"postgresql://penstock:s3cret@127.0.0.1:{postgres_server.port}/nothing": InvalidConfiguration,
    }
    for url, kind in addresses.items():
        store = store_from_url(url)
        with pytest.raises((StoreUnavailable, InvalidConfiguration)) as raised:
            asyncio.run(store.open())
        assert "s3" not in f"{raised.value}{store.url}"
        if "s3cret" in url:
            assert raised.type is kind


def test_a_read_only_server_is_named_as_such(postgres_url: str) -> None:
    async def go() -> None:
        async with opened(postgres_url):
            pass
        name = postgres_url.split("/")[3].split("?")[0]
        other = await asyncpg.connect(postgres_url)
        await other.execute("CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
        await other.close()
        async with opened(postgres_url.replace("penstock@", "reader@")) as [store]:
            with pytest.raises(StoreReadOnly, match=f"{name}.*cannot be written"):
                await store.apply([Submit((job("a"),))])
            assert await store.jobs(JobFilter()) == []

    asyncio.run(go())


def test_a_worker_that_was_given_up_cannot_claim(postgres_url: str) -> None:
    async def go() -> None:
        async with opened(postgres_url) as [store]:
            [refused] = (await store.apply([Claim("ghost", "default", ("draw",))])).answers
            assert isinstance(refused, LostClaim)

    asyncio.run(go())


def test_time_is_the_servers_unless_a_clock_is_given(postgres_url: str) -> None:
    async def go() -> None:
        async with opened(postgres_url) as [store]:
            await do(store, Submit((job("a"),)))
            row = await store.job("a")
            assert row is not None and 0 <= await store.now() - row.created < 60

    asyncio.run(go())
