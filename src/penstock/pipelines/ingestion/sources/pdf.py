"""PDFs from a folder, from a list of files, or from the web: a document for each, with a mark at the beginning of each
page. They are opened in the processes of the pool only; pages that are scans are read by OCR there."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from penstock.engine.clock import Clock
from penstock.engine.errors import Permanent, Transient
from penstock.pipelines.ingestion.model import Document, Entry, Known, Loaded, Mark, Unchanged
from penstock.pipelines.ingestion.plugins import Tools
from penstock.pipelines.ingestion.sources.folders import (
    Files,
    FolderOptions,
    NamedFiles,
    Patterns,
    checked_options,
    checked_path,
    files_at,
    storable,
    unchanged,
)
from penstock.pipelines.ingestion.sources.web_fetch import Fetched, Fetcher, FetchLimits, fetcher_for
from penstock.pipelines.ingestion.sources.web_urls import normalized
from penstock.remote.pool import Deadly, ProcessPool, TooLarge, TooLong
from penstock.remote.pool.limits import PoolLimits

log = logging.getLogger("penstock.ingestion")

ENDINGS = (".pdf",)
MEDIA_TYPES = (
    "application/pdf",
    "application/x-pdf",
    "application/octet-stream",
    "binary/octet-stream",
    "application/force-download",
)

MOST_PAGES = 5000
MOST_TEXT = 20_000_000
"""Characters of one document."""

LARGEST_FETCHED = 64 * 2**20
"""Bytes of a file from the web, which is held in memory."""

AT_ONCE = 20.0
"""Seconds after which a process hands in the pages it has; the next call goes on from there, and others had their
turn."""

IN_ALL = 3600.0
"""Seconds for one document; its scans are read in as many processes as there are."""

READING = PoolLimits(seconds=150, memory_mb=1024)
FETCHING = FetchLimits(seconds=300)

_CHILD = "penstock.paper.text"
_NO_TITLE = re.compile(
    r"(?i)\W*(?:untitled|no ?title|title|document|presentation|powerpoint presentation|anonymous|unspecified|scan|null)"
    r"[\W\d_]*"
)
_FILE_NAME = re.compile(
    r"(?i).*\.(?:pdf|docx?|xlsx?|pptx?|odt|rtf|txt|tex|dvi|ps|eps|indd|qxd|html?|wpd|tiff?|jpe?g|exe)"
)
_CODE = re.compile(r"(?=\S*[\d_])\S{6,}|\S{30,}")
_WRITTEN_WITH = re.compile(r"(?i)microsoft (?:word|powerpoint|excel) -\s*")

Page = str | tuple[str] | None
"""Text, or why it cannot be read; None: it is to be read from its picture."""

_PAGES: TypeAdapter[list[Page]] = TypeAdapter(list[str | tuple[str] | None])


class PdfOptions(BaseModel):
    """One of `path` (a folder, or one file; with `pattern` and `recursive`), `paths` (files), `urls`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(checked_path)] | None = None
    paths: Annotated[tuple[Annotated[str, AfterValidator(checked_path)], ...], Field(max_length=100_000)] = ()
    urls: Annotated[tuple[Annotated[str, AfterValidator(normalized)], ...], Field(max_length=100_000)] = ()
    pattern: Patterns | None = None
    recursive: bool = True

    @model_validator(mode="after")
    def _one_place(self) -> PdfOptions:
        if sum(map(bool, (self.path, self.paths, self.urls))) != 1:
            raise ValueError("give one of path (a folder or a file), paths (files), urls")
        if self.pattern and not self.path:
            raise ValueError("pattern chooses files of a folder, which path names")
        return self


def pdf(options: Mapping[str, Any], tools: Tools) -> PdfSource | PdfWebSource:
    asked = checked_options("pdf", PdfOptions, options)
    reader = PdfReader(tools.pool, tools.clock, at_once=tools.settings.pool.workers)
    if asked.urls:
        return PdfWebSource(asked.urls, fetcher_for(tools, limits=FETCHING), reader)
    files: Files
    if asked.path is None:
        files = NamedFiles({storable(path): Path(path) for path in asked.paths}, resolved=tools.resolved)
    else:
        folder = FolderOptions(path=asked.path, pattern=asked.pattern, recursive=asked.recursive)
        files = files_at("pdf", folder, ENDINGS, resolved=tools.resolved)
    largest = int(tools.settings.ingestion.largest_mb * 1_000_000)
    return PdfSource(files, reader, tools.clock, largest=largest)


