"""The limit on SQLite: group commit in WAL mode with synchronous=FULL, every commit on the disk before it counts."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path

from bench.engine.limits.group_commit import Claimed, GroupCommit, Writes, measure_speed
from bench.engine.script.assignment import Assignment
from bench.engine.script.report import first_job_done
from bench.engine.script.timing import ClaimSample, Stopwatch, report_claim

SCHEMA = """
create table if not exists jobs(
    id integer primary key, name text not null, argument text, priority int not null default 0,
    due real not null default 0, status int not null default 0, attempts int not null default 0, lease real,
    result text, submitted real, finished real);
create index if not exists jobs_due on jobs(priority desc, id) where status = 0;
create table if not exists steps(job int, seq int, result text, primary key(job, seq)) without rowid;
"""
SUBMIT = "insert into jobs(id, name, argument, submitted) values(?, ?, ?, 0)"
STEP = "insert or replace into steps(job, seq, result) values(?, ?, ?)"
RESULT = "update jobs set status = 2, result = ?2, finished = 0 where id = ?1"
CLAIM = """
update jobs set status = 1, lease = ?1 + 60, attempts = attempts + 1 where id in (
    select id from jobs where status = 0 and due <= ?1 order by priority desc, id limit ?2)
returning id, name, argument
"""


class SqliteConnection:
    def __init__(self, path: Path) -> None:
        self.database = sqlite3.connect(path, isolation_level=None, cached_statements=256)
        for setting in ("journal_mode=wal", "synchronous=full", "cache_size=-32000", "wal_autocheckpoint=4000"):
            self.database.execute(f"pragma {setting}")
        self.database.executescript(SCHEMA)

    async def commit(self, writes: Writes, claim: int) -> list[Claimed]:
        return self.commit_now(writes, claim)

    def commit_now(self, writes: Writes, claim: int) -> list[Claimed]:
        self.database.execute("begin immediate")
        self.database.executemany(SUBMIT, writes.submitted)
        self.database.executemany(STEP, writes.steps)
        self.database.executemany(RESULT, writes.results)
        claimed = self.database.execute(CLAIM, (time.time(), claim)).fetchall() if claim else []
        self.database.execute("commit")
        return claimed


def speed(assignment: Assignment) -> None:
    async def measure() -> None:
        connection = SqliteConnection(assignment.folder / "limit.db")
        await measure_speed(GroupCommit([connection]), assignment)
        (left,) = connection.database.execute("select count(*) from jobs where status <> 2").fetchone()
        (steps,) = connection.database.execute("select count(*) from steps").fetchone()
        assert (left, steps) == (0, 5 * assignment.workflows), (left, steps)

    asyncio.run(measure())


def cold(assignment: Assignment) -> None:
    async def one_job() -> None:
        engine = GroupCommit([SqliteConnection(assignment.folder / "limit.db")])
        await engine.submit("noop", range(1))
        await engine.wait(1)
        first_job_done()

    asyncio.run(one_job())


def claims(assignment: Assignment) -> None:
    connection = SqliteConnection(assignment.folder / "claims.db")
    filled = 0
    for depth in assignment.depths:
        connection.commit_now(Writes(submitted=[(i, "noop", "0") for i in range(filled, depth)]), 0)
        filled = depth
        sample = ClaimSample()
        while sample.wants_more:
            watch = Stopwatch()
            connection.commit_now(Writes(), 1)
            sample.add(watch)
        report_claim(depth, sample.seconds)
