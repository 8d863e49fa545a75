"""The number and the dates of an invoice: by label, with a look at the shape of what stands there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import pairwise

from penstock.pipelines.documents.reader_labels import Label, mentions
from penstock.pipelines.documents.reader_layout import Cell, Sheet, under
from penstock.pipelines.documents.reader_values import AMERICAN, Found, dates

_TOKEN = re.compile(
    r"^[\s:.#№°*>~-]*(?:(?:no|nr|n°|number)\b[.:]?\s*)?[\s:#.]*(?P<token>(?:[A-Z]{1,4}\s(?=\d[\w/-]{3}))?[A-Za-z0-9][\w/.\-–#]*(?:\s(?=\d{3,}(?:\s|$))\d{3,})?)",
    re.I,
)
_DAY_FIRST = (
    r"€|£|\bEUR\b|\bGBP\b|\bRM\b|\bMYR\b|\bGST\b|\bVAT\s(?:no|reg|number|id)|\bSdn\b|\bBhd\b|\bGmbH\b|\bPvt\b|\bIndia\b|\bUnited\sKingdom\b|"
    r"\bB\.V\.|\bSARL\b|\bRechnung|\bDatum\b|\bfacture\b|\bfactuur|\bMwSt|\bUSt\b|\bTVA\b|\bBTW\b|\bABN\b|\bAustralia\b|\bIreland\b|\bSingapore\b"
)


def invoice_number(sheet: Sheet, found: Sequence[Label]) -> str | None:
    """The best labelled number; of equals the first. A title such as `Invoice` counts if a number follows at once."""
    best: tuple[int, str] | None = None
    for label in found:
        if label.kind not in ("number", "title"):
            continue
        for at, text in enumerate(_values(sheet, label)):
            number = _number(text, strict=label.kind == "title" or at > 0)
            if number is None:
                continue
            strength = label.strength * 10 - at
            if best is None or strength > best[0]:
                best = strength, number
            break
        else:
            titled = _titled(sheet, label)
            if titled is not None and (best is None or best[0] < 50):
                best = 50, titled
    return best[1] if best is not None else _hashed(sheet)


def dates_of(sheet: Sheet, found: Sequence[Label]) -> tuple[date | None, date | None]:
    """Date and due date. A date that stands alone on the document needs no label, as on most receipts."""
    day_first = order(sheet)
    issued: list[tuple[int, date]] = []
    due: list[tuple[int, date]] = []
    named: set[date] = set()
    for label in found:
        if label.kind not in ("date", "due_date", "other_date", "title", "number", "due"):
            continue
        value = _date(sheet, label, day_first)
        if value is None:
            continue
        if label.kind == "date":
            issued.append((label.strength, value))
        elif label.kind in ("title", "number"):
            issued.append((5, value))
        elif label.kind == "due_date":
            due.append((label.strength, value))
        named.add(value)
    when = max(issued, key=lambda one: one[0], default=(0, None))[1]
    until = max(due, key=lambda one: one[0], default=(0, None))[1]
    if when is None:
        other = {label.cell.row for label in found if label.kind in ("due_date", "other_date")}
        rows = [row for place, row in enumerate(sheet.rows) if place not in other]
        alone = {value for row in rows for one in dates(row.text) if (value := one.read(day_first)) is not None}
        alone -= named
        when = alone.pop() if len(alone) == 1 else None
    if when is not None and until is not None and until < when:
        until = None
    return when, until


def order(sheet: Sheet) -> bool | None:
    """Whether the day comes before the month: by dates that leave no doubt, then by the country and the language, then
    by the course of the dates. None where nothing tells."""
    seen = [one for row in sheet.rows for one in dates(row.text)]
    first = sum(one.month_first is None for one in seen)
    later = sum(one.day_first is None for one in seen)
    if first != later:
        return first > later
    text = sheet.text
    american, other = len(re.findall(AMERICAN, text)), len(re.findall(_DAY_FIRST, text, re.I))
    if bool(american) != bool(other):
        return bool(other)
    return _by_course(seen)


def _by_course(seen: Sequence[Found]) -> bool | None:
    """Dates on an invoice mostly come in the order in which they happen."""
    doubtful = [one for one in seen if one.sure is None and one.day_first and one.month_first]
    forward = {True: 0, False: 0}
    for one, other in pairwise(doubtful):
        for day_first in (True, False):
            before, after = one.read(day_first), other.read(day_first)
            forward[day_first] += bool(before and after and before <= after and (after - before).days <= 120)
    if forward[True] == forward[False]:
        return None
    return forward[True] > forward[False]


def _values(sheet: Sheet, label: Label) -> Iterator[str]:
    """Where a label's value may stand: after it, in the next cell, below it."""
    yield label.rest
    if label.rest.strip(" :.#*") or label.cell.text[label.end :] != label.rest:
        return
    row = sheet.rows[label.cell.row]
    if label.place + 1 < len(row.cells):
        yield _unless_label(row.cells[label.place + 1])
    for box in (label.box, sheet.column(label.box, label.cell.row)):
        for cell in sheet.below(box, label.cell.row, lines=4.5, rows=1):
            yield _unless_label(under(cell, box))