class PdfSource:
    """PDFs on the disk."""

    def __init__(self, files: Files, reader: PdfReader, clock: Clock, *, largest: int = 200_000_000) -> None:
        self._files = files
        self._reader = reader
        self._clock = clock
        self._largest = largest

    def entries(self, cursor: str | None) -> AsyncIterator[Entry]:
        return self._files.entries(cursor)

    async def load(self, entry: Entry, known: Known | None) -> Loaded:
        place = await asyncio.to_thread(self._files.find, entry.uri)
        if place is None:
            return Loaded(None)
        if place.size > self._largest:
            raise Permanent(
                f"{place.uri} has {place.size / 1e6:.1f} MB; at most {self._largest / 1e6:g} MB are read: split it, or"
                " raise ingestion.largest_mb"
            )
        if place.size == 0:
            raise Permanent(f"{place.uri} is empty")
        settled = place.settled(self._clock.now())
        stem = PurePosixPath(place.uri).stem
        try:
            document = await self._reader.read(place.uri, stem, settled, files=(place.path,))
        except Permanent as error:
            if await asyncio.to_thread(unchanged, place):
                raise
            raise Transient(f"{place.uri} was changed while it was read") from error
        if not await asyncio.to_thread(unchanged, place):
            raise Transient(f"{place.uri} was changed while it was read")
        return Loaded(document)

    async def count(self) -> int:
        return await self._files.count()

    async def close(self) -> None:
        """Nothing is kept open; the pool is not ours."""


class PdfWebSource:
    """PDFs by their addresses. A server that knows of conditional requests is not asked for the same one twice."""

    def __init__(self, urls: tuple[str, ...], fetcher: Fetcher, reader: PdfReader) -> None:
        self._urls = sorted(set(urls))
        self._fetcher = fetcher
        self._reader = reader

    async def entries(self, cursor: str | None) -> AsyncIterator[Entry]:
        for url in self._urls:
            if cursor is None or url > cursor:
                yield Entry(url, url)

    async def load(self, entry: Entry, known: Known | None) -> Loaded:
        fetched: Fetched = await self._fetcher.get(
            entry.uri,
            accept=MEDIA_TYPES,
            largest=LARGEST_FETCHED,
            fingerprint=known.fingerprint if known else None,
        )
        if fetched.unchanged:
            return Loaded(Unchanged(entry.uri, known.fingerprint if known else None))
        if fetched.body is None:
            raise Permanent(f"{entry.uri} is no PDF but {fetched.media_type or 'something without a type'}")
        stem = PurePosixPath(unquote(urlsplit(entry.uri).path, errors="replace")).stem
        read = self._reader.read(entry.uri, stem or entry.uri, fetched.fingerprint, blobs=(fetched.body,))
        return Loaded(await read)

    async def count(self) -> int:
        return len(self._urls)

    async def close(self) -> None:
        """Nothing is kept open."""


