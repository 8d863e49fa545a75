"""Whether a key was submitted before is one look into an index, however many jobs its tenant has."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from penstock.store import migrations
from penstock.store.sql.statements import ROWS, statements


def test_each_key_is_looked_up_by_all_its_columns() -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(migrations.whole_schema("sqlite"))
        database.executemany(
            "INSERT INTO jobs (id, tenant, workflow, key, run, queue, digest, base, period, cap, aged_from, created,"
            " status, phase, step, payload, lane, resource) VALUES (?, 'acme', 'draw', ?, 1, 'q', 'd', 50, 0, 0, 1, 1,"
            " 'queued', 'ready', 'one', '[]', 'lane', '')",
            [(f"j{n}", f"k{n}") for n in range(2000)],
        )
        database.execute("ANALYZE")
        sql = statements("sqlite")["last_runs"].replace(ROWS, ", ".join(["(?, ?, ?)"] * 4))
        keys = ["acme", "draw", "k7", "acme", "draw", "nobody", "acme", "draw", "k9", None, None, None]
        plan = [line[3] for line in database.execute(f"EXPLAIN QUERY PLAN {sql}", keys)]
        looks = [line for line in plan if " j " in line]
        assert looks, plan
        for line in looks:
            assert "jobs_by_key (tenant=? AND workflow=? AND key=?)" in line, plan
        assert database.execute(sql, keys).fetchall() == [('["j7",null,"j9",null]',)]
