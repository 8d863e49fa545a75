"""`/api/v1/events`: what happens, as it happens, in server-sent events. Which things are told is the feed's business
(`service/live.py`); here they are framed, and the stream ends when it must."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Response
from fastapi.responses import StreamingResponse

from penstock.engine.errors import InvalidRequest
from penstock.service.access.guard import Reader
from penstock.service.access.streams import Streaming, Welcome
from penstock.service.api import shapes
from penstock.service.api.batches import batch_seen
from penstock.service.api.bodies import JsonRoute
from penstock.service.api.document import Answers, problems
from penstock.service.api.jobs import job_seen
from penstock.service.api.problems import invalid
from penstock.service.api.tenancy import seen_by
from penstock.service.live import Subscription, Told, Wanted, parse_position
from penstock.service.state import Service, Serving

router = APIRouter(prefix="/events", tags=["events"], route_class=JsonRoute)

LOOK_UP = 1.0
"""Seconds after which a stream without news looks whether its listener is welcome still."""

HEARTBEAT = 15.0
RECONNECT_MS = 2000

_EXAMPLE = """id: 1-4711-01k3x9q8w7
event: job
data: {"id":"01k3x9q8w7e6r5t4y3z2","workflow":"pages","status":"running","step":"read","event":"done"}

"""

_ANSWERS: Answers = {
    200: {
        "description": "Events, for as long as the client listens.",
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
    },
    **problems(404, 429, path="/api/v1/events"),
}


async def listening(
    principal: Reader,
    service: Serving,
    tenant: shapes.OfTenant = None,
    job: shapes.OfJob = None,
    workflow: shapes.OfWorkflow = None,
    batch: shapes.OfBatch = None,
    last_event_id: Annotated[
        str | None, Query(max_length=100, description="As the header, for who cannot send one.")
    ] = None,
    told_last: Annotated[
        str | None,
        Header(alias="Last-Event-ID", max_length=100, description="The `id` of the last event you were told."),
    ] = None,
) -> AsyncIterator[Subscription]:
    """A place in the feed, kept until the answer has been sent."""
    after = told_last or last_event_id or None
    if after is not None:
        try:
            parse_position(after)
        except InvalidRequest as error:
            raise invalid("header.Last-Event-ID" if told_last else "query.last_event_id", str(error)) from error
    whose = seen_by(principal, tenant)
    if job is not None:
        await job_seen(service.penstock, principal, job)
    if batch is not None:
        await batch_seen(service.penstock, principal, batch)
    async with service.feed.subscribe(
        after, Wanted(tenant=whose, job=job, workflow=workflow, batch=batch)
    ) as subscription:
        yield subscription


@router.get("", operation_id="streamEvents", summary="Hear what happens", response_class=Response, responses=_ANSWERS)
async def stream_events(
    service: Serving,
    welcome: Streaming,
    subscription: Annotated[Subscription, Depends(listening)],
) -> Response:
    """Server-sent events: `job`, `jobs` (many at once), `call`, `batch`, `worker`; `ready` says that what comes is new,
    and `reset` that something was left out, so that what you show must be asked for anew. With `Last-Event-ID` the
    stream goes on where it broke off."""
    return StreamingResponse(
        _frames(service, welcome, subscription),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
    )


async def _frames(service: Service, welcome: Welcome, subscription: Subscription) -> AsyncIterator[bytes]:
    monotonic = service.penstock.engine.clock.monotonic
    said = monotonic()
    yield b"retry: %d\n\n" % RECONNECT_MS
    while True:
        told: list[Told] = []
        try:
            async with asyncio.timeout(min(LOOK_UP, HEARTBEAT)):
                told = await subscription.take_all()
        except TimeoutError:
            pass
        except StopAsyncIteration:
            return
        if not await welcome.lasts():
            return
        now = monotonic()
        if told:
            yield b"".join(each.frame for each in told)
            said = now
        elif now - said >= HEARTBEAT:
            # An id without data is no event, and moves the place that a client goes on from.
            yield f": alive\nid: {subscription.position}\n\n".encode()
            said = now
