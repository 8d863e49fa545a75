"""What a hit shows: the passage that answers, with the words of the question marked, and where it stands. Pure.

Everything here is somebody else's text. It leaves as plain pieces, which the template escapes; only an address that a
browser may safely follow becomes a link.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from penstock.pipelines.ingestion.index.query import asked, plain
from penstock.pipelines.ingestion.searching import Hit
from penstock.service.dashboard.charts import percent

SHOWN = 400
"""Characters of a passage; the whole chunk is folded behind it."""

STEM = 4
"""Letters from which on the beginning of a word counts as the word: `index` marks `indexes`."""

MOST_HEADINGS = 6
LONGEST_ADDRESS = 4000

_WORD = re.compile(r"[^\W_]+")
_MARKUP = (
    (re.compile(r"^[ \t]*(?:```|~~~).*$", re.MULTILINE), ""),
    (re.compile(r"^[ \t]*#{1,6}[ \t]+.*$", re.MULTILINE), ""),
    (re.compile(r"^[ \t]*\|?(?:[ \t]*:?-{3,}:?[ \t]*\|?)+[ \t]*$", re.MULTILINE), ""),
    (re.compile(r"^[ \t]*(?:[-*+]|>)[ \t]+", re.MULTILINE), "· "),
    (re.compile(r"!?\[([^\[\]\n]*)\]\([^()\s]*\)"), r"\1"),
    (re.compile(r"\*\*|__|`"), ""),
)
_VIDEO_HOSTS = ("youtube.com", "www.youtube.com", "m.youtube.com", "youtu.be")

Piece = tuple[str, bool]
"""Text, and whether it is marked."""


@dataclass(slots=True, frozen=True)
class Shown:
    """A hit as the page shows it."""

    hit: Hit
    title: str
    address: str
    """Where the document can be opened, or nothing."""
    headings: tuple[str, ...]
    page: str
    at: str
    """The time in a video, as `1:02:03`."""
    passage: tuple[Piece, ...]
    before: bool
    after: bool
    """Whether the chunk has more on that side."""
    whole: tuple[Piece, ...]
    full: str
    """The score beside the best one, in per cent."""


def shown(hits: Sequence[Hit], question: str) -> list[Shown]:
    words = Wanted(question)
    best = max((hit.score for hit in hits), default=0.0)
    return [_shown(hit, words, best) for hit in hits]


def _shown(hit: Hit, words: Wanted, best: float) -> Shown:
    position, whole = hit.position, hit.text.strip()
    text = readable(whole)
    start, end = passage(text, words)
    seconds = seconds_of(position)
    headings = position.get("headings")
    told = [str(each) for each in headings if str(each).strip()] if isinstance(headings, (list, tuple)) else []
    return Shown(
        hit,
        hit.title.strip() or hit.source,
        address_of(hit.source, seconds),
        tuple(each for each in told if each.strip() != hit.title.strip())[-MOST_HEADINGS:],
        pages_of(position),
        "" if seconds is None else clock(seconds),
        tuple(marked(text[start:end], words)),
        start > 0,
        end < len(text),
        tuple(marked(whole, words)) if text[start:end] != " ".join(whole.split()) else (),
        percent(100 * min(max(hit.score / best, 0.02), 1.0) if best > 0 else 0.0),
    )


def readable(text: str) -> str:
    """One line of running text: headings, fences and what else Markdown writes around words is left out."""
    for mark, instead in _MARKUP:
        text = mark.sub(instead, text)
    return " ".join(text.split())


class Wanted:
    """The words of a question that mean something, and whether a word of a text is one of them."""

    def __init__(self, question: str) -> None:
        what = asked(question)
        said = [*what.words, *(word for phrase in what.phrases for word in phrase)]
        self._words = {plain(word).strip() for word in said} - {""}
        self._lengths = sorted({len(word) for word in self._words if len(word) >= STEM})
        self._known: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._words)

    def meant(self, word: str) -> str:
        """The word of the question that this one is, or begins with; or nothing."""
        found = self._known.get(word)
        if found is None:
            told = plain(word).strip()
            begins = (told[:length] for length in self._lengths if length <= len(told))
            found = told if told in self._words else next((each for each in begins if each in self._words), "")
            self._known[word] = found
        return found

    def places(self, text: str) -> list[tuple[int, int, str]]:
        """Where they stand in a text: from, to, and which it is."""
        return [(start, end, said) for start, end in _words(text) if (said := self.meant(text[start:end]))]


def _words(text: str) -> list[tuple[int, int]]:
    """Runs of letters and digits with the marks that belong to them, as a question's words are found."""
    spans = list[tuple[int, int]]()
    for found in _WORD.finditer(text):
        start, end = found.span()
        while end < len(text) and text[end] > "\x7f" and unicodedata.category(text[end])[0] == "M":
            end += 1
        if spans and spans[-1][1] == start:
            spans[-1] = spans[-1][0], end
        else:
            spans.append((start, end))
    return spans


