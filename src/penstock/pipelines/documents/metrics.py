"""What the pipeline counts for `/metrics`, each with the commit of what is counted (`tallies`)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from penstock.engine.meters import bound
from penstock.pipelines.documents.ledger import Statement
from penstock.pipelines.tallies import PARTS, added, labels, part_of

__all__ = ["BREACHES", "BUCKETS", "CONFIDENCE", "PARTS", "REVIEW", "SECONDS", "breached", "observed", "part_of"]

SECONDS, CONFIDENCE, REVIEW = "documents.seconds", "documents.confidence", "documents.review_seconds"
BREACHES = "documents.sla_breaches"

BUCKETS: dict[str, tuple[float, ...]] = {
    SECONDS: (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300),
    CONFIDENCE: (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 1),
    REVIEW: (5, 15, 30, 60, 120, 300, 600, 1800, 3600, 14400),
}
"""Upper bounds. 30 seconds is what the 95th percentile is held against, so it is one of them."""


def observed(values: Mapping[str, float], *, part: int = 0) -> Statement:
    """One more of each of these histograms."""
    amounts: dict[tuple[str, str], float] = {}
    for name, value in values.items():
        place = bisect_left(BUCKETS[name], value)
        most = "+Inf" if place == len(BUCKETS[name]) else bound(BUCKETS[name][place])
        amounts[f"{name}_bucket", labels(le=most, part=str(part))] = 1.0
        # Somebody may have set the clock back meanwhile.
        amounts[f"{name}_sum", labels(part=str(part))] = max(value, 0.0)
    return added(amounts)


def breached(severity: str) -> Statement:
    return added({(BREACHES, labels(severity=severity)): 1.0})
