"""One request to the API, with what is known about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json, to_json
from starlette.requests import Request
from starlette.responses import Response

from penstock.gemini_local import wire
from penstock.gemini_local.errors import ApiError, bad_request
from penstock.gemini_local.faults import Fault
from penstock.gemini_local.journal import Entry
from penstock.gemini_local.routes import Match
from penstock.gemini_local.services import Services
from penstock.gemini_local.wire import Json

LARGE = 512 * 1024
"""Bodies above this are parsed in a thread."""


@dataclass(slots=True)
class Call:
    services: Services
    request: Request
    match: Match
    entry: Entry
    body: Json = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()

    @property
    def query(self) -> Any:
        return self.request.query_params

    def fault(self, kind: str) -> Fault | None:
        return next((fault for fault in self.faults if fault.kind == kind), None)


def reply(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(to_json(content), status, headers, "application/json; charset=UTF-8")


def error_reply(error: ApiError) -> Response:
    return reply(error.body(), error.http)


async def read_body(request: Request, most: int) -> bytes:
    """All of the body, if it is not more than allowed."""
    message = f"Request payload size exceeds the limit: {most} bytes."
    declared = request.headers.get("content-length", "0")
    if wire.is_number(declared) and int(declared) > most:
        raise bad_request(message)
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise bad_request(message)
    return bytes(body)


async def read_json(call: Call, most: int) -> Json:
    """The body as a JSON object; an empty one counts as one without fields."""
    raw = await read_body(call.request, most)
    call.entry.size = len(raw)
    if not raw.strip():
        return {}
    try:
        body = await call.services.in_thread(from_json, raw) if len(raw) > LARGE else from_json(raw)
    except ValueError as error:
        raise bad_request(f"Invalid JSON payload received. {error}"[:500]) from None
    if not isinstance(body, dict):
        raise bad_request("Invalid JSON payload received. An object is expected.")
    return body


def label(call: Call) -> str:
    """By what a request is known to faults and in the journal: the display name it gives, or the thing it names."""
    holder = {"create": "batch", "upload_start": "file"}.get(call.match.operation)
    about = call.body.get(holder) if holder else call.body
    title = wire.field(about, "displayName") if isinstance(about, dict) else None
    return title if isinstance(title, str) and title else call.match.id
