"""`/metrics`: what all processes have counted, how things stand now, and what this process was asked over HTTP.

Counters come from the store, where every process that runs ticks adds its own (`engine/meters.py`), so one service
answers for all workers and a restart takes nothing back. The store being away is told as `penstock_store_up 0`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from importlib.metadata import version
from platform import python_version

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from penstock.engine.errors import StoreError
from penstock.engine.meters import BUCKETS, LABELS, bound
from penstock.service.access.guard import Unbound
from penstock.service.api.document import problems
from penstock.service.census import Census, Reading, census_of
from penstock.service.gauges import MICRO, Gauges, gauge
from penstock.service.sections import Section
from penstock.service.state import Service, service_of

log = logging.getLogger("penstock.service")

HELP = {
    "ticks": "Ticks, by how they ended",
    "tick_seconds": "How long steps ran",
    "queue_seconds": "From a job's submit, with the delay it asked for, to its first tick",
    "jobs_ended": "Jobs that have ended",
    "crashes": "Jobs that were taken away from workers that died",
    "calls": "Remote calls that have entered a state",
    "call_seconds": "From the sending of a remote call to its end",
    "tokens": "Tokens that remote calls have used; output includes thinking, input includes cached",
    "cost_microdollars": "What remote calls have cost",
    "sla_breaches": "Jobs that took longer than their workflow promises",
}
NAMES = {"cost_microdollars": "cost_dollars", "calls": "calls_entered"}
"""What is called otherwise than it is counted."""

FROM_ZERO: dict[str, dict[str, str]] = {"sla_breaches": {}, "crashes": {}, "jobs_ended": {"status": "failed"}}
"""What alerts look at, with the labels beside the workflow."""

HTTP_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

Rows = Iterable[tuple[str, str, float]]


class Metrics:
    """One for each app."""

    def __init__(self, service: Service, census: Census | None = None) -> None:
        self._service = service
        self._gauges = Gauges(service, census or Census(service.penstock))
        self._rows: list[tuple[str, str, float]] = []
        self._sections = [
            Reading(partial(self._of_section, section)) for section in service.sections if section.metrics is not None
        ]
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "penstock_http_requests", "HTTP requests", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "penstock_http_request_seconds",
            "From a request to its whole answer, or to the beginning of a live stream",
            ("method", "route"),
            buckets=HTTP_BUCKETS,
            registry=self.registry,
        )
        self.streams = Gauge("penstock_http_streams", "Live streams that are open", registry=self.registry)
        ProcessCollector(registry=self.registry)

    async def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """The text, and its media type: OpenMetrics for who accepts that, else Prometheus's own."""
        encode, media_type = choose_encoder(accept)
        families = [_build(), *await self._of_store()]
        service = self._service
        families.append(gauge("draining", "1 while the service stops", int(service.draining)))
        if service.fleet is not None:
            family = GaugeMetricFamily(
                "penstock_fleet_processes", "Worker processes of this service", labels=("state",)
            )
            family.add_metric(("alive",), service.fleet.alive)
            family.add_metric(("wanted",), service.fleet.wanted)
            families.append(family)
        return encode(_Together(families, self.registry)), media_type

    async def _of_store(self) -> list[Metric]:
        try:
            self._rows = rows = await self._service.penstock.engine.store.meters()
            found = [*counted(rows, self._service.penstock.workflows), *await self._gauges.families()]
            for reading in self._sections:
                found += await reading.get()
        except StoreError as error:
            log.warning("metrics: %s", error)
            return [gauge("store_up", "Whether the store answered", 0)]
        return [gauge("store_up", "Whether the store answered", 1), *found]

    async def _of_section(self, section: Section) -> Sequence[Metric]:
        assert section.metrics is not None
        return await section.metrics(self._service.penstock.engine, self._rows)


class _Together(Collector):
    """What was gathered for this answer, and what this process counts all the time."""

    def __init__(self, families: list[Metric], registry: CollectorRegistry) -> None:
        self._families = families
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        yield from self._families
        for family in self._registry.collect():
            # When a counter was first used is of no use here, and would be a metric of its own for each.
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


