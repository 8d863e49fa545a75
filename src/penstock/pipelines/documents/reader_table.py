"""The table of what is charged: its header tells the columns, and each row below with an amount is a line, until the
totals begin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from penstock.paper.page import Box
from penstock.pipelines.documents.prompt import AskedLine
from penstock.pipelines.documents.reader_labels import Mention, mentions
from penstock.pipelines.documents.reader_layout import Cell, Row, Sheet, around
from penstock.pipelines.documents.reader_lexicon import Kind
from penstock.pipelines.documents.reader_values import Amount, Mark, amounts, dates, percents

_COLUMNS: frozenset[Kind] = frozenset({"item", "quantity", "unit_price", "line_total"})
_CHARGED: frozenset[Kind] = frozenset({"line_total", "unit_price", "total", "net"})
_ENDS: frozenset[Kind] = frozenset(
    {"net", "total", "due", "tax", "paid", "before", "tendered", "other_amount", "rounding"}
)

_CARRIED = re.compile(
    r"^\W*(?:[üÜ]bertrag|(?:a|à)\sreporter|report\b|(?:brought|carried)\s(?:forward|over)|transport\b(?=\W*\d))", re.I
)
"""The sum that is carried from one page to the next is no line."""

_TIMES = re.compile(r"(?P<quantity>\d[\d.,]*)\s?(?:pcs?|stk|st)?\s?[x×@*]\s?(?P<price>\S.*)$", re.I)

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
    """Rows that name at least two columns of what is charged, one of them an amount, and hold no figures. The rows
    close above and below belong to the head as well: their words go on with those of the column."""
    found: list[Header] = []
    place = 0
    while place < len(sheet.rows):
        columns = _columns([sheet.rows[place]])
        kinds = {column.kind for column in columns}
        if len(kinds & _COLUMNS) < 2 or not kinds & _CHARGED or _figures(sheet.rows[place]):
            place += 1
            continue
        first, below = place, place + 1
        while below < len(sheet.rows) and below < place + 4 and _continues(sheet, below - 1, below, below):
            below += 1
        while first > 0 and first > place - 3 and _continues(sheet, first - 1, first, first - 1):
            first -= 1
        columns = _columns(sorted(sheet.rows[first:below], key=lambda row: row is not sheet.rows[place]))
        found.append(Header(first, below, _ordered(columns)))
        place = below
    return found


def line_items(sheet: Sheet, heads: Sequence[Header], mark: Mark | None) -> list[AskedLine]:
    """The charged lines. One without an amount is a note, and belongs to the line above it."""
    if not heads:
        return [_asked(item) for item in _slip(sheet, mark)][:MOST_LINES]
    out: list[AskedLine] = []
    for number, head in enumerate(heads):
        until = heads[number + 1].row if number + 1 < len(heads) else len(sheet.rows)
        out += [_asked(item) for item in _items(sheet, head, until, mark)]
    return out[:MOST_LINES]


def _items(sheet: Sheet, head: Header, until: int, mark: Mark | None) -> list[_Item]:
    items: list[_Item] = []
    page = sheet.rows[head.row].page
    kinds = [column.kind for column in head.columns]
    charged = (
        "line_total"
        if "line_total" in kinds
        else "total"
        if "total" in kinds
        else "net"
        if "net" in kinds
        else "unit_price"
    )
    waiting: list[str] = []
    for row in sheet.rows[head.below : until]:
        if _CARRIED.search(row.text) and items:
            break
        if _CARRIED.search(row.text) or not re.search(r"\w\w", row.text):
            continue
        if row.page != page or _ends(row, mark):
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
    return items


def _slip(sheet: Sheet, mark: Mark | None) -> list[_Item]:
    """The lines of a till's slip, which has no head: `2 x 14.60` and what that comes to, below or beside the name."""
    items: list[_Item] = []
    for place, row in enumerate(sheet.rows):
        if _ends(row, mark):
            break
        times = next((match for cell in row.cells[:-1] if (match := _TIMES.search(cell.text))), None)
        charged = amounts(row.cells[-1].text, mark, scanned=sheet.scanned)
        if times is None or len(charged) != 1 or re.search(r"[^\W\d_]{4}", row.cells[-1].text):
            continue
        prices, counts = amounts(times["price"], mark), amounts(times["quantity"], mark)
        name = times.string[: times.start()].strip()
        above = sheet.rows[place - 1] if place else None
        if not name and above is not None and not any(one.money for one in amounts(above.text, mark)):
            name = above.text
        if prices and counts and abs(prices[0].value * counts[0].value - charged[0].value) <= Decimal("0.02"):
            items.append(_Item([name], counts[0], prices[0], charged[0]))
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
        if (
            pieces
            and (
                column is pieces[-1][0]
                or (not numeric and column is not None and column.kind == "item")
                or not head.columns
            )
        ) or (pieces and not numeric and pieces[-1][0] is not None and pieces[-1][0].kind == "item"):
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


