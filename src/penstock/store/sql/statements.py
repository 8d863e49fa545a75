"""Every statement a script may name, for both dialects, written by hand; the plain inserts and updates are spelled out from column lists.

A statement for many rows takes them as `VALUES` on SQLite and as one array a column on PostgreSQL (`unnest`). A set of
values is a JSON array on SQLite and an array on PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from penstock.engine.audit import AUDIT_COLUMNS
from penstock.engine.call import CALL_CHANGING, CALL_COLUMNS, ENDED, INHERITED, LIVE, RESTING
from penstock.engine.model import CHANGING_COLUMNS, EVENT_COLUMNS, FIXED_COLUMNS, JOB_COLUMNS
from penstock.store.protocol import KEPT_LINES, SESSION_COLUMNS, TOKEN_COLUMNS

Dialect = Literal["sqlite", "postgresql"]

ROWS = "(:rows)"
"""Stands in a SQLite statement for rows of placeholders. A row of NULLs there does nothing, so that a few sizes serve all."""

MOVED_COLUMNS = (
    "step",
    "payload",
    "resource",
    "error",
    "attempt",
    "throttled",
    "crashes",
    "moves",
    "entered",
    "counters",
    "progress",
)
"""What changes when a tick keeps its claim: none of it is indexed."""

BORN_COLUMNS = (
    *FIXED_COLUMNS,
    "status",
    "phase",
    "step",
    "payload",
    "lane",
    "batch",
    "batch_slot",
    "resource",
    "due",
)
"""What a new job brings along; the rest begins as nothing, the same for all."""

CLAIMED_COLUMNS = ("status", "phase", "epoch", "attempt", "worker", "due", "started", "entered")
BATCH_COLUMNS = (
    "id", "tenant", "key", "generation", "limit", "then", "created", "sealed", "finished", "members", "completed", "failed",
    "canceled", "follow_up",
)  # fmt: skip
BATCH_CHANGING = ("sealed", "finished", "members", "completed", "failed", "canceled", "follow_up")
_CHARGED = "id, job, holds, state, estimate, cost"
"""What a new budget asks of a call."""
WORKER_COLUMNS = ("id", "started", "seen", "expires", "info")

_INTEGERS = frozenset(
    [
        "run",
        "base",
        "period",
        "cap",
        "attempt",
        "throttled",
        "crashes",
        "epoch",
        "moves",
        "move",
        "generation",
        "limit",
        "members",
        "completed",
        "failed",
        "canceled",
        "most",
        "unwanted",
        "looks",
        "strikes",
        "done",
        "total",
        "input",
        "output",
        "cached",
        "thinking",
        "estimate",
        "cost",
        "amount",
        "spent",
    ]
)
_FLOATS = frozenset(
    ["aged_from", "value", "minute", "used", "revoked", "created", "due", "started", "entered", "finished", "at", "took", "sealed", "taken", "seen", "expires", "next_due", "last_fired",
     "submit_before", "submitted", "checked"]
)  # fmt: skip


def _array_type(column: str) -> str:
    if column in _INTEGERS:
        return "bigint[]"
    if column in _FLOATS:
        return "float8[]"
    return "bool[]" if column == "enabled" else "text[]"


def _names(columns: Sequence[str], prefix: str = "") -> str:
    return ", ".join(f'{prefix}"{c}"' for c in columns)


class _Writer:
    """Spells statements for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self.sqlite = dialect == "sqlite"

    def pick(self, sqlite: str, postgresql: str) -> str:
        return sqlite if self.sqlite else postgresql

    def unnest(self, columns: Sequence[str]) -> str:
        arrays = ", ".join(f"${n}::{_array_type(c)}" for n, c in enumerate(columns, 1))
        return f"unnest({arrays}) AS v({_names(columns)})"

    def insert(self, table: str, columns: Sequence[str], tail: str = "") -> str:
        if self.sqlite:
            return f"INSERT INTO {table} ({_names(columns)}) SELECT * FROM (VALUES {ROWS}) WHERE column1 IS NOT NULL {tail}"
        return f"INSERT INTO {table} ({_names(columns)}) SELECT {_names(columns)} FROM {self.unnest(columns)} {tail}"

    def update(self, table: str, changes: Sequence[str], where: Sequence[str]) -> str:
        assignments = ", ".join(f'"{c}" = v."{c}"' for c in changes)
        match = " AND ".join(f'{table}."{c}" = v."{c}"' for c in where)
        if self.sqlite:
            values = f"WITH v({_names((*changes, *where))}) AS (VALUES {ROWS})"
            return f"{values} UPDATE {table} SET {assignments} FROM v WHERE {match}"
        return f"UPDATE {table} SET {assignments} FROM {self.unnest((*changes, *where))} WHERE {match}"

    def delete(self, table: str, where: Sequence[str]) -> str:
        if self.sqlite:
            return f"DELETE FROM {table} WHERE ({_names(where)}) IN (VALUES {ROWS})"
        match = " AND ".join(f'{table}."{c}" = v."{c}"' for c in where)
        return f"DELETE FROM {table} USING {self.unnest(where)} WHERE {match}"

    def delete_until(self, table: str, column: str, key: Sequence[str]) -> str:
        """What is as old as the one value; on PostgreSQL but for what somebody else is about to delete."""
        if self.sqlite:
            return f'DELETE FROM {table} WHERE "{column}" <= ?1'
        old = f'SELECT {_names(key)} FROM {table} WHERE "{column}" <= ($1::float8[])[1] FOR UPDATE SKIP LOCKED'
        return f"DELETE FROM {table} WHERE ({_names(key)}) IN ({old})"

    def arg(self, n: int, kind: str = "text") -> str:
        return f"?{n}" if self.sqlite else f"${n}::{kind}"

    def among(self, n: int) -> str:
        """The values of a set argument, as a subquery."""
        return f"(SELECT value FROM json_each(?{n}))" if self.sqlite else f"(SELECT unnest(${n}::text[]))"


