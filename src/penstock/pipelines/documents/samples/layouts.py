"""The ways an invoice is laid out: letters with their head on the left or on the right, a ruled form, a compact sheet,
a modern page with a coloured column, and the narrow roll of a till."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Literal, get_args

from penstock.pipelines.documents.samples.invoices import Party
from penstock.pipelines.documents.samples.sheets import GREY, WHITE, Colour, Face, Sheets
from penstock.pipelines.documents.samples.tables import Table, sums
from penstock.pipelines.documents.samples.wording import Wording

Layout = Literal["letter_left", "letter_right", "ruled", "compact", "modern", "receipt"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
SHEETS: tuple[Layout, ...] = tuple(layout for layout in LAYOUTS if layout != "receipt")

_COLOURS: tuple[Colour, ...] = (
    (0.11, 0.24, 0.42),
    (0.42, 0.12, 0.16),
    (0.1, 0.35, 0.28),
    (0.25, 0.25, 0.28),
    (0.45, 0.27, 0.07),
)

ROLL = (227.0, 5000.0)
"""Eighty millimetres wide, and as long as is needed."""

FOOT = 74
"""Points that the foot of a page takes."""


def laid_out(rng: random.Random, layout: Layout, say: Wording, *, compressed: bool = True) -> tuple[bytes, int]:
    """The invoice as a PDF, and how many pages it has."""
    face, draw = _LAYOUTS[layout]
    size = ROLL if layout == "receipt" else say.country.paper
    before, pages = rng.getstate(), 1
    while True:
        sheets = Sheets(size, face, title=f"{say.title} {say.invoice.number}", pages=pages, compressed=compressed)
        draw(rng, sheets, say)
        if layout == "receipt" and size == ROLL:
            size = (ROLL[0], sheets.y + 24)
        elif sheets.page == pages:
            return sheets.written(), pages
        # "Page 1 of 3", and where to cut the roll, is known at the end: once more, by the same chances.
        pages = sheets.page
        rng.setstate(before)


def _address(sheets: Sheets, x: float, y: float, party: Party, *, name: bool = True) -> float:
    """The lines of an address, and where they end."""
    leading = sheets.face.size * 1.3
    for text in (*((party.name,) if name else ()), party.street, party.town):
        sheets.text(x, y, text)
        y += leading
    return y


def _facts(sheets: Sheets, say: Wording, left: float, right: float, y: float, *, flush: bool = True) -> float:
    """Labels and values of the document's numbers and dates, one row each."""
    leading = sheets.face.size * 1.45
    for label, value in say.meta():
        sheets.text(left, y, label + say.colon)
        if flush:
            sheets.text(right, y, value, align="right")
        else:
            sheets.text(left + (right - left) * 0.52, y, value)
        y += leading
    return y


def _foot(sheets: Sheets, say: Wording, left: float, right: float) -> None:
    """Three small columns: the vendor, its bank, its numbers."""
    vendor, invoice = say.invoice.vendor, say.invoice
    small = Face(sheets.face.name, 7.2)
    y = sheets.height - FOOT + 14
    sheets.rule(left, y - 10, right, weight=0.4, colour=GREY)
    bank = (say.label("bank"), invoice.bank, f"IBAN {invoice.iban}") if invoice.iban else ()
    columns = (
        (*small.wrapped(vendor.name, (right - left) * 0.33), vendor.street, vendor.town),
        (f"{say.label('phone')} {vendor.phone}", f"office@{vendor.host}", f"{say.tax_label} {vendor.tax_number}"),
        bank,
    )
    for place, texts in enumerate(columns):
        for at, text in enumerate(texts):
            sheets.text(left + place * (right - left) * 0.34, y + at * 9.5, text, size=small.size, colour=GREY)
    _page_number(sheets, say, right)


def _page_number(sheets: Sheets, say: Wording, right: float) -> None:
    if sheets.pages > 1:
        text = say.label("page", page=str(sheets.page), pages=str(sheets.pages))
        sheets.text(right, sheets.height - 22, text, size=7.5, align="right", colour=GREY)


def _closing(sheets: Sheets, say: Wording, left: float) -> None:
    sheets.y += 16
    for text in say.closing():
        sheets.text(left, sheets.y, text)
        sheets.y += sheets.face.size * 1.5


