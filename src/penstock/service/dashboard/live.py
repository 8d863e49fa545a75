"""Tells an open page that something it shows has changed: at most twice a second, and nothing about what.

The page then fetches its live part again. That keeps one way of making HTML, and a page that missed a hundred changes
catches up with one request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fastapi import APIRouter
from starlette.responses import StreamingResponse

from penstock.service.access.guard import Reader
from penstock.service.access.streams import Streaming, Welcome
from penstock.service.live import LiveFeed, Wanted
from penstock.service.state import Service, Serving

router = APIRouter(include_in_schema=False)

APART = 0.5
"""Seconds between two changes that a page is told of."""

SIGN_OF_LIFE = 15.0


@router.get("/ui/live", name="ui.live")
async def live(
    service: Serving, principal: Reader, welcome: Streaming, job: str = "", workflow: str = "", batch: str = ""
) -> StreamingResponse:
    wanted = Wanted(tenant=principal.tenant, job=job or None, workflow=workflow or None, batch=batch or None)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(service, welcome, wanted), media_type="text/event-stream", headers=headers)


async def _events(service: Service, welcome: Welcome, wanted: Wanted) -> AsyncIterator[str]:
    changed = asyncio.Event()
    reading = asyncio.create_task(_read(service.feed, wanted, changed))
    quiet = 0.0
    try:
        yield "retry: 2000\nevent: open\ndata: {}\n\n"
        while not reading.done() and await welcome.lasts():
            try:
                async with asyncio.timeout(1.0):
                    await changed.wait()
            except TimeoutError:
                quiet += 1.0
                if quiet >= SIGN_OF_LIFE:
                    quiet = 0.0
                    yield "event: alive\ndata: {}\n\n"
                continue
            changed.clear()
            quiet = 0.0
            yield "event: changed\ndata: {}\n\n"
            await asyncio.sleep(APART)
    finally:
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading


async def _read(feed: LiveFeed, wanted: Wanted, changed: asyncio.Event) -> None:
    async with feed.subscribe(None, wanted) as subscription:
        with contextlib.suppress(StopAsyncIteration):
            while await subscription.take_all():
                changed.set()
