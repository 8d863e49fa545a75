"""Dramatiq with Redis as broker and result backend, two processes of four threads. A workflow is a pipeline of five."""

from __future__ import annotations

import time

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from bench.engine.script.assignment import Assignment
from bench.engine.script.memory import resident_mb
from bench.engine.script.report import report
from bench.engine.script.timing import Stopwatch, report_latencies, wait_until
from bench.engine.script.workers import workers

QUEUES, RESULTS = f"{Assignment.given().redis_url}/0", f"{Assignment.given().redis_url}/1"
backend = RedisBackend(url=RESULTS)
broker = RedisBroker(url=QUEUES)
broker.add_middleware(Results(backend=backend, store_results=True, result_ttl=3_600_000))
dramatiq.set_broker(broker)
WORKER = ("dramatiq", "bench.engine.peers.dramatiq", "-p", "2", "-t", "4")
HOUR = 3_600_000


@dramatiq.actor
def noop(i: int) -> float:
    return time.time()


@dramatiq.actor
def increment(i: int) -> int:
    return i + 1


def speed(assignment: Assignment) -> None:
    redis.Redis.from_url(QUEUES).flushall()
    results = redis.Redis.from_url(RESULTS)
    noop.send(0)
    watch = Stopwatch()
    with workers(assignment, *WORKER) as pids:
        wait_until(lambda: results.dbsize() >= 1, every=0.002)
        report("cold_start", watch.seconds)
        time.sleep(1)  # both processes are up

        watch = Stopwatch()
        for i in range(assignment.jobs):
            noop.send(i)
        wait_until(lambda: results.dbsize() >= assignment.jobs + 1)
        report("jobs", assignment.jobs / watch.seconds)
        before = results.dbsize()

        watch = Stopwatch()
        for i in range(assignment.workflows):
            pipeline = increment.message(i)
            for _ in range(4):
                pipeline |= increment.message()
            pipeline.run()
        wait_until(lambda: results.dbsize() >= before + 5 * assignment.workflows)
        report("workflows", assignment.workflows / watch.seconds)

        latencies = []
        for i in range(assignment.latencies):
            submitted = time.time()
            message = noop.send(i)
            latencies.append(message.get_result(backend=backend, block=True, timeout=30_000) - submitted)
            time.sleep(0.01)
        report_latencies(latencies)
        report("memory", resident_mb(*pids))


def waiting(assignment: Assignment) -> None:
    """Delayed messages are fetched ahead and kept in the worker until they are due."""
    queues = redis.Redis.from_url(QUEUES)
    queues.flushall()
    for i in range(assignment.waiting):
        noop.send_with_options(args=(i,), delay=HOUR)
    with workers(assignment, *WORKER) as pids:
        time.sleep(15)
        report("waiting_memory", resident_mb(*pids))
