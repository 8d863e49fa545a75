"""What routes say about their answers in the OpenAPI document: problems, once for all of them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from penstock.service.api.examples import exemplify
from penstock.service.api.problems import MEDIA_TYPE, TITLES

_REF = "#/components/schemas/"

Answers = dict[int | str, dict[str, Any]]


class FieldError(BaseModel):
    """One part of a request that is wrong."""

    location: str = Field(description="Where: `body.payload.pages`, `query.limit`.", examples=["body.payload.pages"])
    message: str = Field(description="What is wrong with it.", examples=["Input should be a valid integer"])


class ProblemBody(BaseModel):
    """An error (RFC 9457)."""

    model_config = ConfigDict(title="Problem")

    type: str = Field(description="A stable word for programs.", examples=["/problems/conflict"])
    title: str = Field(description="The kind of problem, for people.")
    status: int = Field(description="The HTTP status.", ge=400, le=599)
    detail: str = Field(description="What happened, for people.")
    instance: str = Field(description="The path that was asked.")
    id: str | None = Field(None, description="409: whose state stands in the way, where that is one thing.")
    state: str | None = Field(None, description="409: the state it is in now.")
    errors: list[FieldError] | None = Field(None, description="422: what is wrong, part by part.")
    reference: str | None = Field(None, description="500: where the service's log tells more.")


_WORDS: dict[int, str] = {
    400: "A header cannot be read.",
    401: "No token, or none that is known.",
    403: "The token may not do this.",
    404: "There is no such thing, or it belongs to another tenant.",
    409: "The thing exists in another state, or with another content; `state` says in which.",
    413: "The body is larger than the service takes.",
    415: "The body is not JSON.",
    421: "Where no token is needed: the `Host` header names another machine, or a proxy stands in between.",
    422: "The request is not valid; `errors` says where.",
    429: "The queue is full, or too many tokens were wrong; `Retry-After` says when to try again.",
    503: "The store does not answer, or cannot be written; `Retry-After` says when to try again.",
}

_EXAMPLES: dict[int, tuple[str, dict[str, Any]]] = {
    400: ("X-Penstock-As must be a name of 1 to 120 printable characters in UTF-8", {}),
    401: ("a token is needed: send it as Authorization: Bearer TOKEN", {}),
    403: ("this needs the scope operate", {}),
    404: ("there is no job 01k3x9q8w7e6r5t4y3z2", {}),
    409: (
        "job 01k3x9q8w7e6r5t4y3z2 is completed and cannot be paused",
        {"id": "01k3x9q8w7e6r5t4y3z2", "state": "completed"},
    ),
    413: ("the body may have at most 4,194,304 bytes", {}),
    415: ("send the body as application/json", {}),
    421: ("the Host header names no address of this machine: open http://127.0.0.1 or http://localhost", {}),
    422: (
        "body.payload.pages: Input should be a valid integer",
        {"errors": [{"location": "body.payload.pages", "message": "Input should be a valid integer"}]},
    ),
    429: ("100,000 jobs wait already: try again later", {}),
    503: ("The store does not answer; nothing was changed.", {}),
}

_HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"description": "How to say who you are.", "schema": {"type": "string"}}},
    429: {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}},
    503: {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}},
}


_EVERYWHERE = (400, 401, 403, 421, 422, 429, 503)


def problems(*statuses: int, path: str = "/api/v1/jobs/01k3x9q8w7e6r5t4y3z2") -> Answers:
    """The error answers of a route, for `responses=`. Those that every route has are added."""
    return {status: _documented(status, path) for status in sorted({*statuses, *_EVERYWHERE})}


def _documented(status: int, path: str) -> dict[str, Any]:
    slug, title = TITLES[status]
    detail, more = _EXAMPLES[status]
    example = {"type": f"/problems/{slug}", "title": title, "status": status, "detail": detail, "instance": path} | more
    told: dict[str, Any] = {
        "description": _WORDS[status],
        "content": {MEDIA_TYPE: {"schema": {"$ref": _REF + "Problem"}, "example": example}},
    }
    if status in _HEADERS:
        told["headers"] = _HEADERS[status]
    return told


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """Add the problem's schema, and let no route say that its errors look otherwise."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    if "Problem" in schemas:
        return document
    schema = ProblemBody.model_json_schema(ref_template=_REF + "{model}")
    schemas.update(schema.pop("$defs"))
    schemas["Problem"] = schema
    theirs = {"$ref": _REF + "HTTPValidationError"}
    for path, item in document.get("paths", {}).items():
        for operation in item.values():
            told = operation.get("responses", {}).get("422", {})
            if told.get("content", {}).get("application/json", {}).get("schema") == theirs:
                operation["responses"]["422"] = _documented(422, path)
            exemplify(operation, schemas)
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    return document
