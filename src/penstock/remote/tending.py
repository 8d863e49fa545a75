"""Looks after calls between ticks: finds what a crash left in doubt, asks how far it is, brings results home, and
stops what nobody wants any more. Jobs may be paused, failed or gone meanwhile: what was paid for is still collected.

A look that fails frees nothing (rule 4): it is counted, and after many in a row a person is asked.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from penstock.engine.call import LOOK_AGAIN_AFTER_ABSENCE, CallRow, Fact, may_turn_up
from penstock.engine.engine import Engine
from penstock.remote.protocol import Collected, Found, Order, Polled, Remote, ResultGone
from penstock.store.protocol import TakeCalls

if TYPE_CHECKING:
    from penstock.remote.desk import CallDesk

log = logging.getLogger("penstock.remote")

LEASE = 20.0
"""Seconds after which somebody else looks too, unless whoever looks says that it still does."""

AT_ONCE = 16
MOST_STRIKES = 100
MOST_EMPTY_SCANS = 20
MOST_GONE = 8
GROWTH = 1.5
INTERRUPTED = "its sender was interrupted, and the answer is not known"


@dataclass(slots=True, frozen=True, kw_only=True)
class Pace:
    """Seconds. `window`: from its intent until a call must be on its way; not sent by then, it is not sent at all.
    `lease`: after which somebody else looks at a call too, unless whoever looks says that it still does. `look_again`:
    after which a call that never arrived is looked for once more."""

    window: float = 15.0
    lease: float = 20.0
    look_again: float = LOOK_AGAIN_AFTER_ABSENCE


def proof_delay(remote: Remote) -> float:
    """Seconds after `submit_before` from which a complete search that finds nothing proves that there is nothing."""
    return remote.submit_timeout + remote.listing_margin


def first_look(remote: Remote, prepared: Mapping[str, Any]) -> float:
    """Seconds until a call that was just sent is polled."""
    return _told(prepared, "poll_every") or remote.poll_every


def wait_after_look(remote: Remote, prepared: Mapping[str, Any], looks: int) -> float:
    """Seconds until a call that still runs is polled again: as the call was told, else growing with every look."""
    return _told(prepared, "poll_every") or _grown(remote.poll_every, remote.poll_at_most, looks)


def wait_after_miss(remote: Remote, prepared: Mapping[str, Any], strikes: int) -> float:
    """The same when a look told nothing. Grows in any case: strikes in a row end in quarantine, and at a steady pace of
    seconds the other side's bad hour would be enough for that."""
    first = first_look(remote, prepared)
    return _grown(first, max(first, remote.poll_at_most), strikes)


def overdue_after(remote: Remote, prepared: Mapping[str, Any]) -> float:
    return _told(prepared, "overdue_after") or remote.overdue_after


def _told(prepared: Mapping[str, Any], name: str) -> float | None:
    """Whatever else a remote may keep under that name is not ours."""
    value = prepared.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 < value < math.inf else None


def _grown(first: float, most: float, times: int) -> float:
    return min(most, first * GROWTH ** min(times, 40))


