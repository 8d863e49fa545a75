"""The pages of a document as something to look things up in: visual rows of words, the numbers, days and labels among
them, and which label each value stands beside. What is looked at is bounded, so that no page takes long."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import lru_cache

from penstock.paper.page import Box, Line, Page, Word
from penstock.pipelines.documents.currencies import CODES
from penstock.pipelines.documents.labels import is_head_of_items, label_at, plain
from penstock.pipelines.documents.values import MONTH_STARTS, fold, parse_date, parse_money

MOST_WORDS = 20_000
"""Of a document that are looked at: its first and its last ones. An invoice has some hundreds on a page."""
COLUMN_REACH = 6.0
"""How many heights of its text a value may stand below its label."""
HEAD_REACH = 4.0
"""How many heights right of a column's head a value in it may begin."""
ROW_REACH = 0.45
"""How far right of its label a number or a day may stand, as part of the page's width; amounts may stand anywhere."""


@dataclass(slots=True)
class Row:
    """Words side by side, from left to right."""

    page: int
    words: list[Word]
    folded: list[str]
    plain: list[str]
    top: int
    bottom: int
    lefts: list[int]
    labels: list[Label] = field(default_factory=list)
    label_lefts: list[int] = field(default_factory=list)
    head_of_items: bool = False


@dataclass(slots=True, frozen=True)
class Spot:
    """Words `first` to `last` (exclusive) of a row. `sure` is the least confidence among them, from 0 to 1."""

    row: int
    first: int
    last: int
    text: str
    box: Box
    page: int
    sure: float


@dataclass(slots=True, frozen=True)
class Label:
    """What a label announces."""

    kind: str
    spot: Spot


@dataclass(slots=True)
class Number:
    """A printed number. `money` says that it looks like an amount: with cents, or beside a currency. `beside` is the
    label it stands beside, and `nearest` whether it is the value that belongs there rather than one on the way."""

    value: Decimal
    spot: Spot
    money: bool
    percent: bool
    beside: Label | None = None
    nearest: bool = False


@dataclass(slots=True)
class Day:
    """A printed day; two where day and month cannot be told apart, the day first."""

    days: tuple[date, ...]
    spot: Spot
    beside: Label | None = None
    nearest: bool = False


@dataclass(slots=True)
class Sheet:
    """All pages. `scanned` says that some of the words come from OCR."""

    pages: Sequence[Page]
    rows: list[Row]
    numbers: list[Number]
    days: list[Day]
    labels: list[Label]
    scanned: bool

    def spot(self, row: int, first: int, last: int) -> Spot:
        return _spot(self.rows[row], row, first, last)

    def label_of(self, spot: Spot, kinds: Collection[str], *, reach: float = ROW_REACH) -> Label | None:
        """The label a value stands beside: the nearest to its left, else the nearest above it in its column. Labels of
        other kinds than these are overlooked in the row, and end the search in the column."""
        labels = self.rows[spot.row].labels
        at = bisect_left(self.rows[spot.row].label_lefts, spot.box[0])
        for label in reversed(labels[max(0, at - 8) : at]):
            if label.kind in kinds and label.spot.last <= spot.first:
                if spot.box[0] - label.spot.box[2] <= reach * self.pages[spot.page].width:
                    return label
                break
        return self.above(spot, kinds)

    def above(self, spot: Spot, kinds: Collection[str]) -> Label | None:
        """The label the spot stands below, as the first value in its column; none in the table of items."""
        height = max(8, spot.box[3] - spot.box[1])
        for index in range(spot.row - 1, max(-1, spot.row - 12), -1):
            row = self.rows[index]
            if row.page != spot.page or spot.box[1] - row.bottom > COLUMN_REACH * height:
                return None
            label = _over(row, spot, height)
            if label is not None:
                if row.head_of_items or self._in_head(index, label, height):
                    return None
                return label if label.kind in kinds else None
            end = bisect_right(row.lefts, spot.box[2])
            for at in range(max(0, end - 3), end):
                if row.words[at].box[2] >= spot.box[0] and any(sign.isdigit() for sign in row.words[at].text):
                    return None
        return None

    def _in_head(self, index: int, label: Label, height: int) -> bool:
        """Whether a label is the second line of a head of items."""
        above = self.rows[index - 1] if index else None
        return above is not None and above.head_of_items and _over(above, label.spot, height) is not None


