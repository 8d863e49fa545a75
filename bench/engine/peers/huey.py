"""Huey on SQLite (WAL, synchronous=FULL), one consumer with one thread, its best on SQLite, polling every 10 ms.

A workflow is a pipeline of five tasks; Huey keeps each task's result, but not where the pipeline stands.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from huey import SqliteHuey

from bench.engine.script.assignment import Assignment
from bench.engine.script.memory import resident_mb
from bench.engine.script.report import report
from bench.engine.script.timing import Stopwatch, report_latencies, wait_until
from bench.engine.script.workers import workers

queue = SqliteHuey("bench", filename=str(Assignment.given().folder / "huey.db"), utc=True)
CONSUMER = ("huey_consumer", "bench.engine.peers.huey.queue", "-w", "1", "-n", "-q", "-d", "0.01", "-m", "0.02")


@queue.task()
def noop(i: int) -> float:
    return time.time()


@queue.task()
def increment(i: int) -> int:
    return i + 1


def speed(assignment: Assignment) -> None:
    noop(0)
    watch = Stopwatch()
    with workers(assignment, *CONSUMER) as pids:
        wait_until(lambda: queue.result_count() == 1, every=0.002)
        report("cold_start", watch.seconds)
        queue.flush()

        watch = Stopwatch()
        for i in range(assignment.jobs):
            noop(i)
        wait_until(lambda: queue.result_count() >= assignment.jobs)
        report("jobs", assignment.jobs / watch.seconds)
        queue.flush()

        watch = Stopwatch()
        for i in range(assignment.workflows):
            pipeline = increment.s(i)
            for _ in range(4):
                pipeline = pipeline.then(increment)
            queue.enqueue(pipeline)
        wait_until(lambda: queue.result_count() >= 5 * assignment.workflows)
        report("workflows", assignment.workflows / watch.seconds)
        queue.flush()

        latencies = []
        for i in range(assignment.latencies):
            submitted = time.time()
            result = noop(i)
            latencies.append(result.get(blocking=True, timeout=30, backoff=1, max_delay=0.005) - submitted)
            time.sleep(0.02)
        report_latencies(latencies)
        report("memory", resident_mb(*pids))


def waiting(assignment: Assignment) -> None:
    """The tasks are put straight into the schedule: filling it is not what is measured."""
    later = datetime.now(UTC) + timedelta(hours=1)
    with queue.storage.db(commit=True) as cursor:
        cursor.executemany(
            "insert into schedule(queue, data, timestamp) values(?, ?, ?)",
            (
                (queue.storage.name, queue.serialize_task(noop.s(i, eta=later)), later.timestamp())
                for i in range(assignment.waiting)
            ),
        )
    assert queue.scheduled_count() == assignment.waiting
    with workers(assignment, *CONSUMER) as pids:
        time.sleep(5)
        report("waiting_memory", resident_mb(*pids))
