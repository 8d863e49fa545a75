"""The live feed: tails what happens in the store, whoever does it, and tells everybody who listens here.

One reader for each service process, however many listen, and none while nobody does. What it reads is told by the turn,
a few times a second: of each job the last thing that happened to it in that time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from operator import attrgetter
from typing import Any

from penstock.app import Penstock
from penstock.engine.clock import Clock
from penstock.engine.errors import StoreError
from penstock.engine.identity import first_id
from penstock.engine.model import JobRow
from penstock.service.tail import LOOK_BACK as LINES_LOOKED_BACK
from penstock.service.tail import Tail
from penstock.service.told import (
    Item,
    Position,
    Told,
    Wanted,
    last_lines,
    new_job,
    parse_position,
    placed,
    seen_batch,
    seen_job,
    summed_up,
    worker_item,
)
from penstock.store.protocol import BatchRow, Change, JobFilter, Store

__all__ = ["LiveFeed", "Position", "Subscription", "Told", "Wanted", "parse_position"]

log = logging.getLogger("penstock.service")

QUICK, SLOW, WORKERS_EVERY = 0.3, 1.0, 2.0
"""Seconds between two turns where something happens and where nothing does, and between two looks at the workers."""

LONGEST_TROUBLE = 10.0

PAGE, PAGES = 2000, 5
FAR_BEHIND = 20_000
"""Lines behind the end at which the reader gives up telling what it missed."""

MOST_REPLAYED = 1000
"""Lines that are kept for listeners that come back; who has missed more begins anew."""

COMING_BACK = 4
"""Listeners that come back for whom the store is asked at the same time: after a restart all of them do."""

MOST_UNSAID = 5000
"""Items kept while the reader fails."""

MOST_WAITING = 1000
"""Items kept for a listener that does not take them."""

LOOK_BACK = 10.0
"""Seconds in which a job may be stored after its id was made, and is still told as new."""

NEW_AT_MOST, MOST_NEW_REPLAYED = 100, 200
"""New jobs that are told at once, the newest of them. The others are told of when something happens to them."""


class Subscription:
    """What one listener is told, in order; it ends when the feed stops."""

    def __init__(self, wanted: Wanted, position: Position) -> None:
        self.wanted = wanted
        self._queue: deque[Told] = deque()
        self._news = asyncio.Event()
        self._ended = False
        self._put = position
        self._taken = str(position)

    @property
    def position(self) -> str:
        """The place to go on from, as of now: also when nothing was told for long because nothing was wanted."""
        return self._taken if self._queue else str(self._put)

    @property
    def reached(self) -> Position:
        """The place behind all that was put."""
        return self._put

    def put(self, told: Sequence[Told], position: Position) -> None:
        """`position` is reached with the last of it."""
        self._queue.extend(told)
        self._put = position
        if len(self._queue) > MOST_WAITING:
            self._queue.clear()
            self._queue.append(Told(str(position), "reset", {"why": "too much happened that was not taken in time"}))
        self._news.set()

    def put_first(self, told: Sequence[Told], before: Position) -> None:
        """In front of what was put while this was looked for; the listener had come to `before`."""
        self._queue.extendleft(reversed(told))
        self._taken = str(before)
        self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    def __aiter__(self) -> AsyncIterator[Told]:
        return self

    async def __anext__(self) -> Told:
        await self._some()
        told = self._queue.popleft()
        self._taken = told.id
        return told

    async def take_all(self) -> list[Told]:
        """All that waits, as soon as there is something; at the end StopAsyncIteration."""
        await self._some()
        told = list(self._queue)
        self._queue.clear()
        self._taken = told[-1].id
        return told

    async def _some(self) -> None:
        while not self._ended:
            if self._queue:
                return
            self._news.clear()
            await self._news.wait()
        raise StopAsyncIteration


class LiveFeed:
    """Everything that happens in a Penstock's store, for whoever subscribes."""

    def __init__(self, penstock: Penstock) -> None:
        self._penstock = penstock
        self._listeners: set[Subscription] = set()
        self._reader: asyncio.Task[None] | None = None
        self._turning = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._hint = asyncio.Event()
        self._unhook: list[Callable[[], None]] = []
        self._tail: Tail | None = None
        self._untold: list[Change] = []
        self._unsaid: list[Item] = []
        self._recent: deque[Change] = deque()
        self._recent_after = 0
        self._coming_back = asyncio.Semaphore(COMING_BACK)
        self._new_since = first_id(0)
        self._known_new: set[str] = set()
        self._rows: dict[str, Any] = {}
        self._batches: dict[str, BatchRow] = {}
        self._workers: set[str] | None = None
        self._workers_seen = 0.0
        self._failures = 0
        self._stopped = False

    async def start(self) -> None:
        """Be ready for listeners; nothing is read until there are some."""
        self._stopped = False
        if self._reader is None:
            self._reader = asyncio.get_running_loop().create_task(self._read_on(), name="penstock-live-feed")

    async def stop(self) -> None:
        """End all subscriptions."""
        self._stopped = True
        for subscription in list(self._listeners):
            subscription.end()
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
            self._reader = None
        async with self._turning:
            self._rest()

    @contextlib.asynccontextmanager
    async def subscribe(self, after: str | None, wanted: Wanted) -> AsyncIterator[Subscription]:
        """Listen from now on, or from the place `after` that a listener was told before. A `ready` item says that what
        comes next is new; `reset` says that something was left out, so that what is shown must be asked for anew."""
        place = None if after is None else parse_position(after)
        async with self._turning:
            if self._tail is None:
                await self._begin()
            # A listener from here on: what is told while the rest is looked for comes after it. That is done without
            # the lock, so that many who come back do not hold up the reader.
            now = self._position()
            subscription = Subscription(wanted, now)
            missed = [] if place is None else self._missed(place)
            self._listeners.add(subscription)
            if self._stopped:
                subscription.end()
        self._wanted.set()
        try:
            items = await self._first_items(place, missed, wanted)
            subscription.put_first(placed(items, place or now, now), place or now)
            yield subscription
        finally:
            self._listeners.discard(subscription)

    async def turn(self) -> bool:
        """Read once and tell. Returns whether something happened, so that the next turn may come soon."""
        async with self._turning:
            if not self._listeners:
                self._rest()
                return False
            if self._tail is None:
                await self._begin()
                self._tell_all(_reset_item("what happened meanwhile was not read"))
                return True
            # What was seen before and failed to be told is told with what is seen now.
            await self._look_at_workers()
            await self._look_for_new_jobs()
            await self._look_at_watched()
            await self._look_at_batches()
            behind = await self._read_lines()
            if behind or len(self._unsaid) > MOST_UNSAID:
                await self._begin()
                self._tell_all(_reset_item("the service could not keep up"))
                return True
            lines, self._untold = last_lines(self._untold), []
            items, self._unsaid = self._unsaid, []
            in_lines = {item.job for item in lines}
            told = [item for item in items if item.data.get("event") != "submitted" or item.job not in in_lines]
            self._tell([*told, *lines])
            return bool(items or lines)

    async def _read_on(self) -> None:
        while True:
            if not self._listeners:
                async with self._turning:
                    if not self._listeners:
                        self._rest()
                        self._wanted.clear()
                await self._wanted.wait()
            try:
                happened = await self.turn()
                if self._failures:
                    log.info("the live feed goes on")
                self._failures = 0
            except Exception as error:
                self._failures += 1
                if self._failures == 1:
                    known = isinstance(error, StoreError)
                    log.warning("the live feed cannot read: %s", error, exc_info=None if known else error)
                await self._clock.sleep(min(QUICK * 2**self._failures, LONGEST_TROUBLE))
                continue
            await self._clock.sleep(QUICK)
            if not happened:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(SLOW - QUICK):
                        await self._hint.wait()
            self._hint.clear()

    @property
    def _clock(self) -> Clock:
        return self._penstock.engine.clock

    @property
    def _store(self) -> Store:
        return self._penstock.engine.store

    async def _begin(self) -> None:
        """From the present on; what was there before is not told."""
        tail = Tail(self._store, self._clock)
        passed = await tail.skip_to_end()
        self._untold, self._unsaid = [], []
        self._recent_after = max(0, tail.high - LINES_LOOKED_BACK)
        self._recent = deque()
        self._remember(passed)
        self._known_new = {row.id for row in await self._newest()}
        self._tail = tail
        if not self._unhook:
            engine = self._penstock.engine
            self._unhook = [engine.on_hint(self._hinted), engine.store.on_change(self._hinted)]

    def _rest(self) -> None:
        """Nobody listens: the place is forgotten, and so is what was seen."""
        self._tail, self._workers = None, None
        self._untold, self._unsaid, self._known_new = [], [], set()
        self._recent = deque()
        self._rows, self._batches = {}, {}
        for unhook in self._unhook:
            unhook()
        self._unhook = []

    def _hinted(self, queues: set[str], after: float = 0.0) -> None:
        self._hint.set()

    def _position(self) -> Position:
        assert self._tail is not None
        return Position(self._tail.low, self._new_since)

    async def _read_lines(self) -> bool:
        """Returns whether the end is out of reach."""
        tail = self._tail
        assert tail is not None
        for _ in range(PAGES):
            found = await tail.read(PAGE)
            self._untold += found
            self._remember(found)
            if len(found) < PAGE:
                return False
        return await self._store.last_change() - tail.high > FAR_BEHIND

    def _remember(self, changes: Sequence[Change]) -> None:
        """All lines after the number `_recent_after` that were read are in `_recent`."""
        self._recent.extend(changes)
        while len(self._recent) > MOST_REPLAYED:
            self._recent_after = max(self._recent_after, self._recent.popleft().id)

    async def _newest(self) -> list[JobRow]:
        """The ids of jobs sort by the time they were made, not by the time they were stored: look a bit back."""
        self._new_since = first_id(self._clock.now() - LOOK_BACK)
        return await self._store.jobs(JobFilter(after=self._new_since, limit=NEW_AT_MOST, brief=True))

    async def _look_for_new_jobs(self) -> None:
        if all(subscription.wanted.job is not None for subscription in self._listeners):
            return
        rows = await self._newest()
        fresh = [row for row in reversed(rows) if row.id not in self._known_new and not row.moves]
        self._known_new = {job for job in self._known_new if job > self._new_since} | {row.id for row in rows}
        self._unsaid += [new_job(row) for row in fresh]

    async def _look_at_watched(self) -> None:
        """Status running, progress and due times are in a job's row only."""
        watched = {s.wanted.job for s in self._listeners if s.wanted.job is not None}
        self._rows = {job: state for job, state in self._rows.items() if job in watched}
        now = self._clock.now()
        for row in await self._rows_of(sorted(watched)):
            state = _state_of(row)
            if self._rows.get(row.id) != state:
                self._rows[row.id] = state
                self._unsaid.append(seen_job(row, now))

    async def _rows_of(self, ids: Sequence[str]) -> list[JobRow]:
        found: list[JobRow] = []
        for start in range(0, len(ids), 500):
            some = tuple(ids[start : start + 500])
            found += await self._store.jobs(JobFilter(ids=some, limit=len(some), brief=True))
        return found

    async def _look_at_batches(self) -> None:
        watched = {s.wanted.batch for s in self._listeners if s.wanted.batch is not None}
        self._batches = {batch: row for batch, row in self._batches.items() if batch in watched}
        for batch in sorted(watched):
            row = await self._store.batch(batch)
            if row is not None and self._batches.get(batch) != row:
                self._batches[batch] = row
                self._unsaid.append(seen_batch(row))

    async def _look_at_workers(self) -> None:
        if all(s.wanted != Wanted() for s in self._listeners):
            return
        now = self._clock.monotonic()
        if self._workers is not None and now - self._workers_seen < WORKERS_EVERY:
            return
        before, self._workers_seen = self._workers, now
        self._workers = {worker.id for worker in await self._store.workers()}
        if before is None:
            return
        joined, left = sorted(self._workers - before), sorted(before - self._workers)
        self._unsaid += [worker_item(each, "joined") for each in joined] + [worker_item(each, "left") for each in left]

    async def _watched_now(self, wanted: Wanted) -> list[Item]:
        """How the one job or batch stands that a new listener watches. The reader need not tell that again."""
        items: list[Item] = []
        if wanted.job is not None:
            for row in await self._rows_of([wanted.job]):
                self._rows.setdefault(row.id, _state_of(row))
                items.append(seen_job(row, self._clock.now()))
        if wanted.batch is not None and (batch := await self._store.batch(wanted.batch)) is not None:
            self._batches.setdefault(batch.id, batch)
            items.append(seen_batch(batch))
        return [item for item in items if wanted.takes(item)]

    def _missed(self, place: Position) -> list[Change] | None:
        """The lines since then, as far as the reader has come; None where they are too many."""
        if place.line < self._recent_after:
            return None
        return [change for change in self._recent if change.id > place.line]

    async def _first_items(self, place: Position | None, missed: list[Change] | None, wanted: Wanted) -> list[Item]:
        async with self._coming_back:
            watched = await self._watched_now(wanted)
            if place is None:
                return [*watched, Item("ready", {})]
            if missed is None or (not missed and place.line > await self._store.last_change()):
                return [*watched, _reset_item("too much happened since then")]
            items = last_lines(missed)
            if wanted.job is None:
                known = {item.job for item in items}
                where = JobFilter(
                    tenant=wanted.tenant, workflow=wanted.workflow, after=place.job, limit=MOST_NEW_REPLAYED, brief=True
                )
                new = [row for row in await self._store.jobs(where) if row.id not in known and not row.moves]
                items += [new_job(row) for row in reversed(new)]
        return [*summed_up([item for item in items if wanted.takes(item)]), *watched, Item("ready", {})]

    def _tell(self, items: Sequence[Item]) -> None:
        """Listeners that want the same get the same: what that is, is found out once."""
        position = self._position()
        chosen: dict[Wanted, list[Item]] = {}
        told: dict[tuple[Wanted, Position], list[Told]] = {}
        for subscription in self._listeners:
            wanted, before = subscription.wanted, subscription.reached
            if wanted not in chosen:
                chosen[wanted] = summed_up([item for item in items if wanted.takes(item)])
            if (wanted, before) not in told:
                told[wanted, before] = placed(chosen[wanted], before, position)
            subscription.put(told[wanted, before], position)

    def _tell_all(self, item: Item) -> None:
        position = self._position()
        told = placed([item], position, position)
        for subscription in self._listeners:
            subscription.put(told, position)


_state_of = attrgetter("status", "phase", "step", "attempt", "progress", "due", "gate", "reason", "error", "epoch")
"""What of a watched job's row is worth telling when it has changed."""


def _reset_item(why: str) -> Item:
    return Item("reset", {"why": why})
