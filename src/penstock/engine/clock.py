"""The only way Penstock learns the time or waits. A simulation injects its own."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Wall-clock seconds since the epoch, a clock for durations that never jumps, and a sleep."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def to_the_tick(moment: float) -> float:
    """Stored times are kept to 10 microseconds: fifteen digits, which every database and JSON text carries without
    loss."""
    return round(moment, 5)
