"""One process of a worker's pool: an engine on an event loop that turns in a thread of its own, so that heartbeats,
time limits and remote calls go on between the tasks that Celery runs in the main thread.

The store is opened in the background, as long as that takes: Celery kills a process that is not up soon, and a database
that is away for a while must not have all of them killed. Where no hint comes, since the broker is away, a process
looks for work by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import mmap
import os
import signal
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.delivery.celery.hints import Hints
from penstock.delivery.celery.turn import LONGEST_TURN, Turns
from penstock.engine.errors import StoreError, StoreUnavailable
from penstock.engine.workflow import Workflow

if TYPE_CHECKING:
    from celery import Celery

    from penstock.app import Penstock

log = logging.getLogger("penstock.worker")

T = TypeVar("T")

LOOK_EVERY = 0.1
TEND_EVERY = 5.0
OPEN_WITHIN = 10.0
"""Seconds that a task waits for a store which is being opened before its hint is sent back."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
LOOK_ENDS_WITHIN = 2.0
MARGIN = 10.0
"""Seconds beyond the grace that a process has for its goodbye."""


class Ending:
    """What the worker has told all its processes: 1 is to end when running steps have finished, 2 is to end now. A byte
    that they share, since a signal does not reach a process that is being made."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 1)

    @property
    def asked(self) -> int:
        return self._shared[0]

    def ask(self, how: int) -> None:
        self._shared[0] = max(how, self._shared[0])


class Heard:
    """When any process of this worker last heard from the broker, and when one last swept. Shared by all of them: a
    message comes to one. Two that write at once say nearly the same."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 16)
        self.hint()
        self.swept()

    def hint(self) -> None:
        struct.pack_into("d", self._shared, 0, time.monotonic())

    def swept(self) -> None:
        struct.pack_into("d", self._shared, 8, time.monotonic())

    def nothing_for(self, seconds: float) -> bool:
        return self._older(0, seconds)

    def no_sweep_for(self, seconds: float) -> bool:
        return self._older(8, seconds)

    def _older(self, place: int, seconds: float) -> bool:
        (then,) = struct.unpack_from("d", self._shared, place)
        return not 0 <= time.monotonic() - then < seconds


@dataclass(slots=True, frozen=True, kw_only=True)
class Orders:
    """What a child is to do. `opened` opens the app on the running loop. `fallback`: seconds without a word from the
    broker after which it looks for work by itself."""

    opened: Callable[[], Awaitable[Penstock]]
    queues: Collection[str]
    at_once: int
    grace: float
    soft_limit: float
    hard_limit: float
    fallback: float


