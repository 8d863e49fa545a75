"""Penstock itself, measured like every peer: embedded delivery in one process, with validation and history on.

SQLite keeps `synchronous=FULL`, PostgreSQL its defaults. A time ends when the store says that the work is done.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter

from pydantic import BaseModel

from bench.engine.script.assignment import Assignment
from bench.engine.script.memory import resident_mb
from bench.engine.script.report import first_job_done, report
from bench.engine.script.timing import ClaimSample, Stopwatch, report_claim, report_latencies, until
from penstock import Again, Context, Penstock, Workflow
from penstock.store.protocol import Beat, Claim

CONCURRENCY = 1000
BULK = 1000
HOUR = 3600.0


class Number(BaseModel):
    i: int


noop = Workflow("noop", payload=Number)
five = Workflow("five", payload=Number)
waiter = Workflow("waiter", payload=Number)
started: dict[int, float] = {}
"""When the no-op job with this number began."""
ended: Counter[str] = Counter()
"""How many jobs of a workflow have run their last step, which may not be stored yet."""


@noop.step
async def only(number: Number, ctx: Context) -> int:
    started[number.i] = time.perf_counter()
    ended["noop"] += 1
    return number.i


@five.step
async def first(number: Number, ctx: Context) -> Number:
    return Number(i=number.i + 1)


@five.step
async def second(number: Number, ctx: Context) -> Number:
    return Number(i=number.i + 1)


@five.step
async def third(number: Number, ctx: Context) -> Number:
    return Number(i=number.i + 1)


@five.step
async def fourth(number: Number, ctx: Context) -> Number:
    return Number(i=number.i + 1)


@five.step
async def fifth(number: Number, ctx: Context) -> int:
    ended["five"] += 1
    return number.i + 1


@waiter.step
async def wait(number: Number, ctx: Context) -> Again:
    ended["waiter"] += 1
    return Again(number, after=HOUR)


def _application(assignment: Assignment) -> Penstock:
    sqlite = f"sqlite:///{assignment.folder / 'penstock.db'}"
    return Penstock(workflows=[noop, five, waiter], store=assignment.postgres_url or sqlite, outputs=assignment.folder)


def speed(assignment: Assignment) -> None:
    asyncio.run(_speed(assignment))


def cold(assignment: Assignment) -> None:
    asyncio.run(_cold(assignment))


def waiting(assignment: Assignment) -> None:
    asyncio.run(_waiting(assignment))


def claims(assignment: Assignment) -> None:
    asyncio.run(_claims(assignment))


async def _speed(assignment: Assignment) -> None:
    async with _application(assignment) as app, app.worker(concurrency=CONCURRENCY):
        await _run_one(app, -1)

        watch = Stopwatch()
        await _submit(app, noop, range(assignment.jobs))
        await _until(app, noop, "completed", assignment.jobs + 1)
        report("jobs", assignment.jobs / watch.seconds)

        watch = Stopwatch()
        await _submit(app, five, range(assignment.workflows))
        await _until(app, five, "completed", assignment.workflows)
        report("workflows", assignment.workflows / watch.seconds)

        latencies = []
        for i in range(10**9, 10**9 + assignment.latencies):
            submitted = time.perf_counter()
            await _run_one(app, i)
            latencies.append(started[i] - submitted)
            await asyncio.sleep(0.005)
        report_latencies(latencies)
        report("memory", resident_mb(os.getpid()))


async def _cold(assignment: Assignment) -> None:
    async with _application(assignment) as app, app.worker(concurrency=CONCURRENCY):
        await _run_one(app, 0)
        first_job_done()


async def _waiting(assignment: Assignment) -> None:
    async with _application(assignment) as app, app.worker(concurrency=CONCURRENCY):
        await _submit(app, waiter, range(assignment.waiting))
        await _until(app, waiter, "waiting", assignment.waiting)
        report("waiting_memory", resident_mb(os.getpid()))


async def _claims(assignment: Assignment) -> None:
    """Straight at the store, with no worker to compete with: one transaction that claims the best job."""
    async with _application(assignment) as app:
        await app.engine.store.apply([Beat("bench", HOUR, first=True)])
        claim = Claim("bench", queue="default", workflows=("noop",))
        filled = 0
        for depth in assignment.depths:
            await _submit(app, noop, range(filled, depth))
            filled = depth
            sample = ClaimSample()
            while sample.wants_more:
                watch = Stopwatch()
                applied = await app.engine.store.apply([claim])
                sample.add(watch)
                assert applied.answers[0].rows, "the claim took nothing"
            report_claim(depth, sample.seconds)


async def _run_one(app: Penstock, i: int) -> None:
    job = await app.submit(noop, Number(i=i))
    done = await app.wait(job.job_id)
    assert done.status == "completed", done


async def _submit(app: Penstock, workflow: Workflow, numbers: range) -> None:
    for begin in range(numbers.start, numbers.stop, BULK):
        part = range(begin, min(begin + BULK, numbers.stop))
        await app.submit_many(workflow, [Number(i=i) for i in part])


async def _until(app: Penstock, workflow: Workflow, status: str, count: int) -> None:
    """Until the store counts so many. It is asked only once the steps have run, so as not to slow them down."""
    await until(lambda: ended[workflow.name] >= count, every=0.002)
    while True:
        stored = await app.engine.store.count()
        if stored.get((workflow.name, status), 0) >= count:
            return
        await asyncio.sleep(0.002)
