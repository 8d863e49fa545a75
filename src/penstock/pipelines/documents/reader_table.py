"""The table of what is charged: its header tells the columns, and each row below with an amount is a line, until the
totals begin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from penstock.paper.page import Box
from penstock.pipelines.documents.prompt import AskedLine
from penstock.pipelines.documents.reader_labels import Kind, Mention, mentions
from penstock.pipelines.documents.reader_layout import Cell, Row, Sheet, around
from penstock.pipelines.documents.reader_values import Amount, Mark, amounts, dates, percents

_COLUMNS: frozenset[Kind] = frozenset({"item", "quantity", "unit_price", "line_total"})
_ENDS: frozenset[Kind] = frozenset({"net", "total", "due", "tax", "paid", "before", "tendered", "other_amount", "rounding"})

MOST_LINES = 1000


@dataclass(frozen=True)
class Column:
    kind: Kind
    box: Box


@dataclass(frozen=True)
class Header:
    """A table's head: the row it begins in, the first row below it, and the columns from left to right."""

    row: int
    below: int
    columns: tuple[Column, ...]


@dataclass
class _Item:
    words: list[str] = field(default_factory=list)
    quantity: Amount | None = None
    price: Amount | None = None
    total: Amount | None = None
    bottom: int = 0


def headers(sheet: Sheet) -> list[Header]:
    """Rows that name at least two columns of what is charged, one of them an amount, and hold no figures. A head of two or
    three rows is taken together."""
    found: list[Header] = []
    place = 0
    while place < len(sheet.rows):
        columns = _columns(sheet.rows[place])
        kinds = {column.kind for column in columns}
        named = len(kinds & _COLUMNS)
        if named < 2 or not kinds & {"line_total", "unit_price", "total", "net"} or _figures(sheet.rows[place]):
            place += 1
            continue
        below = place + 1
        while below < len(sheet.rows) and below < place + 4 and _continues(sheet, place, below):
            columns += [one for one in _columns(sheet.rows[below]) if not _names(columns, one)]
            below += 1
        first = place
        if place and not _figures(sheet.rows[place - 1]) and _near(sheet, place - 1, place):
            columns += [one for one in _columns(sheet.rows[place - 1]) if not _names(columns, one)]
        found.append(Header(first, below, tuple(sorted(columns, key=lambda column: column.box[0]))))
        place = below
    return found


def line_items(sheet: Sheet, heads: Sequence[Header], mark: Mark | None) -> list[AskedLine]:
    """The charged lines. One without an amount is a note, and belongs to the line above it."""
    out: list[AskedLine] = []
    for number, head in enumerate(heads):
        until = heads[number + 1].row if number + 1 < len(heads) else len(sheet.rows)
        out += [_asked(item) for item in _items(sheet, head, until, mark)]
    return out[:MOST_LINES]


def _items(sheet: Sheet, head: Header, until: int, mark: Mark | None) -> list[_Item]:
    items: list[_Item] = []
    page = sheet.rows[head.row].page
    last = head.columns[-1]
    kinds = [column.kind for column in head.columns]
    charged = "line_total" if "line_total" in kinds else "total" if "total" in kinds else "net" if "net" in kinds else "unit_price"
    waiting: list[str] = []
    for row in sheet.rows[head.below : until]:
        if row.page != page or _ends(row, head, mark):
            if items or row.page != page:
                break
            continue
        item = _item(row, head, charged, mark, sheet.scanned)
        text = " ".join(item.words)
        if item.total is not None and (text or item.quantity or item.price or waiting):
            if not text and waiting:
                item.words, waiting = waiting, []
            item.bottom = row.box[3]
            items.append(item)
            waiting = []
        elif text and items and row.box[1] - items[-1].bottom < 1.6 * sheet.tall and not _dated(text):
            items[-1].words.append(text)
            items[-1].bottom = row.box[3]
            waiting = [text]
        else:
            waiting = [text] if text else []
            if items and row.box[1] - items[-1].bottom > 12 * sheet.tall:
                break
    del last
    return items


