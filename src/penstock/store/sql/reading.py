"""The questions of the store protocol, in SQL that both dialects understand; a database only has to answer `rows`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from penstock.engine.audit import AUDIT_COLUMNS, AuditRow
from penstock.engine.call import CALL_COLUMNS, LIVE, CallRow
from penstock.engine.lane import AFTER_SLASH, parse
from penstock.engine.model import EVENT_COLUMNS, JOB_COLUMNS, Event, JobRow
from penstock.store.protocol import (
    SESSION_COLUMNS,
    TOKEN_COLUMNS,
    AuditFilter,
    BatchFilter,
    BatchRow,
    Budget,
    CallFilter,
    Change,
    Cost,
    CostFilter,
    JobFilter,
    LockFilter,
    LockRow,
    LogLine,
    Member,
    ScheduleRow,
    SessionRow,
    TokenRow,
    WorkerRow,
)
from penstock.store.sql import listing
from penstock.store.sql.statements import BATCH_COLUMNS

_JOB = ", ".join(f'j."{c}"' for c in JOB_COLUMNS)
_CALL = ", ".join(f'c."{c}"' for c in CALL_COLUMNS)
_EVENT = ", ".join(f'"{c}"' for c in EVENT_COLUMNS)
_EVENT_OF = ", ".join(f'h."{c}"' for c in EVENT_COLUMNS)
_BATCH = ", ".join(f'"{c}"' for c in BATCH_COLUMNS)


class Reading:
    """Every method is one query, or asks several of which each is an answer. Placeholders are written `?` and numbered
    by the database's own module where it needs that."""

    line_order = "id"
    """How lines of one job are put in order."""

    async def rows(self, sql: str, args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    async def job(self, job_id: str) -> JobRow | None:
        found = await self.rows(f"SELECT {_JOB} FROM jobs j WHERE id = ?", (job_id,))
        return JobRow(*found[0]) if found else None

    async def jobs(self, where: JobFilter) -> list[JobRow]:
        found: list[tuple[Any, ...]] = []
        for sql, args in listing.questions(where):
            found = await self.rows(sql, args)
            if len(found) >= where.limit:
                break
        return [JobRow(*values) for values in found]

    async def count(self, *, tenant: str | None = None) -> dict[tuple[str, str], int]:
        return listing.counted(await self.rows(*listing.census(tenant)))

    async def history(self, job_id: str) -> list[Event]:
        found = await self.rows(f"SELECT {_EVENT} FROM history WHERE job = ? ORDER BY id", (job_id,))
        return [Event(*values) for values in found]

    async def history_page(
        self, job_id: str, *, after: int = 0, before: int | None = None, limit: int = 500, newest: bool = False
    ) -> list[tuple[int, Event]]:
        upto, args = ("", (job_id, after)) if before is None else (" AND id < ?", (job_id, after, before))
        found = await self.rows(
            f"SELECT id, {_EVENT} FROM history WHERE job = ? AND id > ?{upto}"
            f" ORDER BY {self.line_order} {'DESC' if newest else 'ASC'} LIMIT ?",
            (*args, limit),
        )
        return [(values[0], Event(*values[1:])) for values in (reversed(found) if newest else found)]

    async def batch(self, batch_id: str) -> BatchRow | None:
        found = await self.rows(f"SELECT {_BATCH} FROM batches WHERE id = ?", (batch_id,))
        return BatchRow(*found[0]) if found else None

    async def members(self, batch_id: str, *, after: str = "", limit: int = 1000) -> list[Member]:
        found = await self.rows(
            "SELECT batch, job, ended FROM members WHERE batch = ? AND job > ? ORDER BY job LIMIT ?",
            (batch_id, after, limit),
        )
        return [Member(*values) for values in found]

    async def batches(self, where: BatchFilter) -> list[BatchRow]:
        tests, args = _equal(("tenant", where.tenant), ("key", where.key))
        if where.open is not None:
            tests.append("finished IS NULL" if where.open else "finished IS NOT NULL")
        if where.ids is not None:
            tests.append(f"id IN ({', '.join('?' * len(where.ids))})" if where.ids else "1 = 0")
            args.extend(where.ids)
        if where.before is not None:
            tests.append("id < ?")
            args.append(where.before)
        found = await self.rows(
            f"SELECT {_BATCH} FROM batches {_where(tests)} ORDER BY id DESC LIMIT ?", (*args, where.limit)
        )
        return [BatchRow(*values) for values in found]

    async def changes(self, after: int, *, also: Sequence[int] = (), limit: int = 1000) -> list[Change]:
        source = (
            f"SELECT h.id, {_EVENT_OF}, j.tenant, j.workflow, j.key, j.run, j.batch"
            " FROM history h JOIN jobs j ON j.id = h.job"
        )
        found = await self.rows(f"{source} WHERE h.id > ? ORDER BY h.id LIMIT ?", (after, limit))
        if also:
            marks = ", ".join("?" * len(also))
            found += await self.rows(f"{source} WHERE h.id IN ({marks})", tuple(also))
            by_number = {values[0]: values for values in found}
            found = [by_number[number] for number in sorted(by_number)]
        end = 1 + len(EVENT_COLUMNS)
        return [Change(values[0], Event(*values[1:end]), *values[end:]) for values in found]

    async def last_change(self) -> int:
        return int((await self.rows("SELECT coalesce(max(id), 0) FROM history", ()))[0][0])

    async def logs(self, job_id: str, *, limit: int = 1000) -> list[LogLine]:
        found = await self.rows(
            'SELECT "at", step, attempt, level, "text" FROM logs WHERE job = ?'
            f" ORDER BY {self.line_order} DESC LIMIT ?",
            (job_id, limit),
        )
        return [LogLine(*values) for values in reversed(found)]

    async def backlog(self, most: int) -> int:
        found = await self.rows("SELECT count(*) FROM (SELECT 1 FROM jobs WHERE phase = 'ready' LIMIT ?) q", (most,))
        return int(found[0][0])

    async def locks(self, where: LockFilter | None = None) -> list[LockRow]:
        where = where or LockFilter()
        tests, args = _equal(("tenant", where.tenant), ("job", where.job), ("name", where.name))
        if where.after is not None:
            tests.append("(tenant, name) > (?, ?)")
            args.extend(where.after)
        found = await self.rows(
            f"SELECT tenant, name, job, taken FROM locks {_where(tests)} ORDER BY tenant, name LIMIT ?",
            (*args, where.limit),
        )
        return [LockRow(*values) for values in found]

    async def audit(self, where: AuditFilter) -> list[AuditRow]:
        tests, args = _equal(
            ("tenant", where.tenant), ("actor", where.actor), ("action", where.action), ("target", where.target)
        )
        if where.before is not None:
            tests.append("id < ?")
            args.append(where.before)
        found = await self.rows(
            f"SELECT {', '.join(AUDIT_COLUMNS)} FROM audit {_where(tests)} ORDER BY id DESC LIMIT ?",
            (*args, where.limit),
        )
        return [AuditRow(*values) for values in found]

    async def tokens(self, *, hash: str | None = None, id: str | None = None) -> list[TokenRow]:
        tests, args = _equal(("hash", hash), ("id", id))
        found = await self.rows(
            f"SELECT {', '.join(TOKEN_COLUMNS)} FROM tokens {_where(tests)} ORDER BY name", tuple(args)
        )
        return [TokenRow(*values) for values in found]

    async def answered(self, scope: str, key: str) -> bool:
        return bool(await self.rows("SELECT 1 FROM answers WHERE scope = ? AND key = ?", (scope, key)))

    async def session(self, hash: str) -> SessionRow | None:
        found = await self.rows(f"SELECT {', '.join(SESSION_COLUMNS)} FROM sessions WHERE hash = ?", (hash,))
        if not found or found[0][-1] <= await self.now():
            return None
        return SessionRow(*found[0])

    async def now(self) -> float:
        raise NotImplementedError

    async def meters(self) -> list[tuple[str, str, float]]:
        return await self.rows('SELECT name, labels, "value" FROM meters ORDER BY name, labels', ())

    async def series(self, names: Sequence[str], since: float) -> list[tuple[float, str, str, float]]:
        if not names:
            return []
        marks = ", ".join("?" * len(names))
        return await self.rows(
            f'SELECT "minute", name, labels, "value" FROM series WHERE "minute" >= ? AND name IN ({marks})'
            ' ORDER BY "minute", name, labels',
            (since, *names),
        )

    async def cursor(self, name: str) -> str | None:
        found = await self.rows("SELECT place FROM cursors WHERE name = ?", (name,))
        return found[0][0] if found else None

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

    async def held_amounts(self, names: Sequence[str]) -> dict[str, int]:
        if not names:
            return {}
        marks = ", ".join("?" for _ in names)
        found = await self.rows(
            f"SELECT name, CAST(sum(amount) AS bigint) FROM holds WHERE name IN ({marks}) GROUP BY name", tuple(names)
        )
        return dict(found)

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

    async def count_calls(self) -> dict[tuple[str, str], int]:
        marks = ", ".join("?" * len(LIVE))
        found = await self.rows(
            f"SELECT remote, state, count(*) FROM calls WHERE state IN ({marks}) GROUP BY 1, 2", tuple(sorted(LIVE))
        )
        return {(remote, state): amount for remote, state, amount in found}

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
        return [
            Cost(
                tuple(
                    _day(value) if name == "day" else str(value) for name, value in zip(where.by, values, strict=False)
                ),
                *values[len(groups) :],
            )
            for values in found
            if values[-7]
        ]

    def day_of(self, column: str) -> str:
        """SQL for the UTC day of a time, counted from 1970: making text of every call's time takes far longer than
        adding up what it cost."""
        raise NotImplementedError

    async def budgets(self, *, scope: str | None = None) -> list[Budget]:
        tests, args = _equal(("scope", scope))
        found = await self.rows(
            "SELECT scope, most, spent, CAST(coalesce((SELECT sum(amount) FROM holds"
            f" WHERE name = 'budget:' || scope), 0) AS bigint) FROM budgets {_where(tests)} ORDER BY scope",
            tuple(args),
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


def _day(number: int) -> str:
    return str(date(1970, 1, 1) + timedelta(days=number))


def _equal(*pairs: tuple[str, Any]) -> tuple[list[str], list[Any]]:
    """Tests for the columns that must have a value, and the values."""
    given = [(column, value) for column, value in pairs if value is not None]
    return [f"{column} = ?" for column, _ in given], [value for _, value in given]


def _where(tests: list[str]) -> str:
    return f"WHERE {' AND '.join(tests)}" if tests else ""
