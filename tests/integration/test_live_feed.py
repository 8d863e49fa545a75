"""The live feed on real stores: what is told, to whom, and that nobody who comes back has missed a thing."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from penstock import Context, Penstock, Workflow
from penstock.config import Settings
from penstock.delivery.contract import Task, contract_workflows
from penstock.engine.clock import SystemClock
from penstock.engine.errors import InvalidRequest, StoreUnavailable
from penstock.engine.model import FINAL
from penstock.service import live
from penstock.service.live import LiveFeed, Subscription, Told, Wanted
from penstock.service.tail import PATIENCE
from penstock.store.memory import MemoryStore
from penstock.store.protocol import Change, Store
from penstock.store.sql.sqlite import SqliteStore

ROOT = Path(__file__).parents[2]
PATIENT = 20.0


class MovedClock(SystemClock):
    """The machine's clock, put forward by hand."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


def flows() -> list[Workflow]:
    quick = Workflow("quick")

    @quick.step
    async def one(number: int, ctx: Context) -> int:
        return number

    @quick.step
    async def two(number: int, ctx: Context) -> int:
        if number < 0:
            raise InvalidRequest("it cannot be")
        return number

    slow = Workflow("slow")

    @slow.step
    async def hold(name: str, ctx: Context) -> str:
        ctx.progress(1, 2, "half way")
        while not Path(name).exists():
            await asyncio.sleep(0.02)
        return name

    return [quick, slow]


@contextlib.asynccontextmanager
async def opened(store: str | Store, tmp_path: Path, **more: Any) -> AsyncIterator[Penstock]:
    app = Penstock(workflows=flows(), **more)
    await app.open(store=store, settings=Settings(home=tmp_path / "home"))
    try:
        yield app
    finally:
        await app.close()


@contextlib.asynccontextmanager
async def feeding(app: Penstock) -> AsyncIterator[LiveFeed]:
    feed = LiveFeed(app)
    await feed.start()
    try:
        yield feed
    finally:
        await feed.stop()


async def take(subscription: Subscription, until: Callable[[list[Told]], object]) -> list[Told]:
    """What is told until a condition holds."""
    told: list[Told] = []
    async with asyncio.timeout(PATIENT):
        while not until(told):
            told.append(await anext(subscription))
    return told


def ended(told: Sequence[Told]) -> set[str]:
    return {item.data["id"] for item in told if item.kind == "job" and item.data["status"] in FINAL}


async def waiting(subscription: Subscription) -> list[Told]:
    """What waits to be taken now."""
    told = []
    while subscription._queue:
        told.append(await anext(subscription))
    return told


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/live.db"


