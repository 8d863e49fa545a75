"""What people and programs ask of the engine: jobs, control, batches, limits, schedules. Each request is checked,
then one operation."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from penstock.engine.budget import checked_scope
from penstock.engine.call import DECISIONS, LOOK_AGAIN_AFTER_ABSENCE, CallRow, Fact
from penstock.engine.clock import Clock
from penstock.engine.errors import Conflict, InvalidRequest, NotFound, OverBudget
from penstock.engine.group import GroupCommit
from penstock.engine.identity import checked_key, checked_name, digest, id_source, made_storable, storable
from penstock.engine.lane import MOST, checked_limits
from penstock.engine.model import DEFAULT_TENANT, Batch, Job, JobRow, NewJob, Schedule, view
from penstock.engine.priority import Priority
from penstock.engine.schedule import Cron
from penstock.engine.workflow import Workflow
from penstock.store import encoding
from penstock.store.protocol import (
    BatchRow,
    Budget,
    Control,
    JobFilter,
    Learn,
    OpenBatch,
    RemoveSchedule,
    RetryBatch,
    ScheduleRow,
    Seal,
    SetBudget,
    SetLimits,
    SetSchedule,
    Store,
    Submit,
    Submitted,
    Write,
)


class Requests:
    """The half of the engine that runs nothing."""

    def __init__(
        self, store: Store, clock: Clock, rng: random.Random, on_hints: Callable[[set[str], float], None]
    ) -> None:
        self.store = store
        self.clock = clock
        self.rng = rng
        self.new_id = id_source(clock, rng)
        self.group = GroupCommit(store, clock, rng, on_hints)
        self.workflows: dict[str, Workflow] = {}
        self._known: tuple[str, ...] = ()

    def noticed(self, row: JobRow) -> None:
        """A person changed this job through this very engine."""

    def add(self, workflow: Workflow) -> None:
        """Make a workflow known; a worker claims only the workflows it knows."""
        known = self.workflows.get(workflow.name)
        if known is not None and known is not workflow:
            raise InvalidRequest(f"there are two workflows named {workflow.name!r}")
        _ = workflow.first
        self.workflows[workflow.name] = workflow
        self._known = tuple(sorted(self.workflows))

    def workflow(self, workflow: Workflow | str) -> Workflow:
        name = workflow if isinstance(workflow, str) else workflow.name
        found = self.workflows.get(name)
        if found is None:
            known = ", ".join(self._known) or "none"
            raise NotFound(f"there is no workflow {name!r} here; known: {known}")
        return found

    def new_job(
        self,
        workflow: Workflow | str,
        payload: Any,
        *,
        tenant: str = DEFAULT_TENANT,
        key: str | None = None,
        again: bool = False,
        after: float = 0.0,
        priority: Priority | None = None,
        queue: str | None = None,
        batch: str | None = None,
        parent: str | None = None,
    ) -> NewJob:
        """A checked request for a job, not yet stored."""
        known = self.workflow(workflow)
        text = known.checked_payload(payload)
        urgency = priority or known.priority
        if urgency.aged_from is not None and not abs(urgency.aged_from) < 1e11:
            raise InvalidRequest(f"aged_from must be seconds since the epoch, not {urgency.aged_from!r}")
        if not 0 <= after < 1e10:
            raise InvalidRequest(f"after must be 0 or more seconds, within reason, not {after!r}")
        first = known.first
        return NewJob(
            id=self.new_id(),
            workflow=known.name,
            step=first.name,
            payload=text,
            digest=digest(text),
            tenant=tenant if tenant is DEFAULT_TENANT else checked_name("tenant", tenant),
            key=None if key is None else checked_key(key),
            again=again,
            queue=known.queue if queue is None else checked_name("queue", queue),
            after=after,
            base=urgency.base,
            period=urgency.ageing or 0,
            cap=urgency.cap,
            aged_from=urgency.aged_from,
            batch=batch,
            parent=parent,
            cleanup=known.cleanup_step.name if known.cleanup_step else None,
            resource=first.resource,
        )

    async def submit(self, jobs: Sequence[NewJob]) -> list[Submitted]:
        """Store jobs, all of them or none; a key that exists answers with its job."""
        answer: list[Submitted] = await self.group.do(Submit(tuple(jobs)))
        return answer

    async def control(
        self,
        job_id: str,
        action: str,
        *,
        tenant: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> Job:
        """Pause, resume, cancel or retry one job."""
        if not storable(job_id):
            raise NotFound(f"there is no job {job_id!r}")
        control = Control(job_id, action, tenant, made_storable(reason), made_storable(actor), self.new_id())
        row: JobRow = await self.group.do(control)
        self.noticed(row)
        return view(row)

    async def decide_call(
        self, call_id: str, decision: str, *, provider_id: str | None = None, actor: str | None = None
    ) -> CallRow:
        """What a person decides about a quarantined call; the job that was parked for it goes on. `cancel` is for one
        that is under way."""
        if decision not in (*DECISIONS, "cancel"):
            raise InvalidRequest(f"unknown decision {decision!r}: use {', '.join(DECISIONS)} or cancel")
        if not storable(call_id):
            raise NotFound(f"there is no call {call_id!r}")
        fact = Fact(
            call=call_id,
            kind="unwanted" if decision == "cancel" else decision,
            provider_id=made_storable(provider_id),
            actor=made_storable(actor) or "a person",
            look_in=0.0 if decision in ("adopt", "cancel") else LOOK_AGAIN_AFTER_ABSENCE,
        )
        row: CallRow = await self.group.do(Learn(fact))
        job = await self.store.job(row.job)
        if job is not None and job.status == "paused" and row.id in (job.reason or ""):
            await self._go_on(job, actor)
        return row

    async def set_budget(
        self, scope: str, dollars: float | None, *, actor: str | None = None, fresh: bool = False
    ) -> Budget | None:
        """What a tenant, job or batch may spend; jobs that were parked for want of it go on. `fresh`: it is of a job
        or batch that has no jobs yet, so nobody is parked."""
        if dollars is not None and not 0 <= dollars <= MOST:
            raise InvalidRequest(f"a budget must be an amount of dollars from 0 to {MOST}, not {dollars!r}")
        most = None if dollars is None else round(dollars * 1_000_000)
        budget: Budget | None = await self.group.do(SetBudget(checked_scope(scope), most))
        if fresh:
            return budget
        before: str | None = None
        while page := await self.store.jobs(JobFilter(status=("paused",), before=before, limit=500)):
            before = page[-1].id
            for job in page:
                if (job.reason or "").startswith(f"{OverBudget.__name__}: budget {scope}:"):
                    await self._go_on(job, actor)
        return budget

    async def _go_on(self, job: JobRow, actor: str | None) -> None:
        with contextlib.suppress(Conflict):
            await self.control(job.id, "resume", actor=actor)

    async def open_batch(
        self,
        *,
        key: str | None = None,
        tenant: str = DEFAULT_TENANT,
        limit: int | None = None,
        then: NewJob | None = None,
    ) -> Batch:
        """Create a batch, or find the one with this key. `then` is the job that starts when it has ended."""
        if limit is not None and not 1 <= limit <= MOST:
            raise InvalidRequest(f"a batch's limit must be from 1 to {MOST}, not {limit}")
        batch_id = self.new_id()
        op = OpenBatch(
            batch_id, checked_name("tenant", tenant), batch_id if key is None else checked_key(key), limit, then
        )
        return batch_view(await self.group.do(op))

    async def seal(self, batch_id: str) -> Batch:
        """No more members: the batch ends when those it has have ended."""
        return batch_view(await self.group.do(Seal(batch_id)))

    async def retry_batch(self, batch_id: str) -> Batch:
        """Generation n+1: what failed runs again."""
        return batch_view(await self.group.do(RetryBatch(batch_id, self.new_id(), self.new_id)))

    async def members(self, batch_id: str) -> AsyncIterator[Job]:
        """Every member of a batch, with its result; one query a thousand."""
        before: str | None = None
        while True:
            rows = await self.store.jobs(JobFilter(batch=batch_id, before=before, limit=1000))
            for row in rows:
                yield view(row)
            if len(rows) < 1000:
                return
            before = rows[-1].id

    async def set_limits(self, limits: Mapping[str, int]) -> None:
        await self.group.do(SetLimits(checked_limits(limits)))

    async def set_schedule(
        self, name: str, cron: str, job: NewJob, *, timezone: str = "UTC", enabled: bool = True
    ) -> None:
        """Start `job` by a cron expression, in a time zone. Changing the payload keeps the next firing."""
        next_due = Cron(cron, timezone).after(await self.store.now())
        await self.group.do(SetSchedule(checked_key(name), job.tenant, cron, timezone, next_due, job, enabled))

    async def remove_schedule(self, name: str, *, tenant: str = DEFAULT_TENANT) -> bool:
        gone: bool = await self.group.do(RemoveSchedule(name, tenant))
        return gone

    async def write(self, *statements: Any) -> None:
        """Carry out SQLAlchemy Core statements on tables of a pipeline's own, in one transaction."""
        await self.group.do(Write(statements))


def batch_view(row: BatchRow) -> Batch:
    """The public snapshot of a stored batch."""
    return Batch(
        row.id,
        row.tenant,
        row.key,
        row.generation,
        row.limit,
        row.members,
        row.completed,
        row.failed,
        row.canceled,
        row.created,
        row.sealed,
        row.finished,
        row.follow_up,
    )


def schedule_view(row: ScheduleRow) -> Schedule:
    """The public snapshot of a stored schedule."""
    workflow = encoding.load(row.job).workflow
    return Schedule(row.name, row.tenant, row.cron, row.timezone, workflow, row.next_due, row.last_fired, row.enabled)
