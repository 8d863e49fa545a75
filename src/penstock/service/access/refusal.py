"""How a request is turned away: as a problem document (RFC 9457), whether before a route is found or inside one."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse


class Refused(HTTPException):
    """Raised inside a route. `detail` says what is wrong and what can be done about it, and never holds a secret."""

    def __init__(self, status: int, detail: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, detail, headers)


def problem(status: int, detail: str) -> JSONResponse:
    """The same, for middleware, which stands outside of what turns exceptions into answers."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return JSONResponse(body, status, media_type="application/problem+json")
