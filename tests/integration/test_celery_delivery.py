"""Delivery by Celery, with a real broker, a real PostgreSQL and prefork workers: whatever dies in the middle, every job
ends, and nothing is done twice."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock import FollowUp, Penstock
from penstock.delivery.celery.application import make_celery
from penstock.delivery.celery.naming import ADVANCE, celery_queue
from penstock.delivery.contract import CHECKS, Harness, Task, crashes_lose_nothing, draining_hands_back
from penstock.engine.errors import StoreError
from tests.support.celery_house import PATIENCE, House, until
from tests.support.crash_flow import EFFECTS, POLLS, Item
from tests.support.postgres import Missing as NoPostgres
from tests.support.postgres import PostgresServer
from tests.support.redis import Missing, RedisServer

JOBS = 40
QUEUE = celery_queue("default")
ENDINGS = (draining_hands_back, crashes_lose_nothing)


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    try:
        server = RedisServer()
    except Missing as why:
        pytest.skip(f"needs Redis: {why}")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def postgres(_postgres: PostgresServer | NoPostgres) -> PostgresServer:
    if isinstance(_postgres, NoPostgres):
        pytest.skip(f"needs PostgreSQL: {_postgres}")
    return _postgres


@pytest.fixture(scope="module")
def _house(redis: RedisServer, postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(redis, postgres.fresh_database(), tmp_path_factory.mktemp("celery"))
    house.start()
    yield house
    house.end(signal.SIGKILL)


@pytest.fixture
def house(_house: House) -> House:
    """One worker for all tests that leave it alive."""
    if not _house.redis.ask("PING"):
        _house.redis.start()
    until(lambda: len(_house.children()) == 3, "the worker's processes", _house)
    return _house


class CeleryHarness:
    """The contract's view of it. The hints of a deaf one's clients do not leave them."""

    def __init__(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store_url = house.store_url
        self._house = house
        self._monkeypatch = monkeypatch

    async def start(self, *, workers: int = 1, deaf: bool = False) -> None:
        self._speak(deaf=deaf)
        for number in range(len(self._house.workers), workers):
            await asyncio.to_thread(self._house.start, "--delivery", "celery", wait=number == workers - 1)

    def _speak(self, *, deaf: bool) -> None:
        """Whether this process, where the contract's clients are, sends hints."""
        for name, value in self._house.environ.items():
            self._monkeypatch.setenv(name, value)
        if deaf:
            self._monkeypatch.setenv("PENSTOCK_DELIVERY", "embedded")

    async def drain(self) -> None:
        assert await asyncio.to_thread(self._house.end, signal.SIGTERM) == [0]

    async def kill(self) -> None:
        await asyncio.to_thread(self._house.end, signal.SIGKILL)

    async def hint(self, queue: str, times: int) -> None:
        celery = make_celery(self._house.settings.celery)
        with celery.connection_for_write() as connection:
            for _ in range(times):
                celery.send_task(ADVANCE, (queue,), queue=celery_queue(queue), connection=connection)


class OneHarness(CeleryHarness):
    """On the worker that is there: for checks that end nobody."""

    async def start(self, *, workers: int = 1, deaf: bool = False) -> None:
        self._speak(deaf=deaf)