def _titled(sheet: Sheet, label: Label) -> str | None:
    """The number in a heading such as `Correction of the invoice (384) No. 17`."""
    if label.kind != "title" or label.place or label.start:
        return None
    match = re.search(r"\b(?:nr|no|number|nummer|num[ée]ro)\b[.:]?\s|n[°º]\s?", _behind(sheet, label), re.I)
    return _number(_behind(sheet, label)[match.end() :], strict=True) if match else None


def _unless_label(cell: Cell) -> str:
    found = mentions(cell.text)
    return "" if found and found[0].start == 0 and found[0].kind != "title" else cell.text


def _number(text: str, *, strict: bool) -> str | None:
    match = _TOKEN.match(text)
    if match is None:
        return None
    token = match["token"].strip(".,;:–-").rstrip("#")
    digits = sum(letter.isdigit() for letter in token)
    seen = dates(text[match.start("token") :])
    if not digits or len(token) > 40 or (seen and seen[0].start == 0) or re.fullmatch(r"\d+[.,]\d\d", token):
        return None
    if strict and (
        digits < 2 or re.fullmatch(r"\d{1,3}", token) or re.match(r"\d+\s?%|\d{1,2}\s?/\s?\d{1,2}\b(?!\S)", token)
    ):
        return None
    if re.match(r"\s*\d{1,3}\s?(?:of|von|sur|/)\s?\d{1,3}\s*$", text):
        return None
    return token


def _hashed(sheet: Sheet) -> str | None:
    """A number that is marked by nothing but `#`, in the upper part of the first page, alone in its cell."""
    found = {
        match[1]
        for cell in sheet.cells()
        if cell.page == 0 and sheet.down(cell) < 0.3 and (match := re.fullmatch(r"#\s?([\w/.-]*\d[\w/.-]*)", cell.text))
    }
    return found.pop() if len(found) == 1 else None


def _dated(sheet: Sheet, label: Label, day_first: bool | None) -> date | None:
    """The date that follows in the same row as `of`, `vom`, `du`."""
    after = _behind(sheet, label)
    for seen in dates(after):
        if re.search(r"\b(?:vom|von|of|from|dated|issued\s\w+|du|le|van)\s+$", after[: seen.start], re.I):
            return seen.read(day_first)
    return None


def _behind(sheet: Sheet, label: Label) -> str:
    """The rest of a label's row."""
    cells = sheet.rows[label.cell.row].cells[label.place + 1 :]
    return " ".join([label.cell.text[label.end :], *(cell.text for cell in cells)])


def _date(sheet: Sheet, label: Label, day_first: bool | None) -> date | None:
    seen = dates(label.rest)
    if seen:
        return seen[0].read(day_first)
    if label.kind == "due":
        return None
    if label.kind in ("title", "number"):
        return _dated(sheet, label, day_first)
    if re.search(r"\w{3}", label.rest) and label.kind != "due_date":
        return None
    row = sheet.rows[label.cell.row]
    after = row.cells[label.place + 1 : label.place + 2] if label.cell.text[label.end :] == label.rest else ()
    for cell in after:
        if (seen := dates(_unless_label(cell))) and seen[0].start <= 12:
            return seen[0].read(day_first)
    for box in (label.box, sheet.column(label.box, label.cell.row)):
        for cell in sheet.below(box, label.cell.row, lines=4.5, rows=1):
            if seen := dates(_unless_label(under(cell, box))):
                return seen[0].read(day_first)
    return None
