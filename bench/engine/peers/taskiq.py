"""taskiq with an acknowledged Redis stream and Redis results, two worker processes. It has no workflows of its own."""

from __future__ import annotations

import asyncio
import time

import redis
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

from bench.engine.script.assignment import Assignment
from bench.engine.script.memory import resident_mb
from bench.engine.script.report import report
from bench.engine.script.timing import Stopwatch, report_latencies, until
from bench.engine.script.workers import workers

QUEUES, RESULTS = f"{Assignment.given().redis_url}/0", f"{Assignment.given().redis_url}/1"
broker = RedisStreamBroker(url=QUEUES).with_result_backend(
    RedisAsyncResultBackend(redis_url=RESULTS, result_ex_time=3600)
)
WORKER = ("taskiq", "worker", "bench.engine.peers.taskiq:broker", "--workers", "2", "--log-level", "ERROR")
AT_ONCE = 50


@broker.task
async def noop(i: int) -> float:
    return time.time()


def speed(assignment: Assignment) -> None:
    asyncio.run(_speed(assignment))


async def _speed(assignment: Assignment) -> None:
    redis.Redis.from_url(QUEUES).flushall()
    results = redis.Redis.from_url(RESULTS)
    await broker.startup()
    await noop.kiq(0)
    watch = Stopwatch()
    with workers(assignment, *WORKER) as pids:
        await until(lambda: results.dbsize() >= 1, every=0.002)
        report("cold_start", watch.seconds)
        await asyncio.sleep(1)  # both processes are up

        watch = Stopwatch()
        for first in range(0, assignment.jobs, AT_ONCE):
            await asyncio.gather(*(noop.kiq(i) for i in range(first, min(first + AT_ONCE, assignment.jobs))))
        await until(lambda: results.dbsize() >= assignment.jobs + 1, every=0.01)
        report("jobs", assignment.jobs / watch.seconds)

        latencies = []
        for i in range(assignment.latencies):
            submitted = time.time()
            task = await noop.kiq(i)
            result = await task.wait_result(check_interval=0.002, timeout=30)
            latencies.append(result.return_value - submitted)
            await asyncio.sleep(0.01)
        report_latencies(latencies)
        report("memory", resident_mb(*pids))
        await broker.shutdown()