class PdfReader:
    """Reads a PDF through the pool, page by page. What cannot be read is `Permanent`, with words for its owner."""

    def __init__(
        self,
        pool: Callable[[], Awaitable[ProcessPool]],
        clock: Clock,
        *,
        at_once: int = 2,
        most_pages: int = MOST_PAGES,
        most_text: int = MOST_TEXT,
        limits: PoolLimits = READING,
        in_all: float = IN_ALL,
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._at_once = at_once
        self._most_pages = most_pages
        self._most_text = most_text
        self._limits = limits
        self._in_all = in_all

    async def read(
        self,
        uri: str,
        stem: str,
        fingerprint: str | None,
        *,
        files: tuple[Path, ...] = (),
        blobs: tuple[bytes, ...] = (),
    ) -> Document:
        """The document, without the fingerprint where a page could not be read: then the next run tries again."""
        pool = await self._pool()
        work = partial(pool.run, files=files, blobs=blobs, limits=self._limits)
        until = self._clock.monotonic() + self._in_all
        try:
            title, pages = await self._text(work, until)
            await self._scans(work, pages, until)
        except (TooLong, TooLarge) as error:
            kind = "seconds" if isinstance(error, TooLong) else "megabytes"
            most = self._limits.seconds if isinstance(error, TooLong) else self._limits.memory_mb
            raise Permanent(f"{uri} takes more than the {most:g} {kind} it may: print it to a simpler PDF") from error
        except Deadly as error:
            raise Permanent(f"{uri} crashes the program that reads it: print it to a new PDF") from error
        except Permanent as error:
            raise Permanent(f"{uri}: {_for_owners(str(error))}") from error
        return _assembled(uri, title_of(title, stem), pages, fingerprint)

    async def _text(self, work: Callable[..., Any], until: float) -> tuple[str, list[Page]]:
        pages: list[Page] = []
        title, first = "", 0
        while True:
            args = {"first": first, "pages": self._most_pages, "seconds": AT_ONCE}
            value, (blob,) = await work(f"{_CHILD}:read_text", args)
            told = _told(blob)
            pages += told
            self._check(pages, until)
            title = str(value["title"])
            if value["next"] is None or not told:
                return title, pages
            first = len(pages)

    async def _scans(self, work: Callable[..., Any], pages: list[Page], until: float) -> None:
        """Fills in the pages that must be read from their pictures, each process taking every so-manieth."""
        scans = [number for number, page in enumerate(pages) if page is None]

        async def some(numbers: list[int]) -> None:
            while numbers:
                _, (blob,) = await work(f"{_CHILD}:read_scans", {"numbers": numbers, "seconds": AT_ONCE})
                read = _told(blob)[: len(numbers)] or [("it came back empty",)]
                for number, page in zip(numbers, read, strict=False):
                    pages[number] = page
                self._check(pages, until)
                numbers = numbers[len(read) :]

        tasks = [asyncio.ensure_future(some(scans[turn :: self._at_once])) for turn in range(self._at_once)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _check(self, pages: list[Page], until: float) -> None:
        if sum(len(page) for page in pages if isinstance(page, str)) > self._most_text:
            raise Permanent(f"it holds more than {self._most_text:,} characters: split it")
        if self._clock.monotonic() > until:
            raise Permanent(f"it takes longer to read than {self._in_all:g} s: split it")


def title_of(told: str, stem: str) -> str:
    """What the PDF says of itself, unless that is the name of a file or of a program."""
    title = " ".join(_WRITTEN_WITH.sub("", told).split())
    fits = 3 <= len(title) <= 300 and title.isprintable() and "\ufffd" not in title
    wrong = any(pattern.fullmatch(title) for pattern in (_NO_TITLE, _FILE_NAME, _CODE))
    return title if fits and not wrong and any(map(str.isalpha, title)) else stem


def _assembled(uri: str, title: str, pages: list[Page], fingerprint: str | None) -> Document:
    texts: list[str] = []
    marks: list[Mark] = []
    unread: dict[int, str] = {}
    offset = 0
    for number, page in enumerate(pages, 1):
        if isinstance(page, tuple):
            unread[number] = page[0].partition(": send it")[0]
        elif page:
            marks.append(Mark(offset, {"page": number}))
            texts.append(page)
            offset += len(page) + 2
    if unread and not texts:
        raise Permanent(f"{uri}: no page of it can be read: put a sound copy in its place")
    metadata: dict[str, Any] = {"pages": len(pages)}
    if unread:
        log.warning("%d of %d pages of %s are left out: %s", len(unread), len(pages), uri, next(iter(unread.values())))
        metadata["unread_pages"] = list(unread)
    return Document(
        uri,
        title,
        "\n\n".join(texts),
        marks=tuple(marks),
        metadata=metadata,
        fingerprint=None if unread else fingerprint,
    )


def _told(blob: bytes) -> list[Page]:
    """What a child tells is checked: it may have read something hostile."""
    try:
        return _PAGES.validate_json(blob)
    except ValidationError as error:
        raise Permanent("it leads its reader astray: print it to a new PDF") from error


def _for_owners(said: str) -> str:
    """The words are for somebody who has sent a file; here it lies in a folder."""
    what, sent, _ = said.partition(": send it")
    if not sent:
        return f"it cannot be read ({said})" if said.startswith(_CHILD) else said
    return f"{what}: put {'an unlocked' if 'password' in what else 'a sound'} copy in its place"
