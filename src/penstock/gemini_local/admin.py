"""The administration of a local Gemini, for tests and for whoever started it: `/_penstock/…`."""

from __future__ import annotations

import os
from typing import Any

from pydantic_core import from_json, to_json
from starlette.requests import Request
from starlette.responses import Response

from penstock.gemini_local.calls.call import error_reply, read_body, reply
from penstock.gemini_local.errors import ApiError, bad_request, not_found
from penstock.gemini_local.faults import BadFault, Fault
from penstock.gemini_local.guards import check_admin, check_caller
from penstock.gemini_local.services import Services

MOST = 16 * 1024 * 1024
FURTHEST = 100 * 365 * 86_400.0
SCRIPT = "script"
"""The fact that keeps the rules given last, for the next process."""


class Admin:
    def __init__(self, services: Services, instance: str) -> None:
        self._services = services
        self._instance = instance
        self._follow = getattr(services.backend, "follow", None)

    async def answer(self, request: Request) -> Response:
        try:
            check_caller(request.headers, self._services.settings)
            check_admin(request.headers, request.client.host if request.client else "", self._services.settings)
            match request.method, request.scope["path"].removeprefix("/_penstock/"):
                case "GET", "health":
                    return reply(self._health())
                case "GET", "journal":
                    return reply({"entries": self._journal(request.query_params)})
                case "GET", "faults":
                    return reply({"faults": self._services.faults.view()})
                case "POST", "faults":
                    return reply(self._set_faults(await _body(request)))
                case "POST", "clock":
                    return reply(self._advance(await _body(request)))
                case "POST", "script":
                    return reply(self._script(await _body(request)))
                case "POST", "reset":
                    return reply(await self._reset())
            raise not_found(f"{request.method} {request.scope['path'][:200]} is nothing the administration knows.")
        except ApiError as error:
            return error_reply(error)

    def _health(self) -> Any:
        return {
            "instance": self._instance,
            "pid": os.getpid(),
            "backend": self._services.backend.name,
            "now": self._services.clock.now(),
            "unfinished_batches": len(self._services.batches.unfinished()),
        }

    def _journal(self, query: Any) -> Any:
        try:
            after, limit = int(query.get("after", "0")), int(query.get("limit", "10000"))
        except ValueError:
            raise bad_request("after and limit are numbers.") from None
        return self._services.journal.read(
            method=query.get("method", ""),
            path=query.get("path", ""),
            operation=query.get("operation", ""),
            after=after,
            limit=limit,
        )

    def _set_faults(self, body: Any) -> Any:
        specs = body.get("faults") if isinstance(body, dict) else body
        if not isinstance(specs, list):
            raise bad_request('A list of faults is expected, or {"faults": [...]}.')
        try:
            self._services.faults.replace([Fault.parse(spec) for spec in specs])
        except BadFault as error:
            raise bad_request(str(error)) from None
        return {"faults": self._services.faults.view()}

    def _advance(self, body: Any) -> Any:
        seconds = body.get("advance") if isinstance(body, dict) else None
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds <= FURTHEST:
            raise bad_request('{"advance": seconds} is expected, and the clock only goes forward.')
        clock = self._services.clock
        if clock.offset + seconds > FURTHEST:
            raise bad_request("The clock does not go that far.")
        clock.advance(float(seconds))
        self._services.state.set_fact("clock offset", clock.offset)
        self._services.expire_batches()
        return {"now": clock.now(), "offset": clock.offset}

    def _script(self, body: Any) -> Any:
        """New rules for a backend that follows a script."""
        if self._follow is None:
            raise bad_request(f"The backend {self._services.backend.name} follows no script.")
        try:
            self._follow(body)
        except ValueError as error:
            raise bad_request(str(error)) from None
        self._services.state.set_fact(SCRIPT, to_json(body).decode())
        return {}

    def resume(self) -> None:
        """Tell the backend the rules an earlier process was given."""
        script = self._services.state.fact(SCRIPT)
        if script is not None and self._follow is not None:
            self._follow(from_json(script))

    async def _reset(self) -> Any:
        await self._services.runner.close()
        self._services.state.clear()
        self._services.faults.replace([])
        self._services.clock.advance(-self._services.clock.offset)
        if self._follow is not None:
            self._follow(None)
        return {}


async def _body(request: Request) -> Any:
    try:
        return from_json(await read_body(request, MOST) or b"{}")
    except ValueError as error:
        raise bad_request(f"Invalid JSON: {error}"[:300]) from None