def _over(row: Row, spot: Spot, height: int) -> Label | None:
    """The label of a row whose column the spot is in: the one right above it, or in a row of heads the last that begins
    left of it."""
    end = bisect_right(row.label_lefts, spot.box[2])
    near = row.labels[max(0, end - 4) : end]
    for label in reversed(near):
        if label.spot.box[2] >= spot.box[0]:
            return label
    if near and len(row.labels) > 1 and spot.box[0] - near[-1].spot.box[2] <= HEAD_REACH * height:
        return near[-1]
    return None


def sheet_of(pages: Sequence[Page]) -> Sheet:
    """Reads the pages once; everything else looks things up."""
    rows: list[Row] = []
    for number, lines in _within_bounds(pages):
        rows.extend(_rows(number, lines))
    sheet = Sheet(pages, rows, [], [], [], any(page.source == "ocr" for page in pages))
    for index, row in enumerate(rows):
        _find_labels(index, row)
        sheet.labels.extend(row.labels)
        days = list(_days(index, row))
        taken = {at for day in days for at in range(day.spot.first, day.spot.last)}
        sheet.days.extend(days)
        sheet.numbers.extend(number for number in _numbers(index, row) if number.spot.first not in taken)
    _stand_beside(sheet)
    return sheet


def _within_bounds(pages: Sequence[Page]) -> Iterator[tuple[int, Sequence[Line]]]:
    counts = [sum(len(line.words) for line in page.lines) for page in pages]
    total = sum(counts)
    seen = 0
    for number, page in enumerate(pages):
        if total <= MOST_WORDS:
            yield number, page.lines
            continue
        kept: list[Line] = []
        for line in page.lines:
            if seen < MOST_WORDS // 2 or seen >= total - MOST_WORDS // 2:
                room = MOST_WORDS // 2
                kept.append(line if len(line.words) <= room else Line(line.words[:room], line.block, line.paragraph))
            seen += len(line.words)
        yield number, kept


_GLUED = re.compile(r"^([^\W\d][^\d:#]*[:#]+)([^:#/\s]\S*)$")


def _rows(page: int, lines: Sequence[Line]) -> Iterator[Row]:
    """Lines that stand side by side make one row. A line of turned text stays alone."""
    boxed = [(line.box, line) for line in lines if line.words]
    boxed.sort(key=lambda entry: entry[0][1] + entry[0][3])
    rows: list[tuple[int, int, list[Word]]] = []
    for box, line in boxed:
        top, bottom = box[1], box[3]
        words = list(_unglued(line.words))
        turned = bottom - top > 3 * (box[2] - box[0]) and len(line.text) > 3
        # The last rows are enough: lines come by their middle.
        for back in range(1, min(3, len(rows)) + 1):
            other_top, other_bottom, others = rows[-back]
            shared = min(bottom, other_bottom) - max(top, other_top)
            if not turned and 2 * shared > min(bottom - top, other_bottom - other_top):
                others.extend(words)
                break
        else:
            rows.append((top, top if turned else bottom, words))
    for top, bottom, words in rows:
        words.sort(key=lambda word: word.box[0])
        folded = [_folded(word.text) for word in words]
        yield Row(page, words, folded, [plain(word) for word in folded], top, bottom, [word.box[0] for word in words])


def _unglued(words: Sequence[Word]) -> Iterator[Word]:
    """Words, with `Kundennummer:2` taken apart at its colon."""
    for word in words:
        text = word.text
        found = _GLUED.match(text) if ":" in text or "#" in text else None
        if found is None or found[2].startswith("//"):
            yield word
            continue
        left, top, right, bottom = word.box
        middle = left + (right - left) * len(found[1]) // len(text)
        yield Word(found[1], (left, top, middle, bottom), word.confidence)
        yield Word(found[2], (middle, top, right, bottom), word.confidence)


@lru_cache(maxsize=4096)
def _folded(text: str) -> str:
    return text.lower() if text.isascii() else fold(text[:200].replace("\u2019", "'"))


def _spot(row: Row, index: int, first: int, last: int) -> Spot:
    words = row.words[first:last]
    box = (
        words[0].box[0],
        min(word.box[1] for word in words),
        max(word.box[2] for word in words),
        max(word.box[3] for word in words),
    )
    text = " ".join(word.text for word in words)
    return Spot(index, first, last, text, box, row.page, min(word.confidence for word in words) / 100)


