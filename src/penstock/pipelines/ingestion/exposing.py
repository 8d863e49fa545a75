"""The pipeline's part of `/metrics`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.engine.engine import Engine
from penstock.pipelines.ingestion import metrics, reading
from penstock.pipelines.ingestion.metrics import CHUNKS, DOCUMENTS, OUTCOMES
from penstock.service.metrics import Rows, spread_family

ACTIVE = ("running", "paused", "canceled")


async def families(engine: Engine, rows: Rows) -> Sequence[Metric]:
    """From what was counted, and from a few sums over the knowledge bases."""
    counts = {name: dict.fromkeys(outcomes, 0.0) for name, outcomes in OUTCOMES.items()}
    for name, told, value in rows:
        if name in counts:
            counts[name][json.loads(told)["outcome"]] += value
    stock = await reading.stock(engine)
    active = dict.fromkeys(ACTIVE, 0) | await reading.active_runs(engine)
    runs = GaugeMetricFamily(
        "penstock_ingestion_runs", "Runs that have not ended; canceled: being cleaned up", labels=("status",)
    )
    for status, count in active.items():
        runs.add_metric((status,), count)
    return [
        _counter("penstock_ingestion_documents", "Documents that runs have met", counts[DOCUMENTS]),
        _counter("penstock_ingestion_chunks", "Chunks that runs have met", counts[CHUNKS]),
        runs,
        GaugeMetricFamily("penstock_ingestion_knowledge_bases", "Knowledge bases", value=stock.bases),
        GaugeMetricFamily(
            "penstock_ingestion_indexed_documents", "Documents that can be searched", value=stock.documents
        ),
        GaugeMetricFamily("penstock_ingestion_indexed_chunks", "Chunks that can be searched", value=stock.chunks),
        spread_family(
            "penstock_ingestion_search_seconds",
            "How long questions took that this service answered",
            ("mode",),
            metrics.SEARCH_BUCKETS,
            *metrics.searches(engine),
        ),
    ]


def _counter(shown: str, told: str, counts: dict[str, float]) -> Metric:
    family = CounterMetricFamily(shown, told, labels=("outcome",))
    for outcome, value in counts.items():
        family.add_metric((outcome,), value)
    return family