def statements(dialect: Dialect) -> dict[str, str]:
    """Name → SQL."""
    w = _Writer(dialect)
    job = _names(JOB_COLUMNS)
    lock = w.pick("", "FOR UPDATE")
    skip = w.pick("", "FOR UPDATE SKIP LOCKED")
    one, two, three = (w.arg(n) for n in (1, 2, 3))
    now = w.arg(1, "float8")
    call = _names(CALL_COLUMNS)
    ended, live, resting, inherited = (
        ", ".join(f"'{state}'" for state in sorted(states)) for states in (ENDED, LIVE, RESTING, INHERITED)
    )
    return {
        # Reading jobs in order to change them, always in the order of their ids.
        "hold_jobs": f"SELECT id, tenant, batch FROM jobs WHERE id IN {w.among(1)} ORDER BY id {lock}",
        "lock_jobs": f"SELECT {job} FROM jobs WHERE id IN {w.among(1)} ORDER BY id {lock}",
        "held_by": f"SELECT {job} FROM jobs WHERE phase = 'held' AND worker IN {w.among(1)} ORDER BY id {lock}",
        "orphans": f"SELECT {job} FROM jobs WHERE phase = 'held' AND worker IN {w.among(1)} ORDER BY id {skip}",
        "lapsed": f"SELECT {job} FROM jobs WHERE phase = 'held' AND due <= {now} ORDER BY id {skip}",
        "jobs_of_batch": f"SELECT {job} FROM jobs WHERE id IN (SELECT job FROM members WHERE batch = {one}) ORDER BY id",
        "last_runs": _last_runs(w),
        "jobs_by_id": f"SELECT {job} FROM jobs WHERE id IN {w.among(1)} ORDER BY id",
        # On PostgreSQL the phase is hidden from the planner, which would rather compare with every held job than look up ids.
        "still_held": w.pick(
            f'WITH v("id", "epoch", "moves", "batch") AS (VALUES {ROWS}) SELECT json_group_array(j.id) FROM v'
            " JOIN jobs j ON j.id = v.id WHERE j.epoch = v.epoch AND j.moves = v.moves AND j.phase = 'held' AND j.gate = ''"
            " AND j.batch IS v.batch",
            "SELECT j.id FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[]) AS v(id, epoch, moves, batch)"
            " JOIN jobs j ON j.id = v.id WHERE j.epoch = v.epoch AND j.moves = v.moves AND j.phase || '' = 'held'"
            " AND j.gate = '' AND j.batch IS NOT DISTINCT FROM v.batch ORDER BY j.id FOR UPDATE OF j",
        ),
        "find_move": f"SELECT 1 FROM history WHERE job = {one} AND epoch = {w.arg(2, 'bigint')} AND move = {w.arg(3, 'bigint')}",
        # Choosing: the head of every lane with ready work (a walk from lane to lane, not over jobs), then what follows it.
        "lane_heads": _lane_heads(w),
        "take_lane": (
            f"SELECT {job} FROM jobs WHERE phase = 'ready' AND lane = {one} ORDER BY aged_from, id LIMIT {w.arg(2, 'bigint')} {skip}"
        ),
        "take_heads": w.pick(
            "SELECT l.value, j.aged_from, j.id FROM json_each(?1) l JOIN jobs j ON j.id IN (SELECT id FROM jobs"
            " WHERE phase = 'ready' AND lane = l.value ORDER BY aged_from, id LIMIT ?2)",
            "SELECT l.lane, j.aged_from, j.id FROM unnest($1::text[]) AS l(lane) CROSS JOIN LATERAL (SELECT aged_from, id FROM jobs"
            " WHERE phase = 'ready' AND lane = l.lane ORDER BY aged_from, id LIMIT $2::bigint FOR UPDATE SKIP LOCKED) j",
        ),
        "lane_after": (
            f"SELECT aged_from, id FROM jobs WHERE phase = 'ready' AND lane = {one} AND (aged_from, id) > ({w.arg(2, 'float8')}, {three})"
            f" ORDER BY aged_from, id LIMIT {w.arg(4, 'bigint')} {skip}"
        ),
        # Limits: on PostgreSQL locked in a statement of their own, so that the count that follows sees who was before us.
        "lock_limits": w.pick(
            "SELECT 1 FROM json_each(?1) LIMIT 1",
            "SELECT pg_advisory_xact_lock(hashtextextended(k, 7302)) FROM unnest($1::text[]) AS t(k) ORDER BY k",
        ),
        "held_by_lane": "SELECT lane, count(*) FROM jobs WHERE phase = 'held' GROUP BY lane",
        "batch_room": (
            f'SELECT b.id, b."limit", (SELECT count(*) FROM jobs j WHERE j.batch_slot = b.id AND j.started IS NOT NULL)'
            f" FROM batches b WHERE b.id IN {w.among(1)}"
        ),
        # Time: what is due, and who died.
        "first_due": "SELECT min(due) FROM jobs WHERE due IS NOT NULL AND phase IN ('timed', 'held')",
        "fall_due": (
            "UPDATE jobs SET phase = 'ready', due = NULL, reason = NULL, status = CASE status WHEN 'waiting' THEN 'queued' ELSE status END"
            f" WHERE id IN (SELECT id FROM jobs WHERE phase = 'timed' AND due <= {now} ORDER BY due LIMIT 1000 {skip}) RETURNING queue"
        ),
        # A worker's row is locked before its jobs are looked for, and kept from going by the worker's own claim: a job must never be
        # held by a worker that no longer has a row.
        "dead_workers": f"SELECT id FROM workers WHERE expires <= {now} ORDER BY id {skip}",
        "worker_alive": f"SELECT 1 FROM workers WHERE id = {one} {w.pick('', 'FOR KEY SHARE')}",
        "lock_worker": f"SELECT 1 FROM workers WHERE id = {one} {lock}",
        # Writing jobs.
        "insert_jobs": w.insert("jobs", BORN_COLUMNS, "ON CONFLICT DO NOTHING"),
        "put_jobs": w.update("jobs", CHANGING_COLUMNS, ("id",)),
        "move_jobs": w.update("jobs", MOVED_COLUMNS, ("id",)),
        "claim_jobs": w.update("jobs", CLAIMED_COLUMNS, ("id",)),
        "relane": _relane(w),
        "name_batch": w.update("jobs", ("batch",), ("id",)),
        "note_progress": w.update("jobs", ("progress",), ("id",)),
        "insert_events": w.insert("history", EVENT_COLUMNS),
        "insert_logs": w.insert("logs", ("job", "at", "step", "attempt", "level", "text")),
        # On PostgreSQL without an order that the primary key has: it would be walked for a job that has few lines.
        "trim_logs": w.pick(
            "DELETE FROM logs WHERE job = ?1"
            f" AND id <= (SELECT id FROM logs WHERE job = ?1 ORDER BY id DESC LIMIT 1 OFFSET {KEPT_LINES})",
            "DELETE FROM logs USING (SELECT id, row_number() OVER (PARTITION BY job ORDER BY id DESC) AS place"
            f" FROM logs WHERE job = ANY($1::text[])) AS old WHERE logs.id = old.id AND old.place > {KEPT_LINES}",
        ),
        "announced": f"SELECT 1 FROM history WHERE job = {one} AND kind = {two} LIMIT 1",
        # Who did what, and what was answered.
        "insert_audit": w.insert("audit", AUDIT_COLUMNS, "ON CONFLICT DO NOTHING"),
        "reserve_answer": w.insert("answers", ("scope", "key", "digest", "at"), "ON CONFLICT DO NOTHING"),
        "find_answer": f"SELECT digest, answer FROM answers WHERE scope = {one} AND key = {two}",
        "find_batch": f"SELECT {_names(BATCH_COLUMNS)} FROM batches WHERE id = {one}",
        "put_answer": w.update("answers", ("answer",), ("scope", "key")),
        "drop_answer": w.delete("answers", ("scope", "key")),
        # Access.
        "insert_token": w.insert("tokens", TOKEN_COLUMNS, "ON CONFLICT DO NOTHING"),
        "token_named": f"SELECT {_names(TOKEN_COLUMNS)} FROM tokens WHERE name = {one} {lock}",
        "revoke_token": w.update("tokens", ("revoked",), ("id",)),
        "touch_token": w.update("tokens", ("used",), ("id",)),
        "end_sessions": w.delete("sessions", ("token",)),
        "insert_session": w.insert("sessions", SESSION_COLUMNS, "ON CONFLICT DO NOTHING"),
        "find_session": f"SELECT {_names(SESSION_COLUMNS)} FROM sessions WHERE hash = {one}",
        "drop_session": w.delete("sessions", ("hash",)),
        # Meters, and how far readers have come.
        "add_meters": w.insert(
            "meters", ("name", "labels", "value"), "ON CONFLICT (name, labels) DO UPDATE SET value = meters.value + excluded.value"
        ),
        "add_series": w.insert(
            "series", ("minute", "name", "labels", "value"),
            "ON CONFLICT (minute, name, labels) DO UPDATE SET value = series.value + excluded.value",
        ),
        "put_cursor": w.insert("cursors", ("name", "place"), "ON CONFLICT (name) DO UPDATE SET place = excluded.place"),
        "drop_old_audit": w.delete_until("audit", "at", ("id",)),
        "drop_old_answers": w.delete_until("answers", "at", ("scope", "key")),
        "drop_old_sessions": w.delete_until("sessions", "expires", ("hash",)),
        "drop_old_series": w.delete_until("series", "minute", ("minute", "name", "labels")),
        # Batches.
        "lock_batches": f"SELECT {_names(BATCH_COLUMNS)} FROM batches WHERE id IN {w.among(1)} ORDER BY id {lock}",
        "last_batch": (
            f"SELECT {_names(BATCH_COLUMNS)} FROM batches WHERE tenant = {one} AND key = {two} ORDER BY generation DESC LIMIT 1"
        ),
        "insert_batches": w.insert("batches", BATCH_COLUMNS, "ON CONFLICT DO NOTHING"),
        "put_batches": w.update("batches", BATCH_CHANGING, ("id",)),
        "insert_members": w.insert("members", ("batch", "job", "ended")),
        "end_members": w.update("members", ("ended",), ("batch", "job")),
        "member": f"SELECT 1 FROM members WHERE batch = {one} AND job = {two}",
        "memberships": f"SELECT batch, job, ended FROM members WHERE job IN {w.among(1)} ORDER BY batch, job",
        # Locks.
        "take_lock": w.insert("locks", ("tenant", "name", "job", "taken"), "ON CONFLICT DO NOTHING"),
        "lock_holder": f"SELECT job FROM locks WHERE tenant = {one} AND name = {two}",
        "free_lock": w.delete("locks", ("tenant", "name", "job")),
        "free_locks": w.delete("locks", ("job",)),
        # Workers.
        "enter_worker": w.insert(
            "workers", WORKER_COLUMNS,
            "ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, expires = excluded.expires, info = excluded.info",
        ),
        "beat": w.update("workers", ("seen", "expires"), ("id",)),
        "drop_worker": w.delete("workers", ("id",)),
        "bury_worker": w.pick(
            "DELETE FROM workers WHERE id = ?1 AND expires <= ?2"
            " AND NOT EXISTS (SELECT 1 FROM jobs WHERE phase = 'held' AND worker = ?3)",
            "DELETE FROM workers USING unnest($1::text[], $2::float8[], $3::text[]) AS v(id, now, again) WHERE workers.id = v.id"
            " AND workers.expires <= v.now AND NOT EXISTS (SELECT 1 FROM jobs WHERE phase = 'held' AND worker = v.again)",
        ),
        # Remote calls: a row each, what the live ones hold, and what may be spent.
        "job_of_call": f"SELECT job FROM calls WHERE id = {one}",
        "holds_of_calls": f"SELECT id, job, holds FROM calls WHERE id IN {w.among(1)}",
        "lock_call": f"SELECT {call} FROM calls WHERE id = {one} {lock}",
        "last_call": f"SELECT {call} FROM calls WHERE job = {one} AND key = {two} ORDER BY attempt DESC LIMIT 1",
        "insert_calls": w.insert("calls", CALL_COLUMNS, "ON CONFLICT DO NOTHING"),
        "put_calls": w.update("calls", CALL_CHANGING, ("id",)),
        "take_calls": (
            f"SELECT {call} FROM calls WHERE due IS NOT NULL AND due <= {now} AND place IN {w.among(2)} ORDER BY due, id"
            f" LIMIT {w.arg(3, 'bigint')} {skip}"
        ),
        "lease_calls": w.update("calls", ("due",), ("id",)),
        "over_calls": f"SELECT 1 FROM calls WHERE id IN {w.among(1)} AND state IN ({resting}) LIMIT 1",
        "superseded": f"SELECT 1 FROM calls WHERE job = {one} AND key = {two} AND attempt > {w.arg(3, 'bigint')} LIMIT 1",
        # A job that was canceled, or is done without waiting for them, wants its calls no more; a failed one may be retried.
        # The job is looked up call by call: a planner that joins would rather read all jobs.
        "orphaned_calls": (
            "SELECT id FROM calls WHERE unwanted = 0 AND state IN ('intent', 'submitted', 'running', 'overdue')"
            " AND (SELECT CASE WHEN status = 'canceling' AND entered <= calls.created THEN 'cleaning up'"
            " WHEN status = 'failed' AND EXISTS (SELECT 1 FROM jobs o WHERE o.tenant = jobs.tenant AND o.workflow = jobs.workflow"
            " AND o.key = jobs.key AND o.run > jobs.run) THEN 'run again' ELSE status END"
            f" FROM jobs WHERE jobs.id = calls.job) IN ('canceling', 'canceled', 'completed', 'run again') {skip}"
        ),
        "orphan_calls": w.update("calls", ("unwanted", "due"), ("id",)),
        "inherit_calls": w.pick(
            f"UPDATE calls SET job = ?1 WHERE job = ?2 AND state IN ({inherited})",
            "UPDATE calls SET job = v.new FROM unnest($1::text[], $2::text[]) AS v(new, old)"
            f" WHERE calls.job = v.old AND calls.state IN ({inherited})",
        ),
        "inherit_holds": w.pick(
            "UPDATE holds SET name = ?1 WHERE name = ?2",
            "UPDATE holds SET name = v.new FROM unnest($1::text[], $2::text[]) AS v(new, old) WHERE holds.name = v.old",
        ),
        "inherit_budget": w.pick(
            "UPDATE budgets SET scope = ?1 WHERE scope = ?2",
            "UPDATE budgets SET scope = v.new FROM unnest($1::text[], $2::text[]) AS v(new, old) WHERE budgets.scope = v.old",
        ),
        "strip_calls": w.pick(
            f"UPDATE calls SET prepared = '{{}}', result = NULL WHERE job = ?1 AND state IN ({ended})",
            "UPDATE calls SET prepared = '{}', result = NULL FROM unnest($1::text[]) AS v(job)"
            f" WHERE calls.job = v.job AND calls.state IN ({ended})",
        ),
        "insert_holds": w.insert("holds", ("name", "call", "amount"), "ON CONFLICT DO NOTHING"),
        "free_holds": w.delete("holds", ("call",)),
        "held_amounts": f"SELECT name, CAST(sum(amount) AS bigint) FROM holds WHERE name IN {w.among(1)} GROUP BY name",
        "budgets": f"SELECT scope, most, spent FROM budgets WHERE scope IN {w.among(1)} ORDER BY scope",
        "lock_budgets": f"SELECT scope FROM budgets WHERE scope IN {w.among(1)} ORDER BY scope {lock}",
        "put_budget": w.insert("budgets", ("scope", "most", "spent"), "ON CONFLICT (scope) DO UPDATE SET most = excluded.most"),
        "drop_budget": w.delete("budgets", ("scope",)),
        "spend": w.pick(
            "UPDATE budgets SET spent = spent + ?1 WHERE scope = ?2",
            "UPDATE budgets SET spent = spent + v.amount FROM unnest($1::bigint[], $2::text[]) AS v(amount, scope)"
            " WHERE budgets.scope = v.scope",
        ),
        "calls_of_tenant": f"SELECT {_CHARGED} FROM calls WHERE tenant = {one} AND state IN ({live})",
        "calls_of_job": f"SELECT {_CHARGED} FROM calls WHERE job = {one}",
        "calls_of_batch": f"SELECT {_CHARGED} FROM calls WHERE job IN (SELECT job FROM members WHERE batch = {one})",
        "put_holds": w.update("calls", ("holds",), ("id",)),
        # Limits and schedules.
        "drop_limits": "DELETE FROM limits",
        "insert_limits": w.insert("limits", ("key", "most")),
        "put_schedule": w.insert(
            "schedules", ("name", "tenant", "cron", "timezone", "next_due", "job", "enabled"),
            "ON CONFLICT (tenant, name) DO UPDATE SET cron = excluded.cron, timezone = excluded.timezone,"
            " next_due = CASE WHEN schedules.cron = excluded.cron AND schedules.timezone = excluded.timezone"
            " THEN schedules.next_due ELSE excluded.next_due END, job = excluded.job, enabled = excluded.enabled",
        ),
        "schedule_due": (
            f"SELECT 1 FROM schedules WHERE tenant = {one} AND name = {two} AND next_due = {w.arg(3, 'float8')} AND enabled {lock}"
        ),
        "drop_schedule": w.delete("schedules", ("tenant", "name")),
        "fire_schedule": w.pick(
            "UPDATE schedules SET last_fired = next_due, next_due = ?1"
            " WHERE tenant = ?2 AND name = ?3 AND next_due = ?4 AND enabled",
            "UPDATE schedules SET last_fired = schedules.next_due, next_due = v.next"
            " FROM unnest($1::float8[], $2::text[], $3::text[], $4::float8[]) AS v(next, tenant, name, due)"
            " WHERE schedules.tenant = v.tenant AND schedules.name = v.name AND schedules.next_due = v.due AND schedules.enabled",
        ),
        # Retention: what may be submitted again by its key keeps the key.
        "outlived": (
            "SELECT id, key <> id OR run > 1 OR EXISTS (SELECT 1 FROM jobs o WHERE o.tenant = j.tenant AND o.workflow = j.workflow"
            " AND o.key = j.key AND o.run > 1) FROM jobs j"
            f" WHERE status IN {w.among(1)} AND lane <> '' AND finished IS NOT NULL AND finished <= {w.arg(2, 'float8')}"
            " AND NOT EXISTS (SELECT 1 FROM members m JOIN batches b ON b.id = m.batch LEFT JOIN jobs f ON f.id = b.follow_up"
            " WHERE m.job = j.id AND (b.finished IS NULL OR (f.id IS NOT NULL AND f.finished IS NULL)))"
            f" ORDER BY finished, id LIMIT {w.arg(3, 'bigint')} {w.pick('', 'FOR UPDATE OF j SKIP LOCKED')}"
        ),
        "drop_history": w.delete("history", ("job",)),
        "drop_logs": w.delete("logs", ("job",)),
        "drop_jobs": w.delete("jobs", ("id",)),
        "drop_members": w.delete("members", ("job",)),
        "drop_batches": (
            f"DELETE FROM batches WHERE key = id AND finished IS NOT NULL AND finished <= {w.pick('?1', '($1::float8[])[1]')}"
            " AND NOT EXISTS (SELECT 1 FROM members WHERE batch = batches.id)"
            " AND NOT EXISTS (SELECT 1 FROM jobs f WHERE f.id = batches.follow_up AND f.finished IS NULL)"
        ),
        "strip_jobs": w.pick(
            "UPDATE jobs SET payload = '', lane = '', result = NULL, counters = NULL, progress = NULL, error = NULL WHERE id = ?1",
            "UPDATE jobs SET payload = '', lane = '', result = NULL, counters = NULL, progress = NULL, error = NULL"
            " FROM unnest($1::text[]) AS v(id) WHERE jobs.id = v.id",
        ),
    }  # fmt: skip


