"""What is read from the store to be shown, and may cost it something: kept for a while, and never asked for by two at
once.

A reading that took long is kept longer, so that counting takes no more than `SHARE` of the time; but never longer than
`OLDEST`, after which who asks waits for a new one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from fastapi import Request

from penstock.app import Penstock
from penstock.service.state import service_of

SHARE = 0.05
AT_LEAST = 1.0
"""Seconds that a reading is kept, however quick it was."""

OLDEST = 15.0
"""Seconds: no figure that is shown is older."""

T = TypeVar("T")


class Reading(Generic[T]):
    """One thing that is read; `clock` is monotonic seconds. `ahead`: it is read anew in the background once that is
    due, and who asks meanwhile has the last answer, up to `oldest`."""

    def __init__(
        self,
        read: Callable[[], Awaitable[T]],
        *,
        at_least: float = AT_LEAST,
        oldest: float | None = None,
        ahead: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._at_least = at_least
        self._oldest = float("inf") if oldest is None else oldest
        self._ahead = ahead
        self._clock = clock
        self._value: T | None = None
        self._at: float | None = None
        self._cost = 0.0
        self._changed = False
        self._reading: asyncio.Task[T] | None = None

    @property
    def age(self) -> float | None:
        """Seconds since the last reading; None: there was none."""
        return None if self._at is None else self._clock() - self._at

    @property
    def last(self) -> T | None:
        """As it was read last, however long ago; None: it was not."""
        return self._value

    def touch(self) -> None:
        """It has changed: who asks next, and can have it soon, is to see that."""
        self._changed = True

    async def get(self, *, cheap: float = 0.0) -> T:
        """As it was read last, or anew where that is too long ago, or where it has changed and takes less than `cheap`
        seconds. Who asks meanwhile waits for the same answer, or has the same error."""
        age = self.age
        anew = self._changed and self._cost < cheap
        if age is not None and not anew:
            if age < min(max(self._at_least, self._cost / SHARE), self._oldest):
                return self._value  # type: ignore[return-value]
            if self._ahead and age < self._oldest:
                self._begin()
                return self._value  # type: ignore[return-value]
        if anew and self._reading is not None:
            # It began before the change.
            await asyncio.wait([self._reading])
        return await asyncio.shield(self._begin())

    def _begin(self) -> asyncio.Task[T]:
        if self._reading is None:
            self._reading = asyncio.create_task(self._renew())
            self._reading.add_done_callback(self._done)
        return self._reading

    async def _renew(self) -> T:
        began = self._clock()
        changed, self._changed = self._changed, False
        try:
            value = await self._read()
        except Exception:
            self._changed = self._changed or changed
            raise
        self._at = self._clock()
        self._cost = self._at - began
        self._value = value
        return value

    def _done(self, task: asyncio.Task[T]) -> None:
        if self._reading is task:
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
            self._readings[tenant] = Reading(
                lambda: self._penstock.counts(tenant=tenant), at_least=AT_LEAST, oldest=OLDEST
            )
        return self._readings[tenant]


def census_of(request: Request) -> Census:
    """The one of this service: whoever asks for counts shares it."""
    state = request.app.state
    if not hasattr(state, "census"):
        state.census = Census(service_of(request).penstock)
    census: Census = state.census
    return census