def _item(row: Row, head: Header, charged: str, mark: Mark | None, scanned: bool) -> _Item:
    item = _Item()
    for cell in row.cells:
        for box, text in _split(cell, head):
            column = _column(box, head)
            found = amounts(text, mark, scanned=scanned)
            if column is None or column.kind in ("item", "other"):
                item.words.append(text)
            elif column.kind == charged and found:
                item.total = found[-1]
            elif column.kind == "quantity" and found:
                item.quantity = found[0]
            elif column.kind == "unit_price" and found:
                item.price = found[0]
            elif column.kind == "unit_price" and not found and not percents(text):
                item.words.append(text) if re.search(r"[^\W\d]{3}", text) and item.total is None else None
    return item


def _split(cell: Cell, head: Header) -> list[tuple[Box, str]]:
    """A cell in pieces where its words stand in several columns: figures of close columns run together."""
    pieces: list[tuple[Column | None, list[Box], list[str]]] = []
    for word in cell.words:
        numeric = bool(re.search(r"\d", word.text)) and not re.search(r"[^\W\d_]{2}", word.text)
        column = _column(word.box, head)
        if pieces and (column is pieces[-1][0] or (not numeric and column is not None and column.kind == "item") or not head.columns):
            pieces[-1][1].append(word.box)
            pieces[-1][2].append(word.text)
        elif pieces and not numeric and pieces[-1][0] is not None and pieces[-1][0].kind == "item":
            pieces[-1][1].append(word.box)
            pieces[-1][2].append(word.text)
        else:
            pieces.append((column, [word.box], [word.text]))
    return [(around(boxes), " ".join(texts)) for _, boxes, texts in pieces]


def _column(box: Box, head: Header) -> Column | None:
    """The column that shares most of its width with the box, else the nearest."""
    if not head.columns:
        return None

    def far(column: Column) -> float:
        shared = min(box[2], column.box[2]) - max(box[0], column.box[0])
        if shared > 0:
            return -float(shared)
        return float(min(abs(box[2] - column.box[2]), abs(box[0] - column.box[0]), -shared))

    return min(head.columns, key=far)


def _columns(row: Row) -> list[Column]:
    """What a head's row names, with the width of each; a column of no interest counts, so that its figures are not
    taken for those of its neighbour."""
    out: list[Column] = []
    for cell in row.cells:
        found: Sequence[Mention] = mentions(cell.text, columns=True)
        if not found and re.search(r"\w", cell.text):
            out.append(Column("other", cell.box))
        out += [Column(one.kind, cell.part(one.start, one.end)) for one in found]
    return out


def _names(columns: Sequence[Column], one: Column) -> bool:
    return any(min(one.box[2], other.box[2]) > max(one.box[0], other.box[0]) for other in columns)


def _figures(row: Row) -> bool:
    return any(amount.money for amount in amounts(row.text, None)) or bool(dates(row.text))


def _continues(sheet: Sheet, first: int, row: int) -> bool:
    """Whether a row goes on with the head above it: close below, without figures, and only of words that name columns."""
    if not _near(sheet, row - 1, row) or re.search(r"\d", sheet.rows[row].text):
        return False
    return all(len(cell.text) <= 14 for cell in sheet.rows[row].cells) and sheet.rows[row].page == sheet.rows[first].page


def _near(sheet: Sheet, one: int, other: int) -> bool:
    above, under = sheet.rows[one], sheet.rows[other]
    return above.page == under.page and under.box[1] - above.box[3] < 0.8 * sheet.tall


def _ends(row: Row, head: Header, mark: Mark | None) -> bool:
    """Whether the totals begin: a label of theirs at the start of a cell, with an amount in the row."""
    for cell in row.cells:
        found = mentions(cell.text)
        if found and found[0].kind in _ENDS and found[0].start <= 2 and amounts(row.text, mark):
            return True
    return False


def _dated(text: str) -> bool:
    return bool(re.search(r"\b(?:page|seite)\b", text, re.I))


def _asked(item: _Item) -> AskedLine:
    words = re.sub(r"^\d{1,3}\s(?=\D)", "", " ".join(item.words)).strip(" -|")
    return AskedLine(
        item=words[:500] or None,
        quantity=_plain(item.quantity),
        unit_price=_plain(item.price),
        total=_plain(item.total),
    )


def _plain(amount: Amount | None) -> str | None:
    return None if amount is None else plain(amount.value)


def plain(value: Decimal) -> str:
    """Without exponent; as many decimals as were printed."""
    return f"{value:f}"
