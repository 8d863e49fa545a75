"""How often a site is asked, and what its robots.txt says: shared by all sources of a process, so that two jobs on one
site are no more of a burden than one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from penstock.engine.clock import Clock
from penstock.engine.errors import Blocked, RateLimited
from penstock.pipelines.ingestion.sources.web_fetch import ANYTHING, Fetcher, Refused
from penstock.pipelines.ingestion.sources.web_robots import EVERYTHING, LARGEST, Robots, parsed, token_of
from penstock.pipelines.ingestion.sources.web_urls import host_of, origin_of

KEPT = 3600.0
"""Seconds for which a robots.txt is remembered; it may be a day (RFC 9309)."""

PATIENCE = 5.0
"""Seconds for which a turn is waited for. Longer waits are told (`Blocked`), so that they hold no worker."""

MOST_REMEMBERED = 1000


class Manners:
    """Turns are given out in the order in which they are asked for."""

    def __init__(self) -> None:
        self._free: dict[str, float] = {}
        self._closed: dict[str, float] = {}
        self._robots: dict[tuple[str, str], tuple[float, Robots]] = {}

    @asynccontextmanager
    async def visit(self, url: str, delay: float, clock: Clock, *, patience: float = PATIENCE) -> AsyncIterator[None]:
        """For one request: begins when the host may be asked, `delay` seconds after the last. `RateLimited` while it
        wants to be left alone, which it may say during the visit."""
        await self._turn(host_of(url), delay, clock, patience)
        try:
            yield
        except RateLimited as error:
            if error.retry_after is not None:
                now = clock.monotonic()
                _forget(self._closed, now)
                self._closed[host_of(url)] = now + error.retry_after
            raise

    async def robots(
        self, url: str, delay: float, fetcher: Fetcher, clock: Clock, *, patience: float = PATIENCE
    ) -> Robots:
        """What the page's robots.txt says to us. Where there is none (4xx), everything is allowed; where it cannot be
        read now, nothing is, and the error says when to try again."""
        known = self.remembered(url, fetcher.user_agent, clock)
        if known is not None:
            return known
        address = origin_of(url) + "/robots.txt"
        token = token_of(fetcher.user_agent)
        try:
            async with self.visit(address, delay, clock, patience=patience):
                told = await fetcher.get(address, accept=ANYTHING, largest=LARGEST, cut=True)
            robots = parsed(told.body or b"", token)
        except Refused:
            robots = EVERYTHING
        if len(self._robots) >= MOST_REMEMBERED:
            self._robots.clear()
        self._robots[origin_of(url), token] = (clock.monotonic() + KEPT, robots)
        return robots

    def remembered(self, url: str, user_agent: str, clock: Clock) -> Robots | None:
        until, robots = self._robots.get((origin_of(url), token_of(user_agent)), (0.0, None))
        return robots if until > clock.monotonic() else None

    async def _turn(self, host: str, delay: float, clock: Clock, patience: float) -> None:
        now = clock.monotonic()
        wait = self._closed.get(host, now) - now
        if wait > 0:
            raise RateLimited(f"{host} asked to be left alone", retry_after=wait)
        _forget(self._free, now)
        at = max(now, self._free.get(host, now))
        if at - now > patience:
            raise Blocked(f"{host} is not asked more often than every {delay:g} s", retry_after=at - now)
        # Taken before waiting: whoever comes meanwhile queues behind.
        self._free[host] = at + delay
        if at > now:
            await clock.sleep(at - now)


_shared: WeakKeyDictionary[Clock, Manners] = WeakKeyDictionary()


def manners_of(clock: Clock) -> Manners:
    """Those of the process: it has one clock, and a test or a simulation brings its own."""
    return _shared.setdefault(clock, Manners())


def _forget(moments: dict[str, float], now: float) -> None:
    if len(moments) >= MOST_REMEMBERED:
        for host in [host for host, moment in moments.items() if moment <= now]:
            del moments[host]
