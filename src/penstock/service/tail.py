"""Reads the numbered lines of all jobs' histories to the end, and on from there, without leaving one out.

On PostgreSQL a number may appear after larger ones: transactions commit in another order than they took their numbers,
and one that is rolled back leaves a hole for ever. So a number that is missing is asked for again for a while, and
`low` is the place up to which nothing is missing: who begins after it anew misses no line, and may see some twice.
"""

from __future__ import annotations

from penstock.engine.clock import Clock
from penstock.store.protocol import Change, Store

PATIENCE = 60.0
"""Seconds a missing number is asked for: longer than a transaction may take."""

MOST_MISSING = 5000
"""Numbers that are asked for at once; of more than that the oldest are given up."""

LOOK_BACK = 1000
"""Lines before the end in which numbers may be missing that are yet to appear."""


class Tail:
    """A place in the numbered lines. `high` is the largest number that was read."""

    def __init__(self, store: Store, clock: Clock, *, after: int = 0) -> None:
        self._store = store
        self._clock = clock
        self.high = after
        self._missing: dict[int, float] = {}

    @property
    def low(self) -> int:
        """Every line up to here was read, or will never be there."""
        return next(iter(self._missing)) - 1 if self._missing else self.high

    @property
    def missing(self) -> frozenset[int]:
        """Numbers up to `high` that may appear yet."""
        return frozenset(self._missing)

    async def skip_to_end(self) -> list[Change]:
        """Begin with what comes after this moment, and with what is on its way already. Returns the last lines before,
        which are all that have a larger number than the end had without the last `LOOK_BACK`."""
        self._missing = {}
        self.high = max(0, await self._store.last_change() - LOOK_BACK)
        passed: list[Change] = []
        while True:
            found = await self.read(LOOK_BACK)
            passed += found
            if len(found) < LOOK_BACK:
                return passed

    async def read(self, limit: int) -> list[Change]:
        """The next lines, and those that were missing and have come."""
        found = await self._store.changes(self.high, also=tuple(self._missing), limit=limit)
        # Asked before anything is noted: what was found must not be lost if this fails.
        oldest = await self._store.now() - PATIENCE if self._has_holes(found) else 0.0
        now = self._clock.monotonic()
        missing = {number: until for number, until in self._missing.items() if until > now}
        for change in found:
            if change.id <= self.high:
                missing.pop(change.id, None)
                continue
            # Below a line that is older than any transaction nothing can appear any more.
            if change.event.at > oldest:
                first = max(self.high + 1, change.id - MOST_MISSING)
                missing.update(dict.fromkeys(range(first, change.id), now + PATIENCE))
            self.high = change.id
        while len(missing) > MOST_MISSING:
            del missing[next(iter(missing))]
        self._missing = missing
        return found

    def _has_holes(self, found: list[Change]) -> bool:
        new = [change.id for change in found if change.id > self.high]
        return bool(new) and new[-1] - self.high > len(new)
