"""The service's HTTP API on a store of its own, asked inside of this process. Every answer is held against the OpenAPI
document: its status, its media type, its body, and no field that the document does not know."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from fastapi import APIRouter, FastAPI
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from penstock import Again, Context, Penstock, Permanent, Workflow
from penstock.config import Settings
from penstock.engine.audit import Actor
from penstock.service.access.tokens import create_token
from penstock.service.app import create_app
from penstock.service.live import LiveFeed
from penstock.service.sections import Section
from penstock.service.state import Service
from tests.support.shop import Shop, Stock, orders

KEEPER = Actor("keeper", "cli")
PATIENCE = 30.0


class Scan(BaseModel):
    pages: int
    title: str = ""


def workflows() -> list[Workflow]:
    """One that ends well, one that is strict about its payload, one that fails, and one that waits with a lock."""
    notes, scans, breaks, holds = (Workflow(name) for name in ("notes", "scans", "breaks", "holds"))

    @notes.step
    async def note(payload: Any, ctx: Context) -> Any:
        ctx.log.info("noted")
        return payload

    @scans.step
    async def scan(payload: Scan, ctx: Context) -> int:
        return payload.pages

    @breaks.step
    async def break_(payload: Any, ctx: Context) -> None:
        raise Permanent("it broke")

    @holds.step
    async def hold(payload: Any, ctx: Context) -> Again:
        await ctx.lock(str(payload))
        return Again(payload, after=3600)

    @holds.cleanup
    async def let_go(payload: Any, ctx: Context) -> None: ...

    return [notes, scans, breaks, holds, orders]


class Document:
    """The OpenAPI document of an app, as a judge of its answers."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self._closed = _closed(document)
        self._paths = [(re.compile(re.sub(r"{[^}]*}", "[^/]+", path) + r"\Z"), path) for path in document["paths"]]
        self._paths.sort(key=lambda pair: "{" in pair[1])

    def operations(self) -> dict[str, tuple[str, str, dict[str, Any]]]:
        """By operationId: method, path, and the rest."""
        return {
            told["operationId"]: (method, path, told)
            for path, item in self.document["paths"].items()
            for method, told in item.items()
        }

    def judge(self, answer: httpx2.Response) -> None:
        request = answer.request
        found = next((path for pattern, path in self._paths if pattern.match(request.url.path)), None)
        operation = self._closed["paths"].get(found, {}).get(request.method.lower())
        if operation is None or (answer.status_code >= 500 and answer.status_code != 503):
            return
        where = f"{request.method} {found} {answer.status_code}"
        told = operation["responses"].get(str(answer.status_code))
        assert told is not None, f"{where} is not in the document: {answer.text}"
        if "content" not in told:
            assert not answer.content, where
            return
        media = answer.headers["content-type"].partition(";")[0]
        assert media in told["content"], f"{where} is {media}"
        if media.endswith("json"):
            schema = {**told["content"][media]["schema"], "components": self._closed["components"]}
            errors = [f"{e.json_path}: {e.message}" for e in Draft202012Validator(schema).iter_errors(answer.json())]
            assert not errors, f"{where}: {errors[:3]}"


def _closed(document: dict[str, Any]) -> dict[str, Any]:
    """The same document, where an answer must not have fields it does not name."""
    closed = copy.deepcopy(document)
    for schema in closed["components"]["schemas"].values():
        if schema.get("type") == "object" and "properties" in schema:
            schema.setdefault("additionalProperties", False)
    return closed


_DOCUMENTS: dict[tuple[int, ...], tuple[list[APIRouter | None], Document]] = {}
"""By what sections add to it (routers have no hash, but an identity while they are kept), and made once: that takes
longer than most tests."""


