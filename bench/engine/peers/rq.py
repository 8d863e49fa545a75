"""RQ with two SimpleWorkers, which do not fork for each job and are its fastest. A workflow is five dependent jobs."""

from __future__ import annotations

import time

import redis
from rq import Queue

from bench.engine.script.assignment import Assignment
from bench.engine.script.memory import resident_mb
from bench.engine.script.report import report
from bench.engine.script.timing import Stopwatch, report_latencies, wait_until
from bench.engine.script.workers import workers

KEEP = 3600
BULK = 500


def noop(i: int) -> float:
    return time.time()


def increment(i: int) -> int:
    return i + 1


def speed(assignment: Assignment) -> None:
    url = f"{assignment.redis_url}/0"
    server = redis.Redis.from_url(url)
    server.flushall()
    queue = Queue("bench", connection=server)
    finished = queue.finished_job_registry.key
    queue.enqueue(noop, 0, result_ttl=KEEP)
    watch = Stopwatch()
    worker = ("rq", "worker", "--url", url, "--logging_level", "ERROR", "-w", "rq.worker.SimpleWorker", "bench")
    with workers(assignment, *worker, count=2) as pids:
        wait_until(lambda: server.zcard(finished) >= 1, every=0.002)
        report("cold_start", watch.seconds)
        time.sleep(1)  # both workers are up
        server.delete(finished)

        watch = Stopwatch()
        for first in range(0, assignment.jobs, BULK):
            part = range(first, min(first + BULK, assignment.jobs))
            queue.enqueue_many([Queue.prepare_data(noop, (i,), result_ttl=KEEP) for i in part])
        wait_until(lambda: server.zcard(finished) >= assignment.jobs)
        report("jobs", assignment.jobs / watch.seconds)
        server.delete(finished)

        watch = Stopwatch()
        for i in range(assignment.workflows):
            job = None
            for _ in range(5):
                job = queue.enqueue(increment, i, depends_on=job, result_ttl=KEEP)
        wait_until(lambda: server.zcard(finished) >= 5 * assignment.workflows)
        report("workflows", assignment.workflows / watch.seconds)

        latencies = []
        for i in range(assignment.latencies):
            submitted = time.time()
            job = queue.enqueue(noop, i, result_ttl=KEEP)
            wait_until(lambda job=job: job.get_status() == "finished", every=0.002)
            latencies.append(job.return_value() - submitted)
            time.sleep(0.01)
        report_latencies(latencies)
        report("memory", resident_mb(*pids))
