"""Text as chunkers see it: lengths in bytes of UTF-8 by places in characters, where sentences and items begin, and what
is one character to a reader. All by `re` and `str`, on no more text than a chunk: no loop goes over characters.
"""

from __future__ import annotations

import re
import unicodedata

INDENT = 32
"""The most white space a chunk begins with: the indentation of code is worth keeping."""

_GRAPHEME = 32
"""How far a cut gives way to a character of several code points; what is longer is an attack on the screen."""

_VIRAMA = 9
"""The combining class of the sign that joins two consonants in the scripts of India."""

_WIDE_STOPS = "\u3002\uff01\uff1f\uff61"
"""Full stop, exclamation and question mark of Chinese and Japanese: no space follows them."""

_STOPS = ".!?\u2026\u061f\u06d4\u0964\u0965"
"""And those of Arabic, Urdu and Hindi."""

_CLOSING = "\"'\u201d\u2019\u00bb\u201c)\\]"
_WIDE_CLOSING = "\u201d\u2019\u300d\u300f\uff09\u3011"

SPACE = re.compile(r"\s")
_SPACES = re.compile(r"\s*+")

PARAGRAPH = re.compile(r"\n[^\S\n]*+\n")
"""The end of a paragraph."""

ITEM = re.compile(
    r"\n(?:(?=[^\S\n]*+(?:[-*+\u2022\u2023\u2013]|\d{1,9}[.)])[^\S\n])"
    rf"|(?<=[{_STOPS}{_WIDE_STOPS}{_CLOSING}]\n)|(?<=[{_STOPS}{_WIDE_STOPS}{_CLOSING}] \n))"
)
"""The line break before an item of a list, or after a line that ends with a sentence."""

SENTENCE = re.compile(
    # A lower-case letter goes on with the sentence. French has a space before the closing quotation mark.
    rf"[{_STOPS}][{_STOPS}{_CLOSING}*_`]{{0,4}}+(?:\s\u00bb)?+\s++(?![a-z\u00df-\u00f6\u00f8-\u00ff])"
    # What is said in Japanese is followed by "to" or "tte", within the sentence.
    rf"|[{_WIDE_STOPS}][{_WIDE_STOPS}{_WIDE_CLOSING}]{{0,4}}+(?![\u3068\u3063])"
)
"""The end of a sentence, with the white space after it, unless `abbreviated`."""

_ABBREVIATION = re.compile(
    r"(?:\b(?:[^\W\d_]|\d{1,2}|"  # initials and "z. B."; "3. Oktober"
    r"Dr|Mr|Mrs|Ms|Mx|Prof|Rev|Hon|Sen|Rep|Gov|Gen|Col|Lt|Sgt|Capt|St|Ste|Jr|Sr|Messrs|"
    r"[Vv]s|[Cc]f|[Vv]iz|[Aa]pprox|[Ff]igs?|[Ee]qs?|[Ss]ecs?|[Cc]h|[Vv]ols?|[Nn]os|No|pp|eds?|al|"
    r"Mme|Mlle|MM|[\u00c9\u00e9]d|[Nn]r|[Bb]d|[Aa]bs|[Aa]rt|[Zz]iff|[Aa]bb|[Tt]ab|[Kk]ap|[Aa]nm|[Hh]rsg|[Ss]og|[Bb]zw|"
    r"[Cc]a|[Vv]gl|[Ee]vtl|[Gg]gf|[Ii]nkl|[Ee]xkl|[Zz]zgl|[Mm]ax|[Mm]in|[Mm]io|[Mm]rd|[Tt]el|[Ss]tr|Hr|Fr|Dipl|Ing"
    r")|\.[^\W\d_])\Z"  # "e.g", "U.S"
)


def abbreviated(text: str, stop: int) -> bool:
    """Whether what is here is a full stop that ends no sentence."""
    return text[stop] == "." and _ABBREVIATION.search(text, max(0, stop - 8), stop) is not None


def width(text: str, start: int, end: int) -> int:
    piece = text[start:end]
    return len(piece) if piece.isascii() else len(piece.encode("utf-8", "replace"))


def fit(text: str, start: int, most: int) -> int:
    """Where the longest piece ends that begins here and has at most so many bytes."""
    piece = text[start : start + most]
    if piece.isascii():
        return start + len(piece)
    return start + len(piece.encode("utf-8", "replace")[:most].decode("utf-8", "ignore"))


def back(text: str, end: int, most: int) -> int:
    """Where the longest piece begins that ends here and has at most so many bytes."""
    piece = text[max(0, end - most) : end]
    if piece.isascii():
        return end - len(piece)
    return end - len(piece.encode("utf-8", "replace")[-most:].decode("utf-8", "ignore"))


def solid(text: str, at: int, end: int) -> int:
    """The first thing from here on that is not white space."""
    found = _SPACES.match(text, at, end)
    return found.end() if found else at


def lead(text: str, at: int, end: int) -> int:
    """The same, with its indentation if its line begins here too."""
    first = solid(text, at, end)
    line = text.rfind("\n", at, first) + 1
    return line if line and first < end and first - line <= INDENT else first


def word(text: str, low: int, high: int, after: int) -> int:
    """The last white space between `low` and `high`, or the last place up to there that cuts through no character."""
    if high >= len(text) or text[high].isspace():
        return high
    head = text[low:high]
    if head[-1:].isspace():
        return low + len(head.rstrip())
    parts = head.rsplit(None, 1)
    if len(parts) == 2:
        return low + len(parts[0])
    return low if head[:1].isspace() else whole(text, high, after)


def whole(text: str, at: int, limit: int) -> int:
    """This place, or the nearest on the way to `limit` (excluded) that cuts through no visible character."""
    near = range(at, max(limit, at - _GRAPHEME), -1) if limit < at else range(at, min(limit, at + _GRAPHEME))
    return next((place for place in near if not _joined(text, place)), at)


def _joined(text: str, at: int) -> bool:
    """Whether the characters before and after this place are seen as one."""
    if not 0 < at < len(text):
        return False
    before, here = text[at - 1], text[at]
    if here.isascii():
        return False
    if before == "\u200d" or here == "\u200d" or unicodedata.category(here)[0] == "M":
        return True
    if unicodedata.combining(before) == _VIRAMA and here.isalpha():
        return True
    code = ord(here)
    if 0x1F3FB <= code <= 0x1F3FF or 0xE0020 <= code <= 0xE007F or 0x1160 <= code <= 0x11FF:
        return True  # skin tones, tags of flags, the later parts of a Hangul syllable
    return _flag(here) and _flag(before) and _flags_before(text, at) % 2 == 1


def _flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flags_before(text: str, at: int) -> int:
    """Two letters make a flag: how many stand before this place in a row, as far as a cut looks."""
    begin = at
    while begin > max(0, at - 4 * _GRAPHEME) and _flag(text[begin - 1]):
        begin -= 1
    return at - begin