def _columns(rows: Sequence[Row]) -> list[Column]:
    """What a head names, with the width of each; a column of no interest counts, so that its figures are not taken for
    those of its neighbour. The first row tells the columns, the others go on with them."""
    named: list[tuple[str, Box, int]] = []
    for number, row in enumerate(rows):
        for cell in row.cells:
            found: Sequence[Mention] = mentions(cell.text, columns=True)
            parts = [(cell.text[one.start : one.end], cell.part(one.start, one.end)) for one in found]
            if number and not re.search(r"[^\W\d_]{3}", cell.text):
                continue
            for text, box in parts if len(found) > 1 else [(cell.text, cell.box)]:
                place = next((at for at, (_, other, _) in enumerate(named) if number and _shares(box, other)), None)
                if place is None:
                    named.append((text, box, row.box[1]))
                    continue
                before, other, top = named[place]
                joined = f"{before} {text}" if row.box[1] >= top else f"{text} {before}"
                named[place] = (joined.replace("- ", "-"), around([box, other]), min(top, row.box[1]))
    out = []
    for text, box, _ in named:
        kinds = [one.kind for one in mentions(text, columns=True)]
        if re.search(r"\w", text):
            out.append(Column(_first(kinds), box))
    return out


def _first(kinds: Sequence[Kind]) -> Kind:
    """What a column is by the words of its head: that of a price or an amount may also speak of tax or units."""
    wanted = [kind for kind in kinds if kind in _COLUMNS or kind in _CHARGED]
    return wanted[0] if wanted else kinds[0] if kinds else "other"


def _ordered(columns: Sequence[Column]) -> tuple[Column, ...]:
    """From left to right. `Amount` before the description is a quantity, where another amount follows."""
    ordered = sorted(columns, key=lambda column: column.box[0])
    kinds = [column.kind for column in ordered]
    for place, column in enumerate(ordered):
        later = kinds[place + 1 :]
        if column.kind == "line_total" and "quantity" not in kinds and "item" in later and _CHARGED & set(later):
            ordered[place] = Column("quantity", column.box)
    return tuple(ordered)


def _shares(one: Box, other: Box) -> bool:
    return min(one[2], other[2]) > max(one[0], other[0])


def _figures(row: Row) -> bool:
    return any(amount.money for amount in amounts(row.text, None)) or bool(dates(row.text))


def _continues(sheet: Sheet, one: int, other: int, row: int) -> bool:
    """Whether a row is part of the head beside it: close, without figures, and of nothing but short cells."""
    above, under, words = sheet.rows[one], sheet.rows[other], sheet.rows[row]
    if above.page != under.page or under.box[1] - above.box[3] > 0.8 * sheet.tall or re.search(r"\d", words.text):
        return False
    return all(len(cell.text) <= 20 for cell in words.cells)


def _ends(row: Row, mark: Mark | None) -> bool:
    """Whether the totals begin: a label of theirs at the start of a cell, with an amount in the row. Travel costs may
    be charged as a line like any other, with quantity and price."""
    seen = amounts(row.text, mark)
    for cell in row.cells:
        found = mentions(cell.text)
        if found and found[0].kind in _ENDS and found[0].start <= 2 and seen:
            return found[0].kind != "other_amount" or len(seen) < 3
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
