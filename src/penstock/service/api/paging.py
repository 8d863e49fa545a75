"""Lists, page by page: a cursor is a place in the order, not a number of rows, so that what arrives meanwhile moves
nothing."""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Any

from fastapi import Query

from penstock.engine.identity import storable
from penstock.service.api.problems import invalid

DEFAULT_LIMIT = 50
MOST = 500

Limit = Annotated[int, Query(ge=1, le=MOST, description="At most so many.")]
Cursor = Annotated[
    str | None, Query(max_length=2000, description="The `next` of the page before; leave it out for the first page.")
]


def next_cursor(*place: str | float) -> str:
    """The place after which the next page begins."""
    return urlsafe_b64encode(json.dumps(place, ensure_ascii=False).encode()).decode().rstrip("=")


def place_of(cursor: str | None, *kinds: type) -> tuple[Any, ...] | None:
    """What `next_cursor` was made of, checked; None without a cursor."""
    if cursor is None:
        return None
    try:
        place = json.loads(urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        place = None
    fits = isinstance(place, list) and len(place) == len(kinds)
    if not fits or not all(_is(value, kind) for value, kind in zip(place, kinds, strict=True)):
        raise invalid("query.cursor", "this is not a cursor of this list")
    return tuple(place)


def id_of(cursor: str | None) -> str | None:
    """The place in a list that is ordered by one id."""
    place = place_of(cursor, str)
    return None if place is None else str(place[0])


def _is(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
    return isinstance(value, str) and len(value) <= 600 and storable(value)


def page(items: list[Any], more: str | None) -> dict[str, Any]:
    return {"items": items, "next": more}