_NO_WORDS = frozenset({":", "#", "no", "nr", "n°", "nº", "."})
_BEFORE_SIGNS = frozenset({"invoice_number", "title", "other_number", "tax_id"})


def _belongs_to(last: Label, row: Row, kind: str, at: int) -> bool:
    """Whether a word goes with the label before it: the sign in `Invoice No: # 17`, the article in `payable le`."""
    if kind == "number_word" and last.kind in _BEFORE_SIGNS:
        between = range(last.spot.last, at + 1)
        return all(row.plain[word] in _NO_WORDS or row.words[word].text.startswith("(") for word in between)
    return kind == "date_word" and last.kind in _FOR_DAYS and last.spot.last == at and len(row.plain[at]) <= 3


def _find_labels(index: int, row: Row) -> None:
    words = row.words
    at = end = 0
    while at < len(words):
        if end <= at:
            # Words of one label stand together; a wide gap is the next column.
            end = at + 1
            while end < len(words) and words[end].box[0] - words[end - 1].box[2] <= 2 * (
                words[at].box[3] - words[at].box[1]
            ):
                end += 1
        found = label_at(row.plain, at, end, colon=row.folded[at].endswith(":"))
        if found is None:
            at += 1
            continue
        kind, length = found
        if not row.labels or not _belongs_to(row.labels[-1], row, kind, at):
            row.labels.append(Label(kind, _spot(row, index, at, at + length)))
        at += length
    row.label_lefts = [label.spot.box[0] for label in row.labels]
    row.head_of_items = is_head_of_items([label.kind for label in row.labels])


_DIGIT = re.compile("[0-9]")
_SIGN = r"(?:[A-Z]{0,3}[$€£¥₹₺₽₩₪฿]|[A-Z]{3}|RM|Rs\.?|Fr\.|kr\.?)"
_NUMBER = re.compile(
    rf"^[(\[*\"']*(?P<minus>[-\u2212\u2013]?)(?P<sign>{_SIGN}?)(?P<inner>[-\u2212\u2013]?)"
    r"(?P<digits>[0-9][0-9.,'\u2019]*|[.,][0-9]+)"
    rf"(?P<behind>,?-{{0,2}}|%|{_SIGN})(?P<end>[)\]*;:.,|]*)$"
)
_SIGN_ALONE = re.compile(rf"^[-(]?{_SIGN}[-:]?$")
_THOUSANDS = re.compile(r"^[0-9]{3}(?:[.,][0-9]{1,2})?[)\-]?$")


@lru_cache(maxsize=4096)
def _value(digits: str) -> Decimal | None:
    try:
        return parse_money(digits.rstrip(".,'\u2019"))
    except ValueError:
        return None


def _is_money(sign: str) -> bool:
    """False for three letters that are no currency, as in `CID-12345`."""
    return len(sign) != 3 or not sign.isalpha() or sign in CODES


def _numbers(index: int, row: Row) -> Iterator[Number]:
    words = row.words
    at = 0
    while at < len(words):
        start, text = at, words[at].text
        at += 1
        found = _NUMBER.match(text) if len(text) <= 32 and _DIGIT.search(text) else None
        if found is None or not _is_money(found["sign"]) or not _is_money(found["behind"]):
            continue
        digits = found["digits"]
        # `1 234,56` comes as two words that stand close together.
        while digits.isdigit() and len(digits) <= 9 and at < len(words) and _THOUSANDS.match(words[at].text):
            if (len(digits) > 3 and at == start + 1) or not _close(words[at - 1], words[at]):
                break
            digits += words[at].text.rstrip(")-")
            at += 1
        value = _value(digits)
        if value is None:
            continue
        before = words[start - 1].text if start else ""
        behind = words[at].text if at < len(words) else ""
        signed = bool(found["sign"] or (found["behind"] and found["behind"] not in ("%", "-", ",-", ",--")))
        signed = signed or bool(_SIGN_ALONE.match(before)) or bool(_SIGN_ALONE.match(behind))
        percent = found["behind"] == "%" or behind.startswith("%")
        negative = bool(found["minus"] or found["inner"] or found["behind"] == "-")
        if not percent:
            negative = negative or (text.startswith("(") and found["end"].startswith(")"))
            alone = before in ("-", "\u2212", "\u2013") and start >= 2 and _close(words[start - 1], words[start])
            negative = negative or alone or before.endswith(("$-", "€-"))
        cents = bool(re.search(r"[.,][0-9]{2}$", digits))
        yield Number(
            -value if negative else value,
            _spot(row, index, start, at),
            money=signed or cents,
            percent=percent,
        )


