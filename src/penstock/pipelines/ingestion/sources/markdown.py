"""Folders of Markdown and plain text: a document for each file, with its front matter as metadata."""

from __future__ import annotations

import asyncio
import codecs
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from penstock.engine.clock import Clock
from penstock.engine.errors import Permanent, StepError
from penstock.pipelines.ingestion.model import Document, Entry, Format, Known, Loaded
from penstock.pipelines.ingestion.plugins import Tools
from penstock.pipelines.ingestion.sources import front_matter
from penstock.pipelines.ingestion.sources.folders import (
    Files,
    FolderOptions,
    Place,
    checked_options,
    files_at,
    read,
    unchanged,
)

ENDINGS = (".md", ".markdown", ".mdx", ".txt")

LARGEST = 20_000_000
"""Bytes of one file."""

SEVERAL_SECONDS = 0.2
SEVERAL_CHARACTERS = 2_000_000
"""After which no more files are read in one go."""

LONGEST_TITLE = 300
_LOOKED_AT = 100_000
"""Characters in which the first heading must stand."""

_BYTE_ORDERS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(\S.*)")
_RULER = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_NO_PARAGRAPH = re.compile(r"[ \t]*(?:$|[#>|<]|[-*+][ \t]|\d+[.)][ \t])|    ")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKUP = re.compile(r"[`*]|<[^>]*>|\{[#.:][^}]*\}|(?<!\w)_|_(?!\w)|[ \t]#+[ \t]*$")


def markdown(options: Mapping[str, Any], tools: Tools) -> MarkdownSource:
    """`path`: a folder, or one file; `pattern` and `recursive` as in `FolderOptions`."""
    checked = checked_options("markdown", FolderOptions, options)
    largest = min(LARGEST, int(tools.settings.ingestion.largest_mb * 1_000_000))
    files = files_at("markdown", checked, ENDINGS, resolved=tools.resolved)
    return MarkdownSource(files, tools.clock, largest=largest)


class MarkdownSource:
    def __init__(self, files: Files, clock: Clock, *, largest: int = LARGEST) -> None:
        self._files = files
        self._clock = clock
        self._largest = largest

    def entries(self, cursor: str | None) -> AsyncIterator[Entry]:
        return self._files.entries(cursor)

    async def load(self, entry: Entry, known: Known | None) -> Loaded:
        return await asyncio.to_thread(self._loaded, entry)

    async def load_several(self, entries: Sequence[Entry]) -> list[Loaded | StepError]:
        """The first of these, at least one: in one go, which takes less than each on its own."""
        return await asyncio.to_thread(self._several, entries)

    async def count(self) -> int:
        return await self._files.count()

    async def close(self) -> None:
        """Nothing is kept open."""

    def _several(self, entries: Sequence[Entry]) -> list[Loaded | StepError]:
        found: list[Loaded | StepError] = []
        until, characters = self._clock.monotonic() + SEVERAL_SECONDS, 0
        for entry in entries:
            try:
                loaded = self._loaded(entry)
            except StepError as error:
                found.append(error)
                continue
            found.append(loaded)
            characters += len(loaded.document.text) if isinstance(loaded.document, Document) else 0
            if characters > SEVERAL_CHARACTERS or self._clock.monotonic() > until:
                break
        return found

    def _loaded(self, entry: Entry) -> Loaded:
        place = self._files.find(entry.uri)
        if place is None:
            return Loaded(None)
        if place.size > self._largest:
            raise Permanent(
                f"{place.uri} has {place.size / 1e6:.1f} MB; at most {self._largest / 1e6:g} MB are read: split it"
            )
        now = self._clock.now()
        data = read(place)
        return Loaded(document_of(place, data, place.settled(now) if unchanged(place) else None))


def document_of(place: Place, data: bytes, fingerprint: str | None) -> Document:
    text, encoding = decoded(place.uri, data)
    metadata, text = front_matter.split(text)
    name = PurePosixPath(place.uri)
    form: Format = "plain" if name.suffix.lower() == ".txt" else "markdown"
    told = metadata.pop("title", "")
    title = " ".join(str(told).split())[:LONGEST_TITLE] if not isinstance(told, (list, bool)) else ""
    title = title or (first_heading(text) if form == "markdown" else "")
    if encoding is not None:
        metadata["encoding"] = encoding
    return Document(place.uri, title or name.stem, text, form, metadata=metadata, fingerprint=fingerprint)


def decoded(uri: str, data: bytes) -> tuple[str, str | None]:
    """The text with plain line ends, and the encoding where it is not UTF-8. What is not UTF-8 is most likely of an old
    Windows: then a few letters may be wrong, and the rest can be searched."""
    for mark, encoding in _BYTE_ORDERS:
        if data.startswith(mark):
            text = data[len(mark) :].decode(encoding, "replace")
            told = None if encoding == "utf-8" else encoding
            break
    else:
        try:
            text, told = data.decode(), None
        except UnicodeDecodeError:
            text, told = data.decode("windows-1252", "replace"), "windows-1252"
    if "\x00" in text:
        raise Permanent(f"{uri} is no text: there are zero bytes in it")
    return (text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text), told


def first_heading(text: str) -> str:
    """The first heading that is not code, without its markup; empty where there is none."""
    fence, above = "", ""
    for line in text[:_LOOKED_AT].split("\n"):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
            continue
        if mark:
            fence, above = mark[1], ""
        elif found := _HEADING.fullmatch(line):
            if title := one_line(found[1]):
                return title
        elif above and _RULER.fullmatch(line):
            return one_line(above)
        else:
            above = "" if _NO_PARAGRAPH.match(line) else line
    return ""


def one_line(marked: str) -> str:
    """A heading as plain words."""
    plain = _MARKUP.sub("", _LINK.sub(r"\1", marked[: 4 * LONGEST_TITLE]))
    return " ".join(plain.split())[:LONGEST_TITLE].rstrip()
