"""Clocks that can be wrong: each simulated process, and the store, has one of its own."""

from __future__ import annotations

import asyncio


class SimClock:
    """Virtual time plus an error that may jump. Sleeping passes by true time, as on a machine whose clock is set."""

    def __init__(self, loop: asyncio.AbstractEventLoop, error: float = 0.0) -> None:
        self._loop = loop
        self.error = error

    def now(self) -> float:
        return self._loop.time() + self.error

    def monotonic(self) -> float:
        return self._loop.time()

    def jump(self, seconds: float) -> None:
        self.error += seconds

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
