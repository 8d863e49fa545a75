"""Pages that are plain text or Markdown: their characters, whatever the server calls them, and a title."""

from __future__ import annotations

import codecs
import re
from urllib.parse import unquote, urlsplit

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NOT_FOR_PAGES = frozenset(("idna", "punycode", "unicode_escape", "raw_unicode_escape", "utf-7", "undefined"))
"""Codecs that are slow, or read one text as another."""

_HEADING = re.compile(r"^#{1,2}[ \t]+(.{1,300}?)[ \t]*#*[ \t]*$", re.MULTILINE)
_HEAD = 10_000


def decoded(body: bytes, charset: str | None) -> str:
    """By its mark, by what the server says, as UTF-8, and else as what old pages are in."""
    marked = next((name for mark, name in _MARKS if body.startswith(mark)), None)
    for name in (marked, charset, "utf-8"):
        if name is None or not _is_for_pages(name):
            continue
        try:
            return body.decode(name)
        except (UnicodeError, LookupError):
            continue
    return body.decode("cp1252", "replace")


def is_text(text: str) -> bool:
    """Servers call what they do not know plain text."""
    return "\x00" not in text


def title_of(url: str, text: str = "") -> str:
    """The first heading, or the last name in the address, or the host."""
    heading = _HEADING.search(text[:_HEAD])
    if heading:
        return heading[1]
    parts = urlsplit(url)
    name = unquote(parts.path.rstrip("/").rpartition("/")[2])
    return "".join(character for character in name if character.isprintable()) or (parts.hostname or url)


def _is_for_pages(name: str) -> bool:
    try:
        return codecs.lookup(name).name not in _NOT_FOR_PAGES
    except (LookupError, ValueError):
        return False
