"""A real web server on loopback, in the test's own event loop: it answers what it is told to and remembers what was
asked. Beside it what a crawl needs: a clock that does not wait, a frontier in memory, and the round from one to the
other."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.config import Settings
from penstock.engine.errors import Permanent
from penstock.pipelines.ingestion.model import Document, Entry, Known, Loaded
from penstock.pipelines.ingestion.plugins import Tools
from penstock.pipelines.ingestion.sources.website import Website

Speaks = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Asked:
    target: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Reply:
    """`speaks` takes the connection over instead."""

    body: bytes | str = b""
    status: int = 200
    type: str | None = "text/html; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    speaks: Speaks | None = None


def leads_to(target: str, status: int = 302) -> Reply:
    return Reply(status=status, headers={"Location": target})


class Site:
    """Pages by path and query; a list of replies is given one after the other, and its last again and again."""

    def __init__(
        self, pages: Mapping[str, Reply | str | list[Reply]] | None = None, *, tls: ssl.SSLContext | None = None
    ) -> None:
        self.pages = dict(pages or {})
        self.asked: list[Asked] = []
        self._tls = tls
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def paths(self) -> list[str]:
        return [each.target for each in self.asked]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Site:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for writer in list(self._open):
            writer.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            target = lines[0].split(" ")[1]
            headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
            self.asked.append(Asked(target, headers))
            reply = self._reply(target)
            if reply.speaks is not None:
                await reply.speaks(reader, writer)
            else:
                writer.write(wire(reply))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # The other side has gone: some tests are about just that.
        finally:
            self._open.discard(writer)
            writer.close()

    def _reply(self, target: str) -> Reply:
        found = self.pages.get(target, Reply("not found", 404))
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        return Reply(found) if isinstance(found, str) else found


def wire(reply: Reply) -> bytes:
    body = reply.body.encode() if isinstance(reply.body, str) else reply.body
    headers = {"Content-Length": str(len(body)), "Connection": "close", **reply.headers}
    if reply.type is not None:
        headers["Content-Type"] = reply.type
    lines = [f"HTTP/1.1 {reply.status} Some", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class Still:
    """Stands still until somebody sleeps."""

    def __init__(self) -> None:
        self.time = 1_700_000_000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


class Found:
    """A frontier in memory."""

    def __init__(self) -> None:
        self.urls: list[str] = []

    def add(self, urls: Any) -> None:
        self.urls += [url for url in dict.fromkeys(urls) if url not in self.urls]

    async def pending(self, after: int) -> AsyncIterator[tuple[int, str]]:
        for number, url in enumerate(self.urls[after:], after + 1):
            yield number, url


def tools(pool: Any = None, *, clock: Any = None, allow_private: bool = True, **ingestion: Any) -> Tools:
    async def opened() -> Any:
        return pool

    settings = Settings.model_validate({"ingestion": {"allow_private_addresses": allow_private, **ingestion}})
    return Tools(pool=opened, clock=clock or Still(), settings=settings, frontier=Found())


@dataclass
class Crawled:
    documents: dict[str, Document] = field(default_factory=dict)
    loaded: dict[str, Loaded] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def known(self) -> dict[str, Known]:
        return {
            uri: Known(uri, document.fingerprint, document.content_hash) for uri, document in self.documents.items()
        }


async def crawl(source: Website, frontier: Any, known: Mapping[str, Known] | None = None) -> Crawled:
    """A run as the pipeline does it: seeds and what is known, then batch by batch what is found."""
    crawled = Crawled()
    frontier.add([*await source.seeds(), *(known or {})])
    cursor: str | None = None
    while batch := [entry async for entry in source.entries(cursor)][:3]:
        for entry in batch:
            await _one(source, frontier, entry, known or {}, crawled)
        cursor = batch[-1].cursor
    await source.close()
    return crawled


async def _one(source: Website, frontier: Any, entry: Entry, known: Mapping[str, Known], crawled: Crawled) -> None:
    try:
        loaded = await source.load(entry, known.get(entry.uri))
    except Permanent as error:
        crawled.errors[entry.uri] = str(error)
        return
    crawled.loaded[entry.uri] = loaded
    frontier.add(loaded.found)
    if isinstance(loaded.document, Document):
        crawled.documents[loaded.document.uri] = loaded.document
