"""Pages, newest first. A page token says before which number the next page begins."""

from __future__ import annotations

import base64
import binascii

from penstock.gemini_local.errors import bad_request

NEWEST = 2**62


def page_size(text: str | None, *, default: int, most: int) -> int:
    if not text:
        return default
    try:
        size = int(text)
    except ValueError:
        raise bad_request(f"Invalid value at 'page_size' (TYPE_INT32), \"{text[:30]}\"") from None
    if size < 0:
        raise bad_request("page_size must not be negative.")
    return min(size, most) or default


def encode_token(before: int) -> str:
    return base64.urlsafe_b64encode(f"before {before}".encode()).decode().rstrip("=")


def decode_token(token: str | None) -> int:
    if not token:
        return NEWEST
    try:
        word, number = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True).decode().split(" ")
        if word == "before" and len(number) <= 19:
            return int(number)
    except (binascii.Error, ValueError):
        pass
    raise bad_request("Page token is not valid.")
