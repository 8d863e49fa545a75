"""Procrastinate on PostgreSQL, one worker with a concurrency of 32; it has no workflows and keeps no results."""

from __future__ import annotations

import asyncio
import time

import psycopg
from procrastinate import App, PsycopgConnector

from bench.engine.script.assignment import Assignment
from bench.engine.script.memory import resident_mb
from bench.engine.script.report import report
from bench.engine.script.timing import ClaimSample, Stopwatch, report_claim, report_latencies, until
from bench.engine.script.workers import workers

CONCURRENCY = 32
BULK = 500
app = App(connector=PsycopgConnector(conninfo=Assignment.given().postgres_url, min_size=1, max_size=10))
started: dict[int, float] = {}
WORKER = ("procrastinate", "--app", "bench.engine.peers.procrastinate.app", "worker")


@app.task(name="noop", queue="bench")
async def noop(i: int) -> int:
    started[i] = time.perf_counter()
    return i


def speed(assignment: Assignment) -> None:
    asyncio.run(_speed(assignment))


def waiting(assignment: Assignment) -> None:
    asyncio.run(_waiting(assignment))


def claims(assignment: Assignment) -> None:
    asyncio.run(_claims(assignment))


async def _speed(assignment: Assignment) -> None:
    database = psycopg.connect(assignment.postgres_url, autocommit=True)

    async def until_succeeded(count: int, every: float) -> None:
        query = "select count(*) from procrastinate_jobs where status = 'succeeded'"
        await until(lambda: database.execute(query).fetchone()[0] >= count, every=every)

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await noop.defer_async(i=0)
        watch = Stopwatch()
        with workers(assignment, *WORKER, "--concurrency", str(CONCURRENCY)) as pids:
            await until_succeeded(1, 0.002)
            report("cold_start", watch.seconds)
            watch = Stopwatch()
            for first in range(0, assignment.jobs, BULK):
                part = range(first, min(first + BULK, assignment.jobs))
                await noop.batch_defer_async(*({"i": i} for i in part))
            await until_succeeded(assignment.jobs + 1, 0.03)
            report("jobs", assignment.jobs / watch.seconds)
            report("memory", resident_mb(*pids))
        await _latency(assignment)


async def _latency(assignment: Assignment) -> None:
    """With a worker inside this process, where the moment a job starts can be seen."""
    worker = asyncio.create_task(app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False))
    await asyncio.sleep(1)
    latencies = []
    for i in range(10**9, 10**9 + assignment.latencies):
        submitted = time.perf_counter()
        await noop.defer_async(i=i)
        await until(lambda i=i: i in started, every=0.001)
        latencies.append(started[i] - submitted)
        await asyncio.sleep(0.02)
    report_latencies(latencies)
    worker.cancel()
    await asyncio.wait([worker])


async def _waiting(assignment: Assignment) -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await _fill(assignment, 0, assignment.waiting, "now() + interval '1 hour'")
        with workers(assignment, *WORKER, "--concurrency", str(CONCURRENCY)) as pids:
            await asyncio.sleep(5)
            report("waiting_memory", resident_mb(*pids))


async def _claims(assignment: Assignment) -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        worker = await app.job_manager.register_worker()
        filled = 0
        for depth in assignment.depths:
            await _fill(assignment, filled, depth, "null")
            filled = depth
            sample = ClaimSample()
            while sample.wants_more:
                watch = Stopwatch()
                await app.job_manager.fetch_job(queues=None, worker_id=worker)
                sample.add(watch)
            report_claim(depth, sample.seconds)


async def _fill(assignment: Assignment, filled: int, depth: int, due: str) -> None:
    """Rows without the triggers that announce each of them: filling is not what is measured."""
    async with await psycopg.AsyncConnection.connect(assignment.postgres_url, autocommit=True) as database:
        await database.execute("alter table procrastinate_jobs disable trigger user")
        await database.execute(
            "insert into procrastinate_jobs(queue_name, task_name, args, scheduled_at) "
            f"select 'bench', 'noop', '{{\"i\": 0}}', {due} from generate_series({filled + 1}, {depth})"
        )
        await database.execute("alter table procrastinate_jobs enable trigger user")
        await database.execute("vacuum analyze procrastinate_jobs")
