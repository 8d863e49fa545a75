"""Lets Google's client reach Penstock's own Gemini wherever it runs now: started when it is first needed, started again
when it has gone, on whatever port it found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx2

PLACEHOLDER = "http://127.0.0.1:9"
"""The address a client is given: its port is replaced by the server's."""

TRIES = 3


class OwnGemini(httpx2.AsyncBaseTransport):
    """`find` starts the server if there is none and returns its address; it blocks, so it is called in a thread.

    Only a refused connection is tried again, after looking where the server is: nothing was sent then.
    """

    def __init__(self, find: Callable[[], str], inner: httpx2.AsyncBaseTransport | None = None) -> None:
        self._find = find
        self._inner = inner or httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=100))
        self._address: httpx2.URL | None = None
        self._finding = asyncio.Lock()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        for last in (*[False] * (TRIES - 1), True):
            address = self._address or await self._look(None)
            request.url = request.url.copy_with(scheme=address.scheme, host=address.host, port=address.port)
            request.headers["Host"] = f"{address.host}:{address.port}"
            try:
                return await self._inner.handle_async_request(request)
            except httpx2.ConnectError:
                if last:
                    raise
                await self._look(address)
        raise AssertionError("unreachable")

    async def _look(self, known: httpx2.URL | None) -> httpx2.URL:
        """Find the server, unless somebody found another than the one `known` meanwhile."""
        async with self._finding:
            if self._address is None or self._address == known:
                self._address = httpx2.URL(await asyncio.to_thread(self._find))
            return self._address

    async def aclose(self) -> None:
        await self._inner.aclose()
