"""Around every request: it gets an id, is counted and timed, leaves a log line, and is a span where traces are wanted.

Routes are named by their template (`/api/v1/jobs/{job_id}`), never by the path that was asked for: paths hold ids, and
whoever asks could make up any number of them. Query strings are told nowhere. Nothing is held back on its way, so live
streams stay live; of those the time until they begin counts.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from contextlib import nullcontext
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.engine.tracing import RequestSpan, about
from penstock.service.census import Census
from penstock.service.metrics import Metrics
from penstock.service.state import Service

log = logging.getLogger("penstock.http")

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
READS = frozenset({"GET", "HEAD"})
"""Asked for all the time, by open pages and by programs, and nothing changes."""

UNMATCHED = "unmatched"
NOT_ANSWERED = 499
"""As the status of a request whose client went away before it was answered."""

_SANE = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}\Z")


def install(app: FastAPI, service: Service) -> Metrics:
    """Call last, when the app is made: what is installed before is inside, and its refusals are counted, too."""
    census = app.state.census = Census(service.penstock)
    metrics = app.state.metrics = Metrics(service, census)
    build = app.build_middleware_stack
    app.build_middleware_stack = lambda: Traffic(build(), service, metrics)  # type: ignore[method-assign]
    return metrics


class Traffic:
    """Pure ASGI: what the app sends goes on as it comes."""

    def __init__(self, app: ASGIApp, service: Service, metrics: Metrics) -> None:
        self._app = app
        self._service = service
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        await _Exchange(self._metrics, scope).run(self._app, receive, send, self._tracing(scope))

    def _tracing(self, scope: Scope) -> Any:
        # The store may be closed already while the last requests are refused.
        engine = self._service.penstock._engine
        if engine is None or engine.tracer is None:
            return nullcontext()
        return engine.tracer.request(_method(scope), scope["headers"])


class _Exchange:
    """One request and its answer."""

    def __init__(self, metrics: Metrics, scope: Scope) -> None:
        self._metrics = metrics
        self._scope = scope
        self._root = scope.get("root_path", "")
        self._id = request_id(scope)
        self._began = time.perf_counter()
        self._status = 0
        self._streams = False
        self._over = False
        self._span: RequestSpan | None = None

    def facts(self) -> dict[str, Any]:
        """For log lines that are written while the request is answered. What was begun meanwhile and goes on, such as
        a task that serves others too, is not about the request any more."""
        if self._over:
            return {}
        return {"request_id": self._id, **(self._span.ids if self._span is not None else {})}

    async def run(self, app: ASGIApp, receive: Receive, send: Send, tracing: Any) -> None:
        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = self._answers(message)
            await send(message)

        about.set(self.facts)
        try:
            with tracing as self._span:
                try:
                    await app(self._scope, receive, noting)
                except Exception:
                    self._status = self._status or 500
                    raise
                finally:
                    self._ended()
        finally:
            self._over = True
            about.set(None)

    def _answers(self, message: Message) -> Message:
        self._status = message["status"]
        headers = list(message.get("headers", ()))
        self._streams = any(
            name.lower() == b"content-type" and value.startswith(b"text/event-stream") for name, value in headers
        )
        if self._streams:
            self._time()
            self._metrics.streams.inc()
        return {**message, "headers": [*headers, (b"x-request-id", self._id.encode())]}

    def _time(self) -> float:
        took = time.perf_counter() - self._began
        self._metrics.seconds.labels(_method(self._scope), self._route()).observe(took)
        return took

    def _ended(self) -> None:
        method, route, status = _method(self._scope), self._route(), self._status or NOT_ANSWERED
        if self._streams:
            self._metrics.streams.dec()
            took = time.perf_counter() - self._began
        else:
            took = self._time()
        self._metrics.requests.labels(method, route, str(status)).inc()
        if self._span is not None:
            self._span.answered(route, status)
        level = self._level(method, status)
        told = {"method": method, "route": route, "status": status, "duration": round(took, 6)}
        log.log(level, "%s %s %d in %.0f ms", method, route, status, took * 1000, extra=told)

    def _level(self, method: str, status: int) -> int:
        if status >= 500:
            return logging.WARNING
        if method not in READS:
            return logging.INFO
        to_program = str(self._scope["path"]).removeprefix(self._root).startswith("/api/")
        refused = 400 <= status < 500 and status != NOT_ANSWERED
        return logging.INFO if refused and to_program else logging.DEBUG

    def _route(self) -> str:
        return route_of(self._scope, self._root)


def route_of(scope: Scope, root: str = "") -> str:
    """The template of the route that answers; `root`: where the whole app is mounted."""
    # A route of an included router knows its own part only; FastAPI keeps the whole beside it.
    whole = scope.get("fastapi", {}).get("effective_route_context")
    found = getattr(whole, "path_format", None) or getattr(scope.get("route"), "path_format", None)
    if found is not None:
        return str(found)
    mounted = scope.get("root_path", "").removeprefix(root)
    return f"{mounted}/{{path}}" if mounted else UNMATCHED


def request_id(scope: Scope) -> str:
    """The client's own, if it is one that can be written down, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _SANE.match(value):
            return str(value.decode("ascii"))
    return secrets.token_hex(8)


def _method(scope: Scope) -> str:
    method = str(scope["method"])
    return method if method in METHODS else "OTHER"
