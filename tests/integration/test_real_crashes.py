"""Real processes die and a real server restarts in the middle of the load; then everything is counted."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from penstock import FollowUp, Penstock
from penstock.delivery.contract import Task, contract_workflows
from penstock.engine.errors import StoreError
from tests.support.crash_flow import EFFECTS, POLLS, Item, crash_workflows
from tests.support.embedded_harness import EmbeddedHarness
from tests.support.postgres import PostgresServer

JOBS = 200
PATIENCE = 100.0


async def under_fire(store_url: str, disturb: Callable[[EmbeddedHarness], Awaitable[None]]) -> None:
    """Submit a batch, disturb it a few times while it runs, then count what happened."""
    harness = EmbeddedHarness(store_url)
    app = Penstock(workflows=crash_workflows(), store=store_url, outputs=".")
    try:
        async with app:
            await app.engine.write(EFFECTS)
            await harness.start(workers=3)
            batch = await app.open_batch(key="all", limit=40, then=FollowUp(workflow="end", payload="all"))
            await app.submit_many("item", [Item(shelf=n % 25) for n in range(JOBS)], batch=batch.id)
            await app.seal_batch(batch.id)
            for share in (0.1, 0.3, 0.5, 0.7):
                await finished(app, int(JOBS * share))
                await disturb(harness)
            await finished(app, JOBS)
            await counted(app, batch.id)
    finally:
        await harness.close()


async def finished(app: Penstock, wanted: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await patient(app.counts)).get(("item", "completed"), 0) < wanted:
            await asyncio.sleep(0.02)


async def patient(question: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    """The server may be away for a moment: ask again."""
    while True:
        try:
            return await question(*args)
        except StoreError:
            await asyncio.sleep(0.1)


async def counted(app: Penstock, batch_id: str) -> None:
    store: Any = app.engine.store
    async with asyncio.timeout(PATIENCE):
        while (ended := await patient(app.batch, batch_id)).follow_up is None:
            await asyncio.sleep(0.02)
    follow_up = await app.wait(ended.follow_up, timeout=PATIENCE)
    assert (ended.members, ended.completed, ended.failed) == (JOBS, JOBS, 0)
    assert follow_up.result == JOBS * POLLS
    assert await app.counts() == {("item", "completed"): JOBS, ("end", "completed"): 1}
    for job in await app.jobs(workflow="item", limit=JOBS):
        assert job.counters == {"polls": POLLS}, f"job {job.id} counted {job.counters}"
    effects = await store.rows("SELECT job, step, n, count(*) FROM effects GROUP BY job, step, n", ())
    twice = [effect for effect in effects if effect[3] != 1]
    assert not twice, f"recorded more than once: {twice[:5]}"
    assert len(effects) == JOBS * (2 + POLLS) + 1
    assert await app.engine.store.locks() == []
    held = await store.rows(
        "SELECT id FROM jobs WHERE phase = 'held' OR worker IS NOT NULL OR batch_slot IS NOT NULL", ()
    )
    assert held == []


async def kill_and_replace(harness: EmbeddedHarness) -> None:
    """One of the workers is killed with signal 9 and another is started in its place."""
    victim = harness._processes.pop(random.randrange(len(harness._processes)))
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    victim.stdout.close()  # type: ignore[union-attr]
    await harness.start()


def test_workers_are_killed_on_sqlite(tmp_path: Path) -> None:
    asyncio.run(under_fire(f"sqlite:///{tmp_path}/jobs.db", kill_and_replace))


def test_workers_are_killed_on_postgresql(postgres_url: str) -> None:
    asyncio.run(under_fire(postgres_url, kill_and_replace))


def test_postgresql_itself_crashes_and_comes_back(postgres_server: PostgresServer) -> None:
    async def restart(harness: EmbeddedHarness) -> None:
        await asyncio.to_thread(postgres_server.shut_down, signal.SIGQUIT)
        await asyncio.sleep(0.2)
        await asyncio.to_thread(postgres_server.start)

    asyncio.run(under_fire(postgres_server.fresh_database(), restart))


def test_postgresql_restarts_while_workers_are_killed(postgres_server: PostgresServer) -> None:
    async def both(harness: EmbeddedHarness) -> None:
        await asyncio.to_thread(postgres_server.shut_down, signal.SIGINT)
        victim = harness._processes.pop()
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        victim.stdout.close()  # type: ignore[union-attr]
        await asyncio.to_thread(postgres_server.start)
        await harness.start()

    asyncio.run(under_fire(postgres_server.fresh_database(), both))


def test_a_worker_that_died_on_this_machine_is_given_up_at_once(tmp_path: Path) -> None:
    """The lease here is an hour: only the look at the dead process can free the job."""

    async def main() -> None:
        store_url = f"sqlite:///{tmp_path}/jobs.db"
        harness = EmbeddedHarness(store_url, lease=3600)
        try:
            await harness.start()
            async with Penstock(workflows=contract_workflows(), store=store_url, outputs=".") as app:
                job = (await app.submit("contract", Task(steps=1, pause=3600))).job_id
                async with asyncio.timeout(PATIENCE):
                    while (await app.job(job)).status != "running":
                        await asyncio.sleep(0.02)
                await harness.kill()
                await harness.start()
                async with asyncio.timeout(PATIENCE):
                    while [event.kind for event in await app.history(job)] != ["crash"]:
                        await asyncio.sleep(0.02)
        finally:
            await harness.close()

    asyncio.run(main())
