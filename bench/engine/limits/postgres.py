"""The limit on PostgreSQL: everything ready goes in one data-modifying statement, one round trip and one commit."""

from __future__ import annotations

import asyncio
import time

import asyncpg

from bench.engine.limits.group_commit import Claimed, GroupCommit, Writes, measure_speed
from bench.engine.script.assignment import Assignment
from bench.engine.script.report import first_job_done
from bench.engine.script.timing import ClaimSample, Stopwatch, report_claim

CONNECTIONS = 2
SCHEMA = """
create table if not exists jobs(
    id bigint primary key, name text not null, argument text, priority int not null default 0,
    due float8 not null default 0, status smallint not null default 0, attempts int not null default 0,
    lease float8, result text, submitted float8, finished float8) with (fillfactor = 70);
create index if not exists jobs_due on jobs(priority desc, id) where status = 0;
create table if not exists steps(job bigint, seq int, result text, primary key(job, seq));
"""
COMMIT = """
with submitted as (
    insert into jobs(id, name, argument, submitted)
    select id, name, argument, $10 from unnest($1::bigint[], $2::text[], $3::text[]) new(id, name, argument)),
steps as (
    insert into steps(job, seq, result)
    select job, seq, result from unnest($4::bigint[], $5::int[], $6::text[]) new(job, seq, result)),
results as (
    update jobs set status = 2, result = new.result, finished = $10
    from unnest($7::bigint[], $8::text[]) new(id, result) where jobs.id = new.id),
claimed as (
    update jobs set status = 1, lease = $10 + 60, attempts = attempts + 1 where id in (
        select id from jobs where status = 0 and due <= $10
        order by priority desc, id limit $9::int for update skip locked)
    returning id, name, argument)
select id, name, argument from claimed
"""


class PostgresConnection:
    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection

    async def commit(self, writes: Writes, claim: int) -> list[Claimed]:
        rows = await self.connection.fetch(
            COMMIT,
            *_columns(writes.submitted, 3),
            *_columns(writes.steps, 3),
            *_columns(writes.results, 2),
            claim,
            time.time(),
        )
        return [tuple(row) for row in rows]


def _columns(rows: list[tuple], count: int) -> list[list]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(count)]


async def _connect(assignment: Assignment) -> list[PostgresConnection]:
    connections = [await asyncpg.connect(assignment.postgres_url) for _ in range(CONNECTIONS)]
    await connections[0].execute(SCHEMA)
    return [PostgresConnection(connection) for connection in connections]


def speed(assignment: Assignment) -> None:
    async def measure() -> None:
        connections = await _connect(assignment)
        await measure_speed(GroupCommit(list(connections)), assignment)
        left = await connections[0].connection.fetchval("select count(*) from jobs where status <> 2")
        steps = await connections[0].connection.fetchval("select count(*) from steps")
        assert (left, steps) == (0, 5 * assignment.workflows), (left, steps)

    asyncio.run(measure())


def cold(assignment: Assignment) -> None:
    async def one_job() -> None:
        engine = GroupCommit(list(await _connect(assignment)))
        await engine.submit("noop", range(1))
        await engine.wait(1)
        first_job_done()

    asyncio.run(one_job())


def claims(assignment: Assignment) -> None:
    async def measure() -> None:
        connection, *_ = await _connect(assignment)
        filled = 0
        for depth in assignment.depths:
            await connection.connection.execute(
                "insert into jobs(id, name, argument) "
                f"select i, 'noop', '0' from generate_series({filled + 1}, {depth}) i"
            )
            await connection.connection.execute("vacuum analyze jobs")
            filled = depth
            sample = ClaimSample()
            while sample.wants_more:
                watch = Stopwatch()
                await connection.commit(Writes(), 1)
                sample.add(watch)
            report_claim(depth, sample.seconds)

    asyncio.run(measure())