def _last_runs(w: _Writer) -> str:
    """One look into the index for each key. A join would leave it to SQLite where to begin, and it begins with the
    tenant's jobs."""
    last = "(SELECT id FROM jobs j WHERE j.tenant = v.tenant AND j.workflow = v.workflow AND j.key = v.key ORDER BY j.run DESC LIMIT 1)"
    return w.pick(
        f'WITH v("tenant", "workflow", "key") AS (VALUES {ROWS}) SELECT json_group_array({last}) FROM v',
        f"SELECT {last} FROM unnest($1::text[], $2::text[], $3::text[]) AS v(tenant, workflow, key)",
    )


def _relane(w: _Writer) -> str:
    """`engine.lane.lane_of`, for every live job at once. Its one value says whether tenants are limited."""
    tenant = w.pick("CASE ?1 WHEN 1 THEN tenant ELSE '' END", "CASE WHEN v.by_tenant THEN tenant ELSE '' END")
    lane = (
        "queue || '/' || workflow || '/' || base || ',' || period || ',' || cap || '/' || "
        f"{tenant} || '/' || resource || '/' || CASE WHEN started IS NULL THEN coalesce(batch_slot, '') ELSE '' END"
    )
    source = w.pick("", " FROM unnest($1::bool[]) AS v(by_tenant)")
    return f"UPDATE jobs SET lane = {lane}{source} WHERE finished IS NULL"


def _lane_heads(w: _Writer) -> str:
    first, bound = w.arg(1), w.arg(2)
    step = f"SELECT lane FROM jobs WHERE phase = 'ready' AND lane {{}} AND lane < {bound} ORDER BY lane LIMIT 1"
    walk = (
        f"WITH RECURSIVE walk(lane) AS (SELECT ({step.format(f'>= {first}')})"
        f" UNION ALL SELECT ({step.format('> walk.lane')}) FROM walk WHERE walk.lane IS NOT NULL)"
    )
    head = "SELECT {} FROM jobs WHERE phase = 'ready' AND lane = walk.lane ORDER BY aged_from, id LIMIT 1"
    if w.sqlite:
        return f"{walk} SELECT walk.lane, j.aged_from, j.id FROM walk JOIN jobs j ON j.id = ({head.format('id')}) WHERE walk.lane IS NOT NULL"
    return (
        f"{walk} SELECT walk.lane, j.aged_from, j.id FROM walk CROSS JOIN LATERAL ({head.format('aged_from, id')}) j"
        " WHERE walk.lane IS NOT NULL"
    )
