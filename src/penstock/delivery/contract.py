"""What every delivery must get right, as a suite that runs against any of them: duplicates, losses, lateness,
crashes, draining.

A delivery's author writes a `Harness` (how to start it, stop it, kill it, disturb its hints) and runs every function
of `CHECKS` with a fresh one. The workers of the harness must serve `contract_workflows()`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from pydantic import BaseModel

from penstock.app import FollowUp, Penstock
from penstock.engine.context import Context
from penstock.engine.model import Job
from penstock.engine.outcome import Again
from penstock.engine.workflow import Workflow

PATIENCE = 60.0
"""Seconds a check waits before it says that something never happened; a right delivery needs a fraction of it."""


class Task(BaseModel):
    steps: int = 3
    pause: float = 0.0
    done: int = 0


def contract_workflows() -> list[Workflow]:
    """`contract`: a chain of polls that counts its ticks. `contract-sum`: the follow-up that counts a batch's
    results."""
    chain = Workflow("contract", payload=Task)

    @chain.step
    async def work(task: Task, ctx: Context) -> Task | Again:
        ctx.count(ticks=1)
        if task.pause:
            await asyncio.sleep(task.pause)
        task.done += 1
        return task if task.done >= task.steps else Again(task)

    @chain.step
    async def tell(task: Task, ctx: Context) -> int:
        return task.done

    total = Workflow("contract-sum", payload=int)

    @total.step
    async def add(start: int, ctx: Context) -> int:
        results: list[int] = [job.result async for job in ctx.members()]
        return start + sum(results)

    return [chain, total]


class Harness(Protocol):
    """One delivery under test, on a store of its own."""

    store_url: str

    async def start(self, *, workers: int = 1, deaf: bool = False) -> None:
        """Start delivering. `deaf`: hints of a submit or commit do not arrive; only the pump's sweeps do."""
        ...

    async def drain(self) -> None:
        """Ask the workers to end, as SIGTERM would, and wait until they have."""
        ...

    async def kill(self) -> None:
        """The workers are gone at once, as with SIGKILL."""
        ...

    async def hint(self, queue: str, times: int) -> None:
        """Deliver the same hint several times."""
        ...


async def submit_sends_a_hint(harness: Harness) -> None:
    """A submitted job runs without anybody asking for it."""
    await harness.start()
    async with _client(harness) as app:
        job = await app.submit("contract", Task())
        await _completed(app, [job.job_id])


async def duplicates_change_nothing(harness: Harness) -> None:
    """However often a hint is delivered, each tick counts once."""
    await harness.start(workers=2)
    async with _client(harness) as app:
        jobs = [(await app.submit("contract", Task(steps=4))).job_id for _ in range(10)]
        await harness.hint("default", 25)
        for job in await _completed(app, jobs):
            assert job.counters == {"ticks": 4}, f"job {job.id} counted {job.counters} for 4 ticks"
            assert job.result == 4, f"job {job.id} ended with {job.result}"


async def losses_are_repaired(harness: Harness) -> None:
    """Where no hint arrives the sweep finds the work."""
    await harness.start(deaf=True)
    async with _client(harness) as app:
        jobs = [(await app.submit("contract", Task())).job_id for _ in range(3)]
        await _completed(app, jobs)


async def late_work_waits(harness: Harness) -> None:
    """A hint that comes before its job is due runs nothing; the due time does."""
    await harness.start()
    async with _client(harness) as app:
        job = await app.submit("contract", Task(), after=1.5)
        await harness.hint("default", 3)
        (done,) = await _completed(app, [job.job_id])
        assert done.started is not None, "the job never started"
        assert done.started - done.created >= 1.5, f"the job started {done.started - done.created:.3f} s after submit"


async def crashes_lose_nothing(harness: Harness) -> None:
    """Workers die in the middle; others finish the work, and nothing is counted twice."""
    await harness.start(workers=2)
    async with _client(harness) as app:
        batch = await app.open_batch(then=FollowUp(workflow="contract-sum", payload=0))
        jobs = await app.submit_many("contract", [Task(steps=6, pause=0.05)] * 20, batch=batch.id)
        await app.seal_batch(batch.id)
        await _until(app, lambda: _some_finished(app, [job.job_id for job in jobs]), "no job finished before the crash")
        await harness.kill()
        await harness.start(workers=2)
        for job in await _completed(app, [job.job_id for job in jobs]):
            assert job.result == 6 and job.counters["ticks"] == 6, f"job {job.id}: {job.result}, {job.counters}"
        ended = await _ended(app, batch.id)
        (follow_up,) = await _completed(app, [ended])
        assert follow_up.result == 120, f"the follow-up counted {follow_up.result} of 120"


async def draining_hands_back(harness: Harness) -> None:
    """A worker that is asked to end leaves nothing behind that only its death would free."""
    await harness.start()
    async with _client(harness) as app:
        jobs = [(await app.submit("contract", Task(steps=40, pause=0.02))).job_id for _ in range(5)]
        await _until(app, lambda: _some_started(app, jobs), "no job started")
        await harness.drain()
        held = [job.id for job in [await app.job(job_id) for job_id in jobs] if job.worker is not None]
        assert not held, f"jobs {held} are still held after the drain"
        assert not await app.engine.store.workers(), "the worker did not sign off"
        await harness.start()
        for job in await _completed(app, jobs):
            assert job.counters == {"ticks": 40}, f"job {job.id} counted {job.counters} for 40 ticks"


CHECKS: tuple[Callable[[Harness], Awaitable[None]], ...] = (
    submit_sends_a_hint,
    duplicates_change_nothing,
    losses_are_repaired,
    late_work_waits,
    crashes_lose_nothing,
    draining_hands_back,
)


def _client(harness: Harness) -> Penstock:
    """Submits and looks, but runs nothing."""
    return Penstock(workflows=contract_workflows(), store=harness.store_url, outputs=".")


async def _completed(app: Penstock, jobs: list[str]) -> list[Job]:
    done = [await app.wait(job, timeout=PATIENCE) for job in jobs]
    for job in done:
        assert job.status == "completed", f"job {job.id} is {job.status}: {job.error or job.reason}"
    return done


async def _some_finished(app: Penstock, jobs: list[str]) -> bool:
    return any([(await app.job(job)).final for job in jobs])


async def _some_started(app: Penstock, jobs: list[str]) -> bool:
    return any([(await app.job(job)).started is not None for job in jobs])


async def _ended(app: Penstock, batch_id: str) -> str:
    async def has_follow_up() -> bool:
        return (await app.batch(batch_id)).follow_up is not None

    await _until(app, has_follow_up, f"batch {batch_id} never ended")
    return (await app.batch(batch_id)).follow_up or ""


async def _until(app: Penstock, happened: Callable[[], Awaitable[bool]], complaint: str) -> None:
    clock = app.engine.clock
    deadline = clock.now() + PATIENCE
    while not await happened():
        assert clock.now() < deadline, complaint
        await clock.sleep(0.02)