def _letter(
    rng: random.Random,
    sheets: Sheets,
    say: Wording,
    *,
    head: Callable[[], None],
    facts: Callable[[], None],
    table: Table,
) -> None:
    """What letters share: head, facts, table, sums, closing, and the foot on every page."""
    head()
    facts()
    table.draw(sheets, say)
    table.room(sheets, 26 * sheets.face.size)
    sheets.y += 6
    sums(sheets, say, left=table.left + (table.right - table.left) * rng.choice((0.48, 0.54)), right=table.right)
    _closing(sheets, say, table.left)
    _foot(sheets, say, table.left, table.right)


def _continued(sheets: Sheets, say: Wording, left: float, right: float, *, top: float = 50) -> float:
    """Ends a page with its foot and begins the next with a short head."""
    _foot(sheets, say, left, right)
    sheets.turn()
    sheets.text(left, top, f"{say.title} {say.invoice.number}", bold=True)
    sheets.text(right, top, say.invoice.vendor.name, align="right", colour=GREY)
    return top + 16


def _letter_left(rng: random.Random, sheets: Sheets, say: Wording) -> None:
    """The head on the left; the customer in the window of the envelope, the facts beside it."""
    left, right, invoice = 62.0, sheets.width - 56, say.invoice
    colour = rng.choice(_COLOURS)

    def head() -> None:
        sheets.disc(left + 12, 52, 12, colour)
        sheets.text(left + 12, 57, invoice.vendor.name[0], size=14, bold=True, align="centre", colour=WHITE)
        sheets.text(left + 32, 57, invoice.vendor.name, size=15, bold=True, colour=colour)
        line = f"{invoice.vendor.name} · {invoice.vendor.street} · {invoice.vendor.town}"
        sheets.text(left, 128, line, size=6.5, colour=GREY)
        sheets.rule(left, 131, left + sheets.face.width(line, size=6.5), weight=0.3, colour=GREY)
        _address(sheets, left, 146, invoice.customer)

    def facts() -> None:
        end = _facts(sheets, say, right - 205, right, 146)
        sheets.text(left, max(end, 220) + 24, say.title, size=16, bold=True)
        sheets.y = max(end, 220) + 42

    turn = lambda: _continued(sheets, say, left, right)  # noqa: E731
    table = Table(left, right, sheets.height - FOOT, turn, "lines", colour)
    _letter(rng, sheets, say, head=head, facts=facts, table=table)


def _letter_right(rng: random.Random, sheets: Sheets, say: Wording) -> None:
    """The head on the right; the facts in a strip across the page, labels above values."""
    left, right, invoice = 56.0, sheets.width - 56, say.invoice
    vendor = invoice.vendor

    def head() -> None:
        sheets.text(right, 56, vendor.name, size=14, bold=True, align="right")
        phone = f"{say.label('phone')} {vendor.phone}"
        for at, text in enumerate((vendor.street, vendor.town, phone, f"www.{vendor.host}")):
            sheets.text(right, 72 + at * 12, text, align="right", colour=GREY)
        sheets.text(left, 138, say.label("bill_to") + say.colon, size=8, colour=GREY)
        _address(sheets, left, 152, invoice.customer)

    def facts() -> None:
        sheets.text(left, 222, say.title, size=18, bold=True)
        y, rows = 246.0, say.meta()
        for start in range(0, len(rows), 4):
            for at, (label, value) in enumerate(rows[start : start + 4]):
                x = left + at * (right - left) / 4
                sheets.text(x, y, label, size=7.5, colour=GREY)
                sheets.text(x, y + 12, value, bold=True)
            y += 32
        sheets.y = y

    turn = lambda: _continued(sheets, say, left, right)  # noqa: E731
    table = Table(left, right, sheets.height - FOOT, turn, "zebra", GREY, positions=rng.random() < 0.6)
    _letter(rng, sheets, say, head=head, facts=facts, table=table)