def counted(rows: Rows, workflows: Iterable[str] = ()) -> Iterator[Metric]:
    """The families of everything there is to count, with what was counted so far. What an alert waits for is 0 before
    its first time, for these workflows and all that were counted: a series that begins at 1 has no increase."""
    values: dict[str, list[tuple[dict[str, str], float]]] = {}
    known = set(workflows)
    for name, text, value in rows:
        labels = json.loads(text)
        values.setdefault(name, []).append((labels, value))
        if "workflow" in labels:
            known.add(labels["workflow"])
    for name, more in FROM_ZERO.items():
        begun = values.setdefault(name, [])
        zeros = [{"workflow": workflow, **more} for workflow in sorted(known)]
        there = [labels for labels, _ in begun]
        begun.extend((labels, 0.0) for labels in zeros if labels not in there)
    for name, labels_of in LABELS.items():
        shown = f"penstock_{NAMES.get(name, name)}"
        if name in BUCKETS and name != "ticks":
            buckets, sums = values.get(f"{name}_bucket", ()), values.get(f"{name}_sum", ())
            yield spread_family(shown, HELP[name], labels_of, BUCKETS[name], buckets, sums)
            continue
        family = CounterMetricFamily(shown, HELP[name], labels=labels_of)
        for labels, value in values.get(name, ()):
            amount = value / MICRO if name == "cost_microdollars" else value
            family.add_metric([labels.get(label, "") for label in labels_of], amount)
        yield family


def spread_family(
    shown: str,
    told: str,
    labels_of: tuple[str, ...],
    most: Sequence[float],
    amounts: Iterable[tuple[dict[str, str], float]],
    summed: Iterable[tuple[dict[str, str], float]],
) -> Metric:
    """A histogram. The store keeps each bucket for itself; here they are added up. A bound that an earlier version had
    counts in the next one there is."""
    family = HistogramMetricFamily(shown, told, labels=labels_of)
    bounds = [*most, float("inf")]
    spreads: dict[tuple[str, ...], list[float]] = {}
    for labels, value in amounts:
        key = tuple(labels.get(label, "") for label in labels_of)
        place = next(n for n, bounded in enumerate(bounds) if float(labels["le"]) <= bounded)
        spreads.setdefault(key, [0.0] * len(bounds))[place] += value
    sums: dict[tuple[str, ...], float] = {}
    for labels, value in summed:
        key = tuple(labels.get(label, "") for label in labels_of)
        sums[key] = sums.get(key, 0.0) + value
    for key, spread in sorted(spreads.items()):
        total, buckets = 0.0, []
        for bounded, amount in zip(bounds, spread, strict=True):
            total += amount
            buckets.append(("+Inf" if bounded == float("inf") else bound(bounded), total))
        family.add_metric(list(key), buckets, sum_value=sums.get(key, 0.0))
    return family


def _build() -> Metric:
    family = GaugeMetricFamily("penstock_build_info", "What runs here", labels=("version", "python"))
    family.add_metric((version("penstock"), python_version()), 1)
    return family


def metrics_of(request: Request) -> Metrics:
    state = request.app.state
    if not hasattr(state, "metrics"):
        state.metrics = Metrics(service_of(request), census_of(request))
    metrics: Metrics = state.metrics
    return metrics


_TEXT = {"schema": {"type": "string"}, "example": 'penstock_jobs{workflow="hello",status="completed"} 12.0\n'}
_CONTENT = {"text/plain": _TEXT, "application/openmetrics-text": _TEXT}


def metrics_router() -> APIRouter:
    router = APIRouter()

    @router.head("/metrics", include_in_schema=False)
    @router.get(
        "/metrics",
        operation_id="metrics",
        summary="Metrics for Prometheus",
        response_class=PlainTextResponse,
        tags=["health"],
        responses={200: {"content": _CONTENT}, **problems(path="/metrics")},
    )
    async def metrics(request: Request, principal: Unbound) -> Response:
        """Counters of all processes, and how things stand now; in OpenMetrics for who accepts that. For tokens that are
        not bound to a tenant."""
        text, media_type = await metrics_of(request).exposition(request.headers.get("accept", ""))
        return Response(text, media_type=media_type)

    return router
