"""How many jobs there are, and what needs a person: counted in the background.

A count reads a table that may have a million rows, so it runs at most every `PAUSE` seconds. A request waits for it
only where nothing was counted for `OLDEST` seconds, or where somebody has just changed something.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, TypeVar

from fastapi import Depends, Request

from penstock.engine.errors import NotFound, OverBudget, StoreError
from penstock.engine.identity import storable
from penstock.engine.machine import workers_at_work
from penstock.engine.model import FINAL, STATUSES
from penstock.service.access.guard import Reader
from penstock.service.beginning import INTERNAL
from penstock.service.census import AT_LEAST, OLDEST, Reading
from penstock.service.sections import Need, Section
from penstock.service.state import Service, service_of
from penstock.store.protocol import CallFilter, JobFilter, WorkerRow

log = logging.getLogger(__name__)

PAUSE = 2.0
MOST = 200
"""How far what needs a person is counted: beyond it the page says `200+`."""

CHEAP = 0.5
"""Seconds: a count that takes less is waited for after somebody changed something."""


MOST_KEPT = 1000

T = TypeVar("T")


@dataclass(slots=True, frozen=True)
class Snapshot:
    """What was counted last. Counts of what needs a person go no further than `MOST`."""

    at: float = 0.0
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    dead_of: Mapping[str, int] = field(default_factory=dict)
    """Dead letters of each workflow."""

    quarantined: int = 0
    overdue: int = 0
    over_budget: int = 0
    undecided: int = 0
    paused: int = 0
    workers: tuple[WorkerRow, ...] = ()
    needs: tuple[Need, ...] = ()
    """What sections say."""

    @property
    def jobs(self) -> int:
        return sum(self.counts.values())

    @property
    def live(self) -> int:
        return sum(amount for (_, status), amount in self.counts.items() if status not in FINAL)

    @property
    def alive(self) -> tuple[WorkerRow, ...]:
        return tuple(workers_at_work(self.workers, self.at))

    @property
    def dead(self) -> int:
        return min(sum(self.dead_of.values()), MOST + 1)

    @property
    def backlog(self) -> int:
        return self.of("queued")

    @property
    def people(self) -> Snapshot:
        """Without the jobs that Penstock makes for itself."""
        return replace(self, counts={key: n for key, n in self.counts.items() if not key[0].startswith(INTERNAL)})

    @property
    def workflows(self) -> list[str]:
        return sorted({workflow for workflow, _ in self.counts})

    def of(self, status: str, workflow: str | None = None) -> int:
        return sum(amount for (name, now), amount in self.counts.items() if now == status and workflow in (None, name))

    def live_of(self, workflows: Collection[str]) -> int:
        return sum(n for (name, status), n in self.counts.items() if name in workflows and status not in FINAL)

    def by_status(self, workflow: str | None = None) -> dict[str, int]:
        return {status: self.of(status, workflow) for status in STATUSES}


class Survey:
    """One for each service. Counts by tenant, for who is bound to one, and over all."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._readings: dict[str | None, Reading[Snapshot]] = {}

    async def look(self, tenant: str | None) -> Snapshot:
        """What was counted last, or the store's error where that is too long ago and it cannot be counted."""
        if tenant not in self._readings:
            if len(self._readings) >= MOST_KEPT:
                self._readings.pop(next(iter(self._readings)))
            self._readings[tenant] = Reading(
                lambda: take(self._service, tenant), at_least=PAUSE, oldest=OLDEST, ahead=True
            )
        return await self._readings[tenant].get(cheap=CHEAP)

    def last(self, tenant: str | None) -> Snapshot:
        reading = self._readings.get(tenant)
        return (reading and reading.last) or Snapshot()

    def touch(self) -> None:
        """Somebody changed something: who looks next wants to see it."""
        for reading in self._readings.values():
            reading.touch()


async def take(service: Service, tenant: str | None) -> Snapshot:
    """Count now."""
    store = service.penstock.engine.store
    counts = await store.count(tenant=tenant)
    at = await store.now()
    by_status = {status: sum(n for (_, s), n in counts.items() if s == status) for status in STATUSES}
    most = MOST + 1
    broken = sorted(workflow for (workflow, status), n in counts.items() if status == "failed" and n)
    dead = {
        name: len(await store.jobs(JobFilter(tenant=tenant, workflow=name, dead=True, limit=most))) for name in broken
    }
    paused = await store.jobs(JobFilter(tenant=tenant, status=("paused",), limit=most)) if by_status["paused"] else []
    reasons = [job.reason or "" for job in paused]
    over = sum(reason.startswith(f"{OverBudget.__name__}:") for reason in reasons)
    undecided = sum(reason.startswith("Ambiguous") for reason in reasons)
    return Snapshot(
        at=at,
        counts=counts,
        dead_of=dead,
        quarantined=len(await store.calls(CallFilter(tenant=tenant, state=("quarantined",), limit=most))),
        overdue=len(await store.calls(CallFilter(tenant=tenant, state=("overdue",), limit=most))),
        over_budget=over,
        undecided=undecided,
        paused=len(paused) - over - undecided,
        workers=tuple(await store.workers()),
        needs=tuple([need for section in service.sections for need in await _needs(service, section, tenant, counts)]),
    )


async def _needs(
    service: Service, section: Section, tenant: str | None, counts: Mapping[tuple[str, str], int]
) -> Sequence[Need]:
    """A section that fails spoils no page, but it is not passed over."""
    if section.needs is None or not any(workflow in section.workflows for workflow, _ in counts):
        return ()
    try:
        return await section.needs(service.penstock.engine, tenant)
    except StoreError:
        raise
    except Exception:
        log.exception("section %s cannot say what needs a person", section.name)
        words = "What needs you there is not known; the service's log tells more."
        return (Need(f"{section.title} cannot be asked", words, f"/ui/{section.name}"),)


async def kept(
    request: Request, what: tuple[str, ...], read: Callable[[], Awaitable[T]], *, seconds: float = AT_LEAST
) -> T:
    """What a page reads that grows with all there ever was (costs): kept for so long, or longer if it took long."""
    state = request.app.state
    if not hasattr(state, "readings"):
        state.readings = {}
    readings: dict[tuple[str, ...], Reading[T]] = state.readings
    if what not in readings:
        if len(readings) >= MOST_KEPT:
            readings.pop(next(iter(readings)))
        readings[what] = Reading(read, at_least=seconds, oldest=OLDEST)
    return await readings[what].get()


def survey_of(request: Request) -> Survey:
    state = request.app.state
    if not hasattr(state, "survey"):
        state.survey = Survey(service_of(request))
    survey: Survey = state.survey
    return survey


async def counted(request: Request, principal: Reader) -> Snapshot:
    """What a page shows of the whole: every page depends on it. An address that no database could hold leads
    nowhere."""
    if not all(storable(str(value)) for value in (*request.path_params.values(), *request.query_params.values())):
        raise NotFound("there is nothing at this address")
    request.state.principal = principal
    return await survey_of(request).look(principal.tenant)


Counted = Annotated[Snapshot, Depends(counted)]
