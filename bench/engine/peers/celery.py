"""Celery with Redis as broker and result backend, two prefork workers, gossip and mingle off.

`late-ack` is Celery with its safety on: acknowledge after the work, take one at a time, give back what a lost worker
held; its Redis writes every command to disk. A workflow is a chain of five tasks.
"""

from __future__ import annotations

import time

import redis
from celery import Celery, chain

from bench.engine.script.assignment import Assignment
from bench.engine.script.memory import resident_mb
from bench.engine.script.report import report
from bench.engine.script.timing import Stopwatch, report_latencies, wait_until
from bench.engine.script.workers import workers

BROKER, RESULTS = f"{Assignment.given().redis_url}/0", f"{Assignment.given().redis_url}/1"
app = Celery("bench", broker=BROKER, backend=RESULTS)
app.conf.update(result_expires=3600, broker_connection_retry_on_startup=True)
if Assignment.given().mode == "late-ack":
    app.conf.update(task_acks_late=True, worker_prefetch_multiplier=1, task_reject_on_worker_lost=True)
WORKER = ("celery", "-A", "bench.engine.peers.celery", "worker", "-c", "2", "-P", "prefork", "--loglevel", "ERROR")
QUIET = ("--without-gossip", "--without-mingle")


@app.task
def noop(i: int) -> float:
    return time.time()


@app.task
def increment(i: int) -> int:
    return i + 1


def speed(assignment: Assignment) -> None:
    redis.Redis.from_url(BROKER).flushall()
    results = redis.Redis.from_url(RESULTS)
    noop.delay(0)
    watch = Stopwatch()
    with workers(assignment, *WORKER, *QUIET) as pids:
        wait_until(lambda: results.dbsize() >= 1, every=0.002)
        report("cold_start", watch.seconds)
        results.flushdb()

        watch = Stopwatch()
        for i in range(assignment.jobs):
            noop.delay(i)
        wait_until(lambda: results.dbsize() >= assignment.jobs)
        report("jobs", assignment.jobs / watch.seconds)
        results.flushdb()

        watch = Stopwatch()
        for i in range(assignment.workflows):
            chain(increment.s(i), *(increment.s() for _ in range(4))).apply_async()
        wait_until(lambda: results.dbsize() >= 5 * assignment.workflows)
        report("workflows", assignment.workflows / watch.seconds)
        results.flushdb()

        latencies = []
        for i in range(assignment.latencies):
            submitted = time.time()
            latencies.append(noop.delay(i).get(timeout=30) - submitted)
            time.sleep(0.01)
        report_latencies(latencies)
        report("memory", resident_mb(*pids))