def _ruled(rng: random.Random, sheets: Sheets, say: Wording) -> None:
    """A form: everything in boxes."""
    left, right, invoice = 48.0, sheets.width - 48, say.invoice
    middle = (left + right) / 2
    sheets.text(left, 58, invoice.vendor.name, size=15, bold=True)
    _address(sheets, left, 73, invoice.vendor, name=False)
    sheets.text(right, 60, say.title.upper(), size=20, bold=True, align="right")
    sheets.text(left, 102, f"{say.tax_label}: {invoice.vendor.tax_number}")
    rows = say.meta()
    height = max(len(rows) * 15.0, 66.0)
    top = 122.0
    for x in (left, middle - 8, middle + 8, middle + 138, right):
        sheets.upright(x, top, top + height)
    for edges in ((left, middle - 8), (middle + 8, right)):
        for y in (top, top + height):
            sheets.rule(edges[0], y, edges[1])
    sheets.text(left + 5, top + 12, say.label("bill_to"), bold=True)
    _address(sheets, left + 5, top + 28, invoice.customer)
    for at, (label, value) in enumerate(rows):
        sheets.text(middle + 13, top + 11 + at * 15, label)
        sheets.text(middle + 143, top + 11 + at * 15, value)
        if at:
            sheets.rule(middle + 8, top + at * 15, right)
    sheets.y = top + height + 18
    turn = lambda: _continued(sheets, say, left, right)  # noqa: E731
    table = Table(left, right, sheets.height - FOOT, turn, "grid")
    table.draw(sheets, say)
    table.room(sheets, 24 * sheets.face.size)
    sums(sheets, say, left=left + (right - left) * 0.5, right=right, boxed=True)
    _closing(sheets, say, left)
    if invoice.iban:
        sheets.text(left, sheets.y + 8, f"{say.label('bank')}: {invoice.bank}, IBAN {invoice.iban}")
    _foot(sheets, say, left, right)


