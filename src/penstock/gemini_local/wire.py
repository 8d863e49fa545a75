"""How values look on Gemini's wire: names in either casing, either base64 alphabet, int64 as text, RFC 3339 times."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any

from penstock.gemini_local.errors import bad_request

Json = dict[str, Any]

CANONICAL = "https://generativelanguage.googleapis.com/v1beta/"
LONGEST = 10 * 365 * 86_400.0
"""Seconds a duration may have: more is a mistake, and dates end."""
ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"

_capital = re.compile(r"(?<=[a-z0-9])([A-Z])")
_duration = re.compile(r"(\d+(?:\.\d+)?)s")
_file_name = re.compile(r"(?:https?://[^\s]+/)?(files/[a-z0-9-]{1,80})")
_data = str.maketrans("-_", "+/", "\r\n =")


def snake(name: str) -> str:
    return _capital.sub(r"_\1", name).lower()


def field(thing: Mapping[str, Any], name: str, kind: type | tuple[type, ...] = object, default: Any = None) -> Any:
    """The field `name` (lowerCamel) of a JSON object, in whichever casing it came."""
    value = thing.get(name)
    if value is None:
        value = thing.get(snake(name))
    if value is None:
        return default
    if not isinstance(value, kind):
        raise bad_request(f"Invalid value at '{snake(name)}': {type(value).__name__} is not what is expected there.")
    return value


def whole_number(thing: Mapping[str, Any], name: str) -> int | None:
    """An int32 or int64 field: a number, or a number in text."""
    value = field(thing, name, (int, float, str))
    if value is None:
        return None
    try:
        return int(value)
    except (ValueError, OverflowError):
        raise bad_request(f"Invalid value at '{snake(name)}' (TYPE_INT64), \"{str(value)[:50]}\"") from None


def is_number(text: str) -> bool:
    """Whether a header is a whole number that can be worked with."""
    return text.isascii() and text.isdigit() and len(text) <= 18


def decode_bytes(text: str) -> bytes:
    """Base64 in the standard or the URL-safe alphabet, padded or not."""
    bare = text.translate(_data)
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise bad_request("Invalid value at 'data' (TYPE_BYTES), Base64 decoding failed.") from None


def rfc3339(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def read_rfc3339(text: str) -> float:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        raise bad_request(f"Invalid time '{text[:50]}'.") from None


def read_duration(text: str) -> float:
    """Protobuf's JSON for a duration: `600s`, `3.5s`."""
    match = _duration.fullmatch(text)
    if match is None or float(match[1]) > LONGEST:
        raise bad_request(f"Invalid duration '{text[:50]}': seconds with an 's' at the end are expected.")
    return float(match[1])


def file_name(uri: str) -> str:
    """`files/…` for a name or a URI of a file."""
    if (match := _file_name.fullmatch(uri)) is None:
        raise bad_request(f"Invalid or unsupported file uri: {uri[:100]}")
    return match[1]


def new_id(rng: Random, length: int) -> str:
    return "".join(rng.choices(ALPHABET, k=length))
