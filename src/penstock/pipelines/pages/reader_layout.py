"""The layout of a printed page, found by rules: rows set straight, running head and page number, headings, and runs of
text as paragraphs, lists or tables. Nothing here knows what a catalogue is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from penstock.gemini_local.readers import Line, Page, Word
from penstock.pipelines.pages.prompts.catalogue import BlockKind

NUMBER = r"\d{1,4}|[ivxlc]{1,7}|[IVXLC]{1,7}"

_number = re.compile(rf"[\[(\-\u2014]?\s?({NUMBER})\s?[\])\-\u2014]?[.:,]?")
_OPENING, _CLOSING = '"\u201c\u201e', '"\u201d\u201c'
_DIRT = "*\u201a\u2018'`\u00b7.,:;_|\u00b0\u00a9\u00ae~\u2022-"
_price = re.compile(r"(?:^|\s|\.)\$?\d{0,3}[ .,]?\d\d[^\w]{0,3}$")
_leaders = re.compile(r"(?:\s*[.\u00b7\u2026_,]){3,}\s*")
_ENOUGH = 200
"""Lines from which the skew is taken: more do not make it better."""


@dataclass(frozen=True)
class Row:
    """A line of type, its box as if the page lay straight; `height` is that of its usual word."""

    text: str
    left: float
    right: float
    top: float
    bottom: float
    height: float
    certain: bool = True
    """Whether its first and last word could be read well."""

    @property
    def middle(self) -> float:
        return (self.left + self.right) / 2

    @property
    def capitals(self) -> float:
        letters = [letter for letter in self.text if letter.isalpha()]
        return sum(letter.isupper() for letter in letters) / len(letters) if letters else 0.0


@dataclass(frozen=True)
class Piece:
    """A part of the page in reading order: one heading, one paragraph, or the entries of one list or table. `indented`
    says of a paragraph whether its first line is."""

    kind: BlockKind
    entries: tuple[str, ...]
    indented: bool = True

    @property
    def text(self) -> str:
        return "\n".join(self.entries)


@dataclass(frozen=True)
class Layout:
    number: str | None
    head: str | None
    pieces: tuple[Piece, ...]
    centred: float
    """The part of the rows that are headings."""


def layout(page: Page) -> Layout:
    rows = _rows(page)
    number, head, body = _edges(rows, page)
    kinds = _headings(body, page)
    pieces: list[Piece] = []
    run: list[Row] = []
    edge = _high([row.right for row in body])
    for row, is_heading in zip(body, kinds, strict=True):
        if not is_heading:
            run.append(row)
            continue
        pieces += _pieces(run, edge, page.width)
        pieces.append(Piece("heading", (row.text,)))
        run = []
    pieces += _pieces(run, edge, page.width)
    return Layout(number, head, tuple(pieces), sum(kinds) / len(kinds) if kinds else 0.0)


def _rows(page: Page) -> list[Row]:
    slope = _slope(page)
    rows = [row for line in page.lines if (row := _row(line, slope)) is not None]
    if rows:
        # A running head stands above all else, whatever the order in which the parts of the page were found.
        highest = min(rows, key=lambda row: row.bottom)
        if all(row is highest or row.top > highest.bottom for row in rows):
            rows = [highest, *(row for row in rows if row is not highest)]
    return rows


def _slope(page: Page) -> float:
    """By how much lines go down to the right: the usual one over the long lines."""
    found: list[float] = []
    for line in page.lines:
        first, last = line.words[0].box, line.words[-1].box
        if len(line.words) >= 4 and last[0] - first[0] > page.width * 0.25:
            # Bottoms differ by the tails of letters; over a long line that is little.
            found.append((last[3] - first[3]) / (last[0] - first[0]))
            if len(found) == _ENOUGH:
                break
    return median(found) if found else 0.0


def _row(line: Line, slope: float) -> Row | None:
    words = _clean(list(line.words))
    if not words:
        return None
    text = " ".join(word.text for word in words).lstrip(_DIRT)
    if text[0] in _OPENING and not any(quote in text[1:] for quote in _CLOSING):
        text = text[1:].lstrip(_DIRT)
    lefts, tops, rights, bottoms = zip(*(word.box for word in words), strict=True)
    across = slope * (min(lefts) + max(rights)) / 2
    middle = (min(tops) + max(bottoms)) / 2
    height = median(word.box[3] - word.box[1] for word in words)
    return Row(
        text=text,
        left=min(lefts) + slope * middle,
        right=max(rights) + slope * middle,
        top=middle - height / 2 - across,
        bottom=middle + height / 2 - across,
        height=height,
        certain=min(words[0].confidence, words[-1].confidence) >= 60,
    )


def _clean(words: list[Word]) -> list[Word]:
    """Without specks that were taken for signs at either end of the line."""
    while words and not _has_letter(words[0].text):
        words.pop(0)
    while words and (not _has_letter(words[-1].text) or _astray(words)) and words[-1].text not in ("\u2014", "\u2013"):
        words.pop()
    return words


def _has_letter(text: str) -> bool:
    return any(letter.isalnum() for letter in text)


def _astray(words: list[Word]) -> bool:
    """A letter or two far behind the end of the line."""
    if len(words) < 2 or len(words[-1].text) > 2 or any(letter.isdigit() for letter in words[-1].text):
        return False
    before, last = words[-2].box, words[-1].box
    return last[0] - before[2] > 2.5 * (before[3] - before[1])


def _edges(rows: list[Row], page: Page) -> tuple[str | None, str | None, list[Row]]:
    """Page number, running head, and what is between them."""
    if not rows:
        return None, None, []
    usual = median(row.height for row in rows)
    number: str | None = None
    heads: list[str] = []
    body = list(rows)
    while body and len(rows) > 1 and _at_the_top(body, rows[0], usual, page):
        row = body.pop(0)
        found, rest = _numbered(row)
        number = number or found
        heads += [rest] if rest else []
    if body and number is None and body[-1].top > page.height * 0.85 and _number.fullmatch(body[-1].text):
        found, rest = _numbered(body.pop())
        number = found
    return number, " ".join(heads) or None, body


def _at_the_top(body: list[Row], first: Row, usual: float, page: Page) -> bool:
    row = body[0]
    if row is not first and row.top > first.bottom:
        return False
    if row.bottom > page.height * 0.15 or row.height > usual * 1.25 or len(row.text) > 80:
        return False
    after = next((other for other in body[1:] if other.top > row.bottom), None)
    apart = after is None or after.top - row.bottom > 1.2 * usual
    return apart and (row.capitals > 0.7 or _numbered(row)[0] is not None)


def _numbered(row: Row) -> tuple[str | None, str]:
    """The page number at one end of a row, where it could be read well, and the rest of the row."""
    words = row.text.split()
    for place in (0, -1):
        found = _number.fullmatch(words[place])
        if found and (found[1].isdigit() or len(words) == 1):
            rest = " ".join(words[1:] if place == 0 else words[:-1])
            return (found[1] if row.certain else None), rest
    return None, row.text


def _headings(rows: list[Row], page: Page) -> list[bool]:
    if not rows:
        return []
    left, right = _low([row.left for row in rows]), _high([row.right for row in rows])
    usual = median(row.height for row in rows)
    middles = ((left + right) / 2, page.width / 2)
    found = [_is_heading(row, left, middles, usual, page.width) for row in rows]
    if sum(found) * 5 < len(rows) * 3:
        return found
    # On a title page the longest lines are centred too, although there is no margin beside them.
    return [one or _centred(row, middles, page.width) for one, row in zip(found, rows, strict=True)]


def _centred(row: Row, middles: Iterable[float], width: float) -> bool:
    return any(abs(row.middle - middle) < width * 0.05 for middle in middles)


def _is_heading(row: Row, left: float, middles: Iterable[float], usual: float, width: float) -> bool:
    if len(row.text) > 90 or sum(letter.isalnum() for letter in row.text) < 2:
        return False
    letters = sum(letter.isalpha() for letter in row.text)
    if row.capitals > 0.9 and letters >= 12 and not row.text.endswith((",", "-")):
        return True
    indented = row.left - left > width * 0.08
    if not (indented and _centred(row, middles, width)):
        return row.height > usual * 1.5 and row.capitals > 0.5
    return not row.text.endswith("-") and not row.text[0].islower()


def _pieces(run: list[Row], edge: float, width: float) -> list[Piece]:
    """The paragraphs, the list or the table that lie between two headings."""
    if not run:
        return []
    if len(run) >= 3 and sum(bool(_price.search(row.text)) for row in run[:3]) >= 2:
        rows = 0
        while rows < len(run) and _price.search(run[rows].text):
            rows += 1
        cells = tuple(_leaders.sub(" | ", row.text).strip() for row in run[:rows])
        return ([Piece("table", cells)] if cells else []) + (_pieces_of_text(run[rows:], edge, width))
    return _pieces_of_text(run, edge, width)


def _pieces_of_text(run: list[Row], edge: float, width: float) -> list[Piece]:
    if not run:
        return []
    left = min(row.left for row in run)
    tolerance = width * 0.015
    inner = [row.left > left + tolerance for row in run]
    full = [row.right > edge - width * 0.06 for row in run]
    stops = sum(row.text.endswith((".", ";")) for row in run)
    if sum(full) * 2 >= len(run) and (len(run) == 1 or stops * 5 < len(run) * 3):
        starts = [place == 0 or inner[place] or _apart(run[place - 1], run[place]) for place in range(len(run))]
        groups = _groups(run, starts)
        firsts = [inner[place] for place, start in enumerate(starts) if start]
        return [Piece("paragraph", (joined(group),), first) for group, first in zip(groups, firsts, strict=True)]
    starts = [place == 0 or not inner[place] for place in range(len(run))]
    entries = tuple(joined(group) for group in _groups(run, starts))
    return [Piece("list", entries)] if len(entries) > 1 or not full[0] else [Piece("paragraph", entries)]


def _apart(before: Row, row: Row) -> bool:
    return row.top - before.bottom > 1.3 * max(before.height, row.height)


def _groups(run: list[Row], starts: list[bool]) -> list[list[Row]]:
    groups: list[list[Row]] = []
    for row, start in zip(run, starts, strict=True):
        if start:
            groups.append([])
        groups[-1].append(row)
    return groups


def joined(rows: list[Row]) -> str:
    """Rows as running text, words that were broken at the end of a line made whole."""
    parts = [rows[0].text]
    for before, row in pairwise(rows):
        if before.text.endswith(("-", "\u00ad")) and row.text[:1].islower():
            parts[-1] = parts[-1][:-1]
        else:
            parts.append(" ")
        parts.append(row.text)
    return "".join(parts)


def _low(values: list[float]) -> float:
    return sorted(values)[len(values) // 20]


def _high(values: list[float]) -> float:
    return sorted(values)[-1 - len(values) // 20] if values else 0.0
