"""What a job is: the row that is stored, and the read-only view that people and steps get of it.

A job's place is told by two columns. `status` is the word users see. `phase` says who acts next:

    ready   claimable now            timed   due later            held   a tick has it
    idle    nobody: paused, or final

While a job is being cancelled its status stays `canceling`, whatever its phase.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple

from pydantic_core import from_json

Status = Literal["queued", "running", "waiting", "paused", "canceling", "completed", "failed", "canceled"]
Phase = Literal["ready", "timed", "held", "idle"]
Gate = Literal["", "pause", "cancel"]

FINAL: frozenset[str] = frozenset({"completed", "failed", "canceled"})
STATUSES: tuple[str, ...] = ("queued", "running", "waiting", "paused", "canceling", "completed", "failed", "canceled")

SLA_BREACHED = "sla breached"
"""The kind of the line in a job's history that says so."""

DEFAULT_TENANT = "default"
DEFAULT_QUEUE = "default"


@dataclass(slots=True)
class JobRow:
    """One row of `jobs`. The first block never changes after submit; the second is what ticks and people change.

    `due` is when the store must look at the job again: the end of a wait (timed), or of a lease on this one job (held).
    `epoch` counts claims and fences out whoever held the job before; `moves` is the number of a tick's last commit.
    """

    id: str
    tenant: str
    workflow: str
    key: str
    run: int
    queue: str
    digest: str
    parent: str | None
    fan_in: str | None
    cleanup: str | None
    base: int
    period: int
    cap: int
    aged_from: float
    created: float

    status: str
    phase: str
    step: str
    payload: str
    lane: str
    batch: str | None = None
    batch_slot: str | None = None
    resource: str = ""
    gate: str = ""
    result: str | None = None
    error: str | None = None
    reason: str | None = None
    attempt: int = 0
    throttled: int = 0
    crashes: int = 0
    epoch: int = 0
    moves: int = 0
    worker: str | None = None
    due: float | None = None
    started: float | None = None
    entered: float | None = None
    finished: float | None = None
    counters: str | None = None
    progress: str | None = None


JOB_COLUMNS: tuple[str, ...] = tuple(f.name for f in fields(JobRow))
FIXED_COLUMNS = JOB_COLUMNS[: JOB_COLUMNS.index("status")]
CHANGING_COLUMNS = JOB_COLUMNS[JOB_COLUMNS.index("status") :]


@dataclass(slots=True)
class NewJob:
    """A job as it is submitted; never changed once made. Times are relative: the store's clock makes them absolute."""

    id: str
    workflow: str
    step: str
    payload: str
    digest: str
    tenant: str = DEFAULT_TENANT
    key: str | None = None
    again: bool = False
    queue: str = DEFAULT_QUEUE
    after: float = 0.0
    base: int = 50
    period: int = 3600
    cap: int = 20
    aged_from: float | None = None
    batch: str | None = None
    parent: str | None = None
    fan_in: str | None = None
    cleanup: str | None = None
    resource: str = ""
    budget: int | None = None


@dataclass(slots=True, frozen=True)
class Progress:
    """How far a job says it is."""

    done: float
    total: float | None = None
    note: str | None = None


@dataclass(slots=True, frozen=True)
class Job:
    """A job as users and steps see it; a snapshot, never live."""

    id: str
    workflow: str
    tenant: str
    key: str
    run: int
    queue: str
    status: Status
    step: str
    payload: Any
    result: Any
    error: str | None
    reason: str | None
    attempt: int
    priority: int
    counters: dict[str, int]
    progress: Progress | None
    created: float
    started: float | None
    due: float | None
    finished: float | None
    worker: str | None
    parent: str | None
    batch: str | None
    fan_in: str | None
    halting: Gate = field(default="")

    @property
    def final(self) -> bool:
        return self.status in FINAL


def view(row: JobRow) -> Job:
    """The public snapshot of a stored row."""
    return Job(
        id=row.id,
        workflow=row.workflow,
        tenant=row.tenant,
        key=row.key,
        run=row.run,
        queue=row.queue,
        status=row.status,  # type: ignore[arg-type]
        step=row.step,
        payload=from_json(row.payload) if row.payload else None,
        result=from_json(row.result) if row.result else None,
        error=row.error,
        reason=row.reason,
        attempt=row.attempt,
        priority=row.base,
        counters=from_json(row.counters) if row.counters else {},
        progress=Progress(*from_json(row.progress)) if row.progress else None,
        created=row.created,
        started=row.started,
        due=row.due if row.phase == "timed" else None,
        finished=row.finished,
        worker=row.worker,
        parent=row.parent,
        batch=row.batch,
        fan_in=row.fan_in,
        halting=row.gate,  # type: ignore[arg-type]
    )


@dataclass(slots=True, frozen=True)
class Batch:
    """A batch as users see it; a snapshot. It has ended when `finished` is set, and then `follow_up` is its follow-up
    job."""

    id: str
    tenant: str
    key: str
    generation: int
    limit: int | None
    members: int
    completed: int
    failed: int
    canceled: int
    created: float
    sealed: float | None
    finished: float | None
    follow_up: str | None

    @property
    def ended(self) -> int:
        """How many members have ended, well or not."""
        return self.completed + self.failed + self.canceled


@dataclass(slots=True, frozen=True)
class Schedule:
    """A schedule as users see it; times are seconds since the epoch."""

    name: str
    tenant: str
    cron: str
    timezone: str
    workflow: str
    next_due: float
    last_fired: float | None
    enabled: bool
    payload: Any = None


class Event(NamedTuple):
    """One line of a job's history: a committed tick, a crash that was noticed, or what a person asked for."""

    job: str
    at: float
    kind: str
    step: str
    status: str
    epoch: int = 0
    move: int = 0
    attempt: int = 0
    took: float | None = None
    worker: str | None = None
    note: str | None = None


EVENT_COLUMNS: tuple[str, ...] = Event._fields
