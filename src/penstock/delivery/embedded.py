"""Embedded delivery: a loop in this process that claims due jobs and advances many at once. No server, no broker."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from penstock.engine.engine import Engine
from penstock.engine.errors import InvalidRequest, StoreError
from penstock.engine.identity import checked_name
from penstock.engine.model import DEFAULT_QUEUE
from penstock.store.protocol import ANY_QUEUE

log = logging.getLogger("penstock.delivery")

MOST_AT_ONCE = 500
"""Jobs taken by one claim: enough to fill a group commit, few enough to leave work for others."""

LONGEST_SLEEP = 60.0


class Embedded:
    """Runs an engine's jobs here until it is stopped. Several processes may do so on one store. `each`: the most of one
    queue at once, so that none can take the room of all."""

    def __init__(
        self,
        engine: Engine,
        *,
        queues: Sequence[str] = (DEFAULT_QUEUE,),
        concurrency: int = 100,
        each: int | None = None,
        sweep_every: float = 5.0,
        grace: float = 30.0,
    ) -> None:
        if concurrency < 1:
            raise InvalidRequest("concurrency must be at least 1")
        self.engine = engine
        self._queues = tuple(checked_name("queue", queue) for queue in queues)
        self._concurrency = concurrency
        self._each = concurrency if each is None else each
        self._of_queue = dict.fromkeys(self._queues, 0)
        self._sweep_every = sweep_every
        self._grace = grace
        self._news = {queue: asyncio.Event() for queue in self._queues}
        self._freed = asyncio.Event()
        self._running: set[asyncio.Task[Any]] = set()
        self._reserved = 0
        self._loops: list[asyncio.Task[Any]] = []
        self._unhook: list[Any] = []

    async def start(self) -> None:
        """Take part in the work. Returns when this worker is known to the store."""
        self.engine.queues.update(self._queues)
        await self.engine.enlist()
        self._unhook = [self.engine.on_hint(self._hinted), self.engine.store.on_change(self._hinted)]
        loop = asyncio.get_running_loop()
        self._loops = [
            loop.create_task(self._deliver(queue), name=f"penstock-deliver-{queue}") for queue in self._queues
        ]
        self._loops.append(loop.create_task(self._pump(), name="penstock-pump"))
        self._loops.append(loop.create_task(self._tend(), name="penstock-tend"))

    async def stop(self, *, grace: float | None = None) -> None:
        """Claim no more, let running ticks finish for a while, hand back the rest."""
        self.engine.draining = True
        for unhook in self._unhook:
            unhook()
        self._unhook = []
        for task in self._loops:
            task.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self._loops = []
        await self.engine.drain(self._grace if grace is None else grace)
        await self.engine.retire()

    @property
    def running(self) -> int:
        return len(self._running)

    def _hinted(self, queues: set[str], after: float = 0.0) -> None:
        """A wait that ends later than the longest sleep is learned of by the claim that follows the sleep."""
        if after > 0:
            if after < LONGEST_SLEEP:
                asyncio.get_running_loop().call_later(after, self._hinted, queues)
            return
        for queue, event in self._news.items():
            if queue in queues or ANY_QUEUE in queues:
                event.set()

    async def _deliver(self, queue: str) -> None:
        news = self._news[queue]
        while True:
            free = self._concurrency - len(self._running) - self._reserved
            room = min(free, self._each - self._of_queue[queue], MOST_AT_ONCE)
            if room < 1:
                self._freed.clear()
                await self._freed.wait()
                continue
            news.clear()
            self._reserved += room
            try:
                wake = await self.engine.advance_next(queue, room=room, start=partial(self._start, queue))
            except Exception as error:
                # Whatever it is, the queue must be served again: nobody else watches over this loop.
                log.warning("queue %s: %s", queue, error, exc_info=not isinstance(error, StoreError))
                self.engine.doubt()
                await self.engine.clock.sleep(0.5 + self.engine.rng.random())
                continue
            finally:
                # The other queues' loops may be waiting for the room that this claim did not use.
                self._reserved -= room
                self._freed.set()
            if wake is None or wake.delay > 0:
                await self._wait(news, LONGEST_SLEEP if wake is None else min(wake.delay, LONGEST_SLEEP))

    def _start(self, queue: str, tick: Coroutine[Any, Any, float | None]) -> None:
        task = asyncio.get_running_loop().create_task(tick)
        self._running.add(task)
        self._of_queue[queue] += 1
        task.add_done_callback(partial(self._ended, queue))

    def _ended(self, queue: str, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        self._of_queue[queue] -= 1
        self._freed.set()
        if task.cancelled():
            self.engine.doubt()
        elif (error := task.exception()) is not None:
            self.engine.doubt()
            log.error("a tick ended with an error of the engine's own", exc_info=error)

    async def _pump(self) -> None:
        """Schedules, dead workers, retention, and hints that were lost."""
        while True:
            try:
                await self.engine.sweep()
                pause = await self._until_next_schedule()
            except Exception as error:
                log.warning("sweep: %s", error, exc_info=not isinstance(error, StoreError))
                pause = self._sweep_every
            await self.engine.clock.sleep(pause)

    async def _tend(self) -> None:
        """Look after remote calls when they are due."""
        while True:
            try:
                await self.engine.tend(longest=self._sweep_every)
            except Exception as error:
                log.warning("remote calls: %s", error, exc_info=not isinstance(error, StoreError))
                await self.engine.clock.sleep(0.5 + self.engine.rng.random())

    async def _until_next_schedule(self) -> float:
        store = self.engine.store
        due = [schedule.next_due for schedule in await store.schedules() if schedule.enabled]
        if not due:
            return self._sweep_every
        return min(self._sweep_every, max(0.0, min(due) - await store.now()))

    async def _wait(self, news: asyncio.Event, seconds: float) -> None:
        if news.is_set():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await news.wait()
