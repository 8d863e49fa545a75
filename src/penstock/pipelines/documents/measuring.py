"""How the pipeline does, read from the rows of jobs and reviews: of all tenants together, and along indexes, so that it
costs what happened in the time that is asked about and not what was ever stored."""

from __future__ import annotations

import math

from penstock.pipelines.documents import sla
from penstock.pipelines.documents.ledger import Reads
from penstock.pipelines.documents.sla import Bounds, Episode, Measured

_ENDED = (
    "FROM jobs WHERE workflow = 'documents' AND lane <> '' AND finished >= CAST(:since AS DOUBLE PRECISION)"
    " AND finished < CAST(:until AS DOUBLE PRECISION)"
)
"""Jobs of documents that ended in a time, by the index of what has ended."""

_OPEN = "status IN ('pending', 'in_review')"

SHORT = 1.0
"""Seconds: who waited no longer than that for a worker was not waiting."""


async def measure(reads: Reads, bounds: Bounds, now: float) -> Measured:
    since = now - sla.HOUR
    counts = await ended(reads, since, now)
    completed, failed = counts.get("completed", 0), counts.get("failed", 0)
    due, late = await lateness(reads, now)
    return Measured(
        completed=completed,
        failed=failed,
        p95=await percentile(reads, 0.95, completed, since, now),
        # Who did enough need not be asked whether there was more to do.
        backlog=completed + failed < bounds.per_hour and await _backlog(reads, since, now),
        depth=await depth(reads),
        due=due,
        late=late,
    )


async def ended(reads: Reads, since: float, until: float) -> dict[str, int]:
    """Status → how many documents' jobs ended with it."""
    rows = await reads.read((f"SELECT status, COUNT(*) {_ENDED} GROUP BY status", {"since": since, "until": until}))
    return {status: int(count) for status, count in rows}


async def percentile(reads: Reads, share: float, count: int, since: float, until: float) -> float | None:
    """The seconds in which this share of the `count` documents that were completed was done."""
    if not count:
        return None
    rows = await reads.read(
        (
            f"SELECT finished - started AS took {_ENDED} AND status = 'completed' AND started IS NOT NULL"
            " ORDER BY took LIMIT 1 OFFSET :before",
            {"since": since, "until": until, "before": max(0, math.ceil(share * count) - 1)},
        )
    )
    # Between the two questions some may have been dropped.
    return float(rows[0][0]) if rows else None


async def depth(reads: Reads) -> int:
    rows = await reads.read(f"SELECT COUNT(*) FROM review_items WHERE {_OPEN}")
    return int(rows[0][0])


async def lateness(reads: Reads, now: float) -> tuple[int, int]:
    """Reviews that were decided in the last day or are overdue; and how many of these were, or are, late."""
    rows = await reads.read(
        (
            "SELECT COUNT(*), COALESCE(SUM(CASE WHEN decided > deadline THEN 1 ELSE 0 END), 0) FROM review_items"
            " WHERE tenant IN (SELECT DISTINCT tenant FROM review_items)"
            " AND decided >= CAST(:since AS DOUBLE PRECISION)",
            {"since": now - sla.DAY},
        )
    )
    over = await overdue(reads, now)
    return int(rows[0][0]) + over, int(rows[0][1]) + over


async def overdue(reads: Reads, now: float) -> int:
    rows = await reads.read(
        (
            f"SELECT COUNT(*) FROM review_items WHERE {_OPEN} AND deadline <= CAST(:now AS DOUBLE PRECISION)",
            {"now": now},
        )
    )
    return int(rows[0][0])


async def episodes(reads: Reads) -> list[Episode]:
    """The breaches that have not ended."""
    rows = await reads.read(
        "SELECT id, rule, severity, bound, value, worst, began FROM document_breaches WHERE ended IS NULL ORDER BY rule"
    )
    return [Episode(*row) for row in rows]


async def _backlog(reads: Reads, since: float, now: float) -> bool:
    """Whether documents waited for a worker all the time. Those that nobody has begun with wait since they came; of the
    others it is known when they were begun."""
    oldest = await reads.read(
        "SELECT MIN(created) FROM jobs WHERE phase = 'ready' AND workflow = 'documents' AND started IS NULL"
    )
    spans = [(float(oldest[0][0]), math.inf)] if oldest[0][0] is not None else []
    waited = "created, started FROM jobs WHERE workflow = 'documents' AND started - created > {short}"
    values = {"since": since, "until": now}
    for where in (
        "lane <> '' AND finished >= CAST(:since AS DOUBLE PRECISION) AND finished < CAST(:until AS DOUBLE PRECISION)",
        "phase = 'held'",
        "phase IN ('timed', 'held') AND due IS NOT NULL",
    ):
        rows = await reads.read(
            (f"SELECT {waited.format(short=SHORT)} AND {where}", values if ":since" in where else {})
        )
        spans += [(float(created), float(started)) for created, started in rows]
    return sla.waited_throughout(spans, since=since, until=now)
