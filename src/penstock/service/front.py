"""What stands between a socket and the app: how long a client may take, and one log line for each request.

The lines have no query strings, because those may hold what is nobody's business; reads are told at level debug.
"""

from __future__ import annotations

import asyncio
import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.service.state import Service

log = logging.getLogger("penstock.access")

HEADERS_WITHIN = 20.0
"""Seconds in which a client must have sent the head of a request; then the connection is closed."""

READS = ("GET", "HEAD", "OPTIONS")


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
        began = time.perf_counter()
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if self._service.draining:
                    # The client's next request should find the process that comes after this one.
                    message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            _tell(scope, status, time.perf_counter() - began)


def _tell(scope: Scope, status: int, took: float) -> None:
    if scope["path"].startswith("/health/"):
        level = logging.DEBUG
    elif status >= 500:
        level = logging.WARNING
    else:
        level = logging.DEBUG if scope["method"] in READS else logging.INFO
    if log.isEnabledFor(level):
        # As it was sent: decoded, a path could hold a line break and write lines of its own.
        path = scope.get("raw_path", b"").decode("ascii", "backslashreplace")
        log.log(level, "%s %s %s, %.0f ms", scope["method"], path, status or "gave no answer", took * 1000)
