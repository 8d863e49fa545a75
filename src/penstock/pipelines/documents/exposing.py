"""The pipeline's part of `/metrics`, under the names that its users know."""

from __future__ import annotations

import json
from collections.abc import Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.engine.engine import Engine
from penstock.pipelines.documents import measuring, metrics, reading, sla
from penstock.pipelines.documents.rules import STATUSES
from penstock.service.metrics import Rows, spread_family

ENDS = ("completed", "failed", "canceled")


async def families(engine: Engine, rows: Rows) -> Sequence[Metric]:
    """From what was counted; and how things stand, where a document was ever completed."""
    values: dict[str, list[tuple[dict[str, str], float]]] = {}
    for name, labels, value in rows:
        if name.startswith("documents.") or name == "jobs_ended":
            values.setdefault(name, []).append((json.loads(labels), value))
    completed = sum(value for _, value in values.get(f"{metrics.SECONDS}_bucket", ()))
    if completed:
        now = engine.clock.now()
        depths = await reading.depths(engine)
        ended = await measuring.ended(engine, now - sla.HOUR, now)
    else:
        depths, ended = dict.fromkeys(STATUSES, 0), {}
    return [
        _processed(completed, values),
        *(
            spread_family(
                shown, told, (), metrics.BUCKETS[name], values.get(f"{name}_bucket", ()), values.get(f"{name}_sum", ())
            )
            for name, shown, told in (
                (metrics.SECONDS, "document_processing_seconds", "From a document's first step to its last"),
                (metrics.CONFIDENCE, "extraction_confidence", "How sure the extractions of documents are"),
                (metrics.REVIEW, "review_duration_seconds", "From a review's claim to its decision"),
            )
        ),
        _breaches(values),
        _depths(depths),
        GaugeMetricFamily(
            "documents_per_hour",
            "Documents that were completed or failed in the last hour",
            value=ended.get("completed", 0) + ended.get("failed", 0),
        ),
    ]


def _processed(completed: float, values: dict[str, list[tuple[dict[str, str], float]]]) -> Metric:
    counts = dict.fromkeys(ENDS, 0.0) | {"completed": completed}
    for labels, value in values.get("jobs_ended", ()):
        if labels.get("workflow") == "documents" and labels.get("status") in ("failed", "canceled"):
            counts[labels["status"]] += value
    family = CounterMetricFamily("documents_processed", "Documents, by how their jobs ended", labels=("status",))
    for status, value in counts.items():
        family.add_metric((status,), value)
    return family


def _breaches(values: dict[str, list[tuple[dict[str, str], float]]]) -> Metric:
    """From zero on: a series that begins at 1 has no increase."""
    counts = dict.fromkeys(sla.SEVERITIES, 0.0) | {
        labels["severity"]: value for labels, value in values.get(metrics.BREACHES, ())
    }
    family = CounterMetricFamily("sla_breaches", "Times that a promise was broken", labels=("severity",))
    for severity, value in counts.items():
        family.add_metric((severity,), value)
    return family


def _depths(depths: dict[str, int]) -> Metric:
    family = GaugeMetricFamily("review_queue_depth", "Reviews, by status", labels=("status",))
    for status, count in depths.items():
        family.add_metric((status,), count)
    return family
