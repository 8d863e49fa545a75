"""A file on its way out, from where the caller wants it; a fault may end it halfway."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.gemini_local.dropping import Drop

PIECE = 256 * 1024

_range = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class NoSuchRange(Exception):
    """The file has no such bytes."""


def read_range(header: str | None, size: int) -> tuple[int, int] | None:
    """First and last byte asked for. None: all. What is not understood counts as not asked."""
    found = _range.fullmatch(header.strip()) if header else None
    if found is None or found[1] == found[2] == "":
        return None
    if found[1] == "":
        first, last = max(0, size - int(found[2])), size - 1
    else:
        first, last = int(found[1]), min(int(found[2] or size - 1), size - 1)
    if first > last:
        raise NoSuchRange
    return first, last


class FileReply(Response):
    """`cut` is the part of the bytes after which the connection is dropped."""

    def __init__(self, path: Path, mime: str, etag: str, wanted: str | None, cut: float | None = None) -> None:
        self._path = path
        self._cut = cut
        size = path.stat().st_size
        headers = {"accept-ranges": "bytes", "etag": f'"{etag}"'}
        self.status_code, self._first, self._length = 200, 0, size
        try:
            if (found := read_range(wanted, size)) is not None:
                self.status_code = 206
                self._first, self._length = found[0], found[1] - found[0] + 1
                headers["content-range"] = f"bytes {found[0]}-{found[1]}/{size}"
        except NoSuchRange:
            self.status_code, self._length = 416, 0
            headers["content-range"] = f"bytes */{size}"
        headers["content-length"] = str(self._length)
        self.media_type = mime
        self.background = None
        self.body = b""
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        left = self._length if self._cut is None else int(self._length * self._cut)
        with self._path.open("rb") as file:
            file.seek(self._first)
            while left > 0 and (piece := file.read(min(PIECE, left))):
                left -= len(piece)
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        if self._cut is not None:
            raise Drop
        await send({"type": "http.response.body", "body": b"", "more_body": False})
