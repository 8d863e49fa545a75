"""Every error of the service as `application/problem+json` (RFC 9457): one shape, whoever raised it.

`type` is a stable word for programs, `detail` is for people. What a body never holds: values that were sent, secrets,
stack traces, and what a database said.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.routing import Match

from penstock.engine.errors import (
    CommitUnknown,
    Conflict,
    InvalidPayload,
    InvalidRequest,
    KeyReused,
    NotFound,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from penstock.engine.identity import made_storable

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
MOST_ERRORS = 20
LONGEST = 2000

TITLES: dict[int, tuple[str, str]] = {
    400: ("bad-request", "The request cannot be read"),
    401: ("unauthorized", "A token is needed"),
    403: ("forbidden", "Not allowed"),
    404: ("not-found", "There is no such thing"),
    405: ("method-not-allowed", "This method is not offered here"),
    409: ("conflict", "Its state does not allow that"),
    413: ("body-too-large", "The body is too large"),
    415: ("unsupported-media-type", "The body must be JSON"),
    421: ("misdirected", "Another address is meant"),
    422: ("invalid-request", "The request is not valid"),
    429: ("too-many-requests", "Too much at once"),
    500: ("internal-error", "A mistake of the service's own"),
    503: ("unavailable", "Not now"),
}


class Problem(Exception):
    """An answer that is a problem. `slug` is the last part of its `type`; `extras` are further members."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        slug: str | None = None,
        title: str | None = None,
        headers: Mapping[str, str] | None = None,
        **extras: Any,
    ) -> None:
        super().__init__(detail)
        known, words = TITLES.get(status, ("error", "The request failed"))
        self.status = status
        self.detail = detail
        self.slug = slug or known
        self.title = title or words
        self.headers = dict(headers or {})
        self.extras = extras

    def response(self, path: str) -> Response:
        body = {
            "type": f"/problems/{self.slug}",
            "title": self.title,
            "status": self.status,
            "detail": _sayable(self.detail),
            "instance": _sayable(path),
            **self.extras,
        }
        return Response(to_json(body), self.status, self.headers, MEDIA_TYPE)


def conflict(error: Conflict, *, id: str | None, state: str | None) -> Problem:
    """What stands in the way, and in which state it is now."""
    return Problem(409, str(error), id=id, state=state)


def forbidden(detail: str) -> Problem:
    return Problem(403, detail)


def invalid(location: str, message: str) -> Problem:
    """One part of a request is wrong."""
    return wrong_parts([(location, message)])


def wrong_parts(parts: Sequence[tuple[str, str]]) -> Problem:
    """Several are, each with its location and what is wrong with it."""
    errors = [_error(*part) for part in parts]
    return Problem(422, f"{errors[0]['location']}: {errors[0]['message']}", errors=errors)


def problem_of(error: Exception) -> Problem:
    """What an error of the engine or the framework says to a client."""
    match error:
        case Problem():
            return error
        case KeyReused():
            words = "This Idempotency-Key came with another request before"
            return Problem(422, str(error), slug="idempotency-key-reused", title=words, errors=[])
        case NotFound():
            return Problem(404, str(error))
        case Conflict():
            return conflict(error, id=None, state=None)
        case InvalidPayload():
            return Problem(422, str(error), errors=_payload_errors(error))
        case InvalidRequest():
            return Problem(422, str(error), errors=[_error("request", str(error))])
        case RequestValidationError():
            errors = [_field_error(one) for one in error.errors()[:MOST_ERRORS]]
            first = errors[0] if errors else _error("request", "not valid")
            return Problem(422, f"{first['location']}: {first['message']}", errors=errors)
        case StoreError():
            return _store_problem(error)
        case HTTPException():
            return Problem(error.status_code, str(error.detail), headers=error.headers)
        case _:
            reference = secrets.token_hex(8)
            log.error("an unexpected error, reference %s", reference, exc_info=error)
            detail = f"The service's log tells more under the reference {reference}."
            return Problem(500, detail, reference=reference)


def _store_problem(error: StoreError) -> Problem:
    log.warning("the store: %s", error)
    if isinstance(error, CommitUnknown):
        detail = "The store broke off while it stored this: look whether it did, or ask again with an Idempotency-Key."
        return Problem(503, detail, slug="outcome-unknown", headers={"Retry-After": "1"})
    if isinstance(error, StoreFull | StoreReadOnly):
        return Problem(503, "The store cannot be written; nothing was changed.", headers={"Retry-After": "30"})
    return Problem(503, "The store does not answer; nothing was changed.", headers={"Retry-After": "1"})


def _payload_errors(error: InvalidPayload) -> list[dict[str, str]]:
    cause = error.__cause__
    if not isinstance(cause, ValidationError):
        return [_error("body.payload", str(error))]
    found = cause.errors(include_url=False, include_context=False, include_input=False)[:MOST_ERRORS]
    return [_error(_joined(("body", "payload", *one["loc"])), one["msg"]) for one in found]


def _joined(location: tuple[Any, ...]) -> str:
    return ".".join(str(part) for part in location)


def _field_error(error: Mapping[str, Any]) -> dict[str, str]:
    """Pydantic's words, without the value; the parser's reason where the body is no JSON."""
    if error["type"] == "json_invalid":
        return _error("body", f"not valid JSON: {error.get('ctx', {}).get('error', '')}")
    return _error(_joined(error["loc"]), str(error["msg"]))


def _error(location: str, message: str) -> dict[str, str]:
    return {"location": _sayable(location, 200), "message": _sayable(message, 500)}


def _sayable(text: str, most: int = LONGEST) -> str:
    return (made_storable(text) or "")[:most]


def _unrouted(request: Request, error: Exception) -> Problem | None:
    """What the framework itself says of a path or method that no route has."""
    if not isinstance(error, HTTPException) or error.detail != HTTPStatus(error.status_code).phrase:
        return None
    if error.status_code == 404:
        return Problem(404, f"there is nothing at {request.url.path}")
    if error.status_code == 405:
        allowed = ", ".join(_methods_at(request))
        return Problem(405, f"{request.url.path} takes {allowed}", headers={"Allow": allowed})
    return None


def _methods_at(request: Request) -> list[str]:
    """Of all routes with this path; the framework names those of the first."""

    def taken(method: str) -> bool:
        asked = {**request.scope, "method": method}
        return any(route.matches(asked)[0] is Match.FULL for route in request.app.routes)

    return [method for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE") if taken(method)]


def install_problems(app: FastAPI) -> None:
    """Answer every error of this app with a problem, and say so in its OpenAPI document."""
    from penstock.service.api.document import complete
    from penstock.service.dashboard.rendering import refusal_page

    async def answer(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException) and error.status_code < 400:
            return Response(status_code=error.status_code, headers=error.headers)
        problem = _unrouted(request, error) or problem_of(error)
        page = refusal_page(request, problem.status, problem.detail, problem.headers)
        return page or problem.response(request.url.path)

    for kind in (Problem, InvalidRequest, StoreError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer)
    made = app.openapi

    def openapi() -> dict[str, Any]:
        return complete(made())

    app.openapi = openapi  # type: ignore[method-assign]
