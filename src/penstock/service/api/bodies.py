"""How a body is read: JSON and nothing else, strictly, so that whatever is in it can be stored and shown again."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Sequence
from math import isinf
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic_core import from_json, to_json

from penstock.service.access.guard import known_first
from penstock.service.api.problems import MOST_ERRORS, Problem, wrong_parts

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
# A run of digits is looked at from its beginning alone: from each of them, it would take as often as it is long.
_HUGE = re.compile(rb"[0-9][eE]\+?[0-9]{3}|(?<![0-9])[0-9]{300}")

LARGE = 256 * 1024
"""Bytes of a body from which on others should not wait until it is parsed."""


class StrictRequest(Request):
    """Refuses what Python's own parser lets through (NaN, halves of surrogate pairs) or falls over (depth)."""

    async def json(self) -> Any:
        body = await self.body()
        return await asyncio.to_thread(strict_json, body) if len(body) > LARGE else strict_json(body)


def strict_json(text: bytes) -> Any:
    """The value that can be stored and shown again, or `JSONDecodeError`."""
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise json.JSONDecodeError(str(error), "", 0) from error
    if _NUL.search(text):
        raise json.JSONDecodeError("text must not hold the character NUL", "", 0)
    if _HUGE.search(text) and _has_infinity(value):
        raise json.JSONDecodeError("a number is too large", "", 0)
    return value


def _has_infinity(value: Any) -> bool:
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, float) and isinf(one):
            return True
        if isinstance(one, dict):
            left.extend(one.values())
        elif isinstance(one, list):
            left.extend(one)
    return False


class JsonRoute(APIRoute):
    """A route whose body, if it has one, is JSON, and that refuses what it does not know in the query: a filter that is
    misspelt would otherwise let everything through. Nothing of a body is read before it is known who sends it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = sorted(_in_query(self.dependant))

        async def strictly(request: Request) -> Response:
            if self.body_field is not None:
                await known_first(request, self.dependant)
            if request.scope["query_string"]:
                _check_query(request, known)
            if self.body_field is not None:
                _check_media_type(request)
            return await handle(StrictRequest(request.scope, request.receive))

        return strictly


def _in_query(dependant: Dependant) -> set[str]:
    """The names that a route and what it depends on read from the query."""
    own = {field.alias for field in dependant.query_params}
    return own.union(*(_in_query(one) for one in dependant.dependencies))


def _check_query(request: Request, known: Sequence[str]) -> None:
    unknown = [name for name in dict.fromkeys(request.query_params) if name not in known]
    if unknown:
        message = f"not known here; known are {', '.join(known)}" if known else "not known here; nothing is"
        raise wrong_parts([(f"query.{name}", message) for name in unknown[:MOST_ERRORS]])


def _check_media_type(request: Request) -> None:
    told = request.headers.get("content-type", "")
    empty = request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers
    if told.partition(";")[0].strip().lower() != "application/json" and not (empty and not told):
        raise Problem(415, "send the body as application/json")


def answer(content: Any, status: int = 200, **headers: str) -> Response:
    """JSON, made from plain values in one go: the models of the document are not run over what we made ourselves."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(to_json(content, inf_nan_mode="null"), status, named, "application/json")
