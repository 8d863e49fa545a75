"""Pages of invoices written down as rows of text, so that a test shows what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from penstock.paper.page import Line, Page, Word

WIDTH, HEIGHT = 1650, 2340
LETTER, TALL, STEP = 11, 20, 36
Cell = tuple[int, str]


def page(
    rows: Sequence[str | Sequence[Cell] | None], *, source: Literal["ocr", "text"] = "text", sure: float = 100.0
) -> Page:
    """A page with one row below the other: text at the left edge, or cells of a place from the left and a text. None
    leaves room."""
    lines: list[Line] = []
    top = 100
    for row in rows:
        for left, text in [(100, row)] if isinstance(row, str) else row or []:
            words, at = [], left
            for word in text.split():
                words.append(Word(word, (at, top, at + LETTER * len(word), top + TALL), sure))
                at += LETTER * (len(word) + 1)
            lines.append(Line(tuple(words), 1, len(lines)))
        top += STEP
    return Page(WIDTH, HEIGHT, tuple(lines), source)


def ordinary(**changes: str) -> list[str | Sequence[Cell] | None]:
    """The rows of an invoice by Northgate Tools Ltd to Elm Bakery, 100.00 and 20 % tax."""
    texts = {
        "vendor": "Northgate Tools Ltd",
        "number": "INV-2024-17",
        "date": "5 March 2024",
        "due": "4 April 2024",
        "subtotal": "£100.00",
        "tax": "£20.00",
        "total": "£120.00",
        **changes,
    }
    return [
        [(100, texts["vendor"]), (1000, "www.northgatetools.example")],
        "12 Mill Lane",
        None,
        None,
        [(100, "Bill to:"), (1000, f"Invoice No: {texts['number']}")],
        [(100, "Elm Bakery"), (1000, f"Invoice date: {texts['date']}")],
        [(100, "3 High Street"), (1000, f"Due date: {texts['due']}")],
        None,
        [(100, "Description"), (700, "Quantity"), (900, "Price"), (1200, "Amount")],
        [(100, "Hammer"), (700, "2"), (900, "£25.00"), (1200, "£50.00")],
        [(100, "Saw"), (700, "1"), (900, "£50.00"), (1200, "£50.00")],
        None,
        [(900, "Subtotal"), (1200, texts["subtotal"])],
        [(900, "VAT 20%"), (1200, texts["tax"])],
        [(900, "Total"), (1200, texts["total"])],
    ]
