"""The amounts of an invoice by their labels, and which of them is its total: the one that the label, the place and the
arithmetic agree on. What is left to pay is not what the invoice amounts to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from penstock.pipelines.documents.reader_labels import Label, mentions
from penstock.pipelines.documents.reader_layout import Sheet, under
from penstock.pipelines.documents.reader_lexicon import Kind
from penstock.pipelines.documents.reader_table import Header
from penstock.pipelines.documents.reader_values import Amount, Mark, amounts, percents

MOST = 60
"""Amounts of one kind that are weighed against each other, the last on the document: totals stand at its end."""

CENT = Decimal("0.02")
"""What sums may differ by, since each part is rounded."""

_NET_OR_ALL = re.compile(r"nett?\s?(?:amt|total|amount)", re.I)
_AMOUNTS: frozenset[Kind] = frozenset({
    "total", "due", "net", "tax", "paid", "before", "other_amount", "rounding", "tendered", "change",
})  # fmt: skip


@dataclass(frozen=True)
class Labelled:
    """An amount with the label that it stands beside."""

    kind: Kind
    strength: int
    amount: Amount
    row: int
    text: str
    percent: Decimal | None = None

    @property
    def value(self) -> Decimal:
        return self.amount.value


@dataclass(frozen=True)
class Totals:
    subtotal: Decimal | None = None
    tax_rate: Decimal | None = None
    tax_amount: Decimal | None = None
    total: Decimal | None = None


def labelled(sheet: Sheet, found: Iterable[Label], heads: Sequence[Header], mark: Mark | None) -> list[Labelled]:
    """The amounts beside labels: to the right in the same row, up to the next label; else below, in the same column."""
    of_heads = {row for head in heads for row in range(head.row, head.below)}
    wanted = [label for label in found if label.kind in _AMOUNTS and label.cell.row not in of_heads]
    out = []
    for label in wanted:
        amount = _beside(sheet, label, mark) or _below(sheet, label, mark)
        if amount is not None:
            rates = percents(f"{label.cell.text[: label.start]} {right_of(sheet, label)}")
            rate = rates[0] if rates else None
            text = label.cell.text[label.start : label.end]
            out.append(Labelled(label.kind, label.strength, amount, label.cell.row, text, rate))
    return [one for kind in sorted(_AMOUNTS) for one in [other for other in out if other.kind == kind][-MOST:]]


def totals(sheet: Sheet, money: Sequence[Labelled], heads: Sequence[Header], found: Sequence[Label]) -> Totals:
    nets = [one for one in money if one.kind == "net"]
    taxes = [one for one in money if one.kind == "tax"]
    total = _total(sheet, money, nets, taxes)
    tax_rate = _rate(sheet, taxes, heads, found)
    if total is None:
        return Totals(_strongest(nets), tax_rate, _only(taxes), None)
    pair = _pair(total, nets, taxes)
    if pair is not None:
        return Totals(pair[0], tax_rate, pair[1], total)
    left = [one for one in nets if abs(one.value) <= abs(total) or _less(money)]
    return Totals(_strongest(left), tax_rate, _only(taxes), total)


def _total(
    sheet: Sheet, money: Sequence[Labelled], nets: Sequence[Labelled], taxes: Sequence[Labelled]
) -> Decimal | None:
    """The candidate for which most speaks; of equals the one further down."""
    several = any(one.value for one in money)
    counts = Counter(one.value for one in money if one.kind in ("total", "due", "tendered"))
    best: tuple[float, int, Decimal] | None = None
    for one in money:
        if not _may_be_total(one) or (several and not one.value) or (sheet.scanned and not one.amount.money):
            continue
        fits = _pair(one.value, [net for net in nets if net is not one], taxes) is not None
        score = 10.0 * one.strength + (6 if one.amount.money else -12) + min(6, 3 * (counts[one.value] - 1))
        score += 25 * fits + 12 * _was_paid(one, money) + 8 * _was_rounded(one, money)
        if one.kind != "total":
            score -= 25
        if one.kind == "due" and not fits and any(other.kind in ("paid", "before") and other.value for other in money):
            score -= 40
        taxed = any(tax.value for tax in taxes) and not fits
        if one.kind != "net" and taxed and any(abs(net.value - one.value) <= CENT for net in nets):
            score -= 20
        if best is None or (score, one.row) > best[:2]:
            best = (score, one.row, one.value)
    return best[2] if best is not None and best[0] > 5 else None


def _may_be_total(one: Labelled) -> bool:
    """On a receipt, the net amount is what is left after all discounts: the total."""
    return one.kind in ("total", "due") or (one.kind == "net" and bool(_NET_OR_ALL.match(one.text)))


def _was_paid(one: Labelled, money: Sequence[Labelled]) -> bool:
    """Whether what was given less the change comes to it."""
    given, back = ([other.value for other in money if other.kind == kind] for kind in ("tendered", "change"))
    return any(abs(cash - change - one.value) <= CENT for cash in given for change in back)


def _was_rounded(one: Labelled, money: Sequence[Labelled]) -> bool:
    """Whether another total with the printed rounding comes to it."""
    steps = {sign * other.value for other in money if other.kind == "rounding" and other.value for sign in (1, -1)}
    return any(other.value + step == one.value for other in money if other.kind == "total" for step in steps)


def _pair(total: Decimal, nets: Sequence[Labelled], taxes: Sequence[Labelled]) -> tuple[Decimal, Decimal | None] | None:
    """A printed net and tax that come to the total. Several taxes are summed for the test; their sum is answered only
    if it is printed."""
    sums = {one.value for one in taxes}
    rows = {one.row: one.value for one in taxes if one.percent is not None}
    several = sum(rows.values(), Decimal(0)) if len(rows) > 1 else None
    for net in sorted(nets, key=lambda one: -one.strength):
        for tax in sorted(sums, reverse=True):
            if abs(net.value + tax - total) <= CENT and tax:
                return net.value, tax
        if several is not None and abs(net.value + several - total) <= CENT:
            return net.value, several if several in sums else None
    for net in nets:
        if net.value == total and Decimal(0) in sums and not any(sums):
            return net.value, Decimal(0)
    return None


def _rate(sheet: Sheet, taxes: Sequence[Labelled], heads: Sequence[Header], found: Sequence[Label]) -> Decimal | None:
    """The one rate that stands beside the word for tax; None where there are several."""
    rates = {one.percent for one in taxes if one.percent is not None}
    for label in found:
        if label.kind in ("tax", "rate") and label.cell.row not in {head.row for head in heads}:
            rates |= set(percents(label.rest)) | set(percents(right_of(sheet, label)))
    for head in heads:
        column = next((one for one in head.columns if one.kind in ("tax", "rate")), None)
        if column is None:
            continue
        for cell in sheet.below(column.box, head.below - 1, lines=40, rows=60):
            rates |= set(percents(cell.text))
    return rates.pop() if len(rates) == 1 else None


def right_of(sheet: Sheet, label: Label) -> str:
    """What stands to the right of a label in its row, up to the next label."""
    texts = [label.rest]
    if label.cell.text[label.end :] == label.rest:
        for cell in sheet.rows[label.cell.row].cells[label.place + 1 :]:
            if mentions(cell.text) and not re.fullmatch(r"[\d.,\s%$€£]*(?:RM|EUR)?[\d.,\s]*", cell.text):
                break
            texts.append(cell.text)
    return "  ".join(texts)


def _beside(sheet: Sheet, label: Label, mark: Mark | None) -> Amount | None:
    text = right_of(sheet, label)
    if sheet.scanned and mark != ",":
        # OCR loses the point of faint print, not the space around it.
        text = re.sub(r"(\D|^)(\d{1,4}) (\d\d)$", r"\1\2.\3", text)
    found = amounts(text, mark, scanned=sheet.scanned)
    money = [one for one in found if one.money]
    return (money or found)[-1] if found else None


def _below(sheet: Sheet, label: Label, mark: Mark | None) -> Amount | None:
    """Only where nothing but the label is in its cell, and the cell below is nothing but an amount."""
    if label.rest.strip(" :*()"):
        return None
    for box in (label.box, sheet.column(label.box, label.cell.row)):
        column: list[Amount] = []
        for cell in sheet.below(box, label.cell.row, lines=4.5, rows=8):
            found = amounts(under(cell, box).text, mark, scanned=sheet.scanned)
            if not found or not found[-1].money or re.search(r"[^\W\d_]{4,}", cell.text):
                break
            column.append(found[-1])
        if column:
            sums = len(column) > 2 and sum(one.value for one in column[:-1]) == column[-1].value
            return column[-1] if sums else column[0]
    return None


def _strongest(found: Sequence[Labelled]) -> Decimal | None:
    best = max(found, key=lambda one: (one.strength, one.row), default=None)
    return None if best is None else best.value


def _only(taxes: Sequence[Labelled]) -> Decimal | None:
    strong = [one for one in taxes if one.strength >= 6] or list(taxes)
    values = {one.value for one in strong}
    return values.pop() if len(values) == 1 else None


def _less(money: Sequence[Labelled]) -> bool:
    return any(one.kind == "other_amount" and one.value for one in money)
