"""What people and programs ask of the engine: jobs, control, batches, limits, schedules. Each request is checked,
then one operation."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from penstock.engine.audit import Actor, AuditEntry, entry, name_of
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
    Askable,
    Asked,
    BatchRow,
    Budget,
    Control,
    JobFilter,
    Learn,
    Once,
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

    def decided(self, row: CallRow, decision: str) -> None:
        """A person decided about this call through this very engine."""

    def submitted(self, jobs: Sequence[Submitted]) -> None:
        """Jobs were submitted through this very engine."""

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
        budget: float | None = None,
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
            budget=microdollars(budget),
        )

    async def ask(self, op: Askable, audit: AuditEntry | None, once: Once | None = None) -> Any:
        """One operation, and in the same transaction the record of who had it done."""
        return await self.group.do(op if audit is None and once is None else Asked(op, audit, once))

    async def submit(
        self, jobs: Sequence[NewJob], *, actor: Actor | str | None = None, once: Once | None = None
    ) -> list[Submitted]:
        """Store jobs, all of them or none; a key that exists answers with its job."""
        audit = None
        if actor is not None and jobs:
            target = f"job:{jobs[0].id}" if len(jobs) == 1 else f"workflow:{jobs[0].workflow}"
            one = [f"{jobs[0].workflow} {jobs[0].key or ''}".strip(), *_at_most(jobs[0].budget)]
            detail = ", ".join(one) if len(jobs) == 1 else f"{len(jobs)} jobs"
            audit = entry(actor, "job.submit", target, tenant=jobs[0].tenant, detail=detail)
        answer: list[Submitted] = await self.ask(Submit(tuple(jobs)), audit, once)
        self.submitted(answer)
        return answer

    async def control(
        self,
        job_id: str,
        action: str,
        *,
        tenant: str | None = None,
        reason: str | None = None,
        actor: Actor | str | None = None,
    ) -> Job:
        """Pause, resume, cancel or retry one job."""
        if not storable(job_id):
            raise NotFound(f"there is no job {job_id!r}")
        reason = made_storable(reason)
        control = Control(job_id, action, tenant, reason, made_storable(name_of(actor)), self.new_id())
        audit = None if actor is None else entry(actor, f"job.{action}", f"job:{job_id}", detail=reason)
        row: JobRow = await self.ask(control, audit)
        self.noticed(row)
        return view(row)

    async def decide_call(
        self, call_id: str, decision: str, *, provider_id: str | None = None, actor: Actor | str | None = None
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
            actor=made_storable(name_of(actor)) or "a person",
            look_in=0.0 if decision in ("adopt", "cancel") else LOOK_AGAIN_AFTER_ABSENCE,
        )
        audit = None
        if actor is not None:
            audit = entry(actor, f"call.{decision}", f"call:{call_id}", detail=made_storable(provider_id))
        row: CallRow = await self.ask(Learn(fact), audit)
        self.decided(row, decision)
        job = await self.store.job(row.job)
        if job is not None and job.status == "paused" and row.id in (job.reason or ""):
            await self._go_on(job, actor)
        return row

    async def set_budget(
        self,
        scope: str,
        dollars: float | None,
        *,
        tenant: str = "",
        actor: Actor | str | None = None,
    ) -> Budget | None:
        """What a tenant, job or batch may spend; jobs that were parked for want of it go on. `tenant`: whose job or
        batch it is, for the audit log."""
        most = microdollars(dollars)
        kind, _, name = checked_scope(scope).partition(":")
        audit = None
        if actor is not None:
            detail = "removed" if dollars is None else f"{dollars:g} dollars"
            whose = name if kind == "tenant" else tenant
            audit = entry(actor, "budget.set", f"budget:{scope}", tenant=whose, detail=detail)
        budget: Budget | None = await self.ask(SetBudget(scope, most), audit)
        before: str | None = None
        while page := await self.store.jobs(JobFilter(status=("paused",), before=before, limit=500)):
            before = page[-1].id
            for job in page:
                if (job.reason or "").startswith(f"{OverBudget.__name__}: budget {scope}:"):
                    await self._go_on(job, actor)
        return budget

    async def _go_on(self, job: JobRow, actor: Actor | str | None) -> None:
        with contextlib.suppress(Conflict):
            await self.control(job.id, "resume", actor=actor)

    async def open_batch(
        self,
        *,
        key: str | None = None,
        tenant: str = DEFAULT_TENANT,
        limit: int | None = None,
        then: NewJob | None = None,
        budget: float | None = None,
        actor: Actor | str | None = None,
        once: Once | None = None,
    ) -> Batch:
        """Create a batch, or find the one with this key. `then` is the job that starts when it has ended."""
        if limit is not None and not 1 <= limit <= MOST:
            raise InvalidRequest(f"a batch's limit must be from 1 to {MOST}, not {limit}")
        batch_id = self.new_id()
        op = OpenBatch(
            batch_id,
            checked_name("tenant", tenant),
            batch_id if key is None else checked_key(key),
            limit,
            then,
            microdollars(budget),
        )
        detail = ", ".join([*([key] if key else []), *_at_most(op.budget)]) or None
        audit = None if actor is None else entry(actor, "batch.open", f"batch:{batch_id}", detail=detail)
        return batch_view(await self.ask(op, audit, once))

    async def seal(self, batch_id: str, *, actor: Actor | str | None = None) -> Batch:
        """No more members: the batch ends when those it has have ended."""
        audit = None if actor is None else entry(actor, "batch.seal", f"batch:{batch_id}")
        return batch_view(await self.ask(Seal(batch_id), audit))

    async def retry_batch(self, batch_id: str, *, actor: Actor | str | None = None, once: Once | None = None) -> Batch:
        """Generation n+1: what failed runs again."""
        audit = None if actor is None else entry(actor, "batch.retry", f"batch:{batch_id}")
        return batch_view(await self.ask(RetryBatch(batch_id, self.new_id(), self.new_id), audit, once))

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
        self,
        name: str,
        cron: str,
        job: NewJob,
        *,
        timezone: str = "UTC",
        enabled: bool = True,
        actor: Actor | str | None = None,
    ) -> None:
        """Start `job` by a cron expression, in a time zone. Changing the payload keeps the next firing."""
        next_due = Cron(cron, timezone).after(await self.store.now())
        audit = None
        if actor is not None:
            detail = f"{cron} {timezone} {job.workflow}{'' if enabled else ', off'}"
            audit = entry(actor, "schedule.set", f"schedule:{name}", tenant=job.tenant, detail=detail)
        await self.ask(SetSchedule(checked_key(name), job.tenant, cron, timezone, next_due, job, enabled), audit)

    async def remove_schedule(
        self, name: str, *, tenant: str = DEFAULT_TENANT, actor: Actor | str | None = None
    ) -> bool:
        audit = None if actor is None else entry(actor, "schedule.remove", f"schedule:{name}", tenant=tenant)
        gone: bool = await self.ask(RemoveSchedule(name, tenant), audit)
        return gone

    async def read(self, statement: Any) -> list[tuple[Any, ...]]:
        """The rows that a statement gives: SQLAlchemy Core, SQL text, or `(text, values)`."""
        return await self.store.own_rows(statement)

    async def write(
        self,
        *statements: Any,
        jobs: Sequence[NewJob] = (),
        audit: AuditEntry | None = None,
        once: Once | None = None,
    ) -> list[str]:
        """Carry out statements on tables of a pipeline's own, and start jobs with them, in one transaction. `Conflict`
        where a statement that was wrapped in `Expect` did not change what it should. Answers the jobs' ids: those of
        the first time where this is asked again under its idempotency key, and then nothing is done."""
        done: list[Submitted] = await self.ask(Write(statements, tuple(jobs)), audit, once)
        self.submitted(done)
        return [each.job_id for each in done]


def microdollars(dollars: float | None) -> int | None:
    """A budget as it is counted, or `InvalidRequest`."""
    if dollars is None:
        return None
    if not 0 <= dollars <= MOST:
        raise InvalidRequest(f"a budget must be an amount of dollars from 0 to {MOST}, not {dollars!r}")
    return round(dollars * 1_000_000)


def _at_most(budget: int | None) -> list[str]:
    return [] if budget is None else [f"at most {budget / 1_000_000:g} dollars"]


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
    job = encoding.load(row.job)
    times = (row.next_due, row.last_fired)
    return Schedule(
        row.name, row.tenant, row.cron, row.timezone, job.workflow, *times, row.enabled, from_json(job.payload)
    )