def _close(one: Word, other: Word) -> bool:
    return other.box[0] - one.box[2] <= max(4, (one.box[3] - one.box[1]) * 0.9)


_MONTH = "|".join(sorted(MONTH_STARTS, key=len, reverse=True))
_DAY = re.compile(
    r"(?<![\w.,/-])(?:"
    r"[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}"
    r"|[0-9]{1,2}(?P<mark>[-/.]) ?[0-9]{1,2}(?P=mark) ?(?:[0-9]{4}|[0-9]{2})"
    rf"|[0-9]{{1,2}}(?:st|nd|rd|th|er)?(?:[ .]{{0,2}}|[-/])(?:{_MONTH})(?:[ .,']{{0,3}}|[-/])(?:[0-9]{{4}}|[0-9]{{2}})"
    rf"|(?:{_MONTH})[ .]{{0,2}}[0-9]{{1,2}}(?:st|nd|rd|th)?(?:[ .,']{{1,3}}|[-/])(?:[0-9]{{4}}|[0-9]{{2}})"
    r")(?![\w/])"
)


def _days(index: int, row: Row) -> Iterator[Day]:
    joined = " ".join(row.folded)
    if not _DIGIT.search(joined):
        return
    starts: list[int] = []
    at = 0
    for word in row.folded:
        starts.append(at)
        at += len(word) + 1
    for found in _DAY.finditer(joined):
        days = _read(found[0])
        if days:
            first = bisect_left(starts, found.start() + 1) - 1
            last = bisect_left(starts, found.end())
            yield Day(days, _spot(row, index, first, last))


@lru_cache(maxsize=4096)
def _read(text: str) -> tuple[date, ...]:
    days: list[date] = []
    # Nobody writes the month first with points.
    for day_first in (True,) if "." in text else (True, False):
        try:
            day = parse_date(re.sub(r"\s*,", ",", text), day_first=day_first)
        except ValueError:
            continue
        if day is not None and day not in days:
            days.append(day)
    return tuple(days)


def _stand_beside(sheet: Sheet) -> None:
    """Gives each number and day its label. Of several amounts after one label the last belongs to it (`19 % of 64.46
    12.25`), of several days the first."""
    numbers: dict[int, list[Number]] = {}
    for number in sheet.numbers:
        if not number.percent:
            numbers.setdefault(number.spot.row, []).append(number)
    days: dict[int, list[Day]] = {}
    for day in sheet.days:
        days.setdefault(day.spot.row, []).append(day)
    for row, values in numbers.items():
        labels = [label for label in sheet.rows[row].labels if label.kind in _FOR_AMOUNTS]
        _by_row(labels, values)
        for number in values:
            if number.beside is None and (number.money or len(values) == 1):
                number.beside = sheet.above(number.spot, _FOR_AMOUNTS)
                number.nearest = number.beside is not None
        runs: dict[int, Number] = {}
        for number in values:
            if number.beside is not None and number.beside.spot.row == row:
                before = runs.get(number.beside.spot.first)
                if before is None or number.money or not before.money:
                    runs[number.beside.spot.first] = number
        for number in runs.values():
            number.nearest = True
    for row, found in days.items():
        labels = [label for label in sheet.rows[row].labels if label.kind in _FOR_DAYS]
        _by_row(labels, found)
        seen: set[int] = set()
        for day in found:
            if day.beside is None:
                day.beside = sheet.above(day.spot, _FOR_DAYS)
                day.nearest = day.beside is not None
            elif day.beside.spot.first not in seen:
                seen.add(day.beside.spot.first)
                day.nearest = True


_FOR_AMOUNTS = frozenset(
    {
        "total",
        "total_word",
        "due_amount",
        "paid",
        "rounding",
        "adjust",
        "subtotal",
        "tax_amount",
        "other_number",
        "invoice_number",
        "tax_id",
    }
)
_FOR_DAYS = frozenset({"date", "date_word", "due_date", "other_date"})


def _by_row(labels: Sequence[Label], values: Sequence[Number] | Sequence[Day]) -> None:
    at = 0
    current: Label | None = None
    for value in values:
        while at < len(labels) and labels[at].spot.first < value.spot.first:
            current = labels[at]
            at += 1
        value.beside = current
