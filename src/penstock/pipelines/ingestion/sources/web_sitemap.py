"""Sitemaps: which pages a site says it has. Reading one is bounded in bytes, elements and depth, and a document type
(with which XML can grow without end, or fetch other files) is refused; walking them is bounded in files."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from xml.parsers import expat

from penstock.pipelines.ingestion.sources.web_urls import LONGEST

LARGEST = 10 * 2**20
"""Bytes of one sitemap, unpacked."""

MOST_ENTRIES = 50_000
"""Of one sitemap: as many as the protocol allows."""

MOST_FILES = 50
DEEPEST = 16

_GZIP = b"\x1f\x8b"
_HEAD = 200
"""Bytes in which XML shows itself, in whatever encoding."""


class BadSitemap(Exception):
    """The bytes are no sitemap that is read here; the message says why, as the rest of a sentence about it."""


@dataclass(slots=True, frozen=True)
class Sitemap:
    """Addresses of pages, and of other sitemaps, as they are written."""

    pages: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()


async def walk(roots: Sequence[str], read: Callable[[str], Awaitable[Sitemap | None]], *, most: int) -> list[str]:
    """Up to `most` pages of the sitemaps at `roots` and of those that they name. `read` gives what is to be taken of
    one; None where it cannot be had."""
    pages: dict[str, None] = {}
    waiting = list(dict.fromkeys(roots))
    known = set(waiting)
    for done in range(MOST_FILES):
        if done >= len(waiting) or len(pages) >= most:
            break
        told = await read(waiting[done])
        if told is None:
            continue
        pages.update(dict.fromkeys(told.pages))
        waiting += [each for each in dict.fromkeys(told.sitemaps) if each not in known]
        known.update(told.sitemaps)
    return list(pages)[:most]


def parsed(body: bytes) -> Sitemap:
    """An XML sitemap or an index of them, or a plain list of addresses; gzipped or not."""
    if body.startswith(_GZIP):
        body = _unpacked(body)
    if len(body) > LARGEST:
        raise BadSitemap(f"is larger than the {LARGEST // 2**20} MB that are read")
    if b"<" not in body[:_HEAD]:
        lines = (line.strip() for line in body.decode("utf-8-sig", "replace").splitlines())
        addresses = [line for line in lines if line.startswith(("http://", "https://")) and len(line) <= LONGEST]
        return Sitemap(pages=tuple(addresses[:MOST_ENTRIES]))
    reader = _Reader()
    parser = expat.ParserCreate(namespace_separator="\n")
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    parser.StartDoctypeDeclHandler = reader.doctype
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        why = expat.ErrorString(error.code) or "an error"
        raise BadSitemap(f"is not well-formed XML ({why}, line {error.lineno})") from None
    except (ValueError, LookupError) as error:
        raise BadSitemap(f"is in an encoding that is not read ({error})") from None
    return Sitemap(tuple(reader.pages), tuple(reader.sitemaps))


class _Reader:
    """Takes `url/loc` and `sitemap/loc`; pictures and videos have a `loc` of their own, which is not a page's."""

    def __init__(self) -> None:
        self.pages: list[str] = []
        self.sitemaps: list[str] = []
        self._open: list[str] = []
        self._text: list[str] = []
        self._length = 0

    def start(self, name: str, _: dict[str, str]) -> None:
        if len(self._open) >= DEEPEST:
            raise BadSitemap(f"has elements that are nested more than {DEEPEST} deep")
        local = name.rpartition("\n")[2]
        if not self._open and local not in ("urlset", "sitemapindex"):
            raise BadSitemap(f"is no sitemap: its root is {local[:40]!r}")
        self._open.append(local)
        self._text.clear()
        self._length = 0

    def characters(self, text: str) -> None:
        self._length += len(text)
        if self._length <= LONGEST:
            self._text.append(text)

    def end(self, _: str) -> None:
        path = self._open[1:]
        self._open.pop()
        if path in (["url", "loc"], ["sitemap", "loc"]) and 0 < self._length <= LONGEST:
            listed = self.pages if path[0] == "url" else self.sitemaps
            if len(listed) < MOST_ENTRIES:
                listed.append("".join(self._text).strip())

    def doctype(self, *_: object) -> None:
        raise BadSitemap("declares a document type, which a sitemap never does and which is not read")


def _unpacked(body: bytes) -> bytes:
    packed = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        return packed.decompress(body, LARGEST + 1)
    except zlib.error as error:
        raise BadSitemap(f"is damaged ({error})") from None
