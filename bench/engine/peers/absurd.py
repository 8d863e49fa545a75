"""Absurd on PostgreSQL: four worker processes that claim twenty tasks at a time and poll every 10 ms when idle.

Its schema comes with its command line tool. Tasks are spawned 500 in a transaction, since there is no bulk call.
"""

from __future__ import annotations

import time
from typing import Any

import psycopg
from absurd_sdk import Absurd, TaskContext
from absurdctl import BUNDLED_SCHEMA_SQL

from bench.engine.script.assignment import Assignment
from bench.engine.script.memory import resident_mb
from bench.engine.script.report import report
from bench.engine.script.timing import ClaimSample, Stopwatch, report_claim, report_latencies, wait_until
from bench.engine.script.workers import workers

WORKERS = 4
BULK = 500
COMPLETED = "select count(*) from absurd.t_default where state = 'completed'"
FILL = """
with tasks as (
    insert into absurd.t_default(task_id, task_name, params, state, attempts)
    select gen_random_uuid(), 'noop', '{{"i": 0}}', 'pending', 1 from generate_series({first}, {last})
    returning task_id)
insert into absurd.r_default(run_id, task_id, attempt, state, available_at)
select gen_random_uuid(), task_id, 1, 'pending', now() - interval '1 ms' * row_number() over () from tasks
"""


def _application(connection: psycopg.Connection[Any]) -> Absurd:
    application = Absurd(connection)

    @application.register_task("noop")
    def noop(parameters: dict[str, int], context: TaskContext) -> float:
        return time.time()

    @application.register_task("five")
    def five(parameters: dict[str, int], context: TaskContext) -> int:
        i = parameters["i"]
        for number in range(5):
            i = context.step(f"step-{number}", lambda i=i: i + 1)
        return i

    return application


def _connect(assignment: Assignment) -> psycopg.Connection[Any]:
    return psycopg.connect(assignment.postgres_url, autocommit=True)


def _prepare(assignment: Assignment) -> tuple[Absurd, psycopg.Connection[Any]]:
    connection = _connect(assignment)
    connection.execute(BUNDLED_SCHEMA_SQL)
    application = _application(connection)
    application.create_queue()
    return application, connection


def speed(assignment: Assignment) -> None:
    application, connection = _prepare(assignment)

    def until_completed(count: int, *, every: float) -> None:
        wait_until(lambda: connection.execute(COMPLETED).fetchone()[0] >= count, every=every)

    def spawn(task: str, count: int) -> None:
        for first in range(0, count, BULK):
            with connection.transaction():
                for i in range(first, min(first + BULK, count)):
                    application.spawn(task, {"i": i})

    application.spawn("noop", {"i": 0})
    watch = Stopwatch()
    with workers(assignment, "python", "-m", __name__, count=WORKERS) as pids:
        until_completed(1, every=0.002)
        report("cold_start", watch.seconds)
        time.sleep(1)  # all workers are up

        watch = Stopwatch()
        spawn("noop", assignment.jobs)
        until_completed(assignment.jobs + 1, every=0.02)
        report("jobs", assignment.jobs / watch.seconds)

        watch = Stopwatch()
        spawn("five", assignment.workflows)
        until_completed(assignment.jobs + 1 + assignment.workflows, every=0.02)
        report("workflows", assignment.workflows / watch.seconds)

        latencies = []
        for i in range(assignment.latencies):
            submitted = time.time()
            task = application.spawn("noop", {"i": i})["task_id"]
            result = None
            while result is None or result.state != "completed":
                time.sleep(0.002)
                result = application.fetch_task_result(task)
            latencies.append(result.result - submitted)
            time.sleep(0.01)
        report_latencies(latencies)
        report("memory", resident_mb(*pids))


def claims(assignment: Assignment) -> None:
    application, connection = _prepare(assignment)
    filled = 0
    for depth in assignment.depths:
        connection.execute(FILL.format(first=filled + 1, last=depth))
        connection.execute("vacuum analyze absurd.t_default")
        connection.execute("vacuum analyze absurd.r_default")
        filled = depth
        sample = ClaimSample()
        while sample.wants_more:
            watch = Stopwatch()
            application.claim_tasks(batch_size=1)
            sample.add(watch)
        report_claim(depth, sample.seconds)


if __name__ == "__main__":
    _application(_connect(Assignment.given())).start_worker(batch_size=20, poll_interval=0.01)