class Tending:
    """One for each engine; several engines share the work through the store."""

    def __init__(self, engine: Engine, desk: CallDesk, pace: Pace) -> None:
        self._engine = engine
        self._desk = desk
        self._pace = pace
        self._news = asyncio.Event()
        self._looking: set[asyncio.Task[None]] = set()

    def news(self) -> None:
        """A call was sent here: somebody is to look at it sooner than planned."""
        self._news.set()

    async def until_next(self, longest: float) -> None:
        """Wait until a call is due and somebody here is free, or one was sent here, or `longest` is over."""
        self._news.clear()
        if len(self._looking) >= AT_ONCE:
            await asyncio.wait(self._looking, return_when=asyncio.FIRST_COMPLETED)
        due = await self._engine.store.next_call_due(self._desk.places)
        wait = longest
        if due is not None:
            wait = min(longest, max(0.0, due - self._engine.clock.now() - self._engine.skew))
        if wait <= 0:
            return
        sleeping = asyncio.ensure_future(self._engine.clock.sleep(wait))
        hearing = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait([sleeping, hearing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            hearing.cancel()

    async def tend(self, *, wait: bool = True) -> int:
        """Look at calls that are due, a few at once; with `wait`, until that is done. Returns how many there were."""
        places, room = self._desk.places, AT_ONCE - len(self._looking)
        if not places or room < 1:
            return 0
        rows: list[CallRow] = await self._engine.group.do(TakeCalls(places, room, self._pace.lease))
        looks = [asyncio.ensure_future(self._look(row)) for row in rows]
        for look in looks:
            self._looking.add(look)
            look.add_done_callback(self._looked)
        if looks and wait:
            await asyncio.wait(looks)
        return len(rows)

    def _looked(self, look: asyncio.Task[None]) -> None:
        """The next look at it may be due sooner than anybody here knows."""
        self._looking.discard(look)
        self._news.set()

    async def rest(self) -> None:
        """Stop looking; others may look at once."""
        looks = list(self._looking)
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)

    async def _look(self, row: CallRow) -> None:
        """Whatever happens is something learned about the call."""
        try:
            remote = await self._desk.ready(row.remote)
        except Exception as error:
            log.error("call %s (%s %s) cannot be looked after here: %s", row.id, row.remote, row.key, error)
            return
        renewing = asyncio.ensure_future(self._renew(row))
        self._engine.meters.call_begins(row)
        try:
            await self._look_with(remote, row, self._desk.order(row))
        except asyncio.CancelledError:
            self._engine.in_background(self._desk.learn(Fact(call=row.id, kind="checked", look_in=0.0)))
            raise
        except Exception as error:
            log.error("call %s (%s %s)", row.id, row.remote, row.key, exc_info=error)
        finally:
            renewing.cancel()
            self._engine.meters.call_left(row.id)

    async def _renew(self, row: CallRow) -> None:
        """A large result may be long on its way home."""
        while True:
            await self._engine.clock.sleep(self._pace.lease / 3)
            await self._tell(Fact(call=row.id, kind="checked", look_in=self._pace.lease), row)

    async def _look_with(self, remote: Remote, row: CallRow, order: Order) -> None:
        try:
            if row.state == "intent" or may_turn_up(row):
                await self._search(row, order, remote)
            elif row.state == "succeeded":
                await self._collect(row, order, remote)
            elif row.state in ("submitted", "running", "overdue"):
                await self._ask(row, order, remote)
            else:
                await self._tell(Fact(call=row.id, kind="checked"))
        except Exception as error:
            log.warning("call %s (%s %s): %s", row.id, row.remote, row.key, error)
            log.debug("looking at call %s failed", row.id, exc_info=error)
            if may_turn_up(row):
                later = self._pace.look_again if row.looks < MOST_STRIKES else None
                await self._tell(Fact(call=row.id, kind="checked", look_in=later))
            else:
                await self._missed(row, remote, f"{type(error).__name__}: {error}", most=MOST_STRIKES)

    async def _search(self, row: CallRow, order: Order, remote: Remote) -> None:
        """Was it taken, or not? Finding it is proof at any time; finding nothing only when nothing can come any
        more."""
        if remote.guarantee != "findable":
            await self._give_up(row, remote)
            return
        began = await self._engine.read_store_clock()
        found = await remote.find(order)
        if found.provider_ids:
            await self._adopt(row, order, remote, found)
            return
        if row.state != "intent":
            await self._tell(Fact(call=row.id, kind="checked"))
            return
        proof = (row.submit_before or row.created) + proof_delay(remote)
        if began <= proof:
            soon = min(proof - began + 0.1, self._wait(row, remote))
            await self._tell(Fact(call=row.id, kind="checked", look_in=soon), row)
        elif found.complete:
            log.warning("call %s (%s %s) never arrived: it is made again", row.id, row.remote, row.key)
            absent = Fact(call=row.id, kind="absent", look_in=self._pace.look_again, intent=row.submit_before)
            await self._tell(absent)
        else:
            await self._missed(row, remote, "the listing could not be read to its end", most=MOST_EMPTY_SCANS)

    async def _give_up(self, row: CallRow, remote: Remote) -> None:
        """It cannot be looked for. Where the other side knows its label it may be sent again, unless nobody wants it
        any more; otherwise it is counted as paid."""
        if row.state != "intent":
            await self._tell(Fact(call=row.id, kind="checked"))
            return
        again = remote.guarantee == "callee_dedup" and not row.unwanted
        kind = "refused" if again else "lost"
        await self._tell(Fact(call=row.id, kind=kind, error=INTERRUPTED, intent=row.submit_before))

    async def _adopt(self, row: CallRow, order: Order, remote: Remote, found: Found) -> None:
        first, *others = found.provider_ids
        error = None
        for other in others:
            await remote.cancel(order, other)
            error = f"{len(found.provider_ids)} carried this label at {row.remote}; cancelled {', '.join(others)}"
            log.warning("call %s: %s", row.id, error)
        await self._tell(Fact(call=row.id, kind="found", provider_id=first, error=error, look_in=0.0))

    async def _ask(self, row: CallRow, order: Order, remote: Remote) -> None:
        provider_id = row.provider_id or ""
        if row.unwanted:
            await remote.cancel(order, provider_id)
        polled = await remote.poll(order, provider_id)
        if polled.state == "gone":
            await self._missed(row, remote, polled.error or f"{row.remote} knows no {provider_id}", most=MOST_GONE)
        elif polled.state in ("running", "unknown"):
            await self._tell(self._still_running(row, remote, polled), row)
        elif polled.state == "succeeded":
            row = await self._desk.learn(
                Fact(call=row.id, kind="succeeded", done=polled.done, total=polled.total, look_in=self._pace.lease)
            )
            if row.state == "succeeded":
                await self._collect(row, order, remote)
        else:
            await self._end(row, order, remote, Fact(call=row.id, kind=polled.state, error=polled.error))

    def _still_running(self, row: CallRow, remote: Remote, polled: Polled) -> Fact:
        allowed = overdue_after(remote, from_json(row.prepared))
        late = row.submitted is not None and self._now() - row.submitted > allowed
        error = polled.error
        if late and error is None:
            error = f"still running after {allowed:g} s"
        return Fact(
            call=row.id,
            kind="late" if late else "running",
            error=error,
            done=polled.done,
            total=polled.total,
            look_in=self._wait(row, remote),
        )

    async def _collect(self, row: CallRow, order: Order, remote: Remote) -> None:
        try:
            with self._desk.traced(row, "collect"):
                collected = await remote.collect(order, row.provider_id or "")
        except ResultGone as error:
            # It was done, so it was paid: as much as it may cost, where nobody can say how much it did.
            lost = Fact(call=row.id, kind="failed", error=str(error), cost=row.estimate)
            await self._end(row, order, remote, lost)
            return
        await self._end(row, order, remote, collected_fact(row.id, collected))

    async def _end(self, row: CallRow, order: Order, remote: Remote, fact: Fact) -> None:
        await self._tell(fact)
        await self.tidy(row, order, remote)

    async def tidy(self, row: CallRow, order: Order, remote: Remote) -> None:
        """Remove what was uploaded for the call. What cannot be is the other side's to forget."""
        try:
            await remote.tidy(order, row.provider_id)
        except Exception as error:
            log.warning("call %s (%s %s): could not tidy up: %s", row.id, row.remote, row.key, error)

    async def _missed(self, row: CallRow, remote: Remote, why: str, *, most: int) -> None:
        if row.strikes + 1 >= most:
            log.error("call %s (%s %s) is quarantined: %s", row.id, row.remote, row.key, why)
            told = f"{why} ({row.strikes + 1} times in a row)"
            await self._tell(Fact(call=row.id, kind="doubted", error=told, intent=row.submit_before))
            return
        wait = wait_after_miss(remote, from_json(row.prepared), row.strikes + 1)
        await self._tell(Fact(call=row.id, kind="missed", error=why, look_in=self._jittered(wait)), row)

    async def _tell(self, fact: Fact, row: CallRow | None = None) -> None:
        """`row` is the call as it was when the look began."""
        await self._desk.learn(replace(fact, stopping=row is not None and bool(row.unwanted)))

    def _wait(self, row: CallRow, remote: Remote) -> float:
        return self._jittered(wait_after_look(remote, from_json(row.prepared), row.looks))

    def _jittered(self, wait: float) -> float:
        return wait * (0.9 + 0.2 * self._engine.rng.random())

    def _now(self) -> float:
        return self._engine.clock.now() + self._engine.skew


def collected_fact(call: str, collected: Collected) -> Fact:
    return Fact(
        call=call,
        kind="collected",
        result=to_json(collected.result).decode(),
        usage=collected.usage,
        cost=collected.cost,
    )
