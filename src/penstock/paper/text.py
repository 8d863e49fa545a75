"""PDFs as plain text, page by page, without the boxes of the words: what a search needs, in a millisecond or two for a
page. Pages that have no text of their own are left to OCR, which takes a second or two. Runs in a child process."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from statistics import multimode
from typing import Any

import pypdfium2 as pdfium  # type: ignore[import-untyped]

from penstock.paper import ocr, pdf, reading
from penstock.paper.unreadable import Unreadable
from penstock.remote.pool.errors import TooLong
from penstock.remote.pool.pages import page_done

MUCH = 8 * 2**20
"""Characters that are handed in before the next page is begun."""

LONGEST_TITLE = 1000

APART = 1.35
"""Lines that are so much further apart than is usual on their page have a paragraph's end between them."""

_LINE_ENDS = re.compile("\r\n?|\n")
_HYPHENS = "\x02\ufffe\u00ad"
"""What pdfium gives for a hyphen at the end of a line, of which it makes no end; and the soft hyphen."""

_BREAK = re.compile(f"[{_HYPHENS}]|-\n")
_BROKEN = re.compile(rf"\b(\w+)(?:[{_HYPHENS}]\n?|-\n)(?=([^\W\d_]\w*))")
_WORD = re.compile(r"\w+(?:-\w+)*")
_SILENT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff\ufffe\uffff]")
_BLANKS = re.compile(r"[ \t\xa0]+")
_LIGATURES = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"},
)


def read_text(args: Mapping[str, Any], blobs: Sequence[bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """The text of the PDF in `blobs[0]` from page `first` (counted from 0) on, until `seconds` have passed or there is
    much to hand in: then `next` is the page to go on with. A blob of JSON has for each page its text, or null where it
    has none and must be read from its picture, or `[why]` where it cannot be read. More than `pages` pages are
    refused."""
    (data,) = blobs
    until = time.monotonic() + args["seconds"]
    told: list[str | list[str] | None] = []
    size = 0
    with pdf.opened(data, forms=False) as document:
        count = reading.checked_pages(len(document), args["pages"])
        title = document.get_metadata_value("Title")[:LONGEST_TITLE].encode("utf-8", "replace").decode()
        for number in range(args["first"], count):
            page_done()
            page = _tried(document, number, _own_text)
            told.append(page)
            size += len(page or "")
            if time.monotonic() >= until or size > MUCH:
                break
    after = args["first"] + len(told)
    return {"pages": count, "title": title, "next": after if after < count else None}, [_packed(told)]


def read_scans(args: Mapping[str, Any], blobs: Sequence[bytes]) -> tuple[None, list[bytes]]:
    """The pages `numbers` by OCR, as in `read_text`: as many of them as `seconds` allow, but at least one."""
    (data,) = blobs
    until = time.monotonic() + args["seconds"]
    told: list[str | list[str] | None] = []
    with pdf.opened(data) as document:
        for number in args["numbers"]:
            page_done()
            told.append(_tried(document, number, _seen_text))
            if time.monotonic() >= until:
                break
    return None, [_packed(told)]


def as_prose(text: str) -> str:
    """Lines without blanks around them, words whole that were broken at the end of a line, no control characters. A
    hyphen stays where the page has the word with it elsewhere, and the joined one nowhere."""
    text = text.translate(_LIGATURES)
    if _BREAK.search(text):
        words = {word.lower() for word in _WORD.findall(text)}

        def mended(found: re.Match[str]) -> str:
            before, after = found[1], found[2]
            joined, hyphened = f"{before}{after}".lower(), f"{before}-{after}".lower()
            meant = hyphened in words and joined not in words
            return f"{before}-" if meant or after[0].isupper() else before

        text = _BROKEN.sub(mended, text)
    lines = (_BLANKS.sub(" ", line).strip() for line in _SILENT.sub("", text).split("\n"))
    return re.sub("\n{3,}", "\n\n", "\n".join(lines)).strip()


def _tried(document: pdfium.PdfDocument, number: int, how: Any) -> str | list[str] | None:
    """A page that cannot be read is told of; the others are read all the same."""
    try:
        with closing(reading.loaded(document, number)) as page:
            text: str | None = how(page)
            return text
    except (Unreadable, TooLong) as error:
        return [str(error)]


def _own_text(page: pdfium.PdfPage) -> str | None:
    with closing(page.get_textpage()) as text:
        count = text.count_chars()
        if count > pdf.MOST_CHARACTERS:
            raise Unreadable(f"it holds {count} characters; at most {pdf.MOST_CHARACTERS} are read")
        characters = pdf._characters(text, count)
        if not pdf._worth_reading(characters, page):
            return "" if pdf.is_blank(page) else None
        lines = _lines(text, characters)
    whole = "\n".join(lines).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return as_prose(whole)


def _seen_text(page: pdfium.PdfPage) -> str:
    return as_prose(ocr.read_image(pdf.picture(page), timeout=reading.ONE_PAGE, dpi=pdf.DPI).text)


def _lines(text: pdfium.PdfTextPage, characters: str) -> list[str]:
    """In pdfium's order, with an empty line where a paragraph ends: after a gap, and at the top of a column."""
    lines: list[str] = []
    tops: list[float] = []
    start = 0
    for end in [*_LINE_ENDS.finditer(characters), None]:
        line = characters[start : end.start() if end else len(characters)]
        if stripped := line.strip():
            lines.append(stripped)
            tops.append(text.get_charbox(start + line.index(stripped[0]), loose=True)[3])
        start = end.end() if end else start
    steps = [above - below for above, below in pairwise(tops)]
    usual = min(multimode(round(step) for step in steps if step > 1), default=0)
    out = lines[:1]
    for line, step in zip(lines[1:], steps, strict=True):
        if step > APART * usual or step < -usual:
            out.append("")
        out.append(line)
    return out


def _packed(pages: Sequence[str | list[str] | None]) -> bytes:
    return json.dumps(pages, ensure_ascii=False, separators=(",", ":")).encode()
