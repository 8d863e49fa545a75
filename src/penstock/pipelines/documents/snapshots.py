"""`data/metrics/YYYY/MM/DD/HH.parquet`: one row that says what one hour (UTC) was like.

It is made from the rows of jobs and reviews, so an hour in which no worker ran is made up for by the next snapshot,
with all but the depths of the queue, which nobody saw.
"""

from __future__ import annotations

import asyncio
import io
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from penstock.engine.context import Context
from penstock.pipelines.documents import measuring
from penstock.pipelines.documents.ledger import Reads
from penstock.pipelines.documents.sla import HOUR
from penstock.pipelines.documents.watching import made_at

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

LOCK = "documents.snapshot"

MOST_HOURS = 24
"""How far back hours are made up for."""

PAGE = 5000


def name_of(hour: float) -> str:
    return datetime.fromtimestamp(hour, UTC).strftime("data/metrics/%Y/%m/%d/%H.parquet")


async def write_hours(ctx: Context) -> dict[str, list[str]]:
    if not await ctx.lock(LOCK):
        ctx.log.info("another snapshot is being made")
        return {"written": []}
    current = ctx.now() // HOUR * HOUR
    written = []
    for hour in await _lacking(ctx, current):
        row = await hour_of(ctx, hour)
        if hour == current - HOUR:
            row |= await _standing(ctx)
        await ctx.output(name_of(hour), await asyncio.to_thread(as_parquet, [row]))
        written.append(name_of(hour))
    return {"written": written}


async def _lacking(ctx: Context, current: float) -> list[float]:
    """The full hours since the schedule was made that have no file, oldest first."""
    made = await ctx.read(("SELECT place FROM cursors WHERE name = :name", {"name": made_at(ctx.job.workflow)}))
    first = float(made[0][0]) if made else current - HOUR
    begin = max(first // HOUR * HOUR, current - MOST_HOURS * HOUR)
    hours = {name_of(hour): hour for hour in (begin + n * HOUR for n in range(int((current - begin) // HOUR)))}
    if not hours:
        return []
    named = {f"n{number}": f"{ctx.job.tenant}/{name}" for number, name in enumerate(hours)}
    known = await ctx.read((f"SELECT name FROM outputs WHERE name IN ({', '.join(f':{n}' for n in named)})", named))
    there = {name.partition("/")[2] for (name,) in known}
    return [hour for name, hour in hours.items() if name not in there]


async def hour_of(reads: Reads, hour: float) -> dict[str, Any]:
    """Everything but the depths of the queue."""
    until = hour + HOUR
    counts = await measuring.ended(reads, hour, until)
    took, confidences = await _completed(reads, hour, until)
    decided = await reads.read(
        (
            "SELECT status, COUNT(*), AVG(decided - claimed), SUM(CASE WHEN decided > deadline THEN 1 ELSE 0 END)"
            " FROM review_items WHERE tenant IN (SELECT DISTINCT tenant FROM review_items)"
            " AND decided >= CAST(:since AS DOUBLE PRECISION) AND decided < CAST(:until AS DOUBLE PRECISION)"
            " GROUP BY status",
            {"since": hour, "until": until},
        )
    )
    reviews = {status: int(count) for status, count, _, _ in decided}
    claimed = [(float(mean), int(count)) for _, count, mean, _ in decided if mean is not None]
    broken = await reads.read(
        (
            "SELECT COUNT(*) FROM document_breaches WHERE began >= CAST(:since AS DOUBLE PRECISION)"
            " AND began < CAST(:until AS DOUBLE PRECISION)",
            {"since": hour, "until": until},
        )
    )
    return {
        "hour": datetime.fromtimestamp(hour, UTC),
        "documents_completed": counts.get("completed", 0),
        "documents_failed": counts.get("failed", 0),
        "documents_canceled": counts.get("canceled", 0),
        "processing_seconds_p50": _share(took, 0.5),
        "processing_seconds_p95": _share(took, 0.95),
        "processing_seconds_max": took[-1] if took else None,
        "confidence_mean": math.fsum(confidences) / len(confidences) if confidences else None,
        "confidence_min": min(confidences, default=None),
        "reviews_approved": reviews.get("approved", 0),
        "reviews_corrected": reviews.get("corrected", 0),
        "reviews_rejected": reviews.get("rejected", 0),
        "reviews_late": sum(int(late or 0) for _, _, _, late in decided),
        "review_seconds_mean": _mean(claimed),
        "sla_breaches": int(broken[0][0]),
    }


async def _standing(reads: Reads) -> dict[str, int]:
    rows = await reads.read(
        "SELECT status, COUNT(*) FROM review_items WHERE status IN ('pending', 'in_review') GROUP BY status"
    )
    open_now = {status: int(count) for status, count in rows}
    return {"queue_pending": open_now.get("pending", 0), "queue_in_review": open_now.get("in_review", 0)}


async def _completed(reads: Reads, since: float, until: float) -> tuple[list[float], list[float]]:
    """How long the documents of a time took, from the shortest; and how sure they are."""
    took, confidences, place = list[float](), list[float](), (since, "")
    while True:
        rows = await reads.read(
            (
                "SELECT finished, id, started, result FROM jobs WHERE workflow = 'documents' AND lane <> ''"
                " AND status = 'completed' AND finished >= CAST(:at AS DOUBLE PRECISION)"
                " AND finished < CAST(:until AS DOUBLE PRECISION)"
                " AND (finished > CAST(:at AS DOUBLE PRECISION) OR id > :id) ORDER BY finished, id LIMIT :page",
                {"at": place[0], "id": place[1], "until": until, "page": PAGE},
            )
        )
        for finished, _, started, result in rows:
            if started is not None:
                took.append(float(finished) - float(started))
            # Of a document that was deleted nothing is left here.
            told = from_json(result) if result else None
            if isinstance(told, dict) and isinstance(told.get("confidence"), int | float):
                confidences.append(float(told["confidence"]))
        if len(rows) < PAGE:
            return sorted(took), confidences
        place = (float(rows[-1][0]), str(rows[-1][1]))


def as_parquet(rows: Sequence[dict[str, Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    written = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema()), written, compression="zstd")
    return written.getvalue()


@cache
def schema() -> pa.Schema:
    import pyarrow as pa

    whole, real = pa.int64(), pa.float64()
    kinds = {
        "hour": pa.timestamp("us", tz="UTC"),
        "documents_completed": whole, "documents_failed": whole, "documents_canceled": whole,
        "processing_seconds_p50": real, "processing_seconds_p95": real, "processing_seconds_max": real,
        "confidence_mean": real, "confidence_min": real,
        "reviews_approved": whole, "reviews_corrected": whole, "reviews_rejected": whole, "reviews_late": whole,
        "review_seconds_mean": real, "queue_pending": whole, "queue_in_review": whole, "sla_breaches": whole,
    }  # fmt: skip
    return pa.schema(list(kinds.items()))


def _share(in_order: Sequence[float], share: float) -> float | None:
    return in_order[math.ceil(share * len(in_order)) - 1] if in_order else None


def _mean(parts: Sequence[tuple[float, int]]) -> float | None:
    total = sum(count for _, count in parts)
    return math.fsum(mean * count for mean, count in parts) / total if total else None
