"""Pages of foreign files, read in the process pool: what misbehaves there is stopped, and told as `CannotAnswer`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pydantic_core import from_json

from penstock.engine.errors import InvalidRequest, Permanent, Transient
from penstock.gemini_local.backend import CannotAnswer, Part
from penstock.paper.page import Page
from penstock.paper.page import from_json as page_from_json
from penstock.remote.pool import PoolLimits, ProcessPool
from penstock.remote.pool.errors import TooLarge, TooLong, TooManyPages

READING = "penstock.paper.reading"

LARGEST_FILE = 100 * 2**20
"""Bytes of one file; Gemini itself takes 50 MB of PDF."""

LIMITS = PoolLimits(seconds=120, memory_mb=1024, pages=200)
"""For one call into the pool. `pages` is also what one document may have."""

AT_ONCE = 20.0
"""Seconds after which a call hands in the pages it has; the next goes on from there. So a long document is many short
calls, and only the one that hangs is stopped."""


class PooledDocuments:
    """Reads through a pool that somebody else opens and closes."""

    def __init__(self, pool: ProcessPool, *, limits: PoolLimits = LIMITS) -> None:
        self._pool = pool
        self._limits = limits
        self._most = limits.pages or LIMITS.pages

    async def pages(self, part: Part) -> list[Page]:
        pages: list[Page] = []
        first: int | None = 0
        while first is not None:
            args = {"first": first, "pages": self._most, "seconds": AT_ONCE}
            value, (told,) = await self._read(f"{READING}:read_document", args, part)
            pages += await asyncio.to_thread(_pages, told)
            first = value["next"]
        return pages

    async def pictures(self, part: Part) -> list[bytes]:
        """The pages as JPEGs."""
        _, pictures = await self._read(f"{READING}:render_document", {"pages": self._most}, part)
        return pictures

    async def run(self, function: str, args: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> tuple[Any, list[bytes]]:
        with told_as_answers():
            return await self._pool.run(function, dict(args), blobs=blobs, limits=self._limits)

    async def _read(self, function: str, args: Mapping[str, Any], part: Part) -> tuple[Any, list[bytes]]:
        """A file on disk is read by the child itself."""
        await asyncio.to_thread(_check, part)
        blobs, files = ((part.data,), ()) if part.data is not None else ((), (part.file,) if part.file else ())
        with told_as_answers():
            return await self._pool.run(function, dict(args), blobs=blobs, files=files, limits=self._limits)


@contextmanager
def told_as_answers() -> Iterator[None]:
    """The pool's errors as the local Gemini tells them."""
    try:
        yield
    except TooLong as error:
        raise CannotAnswer(f"Reading the file took too long: {error}", code=4) from error
    except TooLarge as error:
        raise CannotAnswer(f"Reading the file needed too much memory: {error}", code=8) from error
    except TooManyPages as error:
        raise CannotAnswer(f"The file has too many pages: {error}") from error
    except Permanent as error:
        raise CannotAnswer(f"The file cannot be read: {error}") from error
    except Transient as error:
        raise CannotAnswer(f"The process that read the file was lost; try again: {error}", code=14) from error
    except InvalidRequest as error:
        raise CannotAnswer(f"The file could not be handed to a process: {error}", code=13) from error


def _check(part: Part) -> None:
    try:
        size = part.file.stat().st_size if part.data is None and part.file is not None else len(part.data or b"")
    except OSError as error:
        raise CannotAnswer(f"The file cannot be opened: {error.strerror or error}", code=13) from error
    if size == 0:
        raise CannotAnswer("The file is empty.")
    if size > LARGEST_FILE:
        raise CannotAnswer(f"The file has {size // 2**20} MB; at most {LARGEST_FILE // 2**20} MB are read.")


def _pages(told: bytes) -> list[Page]:
    return [page_from_json(page) for page in from_json(told)]
