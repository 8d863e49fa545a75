"""What `/metrics` reads from the store when it is asked: how things stand now, whoever did the work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric

from penstock.engine.call import LIVE
from penstock.engine.machine import workers_at_work
from penstock.engine.model import STATUSES
from penstock.service.census import Census, Reading
from penstock.service.state import Service
from penstock.store.protocol import Budget, JobFilter, LockFilter, WorkerRow

MOST_DEAD = 1000
MOST_LOCKS = 10_000
MOST_SCOPES = 100
MOST_WORKERS = 200
"""How far things are counted, or told one by one."""

LATE = 30.0
"""Seconds after which a schedule that was due and has not fired is late."""

MICRO = 1_000_000


@dataclass(slots=True, frozen=True)
class Standing:
    """What was read, at one moment of the store's clock."""

    now: float
    backlog: int
    workers: list[WorkerRow]
    calls: dict[tuple[str, str], int]
    budgets: list[Budget]
    dead: int
    locks: int
    late: int


class Gauges:
    def __init__(self, service: Service, census: Census) -> None:
        self._service = service
        self._census = census
        self._standing = Reading(self._look)

    async def _look(self) -> Standing:
        store = self._service.penstock.engine.store
        now = await store.now()
        return Standing(
            now=now,
            backlog=await store.backlog(self._service.settings.service.queue_limit),
            workers=workers_at_work(await store.workers(), now),
            calls=await store.count_calls(),
            budgets=await store.budgets(),
            dead=len(await store.jobs(JobFilter(dead=True, limit=MOST_DEAD))),
            locks=len(await store.locks(LockFilter(limit=MOST_LOCKS))),
            late=sum(row.enabled and row.next_due < now - LATE for row in await store.schedules()),
        )

    async def families(self) -> list[Metric]:
        counts = await self._census.counts()
        standing = await self._standing.get()
        return [
            _jobs(counts),
            gauge("jobs_counted_age_seconds", "How long ago penstock_jobs was counted", self._census.age() or 0.0),
            gauge(
                "backlog_jobs",
                "Jobs that could be taken by a worker now, counted up to service.queue_limit",
                standing.backlog,
            ),
            gauge("workers", "Workers that run jobs and whose lease has not run out", len(standing.workers)),
            _held(standing.workers),
            _calls(standing.calls),
            gauge(
                "quarantined_calls",
                "Remote calls that wait for a person's decision",
                sum(amount for (_, state), amount in standing.calls.items() if state == "quarantined"),
            ),
            *_budgets(standing.budgets),
            gauge("dead_letters", f"Failed jobs that nobody has retried, counted up to {MOST_DEAD}", standing.dead),
            gauge("locks", f"Locks that jobs hold, counted up to {MOST_LOCKS}", standing.locks),
            gauge(
                "schedules_late", f"Schedules that were due more than {LATE:g} s ago and have not fired", standing.late
            ),
        ]


def gauge(name: str, told: str, value: float) -> Metric:
    return GaugeMetricFamily(f"penstock_{name}", told, value=value)


def _jobs(counts: dict[tuple[str, str], int]) -> Metric:
    """Every status of every workflow, so that one which has no jobs now reads 0 and not its last value."""
    family = GaugeMetricFamily("penstock_jobs", "Jobs in the store", labels=("workflow", "status"))
    for workflow in sorted({workflow for workflow, _ in counts}):
        for status in STATUSES:
            family.add_metric((workflow, status), counts.get((workflow, status), 0))
    return family


def _held(workers: list[WorkerRow]) -> Metric:
    family = GaugeMetricFamily("penstock_worker_held_jobs", "Jobs that a worker holds", labels=("worker",))
    for worker in sorted(workers, key=lambda w: w.started, reverse=True)[:MOST_WORKERS]:
        family.add_metric((worker.id,), worker.holds)
    return family


def _calls(counts: dict[tuple[str, str], int]) -> Metric:
    family = GaugeMetricFamily("penstock_calls", "Remote calls that have not ended", labels=("remote", "state"))
    for remote in sorted({remote for remote, _ in counts}):
        for state in sorted(LIVE):
            family.add_metric((remote, state), counts.get((remote, state), 0))
    return family


def _budgets(budgets: list[Budget]) -> Iterator[Metric]:
    """Those of tenants one by one; those of jobs and batches, of which there may be any number, added up."""
    scopes: dict[str, tuple[int, int, int]] = {}
    for budget in budgets:
        kind = budget.scope.partition(":")[0]
        scope = budget.scope if kind == "tenant" and len(scopes) < MOST_SCOPES else f"{kind}:*"
        most, spent, reserved = scopes.get(scope, (0, 0, 0))
        scopes[scope] = (most + budget.most, spent + budget.spent, reserved + budget.reserved)
    for place, (name, told) in enumerate(
        (
            ("limit", "What a budget allows"),
            ("spent", "What was spent of a budget"),
            ("reserved", "What unfinished calls may still take of a budget"),
        )
    ):
        family = GaugeMetricFamily(f"penstock_budget_{name}_dollars", told, labels=("scope",))
        for scope, amounts in sorted(scopes.items()):
            family.add_metric((scope,), amounts[place] / MICRO)
        yield family
