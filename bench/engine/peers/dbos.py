"""DBOS Transact, inside the application's process.

A job is a workflow without steps. It is driven in three ways (called one after another, started on its threads, started
asynchronously), and the best one counts. On SQLite it gets WAL and synchronous=NORMAL, which it does not ship with, and
which promises less than the FULL we use.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

import sqlalchemy
from dbos import DBOS
from sqlalchemy import event

from bench.engine.script.assignment import Assignment
from bench.engine.script.memory import resident_mb
from bench.engine.script.report import first_job_done, report
from bench.engine.script.timing import Stopwatch, report_latencies

THREADS = 64
started: dict[int, float] = {}


@DBOS.workflow()
def noop(i: int) -> int:
    started[i] = time.perf_counter()
    return i


@DBOS.workflow()
async def noop_async(i: int) -> int:
    return i


@DBOS.step()
def increment(i: int) -> int:
    return i + 1


@DBOS.workflow()
def five(i: int) -> int:
    for _ in range(5):
        i = increment(i)
    return i


@DBOS.step()
async def increment_async(i: int) -> int:
    return i + 1


@DBOS.workflow()
async def five_async(i: int) -> int:
    for _ in range(5):
        i = await increment_async(i)
    return i


def _launch(assignment: Assignment) -> None:
    configuration = {"name": "bench", "log_level": "ERROR", "max_executor_threads": THREADS}
    if assignment.mode == "sqlite":
        url = f"sqlite:///{assignment.folder / 'dbos.sqlite'}"
        configuration |= {"system_database_url": url, "system_database_engine": _engine_with_wal(url)}
    else:
        url = assignment.postgres_url.replace("postgresql://", "postgresql+psycopg://")
        configuration["system_database_url"] = url
    DBOS(config=configuration)
    DBOS.launch()
    DBOS.start_workflow(noop, -1).get_result()


def _engine_with_wal(url: str) -> sqlalchemy.Engine:
    engine = sqlalchemy.create_engine(url, connect_args={"timeout": 30}, pool_size=20)

    @event.listens_for(engine, "connect")
    def configure(connection: object, _: object) -> None:
        connection.isolation_level = "IMMEDIATE"
        for setting in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=30000", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {setting}")

    return engine


def speed(assignment: Assignment) -> None:
    _launch(assignment)
    # Kept open to the end: closing the loop would shut down the executor that DBOS shares with it.
    loop = asyncio.new_event_loop()

    def best(workflow: Callable, asynchronous: Callable, count: int) -> float:
        return max(
            _called(workflow, count),
            _started(workflow, count),
            loop.run_until_complete(_awaited(asynchronous, count)),
        )

    report("jobs", best(noop, noop_async, assignment.jobs))
    report("workflows", best(five, five_async, assignment.workflows))
    latencies = []
    for i in range(10**9, 10**9 + assignment.latencies):
        submitted = time.perf_counter()
        DBOS.start_workflow(noop, i).get_result()
        latencies.append(started[i] - submitted)
        time.sleep(0.005)
    report_latencies(latencies)
    report("memory", resident_mb(os.getpid()))


def cold(assignment: Assignment) -> None:
    _launch(assignment)
    first_job_done()


def _called(workflow: Callable, count: int) -> float:
    watch = Stopwatch()
    for i in range(count):
        workflow(i)
    return count / watch.seconds


def _started(workflow: Callable, count: int) -> float:
    watch = Stopwatch()
    handles = [DBOS.start_workflow(workflow, i) for i in range(count)]
    for handle in handles:
        handle.get_result()
    return count / watch.seconds


async def _awaited(workflow: Callable, count: int) -> float:
    at_once = asyncio.Semaphore(THREADS)

    async def one(i: int) -> None:
        async with at_once:
            handle = await DBOS.start_workflow_async(workflow, i)
            await handle.get_result()

    watch = Stopwatch()
    await asyncio.gather(*(one(i) for i in range(count)))
    return count / watch.seconds
