"""Being a worker: a lease that is renewed, the jobs held under it, and what is done when either is lost."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic_core import from_json, to_json

from penstock.engine.call import CallRow
from penstock.engine.clock import Clock
from penstock.engine.errors import CommitUnknown, InvalidRequest, LostClaim, StoreError
from penstock.engine.heart import Heart
from penstock.engine.identity import checked_name
from penstock.engine.machine import is_dead, this_process
from penstock.engine.meters import FLUSH_EVERY, Meters, by_minute, totals
from penstock.engine.model import FINAL, JobRow
from penstock.engine.requests import Requests
from penstock.engine.tick import Tick
from penstock.engine.tracing import Tracer, about
from penstock.engine.watch import LoopGuard, Watch
from penstock.store.protocol import ANY_QUEUE, AddMeters, Beat, HandBack, Leave, Store, Submitted

log = logging.getLogger("penstock.engine")

LOOK_FOR_GATES_EVERY = 0.5


class Membership(Requests):
    """The part of the engine that holds jobs. `threads=False` leaves heartbeats to the caller (`beat`)."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        rng: random.Random,
        on_hints: Callable[[set[str], float], None],
        *,
        name: str | None,
        lease: float,
        threads: bool,
        exit_when_stuck: bool,
        internal: bool = False,
    ) -> None:
        super().__init__(store, clock, rng, on_hints)
        if lease <= 0:
            raise InvalidRequest("lease must be more than 0 seconds")
        self.worker: str | None = None
        self.queues: set[str] = set()
        self.ticks: dict[str, Tick] = {}
        self.draining = False
        self.skew = 0.0
        self.claiming = 0
        self.meters = Meters(self._store_meters_soon)
        self.group.on_crashes = self.meters.crashed
        self.tracer: Tracer | None = None
        self.settings: Any = None
        self.watch = Watch(self)
        self._name = checked_name("worker", name or f"{socket.gethostname()}.{os.getpid()}")
        self._lease = lease
        self._threads = threads
        self._exit_when_stuck = exit_when_stuck
        self._internal = internal
        self._on_lost = on_hints
        self._heart: Heart | None = None
        self._guard: LoopGuard | None = None
        self._gates: dict[str, str] = {}
        self._gate_task: asyncio.Task[None] | None = None
        self._enlisting = asyncio.Lock()
        self._uncertain = False
        self._background: set[asyncio.Future[Any]] = set()
        self._meter_task: asyncio.Task[None] | None = None
        self._closing = False

    async def enlist(self) -> str:
        """Be a worker: from now on this engine holds a lease that its heartbeat renews."""
        if self.worker is not None:
            return self.worker
        async with self._enlisting:
            if self.worker is None:
                worker = f"{self._name}.{self.new_id()[-8:]}"
                info = {"workflows": self._known, "queues": sorted(self.queues), **this_process()}
                if self._internal:
                    info["internal"] = True
                await self.group.do(Beat(worker, self._lease, to_json(info).decode(), first=True))
                self.worker = worker
                await self.read_store_clock()
                if self._threads:
                    self._start_threads(worker)
                    await self._bury_neighbours()
                if self._gate_task is None:
                    self._gate_task = asyncio.get_running_loop().create_task(self._read_gates(), name="penstock-gates")
        return self.worker

    async def read_store_clock(self) -> float:
        """Due times and stays in a step are counted by the store's clock: learn how far this machine's is off."""
        now = await self.store.now()
        self.skew = now - self.clock.now()
        return now

    async def _bury_neighbours(self) -> None:
        """Workers that died on this machine are given up at once: a program that is started again goes on where it
        was."""
        for worker in await self.store.workers():
            if is_dead(from_json(worker.info)):
                log.log(
                    logging.WARNING if worker.holds else logging.DEBUG,
                    "worker %s is dead; jobs taken up again: %d",
                    worker.id,
                    worker.holds,
                )
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
            tick.context._close("its worker was given up")
        self._on_lost({ANY_QUEUE}, 0.0)

    def surrender(self, *, blamed: str) -> None:
        """Called from another thread when this one is stuck: everything goes back, and the job that did it is
        blamed."""
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

    async def recount(self) -> None:
        """Where there is doubt, give back what the store thinks we hold and we do not know of."""
        if not self._uncertain or self.worker is None or self.claiming:
            return
        self._uncertain = False
        known = frozenset((tick.row.id, tick.row.epoch) for tick in self.ticks.values())
        try:
            await self.group.do(HandBack(self.worker, known))
        except StoreError:
            self.doubt()
            raise

    async def _read_gates(self) -> None:
        """Learn which of the running ticks somebody asked to pause or cancel, from wherever they asked."""
        while True:
            await self.clock.sleep(LOOK_FOR_GATES_EVERY)
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

    def doubt(self) -> None:
        """The store may think that this worker holds jobs which nothing here advances: the next sweep gives them
        back."""
        self._uncertain = True

    def noticed(self, row: JobRow) -> None:
        if row.status in FINAL:
            self.meters.ended(row.workflow, row.status)
        if row.id in self.ticks:
            self.note_gate(row.id, row.gate)

    def decided(self, row: CallRow, decision: str) -> None:
        if decision != "cancel":
            self.meters.call_entered(row)

    def submitted(self, jobs: Sequence[Submitted]) -> None:
        if self.tracer is not None:
            self.tracer.submitted(job.job_id for job in jobs)

    def _store_meters_soon(self) -> None:
        if not self._closing:
            later = self._store_meters_later()
            self._meter_task = asyncio.get_running_loop().create_task(later, name="penstock-meters")

    async def _store_meters_later(self) -> None:
        about.set(None)
        await self.clock.sleep(FLUSH_EVERY)
        self.in_background(self.store_meters())

    async def store_meters(self) -> None:
        """Add what was counted here to the store's totals."""
        counted = self.meters.take()
        if counted is None:
            return
        try:
            await self.group.do(AddMeters(totals(counted), by_minute(counted)))
        except CommitUnknown as error:
            log.warning("%g s of this process's counts may be missing from the metrics: %s", FLUSH_EVERY, error)
        except StoreError as error:
            self.meters.put_back(counted)
            log.log(logging.WARNING if self._closing else logging.DEBUG, "counts could not be stored: %s", error)

    def in_background(self, work: Awaitable[Any]) -> asyncio.Future[Any]:
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
        return future