class Child:
    """Made after the fork, in the process itself."""

    def __init__(self, celery: Celery, orders: Orders, ending: Ending, heard: Heard) -> None:
        self._orders = orders
        self._ending = ending
        self._heard = heard
        self._called = asyncio.Event()
        self._hints = Hints(lambda: celery, failed=lambda: self._loop.call_soon_threadsafe(self._called.set))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._turn, name="penstock-loop", daemon=True)
        self._ready: asyncio.Event = asyncio.Event()
        self._background: list[asyncio.Task[None]] = []
        self._app: Penstock | None = None
        self._turns: Turns | None = None
        self._closed = False

    def start(self) -> None:
        """From the main thread, which must be the one that signals come to."""
        signal.signal(signal.SIGTERM, self._on_sigterm)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._begin(), self._loop)

    def advance(self, queue: Any) -> int:
        """Take a turn; blocks until it is over."""
        self._heard.hint()

        async def turn() -> int:
            await self._until_ready()
            assert self._turns is not None
            if queue not in self._orders.queues:
                log.warning("a hint for the queue %r, which is not served here, is ignored", queue)
                return 0
            return await self._turns.advance(queue)

        return self._do(turn())

    def until_it_turns(self, queue: str) -> None:
        """Past the soft limit: others are told of the queue. A loop that does not turn is blocked by a step, and only
        the end of this process helps, which the hard limit brings."""
        self._hints.tell(queue)
        self._do(asyncio.sleep(0))

    def sweep(self) -> None:
        self._heard.hint()
        self._heard.swept()

        async def sweep() -> None:
            app = await self._until_ready()
            await app.engine.sweep()

        self._do(sweep())

    def run(self, work: Callable[[Penstock], Awaitable[T]]) -> T:
        """Do something with the open app."""

        async def working() -> T:
            return await work(await self._until_ready())

        return self._do(working())

    def close(self) -> None:
        """Hand back what is held and say goodbye."""
        if self._closed:
            return
        self._closed = True
        ending = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        grace = 0.0 if self._ending.asked > 1 else self._orders.grace
        try:
            ending.result(grace + MARGIN)
        except TimeoutError:
            log.warning(
                "a step does not let go: process %d ends without it, and its job is taken up again", os.getpid()
            )
        except Exception:
            log.exception("process %d could not say goodbye; its lease runs out", os.getpid())
        self._hints.close()

    def _turn(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """A task that Celery interrupts (its soft limit) leaves the loop to its own limits."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _on_sigterm(self, number: int, frame: object) -> None:
        if not self._closed:
            self.close()
            logging.shutdown()
            os._exit(0)

    async def _begin(self) -> None:
        pause = FIRST_PAUSE
        while self._app is None:
            try:
                self._app = app = await self._orders.opened()
            except StoreError as error:
                log.warning("process %d waits for the store: %s", os.getpid(), error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            except Exception:
                log.exception("process %d cannot start", os.getpid())
                logging.shutdown()
                os._exit(1)
        orders = self._orders
        for workflow in app.workflows.values():
            bound(workflow, soft=orders.soft_limit, hard=orders.hard_limit)
        app.engine.queues.update(orders.queues)
        self._turns = Turns(
            app.engine,
            self._tell,
            queues=orders.queues,
            at_once=orders.at_once,
            longest=min(LONGEST_TURN, orders.soft_limit / 3),
        )
        self._background = [
            asyncio.create_task(self._be_known(app), name="penstock-enlist"),
            asyncio.create_task(self._tend(app), name="penstock-tend"),
            asyncio.create_task(self._look(app, self._turns), name="penstock-look"),
            asyncio.create_task(self._heed(), name="penstock-ending"),
        ]
        self._ready.set()

    async def _be_known(self, app: Penstock) -> None:
        """Seen as a worker from the start, and its dead neighbours buried, before the first hint comes."""
        while True:
            try:
                await app.engine.enlist()
                log.info("worker %s is ready", app.engine.worker)
                # The one in whose place it is may have died with its hint, and with what it held.
                for queue in self._orders.queues:
                    self._hints.tell(queue)
                return
            except StoreError as error:
                log.warning("process %d is not known to the store yet: %s", os.getpid(), error)
                await asyncio.sleep(LONGEST_PAUSE)

    async def _tend(self, app: Penstock) -> None:
        """Look after remote calls when they are due."""
        while True:
            try:
                await app.engine.tend(longest=TEND_EVERY)
            except Exception as error:
                log.warning("remote calls: %s", error, exc_info=not isinstance(error, StoreError))
                await asyncio.sleep(FIRST_PAUSE + app.engine.rng.random())

    def _tell(self, queue: str, after: float = 0.0) -> None:
        """From the loop. What the broker cannot be told is heeded here."""
        self._hints.tell(queue, after)
        if self._hints.away and after < self._orders.fallback:
            self._loop.call_later(max(after, 0.0), self._called.set)

    async def _look(self, app: Penstock, turns: Turns) -> None:
        """Nothing depends on the broker: a process to which none of its hints come looks for work, and one of them
        sweeps. No task of Celery's is under way then, so its limits end nothing here; those of the steps hold."""
        every, engine = self._orders.fallback, app.engine
        while not engine.draining:
            called = await self._until_called(every * (0.75 + engine.rng.random() / 2))
            if engine.draining or not (called or self._heard.nothing_for(every)):
                continue
            try:
                if self._heard.no_sweep_for(every):
                    self._heard.swept()
                    await engine.sweep()
                for queue in self._orders.queues:
                    await turns.look(queue)
            except Exception as error:
                log.warning("looking for work: %s", error, exc_info=not isinstance(error, StoreError))
                engine.doubt()
                await asyncio.sleep(min(every, LONGEST_PAUSE))
            # What cannot be taken calls again at once.
            await asyncio.sleep(FIRST_PAUSE)

    async def _until_called(self, longest: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest):
                await self._called.wait()
        called = self._called.is_set()
        self._called.clear()
        return called

    async def _heed(self) -> None:
        assert self._turns is not None
        while (asked := self._ending.asked) < 2:
            if asked:
                self._turns.end()
            await asyncio.sleep(LOOK_EVERY)
        for tick in list(self._turns.engine.ticks.values()):
            if tick.task is not None:
                tick.task.cancel("the worker stops at once")

    async def _until_ready(self) -> Penstock:
        try:
            async with asyncio.timeout(OPEN_WITHIN):
                await self._ready.wait()
        except TimeoutError:
            raise StoreUnavailable("the store is not open yet") from None
        assert self._app is not None
        return self._app

    async def _end(self) -> None:
        for task in self._background[:2]:
            task.cancel()
        if self._turns is not None:
            # A look that is cancelled may have claimed what it does not know of: it is let come to its end first.
            self._turns.end()
            self._called.set()
            await asyncio.wait(self._background[2:3], timeout=LOOK_ENDS_WITHIN)
            await self._turns.stop(0.0 if self._ending.asked > 1 else self._orders.grace)
        for task in self._background[2:]:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        app, self._app = self._app, None
        if app is not None:
            await app.close()


def bound(workflow: Workflow, *, soft: float, hard: float) -> None:
    """No step runs longer than the worker's limits allow: the engine stops it first, and counts that as a failed
    try."""
    for name, step in workflow.steps.items():
        limited = replace(
            step,
            timeout=soft if step.timeout is None else min(step.timeout, soft),
            hard_timeout=hard if step.hard_timeout is None else min(step.hard_timeout, hard),
        )
        workflow.steps[name] = limited
        if workflow.cleanup_step is step:
            workflow.cleanup_step = limited
