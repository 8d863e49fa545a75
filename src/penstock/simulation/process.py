"""Simulated worker processes: each has the real engine, and gets its work as one of the deliveries does.

`embedded` claims for itself; `consumer` acts on messages that name a queue (as Celery and Prefect do); `function` on
messages that name a job (as Pub/Sub functions do), with or without a lease of its own.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.delivery.embedded import Embedded
from penstock.engine.engine import Engine
from penstock.engine.errors import StoreError
from penstock.engine.workflow import Workflow
from penstock.remote.desk import CallDesk
from penstock.remote.protocol import Remote
from penstock.remote.tending import Pace
from penstock.simulation.broker import Broker, Inbox
from penstock.simulation.call_checker import WINDOW
from penstock.simulation.handle import FaultyStore
from penstock.simulation.world import Machine, World
from penstock.store.protocol import JobFilter, Store

Remotes = Callable[[Machine], Sequence[Remote]]
"""A simulated process's remotes; made anew for each life."""

PACE = Pace(window=WINDOW, lease=8.0, look_again=20.0)

KINDS = ("embedded", "consumer", "function")
_UNFINISHED = ("queued", "waiting", "running", "canceling")


@dataclass(frozen=True, slots=True)
class Plan:
    """How one worker is set up; it comes back the same after a crash."""

    name: str
    kind: str
    lease: float
    claim_lease: float | None
    concurrency: int
    sweep_every: float
    grace: float
    fair_share: float


def planned(rng: random.Random, name: str, kind: str) -> Plan:
    return Plan(
        name=name,
        kind=kind,
        lease=rng.choice([3.0, 6.0, 15.0]),
        claim_lease=rng.choice([None, 2.0, 6.0]) if kind == "function" else None,
        concurrency=rng.choice([1, 2, 5]),
        sweep_every=rng.choice([1.0, 3.0, 5.0]),
        grace=rng.choice([0.0, 0.5, 5.0]),
        fair_share=rng.choice([0.0, 0.0, 0.3]),
    )


class Process:
    """One life of a worker: from its start to its crash or its end."""

    def __init__(
        self,
        world: World,
        plan: Plan,
        life: int,
        store: Store,
        broker: Broker,
        workflows: Sequence[Workflow],
        queues: tuple[str, ...],
        remotes: Remotes | None = None,
    ) -> None:
        self.plan = plan
        self.life = life
        self.machine = Machine(world, f"{plan.name}.{life}")
        self._world = world
        self._broker = broker
        self._queues = queues
        self._stopping = asyncio.Event()
        self._inbox = Inbox()
        self._tasks: list[asyncio.Task[None]] = []
        self._embedded: Embedded | None = None
        self.engine = Engine(
            FaultyStore(store, self.machine, broker),
            workflows,
            clock=self.machine.clock,
            rng=random.Random(world.rng.getrandbits(64)),
            lease=plan.lease,
            fair_share=plan.fair_share,
            name=self.machine.name,
            threads=False,
            calls=CallDesk(world.folder, remotes(self.machine), pace=PACE) if remotes is not None else None,
        )
        self.engine.on_hint(broker.publish)
        self.task = self._spawn(self._live(), self.machine.name)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        return self._world.loop.create_task(work, name=name, context=self.machine.context)

    async def _live(self) -> None:
        self._world.note(self.machine.name, "starts as", self.plan.kind)
        self._tasks.append(self._spawn(self._beat(), f"{self.machine.name} heart"))
        if self.plan.kind == "embedded":
            await self._live_embedded()
        else:
            await self._live_by_messages()
        await self.engine.close()
        self._tasks[0].cancel()
        self._world.note(self.machine.name, "has ended")

    async def _live_embedded(self) -> None:
        plan = self.plan
        self._embedded = delivery = Embedded(
            self.engine,
            queues=self._queues,
            concurrency=plan.concurrency,
            sweep_every=plan.sweep_every,
            grace=plan.grace,
        )
        while True:
            try:
                await delivery.start()
                break
            except StoreError:
                await asyncio.sleep(0.5)
        await self._stopping.wait()
        await delivery.stop()

    async def _live_by_messages(self) -> None:
        by_queue = self.plan.kind == "consumer"
        forget = self._broker.consume("queue" if by_queue else "job", self.machine, self._inbox)
        work = self._serve_queue if by_queue else self._serve_job
        workers = [self._spawn(self._serve(work), f"{self.machine.name} {n}") for n in range(self.plan.concurrency)]
        pump = self._spawn(self._pump(), f"{self.machine.name} pump")
        self._tasks += [pump, *workers]
        await self._stopping.wait()
        forget()
        self.engine.draining = True
        pump.cancel()
        await self.engine.drain(self.plan.grace)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(pump, *workers, return_exceptions=True)
        await self.engine.retire()

    async def _serve(self, work: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        while not self.engine.draining:
            message = await self._inbox.get()
            try:
                await work(message)
            except StoreError:
                await asyncio.sleep(0.5)

    async def _serve_queue(self, queue: str) -> None:
        wake = await self.engine.advance_next(queue)
        if wake is not None:
            self._broker.send("queue", queue, wake.delay)

    async def _serve_job(self, job: str) -> None:
        wake = await self.engine.advance(job, lease=self.plan.claim_lease)
        if wake is not None:
            self._broker.send("job", job, wake.delay)

    async def _pump(self) -> None:
        while True:
            try:
                await self.engine.sweep()
                await self.engine.tend()
                if self.plan.kind == "function":
                    for row in await self.engine.store.jobs(JobFilter(status=_UNFINISHED)):
                        self._broker.send("job", row.id)
            except StoreError:
                pass
            await asyncio.sleep(self.plan.sweep_every)

    async def _beat(self) -> None:
        """Not a thread here, but as stubborn as one."""
        while True:
            await asyncio.sleep(self.plan.lease / 3)
            if self.machine.muted_until > self._world.loop.time():
                continue
            try:
                await self.engine.beat()
            except StoreError:
                continue

    @property
    def alive(self) -> bool:
        return not self.machine.dead and not self.task.done()

    def stop(self) -> None:
        """SIGTERM."""
        self._world.loop.call_soon(self._stopping.set, context=self.machine.context)

    def ailing(self) -> str | None:
        """A background task that ended by itself, with its error: a worker that looks alive and is not."""
        if self._stopping.is_set():
            return None
        loops = self._embedded._loops if self._embedded is not None else []
        for task in (self.task, *self._tasks, *loops):
            if task.done():
                error = None if task.cancelled() else task.exception()
                return f"{task.get_name()} of {self.machine.name} has ended: {error!r}"
        return None
