"""Closing a connection without an answer, on a real server and where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

TRANSPORT = "penstock.transport"

DropConnection = Callable[[Scope, Receive], Awaitable[None]]


class Drop(Exception):
    """The connection is to be closed as it is."""


class DroppableProtocol(H11Protocol):
    """HTTP/1.1 that shows its connection to the app."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        app: Any = self.app

        async def shown(scope: Scope, receive: Receive, send: Send) -> None:
            scope[TRANSPORT] = transport
            await app(scope, receive, send)

        self.app = shown


async def drop_connection(scope: Scope, receive: Receive) -> None:
    """Close the connection; without one, let the client's transport fail as it would then."""
    transport = scope.get(TRANSPORT)
    if transport is None:
        raise httpx2.RemoteProtocolError("Server disconnected without sending a response.")
    transport.close()
    await until_gone(receive)


async def until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
