"""Chunkers: from a document to the pieces that are embedded and found. Pure functions: the same document gives the same
chunks, and every character of it that is not blank is in one of them.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from penstock.engine.errors import InvalidConfiguration
from penstock.pipelines.ingestion.chunking_cuts import Blocks, Room, pieces, windows
from penstock.pipelines.ingestion.chunking_markdown import Outline
from penstock.pipelines.ingestion.chunking_sections import Sections
from penstock.pipelines.ingestion.model import Chunk, ChunkerSpec, Document, Mark
from penstock.pipelines.ingestion.plugins import Chunker, from_packages

GROUP = "penstock.chunkers"

BYTES_PER_TOKEN = 4
"""As `text_tokens` counts."""

_SURROGATES = re.compile("[\ud800-\udfff]")
_OURS = frozenset({"start", "end", "headings", "split", "pages"})
"""What a mark cannot set in a chunk's position: `start` and `end` are characters there, in a mark they are seconds."""


def chunked(document: Document, spec: ChunkerSpec) -> list[Chunk]:
    """The document's chunks, by the chunker that `spec` names. Places are those of the document as it is given."""
    text = cleaned(document.text)
    if not text or text.isspace():
        return []
    given = document if text is document.text else replace(document, text=text)
    found = chunker_of(spec)(given, spec)
    if spec.name in CHUNKERS:
        return list(found)
    return [chunk for chunk in (_checked(chunk, spec.name) for chunk in found) if chunk.text.strip()]


def chunker_of(spec: ChunkerSpec) -> Chunker:
    known = CHUNKERS.get(spec.name)
    if known is not None:
        return known
    brought = from_packages(GROUP, spec.name, list(CHUNKERS))
    if not callable(brought):
        raise InvalidConfiguration(f"{GROUP} {spec.name!r} is {brought!r}; a chunker is a function (document, spec)")
    return brought  # type: ignore[no-any-return]


def cleaned(text: str) -> str:
    """Without what no database keeps (NUL, half of a surrogate pair), and with one kind of line end. Character for
    character, so that places stay what they are."""
    if "\0" in text:
        text = text.replace("\0", " ")
    if "\r" in text:
        text = text.replace("\r\n", " \n").replace("\r", "\n")
    if text.startswith("\ufeff"):
        text = " " + text[1:]
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = _SURROGATES.sub("\ufffd", text)
    return text


def markdown(document: Document, spec: ChunkerSpec) -> list[Chunk]:
    """By headings first. A section that fits stays whole, and so do code and tables; what does not fit is cut where
    paragraphs end, else at items of lists, sentences, lines, words. Text that is not Markdown has no headings."""
    if document.format != "markdown":
        return sentence(document, spec)
    text, room, places = document.text, _room(spec), _Places(document.marks)
    outline = Outline(text)
    blocks = Blocks(outline.blocks)
    chunks: list[Chunk] = []
    sections = Sections(text, outline.headings, room.most)
    for region in sections.regions():
        path: tuple[str, ...] | None = region.path
        for start, end in pieces(text, region.start, region.end, room, blocks):
            split = bool(blocks.around(start) or blocks.around(end))
            chunks.append(_chunk(text, start, end, places, sections.path(start) if path is None else path, split=split))
            path = None
    return chunks


def sentence(document: Document, spec: ChunkerSpec) -> list[Chunk]:
    """Whole sentences, as many as fit; rather whole paragraphs, where that leaves no small pieces."""
    text, places = document.text, _Places(document.marks)
    found = pieces(text, 0, len(text), _room(spec), Blocks())
    return [_chunk(text, start, end, places) for start, end in found]


def fixed(document: Document, spec: ChunkerSpec) -> list[Chunk]:
    """Windows of one size, cut between words."""
    text, places = document.text, _Places(document.marks)
    return [_chunk(text, start, end, places) for start, end in windows(text, 0, len(text), _room(spec))]


CHUNKERS: dict[str, Chunker] = {"markdown": markdown, "sentence": sentence, "fixed": fixed}


class _Places:
    """What the marks of a document say of a stretch of it."""

    __slots__ = ("_marks", "_offsets")

    def __init__(self, marks: Sequence[Mark]) -> None:
        self._marks = sorted(marks, key=lambda mark: mark.offset)
        self._offsets = [mark.offset for mark in self._marks]

    def of(self, start: int, end: int) -> dict[str, Any]:
        """Where it begins; and of pages and times, where it ends. What stands before the first mark is taken to it."""
        last = bisect_left(self._offsets, end) - 1
        if last < 0:
            return {}
        first = max(0, bisect_right(self._offsets, start) - 1)
        begin, finish = self._marks[first].position, self._marks[last].position
        found = {name: value for name, value in begin.items() if name not in _OURS}
        if begin.get("page") != finish.get("page") and "page" in begin and "page" in finish:
            found["pages"] = [begin["page"], finish["page"]]
        if "start" in begin:
            found["start_seconds"] = begin["start"]
            found["end_seconds"] = finish.get("end", finish.get("start", begin["start"]))
        return found


def _chunk(
    text: str, start: int, end: int, places: _Places, path: tuple[str, ...] = (), *, split: bool = False
) -> Chunk:
    piece = text[start:end].rstrip()
    position: dict[str, Any] = {"start": start, "end": start + len(piece)}
    if path:
        position["headings"] = list(path)
    if split:
        position["split"] = True
    return Chunk(piece, position | places.of(start, start + len(piece)))


def _room(spec: ChunkerSpec) -> Room:
    return Room(spec.size * BYTES_PER_TOKEN, spec.overlap * BYTES_PER_TOKEN)


def _checked(chunk: object, name: str) -> Chunk:
    """What a chunker of another package has made: its mistakes are told here, not by the database."""
    if not isinstance(chunk, Chunk):
        raise InvalidConfiguration(f"{GROUP} {name!r} made {type(chunk).__name__}; it must make Chunk")
    return chunk if (text := cleaned(chunk.text)) is chunk.text else replace(chunk, text=text)
