"""Foreign files from the pipeline's side: each is opened in a process of the pool, with limits, and what goes wrong
there comes back as one error for the file's owner. `child.py` is what runs in those processes."""

from __future__ import annotations

import asyncio
import errno
import signal
import stat
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

from pydantic_core import from_json

from penstock.engine.errors import InvalidRequest, Permanent, Transient
from penstock.paper.page import Page
from penstock.paper.page import from_json as page_from_json
from penstock.paper.unreadable import Unreadable
from penstock.pipelines.documents.einvoice import EInvoice
from penstock.pipelines.documents.judging import JUDGEMENT, Judgement, Source
from penstock.pipelines.documents.kinds import LARGEST_FILE, Kind, too_large
from penstock.pipelines.documents.model import InvoiceData
from penstock.remote.pool import ProcessPool
from penstock.remote.pool.errors import ChildDied, Deadly, TooLarge, TooLong, TooManyPages
from penstock.remote.pool.limits import PoolLimits

__all__ = ["Inspected", "Parser", "Unreadable"]

CHILD = "penstock.pipelines.documents.child"

_Work = Callable[[], Awaitable[tuple[Any, list[bytes]]]]

MOST_PAGES = 50
"""Of one document. An invoice has a few; one of a telephone company may have dozens."""

LOOKING = PoolLimits(seconds=20, memory_mb=512, answer_mb=16)
READING = PoolLimits(seconds=120, memory_mb=1024)
DRAWING = PoolLimits(seconds=30, memory_mb=1024, answer_mb=32)
JUDGING = PoolLimits(seconds=60, memory_mb=1024, answer_mb=16)

AT_ONCE = 20.0
"""Seconds after which a call hands in the pages it has; the next goes on from there, and others had their turn."""

IN_ALL = 240.0
"""Seconds for the pages of one document; the step that asks has 270."""

PREVIEW_WIDTH = 1200

_CRASHES = frozenset(
    -number for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP)
)
_MISSING = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL))


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """What a file is. `xml` is the e-invoice that was found in it, byte for byte, and `invoice` what that says;
    `trouble` is why an e-invoice that is there cannot be used, in words for the reviewer."""

    kind: Kind
    pages: int
    xml: bytes | None = None
    xml_name: str | None = None
    invoice: EInvoice | None = None
    trouble: str | None = None