def _compact(rng: random.Random, sheets: Sheets, say: Wording) -> None:
    """Small type, little air: the vendor in one line, the facts in two columns."""
    left, right, invoice = 42.0, sheets.width - 42, say.invoice
    vendor = invoice.vendor
    sheets.text(left, 40, vendor.name, size=11, bold=True)
    about = f"{vendor.street}, {vendor.town}, {say.label('phone')} {vendor.phone}, {say.tax_label} {vendor.tax_number}"
    sheets.text(left, 52, about, size=7)
    sheets.rule(left, 57, right)
    sheets.text(left, 72, f"{say.title}", size=11, bold=True)
    half = (len(say.meta()) + 1) // 2
    for at, (label, value) in enumerate(say.meta()):
        x, y = left + (at // half) * 150, 86 + (at % half) * 11
        sheets.text(x, y, f"{label}{say.colon} {value}")
    _address(sheets, right - 170, 72, invoice.customer)
    sheets.y = max(86 + half * 11, 108) + 8

    turn = lambda: _continued(sheets, say, left, right, top=40)  # noqa: E731
    table = Table(left, right, sheets.height - FOOT, turn, "none", positions=rng.random() < 0.5)
    table.draw(sheets, say)
    table.room(sheets, 22 * sheets.face.size)
    sheets.rule(left, sheets.y + 2, right)
    sheets.y += 4
    sums(sheets, say, left=left + (right - left) * 0.58, right=right)
    _closing(sheets, say, left)
    _foot(sheets, say, left, right)


def _modern(rng: random.Random, sheets: Sheets, say: Wording) -> None:
    """A coloured column on the left with the vendor and the facts; a large total."""
    side, invoice = 158.0, say.invoice
    vendor = invoice.vendor
    left, right = side + 26, sheets.width - 34
    colour = rng.choice(_COLOURS)

    def column() -> None:
        sheets.fill(0, 0, side, sheets.height, colour)
        y = 60.0
        for text in Face("Helvetica", 13).wrapped(vendor.name, side - 44):
            sheets.text(20, y, text, size=13, bold=True, colour=WHITE)
            y += 16
        for text in (vendor.street, vendor.town, vendor.phone, vendor.host):
            sheets.text(20, y + 4, text, size=8, colour=WHITE)
            y += 11
        y += 28
        for label, value in say.meta():
            sheets.text(20, y, label, size=7, colour=(0.85, 0.85, 0.88))
            sheets.text(20, y + 12, value, size=9.5, bold=True, colour=WHITE)
            y += 32
        y = sheets.height - 96
        bank = (say.label("bank"), invoice.bank, invoice.iban) if invoice.iban else ()
        for text in (*bank, f"{say.tax_label}", vendor.tax_number):
            sheets.text(20, y, text, size=7, colour=WHITE)
            y += 10

    def turn() -> float:
        _page_number(sheets, say, right)
        sheets.turn()
        sheets.fill(0, 0, side, sheets.height, colour)
        sheets.text(20, 60, f"{say.title}", size=8, colour=WHITE)
        sheets.text(20, 72, invoice.number, size=9.5, bold=True, colour=WHITE)
        return 60

    column()
    sheets.text(left, 72, say.title, size=24, colour=colour)
    sheets.text(left, 112, say.label("bill_to"), size=7.5, colour=GREY)
    _address(sheets, left, 126, invoice.customer)
    sheets.y = 190
    table = Table(left, right, sheets.height - 50, turn, "bar", colour, positions=False)
    table.draw(sheets, say)
    table.room(sheets, 24 * sheets.face.size)
    sheets.y += 8
    sums(sheets, say, left=left + (right - left) * 0.34, right=right, accent=colour, large=True)
    _closing(sheets, say, left)
    _page_number(sheets, say, right)


def _receipt(rng: random.Random, sheets: Sheets, say: Wording) -> None:
    """The roll of a till: two lines per article."""
    left, right, invoice = 12.0, sheets.width - 12, say.invoice
    vendor, middle, leading = invoice.vendor, sheets.width / 2, 11.0
    y = 30.0
    for text in Face("Courier", 10.5).wrapped(vendor.name, right - left):
        sheets.text(middle, y, text, size=10.5, bold=True, align="centre")
        y += 13
    phone = f"{say.label('phone')} {vendor.phone}"
    for text in (vendor.street, vendor.town, phone, f"{say.tax_label} {vendor.tax_number}"):
        sheets.text(middle, y, text, align="centre")
        y += leading
    y += 8
    sheets.text(middle, y, say.title.upper(), bold=True, align="centre")
    y += 16
    time = f"{rng.randrange(8, 20):02d}:{rng.randrange(60):02d}"
    extra = [(say.label("time"), time), (say.label("till"), str(rng.randint(1, 6)))]
    for label, value in [*say.meta()[:2], *extra]:
        sheets.text(left, y, label + say.colon)
        sheets.text(right, y, value, align="right")
        y += leading
    y += 2
    sheets.rule(left, y - 6, right, weight=0.4)
    y += 4
    for line in invoice.lines:
        sheets.text(left, y, line.item)
        detail = f"{say.quantity(line.quantity)} x {say.line_money(line.unit_price)}"
        sheets.text(left + 12, y + leading, detail)
        sheets.text(right, y + leading, say.line_money(line.total), align="right")
        y += leading * 2 + 2
    sheets.rule(left, y - 6, right, weight=0.4)
    y += 6
    for row in say.sums():
        size = 9.5 if row.strong else sheets.face.size
        sheets.text(left, y, row.label, bold=row.strong, size=size)
        sheets.text(right, y, row.amount, bold=row.strong, size=size, align="right")
        y += leading + (3 if row.strong else 0)
    y += 4
    for label, value in say.paid_in_cash(rng):
        sheets.text(left, y, label)
        sheets.text(right, y, value, align="right")
        y += leading
    y += 10
    for text in say.closing():
        for part in sheets.face.wrapped(text, right - left):
            sheets.text(middle, y, part, align="centre")
            y += leading
    sheets.y = y


_Draw = Callable[[random.Random, Sheets, Wording], None]

_LAYOUTS: dict[Layout, tuple[Face, _Draw]] = {
    "letter_left": (Face("Helvetica", 9.5), _letter_left),
    "letter_right": (Face("Helvetica", 9), _letter_right),
    "ruled": (Face("Times-Roman", 10), _ruled),
    "compact": (Face("Helvetica", 7.5), _compact),
    "modern": (Face("Helvetica", 9), _modern),
    "receipt": (Face("Courier", 8), _receipt),
}