@pytest.mark.parametrize("check", [check for check in CHECKS if check not in ENDINGS], ids=lambda check: check.__name__)
def test_it_keeps_the_contract_of_every_delivery(
    check: Callable[[Harness], Awaitable[None]], house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(check(OneHarness(house, monkeypatch)))


def under_fire(house: House, disturb: Callable[[], Any]) -> None:
    """Submit a batch, disturb it twice while it runs, then count what happened."""

    async def main() -> None:
        app = await house.client().open(store=house.store_url, settings=house.settings)
        try:
            store: Any = app.engine.store
            await app.engine.write(EFFECTS.replace("TABLE", "TABLE IF NOT EXISTS"))
            await app.engine.write("DELETE FROM effects")
            batch = await app.open_batch(then=FollowUp(workflow="end", payload="all"))
            jobs = await app.submit_many("item", [Item(shelf=n % 25) for n in range(JOBS)], batch=batch.id)
            await app.seal_batch(batch.id)
            for share in (0.2, 0.6):
                await ended(app, batch.id, int(JOBS * share))
                await asyncio.to_thread(disturb)
            await ended(app, batch.id, JOBS)
            async with asyncio.timeout(PATIENCE):
                while (told := await patient(app.batch, batch.id)).follow_up is None:
                    await asyncio.sleep(0.02)
            follow_up = await app.wait(told.follow_up, timeout=PATIENCE)
            assert (told.members, told.completed, told.failed) == (JOBS, JOBS, 0)
            assert follow_up.result == JOBS * POLLS
            for job in await app.jobs(ids=[job.job_id for job in jobs], limit=JOBS):
                assert job.counters == {"polls": POLLS}, f"job {job.id} counted {job.counters}"
            effects = await store.rows("SELECT job, step, n, count(*) FROM effects GROUP BY job, step, n", ())
            assert [effect for effect in effects if effect[3] != 1] == []
            assert len(effects) == JOBS * (2 + POLLS) + 1
            assert await store.rows("SELECT id FROM jobs WHERE phase = 'held' OR worker IS NOT NULL", ()) == []
        finally:
            await app.close()

    asyncio.run(main())


async def patient(question: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    """The server may be away for a moment: ask again."""
    while True:
        try:
            return await question(*args)
        except StoreError:
            await asyncio.sleep(0.05)


async def ended(app: Penstock, batch_id: str, wanted: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await patient(app.batch, batch_id)).ended < wanted:
            await asyncio.sleep(0.01)


def test_a_process_of_the_pool_is_killed(house: House) -> None:
    under_fire(house, lambda: pool_of(house)[0].kill())


def pool_of(house: House) -> list[psutil.Process]:
    """The processes that the store knows as workers."""

    async def ask() -> set[int]:
        app = await house.client().open(store=house.store_url, settings=house.settings)
        try:
            return {json.loads(worker.info)["pid"] for worker in await app.workers()}
        finally:
            await app.close()

    known = asyncio.run(ask())
    return [child for child in house.children() if child.pid in known]


def test_redis_is_killed_and_comes_back_with_what_it_had(house: House) -> None:
    def restart() -> None:
        house.redis.kill()
        house.redis.start()

    under_fire(house, restart)


def test_redis_is_killed_and_comes_back_empty(house: House) -> None:
    def restart() -> None:
        house.redis.kill()
        house.redis.start(empty=True)

    under_fire(house, restart)


def test_redis_is_flushed(house: House) -> None:
    under_fire(house, lambda: house.ask("FLUSHALL"))


def test_postgresql_crashes_and_comes_back(house: House, postgres: PostgresServer) -> None:
    celery = make_celery(house.settings.celery)

    def crash(word: str, *, hints: int = 0) -> None:
        """Away until the worker has said so."""
        before = house.log.count(word)
        postgres.shut_down(signal.SIGQUIT)
        try:
            with celery.connection_for_write() as connection:
                for _ in range(hints):
                    celery.send_task(ADVANCE, ("default",), queue=QUEUE, connection=connection)
            until(lambda: house.log.count(word) > before, f"{word!r} in the log", house)
        finally:
            postgres.start()

    # While nothing runs: a process that does not know what became of its last commit answers no hint until it does.
    crash("is sent again later", hints=4)
    under_fire(house, lambda: crash("cannot be reached"))


def test_garbage_and_duplicates_change_nothing(house: House) -> None:
    celery = make_celery(house.settings.celery)

    def send() -> None:
        house.ask("LPUSH", QUEUE, "no message at all")
        house.ask("LPUSH", QUEUE, '{"neither": "this"}')
        with celery.connection_for_write() as connection:
            tell = partial(celery.send_task, queue=QUEUE, connection=connection)
            for args in [("default",)] * 10 + [("no such queue",), (), (7, 8, 9), ({"queue": []},)]:
                tell(ADVANCE, args)
            tell("no.such.task", ("default",))
            tell(ADVANCE, ("default",), serializer="pickle")

    under_fire(house, send)
    until(lambda: house.ask("LLEN", QUEUE) == ":0", "all messages to be taken", house)


def test_beat_is_killed_and_started_again(house: House) -> None:
    pool = {process.pid for process in pool_of(house)}
    (beat,) = [child for child in house.children() if child.pid not in pool]
    beat.kill()
    until(lambda: len([child for child in house.children() if child.pid not in pool | {beat.pid}]) == 1, "beat", house)


def test_the_broker_is_killed_and_stays_away(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """A submit succeeds, a worker that hears nothing looks for work, and one of its processes that dies is replaced."""
    disturbances = iter([house.redis.kill, lambda: pool_of(house)[0].kill()])

    async def main() -> None:
        app = await house.client().open(store=house.store_url, settings=house.settings)
        try:
            with caplog.at_level(logging.WARNING, "penstock.delivery"):
                jobs = [(await app.submit("contract", Task())).job_id for _ in range(3)]
                for job in jobs:
                    assert (await app.wait(job, timeout=PATIENCE)).status == "completed"
                async with asyncio.timeout(PATIENCE):
                    while not caplog.records:
                        await asyncio.sleep(0.02)
        finally:
            await app.close()

    before = len(house.log)
    under_fire(house, lambda: next(disturbances)())
    caplog.clear()
    asyncio.run(main())
    told = [record.getMessage() for record in caplog.records if record.name == "penstock.delivery"]
    assert len(told) == 1, told
    assert told[0].startswith("no hint was sent, so a worker finds the work at its next sweep: ")
    until(lambda: len(house.children()) == 3, "the process that was killed to be replaced", house)
    house.redis.start()
    until(lambda: "answers again after" in house.log[before:], "the worker to be back", house)
    said = house.log[before:]
    assert said.count("does not answer") == 1
    assert "Traceback" not in said, said


def test_a_task_with_a_name_of_its_own_submits_a_job_once(house: House, tmp_path: Path) -> None:
    celery = make_celery(house.settings.celery)
    with celery.connection_for_write() as connection:
        for _ in range(3):
            celery.send_task("tests.count_to", ("seven", 7), queue=QUEUE, connection=connection)
        celery.send_task("tests.count_to", ("wrong", []), queue=QUEUE, connection=connection)
        celery.send_task("tests.full_disk", (str(tmp_path / "mark"),), queue=QUEUE, connection=connection)

    async def main() -> None:
        app = await house.client().open(store=house.store_url, settings=house.settings)
        try:
            async with asyncio.timeout(PATIENCE):
                while not (found := await app.jobs(key="seven")):
                    await asyncio.sleep(0.02)
            assert (await app.wait(found[0].id, timeout=PATIENCE)).result == 7
            assert len(await app.jobs(key="seven")) == 1
            async with asyncio.timeout(PATIENCE):
                while not await app.jobs(key=str(tmp_path / "mark")):
                    await asyncio.sleep(0.02)
            assert await app.jobs(key="wrong") == []
        finally:
            await app.close()

    asyncio.run(main())
    assert "task tests.count_to was refused: payload does not fit workflow 'contract'" in house.log
    assert "task tests.full_disk, try 1: [Errno 28] No space left on device" in house.log


def test_what_is_hinted_at_does_not_pile_up(house: House) -> None:
    """Without a worker for the queue: however much is submitted, a handful of messages waits for it."""

    async def main() -> None:
        app = await house.client().open(store=house.store_url, settings=house.settings)
        try:
            for _ in range(40):
                await app.submit("contract", Task(), queue="nobody")
        finally:
            await app.close()

    asyncio.run(main())
    assert 1 <= int(house.ask("LLEN", celery_queue("nobody"))[1:]) <= 4


@pytest.mark.parametrize("check", ENDINGS, ids=lambda check: check.__name__)
def test_it_keeps_the_contract_when_workers_end(
    check: Callable[[Harness], Awaitable[None]], house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker that is there is one of those that end, and after the last check there are two."""
    asyncio.run(check(CeleryHarness(house, monkeypatch)))


def test_the_limits_stop_a_step_that_sleeps_and_end_a_process_that_is_stuck(
    redis: RedisServer, postgres: PostgresServer, tmp_path: Path
) -> None:
    house = House(redis, postgres.fresh_database(), tmp_path)
    house.told |= {"celery.soft_limit": "1s", "celery.hard_limit": "2s"}
    stuck, sleepy = tmp_path / "stuck", tmp_path / "sleepy"

    async def main() -> None:
        app = await house.client().open(store=house.store_url, settings=house.settings)
        try:
            first = await app.submit("stuck", str(stuck))
            second = await app.submit("sleepy", str(sleepy))
            done = await app.wait(first.job_id, timeout=PATIENCE)
            assert (done.status, done.result) == ("completed", 2)
            failed = await app.wait(second.job_id, timeout=PATIENCE)
            assert failed.status == "failed"
            assert failed.error is not None and "ran longer than 1 s" in failed.error
        finally:
            await app.close()

    try:
        house.start("--queues", "slow, default")
        asyncio.run(main())
    finally:
        house.end(signal.SIGKILL)
    before, after = stuck.read_text().split()
    assert before != after, "the process that was stuck took the job again"


def test_without_a_broker_it_starts_and_works_and_the_second_signal_hands_back_what_runs(
    redis: RedisServer, postgres: PostgresServer, tmp_path: Path
) -> None:
    house = House(redis, postgres.fresh_database(), tmp_path)
    house.told |= {"grace": "1h"}
    mark = tmp_path / "mark"

    async def main() -> None:
        app = await house.client().open(store=house.store_url, settings=house.settings)
        try:
            told = await app.submit("sleepy", str(mark))
            await asyncio.to_thread(until, mark.exists, "the step to begin", house)
            assert f"the broker at {house.broker} does not answer" in house.log
            assert "the worker is ready" not in house.log
            await asyncio.to_thread(redis.start)
            await asyncio.to_thread(until, lambda: "the worker is ready" in house.log, "the worker to be ready", house)
            (worker,) = house.workers
            worker.send_signal(signal.SIGINT)
            await asyncio.to_thread(until, lambda: "SIGINT: stopping" in house.log, "the first signal", house)
            worker.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(worker.wait, PATIENCE) == 130
            job = await app.job(told.job_id)
            assert (job.status, job.attempt, job.worker) == ("queued", 0, None)
            assert await app.workers() == []
        finally:
            await app.close()

    redis.kill()
    try:
        house.start("--queue", "slow", wait=False)
        until(lambda: "does not answer" in house.log, "a word about the broker", house)
        asyncio.run(main())
    finally:
        house.workers = [worker for worker in house.workers if worker.poll() is None]
        house.end(signal.SIGKILL)
    assert "calling self.run()" not in house.log and "mmap" not in house.log