@dataclass
class Api:
    penstock: Penstock
    app: FastAPI
    service: Service
    document: Document = field(init=False)

    def __post_init__(self) -> None:
        routers = [section.api for section in self.service.sections]
        which = tuple(map(id, routers))
        if which not in _DOCUMENTS:
            _DOCUMENTS[which] = routers, Document(self.app.openapi())
        self.document = _DOCUMENTS[which][1]

    @property
    def stock(self) -> Stock:
        return Stock(self.penstock)

    def client(self, secret: str | None = None, **headers: str) -> httpx2.AsyncClient:
        if secret is not None:
            headers["Authorization"] = f"Bearer {secret}"

        async def judged(answer: httpx2.Response) -> None:
            await answer.aread()
            self.document.judge(answer)

        transport = httpx2.ASGITransport(self.app, raise_app_exceptions=False, client=("203.0.113.9", 50_000))
        return httpx2.AsyncClient(
            transport=transport,
            base_url="http://127.0.0.1:8800",
            headers=headers,
            event_hooks={"response": [judged]},
            timeout=PATIENCE,
        )

    async def secret(self, name: str, *scopes: str, tenant: str | None = None, expires_in: float | None = None) -> str:
        _, secret = await create_token(
            self.penstock.engine, name, scopes=scopes or ("admin",), tenant=tenant, expires_in=expires_in, actor=KEEPER
        )
        return secret

    async def run(self, *job_ids: str, until: str | None = None) -> None:
        """Work until these jobs have ended, or are as they are wanted."""
        statuses = (until,) if until else ("completed", "failed", "canceled")
        async with self.penstock.worker(grace=5.0):
            for job_id in job_ids:
                await self.penstock.wait(job_id, timeout=PATIENCE, until=statuses)

    @asynccontextmanager
    async def stream(self, path: str, **headers: str) -> AsyncIterator[Stream]:
        """An answer that comes piece by piece, which the client of this process cannot do."""
        stream = Stream(self.app, path, headers)
        try:
            yield stream
        finally:
            await stream.close()


class Stream:
    def __init__(self, app: FastAPI, path: str, headers: dict[str, str]) -> None:
        path, _, query = path.partition("?")
        raw = [(b"host", b"127.0.0.1:8800"), *((k.lower().encode(), v.encode()) for k, v in headers.items())]
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "GET",
            "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": query.encode(),
            "root_path": "", "headers": raw, "client": ("203.0.113.9", 50_000), "server": ("127.0.0.1", 8800),
        }  # fmt: skip
        self.text = ""
        self.status = 0
        self._gone = asyncio.Event()
        self._asked = False
        self._news = asyncio.Event()
        self.task = asyncio.get_running_loop().create_task(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self.text += message.get("body", b"").decode()
        self._news.set()

    async def until(self, words: str) -> str:
        """All that came until these words did."""
        async with asyncio.timeout(PATIENCE):
            while words not in self.text:
                if self.task.done():
                    raise AssertionError(f"the stream ended without {words!r}: {self.text}")
                self._news.clear()
                await asyncio.wait([self.task, waiting := asyncio.ensure_future(self._news.wait())], timeout=1,
                                   return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
                waiting.cancel()
        return self.text

    async def ended(self) -> str:
        async with asyncio.timeout(PATIENCE):
            await self.task
        return self.text

    async def close(self) -> None:
        self._gone.set()
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([self.task])


@asynccontextmanager
async def serving(
    folder: Path,
    *,
    open_access: bool = True,
    more: list[Workflow] | None = None,
    sections: tuple[Section, ...] = (),
    also: Mapping[str, Any] | None = None,
    **service: Any,
) -> AsyncIterator[Api]:
    """The API on a new store in `folder`, with these settings of `service`, and `also` others; nobody works unless told
    to."""
    settings = Settings.model_validate(
        {"home": folder, "store": f"sqlite:///{folder}/penstock.db", "service": service, "limits": None, **(also or {})}
    )
    penstock = Penstock(
        workflows=[*workflows(), *(more or [])], remotes=[Shop("shop", "findable"), Shop("kiosk", "repeatable")]
    )
    await penstock.open(settings=settings)
    feed = LiveFeed(penstock)
    state = Service(penstock, settings, feed, sections, open_access=open_access)
    try:
        await feed.start()
        yield Api(penstock, create_app(state), state)
    finally:
        await feed.stop()
        await penstock.close()