def marked(text: str, words: Wanted) -> list[Piece]:
    """The text in pieces; nothing of it is lost."""
    pieces: list[Piece] = []
    at = 0
    for start, end, _ in words.places(text) if words else ():
        if start > at:
            pieces.append((text[at:start], False))
        pieces.append((text[start:end], True))
        at = end
    if at < len(text):
        pieces.append((text[at:], False))
    return pieces


def passage(text: str, words: Wanted, size: int = SHOWN) -> tuple[int, int]:
    """Where the part begins and ends that has the most of the words, cut between words."""
    if len(text) <= size * 1.25:
        return 0, len(text)
    best = _densest(words.places(text), size * 4 // 5)
    start = _edge(text, best - size // 8) if best > size // 8 else 0
    end = min(start + size, len(text))
    if end < len(text) and (space := text.rfind(" ", start + size // 2, end)) > 0:
        end = space
    return start, end


def _densest(places: Sequence[tuple[int, int, str]], reach: int) -> int:
    """Where a stretch of this length begins that has the most different words, and of such ones the most."""
    inside: Counter[str] = Counter()
    best, most, last = 0, (0, 0), 0
    for first, (at, _, said) in enumerate(places):
        while last < len(places) and places[last][0] < at + reach:
            inside[places[last][2]] += 1
            last += 1
        if (much := (len(inside), last - first)) > most:
            best, most = at, much
        inside[said] -= 1
        if not inside[said]:
            del inside[said]
    return best


def _edge(text: str, at: int) -> int:
    """The beginning of the next sentence or word, if one is near."""
    for mark in ("\n", ". ", " "):
        if (found := text.find(mark, at, at + 60)) >= 0:
            return found + len(mark)
    return at


def address_of(uri: str, seconds: float | None = None) -> str:
    """The address of a document if it is one of the web, with the second of a video; nothing of other schemes, and no
    names and passwords."""
    if len(uri) > LONGEST_ADDRESS or any(char.isspace() or not char.isprintable() for char in uri):
        return ""
    try:
        parts = urlsplit(uri)
        host = parts.hostname or ""
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc or "\\" in uri:
        return ""
    if seconds is None or host not in _VIDEO_HOSTS:
        return uri
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "t"]
    return urlunsplit(parts._replace(query=urlencode([*query, ("t", f"{int(seconds)}s")])))


def seconds_of(position: Mapping[str, Any]) -> float | None:
    said = position.get("start_seconds")
    if not isinstance(said, (int, float)) or isinstance(said, bool) or not math.isfinite(said):
        return None
    return max(float(said), 0.0)


def clock(seconds: float) -> str:
    """`2:05`, `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def pages_of(position: Mapping[str, Any]) -> str:
    """`3`, `3 to 5`."""
    several = position.get("pages")
    if isinstance(several, (list, tuple)) and several:
        first, last = several[0], several[-1]
        return str(first) if first == last else f"{first} to {last}"
    said = position.get("page")
    return "" if said is None else str(said)
