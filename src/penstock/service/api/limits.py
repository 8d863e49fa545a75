"""How much the service takes: bodies up to a size, and jobs up to a number that wait already."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.service.access.guard import known_first
from penstock.service.api.problems import Problem, problem_of
from penstock.service.state import Service, service_of
from penstock.store.protocol import Once

_SCOPE_KEY = "penstock.body"


@dataclass(slots=True)
class Allowance:
    """What one request's body may still have. A route that takes uploads raises `most` before it reads."""

    most: int
    taken: int = 0


class TooLarge(HTTPException):
    """An `HTTPException`, because that is what FastAPI lets through while it reads a body."""

    def __init__(self, most: int) -> None:
        super().__init__(413, f"the body may have at most {most:,} bytes", {"Connection": "close"})


class BodyLimit:
    """Middleware: a body may have `most` bytes, by what is announced and by what comes."""

    def __init__(self, app: ASGIApp, *, most: int) -> None:
        self.app = app
        self.most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        allowance = scope[_SCOPE_KEY] = Allowance(self.most)
        announced = _announced(scope)
        answering = False

        async def counted() -> Message:
            # Looked at when somebody reads, not before: until then the route may have raised what it takes.
            if announced > allowance.most:
                raise TooLarge(allowance.most)
            message = await receive()
            allowance.taken += len(message.get("body", b""))
            if allowance.taken > allowance.most:
                raise TooLarge(allowance.most)
            return message

        async def watched(message: Message) -> None:
            nonlocal answering
            answering = answering or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, counted, watched)
        except TooLarge as error:
            if answering:
                raise
            await problem_of(error).response(scope["path"])(scope, receive, send)


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() and len(value) < 20 else 0
    return 0


class UploadRoute(APIRoute):
    """A route that takes bodies up to `service.upload_limit`: `APIRouter(route_class=UploadRoute)`. Who asks is looked
    at before the body is read, which the framework does before it runs any guard."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def widely(request: Request) -> Response:
            await known_first(request, self.dependant)
            allowance = request.scope.get(_SCOPE_KEY)
            if isinstance(allowance, Allowance):
                allowance.most = service_of(request).settings.service.upload_limit
            return await handle(request)

        return widely


LOOK_EVERY = 0.5
RETRY_AFTER = 2


class Intake:
    """Lets jobs in while fewer than `service.queue_limit` wait.

    The store is asked at most every half a second; in between, what was let in here is added to its answer. What other
    processes submit, and what several requests bring at the same moment, can therefore exceed the limit by as much as
    comes in that time.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._looked = float("-inf")
        self._waiting = 0
        self._looking = asyncio.Lock()

    async def admit(self, jobs: int, once: Once | None = None) -> None:
        """Count these jobs in, or say when to try again. What was answered under its idempotency key before brings no
        jobs, and is answered again."""
        penstock, most = self._service.penstock, self._service.settings.service.queue_limit
        async with self._looking:
            now = penstock.engine.clock.monotonic()
            if now - self._looked >= LOOK_EVERY:
                self._waiting = await penstock.backlog(most)
                self._looked = now
        if self._waiting >= most:
            if once is not None and await penstock.engine.store.answered(once.scope, once.key):
                return
            raise Problem(
                429,
                f"{most:,} jobs wait already: try again later",
                slug="queue-full",
                title="The queue is full",
                headers={"Retry-After": str(RETRY_AFTER)},
            )
        self._waiting += jobs


def intake_of(request: Request) -> Intake:
    state = request.app.state
    if not hasattr(state, "intake"):
        state.intake = Intake(service_of(request))
    intake: Intake = state.intake
    return intake


Taking = Annotated[Intake, Depends(intake_of)]
