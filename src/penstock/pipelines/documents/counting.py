"""Numbers about documents and the queue: how many there are of each, how late, how fast, and who reviews."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from penstock.engine.engine import Engine
from penstock.pipelines.documents import ledger, reading, rules
from penstock.pipelines.documents.reading import DocumentStatus
from penstock.pipelines.documents.rules import OPEN, Band
from penstock.pipelines.documents.standing import turn

HOUR, DAY = 3600.0, 86400.0
REVIEWS_LOOKED_AT = 7 * DAY
"""How far back the mean time of reviews looks."""

_OPEN = "status IN ('pending', 'in_review')"
_LEAST = {"high": 70.0, "medium": 40.0}
"""Where the bands of `rules.band` begin."""


@dataclass(slots=True, frozen=True)
class Workload:
    """What one reviewer has to do, and did. `mean_seconds` is from claim to decision, over the last seven days."""

    reviewer: str
    open: int
    decided_today: int
    mean_seconds: float | None


@dataclass(slots=True, frozen=True)
class Stats:
    """`bands` are of open items, by what their priority is now. `last_hour` counts documents that were completed in it,
    and `p95_seconds` is how long all but one in twenty of them took at most, from their first step to their last."""

    documents: dict[str, int]
    queue: dict[str, int]
    bands: dict[Band, int]
    oldest_deadline: float | None
    overdue: int
    reviewers: tuple[Workload, ...]
    last_hour: int
    failed_last_hour: int
    p95_seconds: float | None


async def queue_total(
    engine: Engine,
    *,
    tenant: str | None = None,
    status: Sequence[str] = OPEN,
    assigned_to: str | None = None,
    priority_min: float = 0.0,
) -> int:
    """How many items `reading.queue` has in all."""
    gained = rules.SLOPE * engine.clock.now()
    where, values = [], dict[str, Any]()
    for name, value in (("tenant", tenant), ("assigned_to", assigned_to)):
        if value is not None:
            where.append(f"{name} = :{name}")
            values[name] = value
    # Each status and movement is a stretch of an index.
    parts = []
    for number, each in enumerate(dict.fromkeys(status)):
        values[f"status{number}"] = each
        if priority_min <= 0:
            parts.append([f"status = :status{number}"])
            continue
        values |= {"least0": priority_min, "least1": priority_min - gained}
        parts += [
            [f"status = :status{number}", f"rising = {rising}", f"rank >= CAST(:least{rising} AS DOUBLE PRECISION)"]
            for rising in (0, 1)
        ]
    counts = " + ".join(f"(SELECT COUNT(*) FROM review_items WHERE {' AND '.join(where + part)})" for part in parts)
    rows = await engine.read((f"SELECT {counts}", values))
    return int(rows[0][0])


async def stats(engine: Engine, *, tenant: str | None = None) -> Stats:
    await turn(engine)
    now = engine.clock.now()
    oldest, overdue = await _lateness(engine, tenant, now)
    completed, failed, p95 = await _pace(engine, tenant, now)
    depths = await reading.depths(engine, tenant=tenant)
    return Stats(
        documents=await document_counts(engine, tenant=tenant),
        queue=depths,
        bands=await _bands(engine, tenant, now, depths),
        oldest_deadline=oldest,
        overdue=overdue,
        reviewers=tuple(await workloads(engine, tenant=tenant)),
        last_hour=completed,
        failed_last_hour=failed,
        p95_seconds=p95,
    )


async def document_counts(engine: Engine, *, tenant: str | None = None) -> dict[str, int]:
    """Status → how many documents have it. Only those are looked at that may be anything but completed."""
    rows = await engine.read(
        (
            f"SELECT {reading.STATUS} AS told, COUNT(*) FROM ({reading.unsettled(tenant)}) AS u"
            f" CROSS JOIN documents d {ledger.NEWEST_RUN} WHERE d.id = u.id"
            f"{'' if tenant is None else ' AND d.tenant = :tenant'} GROUP BY told",
            _of(tenant),
        )
    )
    counts = dict.fromkeys(get_args(DocumentStatus), 0) | {status: int(count) for status, count in rows}
    where = "" if tenant is None else " WHERE tenant = :tenant"
    whole = await engine.read((f"SELECT COUNT(*) FROM documents{where}", _of(tenant)))
    others = sum(count for status, count in counts.items() if status != "completed")
    return counts | {"completed": max(0, int(whole[0][0]) - others)}


async def workloads(engine: Engine, *, tenant: str | None = None) -> list[Workload]:
    """Everybody who has open items or decided in the last seven days, by name."""
    now = engine.clock.now()
    here = "" if tenant is None else "tenant = :tenant AND "
    rows = await engine.read(
        (
            f"SELECT assigned_to, COUNT(*) FROM review_items WHERE {here}{_OPEN} AND assigned_to IS NOT NULL"
            " GROUP BY assigned_to",
            _of(tenant),
        )
    )
    loads = {name: int(count) for name, count in rows}
    rows = await engine.read(
        (
            "SELECT decided_by, SUM(CASE WHEN decided >= CAST(:today AS DOUBLE PRECISION) THEN 1 ELSE 0 END),"
            f" AVG(decided - claimed) FROM review_items WHERE {here}decided >= CAST(:since AS DOUBLE PRECISION)"
            " AND decided_by IS NOT NULL GROUP BY decided_by",
            {"today": now // DAY * DAY, "since": now - REVIEWS_LOOKED_AT, **_of(tenant)},
        )
    )
    decided = {name: (int(today), None if mean is None else float(mean)) for name, today, mean in rows}
    return [
        Workload(name, loads.get(name, 0), *decided.get(name, (0, None))) for name in sorted(loads.keys() | decided)
    ]


async def _bands(engine: Engine, tenant: str | None, now: float, depths: dict[str, int]) -> dict[Band, int]:
    """Counted along the index of the queue, from its top down to where the band ends."""
    here = "" if tenant is None else "tenant = :tenant AND "
    gained = rules.SLOPE * now
    counts = [
        f"(SELECT COUNT(*) FROM review_items WHERE {here}status = '{status}' AND rising = {rising}"
        f" AND rank >= CAST(:{band}{rising} AS DOUBLE PRECISION))"
        for band in ("high", "medium")
        for status in OPEN
        for rising in (0, 1)
    ]
    least = {f"{band}{rising}": value - gained * rising for band, value in _LEAST.items() for rising in (0, 1)}
    found = (await engine.read((f"SELECT {', '.join(counts)}", {**least, **_of(tenant)})))[0]
    half = len(counts) // 2
    high, at_least_medium = sum(found[:half]), sum(found[half:])
    whole = sum(depths[status] for status in OPEN)
    return {"high": high, "medium": at_least_medium - high, "low": max(0, whole - at_least_medium)}


async def _lateness(engine: Engine, tenant: str | None, now: float) -> tuple[float | None, int]:
    here = "" if tenant is None else "tenant = :tenant AND "
    rows = await engine.read((f"SELECT MIN(deadline) FROM review_items WHERE {here}{_OPEN}", _of(tenant)))
    late = await engine.read(
        (f"SELECT COUNT(*) FROM review_items WHERE {here}{_OPEN} AND deadline < :now", {"now": now, **_of(tenant)})
    )
    return rows[0][0], int(late[0][0])


async def _pace(engine: Engine, tenant: str | None, now: float) -> tuple[int, int, float | None]:
    """Completed and failed in the last hour, and the 95th percentile of how long the completed took."""
    rows = await engine.read(
        (
            "SELECT status, finished - started FROM jobs WHERE finished >= :since AND lane <> ''"
            f" AND workflow = 'documents'{'' if tenant is None else ' AND tenant = :tenant'}",
            {"since": now - HOUR, **_of(tenant)},
        )
    )
    took = sorted(float(seconds or 0) for status, seconds in rows if status == "completed")
    p95 = took[math.ceil(0.95 * len(took)) - 1] if took else None
    return len(took), sum(status == "failed" for status, _ in rows), p95


def _of(tenant: str | None) -> dict[str, Any]:
    return {} if tenant is None else {"tenant": tenant}
