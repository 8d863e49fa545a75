"""The characters of a page, whatever its server, its head and its bytes say about them: as browsers read it, and where
what is declared cannot be, as what it looks like."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable

from charset_normalizer import from_bytes

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""The longer one first where one begins another."""

_AS_BROWSERS = {
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "hz": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949",
    "big5": "big5hkscs",
}  # fmt: skip
"""A label stands for the larger character set that its pages are really written in."""

_MANY_BYTES = frozenset({"utf-8", "gb18030", "cp932", "euc_jp", "iso2022_jp", "cp949", "big5hkscs"})
_ONE_BYTE = frozenset(
    {f"cp125{number}" for number in range(9)}
    | {f"iso8859-{number}" for number in (*range(2, 9), 10, 13, 14, 15, 16)}
    | {"cp874", "cp866", "koi8-r", "koi8-u", "mac-roman", "mac-cyrillic"}
)
_FOR_PAGES = _MANY_BYTES | _ONE_BYTE
"""Python knows more: codecs that are slow, and some that read one text as another."""

_HEAD = 8192
_DECLARED = re.compile(rb"""(?i)<(?:meta\b[^>]*?\bcharset|\?xml\b[^>]*?\bencoding)\s*=\s*["']?\s*([\w.:-]{1,40})""")
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_TEXTS = re.compile(rb">([^<>]*[\x80-\xff][^<>]*)")
_SAMPLE = 32_768


def decoded(body: bytes, charset: str | None = None) -> str:
    """`charset` is what the server says. Characters that cannot be read are U+FFFD."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    names = _declared(body, charset)
    wide = _wide(body)
    if wide is not None:
        return body.decode(wide, "replace")
    if "iso2022_jp" in names and b"\x1b$" in body:
        return body.decode("iso2022_jp", "replace")
    if not _NOT_ASCII.search(body):
        return body.decode("ascii")
    # Text in another encoding is almost never UTF-8 as well: that it is counts more than what is declared.
    return _fitting(body, dict.fromkeys(["utf-8", *names])) or _guessed(body)


def _declared(body: bytes, charset: str | None) -> list[str]:
    found = _DECLARED.search(body[:_HEAD])
    said = _known(charset) if charset else None
    own = _known(found[1].decode("ascii")) if found else None
    # Servers say Latin 1 of everything, without having looked.
    order = (own, said) if said == "cp1252" else (said, own)
    return list(dict.fromkeys(name for name in order if name))


def _known(label: str) -> str | None:
    """What a label means, if pages are written in it."""
    bare = label.strip().strip("\"'").lower()
    for each in (bare, bare.removeprefix("x-"), bare.removesuffix("-i")):
        try:
            name = codecs.lookup(each).name
        except (LookupError, ValueError):
            continue
        name = _AS_BROWSERS.get(name, name)
        return name if name in _FOR_PAGES else None
    return None


def _wide(body: bytes) -> str | None:
    """Two bytes for a character, without a mark: every other byte of the markup is zero."""
    even, odd = body[:512:2].count(0), body[1:512:2].count(0)
    most = min(len(body), 512) // 4
    if len(body) < 8 or max(even, odd) <= most or min(even, odd) > most // 4:
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _fitting(body: bytes, names: Iterable[str]) -> str | None:
    """The first in which the text makes sense: hardly any byte is out of place."""
    for name in names:
        try:
            return body.decode(name)
        except UnicodeDecodeError:
            text = body.decode(name, "replace")
        other = len(text) - len(text.encode("ascii", "ignore"))
        if name in _ONE_BYTE or text.count("\ufffd") * 4 < other:
            return text
    return None


def _guessed(body: bytes) -> str:
    """By the statistics of a sample of what is not ASCII."""
    sample = bytearray()
    for found in _TEXTS.finditer(b">" + body):
        # Whole texts: half of a character would rule out what it is written in.
        sample += found[1] + b"\n"
        if len(sample) > _SAMPLE:
            break
    best = from_bytes(bytes(sample)).best()
    name = _known(best.encoding) if best else None
    return body.decode(name or "cp1252", "replace")
