"""The table of an invoice's lines, over as many pages as it needs, and the sums below it. Layouts say where the columns
are and how they are ruled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from penstock.pipelines.documents.samples.invoices import ZERO, Line
from penstock.pipelines.documents.samples.sheets import BLACK, GREY, WHITE, Colour, Sheets
from penstock.pipelines.documents.samples.wording import Wording

Rules = Literal["grid", "lines", "zebra", "bar", "none"]

_PALE: Colour = (0.94, 0.95, 0.97)
_FAINT: Colour = (0.8, 0.8, 0.8)

_SHARES = {"position": 0.07, "quantity": 0.15, "unit_price": 0.18, "rate": 0.1, "amount": 0.18}


@dataclass(frozen=True)
class Table:
    """`bottom` is how far down a page may be filled. `turn` goes to the next page, draws its head, and says how far
    down that reaches."""

    left: float
    right: float
    bottom: float
    turn: Callable[[], float]
    rules: Rules = "lines"
    accent: Colour = BLACK
    positions: bool = True

    def columns(self, say: Wording) -> dict[str, tuple[float, float]]:
        names = ["position"] if self.positions else []
        names += ["item", "quantity", "unit_price", *(["rate"] if say.rates_on_lines else []), "amount"]
        width = self.right - self.left
        widths = {name: width * _SHARES.get(name, 0) for name in names}
        widths["item"] = width - sum(widths.values())
        places, x = {}, self.left
        for name in names:
            places[name] = (x, x + widths[name])
            x += widths[name]
        return places

    def draw(self, sheets: Sheets, say: Wording) -> None:
        """The lines from `sheets.y` on; afterwards that is where the table ends."""
        columns = self.columns(say)
        top = self._head(sheets, say, columns)
        running = ZERO
        for place, line in enumerate(say.invoice.lines):
            cells = self._cells(say, place, line)
            name = sheets.face.wrapped(line.item, columns["item"][1] - columns["item"][0] - 8)
            height = self._leading(sheets) * (len(name) + say.articles) + 5
            if sheets.y + height > self.bottom - 20:
                self._carry(sheets, say, "carried", running, columns)
                self._uprights(sheets, columns, top)
                sheets.y = self.turn()
                top = self._head(sheets, say, columns)
                self._carry(sheets, say, "brought", running, columns)
            self._row(sheets, columns, cells, name, line, say, shaded=place % 2 == 1, height=height)
            running += line.total
        self._uprights(sheets, columns, top)
        if self.rules in ("lines", "bar"):
            sheets.rule(self.left, sheets.y, self.right, colour=self.accent)

    def _leading(self, sheets: Sheets) -> float:
        return sheets.face.size * 1.25

    def _cells(self, say: Wording, place: int, line: Line) -> dict[str, str]:
        return {
            "position": str(place + 1),
            "quantity": say.counted(line.quantity, line.unit),
            "unit_price": say.line_money(line.unit_price),
            "rate": say.percent(line.rate),
            "amount": say.line_money(line.total),
        }

    def _head(self, sheets: Sheets, say: Wording, columns: dict[str, tuple[float, float]]) -> float:
        top, height = sheets.y, sheets.face.size + 8
        dark = self.rules == "bar"
        if self.rules in ("bar", "grid"):
            sheets.fill(self.left, top, self.right, top + height, self.accent if dark else (0.9, 0.9, 0.9))
        if self.rules == "grid":
            sheets.rule(self.left, top, self.right)
        for name, (left, right) in columns.items():
            text = say.label(name)
            bold, colour = self.rules != "none", WHITE if dark else BLACK
            if name in ("item", "position"):
                sheets.text(left + 4, top + height - 5, text, bold=bold, colour=colour)
            else:
                sheets.text(right - 4, top + height - 5, text, bold=bold, colour=colour, align="right")
        sheets.y = top + height
        if self.rules in ("grid", "lines", "zebra"):
            sheets.rule(self.left, sheets.y, self.right, colour=self.accent)
        return top

    def _row(
        self,
        sheets: Sheets,
        columns: dict[str, tuple[float, float]],
        cells: dict[str, str],
        name: list[str],
        line: Line,
        say: Wording,
        *,
        shaded: bool,
        height: float,
    ) -> None:
        if self.rules == "zebra" and shaded:
            sheets.fill(self.left, sheets.y, self.right, sheets.y + height, _PALE)
        base = sheets.y + self._leading(sheets)
        for column, (left, right) in columns.items():
            if column == "item":
                for at, text in enumerate(name):
                    sheets.text(left + 4, base + at * self._leading(sheets), text)
            elif column == "position":
                sheets.text(left + 4, base, cells[column])
            else:
                sheets.text(right - 4, base, cells[column], align="right")
        if say.articles:
            below = base + len(name) * self._leading(sheets)
            sheets.text(columns["item"][0] + 4, below, line.article, size=sheets.face.size - 1.5, colour=GREY)
        sheets.y += height
        if self.rules == "grid":
            sheets.rule(self.left, sheets.y, self.right)
        elif self.rules == "lines":
            sheets.rule(self.left, sheets.y, self.right, weight=0.3, colour=_FAINT)

    def _carry(
        self, sheets: Sheets, say: Wording, label: str, running: Decimal, columns: dict[str, tuple[float, float]]
    ) -> None:
        """The running sum at the foot of a page, and again at the head of the next."""
        base = sheets.y + self._leading(sheets)
        sheets.text(columns["item"][0] + 4, base, say.label(label), bold=True)
        sheets.text(self.right - 4, base, say.line_money(running), bold=True, align="right")
        sheets.y += self._leading(sheets) + 5

    def _uprights(self, sheets: Sheets, columns: dict[str, tuple[float, float]], top: float) -> None:
        if self.rules != "grid":
            return
        sheets.rule(self.left, sheets.y, self.right)
        for left, _ in columns.values():
            sheets.upright(left, top, sheets.y)
        sheets.upright(self.right, top, sheets.y)

    def room(self, sheets: Sheets, height: float) -> None:
        """A new page if less than this is left."""
        if sheets.y + height > self.bottom:
            sheets.y = self.turn()


def sums(
    sheets: Sheets,
    say: Wording,
    *,
    left: float,
    right: float,
    boxed: bool = False,
    accent: Colour = BLACK,
    large: bool = False,
) -> None:
    """The rows from the lines' sum to the amount due, labels left and amounts right."""
    leading = sheets.face.size * 1.7
    for row in say.sums():
        size = sheets.face.size + (3 if large and row.strong else 0)
        height = leading + (6 if large and row.strong else 0)
        if row.strong and not boxed:
            sheets.rule(left, sheets.y + 3, right, colour=accent)
        base = sheets.y + height - 2
        sheets.text(left + 4, base, row.label + say.colon, bold=row.strong, size=size)
        sheets.text(right - 4, base, row.amount, bold=row.strong, size=size, align="right")
        if boxed:
            for x in (left, right):
                sheets.upright(x, sheets.y, sheets.y + height + 3)
            sheets.rule(left, sheets.y + height + 3, right)
            sheets.y += 3
        sheets.y += height
    sheets.y += 6
