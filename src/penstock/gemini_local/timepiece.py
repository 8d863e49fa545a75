"""The server's own clock: the one it was given, moved on by as much as somebody asked."""

from __future__ import annotations

import asyncio

from penstock.engine.clock import Clock


class Timepiece:
    """`until` wakes when the moment comes, or when the clock is moved past it."""

    def __init__(self, clock: Clock, offset: float = 0.0) -> None:
        self._clock = clock
        self._offset = offset
        self._moved = asyncio.Event()

    def now(self) -> float:
        return self._clock.now() + self._offset

    def monotonic(self) -> float:
        return self._clock.monotonic()

    @property
    def offset(self) -> float:
        return self._offset

    def advance(self, seconds: float) -> None:
        self._offset += seconds
        self._moved.set()
        self._moved = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        await self.until(self.now() + seconds)

    async def until(self, moment: float) -> None:
        while (left := moment - self.now()) > 0:
            sleep = asyncio.ensure_future(self._clock.sleep(left))
            moved = asyncio.ensure_future(self._moved.wait())
            try:
                await asyncio.wait([sleep, moved], return_when=asyncio.FIRST_COMPLETED)
            finally:
                sleep.cancel()
                moved.cancel()
