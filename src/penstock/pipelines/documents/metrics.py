"""What the pipeline counts for `/metrics`. Each count is a statement that joins the commit of what is counted, so that
it is stored with it or not at all: no retry and no crash counts anything twice.

Many processes commit at once, and would wait for each other at one row; so each count is kept in several parts. A
worker always takes the same one, and they are added up when they are read.
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_left
from collections.abc import Mapping

from penstock.engine.meters import bound
from penstock.pipelines.documents.ledger import Statement

SECONDS, CONFIDENCE, REVIEW = "documents.seconds", "documents.confidence", "documents.review_seconds"
BREACHES = "documents.sla_breaches"

BUCKETS: dict[str, tuple[float, ...]] = {
    SECONDS: (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300),
    CONFIDENCE: (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 1),
    REVIEW: (5, 15, 30, 60, 120, 300, 600, 1800, 3600, 14400),
}
"""Upper bounds. 30 seconds is what the 95th percentile is held against, so it is one of them."""

PARTS = 32


def part_of(worker: str | None) -> int:
    """The part of each count that this worker adds to."""
    return zlib.crc32((worker or "").encode()) % PARTS


def observed(values: Mapping[str, float], *, part: int = 0) -> Statement:
    """One more of each of these histograms."""
    amounts: dict[tuple[str, str], float] = {}
    for name, value in values.items():
        place = bisect_left(BUCKETS[name], value)
        most = "+Inf" if place == len(BUCKETS[name]) else bound(BUCKETS[name][place])
        amounts[f"{name}_bucket", _labels(le=most, part=str(part))] = 1.0
        # Somebody may have set the clock back meanwhile.
        amounts[f"{name}_sum", _labels(part=str(part))] = max(value, 0.0)
    return _added(amounts)


def breached(severity: str) -> Statement:
    return _added({(BREACHES, _labels(severity=severity)): 1.0})


def _added(amounts: Mapping[tuple[str, str], float]) -> Statement:
    """In the order of the table's key: two that add to the same rows wait for each other, and do not get stuck."""
    rows, values = [], dict[str, object]()
    for number, (name, labels) in enumerate(sorted(amounts)):
        rows.append(f"(:name{number}, :labels{number}, CAST(:value{number} AS DOUBLE PRECISION))")
        values |= {f"name{number}": name, f"labels{number}": labels, f"value{number}": amounts[name, labels]}
    return (
        f'INSERT INTO meters (name, labels, "value") VALUES {", ".join(rows)} ON CONFLICT (name, labels)'
        ' DO UPDATE SET "value" = meters."value" + excluded."value"',
        values,
    )


def _labels(**labels: str) -> str:
    return json.dumps(labels, sort_keys=True, separators=(",", ":"))
