"""The notifier: reads what happened, in whatever process, and has it carried to the webhooks; and looks for jobs that
break their workflow's promise.

How far it has come is kept in the store, after the jobs that carry the notices are stored: whatever dies in between,
the same lines are read again, and their notices have their jobs already. So two services at once do no harm either.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json, to_json

from penstock.app import Penstock
from penstock.config import Settings
from penstock.delivery.embedded import Embedded
from penstock.engine.engine import Engine, Retention
from penstock.engine.errors import Conflict, StoreError
from penstock.engine.model import NewJob
from penstock.service.notices import WEBHOOK_WORKFLOW, Notice, notice_of
from penstock.service.sla import LIVE, SlaWatch
from penstock.service.tail import Tail
from penstock.service.webhooks import QUEUE, Delivery, Sender, delivery_id, queue_of, wants, webhook_workflow
from penstock.store.protocol import Change, JobFilter, SetCursor

log = logging.getLogger("penstock.service")

NAMES = "webhooks"
"""Where the names of all webhooks that were ever configured are kept: their queues may hold deliveries still."""
PAGE = 2000
READ_EVERY, LOOK_EVERY, LONGEST_TROUBLE = 1.0, 5.0, 30.0
AT_ONCE = 4
"""Requests to one receiver at the same time."""


def cursor_of(webhook: str) -> str:
    """Where it is kept how far the history was read for a webhook."""
    return f"webhook:{webhook}"


@dataclass(slots=True, frozen=True)
class Beginning:
    """The lines that a webhook is told of: those after a number, and those before it that were on their way."""

    after: int
    also: frozenset[int] = frozenset()

    def has(self, line: int) -> bool:
        return line > self.after or line in self.also


class Notifier:
    """Start it with the service, and stop it before the Penstock closes. Without webhooks and promises it does
    nothing."""

    def __init__(self, penstock: Penstock, settings: Settings, *, quiet: Collection[str] = ()) -> None:
        """`quiet`: workflows of which it is not told that their jobs were completed."""
        self._penstock = penstock
        self._quiet = frozenset(quiet)
        self._settings = settings
        self._hooks = dict(settings.webhooks)
        for name in self._hooks:
            queue_of(name)
        self._sla = SlaWatch(penstock)
        self._sender = Sender(self._hooks, public_url=settings.service.public_url)
        self._engine: Engine | None = None
        self._delivery: Embedded | None = None
        self._tail: Tail | None = None
        self._beginnings: dict[str, Beginning] = {}
        self._reading = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._unhook: Callable[[], None] | None = None

    async def start(self) -> None:
        """Begin to read and to carry. A webhook that is new is told only of what happens from now on."""
        names = await self._all_names()
        if self._hooks or await self._left_over():
            await self._start_delivery(names)
        loop = asyncio.get_running_loop()
        if self._hooks:
            self._tasks.append(loop.create_task(self._again(self.read, READ_EVERY), name="penstock-notices"))
        if self._sla.needed:
            self._tasks.append(loop.create_task(self._again(self._sla.turn, LOOK_EVERY), name="penstock-sla"))

    async def stop(self) -> None:
        """Requests under way may be answered; what is left is carried when a service runs again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._unhook is not None:
            self._unhook()
            self._unhook = None
        if self._delivery is not None:
            await self._delivery.stop()
            self._delivery = None
        if self._engine is not None:
            await self._engine.close()
            self._engine = None
        await self._sender.close()
        self._tail = None

    async def read(self) -> int:
        """One page of what happened, and how far that is; returns how many lines there may be still."""
        async with self._reading:
            tail = await self._place()
            low = tail.low
            try:
                changes = await tail.read(PAGE)
                await self._submit([job for change in changes for job in self._jobs(change)])
                if tail.low != low:
                    await self._note(tail.low, self._hooks)
            except BaseException:
                # What was read and perhaps not stored is read again, from the place that is.
                self._tail = None
                raise
        return len(changes) // PAGE

    async def _left_over(self) -> bool:
        """Deliveries of webhooks that were configured once: their jobs must end."""
        where = JobFilter(workflow=WEBHOOK_WORKFLOW, status=LIVE, limit=1)
        return bool(await self._penstock.engine.store.jobs(where))

    async def _all_names(self) -> list[str]:
        """Of those that are configured and those that were. One that is not any more will be new if it comes back."""
        engine = self._penstock.engine
        text = await engine.store.cursor(NAMES)
        known = from_json(text) if text else []
        for name in known:
            if name not in self._hooks and await engine.store.cursor(cursor_of(name)):
                await engine.group.do(SetCursor(cursor_of(name), ""))
        names = sorted({*known, *self._hooks})
        if names != known:
            await engine.group.do(SetCursor(NAMES, to_json(names).decode()))
        return names

    async def _start_delivery(self, names: Sequence[str]) -> None:
        """Carried by an engine of its own, beside the service's worker or without one: it serves its own queues, knows
        no other workflow, and drops nothing, which is up to the other."""
        engine = self._penstock.engine
        self._engine = Engine(
            engine.store,
            [webhook_workflow(self._sender)],
            clock=engine.clock,
            lease=self._settings.lease,
            retention=Retention(completed=None, failed=None, audit=None),
            name=f"{socket.gethostname()}.{os.getpid()}.webhooks",
            internal=True,
        )
        # What a person retries goes through the other engine.
        self._unhook = engine.on_hint(self._engine.send_hints)
        queues = [QUEUE, *(queue_of(name) for name in names)]
        most = AT_ONCE * len(queues)
        self._delivery = Embedded(self._engine, queues=queues, concurrency=most, each=AT_ONCE, grace=5.0)
        await self._delivery.start()

    @property
    def _own(self) -> Engine:
        assert self._engine is not None, "the notifier was not started"
        return self._engine

    async def _place(self) -> Tail:
        if self._tail is None:
            store = self._penstock.engine.store
            clock = self._penstock.engine.clock
            places = {name: await store.cursor(cursor_of(name)) for name in self._hooks}
            known = {name: int(place) for name, place in places.items() if place and place.isdigit()}
            new = [name for name in self._hooks if name not in known]
            self._beginnings = {name: Beginning(place) for name, place in known.items()}
            tail = Tail(store, clock)
            if new:
                await tail.skip_to_end()
                self._beginnings |= dict.fromkeys(new, Beginning(tail.high, tail.missing))
                await self._note(tail.low, new)
            if known:
                # One reader for all: from the place of the one that is furthest behind.
                tail = Tail(store, clock, after=min(tail.low, *known.values()) if new else min(known.values()))
            self._tail = tail
        return self._tail

    async def _note(self, place: int, names: Iterable[str]) -> None:
        group = self._own.group
        await asyncio.gather(*(group.do(SetCursor(cursor_of(name), str(place))) for name in names))

    async def _submit(self, jobs: Sequence[NewJob]) -> None:
        if not jobs:
            return
        try:
            await self._own.submit(jobs)
        except Conflict:
            # Another version of Penstock wrote one of them down in other words: it is there, and that is enough.
            for job in jobs:
                with contextlib.suppress(Conflict):
                    await self._own.submit([job])

    def _jobs(self, change: Change) -> list[NewJob]:
        notice = notice_of(change)
        if notice is None or (notice.event == "job.completed" and notice.workflow in self._quiet):
            return []
        return [
            self._job(name, notice)
            for name, hook in self._hooks.items()
            if wants(hook, notice) and self._beginnings[name].has(change.id)
        ]

    def _job(self, webhook: str, notice: Notice) -> NewJob:
        """The tenant is the notice's: who may see the job may see that it was told."""
        key = delivery_id(webhook, notice)
        delivery = Delivery(webhook=webhook, id=key, event=notice.event, about=notice.about)
        return self._own.new_job(WEBHOOK_WORKFLOW, delivery, key=key, tenant=notice.tenant, queue=queue_of(webhook))

    async def _again(self, turn: Callable[[], Awaitable[Any]], every: float) -> None:
        """For ever, whatever happens; where a turn says that there is more, at once."""
        failures = 0
        clock = self._penstock.engine.clock
        while True:
            try:
                more = await turn()
            except Exception as error:
                failures += 1
                if failures == 1:
                    known = isinstance(error, StoreError)
                    log.warning("notices: %s", error, exc_info=None if known else error)
                await clock.sleep(min(every * 2 ** min(failures, 10), LONGEST_TROUBLE))
                continue
            if failures:
                log.info("notices go on")
            failures = 0
            await clock.sleep(0.0 if more else every)
