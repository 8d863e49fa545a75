"""The questions of the store protocol, in SQL that both dialects understand; a database only has to answer `rows`."""

from __future__ import annotations

from typing import Any

from penstock.engine.call import CALL_COLUMNS, LIVE, CallRow
from penstock.engine.lane import AFTER_SLASH, parse
from penstock.engine.model import EVENT_COLUMNS, JOB_COLUMNS, Event, JobRow
from penstock.store.protocol import (
    BatchRow,
    Budget,
    CallFilter,
    Cost,
    CostFilter,
    JobFilter,
    LockRow,
    Member,
    ScheduleRow,
    WorkerRow,
)
from penstock.store.sql.statements import BATCH_COLUMNS

_JOB = ", ".join(f'j."{c}"' for c in JOB_COLUMNS)
_CALL = ", ".join(f'c."{c}"' for c in CALL_COLUMNS)
_EVENT = ", ".join(f'"{c}"' for c in EVENT_COLUMNS)
_BATCH = ", ".join(f'"{c}"' for c in BATCH_COLUMNS)


class Reading:
    """Every method is one query. Placeholders are written `?` and numbered by the database's own module where it
    needs that."""

    async def rows(self, sql: str, args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    async def job(self, job_id: str) -> JobRow | None:
        found = await self.rows(f"SELECT {_JOB} FROM jobs j WHERE id = ?", (job_id,))
        return JobRow(*found[0]) if found else None

    async def jobs(self, where: JobFilter) -> list[JobRow]:
        tests, args = [], []
        for column, value in (("tenant", where.tenant), ("workflow", where.workflow), ("key", where.key)):
            if value is not None:
                tests.append(f"j.{column} = ?")
                args.append(value)
        if where.status:
            tests.append(f"j.status IN ({', '.join('?' * len(where.status))})")
            args.extend(where.status)
        if where.batch is not None:
            tests.append("j.id IN (SELECT job FROM members WHERE batch = ?)")
            args.append(where.batch)
        if where.before is not None:
            tests.append("j.id < ?")
            args.append(where.before)
        condition = f"WHERE {' AND '.join(tests)}" if tests else ""
        found = await self.rows(
            f"SELECT {_JOB} FROM jobs j {condition} ORDER BY j.id DESC LIMIT ?", (*args, where.limit)
        )
        return [JobRow(*values) for values in found]

    async def count(self, *, tenant: str | None = None) -> dict[tuple[str, str], int]:
        condition, args = ("WHERE tenant = ?", (tenant,)) if tenant is not None else ("", ())
        found = await self.rows(
            f"SELECT workflow, status, count(*) FROM jobs {condition} GROUP BY workflow, status", args
        )
        return {(workflow, status): count for workflow, status, count in found}

    async def history(self, job_id: str) -> list[Event]:
        found = await self.rows(f"SELECT {_EVENT} FROM history WHERE job = ? ORDER BY id", (job_id,))
        return [Event(*values) for values in found]

    async def batch(self, batch_id: str) -> BatchRow | None:
        found = await self.rows(f"SELECT {_BATCH} FROM batches WHERE id = ?", (batch_id,))
        return BatchRow(*found[0]) if found else None

    async def members(self, batch_id: str, *, after: str = "", limit: int = 1000) -> list[Member]:
        found = await self.rows(
            "SELECT batch, job, ended FROM members WHERE batch = ? AND job > ? ORDER BY job LIMIT ?",
            (batch_id, after, limit),
        )
        return [Member(*values) for values in found]

    async def locks(self, *, tenant: str | None = None) -> list[LockRow]:
        condition, args = ("WHERE tenant = ?", (tenant,)) if tenant is not None else ("", ())
        found = await self.rows(f"SELECT tenant, name, job, taken FROM locks {condition} ORDER BY tenant, name", args)
        return [LockRow(*values) for values in found]

    async def workers(self) -> list[WorkerRow]:
        found = await self.rows(
            "SELECT id, started, seen, expires, info,"
            " (SELECT count(*) FROM jobs WHERE phase = 'held' AND worker = w.id) FROM workers w ORDER BY id",
            (),
        )
        return [WorkerRow(*values) for values in found]

    async def schedules(self) -> list[ScheduleRow]:
        found = await self.rows(
            "SELECT name, tenant, cron, timezone, next_due, job, enabled, last_fired FROM schedules"
            " ORDER BY tenant, name",
            (),
        )
        return [ScheduleRow(*(*values[:6], bool(values[6]), values[7])) for values in found]

    async def limits(self) -> dict[str, int]:
        return dict(await self.rows("SELECT key, most FROM limits", ()))

    async def call(self, call_id: str) -> CallRow | None:
        found = await self.rows(f"SELECT {_CALL} FROM calls c WHERE c.id = ?", (call_id,))
        return CallRow(*found[0]) if found else None

    async def last_call(self, job_id: str, key: str) -> CallRow | None:
        found = await self.rows(
            f"SELECT {_CALL} FROM calls c WHERE c.job = ? AND c.key = ? ORDER BY c.attempt DESC LIMIT 1", (job_id, key)
        )
        return CallRow(*found[0]) if found else None

    async def calls(self, where: CallFilter) -> list[CallRow]:
        tests, args = [], []
        for column, value in (
            ("tenant", where.tenant),
            ("job", where.job),
            ("key", where.key),
            ("remote", where.remote),
        ):
            if value is not None:
                tests.append(f"c.{column} = ?")
                args.append(value)
        if where.state:
            tests.append(f"c.state IN ({', '.join('?' * len(where.state))})")
            args.extend(where.state)
        if where.before is not None:
            tests.append("(c.created, c.id) < (?, ?)")
            args.extend(where.before)  # type: ignore[arg-type]
        condition = f"WHERE {' AND '.join(tests)}" if tests else ""
        found = await self.rows(
            f"SELECT {_CALL} FROM calls c {condition} ORDER BY c.created DESC, c.id DESC LIMIT ?", (*args, where.limit)
        )
        return [CallRow(*values) for values in found]

    async def next_call_due(self, places: tuple[str, ...]) -> float | None:
        if not places:
            return None
        found = await self.rows(
            f"SELECT min(due) FROM calls WHERE due IS NOT NULL AND place IN ({', '.join('?' * len(places))})", places
        )
        return found[0][0]  # type: ignore[no-any-return]

    async def costs(self, where: CostFilter) -> list[Cost]:
        tests, args = [], []
        for test, value in (
            ("c.tenant = ?", where.tenant),
            ("c.workflow = ?", where.workflow),
            ("c.job = ?", where.job),
            ("c.job IN (SELECT job FROM members WHERE batch = ?)", where.batch),
            ("c.created >= ?", where.since),
            ("c.created < ?", where.until),
        ):
            if value is not None:
                tests.append(test)
                args.append(value)
        groups = [self.day_of("c.created") if name == "day" else f"c.{name}" for name in where.by]
        live = ", ".join(f"'{state}'" for state in sorted(LIVE))
        sums = ", ".join(f"CAST(coalesce(sum({column}), 0) AS bigint)" for column in (
            f"CASE WHEN c.state IN ({live}) THEN 1 ELSE 0 END",
            f"CASE WHEN c.state IN ({live}) THEN 0 ELSE c.input END",
            f"CASE WHEN c.state IN ({live}) THEN 0 ELSE c.output END",
            "c.cached",
            "c.cost",
            f"CASE WHEN c.state IN ({live}) THEN c.estimate ELSE 0 END",
        ))  # fmt: skip
        selected = "".join(f"{group}, " for group in groups)
        condition = f"WHERE {' AND '.join(tests)}" if tests else ""
        grouped = f"GROUP BY {', '.join(groups)} ORDER BY {', '.join(groups)}" if groups else ""
        found = await self.rows(f"SELECT {selected}count(*), {sums} FROM calls c {condition} {grouped}", tuple(args))
        return [Cost(tuple(map(str, values[: len(groups)])), *values[len(groups) :]) for values in found if values[-7]]

    def day_of(self, column: str) -> str:
        """SQL for the UTC day of a time, as text."""
        raise NotImplementedError

    async def budgets(self) -> list[Budget]:
        found = await self.rows(
            "SELECT scope, most, spent, CAST(coalesce((SELECT sum(amount) FROM holds"
            " WHERE name = 'budget:' || scope), 0) AS bigint) FROM budgets ORDER BY scope",
            (),
        )
        return [Budget(*values) for values in found]

    async def halting(self, worker: str) -> dict[str, str]:
        found = await self.rows(
            "SELECT id, gate FROM jobs WHERE phase = 'held' AND worker = ? AND gate <> ''", (worker,)
        )
        return dict(found)

    async def ready_queues(self) -> list[str]:
        """One look into the index for each queue, however many jobs are ready."""
        queues: list[str] = []
        after = ""
        while True:
            found = await self.rows(
                "SELECT lane FROM jobs WHERE phase = 'ready' AND lane >= ? ORDER BY lane LIMIT 1", (after,)
            )
            if not found:
                return sorted(queues)
            queue = parse(found[0][0]).queue
            queues.append(queue)
            after = queue + AFTER_SLASH

    async def next_due(self) -> float | None:
        found = await self.rows(
            "SELECT min(due) FROM (SELECT min(due) AS due FROM jobs"
            " WHERE due IS NOT NULL AND phase IN ('timed', 'held')"
            " UNION ALL SELECT min(next_due) FROM schedules WHERE enabled) d",
            (),
        )
        return found[0][0]  # type: ignore[no-any-return]
