"""The questions of the store protocol, in SQL that both dialects understand; a database only has to answer `rows`."""

from __future__ import annotations

from typing import Any

from penstock.engine.lane import AFTER_SLASH, parse
from penstock.engine.model import EVENT_COLUMNS, JOB_COLUMNS, Event, JobRow
from penstock.store.protocol import BatchRow, JobFilter, LockRow, Member, ScheduleRow, WorkerRow
from penstock.store.sql.statements import BATCH_COLUMNS

_JOB = ", ".join(f'j."{c}"' for c in JOB_COLUMNS)
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
