"""What stands between a socket and the app: how long a client may take, and what changes while the service stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from penstock.service.state import Service

HEADERS_WITHIN = 20.0
"""Seconds in which a client must have sent the head of a request; then the connection is closed."""
BODY_WITHIN = 20.0
"""Seconds in which something of a body must come."""
SLOWEST = 1024
"""Bytes a second that a body must have on the whole, once it has had `BODY_WITHIN`."""

CROWDED = "penstock.crowded"
"""In the scope of a request that came when there were more connections than may be."""


class Connection(H11Protocol):
    """HTTP/1.1 that does not wait for ever for somebody who sends a request byte by byte, or none at all."""

    _late: asyncio.TimerHandle | None = None
    _body: _Body | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._mind(0)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._mind(len(data))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()

    def _mind(self, came: int) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
            if self.cycle.more_body:
                self._mind_body(came)
        elif self._late is None and self.timeout_keep_alive_task is None:
            self._late = self.loop.call_later(HEADERS_WITHIN, self._close)

    def _mind_body(self, came: int) -> None:
        now = self.loop.time()
        if self._body is None or self._body.cycle is not self.cycle:
            self._body = _Body(self.cycle, now)
        self._body.came += came
        until = min(now + BODY_WITHIN, self._body.began + BODY_WITHIN + self._body.came / SLOWEST)
        self._late = self.loop.call_at(until, self._close_body, now)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close(self) -> None:
        self._late = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def _close_body(self, since: float) -> None:
        self._late = None
        if self._body is None or self._body.cycle is not self.cycle or not self.cycle.more_body:
            return
        if self.cycle.response_complete:
            self._mind(0)
        elif self.flow.read_paused or self.cycle.waiting_for_100_continue:
            # It is us who have not read: that time is not the client's.
            self._body.began += self.loop.time() - since
            self._mind_body(0)
        else:
            self.transport.close()


@dataclass(slots=True)
class _Body:
    """How much has come of the body of one request."""

    cycle: RequestResponseCycle
    began: float
    came: int = 0


class Front:
    """The app as the server calls it. With more than `most` connections a request is marked, and the app's door refuses
    it, so that it is counted, and answered like everything else; what asks after our health is let through."""

    def __init__(self, app: ASGIApp, service: Service, *, most: int, connections: Callable[[], int]) -> None:
        self._app = app
        self._service = service
        self._most = most
        self._connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._connections() > self._most:
            scope[CROWDED] = True
        answered = False

        async def sending(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                if self._service.draining:
                    # The client's next request should find the process that comes after this one.
                    message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception:
            # An error that was answered has been logged; the server would log it again.
            if not answered:
                raise
