"""How a page of jobs is found, newest first, without reading every job there is.

What is common is among the newest: the first question looks at the last few thousand ids only, in the order of the
primary key. What is rare is in an index, or is all there is of its tenant and workflow: the second question reads only
that, and sorts it. Each answers for itself, so a page is of one moment.
"""

from __future__ import annotations

from typing import Any

from penstock.engine.model import JOB_COLUMNS
from penstock.store.protocol import JobFilter

JOB = ", ".join(f'j."{c}"' for c in JOB_COLUMNS)

_LEFT_OUT = {"payload": "''", "result": "NULL"}
BRIEF = ", ".join(_LEFT_OUT.get(c, f'j."{c}"') for c in JOB_COLUMNS)
"""The same columns without what may be large: a database need not read it, or send it."""

WINDOW = 2000
"""Ids that the first question looks at."""

STOPPED = "status IN ('failed', 'paused', 'canceling', 'canceled')"
PLACES = {
    "queued": "phase = 'ready'",
    "running": "phase = 'held'",
    "waiting": "due IS NOT NULL AND phase IN ('timed', 'held')",
    "paused": STOPPED,
    "canceling": STOPPED,
    "failed": STOPPED,
    "canceled": STOPPED,
}
"""Where jobs with a status are found, in the words of the partial indexes: a database uses one only where it sees that
its condition holds."""

REMAINS = "completed"
"""The one status that has no place."""

_AT_ONCE = frozenset({"running", "paused", "canceling", "failed", "canceled"})
"""These need no look at the newest: their index has few, or has them in order."""

_PAIRS = """
    WITH RECURSIVE tenants(tenant) AS (
        SELECT min(tenant) FROM jobs
        UNION ALL
        SELECT (SELECT min(n.tenant) FROM jobs n WHERE n.tenant > t.tenant) FROM tenants t WHERE t.tenant IS NOT NULL
    ), pairs(tenant, workflow) AS (
        SELECT t.tenant, (SELECT min(n.workflow) FROM jobs n WHERE n.tenant = t.tenant)
        FROM tenants t WHERE t.tenant IS NOT NULL
        UNION ALL
        SELECT p.tenant, (SELECT min(n.workflow) FROM jobs n WHERE n.tenant = p.tenant AND n.workflow > p.workflow)
        FROM pairs p WHERE p.workflow IS NOT NULL
    )
"""
"""Every tenant, and every workflow of each, by one look into the index for each of them."""

_DEAD = (
    "j.status = 'failed' AND NOT EXISTS (SELECT 1 FROM jobs n WHERE n.tenant = j.tenant"
    " AND n.workflow = j.workflow AND n.key = j.key AND n.run = j.run + 1)"
)

HIDDEN = " || ''"
"""Behind a column, keeps a database from choosing an index for it that has far more than is needed."""

_UNORDERED = f"j.id{HIDDEN}"

Question = tuple[str, tuple[Any, ...]]


def questions(where: JobFilter) -> list[Question]:
    """To be asked in turn, until one fills the page; the last one's answer is the whole one."""
    by_index = _by_index(where)
    if by_index is None:
        return [_plain(where)]
    if where.key is not None or (_statuses(where) and _AT_ONCE.issuperset(_statuses(where))):
        return [by_index]
    return [_newest(where), by_index]


def census(tenant: str | None) -> Question:
    """How many jobs there are of each workflow (with no status: the index that has them all does not know it), then
    (workflow, status, how many) of those that have a place."""
    own, args = (["tenant = ?"], [tenant]) if tenant is not None else ([], [])
    groups = [f"SELECT workflow, NULL AS status, count(*) FROM jobs {_where(own)} GROUP BY tenant, workflow"]
    hidden = [f"tenant{HIDDEN} = ?"] if own else []
    for place in dict.fromkeys(PLACES.values()):
        statuses = ", ".join(f"'{status}'" for status, where in PLACES.items() if where is place)
        condition = _where([place, f"status IN ({statuses})", *hidden])
        groups.append(f"SELECT workflow, status, count(*) FROM jobs {condition} GROUP BY workflow, status")
    return " UNION ALL ".join(groups), tuple(args * len(groups))


def counted(found: list[tuple[Any, ...]]) -> dict[tuple[str, str], int]:
    """What the answer to `census` says: what remains of a workflow's jobs has completed."""
    counts: dict[tuple[str, str], int] = {}
    for workflow, status, amount in found:
        if status is None:
            counts[workflow, REMAINS] = counts.get((workflow, REMAINS), 0) + amount
        else:
            counts[workflow, status] = amount
            counts[workflow, REMAINS] -= amount
    return {place: amount for place, amount in counts.items() if amount}