def test_everything_that_happens_to_jobs_is_told(store_url: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(store_url, tmp_path) as app, feeding(app) as feed, app.worker():
            async with feed.subscribe(None, Wanted()) as subscription:
                assert (await anext(subscription)).kind == "ready"
                good = (await app.submit("quick", 1, key="good")).job_id
                bad = (await app.submit("quick", -1, tenant="acme")).job_id
                told = await take(subscription, lambda told: ended(told) == {good, bad})
            last = {item.data["id"]: item.data for item in told if item.kind == "job"}
            assert last[good]["status"] == "completed" and last[good]["event"] == "done"
            assert (last[good]["workflow"], last[good]["key"], last[good]["run"]) == ("quick", "good", 1)
            assert last[bad]["status"] == "failed" and "it cannot be" in last[bad]["note"]
            assert last[bad]["tenant"] == "acme"

    asyncio.run(main())


def test_a_new_job_is_told_before_anybody_runs_it(store_url: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(store_url, tmp_path) as app, feeding(app) as feed:
            before = (await app.submit("quick", 1)).job_id
            async with feed.subscribe(None, Wanted()) as subscription:
                job = (await app.submit("quick", 1)).job_id
                told = await take(subscription, lambda told: told and told[-1].kind == "job")
                assert (told[-1].data["id"], told[-1].data["event"]) == (job, "submitted")
                assert before not in {item.data.get("id") for item in told}
                await feed.turn()
                assert await waiting(subscription) == [], "once"

    asyncio.run(main())


def test_who_watches_a_job_sees_it_run_and_how_far_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(f"sqlite:///{tmp_path}/live.db", tmp_path) as app, feeding(app) as feed, app.worker():
            job = (await app.submit("slow", str(tmp_path / "go"), after=0.01)).job_id
            async with feed.subscribe(None, Wanted(job=job)) as subscription:
                first = await anext(subscription)
                assert (first.kind, first.data["id"], first.data["event"]) == ("job", job, "seen")
                told = await take(subscription, lambda told: told and told[-1].data.get("progress"))
                assert told[-1].data["status"] == "running"
                assert told[-1].data["progress"] == {"done": 1, "total": 2, "note": "half way"}
                await app.submit("quick", 1)
                (tmp_path / "go").touch()
                told = await take(subscription, ended)
                assert {item.data["id"] for item in told if item.kind == "job"} == {job}, "and nothing of others"

    asyncio.run(main())


def test_who_watches_a_batch_sees_its_counts(store_url: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(store_url, tmp_path) as app, feeding(app) as feed:
            batch = await app.open_batch(tenant="acme")
            async with feed.subscribe(None, Wanted(batch=batch.id, tenant="acme")) as subscription:
                await app.submit_many("quick", [1, 2, -1], tenant="acme", batch=batch.id)
                await app.seal_batch(batch.id)
                async with app.worker():
                    told = await take(subscription, lambda told: told and told[-1].data.get("finished"))
            last = told[-1].data
            assert (told[-1].kind, last["members"], last["completed"], last["failed"]) == ("batch", 3, 2, 1)

    asyncio.run(main())


def test_workers_that_join_and_leave_are_told_to_who_sees_all_tenants(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            opened("memory://", tmp_path) as app,
            feeding(app) as feed,
            feed.subscribe(None, Wanted()) as everything,
            feed.subscribe(None, Wanted(tenant="default")) as bound,
        ):
            await feed.turn()
            async with app.worker():
                worker = app.engine.worker
                told = await take(everything, lambda told: told and told[-1].kind == "worker")
                assert told[-1].data == {"id": worker, "change": "joined"}
            told = await take(everything, lambda told: told and told[-1].kind == "worker")
            assert told[-1].data == {"id": worker, "change": "left"}
            assert [item.kind for item in await waiting(bound)] == ["ready"]

    asyncio.run(main())


def test_a_tenant_hears_of_its_own_jobs_only(store_url: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(store_url, tmp_path) as app, feeding(app) as feed:
            theirs = (await app.submit("quick", 0, tenant="other")).job_id
            async with (
                feed.subscribe(None, Wanted(tenant="acme")) as mine,
                feed.subscribe(None, Wanted(tenant="acme", job=theirs)) as prying,
            ):
                async with app.worker():
                    batch = await app.open_batch(tenant="other")
                    await app.submit("quick", 1, tenant="other", batch=batch.id)
                    own = (await app.submit("quick", 2, tenant="acme")).job_id
                    told = await take(mine, lambda told: ended(told) == {own})
                await feed.turn()
                told += await waiting(mine)
                assert {item.data["tenant"] for item in told if item.kind != "ready"} == {"acme"}
                assert [item.kind for item in await waiting(prying)] == ["ready"]
                place = mine.position
            await app.submit("quick", 3, tenant="other")
            async with feed.subscribe(place, Wanted(tenant="acme")) as mine:
                assert {item.data.get("tenant", "acme") for item in await waiting(mine)} == {"acme"}

    asyncio.run(main())


def test_what_another_process_does_is_told_here(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/live.db"

    async def main() -> None:
        async with opened(url, tmp_path) as app, feeding(app) as feed:
            for workflow in contract_workflows():
                app.add(workflow)
            async with feed.subscribe(None, Wanted(workflow="contract")) as subscription:
                jobs = {each.job_id for each in await app.submit_many("contract", [Task()] * 20)}
                command = [sys.executable, "-m", "tests.support.contract_worker", url]
                process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
                try:
                    await take(subscription, lambda told: ended(told) == jobs)
                finally:
                    process.terminate()
                    process.wait(20)

    asyncio.run(main())


def test_who_comes_back_has_missed_nothing_while_jobs_run(store_url: str, tmp_path: Path) -> None:
    """A listener that is cut off again and again, at any item, while several submit and run: it hears of every end."""

    async def main() -> None:
        async with opened(store_url, tmp_path) as app, feeding(app) as feed, app.worker():
            jobs: set[str] = set()
            heard: set[str] = set()
            place: str | None = None

            async def submit(count: int) -> None:
                for n in range(count):
                    jobs.add((await app.submit("quick", n)).job_id)
                    await asyncio.sleep(0.005)

            async with feed.subscribe(None, Wanted()) as first:
                place = first.position
            submitting = [asyncio.create_task(submit(60)) for _ in range(3)]
            turn = 0
            while not all(task.done() for task in submitting) or heard != jobs:
                turn += 1
                async with feed.subscribe(place, Wanted()) as subscription:
                    for _ in range(turn % 7 + 1):
                        if all(task.done() for task in submitting) and heard == jobs:
                            break
                        async with asyncio.timeout(PATIENT):
                            told = await anext(subscription)
                        place = told.id
                        assert told.kind != "reset"
                        heard |= ended([told])
            await asyncio.gather(*submitting)

    asyncio.run(main())


def test_a_job_that_was_submitted_while_nobody_listened_is_told_to_who_comes_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(f"sqlite:///{tmp_path}/live.db", tmp_path) as app, feeding(app) as feed:
            async with feed.subscribe(None, Wanted()) as subscription:
                place = subscription.position
            job = (await app.submit("quick", 1)).job_id
            async with feed.subscribe(place, Wanted()) as subscription:
                told = await waiting(subscription)
            assert [(item.kind, item.data.get("id")) for item in told] == [("job", job), ("ready", None)]
            assert told[0].id == place, "only what comes last moves the place"

    asyncio.run(main())


def test_who_was_away_for_too_long_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_REPLAYED", 10)

    async def main() -> None:
        async with opened("memory://", tmp_path) as app, feeding(app) as feed, app.worker():
            async with feed.subscribe(None, Wanted()) as subscription:
                place = subscription.position
            for n in range(10):
                job = (await app.submit("quick", n)).job_id
                await app.wait(job, timeout=PATIENT)
            async with feed.subscribe(place, Wanted()) as subscription:
                assert [item.kind for item in await waiting(subscription)] == ["reset"]
                job = (await app.submit("quick", 1)).job_id
                await take(subscription, lambda told: job in ended(told))

    asyncio.run(main())


def test_a_place_in_another_store_begins_anew_and_a_senseless_one_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened("memory://", tmp_path) as app, feeding(app) as feed:
            async with feed.subscribe("1-999999-01h8zq4b7k", Wanted()) as subscription:
                assert (await anext(subscription)).kind == "reset"
            with pytest.raises(InvalidRequest):
                async with feed.subscribe("yesterday", Wanted()):
                    pass

    asyncio.run(main())


def test_more_than_a_listener_can_take_is_a_reset_and_others_are_not_held_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_WAITING", 20)

    async def main() -> None:
        async with (
            opened("memory://", tmp_path) as app,
            feeding(app) as feed,
            app.worker(),
            feed.subscribe(None, Wanted()) as idle,
            feed.subscribe(None, Wanted()) as busy,
        ):
            jobs = {each.job_id for each in await app.submit_many("quick", range(30))}
            for job in jobs:
                await app.wait(job, timeout=PATIENT)
            await feed.turn()
            last = (await app.submit("quick", 1)).job_id
            await take(busy, lambda told: last in ended(told))
            assert (await anext(idle)).kind == "reset"
            assert last in ended(await take(idle, lambda told: last in ended(told)))

    asyncio.run(main())


def test_a_late_number_is_told_and_nobody_resumes_behind_it(postgres_url: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(postgres_url, tmp_path) as app:
            feed = LiveFeed(app)
            late = (await app.submit("quick", 1)).job_id
            soon = (await app.submit("quick", 2)).job_id
            async with feed.subscribe(None, Wanted()) as subscription:
                await waiting(subscription)
                other = await asyncpg.connect(postgres_url)
                transaction = other.transaction()
                await transaction.start()
                await other.execute(
                    "INSERT INTO history (job, at, kind, step, status, epoch, move, attempt)"
                    " VALUES ($1, $2, 'next', 'one', 'queued', 1, 1, 1)",
                    late,
                    await app.engine.store.now(),
                )
                await app.pause(soon)
                await feed.turn()
                told = await waiting(subscription)
                assert [item.data["id"] for item in told] == [soon]
                place = told[-1].id
                await transaction.commit()
                await other.close()
                async with feed.subscribe(place, Wanted()) as resumed:
                    assert late in {item.data.get("id") for item in await waiting(resumed)}
                await feed.turn()
                assert [item.data["id"] for item in await waiting(subscription)] == [late]
                assert subscription.position > place
            await feed.stop()

    asyncio.run(main())


def test_a_number_that_was_rolled_back_holds_nobody_up_for_ever(postgres_url: str, tmp_path: Path) -> None:
    clock = MovedClock()

    async def main() -> None:
        async with opened(postgres_url, tmp_path, clock=clock) as app:
            feed = LiveFeed(app)
            job = (await app.submit("quick", 1)).job_id
            async with feed.subscribe(None, Wanted()) as subscription:
                start = live.parse_position(subscription.position).line
                other = await asyncpg.connect(postgres_url)
                await other.execute("SELECT nextval(pg_get_serial_sequence('history', 'id'))")
                await other.close()
                await app.pause(job)
                await feed.turn()
                assert subscription._put.line == start
                clock.ahead = PATIENCE + 1
                await feed.turn()
                assert subscription._put.line == start + 2
            await feed.stop()

    asyncio.run(main())


class Interrupted(MemoryStore):
    """A store that is away for a while."""

    away = False

    async def changes(self, after: int, *, also: Sequence[int] = (), limit: int = 1000) -> list[Change]:
        if self.away:
            raise StoreUnavailable("the store is being moved")
        return await super().changes(after, also=also, limit=limit)


def test_a_store_that_was_away_is_said_once_and_nothing_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "QUICK", 0.02)
    monkeypatch.setattr(live, "LONGEST_TROUBLE", 0.05)
    store = Interrupted()

    async def main() -> None:
        async with (
            opened(store, tmp_path) as app,
            feeding(app) as feed,
            app.worker(),
            feed.subscribe(None, Wanted()) as subscription,
        ):
            store.away = True
            job = (await app.submit("quick", 1)).job_id
            await app.wait(job, timeout=PATIENT)
            async with asyncio.timeout(PATIENT):
                while feed._failures < 3:
                    await asyncio.sleep(0.01)
            store.away = False
            await take(subscription, lambda told: job in ended(told))

    with caplog.at_level("INFO", "penstock.service"):
        asyncio.run(main())
    said = [record.getMessage() for record in caplog.records if record.name == "penstock.service"]
    assert said == ["the live feed cannot read: the store is being moved", "the live feed goes on"]


def test_what_was_seen_in_a_turn_that_failed_is_told_by_the_next(tmp_path: Path) -> None:
    """New jobs, and how a watched job and a watched batch stand: no line of history tells that again."""
    store = Interrupted()

    async def main() -> None:
        async with opened(store, tmp_path) as app:
            feed = LiveFeed(app)
            batch = (await app.open_batch()).id
            watched = (await app.submit("quick", 1, batch=batch)).job_id
            async with (
                feed.subscribe(None, Wanted()) as everything,
                feed.subscribe(None, Wanted(job=watched)) as one,
                feed.subscribe(None, Wanted(batch=batch)) as members,
            ):
                await feed.turn()
                for subscription in (everything, one, members):
                    await waiting(subscription)
                store.away = True
                new = (await app.submit("quick", 2, batch=batch)).job_id
                await app.pause(watched)
                with pytest.raises(StoreUnavailable):
                    await feed.turn()
                store.away = False
                await feed.turn()
                assert new in {item.data["id"] for item in await waiting(everything)}
                assert "seen" in [item.data.get("event") for item in await waiting(one)]
                assert 2 in [item.data.get("members") for item in await waiting(members)]
            await feed.stop()

    asyncio.run(main())


def test_how_a_watched_job_and_batch_stand_is_told_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened("memory://", tmp_path) as app:
            feed = LiveFeed(app)
            batch = (await app.open_batch()).id
            job = (await app.submit("quick", 1, batch=batch)).job_id
            async with (
                feed.subscribe(None, Wanted(job=job)) as one,
                feed.subscribe(None, Wanted(batch=batch)) as members,
            ):
                await feed.turn()
                await feed.turn()
                assert [item.kind for item in await waiting(one)] == ["job", "ready"]
                assert [item.kind for item in await waiting(members)] == ["batch", "ready"]
            await feed.stop()

    asyncio.run(main())


def test_what_all_are_told_is_made_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened("memory://", tmp_path) as app:
            feed = LiveFeed(app)
            async with feed.subscribe(None, Wanted()) as one, feed.subscribe(None, Wanted()) as other:
                await waiting(one)
                await waiting(other)
                await app.submit("quick", 1)
                await app.submit("quick", 2)
                await feed.turn()
                told = await one.take_all()
                assert len(told) == 2
                for mine, its in zip(told, await other.take_all(), strict=True):
                    assert mine.frame is its.frame
                    assert mine.frame.startswith(f"id: {mine.id}\nevent: job\ndata: {{".encode())
            await feed.stop()

    asyncio.run(main())


class Counted(SqliteStore):
    asked = 0

    async def changes(self, after: int, *, also: Sequence[int] = (), limit: int = 1000) -> list[Change]:
        self.asked += 1
        return await super().changes(after, also=also, limit=limit)


def test_nothing_is_read_while_nobody_listens_and_once_for_all_who_do(tmp_path: Path) -> None:
    store = Counted(tmp_path / "live.db")

    async def main() -> None:
        async with opened(store, tmp_path) as app:
            feed = LiveFeed(app)
            await feed.turn()
            assert store.asked == 0
            async with contextlib.AsyncExitStack() as stack:
                for _ in range(50):
                    await stack.enter_async_context(feed.subscribe(None, Wanted()))
                before = store.asked
                await feed.turn()
                assert store.asked == before + 1
            await feed.turn()
            assert store.asked == before + 1

    asyncio.run(main())


def test_those_who_come_back_hold_up_nobody(tmp_path: Path) -> None:
    """What they missed is told from memory, and while the reader is in the middle of a turn."""
    store = Counted(tmp_path / "live.db")

    async def main() -> None:
        async with opened(store, tmp_path) as app, app.worker():
            feed = LiveFeed(app)
            async with feed.subscribe(None, Wanted()) as first, contextlib.AsyncExitStack() as stack:
                place = first.position
                jobs = {(await app.submit("quick", n)).job_id for n in range(20)}
                for job in jobs:
                    await app.wait(job, timeout=PATIENT)
                await feed.turn()
                before = store.asked
                back = await asyncio.gather(
                    *(stack.enter_async_context(feed.subscribe(place, Wanted())) for _ in range(50))
                )
                for subscription in back:
                    told = await waiting(subscription)
                    assert ended(told) == jobs
                    assert (told[-1].kind, told[-1].id) == ("ready", str(first.reached))
                assert store.asked == before
            await feed.stop()

    asyncio.run(main())


def test_stopping_ends_every_subscription(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened("memory://", tmp_path) as app:
            feed = LiveFeed(app)
            await feed.start()

            async def listen() -> list[str]:
                async with feed.subscribe(None, Wanted()) as subscription:
                    return [told.kind async for told in subscription]

            listening = [asyncio.create_task(listen()) for _ in range(3)]
            async with asyncio.timeout(PATIENT):
                while len(feed._listeners) < 3:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0)
                await feed.stop()
                await asyncio.gather(*listening)

    asyncio.run(main())
