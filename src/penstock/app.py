"""`Penstock`: the one object an author or a program holds on to. Async; `run` is the one synchronous door."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from penstock.builtin import builtin_remotes
from penstock.delivery.embedded import Embedded
from penstock.engine.audit import Actor, AuditRow
from penstock.engine.call import Call
from penstock.engine.call import view as call_view
from penstock.engine.clock import Clock
from penstock.engine.engine import DAY, Engine, Retention
from penstock.engine.errors import InvalidRequest, NotFound
from penstock.engine.model import DEFAULT_QUEUE, DEFAULT_TENANT, FINAL, Batch, Event, Job, NewJob, Schedule, view
from penstock.engine.priority import Priority
from penstock.engine.requests import batch_view, schedule_view
from penstock.engine.workflow import Workflow
from penstock.outputs.ledger import Outputs
from penstock.remote.desk import CallDesk
from penstock.remote.protocol import Remote
from penstock.store.protocol import (
    COST_GROUPS,
    AuditFilter,
    BatchFilter,
    Budget,
    CallFilter,
    Cost,
    CostFilter,
    JobFilter,
    LockFilter,
    LockRow,
    LogLine,
    Once,
    Store,
    Submitted,
    WorkerRow,
)
from penstock.telemetry.starting import start_tracing

if TYPE_CHECKING:
    from penstock.config import Settings
    from penstock.delivery.celery.hints import EngineHints
    from penstock.delivery.prefect.starting import FlowRuns


@dataclass(slots=True, frozen=True, kw_only=True)
class FollowUp:
    """The job that starts, once, when a batch has ended."""

    workflow: Workflow | str
    payload: Any
    priority: Priority | None = None
    queue: str | None = None


class Penstock:
    """Workflows, and the store their jobs live in.

    `store` is a URL (`sqlite:///work.db`, `postgresql://…`, `memory://`) or left out: then the configuration decides
    (`PENSTOCK_STORE`, `penstock.yaml`), and without one it is a SQLite file in `.penstock/` of the working folder.
    The other arguments that are left out come from the configuration too.
    """

    def __init__(
        self,
        *,
        workflows: Iterable[Workflow] = (),
        store: str | Store | None = None,
        limits: Mapping[str, int] | None = None,
        retention: Retention | None = None,
        fair_share: float | None = None,
        lease: float | None = None,
        clock: Clock | None = None,
        outputs: str | Path | None = None,
        remotes: Iterable[Remote] = (),
    ) -> None:
        self.workflows: dict[str, Workflow] = {}
        self._engine: Engine | None = None
        self._told: FlowRuns | EngineHints | None = None
        for workflow in workflows:
            self.add(workflow)
        self._store_given = store
        self._outputs_given = outputs
        self._limits = limits
        self._retention = retention
        self._fair_share = fair_share
        self._lease = lease
        self._clock = clock
        self._remotes = tuple(remotes)

    def add(self, workflow: Workflow) -> Workflow:
        """Make a workflow known after the object was made."""
        if self.workflows.setdefault(workflow.name, workflow) is not workflow:
            raise InvalidRequest(f"there are two workflows named {workflow.name!r}")
        if self._engine is not None:
            self._engine.add(workflow)
        return workflow

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            raise InvalidRequest("Penstock is not open: use `async with app:`")
        return self._engine

    async def open(
        self,
        *,
        store: str | Store | None = None,
        settings: Settings | None = None,
        exit_when_stuck: bool = False,
    ) -> Self:
        """Connect. What this object was not told comes from `settings` (None: the working folder's configuration);
        a `store` given here is stronger than the one it was made with."""
        if self._engine is not None:
            raise InvalidRequest("Penstock is open already")
        if settings is None:
            from penstock.config import load

            settings = load()
        tracer = start_tracing(settings.otel)
        connected = self._make_store(store or self._store_given or settings.store)
        await connected.open()
        self._engine = Engine(
            connected,
            self.workflows.values(),
            clock=self._clock,
            lease=settings.lease if self._lease is None else self._lease,
            retention=self._retention or _retention(settings),
            fair_share=settings.fair_share if self._fair_share is None else self._fair_share,
            exit_when_stuck=exit_when_stuck,
            outputs=Outputs(Path(self._outputs_given or settings.home / "outputs")),
            calls=CallDesk(settings.home / "calls", self._remotes, factories=builtin_remotes(settings, self._clock)),
        )
        self._engine.tracer = tracer
        self._engine.settings = settings
        limits = settings.limits if self._limits is None else self._limits
        if limits is not None and dict(limits) != await connected.limits():
            await self._engine.set_limits(limits)
        if settings.delivery == "prefect":
            from penstock.delivery.prefect.starting import FlowRuns

            self._told = FlowRuns(self._engine)
        elif settings.delivery == "celery":
            from penstock.delivery.celery.hints import EngineHints

            self._told = EngineHints(self._engine, settings.celery, queues=settings.queues or ())
        return self

    async def close(self) -> None:
        engine, self._engine = self._engine, None
        told, self._told = self._told, None
        if told is not None:
            await told.close()
        if engine is not None:
            await engine.close()
            await engine.store.close()
            if engine.tracer is not None:
                await engine.tracer.stop()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def outputs(self) -> Outputs:
        """The files that steps wrote with `ctx.output`."""
        outputs = self.engine.outputs
        assert isinstance(outputs, Outputs)
        return outputs

    def _make_store(self, given: str | Store) -> Store:
        if not isinstance(given, str):
            return given
        from penstock.store.connect import store_from_url

        return store_from_url(given, clock=self._clock)

    async def submit(
        self,
        workflow: Workflow | str,
        payload: Any,
        *,
        key: str | None = None,
        tenant: str = DEFAULT_TENANT,
        again: bool = False,
        after: float = 0.0,
        priority: Priority | None = None,
        queue: str | None = None,
        batch: str | None = None,
        budget: float | None = None,
        actor: Actor | str | None = None,
        once: Once | None = None,
    ) -> Submitted:
        """Store a job; durable when this returns. A key that exists answers with its job (`created=False`), and with
        `Conflict` if its payload was another one. `again=True` starts the next run when the last one is final.
        `budget`: the dollars that the calls of a new job may cost. `actor`: who asks, for the audit log. `once`: the
        idempotency key of a request that may come twice."""
        new = self.engine.new_job(
            workflow,
            payload,
            key=key,
            tenant=tenant,
            again=again,
            after=after,
            priority=priority,
            queue=queue,
            batch=batch,
            budget=budget,
        )
        return (await self.engine.submit([new], actor=actor, once=once))[0]

    async def submit_many(
        self,
        workflow: Workflow | str,
        payloads: Iterable[Any],
        *,
        keys: Sequence[str] | None = None,
        tenant: str = DEFAULT_TENANT,
        priority: Priority | None = None,
        queue: str | None = None,
        batch: str | None = None,
        actor: Actor | str | None = None,
        once: Once | None = None,
    ) -> list[Submitted]:
        """Store many jobs in one transaction: all of them, or none."""
        items = list(payloads)
        if keys is not None and len(keys) != len(items):
            raise InvalidRequest(f"there are {len(items)} payloads and {len(keys)} keys")
        engine = self.engine
        jobs = [
            engine.new_job(
                workflow,
                payload,
                key=keys[n] if keys is not None else None,
                tenant=tenant,
                priority=priority,
                queue=queue,
                batch=batch,
            )
            for n, payload in enumerate(items)
        ]
        return await engine.submit(jobs, actor=actor, once=once)

    async def job(self, job_id: str) -> Job:
        """A snapshot of one job, or `NotFound`."""
        row = await self.engine.store.job(job_id)
        if row is None:
            raise NotFound(f"there is no job {job_id}")
        return view(row)

    async def jobs(
        self,
        *,
        tenant: str | None = None,
        workflow: str | None = None,
        status: Sequence[str] = (),
        key: str | None = None,
        batch: str | None = None,
        before: str | None = None,
        limit: int = 50,
        after: str | None = None,
        ids: Sequence[str] | None = None,
        dead: bool = False,
        parent: str | None = None,
        brief: bool = False,
    ) -> list[Job]:
        """Jobs, newest first. Page with `before`, the last id of the page before. `dead`: failed ones whose key has not
        been run again. `brief`: without payload and result, which are None then."""
        where = JobFilter(
            tenant,
            workflow,
            tuple(status),
            key,
            batch,
            before,
            limit,
            after=after,
            ids=None if ids is None else tuple(ids),
            dead=dead,
            parent=parent,
            brief=brief,
        )
        return [view(row) for row in await self.engine.store.jobs(where)]

    async def counts(self, *, tenant: str | None = None) -> dict[tuple[str, str], int]:
        """(workflow, status) → how many jobs."""
        return await self.engine.store.count(tenant=tenant)

    async def history(self, job_id: str) -> list[Event]:
        """What happened to a job, oldest first."""
        return await self.engine.store.history(job_id)

    async def history_page(
        self, job_id: str, *, after: int = 0, before: int | None = None, limit: int = 500, newest: bool = False
    ) -> list[tuple[int, Event]]:
        """A part of a job's history, oldest first, each line with its number: the first `limit` lines between the
        numbers `after` and `before`, or with `newest` the last ones."""
        return await self.engine.store.history_page(job_id, after=after, before=before, limit=limit, newest=newest)

    async def logs(self, job_id: str, *, limit: int = 1000) -> list[LogLine]:
        """What a job's steps said last with `ctx.log`, oldest first."""
        return await self.engine.store.logs(job_id, limit=limit)

    async def wait(self, job_id: str, *, timeout: float | None = None, until: Collection[str] = FINAL) -> Job:
        """Wait until the job is final, or in one of the statuses `until`. `TimeoutError` after `timeout` seconds; the
        job goes on."""
        engine = self.engine
        news = engine.final(job_id)
        try:
            async with asyncio.timeout(timeout):
                pause = 0.02
                while True:
                    job = await self.job(job_id)
                    if job.final or job.status in until:
                        return job
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(pause):
                            await news.wait()
                    news.clear()
                    pause = min(pause * 1.5, 0.5)
        finally:
            engine.forget_final(job_id)

    async def pause(self, job_id: str, *, reason: str | None = None, actor: Actor | str | None = None) -> Job:
        """Stop at the next gate; a tick in flight commits first."""
        return await self.engine.control(job_id, "pause", reason=reason, actor=actor)

    async def resume(self, job_id: str, *, actor: Actor | str | None = None) -> Job:
        return await self.engine.control(job_id, "resume", actor=actor)

    async def cancel(self, job_id: str, *, reason: str | None = None, actor: Actor | str | None = None) -> Job:
        """Stop for good: the clean-up step runs, if there is one, then the job is `canceled`."""
        return await self.engine.control(job_id, "cancel", reason=reason, actor=actor)

    async def retry(self, job_id: str, *, actor: Actor | str | None = None) -> Job:
        """Run a failed job again from the step that failed, as its next run; or let a parked one go on."""
        return await self.engine.control(job_id, "retry", actor=actor)

    async def call(self, call_id: str) -> Call:
        """A snapshot of one remote call, or `NotFound`."""
        row = await self.engine.store.call(call_id)
        if row is None:
            raise NotFound(f"there is no call {call_id}")
        return call_view(row)

    async def calls(
        self,
        *,
        tenant: str | None = None,
        job: str | None = None,
        remote: str | None = None,
        state: Sequence[str] = (),
        before: Call | None = None,
        limit: int = 50,
    ) -> list[Call]:
        """Remote calls, newest first. Page with `before`, the last call of the page before."""
        place = None if before is None else (before.created, before.id)
        where = CallFilter(tenant=tenant, job=job, remote=remote, state=tuple(state), before=place, limit=limit)
        return [call_view(row) for row in await self.engine.store.calls(where)]

    async def decide_call(
        self, call_id: str, decision: str, *, provider_id: str | None = None, actor: Actor | str | None = None
    ) -> Call:
        """What a person decides about a quarantined call: `adopt` it (with the id it has at the other side), `resubmit`
        it, or `discard` it; or `cancel` one that is under way. A job that was parked for it goes on."""
        return call_view(await self.engine.decide_call(call_id, decision, provider_id=provider_id, actor=actor))

    async def costs(
        self,
        *,
        by: Sequence[str] = (),
        tenant: str | None = None,
        workflow: str | None = None,
        job: str | None = None,
        batch: str | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> list[Cost]:
        """What remote calls have used and cost, in millionths of a dollar, added up by tenant, workflow, job, remote,
        model or day."""
        if unknown := [name for name in by if name not in COST_GROUPS]:
            raise InvalidRequest(f"costs can be added up by {', '.join(COST_GROUPS)}, not by {unknown[0]!r}")
        where = CostFilter(tuple(by), tenant, workflow, job, batch, since, until)
        return await self.engine.store.costs(where)

    async def set_budget(
        self, scope: str, dollars: float | None, *, tenant: str = "", actor: Actor | str | None = None
    ) -> Budget | None:
        """What a tenant, job or batch (`tenant:NAME`, `job:ID`, `batch:ID`) may spend; None removes the budget. Jobs
        that were parked for want of it go on. `tenant`: whose job or batch it is, for the audit log."""
        return await self.engine.set_budget(scope, dollars, tenant=tenant, actor=actor)

    async def budgets(self, *, scope: str | None = None) -> list[Budget]:
        """All budgets, by scope; or the one of this scope."""
        return await self.engine.store.budgets(scope=scope)

    async def open_batch(
        self,
        *,
        key: str | None = None,
        tenant: str = DEFAULT_TENANT,
        limit: int | None = None,
        then: FollowUp | None = None,
        budget: float | None = None,
        actor: Actor | str | None = None,
        once: Once | None = None,
    ) -> Batch:
        """A group of jobs that ends exactly once. `limit`: members at work at once. `then`: the job that starts at
        its end. `budget`: the dollars that the calls of all its members may cost; a batch that exists keeps the one it
        has."""
        follow_up = self._follow_up(then, tenant)
        return await self.engine.open_batch(
            key=key, tenant=tenant, limit=limit, then=follow_up, budget=budget, actor=actor, once=once
        )

    def _follow_up(self, then: FollowUp | None, tenant: str) -> NewJob | None:
        if then is None:
            return None
        return self.engine.new_job(then.workflow, then.payload, tenant=tenant, priority=then.priority, queue=then.queue)

    async def seal_batch(self, batch_id: str, *, actor: Actor | str | None = None) -> Batch:
        """No more members will come: the batch ends when those it has have ended."""
        return await self.engine.seal(batch_id, actor=actor)

    async def retry_batch(self, batch_id: str, *, actor: Actor | str | None = None, once: Once | None = None) -> Batch:
        """Generation n+1 of an ended batch: what failed runs again, and the follow-up once more after that."""
        return await self.engine.retry_batch(batch_id, actor=actor, once=once)

    async def batches(
        self,
        *,
        tenant: str | None = None,
        key: str | None = None,
        open: bool | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[Batch]:
        """Batches, newest first. Page with `before`, the last id of the page before. `open`: those that have not
        ended, or those that have."""
        where = BatchFilter(tenant, key, open, before, limit)
        return [batch_view(row) for row in await self.engine.store.batches(where)]

    async def batch(self, batch_id: str) -> Batch:
        """A snapshot of one batch, or `NotFound`."""
        row = await self.engine.store.batch(batch_id)
        if row is None:
            raise NotFound(f"there is no batch {batch_id}")
        return batch_view(row)

    async def schedule(
        self,
        name: str,
        cron: str,
        workflow: Workflow | str,
        payload: Any,
        *,
        timezone: str = "UTC",
        tenant: str = DEFAULT_TENANT,
        priority: Priority | None = None,
        enabled: bool = True,
        actor: Actor | str | None = None,
    ) -> None:
        """Start a job by a cron expression. A firing that was missed runs once."""
        job = self.engine.new_job(workflow, payload, tenant=tenant, priority=priority)
        await self.engine.set_schedule(name, cron, job, timezone=timezone, enabled=enabled, actor=actor)

    async def unschedule(self, name: str, *, tenant: str = DEFAULT_TENANT, actor: Actor | str | None = None) -> None:
        if not await self.engine.remove_schedule(name, tenant=tenant, actor=actor):
            raise NotFound(f"there is no schedule {name!r}")

    async def schedules(self, *, tenant: str | None = None) -> list[Schedule]:
        """All schedules, or one tenant's."""
        rows = await self.engine.store.schedules()
        return [schedule_view(row) for row in rows if tenant in (None, row.tenant)]

    async def locks(
        self,
        *,
        tenant: str | None = None,
        job: str | None = None,
        name: str | None = None,
        after: tuple[str, str] | None = None,
        limit: int = 1000,
    ) -> list[LockRow]:
        """Who holds what. Page with `after`, the (tenant, name) of the last lock of the page before."""
        return await self.engine.store.locks(LockFilter(tenant, job, name, after, limit))

    async def workers(self) -> list[WorkerRow]:
        return await self.engine.store.workers()

    async def audit(
        self,
        *,
        tenant: str | None = None,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[AuditRow]:
        """Who did what, newest first. Page with `before`, the last id of the page before."""
        return await self.engine.store.audit(AuditFilter(tenant, actor, action, target, before, limit))

    async def backlog(self, most: int) -> int:
        """How many jobs are claimable now; counts no further than `most`."""
        return await self.engine.store.backlog(most)

    @contextlib.asynccontextmanager
    async def worker(
        self, *, queues: Sequence[str] = (DEFAULT_QUEUE,), concurrency: int = 100, grace: float = 30.0
    ) -> AsyncIterator[Embedded]:
        """Run jobs in this process for as long as the block lasts."""
        self.engine.draining = False
        delivery = Embedded(self.engine, queues=queues, concurrency=concurrency, grace=grace)
        await delivery.start()
        try:
            yield delivery
        finally:
            await delivery.stop()

    def run(self, workflow: Workflow | str, payload: Any, *, key: str | None = None, concurrency: int = 100) -> Job:
        """Submit a job, run it here until it is final (or paused: then a person must decide), and return it: for
        scripts, and for trying things out."""

        async def main() -> Job:
            async with self, self.worker(queues=self._queues(), concurrency=concurrency):
                submitted = await self.submit(workflow, payload, key=key)
                return await self.wait(submitted.job_id, until=(*FINAL, "paused"))

        return asyncio.run(main())

    def _queues(self) -> tuple[str, ...]:
        return tuple(sorted({workflow.queue for workflow in self.workflows.values()})) or (DEFAULT_QUEUE,)


def _retention(settings: Settings) -> Retention:
    kept = settings.retention
    completed, failed, audit = (
        None if days is None else days * DAY for days in (kept.completed_days, kept.failed_days, kept.audit_days)
    )
    return Retention(completed=completed, failed=failed, audit=audit)