def _statuses(where: JobFilter) -> tuple[str, ...]:
    return ("failed",) if where.dead else where.status


def _columns(where: JobFilter) -> str:
    return BRIEF if where.brief else JOB


def _plain(where: JobFilter) -> Question:
    tests, args = _tests(where)
    return f"SELECT {_columns(where)} FROM jobs j {_where(tests)} ORDER BY j.id DESC LIMIT ?", (*args, where.limit)


def _newest(where: JobFilter) -> Question:
    tests, args = _tests(where)
    bound, bound_args = ("WHERE id < ?", [where.before]) if where.before is not None else ("", [])
    newest = f'SELECT id, tenant, workflow, "key", run, status, parent FROM jobs {bound} ORDER BY id DESC LIMIT ?'
    ids = f"SELECT j.id FROM ({newest}) j {_where(tests)} ORDER BY j.id DESC LIMIT ?"
    sql = f"SELECT {_columns(where)} FROM jobs j WHERE j.id IN ({ids}) ORDER BY j.id DESC LIMIT ?"
    return sql, (*bound_args, WINDOW, *args, where.limit, where.limit)


def _by_index(where: JobFilter) -> Question | None:
    """By what there is least of; None where nothing helps, or the primary key helps most."""
    statuses = _statuses(where)
    if where.ids is not None or where.batch is not None:
        return None
    if statuses and all(status in PLACES for status in statuses):
        return _by_place(where, statuses)
    if where.key is None and where.tenant is not None:
        return _picked("", "jobs j", [], where)
    if where.key is not None or where.workflow is not None:
        return _picked(_PAIRS, "pairs p CROSS JOIN jobs j", ["j.tenant = p.tenant", "j.workflow = p.workflow"], where)
    return None


def _by_place(where: JobFilter, statuses: tuple[str, ...]) -> Question:
    tests, args = _tests(where, hidden=HIDDEN)
    found: list[str] = []
    found_args: list[Any] = []
    for status in dict.fromkeys(statuses):
        condition = _where([PLACES[status], f"j.status = '{status}'", *tests])
        order = "j.id" if PLACES[status] is STOPPED else _UNORDERED
        found.append(f"SELECT id FROM (SELECT j.id FROM jobs j {condition} ORDER BY {order} DESC LIMIT ?) {status}")
        found_args += [*args, where.limit]
    ids = " UNION ALL ".join(found)
    sql = f"SELECT {_columns(where)} FROM jobs j WHERE j.id IN ({ids}) ORDER BY j.id DESC LIMIT ?"
    return sql, (*found_args, where.limit)


def _picked(begin: str, source: str, joins: list[str], where: JobFilter) -> Question:
    tests, args = _tests(where)
    ids = f"SELECT j.id FROM {source} {_where([*joins, *tests])} ORDER BY {_UNORDERED} DESC LIMIT ?"
    sql = f"{begin} SELECT {_columns(where)} FROM jobs j WHERE j.id IN ({ids}) ORDER BY j.id DESC LIMIT ?"
    return sql, (*args, where.limit, where.limit)


def _tests(where: JobFilter, *, hidden: str = "") -> tuple[list[str], list[Any]]:
    """What a job must be; `hidden` hides the columns from whoever looks for an index to use."""
    tests: list[str] = []
    args: list[Any] = []
    for column in ("tenant", "workflow", "key", "parent"):
        value = getattr(where, column)
        if value is not None:
            tests.append(f"j.{column}{hidden} = ?")
            args.append(value)
    for column, values in (("status", where.status), ("id", where.ids)):
        if values:
            tests.append(f"j.{column}{hidden} IN ({', '.join('?' * len(values))})")
            args.extend(values)
    if where.ids == ():
        tests.append("1 = 0")
    if where.batch is not None:
        tests.append("j.id IN (SELECT job FROM members WHERE batch = ?)")
        args.append(where.batch)
    for sign, bound in (("<", where.before), (">", where.after)):
        if bound is not None:
            tests.append(f"j.id {sign} ?")
            args.append(bound)
    if where.dead:
        tests.append(_DEAD)
    return tests, args


def _where(tests: list[str]) -> str:
    return f"WHERE {' AND '.join(tests)}" if tests else ""
