"""What ageing costs in plain SQL: the priority is computed for every queued row and sorted, at each claim.

No index can hold an order that changes with the clock, which is why this grows with the queue.
"""

from __future__ import annotations

import sqlite3
import time

from bench.engine.script.assignment import Assignment
from bench.engine.script.timing import ClaimSample, Stopwatch, report_claim

SCHEMA = """
create table jobs(
    id integer primary key, priority real not null, aged_from real not null, period real not null, cap real not null,
    status int not null default 0);
create index jobs_queued on jobs(id) where status = 0;
"""
CLAIM = """
update jobs set status = 1 where id = (
    select id from jobs where status = 0
    order by min(100, priority + min((?1 - aged_from) / period, cap)) desc, aged_from, id limit 1)
"""


def claims(assignment: Assignment) -> None:
    database = sqlite3.connect(assignment.folder / "plain.db", isolation_level=None)
    for setting in ("journal_mode=wal", "synchronous=full", "cache_size=-32000"):
        database.execute(f"pragma {setting}")
    database.executescript(SCHEMA)
    filled, now = 0, time.time()
    for depth in assignment.depths:
        database.execute("begin")
        database.executemany(
            "insert into jobs(id, priority, aged_from, period, cap) values(?, ?, ?, 60, 40)",
            ((i, i % 5 * 10, now - i % 3600) for i in range(filled, depth)),
        )
        database.execute("commit")
        filled = depth
        sample = ClaimSample()
        while sample.wants_more:
            watch = Stopwatch()
            database.execute(CLAIM, (time.time(),))
            sample.add(watch)
        report_claim(depth, sample.seconds)
