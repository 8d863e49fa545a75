"""What stands between a socket and the app: how long a client may take, and what changes while the service stops."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.service.state import Service

HEADERS_WITHIN = 20.0
"""Seconds in which a client must have sent the head of a request; then the connection is closed."""


class Connection(H11Protocol):
    """HTTP/1.1 that does not wait for ever for somebody who sends a request byte by byte, or none at all."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._mind()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._mind()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()

    def _mind(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        elif self._late is None and self.timeout_keep_alive_task is None:
            self._late = self.loop.call_later(HEADERS_WITHIN, self._close)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close(self) -> None:
        self._late = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


class Front:
    """The app as the server calls it."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
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
