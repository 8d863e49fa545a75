"""What a hint starts: a turn, in which the jobs of a queue are claimed and advanced, many at once, for as long as there
are some and not much longer than a few seconds. Where no hint comes the process takes such a turn by itself, a look.

A turn decides nothing about a job. Its end does not end the ticks it began: those are held by the lease of this process
and go on, while the next hint begins the next turn. A turn that finds more than it can take calls others to help, by a
hint.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from penstock.delivery.celery.hints import named
from penstock.engine.engine import Engine, Wake

log = logging.getLogger("penstock.delivery")

FIRST_PORTION, PORTION = 2, 8
"""Jobs taken by the first claim of a turn, and by a later one: few, so that the processes that are called to help find
work too."""
LONGEST_TURN = 3.0
FULL = 0.5
"""Seconds that a process whose jobs are as many as it may have keeps a hint before it gives it to others."""
CALL_EVERY = 0.5
"""Seconds between two hints of one turn."""
WORTH_WAITING = 0.25
"""Seconds that a turn waits for work that is not due yet, rather than have a hint sent for then."""


class Turns:
    """The turns of one process. `tell(queue, after)` sends a hint."""

    def __init__(
        self,
        engine: Engine,
        tell: Callable[[str, float], None],
        *,
        queues: Collection[str],
        at_once: int,
        portion: int = PORTION,
        longest: float = LONGEST_TURN,
    ) -> None:
        self.engine = engine
        self._tell = tell
        self._queues = tuple(queues)
        self._at_once = at_once
        self._portion = portion
        self._longest = longest
        self._running: set[asyncio.Task[Any]] = set()
        self._taken = 0
        self._serving: str | None = None
        self._one_at_a_time = asyncio.Lock()
        self._awaited = 0
        self._due: float | None = None
        self._news = asyncio.Event()
        self._unhook = engine.on_hint(self._hinted)

    @property
    def running(self) -> int:
        return len(self._running)

    async def advance(self, queue: str) -> int:
        """Take a turn; answers how many jobs were taken up. Raises what the store says when it cannot be asked."""
        # Whatever turn there is claims no more and makes way: it may be one of another queue.
        self._awaited += 1
        self._news.set()
        try:
            await self._one_at_a_time.acquire()
        finally:
            self._awaited -= 1
        try:
            return await self._serve(queue)
        finally:
            self._one_at_a_time.release()

    async def look(self, queue: str) -> int:
        """A turn that no hint began. Where one is under way, that one looks already."""
        if self._one_at_a_time.locked():
            return 0
        async with self._one_at_a_time:
            return await self._serve(queue)

    async def _serve(self, queue: str) -> int:
        self._serving, self._due = queue, None
        try:
            return await self._take_turn(queue)
        finally:
            self._serving = None

    async def stop(self, grace: float) -> None:
        """Claim no more, let running ticks finish for a while, hand back the rest."""
        self.end()
        await self.engine.drain(grace)
        await self.engine.retire()
        self._unhook()

    def end(self) -> None:
        """Whatever turn there is ends now; what runs goes on to its next gate."""
        self.engine.draining = True
        self._news.set()

    async def _take_turn(self, queue: str) -> int:
        clock = self.engine.clock
        until, call_at = clock.monotonic() + self._longest, 0.0
        first, portion, more = self._taken, FIRST_PORTION, True
        while not self.engine.draining and not self._awaited:
            now = clock.monotonic()
            left = until - now
            room = min(self._at_once - len(self._running), portion)
            self._news.clear()
            if left <= 0:
                break
            if room < 1:
                full = self._taken == first
                await self._wait(min(left, FULL) if full else left)
                if full and len(self._running) >= self._at_once:
                    break
                continue
            portion = min(2 * portion, self._portion)
            before = self._taken
            wake = await self._claim(queue, room)
            begun = self._taken > before
            more = wake is not None and wake.delay <= 0
            if more and now >= call_at:
                self._tell(queue, 0.0)
                call_at = now + CALL_EVERY
            if more and begun:
                continue
            ahead = self._until_due()
            if not self._running and not more and (ahead is None or ahead > WORTH_WAITING):
                break
            await self._wait(left if ahead is None else min(left, max(ahead, 0.01)))
        ahead = self._until_due()
        if more or self.engine.draining:
            self._tell(queue, 0.0)
        elif ahead is not None:
            self._tell(queue, max(ahead, 0.0))
        return self._taken - first

    async def _claim(self, queue: str, room: int) -> Wake | None:
        wake = await self.engine.advance_next(queue, room=room, start=self._start)
        self._due = None if wake is None else self.engine.clock.monotonic() + wake.delay
        return wake

    def _until_due(self) -> float | None:
        return None if self._due is None else self._due - self.engine.clock.monotonic()

    def _start(self, tick: Coroutine[Any, Any, float | None]) -> None:
        task = asyncio.get_running_loop().create_task(tick)
        self._running.add(task)
        self._taken += 1
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        full = len(self._running) >= self._at_once
        self._running.discard(task)
        if full or not self._running:
            self._news.set()
        if task.cancelled():
            self.engine.doubt()
        elif (error := task.exception()) is not None:
            self.engine.doubt()
            log.error("a tick ended with an error of the engine's own", exc_info=error)

    def _hinted(self, queues: set[str], after: float) -> None:
        """What this process itself made claimable is taken here where there is room, and told to others where not."""
        for queue in named(queues, self.engine, self._queues):
            if queue != self._serving or self.engine.draining:
                self._tell(queue, after)
            elif after > 0:
                due = self.engine.clock.monotonic() + after
                self._due = due if self._due is None else min(self._due, due)
                if after < self._longest:
                    asyncio.get_running_loop().call_later(after, self._news.set)
            elif len(self._running) < self._at_once:
                self._news.set()
            else:
                self._tell(queue, 0.0)

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