class Parser:
    """Reads documents through a pool that somebody else opens and closes. A file that cannot be read is `Unreadable`
    (permanent, with words for its owner); trouble of the machine is `Transient`."""

    def __init__(
        self,
        pool: ProcessPool,
        *,
        most_pages: int = MOST_PAGES,
        largest_file: int = LARGEST_FILE,
        looking: PoolLimits = LOOKING,
        reading: PoolLimits = READING,
        drawing: PoolLimits = DRAWING,
        in_all: float = IN_ALL,
    ) -> None:
        self._pool = pool
        self._most_pages = most_pages
        self._largest_file = largest_file
        self._looking = looking
        self._reading = reading
        self._drawing = drawing
        self._in_all = in_all

    async def inspect(self, path: Path) -> Inspected:
        """What the file is, how many pages it has, and the e-invoice in it."""
        value, blobs = await self._call("inspect_document", {"pages": self._most_pages}, path, self._looking)
        return await asyncio.to_thread(_inspected, value, blobs)

    async def pages(self, path: Path) -> list[Page]:
        """The words of every page with their boxes: a PDF's own text, or OCR."""
        told = await self.read(path)
        return await asyncio.to_thread(_pages, told)

    async def read(self, path: Path) -> list[bytes]:
        """The same as JSON, as the processes tell it: some pages in each part. To be handed to `judged`."""
        until = time.monotonic() + self._in_all
        parts: list[bytes] = []
        first: int | None = 0
        while first is not None:
            args = {"first": first, "pages": self._most_pages, "seconds": AT_ONCE}
            value, (told,) = await self._call("read_pages", args, path, self._reading)
            parts.append(told)
            first = value["next"]
            if first is not None and time.monotonic() > until:
                raise Unreadable(
                    f"Reading the document took longer than {self._in_all:g} s; {first} pages were read: split it."
                )
        return parts

    async def judged(
        self, data: InvoiceData, read: list[bytes], *, source: Source, refused: Mapping[str, str]
    ) -> tuple[Judgement, tuple[int, ...]]:
        """What data are worth beside the pages that `read` gave, and by how much each page was turned."""
        args = {"data": data.model_dump_json(), "source": source, "refused": dict(refused)}
        work = partial(self._pool.run, f"{CHILD}:judge_data", args, blobs=read, limits=JUDGING)
        value, _ = await self._answered(work, JUDGING)
        try:
            return JUDGEMENT.validate_json(value["judgement"]), tuple(map(int, value["turns"]))
        except (ValueError, KeyError, TypeError) as error:
            raise Unreadable("The document led its reader astray: send it anew, or an image of its pages.") from error

    async def pictures(self, path: Path) -> list[bytes]:
        """Every page as a JPEG, for models that do not take files of this kind."""
        _, pictures = await self._call("draw_pages", {"pages": self._most_pages}, path, self._reading)
        return pictures

    async def preview(self, path: Path, page: int, *, width: int = PREVIEW_WIDTH, turned: int = 0) -> bytes:
        """One page (counted from 1) as a JPEG of at most so many pixels across. With the `turned` of the page that was
        read, it stands as it was read, and boxes that are parts of its width and height fit."""
        if turned % 90:
            raise InvalidRequest(f"a page can be turned by 90, 180 or 270 degrees, not by {turned}")
        args = {"page": page, "pages": self._most_pages, "width": width, "turned": turned}
        _, (picture,) = await self._call("draw_page", args, path, self._drawing)
        return picture

    async def _call(
        self, function: str, args: Mapping[str, Any], path: Path, limits: PoolLimits
    ) -> tuple[Any, list[bytes]]:
        await asyncio.to_thread(_check, path, self._largest_file)
        work = partial(self._pool.run, f"{CHILD}:{function}", dict(args), files=(path,), limits=limits)
        return await self._answered(work, limits)

    async def _answered(self, work: _Work, limits: PoolLimits) -> tuple[Any, list[bytes]]:
        try:
            return await _once_more(work)
        except TooLong as error:
            raise Unreadable(
                f"The document takes longer to read than it may ({limits.seconds:g} s): send a simpler file, or an "
                "image of its pages."
            ) from error
        except TooLarge as error:
            raise Unreadable(
                f"The document needs more memory than it may ({limits.memory_mb} MB): send a simpler file, or an image "
                "of its pages."
            ) from error
        except TooManyPages as error:
            raise Unreadable(f"The document has more than {self._most_pages} pages: split it.") from error
        except Permanent as error:
            raise Unreadable(_sentence(str(error))) from error


async def _once_more(work: _Work) -> tuple[Any, list[bytes]]:
    """A crash of the reader is tried once more, and then it is the file's doing. Other deaths are the machine's."""
    for last in (False, True):
        try:
            return await work()
        except (ChildDied, Deadly) as error:
            crashed = isinstance(error, Deadly) or error.code in _CRASHES
            if not crashed:
                raise
            if last or isinstance(error, Deadly):
                raise Unreadable(
                    "The document crashes the program that reads it, or needs far too much memory: send it anew, "
                    "or an image of its pages."
                ) from error
    raise AssertionError("unreachable")


def _sentence(text: str) -> str:
    """What a child says, as it is told to the file's owner."""
    said = text.removeprefix(f"{CHILD}:").strip()
    return said[:1].upper() + said[1:] + ("" if said.endswith((".", "!", "?")) else ".")


def _check(path: Path, most: int) -> None:
    """Before a process is asked: it reads the whole file."""
    try:
        found = path.stat()
    except OSError as error:
        if error.errno in _MISSING:
            raise Unreadable(f"There is no file {path.name} any more: send it again.") from error
        raise Transient(f"{path.name} cannot be looked at: {error.strerror or error}") from error
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable(f"{path.name} is no file.")
    if found.st_size == 0:
        raise Unreadable("The file is empty.")
    if found.st_size > most:
        raise Unreadable(too_large(found.st_size, most))


def _inspected(value: Any, blobs: list[bytes]) -> Inspected:
    """What a child tells is checked: it may have read something hostile."""
    try:
        told = value.get("invoice")
        invoice = EInvoice.model_validate_json(told) if told is not None else None
        if value["kind"] not in get_args(Kind) or type(value["pages"]) is not int:
            raise ValueError(f"{value['kind']!r} with {value['pages']!r} pages")
    except (ValueError, KeyError, AttributeError) as error:
        raise Unreadable("The document led its reader astray: send it anew, or an image of its pages.") from error
    return Inspected(
        kind=value["kind"],
        pages=value["pages"],
        xml=blobs[0] if blobs else None,
        xml_name=value.get("xml"),
        invoice=invoice,
        trouble=value.get("trouble"),
    )


def _pages(parts: list[bytes]) -> list[Page]:
    return [page_from_json(page) for part in parts for page in from_json(part)]
