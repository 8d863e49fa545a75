"""A small service with real guards: a few routes of every kind, asked over HTTP inside of this process."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx2
from fastapi import FastAPI, Form, Request
from pydantic import BaseModel
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse

from penstock import Penstock
from penstock.config import Settings
from penstock.engine.audit import Actor, AuditRow
from penstock.service.access import install
from penstock.service.access.guard import Admin, Operator, Reader, Reviewer, Unbound, UnboundAdmin
from penstock.service.access.tokens import create_token
from penstock.service.api.problems import install_problems
from penstock.service.live import LiveFeed
from penstock.service.state import Service
from penstock.store.protocol import AuditFilter

KEEPER = Actor("keeper", "cli")
START = 1_800_000_000.0


class HandClock:
    """Time passes when a test says so."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Thing(BaseModel):
    name: str = "thing"


def routes(app: FastAPI) -> None:
    def told(who: Reader) -> dict[str, Any]:
        return {"name": who.name, "via": who.via, "tenant": who.tenant, "address": who.address}

    @app.get("/api/v1/things")
    async def things(who: Reader) -> dict[str, Any]:
        return told(who)

    @app.post("/api/v1/things")
    async def make(who: Operator, thing: Thing) -> dict[str, Any]:
        return told(who) | {"made": thing.name}

    @app.put("/api/v1/things")
    async def put(who: Operator) -> dict[str, Any]:
        return told(who)

    @app.post("/api/v1/review")
    async def review(who: Reviewer) -> dict[str, Any]:
        return told(who)

    @app.delete("/api/v1/things")
    async def drop(who: Admin) -> dict[str, Any]:
        return told(who)

    @app.get("/api/v1/workers")
    async def workers(who: Unbound) -> dict[str, Any]:
        return told(who)

    @app.delete("/api/v1/workers")
    async def drop_worker(who: UnboundAdmin) -> dict[str, Any]:
        return told(who)

    @app.get("/")
    @app.get("/ui/things")
    async def page(who: Reader) -> Response:
        return HTMLResponse(f"<p>{who.csrf}</p>")

    @app.post("/ui/things")
    async def act(who: Operator, what: Annotated[str, Form()]) -> dict[str, Any]:
        return told(who) | {"did": what}

    @app.post("/ui/whole")
    async def act_on_all(who: Operator, request: Request) -> dict[str, Any]:
        return {"fields": sorted((await request.form()).keys())}

    @app.get("/ui/static/page.css")
    async def static() -> Response:
        return PlainTextResponse("p {}", headers={"Cache-Control": "max-age=60"})

    @app.get("/api/v1/events")
    async def events(who: Reader) -> Response:
        async def lines() -> AsyncIterator[str]:
            yield "data: 1\n\n"
            yield "data: 2\n\n"

        return StreamingResponse(lines(), media_type="text/event-stream")

    @app.get("/api/v1/broken")
    async def broken(who: Reader) -> None:
        raise RuntimeError("a mistake")


class House:
    def __init__(self, penstock: Penstock, app: FastAPI, clock: HandClock, base_url: str) -> None:
        self.penstock = penstock
        self.app = app
        self.clock = clock
        self.base_url = base_url

    def client(self, address: str = "203.0.113.9", secret: str | None = None, **headers: str) -> httpx2.AsyncClient:
        """A client of its own, with a cookie jar of its own."""
        if secret is not None:
            headers["Authorization"] = f"Bearer {secret}"
        transport = httpx2.ASGITransport(self.app, raise_app_exceptions=False, client=(address, 50_000))
        return httpx2.AsyncClient(transport=transport, base_url=self.base_url, headers=headers)

    async def token(
        self, name: str = "ci", *scopes: str, tenant: str | None = None, expires_in: float | None = None
    ) -> str:
        _, secret = await create_token(
            self.penstock.engine, name, scopes=scopes or ("admin",), tenant=tenant, expires_in=expires_in, actor=KEEPER
        )
        return secret

    async def audit(self, action: str) -> list[AuditRow]:
        return await self.penstock.engine.store.audit(AuditFilter(action=action, limit=1000))


@asynccontextmanager
async def serving(
    folder: Path, *, open_access: bool = False, base_url: str = "", **service: Any
) -> AsyncIterator[House]:
    """The service, on a store in `folder`, with these settings of `service`."""
    clock = HandClock()
    settings = Settings.model_validate(
        {"home": folder, "store": f"sqlite:///{folder}/penstock.db", "service": service, "limits": None}
    )
    penstock = await Penstock(clock=clock).open(settings=settings)
    app = FastAPI()
    state = Service(penstock, settings, LiveFeed(penstock), open_access=open_access)
    app.state.service = state
    install_problems(app)
    install(app, state)
    routes(app)
    default = "http://127.0.0.1:8800" if open_access else "http://penstock.example.com"
    try:
        yield House(penstock, app, clock, base_url or default)
    finally:
        await penstock.close()


def in_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """An async test as a plain one."""

    @functools.wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        asyncio.run(_awaited(test(*args, **fixtures)))

    return run


async def _awaited(work: Awaitable[None]) -> None:
    await work
