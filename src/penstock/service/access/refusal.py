"""How a request is turned away: as a problem document (RFC 9457), whether before a route is found or inside one."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from penstock.service.api.problems import Problem


class Refused(HTTPException):
    """Raised inside a route. `detail` says what is wrong and what can be done about it, and never holds a secret."""

    def __init__(self, status: int, detail: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, detail, headers)


async def turn_away(
    status: int, detail: str, scope: Scope, receive: Receive, send: Send, headers: Mapping[str, str] | None = None
) -> None:
    """The same, for middleware, which stands outside of what turns exceptions into answers."""
    await Problem(status, detail, headers=headers).response(scope["path"])(scope, receive, send)
