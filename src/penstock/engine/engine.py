"""The engine: what turns a delivered hint into a tick, and a request into a row.

`advance_next` and `advance` are the only doors for delivery. Whoever calls them, and however often, the store decides what is done.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pydantic_core import from_json, to_json

from penstock.engine.clock import Clock, SystemClock
from penstock.engine.errors import (
    CommitUnknown,
    InvalidRequest,
    LostClaim,
    NotFound,
    PenstockError,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from penstock.engine.group import GroupCommit
from penstock.engine.heart import Heart
from penstock.engine.identity import checked_key, checked_name, digest, id_source
from penstock.engine.lane import checked_limits
from penstock.engine.machine import is_dead, this_process
from penstock.engine.model import DEFAULT_QUEUE, DEFAULT_TENANT, Job, JobRow, NewJob, view
from penstock.engine.priority import Priority
from penstock.engine.schedule import Cron
from penstock.engine.tick import Tick
from penstock.engine.watch import LoopGuard, Watch
from penstock.engine.workflow import Workflow
from penstock.store import encoding
from penstock.store.protocol import (
    ANY_QUEUE,
    BatchRow,
    Beat,
    Claim,
    Claimed,
    ClaimJob,
    Control,
    Fire,
    HandBack,
    JobFilter,
    Leave,
    Note,
    Op,
    OpenBatch,
    RemoveSchedule,
    RetryBatch,
    Seal,
    SetLimits,
    SetSchedule,
    Store,
    Submit,
    Submitted,
    Tidied,
    Tidy,
    Write,
)  # fmt: skip

log = logging.getLogger("penstock.engine")

DAY = 86_400.0


@dataclass(slots=True, frozen=True)
class Wake:
    """Come back in `delay` seconds; 0: more is claimable now."""

    delay: float


@dataclass(slots=True, frozen=True, kw_only=True)
class Retention:
    """How long final jobs are kept, in seconds; None keeps them for ever. A key outlives its job, so a late event runs nothing twice."""

    completed: float | None = 30 * DAY
    failed: float | None = 90 * DAY


@dataclass(slots=True, frozen=True)
class Swept:
    """What a sweep did."""

    fired: int
    given_up: int
    woken: int
    dropped: int
    hinted: tuple[str, ...]


class OutputLedger(Protocol):
    """What the engine asks of `penstock.outputs`: files that become public with the commit of the step that wrote them."""

    def connect(self, store: object, write: Callable[[Any], Awaitable[None]]) -> None: ...

    async def add(self, name: str, content: Any, *, tenant: str, job: str, epoch: int) -> tuple[Any, Any]: ...

    async def publish(self, names: list[str]) -> int: ...

    async def mend(self) -> int: ...


class Engine:
    """One for each process (or simulated process). Opens nothing by itself: give it an open store."""

    def __init__(
        self,
        store: Store,
        workflows: Iterable[Workflow] = (),
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        lease: float = 30.0,
        retention: Retention | None = None,
        fair_share: float = 0.0,
        name: str | None = None,
        threads: bool = True,
        exit_when_stuck: bool = False,
        outputs: OutputLedger | None = None,
    ) -> None:
        if not 0 <= fair_share < 1:
            raise InvalidRequest("fair_share must be at least 0 and less than 1")
        if lease <= 0:
            raise InvalidRequest("lease must be more than 0 seconds")
        self.store = store
        self.clock = clock or SystemClock()
        self.rng = rng or random.Random()
        self.new_id = id_source(self.clock, self.rng)
        self.workflows: dict[str, Workflow] = {}
        self._known: tuple[str, ...] = ()
        self.group = GroupCommit(store, self.clock, self.rng, self.send_hints)
        self.watch = Watch(self)
        self.ticks: dict[str, Tick] = {}
        self.draining = False
        self.queues: set[str] = set()
        self.worker: str | None = None
        self._name = checked_name("worker", name or f"{socket.gethostname()}.{os.getpid()}")
        self._lease = lease
        self._retention = retention or Retention()
        self._fair_share = fair_share
        self._fair_credit = 0.0
        self._threads = threads
        self._exit_when_stuck = exit_when_stuck
        self._heart: Heart | None = None
        self._guard: LoopGuard | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._gates: dict[str, str] = {}
        self._gate_task: asyncio.Task[None] | None = None
        self._background: set[asyncio.Future[Any]] = set()
        self._on_hint: list[Callable[[set[str], float], None]] = []
        self._enlisting = asyncio.Lock()
        self._uncertain = False
        self._outputs = outputs
        if outputs is not None:
            outputs.connect(store, self.write)
        self._finals: dict[str, asyncio.Event] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        for workflow in workflows:
            self.add(workflow)

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

    # Requests

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
        if not 0 <= after < float("inf"):
            raise InvalidRequest(f"after must be 0 or more seconds, not {after!r}")
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
        row: JobRow = await self.group.do(Control(job_id, action, tenant, reason, actor, self.new_id()))
        if row.id in self.ticks:
            self.note_gate(row.id, row.gate)
        return view(row)

    async def open_batch(
        self,
        *,
        key: str | None = None,
        tenant: str = DEFAULT_TENANT,
        limit: int | None = None,
        then: NewJob | None = None,
    ) -> BatchRow:
        """Create a batch, or find the one with this key. `then` is the job that starts when it has ended."""
        if limit is not None and limit < 1:
            raise InvalidRequest(f"a batch's limit must be at least 1, not {limit}")
        batch_id = self.new_id()
        op = OpenBatch(
            batch_id, checked_name("tenant", tenant), batch_id if key is None else checked_key(key), limit, then
        )
        batch: BatchRow = await self.group.do(op)
        return batch

    async def seal(self, batch_id: str) -> BatchRow:
        batch: BatchRow = await self.group.do(Seal(batch_id))
        return batch

    async def retry_batch(self, batch_id: str) -> BatchRow:
        batch: BatchRow = await self.group.do(RetryBatch(batch_id, self.new_id(), self.new_id))
        return batch

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

    # The doors for delivery

    async def advance_next(
        self,
        queue: str = DEFAULT_QUEUE,
        *,
        room: int = 1,
        start: Callable[[Coroutine[Any, Any, float | None]], object] | None = None,
    ) -> Wake | None:
        """Let the store pick the best jobs now and advance them. None: nothing to do here.

        With `start`, up to `room` ticks are handed to it as coroutines and the answer comes at once; without, one tick is run here.
        """
        claimed = await self._claim(queue, room if start else 1)
        if claimed is None:
            return Wake(0.0)
        if start is not None:
            for row in claimed.rows:
                start(self._tick(row))
            return None if claimed.wake is None else Wake(claimed.wake)
        delays = [claimed.wake, *[await self._tick(row) for row in claimed.rows]]
        return min((Wake(delay) for delay in delays if delay is not None), key=lambda wake: wake.delay, default=None)

    async def advance(self, job_id: str, *, lease: float | None = None) -> Wake | None:
        """Advance this very job: limits count, priority does not. With `lease` (functions that come and go) the claim lapses by
        itself; without, it belongs to this engine's worker."""
        worker = self._name if lease is not None else await self.enlist()
        try:
            claimed: Claimed = await self._take(ClaimJob(worker, job_id, self._known, lease))
        except LostClaim:
            self._given_up(worker)
            return Wake(0.0)
        delay = await self._tick(claimed.rows[0]) if claimed.rows else claimed.wake
        return None if delay is None else Wake(delay)

    async def sweep(self) -> Swept:
        """Fire schedules, give up the dead, drop the old, and send the hints that may have been lost."""
        fired = await self._fire_schedules()
        tidied: Tidied = await self.group.do(Tidy(self._retention.completed, self._retention.failed))
        if self._uncertain and self.worker is not None:
            self._uncertain = False
            try:
                await self._recount()
            except StoreError:
                self.doubt()
                raise
        if self._outputs is not None:
            await self._outputs.mend()
        queues = await self.store.ready_queues()
        if queues:
            self.send_hints(set(queues))
        return Swept(fired, tidied.given_up, tidied.woken, tidied.dropped, tuple(queues))

    async def _fire_schedules(self) -> int:
        """A firing that was missed runs once, and the next is counted from now."""
        fired = 0
        now = await self.store.now()
        for schedule in await self.store.schedules():
            if not schedule.enabled or schedule.next_due > now:
                continue
            template = encoding.load(schedule.job)
            job = replace(
                template, id=self.new_id(), key=f"schedule:{schedule.name}:{schedule.next_due:.0f}", again=False
            )
            next_due = Cron(schedule.cron, schedule.timezone).after(now)
            fired += await self.group.do(Fire(schedule.name, schedule.tenant, schedule.next_due, next_due, job))
        return fired

    async def _claim(self, queue: str, room: int) -> Claimed | None:
        worker = await self.enlist()
        self._fair_credit += room * self._fair_share
        oldest = min(room, int(self._fair_credit))
        self._fair_credit -= oldest
        try:
            claimed: Claimed = await self._take(Claim(worker, queue, self._known, room, oldest))
        except LostClaim:
            self._given_up(worker)
            return None
        if not claimed.rows:
            self._fair_credit += oldest
        return claimed

    async def _take(self, claim: Claim | ClaimJob) -> Claimed:
        """A claim whose COMMIT was unknown may have taken jobs of which its answer, or that of its second try, says nothing."""
        unknown = self.group.unknown
        try:
            claimed: Claimed = await self.group.do(claim)
        except (CommitUnknown, asyncio.CancelledError):
            self.doubt()
            raise
        if self.group.unknown != unknown:
            self.doubt()
        return claimed

    def doubt(self) -> None:
        """The store may think that this worker holds jobs which nothing here advances: the next sweep gives them back."""
        self._uncertain = True

    def _tick(self, row: JobRow) -> Coroutine[Any, Any, float | None]:
        return Tick(self, row, self.workflows[row.workflow]).run()

    async def commit(self, op: Op) -> Any:
        """A tick's own commits wait for a store that is away, for as long as somebody could still believe in them."""
        pause = 0.05
        while True:
            try:
                return await self.group.do(op)
            except (StoreUnavailable, StoreFull) as error:
                log.warning("waiting for the store: %s", error)
                await self.clock.sleep(pause * (0.5 + self.rng.random()))
                pause = min(pause * 2, 5.0)

    def final(self, job_id: str) -> asyncio.Event:
        """Set when a tick of this process brings the job to its end: saves who waits here from asking the store."""
        return self._finals.setdefault(job_id, asyncio.Event())

    def forget_final(self, job_id: str) -> None:
        self._finals.pop(job_id, None)

    def tell_final(self, job_id: str) -> None:
        if self._finals and (event := self._finals.get(job_id)) is not None:
            event.set()

    @property
    def outputs(self) -> OutputLedger:
        if self._outputs is None:
            raise InvalidRequest("this engine was given no place for outputs")
        return self._outputs

    async def write(self, *statements: Any) -> None:
        """Carry out SQLAlchemy Core statements on tables of a pipeline's own, in one transaction."""
        await self.group.do(Write(statements))

    async def publish(self, names: list[str]) -> None:
        """Show committed outputs under their public names; what fails now is mended by the next sweep."""
        try:
            await self.outputs.publish(names)
        except (OSError, PenstockError) as error:
            log.warning("outputs %s are stored but not yet public: %s", names, error)

    # This worker

    async def enlist(self) -> str:
        """Be a worker: from now on this engine holds a lease that its heartbeat renews."""
        if self.worker is not None:
            return self.worker
        async with self._enlisting:
            if self.worker is None:
                worker = f"{self._name}.{self.new_id()[-8:]}"
                info = {"workflows": self._known, "queues": sorted(self.queues), **this_process()}
                await self.group.do(Beat(worker, self._lease, to_json(info).decode(), first=True))
                self.worker = worker
                if self._threads:
                    self._start_threads(worker)
                    await self._bury_neighbours()
                if self._gate_task is None:
                    self._gate_task = asyncio.get_running_loop().create_task(self._read_gates(), name="penstock-gates")
        return self.worker

    async def _bury_neighbours(self) -> None:
        """Workers that died on this machine are given up at once: a program that is started again goes on where it was."""
        for worker in await self.store.workers():
            if is_dead(from_json(worker.info)):
                log.warning("worker %s is dead; %d jobs are taken up again", worker.id, worker.holds)
                await self.group.do(Leave(worker.id, died=True))

    def _start_threads(self, worker: str) -> None:
        loop = asyncio.get_running_loop()

        def given_up(worker: str) -> None:
            loop.call_soon_threadsafe(self._given_up, worker)

        self._heart = Heart(self.store, worker, self._lease, given_up)
        self._heart.start()
        if self._guard is None:
            self._guard = LoopGuard(self, exits=self._exit_when_stuck)
            self._guard.start()

    async def beat(self) -> bool:
        """One heartbeat, for who runs the engine without threads."""
        if self.worker is None:
            return False
        worker = self.worker
        alive: bool = await self.group.do(Beat(worker, self._lease))
        if not alive:
            self._given_up(worker)
        return alive

    def _given_up(self, worker: str) -> None:
        """The store no longer believes in this worker: its ticks are lost, and it starts anew under another name."""
        if self.worker != worker:
            return
        log.warning("worker %s was given up by the store; its running ticks do not count", worker)
        self.worker = None
        if self._heart is not None:
            self._heart.stop()
            self._heart = None
        for tick in list(self.ticks.values()):
            tick.context.close("its worker was given up")
        self.send_hints({ANY_QUEUE})

    def surrender(self, *, blamed: str) -> None:
        """Called from another thread when this one is stuck: everything goes back, and the job that did it is blamed."""
        worker = self.worker
        if worker is None:
            return
        if self._heart is not None:
            self._heart.stop()
        keeper = self.store.keeper()
        try:
            keeper.leave(worker, blamed)
        except StoreError as error:
            log.error("worker %s could not give its jobs back, its lease will run out: %s", worker, error)
        finally:
            keeper.close()
        if self._guard is not None:
            self._guard.on_turn(lambda: self._given_up(worker))

    async def _recount(self) -> None:
        """Give back what the store thinks we hold and we do not know of (the answer to a claim was lost)."""
        if self.worker is not None:
            known = frozenset((tick.row.id, tick.row.epoch) for tick in self.ticks.values())
            await self.group.do(HandBack(self.worker, known))

    async def _read_gates(self) -> None:
        """Learn which of the running ticks somebody asked to pause or cancel, from wherever they asked."""
        while True:
            await self.clock.sleep(0.5)
            if not self.ticks or self.worker is None:
                self._gates.clear()
                continue
            try:
                self._gates = await self.store.halting(self.worker)
            except StoreError as error:
                log.warning("could not look for pause and cancel requests: %s", error)

    def note_gate(self, job_id: str, gate: str) -> None:
        if gate:
            self._gates[job_id] = gate
        else:
            self._gates.pop(job_id, None)

    def is_halting(self, job_id: str) -> bool:
        return self.draining or job_id in self._gates

    async def in_thread(self, tick: Tick, call: Callable[..., Any], *args: Any) -> Any:
        """A blocking step gets a thread, which its limits can interrupt."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(64, "penstock-step")
        self._loop = asyncio.get_running_loop()

        def run() -> Any:
            tick.thread = threading.get_ident()
            try:
                return call(*args)
            finally:
                tick.thread = None

        return await self._loop.run_in_executor(self._pool, run)

    def note_progress(self, note: Note) -> None:
        """Show how far a step is; also from the thread of a blocking one."""
        if self._loop is not None and asyncio._get_running_loop() is None:
            self._loop.call_soon_threadsafe(self.note_progress, note)
        else:
            self.in_background(self.group.do(note))

    def in_background(self, work: Awaitable[Any]) -> None:
        """Do it, tell of its failure, and keep it alive until then."""
        future = asyncio.ensure_future(work)
        self._background.add(future)

        def done(future: asyncio.Future[Any]) -> None:
            self._background.discard(future)
            if (
                not future.cancelled()
                and (error := future.exception()) is not None
                and not isinstance(error, LostClaim)
            ):
                log.warning("%s", error)

        future.add_done_callback(done)

    # Hints

    def on_hint(self, listener: Callable[[set[str], float], None]) -> Callable[[], None]:
        """`listener` is told queues, and in how many seconds there may be claimable work in them. Returns how to stop."""
        self._on_hint.append(listener)
        return lambda: self._on_hint.remove(listener)

    def send_hints(self, queues: set[str], after: float = 0.0) -> None:
        for listener in list(self._on_hint):
            listener(queues, after)

    # The end

    async def drain(self, grace: float) -> None:
        """Start nothing more; let running ticks finish for `grace` seconds, then stop them. What is left is handed back."""
        self.draining = True
        tasks = [tick.task for tick in self.ticks.values() if tick.task is not None]
        if tasks:
            waiting = asyncio.ensure_future(asyncio.wait(tasks))
            sleeping = asyncio.ensure_future(self.clock.sleep(grace))
            await asyncio.wait([waiting, sleeping], return_when=asyncio.FIRST_COMPLETED)
            sleeping.cancel()
            waiting.cancel()
            for task in tasks:
                if not task.done():
                    task.cancel("the worker stops")
            await asyncio.gather(*tasks, return_exceptions=True)

    async def retire(self) -> None:
        """Stop being a worker: hand back what is still held, end the threads."""
        worker, self.worker = self.worker, None
        if self._gate_task is not None:
            self._gate_task.cancel()
            self._gate_task = None
        if self._heart is not None:
            self._heart.stop()
            self._heart = None
        if self._guard is not None:
            self._guard.stop()
            self._guard = None
        if worker is not None:
            try:
                await self.group.do(Leave(worker))
            except StoreError as error:
                log.warning("worker %s could not say goodbye, its lease will run out: %s", worker, error)

    async def close(self) -> None:
        await self.retire()
        if self._background:
            await asyncio.wait(self._background)
        await self.group.close()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
