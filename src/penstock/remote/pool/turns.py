"""Who is next: first come, first served within a resource class, so many of a class at once, so many in all."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from penstock.engine.errors import InvalidRequest
from penstock.remote.pool.errors import PoolClosed


class Turns:
    """`classes` without a number of their own may use all the workers. A class that is full holds up no other."""

    def __init__(self, workers: int, classes: Mapping[str, int]) -> None:
        if workers < 1 or any(most < 1 for most in classes.values()):
            raise InvalidRequest(f"a pool needs workers, and each class at least one: {workers}, {dict(classes)}")
        self._workers = workers
        self._classes = dict(classes)
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}
        self._numbers = itertools.count()
        self._closed = False
        self.running: Counter[str] = Counter()

    @property
    def waiting(self) -> dict[str, int]:
        return {resource: len(queue) for resource, queue in self._waiting.items() if queue}

    @asynccontextmanager
    async def turn(self, resource: str) -> AsyncIterator[None]:
        await self._take(resource)
        try:
            yield
        finally:
            self._give(resource)

    def close(self) -> None:
        """Nobody gets a turn any more, and those who wait are told."""
        self._closed = True
        for queue in self._waiting.values():
            for _, granted in queue:
                if not granted.done():
                    granted.set_exception(PoolClosed("the process pool was closed before the call had its turn"))
        self._waiting.clear()

    async def _take(self, resource: str) -> None:
        if self._closed:
            raise PoolClosed("the process pool is closed")
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (next(self._numbers), granted)
        self._waiting.setdefault(resource, deque()).append(place)
        self._admit()
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                self._give(resource)
            elif place in (queue := self._waiting.get(resource, deque())):
                queue.remove(place)
            raise

    def _give(self, resource: str) -> None:
        self.running[resource] -= 1
        self._admit()

    def _admit(self) -> None:
        while self.running.total() < self._workers and (resource := self._next()) is not None:
            _, granted = self._waiting[resource].popleft()
            if not granted.done():
                self.running[resource] += 1
                granted.set_result(None)

    def _next(self) -> str | None:
        """Of the classes with room, the one whose first has waited longest."""
        ready = [
            (queue[0][0], resource)
            for resource, queue in self._waiting.items()
            if queue and self.running[resource] < self._classes.get(resource, self._workers)
        ]
        return min(ready)[1] if ready else None
