"""What is read from the store to be shown, and may cost it something: kept for a while, and never asked for by two at
once.

A reading that took long is kept longer, so that counting never takes more than `SHARE` of the time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from penstock.app import Penstock

SHARE = 0.05
AT_LEAST = 1.0
"""Seconds that a reading is kept, however quick it was."""

T = TypeVar("T")


class Reading(Generic[T]):
    """One thing that is read; `clock` is monotonic seconds."""

    def __init__(self, read: Callable[[], Awaitable[T]], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._value: T | None = None
        self._at: float | None = None
        self._cost = 0.0
        self._reading: asyncio.Task[T] | None = None

    @property
    def age(self) -> float | None:
        """Seconds since the last reading; None: there was none."""
        return None if self._at is None else self._clock() - self._at

    async def get(self) -> T:
        """As it was read last, or anew where that is too long ago. Who asks meanwhile waits for the same answer."""
        age = self.age
        if age is not None and age < max(AT_LEAST, self._cost / SHARE):
            return self._value  # type: ignore[return-value]
        if self._reading is None:
            self._reading = asyncio.create_task(self._renew())
            self._reading.add_done_callback(self._done)
        return await asyncio.shield(self._reading)

    async def _renew(self) -> T:
        began = self._clock()
        value = await self._read()
        self._at = self._clock()
        self._cost = self._at - began
        self._value = value
        return value

    def _done(self, task: asyncio.Task[T]) -> None:
        self._reading = None
        if not task.cancelled():
            # Whoever waited has it; if all of them went away meanwhile, nobody needs it.
            task.exception()


class Census:
    """How many jobs there are of each workflow and status; of all tenants, or of one."""

    MOST_TENANTS = 1000

    def __init__(self, penstock: Penstock) -> None:
        self._penstock = penstock
        self._readings: dict[str | None, Reading[dict[tuple[str, str], int]]] = {}

    async def counts(self, tenant: str | None = None) -> dict[tuple[str, str], int]:
        return await self._of(tenant).get()

    def age(self, tenant: str | None = None) -> float | None:
        """Seconds since they were counted; None: they were not."""
        return self._of(tenant).age

    def _of(self, tenant: str | None) -> Reading[dict[tuple[str, str], int]]:
        if tenant not in self._readings:
            if len(self._readings) >= self.MOST_TENANTS:
                self._readings.pop(next(iter(self._readings)))
            self._readings[tenant] = Reading(lambda: self._penstock.counts(tenant=tenant))
        return self._readings[tenant]
