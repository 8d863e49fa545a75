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
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from penstock.app import Penstock
from penstock.config import Settings
from penstock.delivery.embedded import Embedded
from penstock.engine.engine import Engine, Retention
from penstock.engine.errors import Conflict, StoreError
from penstock.engine.identity import checked_name
from penstock.engine.model import NewJob
from penstock.service.notices import WEBHOOK_WORKFLOW, Notice, notice_of
from penstock.service.sla import LIVE, SlaWatch
from penstock.service.tail import Tail
from penstock.service.webhooks import QUEUE, Delivery, Sender, delivery_id, wants, webhook_workflow
from penstock.store.protocol import JobFilter, SetCursor

log = logging.getLogger("penstock.service")

CURSOR = "webhooks"
PAGE = 2000
READ_EVERY, LOOK_EVERY, LONGEST_TROUBLE = 1.0, 5.0, 30.0
AT_ONCE = 8
"""Requests to receivers at the same time."""


class Notifier:
    """Start it with the service, and stop it before the Penstock closes. Without webhooks and promises it does
    nothing."""

    def __init__(self, penstock: Penstock, settings: Settings) -> None:
        self._penstock = penstock
        self._settings = settings
        self._hooks = dict(settings.webhooks)
        for name in self._hooks:
            checked_name("webhook", name)
        self._sla = SlaWatch(penstock)
        self._sender = Sender(self._hooks, public_url=settings.service.public_url)
        self._engine: Engine | None = None
        self._delivery: Embedded | None = None
        self._tail: Tail | None = None
        self._reading = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._unhook: Callable[[], None] | None = None

    async def start(self) -> None:
        """Begin to read and to carry. The first time, only what happens from now on is told."""
        if self._hooks or await self._left_over():
            await self._start_delivery()
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
                await self._submit([notice for change in changes if (notice := notice_of(change)) is not None])
                if tail.low != low:
                    await self._own.group.do(SetCursor(CURSOR, str(tail.low)))
            except BaseException:
                # What was read and perhaps not stored is read again, from the place that is.
                self._tail = None
                raise
        return len(changes) // PAGE

    async def check_promises(self) -> int:
        """One look for jobs that take too long; returns how many there were."""
        return await self._sla.turn()

    async def _left_over(self) -> bool:
        """Deliveries of webhooks that were configured once: their jobs must end."""
        where = JobFilter(workflow=WEBHOOK_WORKFLOW, status=LIVE, limit=1)
        return bool(await self._penstock.engine.store.jobs(where))

    async def _start_delivery(self) -> None:
        """Carried by an engine of its own, beside the service's worker or without one: it serves its own queue, knows
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
        self._delivery = Embedded(self._engine, queues=(QUEUE,), concurrency=AT_ONCE, grace=5.0)
        await self._delivery.start()

    @property
    def _own(self) -> Engine:
        assert self._engine is not None, "the notifier was not started"
        return self._engine

    async def _place(self) -> Tail:
        if self._tail is None:
            store = self._penstock.engine.store
            text = await store.cursor(CURSOR)
            tail = Tail(store, self._penstock.engine.clock, after=int(text) if text and text.isdigit() else 0)
            if text is None or not text.isdigit():
                await tail.skip_to_end()
                await self._own.group.do(SetCursor(CURSOR, str(tail.low)))
            self._tail = tail
        return self._tail

    async def _submit(self, notices: Sequence[Notice]) -> None:
        jobs = [
            self._job(name, notice) for notice in notices for name, hook in self._hooks.items() if wants(hook, notice)
        ]
        if not jobs:
            return
        try:
            await self._own.submit(jobs)
        except Conflict:
            # Another version of Penstock wrote one of them down in other words: it is there, and that is enough.
            for job in jobs:
                with contextlib.suppress(Conflict):
                    await self._own.submit([job])

    def _job(self, webhook: str, notice: Notice) -> NewJob:
        """The tenant is the notice's: who may see the job may see that it was told."""
        key = delivery_id(webhook, notice)
        delivery = Delivery(webhook=webhook, id=key, event=notice.event, about=notice.about)
        return self._own.new_job(WEBHOOK_WORKFLOW, delivery, key=key, tenant=notice.tenant)

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
