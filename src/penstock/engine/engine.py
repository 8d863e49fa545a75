"""The engine: what turns a delivered hint into a tick, and a request into a row.

`advance_next` and `advance` are the only doors for delivery. Whoever calls them, and however often, the store decides
what is done.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from penstock.engine.call import Call
from penstock.engine.clock import Clock, SystemClock
from penstock.engine.errors import (
    CommitUnknown,
    Conflict,
    InvalidRequest,
    LostClaim,
    PenstockError,
    StoreFull,
    StoreUnavailable,
)
from penstock.engine.membership import Membership
from penstock.engine.model import DEFAULT_QUEUE, JobRow
from penstock.engine.schedule import Cron
from penstock.engine.tick import Tick
from penstock.engine.workflow import Workflow
from penstock.store import encoding
from penstock.store.protocol import Claim, Claimed, ClaimJob, Fire, Note, Op, Store, Tidied, Tidy

log = logging.getLogger("penstock.engine")

DAY = 86_400.0
MOST_THREADS = 1000
"""Threads are made when blocking steps need them; one that hangs in C is lost until it returns."""

LAST_WAIT = 5.0
"""Seconds a cancelled step has to end before the worker goes on without it."""


@dataclass(slots=True, frozen=True)
class Wake:
    """Come back in `delay` seconds; 0: more is claimable now."""

    delay: float


@dataclass(slots=True, frozen=True, kw_only=True)
class Retention:
    """How long final jobs and the audit log are kept, in seconds; None keeps them for ever. A key outlives its job, so
    a late event runs nothing twice."""

    completed: float | None = 30 * DAY
    failed: float | None = 90 * DAY
    audit: float | None = 365 * DAY


@dataclass(slots=True, frozen=True)
class Swept:
    """What a sweep did."""

    fired: int
    given_up: int
    woken: int
    dropped: int
    hinted: tuple[str, ...]


class OutputLedger(Protocol):
    """What the engine asks of `penstock.outputs`: files that become public with the commit of the step that wrote
    them."""

    root: Path

    def connect(self, store: object, write: Callable[..., Awaitable[object]]) -> None: ...

    async def add_all(
        self, contents: Callable[[], Any], *, tenant: str, job: str, epoch: int
    ) -> list[tuple[Any, Any]]: ...

    async def publish(self, names: list[str]) -> int: ...

    async def mend(self) -> int: ...


class Calls(Protocol):
    """What the engine asks of `penstock.remote`: calls that are made for steps, and looked after between ticks."""

    def connect(self, engine: Engine) -> None: ...

    async def make(self, job: JobRow, remote: Any, key: str, request: Any, *, attempts: int) -> Call: ...

    async def ready(self, name: str) -> Any: ...

    async def stop(self, call: str) -> None: ...

    def folder_of(self, call: str) -> Path: ...

    async def tend(self, *, wait: bool = True) -> int: ...

    async def rest(self) -> None: ...

    async def until_next(self, longest: float) -> None: ...

    async def clean(self) -> None: ...

    async def close(self) -> None: ...


class Engine(Membership):
    """One for each process (or simulated process). Opens nothing by itself: give it an open store. An `internal` one
    does the service's own work, and is not counted among the workers."""

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
        calls: Calls | None = None,
        internal: bool = False,
    ) -> None:
        if not 0 <= fair_share < 1:
            raise InvalidRequest("fair_share must be at least 0 and less than 1")
        super().__init__(
            store,
            clock or SystemClock(),
            rng or random.Random(),
            self.send_hints,
            name=name,
            lease=lease,
            threads=threads,
            exit_when_stuck=exit_when_stuck,
            internal=internal,
        )
        self._retention = retention or Retention()
        self._fair_share = fair_share
        self._fair_credit = 0.0
        self._outputs = outputs
        self._pool: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_hint: list[Callable[[set[str], float], None]] = []
        self._finals: dict[str, asyncio.Event] = {}
        self._calls = calls
        if outputs is not None:
            outputs.connect(store, self.write)
        if calls is not None:
            calls.connect(self)
        for workflow in workflows:
            self.add(workflow)

    def claim_only(self, *workflows: str) -> None:
        """Claim jobs of these workflows alone. The others stay known, so that their steps can spawn jobs of them."""
        self._known = tuple(self.workflow(name).name for name in workflows)

    async def advance_next(
        self,
        queue: str = DEFAULT_QUEUE,
        *,
        room: int = 1,
        start: Callable[[Coroutine[Any, Any, float | None]], object] | None = None,
    ) -> Wake | None:
        """Let the store pick the best jobs now and advance them. None: nothing to do here.

        With `start`, up to `room` ticks are handed to it as coroutines and the answer comes at once; without, one
        tick is run here.
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
        """Advance this very job: limits count, priority does not. With `lease` (functions that come and go) the claim
        lapses by itself; without, it belongs to this engine's worker."""
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
        kept = self._retention
        tidied: Tidied = await self.group.do(Tidy(kept.completed, kept.failed, keep_audit=kept.audit))
        fired = await self._fire_schedules()
        await self.recount()
        if self._outputs is not None:
            await self._outputs.mend()
        if self._calls is not None:
            await self._calls.clean()
        queues = await self.store.ready_queues()
        if queues:
            self.send_hints(set(queues))
        return Swept(fired, tidied.given_up, tidied.woken, tidied.dropped, tuple(queues))

    async def _fire_schedules(self) -> int:
        """A firing that was missed runs once, and the next is counted from now."""
        fired = 0
        now = await self.read_store_clock()
        for schedule in await self.store.schedules():
            if not schedule.enabled or schedule.next_due > now:
                continue
            key = f"schedule:{schedule.name}:{schedule.next_due:.0f}"
            job = replace(encoding.load(schedule.job), id=self.new_id(), key=key, again=False)
            next_due = Cron(schedule.cron, schedule.timezone).after(now)
            fire = Fire(schedule.name, schedule.tenant, schedule.next_due, next_due, job)
            try:
                fired += await self.group.do(fire)
            except Conflict:
                # Somebody submitted another job under this key: the firing gets one that nobody can know.
                fired += await self.group.do(replace(fire, job=replace(job, key=f"{key}:{job.id}")))
        return fired

    async def _claim(self, queue: str, room: int) -> Claimed | None:
        worker = await self.enlist()
        oldest = min(room, int(self._fair_credit))
        try:
            claimed: Claimed = await self._take(Claim(worker, queue, self._known, room, oldest))
        except LostClaim:
            self._given_up(worker)
            return None
        self._fair_credit += len(claimed.rows) * self._fair_share - min(oldest, len(claimed.rows))
        return claimed

    async def _take(self, claim: Claim | ClaimJob) -> Claimed:
        """A claim whose COMMIT was unknown may have taken jobs of which its answer, or that of its second try, says
        nothing."""
        unknown = self.group.unknown
        self.claiming += 1
        try:
            claimed: Claimed = await self.group.do(claim)
        except (CommitUnknown, asyncio.CancelledError):
            self.doubt()
            raise
        finally:
            self.claiming -= 1
        if self.group.unknown != unknown:
            self.doubt()
        return claimed

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

    @property
    def home(self) -> Path:
        """The folder that all workers share; the outputs are in it."""
        return self.outputs.root.parent

    @property
    def calls(self) -> Calls:
        if self._calls is None:
            raise InvalidRequest("this engine was given no remotes")
        return self._calls

    async def tend(self, *, longest: float | None = None) -> int:
        """Look after remote calls that are due. With `longest`, wait up to so many seconds until there are some, and
        do not wait until they are looked at. Returns how many there were."""
        if self._calls is None:
            if longest is not None:
                await self.clock.sleep(longest)
            return 0
        if longest is None:
            return await self._calls.tend()
        await self._calls.until_next(longest)
        return await self._calls.tend(wait=False)

    async def publish(self, names: list[str]) -> None:
        """Show committed outputs under their public names; what fails now is mended by the next sweep."""
        try:
            await self.outputs.publish(names)
        except (OSError, PenstockError) as error:
            log.warning("outputs %s are stored but not yet public: %s", names, error)

    async def in_thread(self, tick: Tick, call: Callable[..., Any], *args: Any) -> Any:
        """A blocking step gets a thread, which its limits can interrupt."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(MOST_THREADS, "penstock-step")
        self._loop = asyncio.get_running_loop()

        def run() -> Any:
            tick.thread = threading.get_ident()
            tick.start_limits()
            try:
                return call(*args)
            finally:
                tick.thread = None

        return await self._loop.run_in_executor(self._pool, contextvars.copy_context().run, run)

    def note_progress(self, note: Note) -> None:
        """Show how far a step is; also from the thread of a blocking one."""
        if self._loop is not None and asyncio._get_running_loop() is None:
            self._loop.call_soon_threadsafe(self.note_progress, note)
        else:
            self.in_background(self.group.do(note))

    def on_hint(self, listener: Callable[[set[str], float], None]) -> Callable[[], None]:
        """`listener` is told queues, and in how many seconds there may be claimable work in them. Returns how to
        stop."""
        self._on_hint.append(listener)
        return lambda: self._on_hint.remove(listener)

    def send_hints(self, queues: set[str], after: float = 0.0) -> None:
        for listener in list(self._on_hint):
            listener(queues, after)

    async def drain(self, grace: float) -> None:
        """Start nothing more; let running ticks finish for `grace` seconds, then stop them. What is left is handed
        back."""
        self.draining = True
        if self._calls is not None:
            await self._calls.rest()
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
            await asyncio.wait(tasks, timeout=LAST_WAIT)
            for tick in list(self.ticks.values()):
                tick.context._close("its worker stopped")

    async def close(self) -> None:
        await self.retire()
        if self._calls is not None:
            await self._calls.close()
        self._closing = True
        if self._meter_task is not None:
            self._meter_task.cancel()
        if self._background:
            await asyncio.wait(self._background)
        await self.store_meters()
        await self.group.close()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
