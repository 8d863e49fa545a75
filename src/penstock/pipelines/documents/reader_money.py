"""The amounts of an invoice by their labels, and which of them is its total: the one that the label, the place and the
arithmetic agree on. What is left to pay is not what the invoice amounts to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from penstock.pipelines.documents.reader_labels import Kind, Label
from penstock.pipelines.documents.reader_layout import Cell, Sheet, under
from penstock.pipelines.documents.reader_table import Header
from penstock.pipelines.documents.reader_values import CODES, SIGNS, Amount, Mark, amounts, percents

CENT = Decimal("0.02")
"""What sums may differ by, since each part is rounded."""

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
            rates = percents(f"{label.cell.text[: label.start]} {_right(sheet, label)}")
            rate = rates[0] if rates else None
            text = label.cell.text[label.start : label.end]
            out.append(Labelled(label.kind, label.strength, amount, label.cell.row, text, rate))
    return out


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


def _total(sheet: Sheet, money: Sequence[Labelled], nets: Sequence[Labelled], taxes: Sequence[Labelled]) -> Decimal | None:
    carried = any(one.kind in ("paid", "before") and one.value for one in money)
    given, back = ([one.value for one in money if one.kind == kind] for kind in ("tendered", "change"))
    rounding = [one.value for one in money if one.kind == "rounding" and one.value]
    best: tuple[float, int, Decimal] | None = None
    counts = Counter(one.value for one in money if one.kind in ("total", "due", "tendered"))
    for one in money:
        either = one.kind == "net" and re.match(r"net", one.text, re.I)
        if not either and one.kind not in ("total", "due") or (one.value == 0 and any(other.value for other in money)):
            continue
        score = 10.0 * one.strength - (25 if one.kind != "total" else 0)
        fits = _pair(one.value, [net for net in nets if net is not one], taxes) is not None
        if one.kind == "due" and carried and not fits:
            score -= 40
        score += 25 if fits else 0
        score += 12 if any(abs(cash - change - one.value) <= CENT for cash in given for change in back) else 0
        score += 8 if rounding and any(abs(other.value + step - one.value) < CENT / 2 for other in money if other.kind == "total" for step in (*rounding, *(-step for step in rounding))) and counts[one.value] else 0
        score += min(6, 3 * (counts[one.value] - 1))
        score += 6 if one.amount.money else -30 if sheet.scanned else -12
        if not either and any(abs(other.value - one.value) <= CENT for other in nets) and not fits and taxes and any(tax.value for tax in taxes):
            score -= 20
        key = (score, one.row, one.value)
        if best is None or key[:2] > best[:2]:
            best = key
    return best[2] if best is not None and best[0] > 5 else None


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
            rates |= set(percents(label.rest)) | set(percents(_right(sheet, label)))
    for head in heads:
        column = next((one for one in head.columns if one.kind in ("tax", "rate")), None)
        if column is None:
            continue
        for cell in sheet.below(column.box, head.below - 1, lines=40, rows=60):
            rates |= set(percents(cell.text))
    return rates.pop() if len(rates) == 1 else None


def _right(sheet: Sheet, label: Label) -> str:
    """What stands to the right of a label in its row, up to the next label."""
    texts = [label.rest]
    if label.cell.text[label.end :] == label.rest:
        from penstock.pipelines.documents.reader_labels import mentions

        for cell in sheet.rows[label.cell.row].cells[label.place + 1 :]:
            if mentions(cell.text) and not re.fullmatch(r"[\d.,\s%$€£]*(?:RM|EUR)?[\d.,\s]*", cell.text):
                break
            texts.append(cell.text)
    return "  ".join(texts)


def _beside(sheet: Sheet, label: Label, mark: Mark | None) -> Amount | None:
    found = amounts(_right(sheet, label), mark, scanned=sheet.scanned)
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


# Currency ----------------------------------------------------------------------------------------------------------

_NAMES = {
    "EUR": r"\beuros?\b", "USD": r"\bu\.?s\.?\s?dollars?\b|\bUS\$", "GBP": r"\bpounds?\ssterling\b", "CHF": r"\b(?:swiss\s|schweizer\s)?franken\b|\bswiss\sfrancs\b",
    "MYR": r"\bringgit\b", "INR": r"\b(?:indian\s)?rupees\b", "CAD": r"\bcanadian\sdollars?\b", "AUD": r"\baustralian\sdollars?\b",
    "SGD": r"\bsingapore\sdollars?\b", "JPY": r"\b(?:japanese\s)?yen\b",
}  # fmt: skip
_DOLLARS = {
    "USD": r"\b(?:AL|AK|AZ|AR|CA|CO|CT|DE|FL|GA|HI|ID|IL|IN|IA|KS|KY|LA|ME|MD|MA|MI|MN|MS|MO|MT|NE|NV|NH|NJ|NM|NY|NC|ND|OH|OK|OR|PA|RI|SC|SD|TN|TX|UT|VT|VA|WA|WV|WI|WY|DC)"
           r"\b[.,]?\s+\d{4}[\dA-Z](?:-\d{4})?\b|\bUSA\b|\bU\.S\.A\.|\bUnited\sStates\b",
    "CAD": r"\b[ABCEGHJ-NPRSTVXY]\d[A-Z]\s?\d[A-Z]\d\b|\bCanada\b",
    "AUD": r"\bAustralia\b|\bABN\b|\b(?:NSW|VIC|QLD|TAS)\s\d{4}\b",
    "NZD": r"\bNew\sZealand\b",
    "SGD": r"\bSingapore\b",
    "HKD": r"\bHong\sKong\b|,\s?HK\b",
}  # fmt: skip


def currency(sheet: Sheet, found: Sequence[Label], mark: Mark | None) -> str | None:
    """By its code, its name, a sign that stands for one currency only, or a shared sign on a page with one country's
    address. None where that leaves a doubt."""
    text = sheet.text
    for label in found:
        if label.kind == "currency" and (named := re.search(rf"\b({'|'.join(CODES)})\b", _right(sheet, label))):
            return named[1]
    votes: Counter[str] = Counter()
    shared: Counter[str] = Counter()
    for cell in sheet.cells():
        for amount in amounts(cell.text, mark, scanned=sheet.scanned):
            code = _code(amount.sign)
            if code and (amount.decimals == 2 or amount.sign in SIGNS):
                votes[code] += 1
            elif amount.sign:
                shared[amount.sign.strip(".").lower()] += 1
    for code, pattern in _NAMES.items():
        votes[code] += 2 * bool(re.search(pattern, text, re.I))
    votes["MYR"] += len(re.findall(r"\(RM\)|\bRM\b", text))
    for code in re.findall(rf"\((?:in\s)?({'|'.join(CODES)})\)|\bin\s+({'|'.join(CODES)})\b|\b(?:Total|Betrag)\s+({'|'.join(CODES)})\b", text):
        votes["".join(code)] += 1
    votes += Counter()
    if votes:
        (best, most), *others = votes.most_common(2)
        return best if not others or most >= 2 * others[0][1] else None
    if shared["$"]:
        shown = [code for code, pattern in _DOLLARS.items() if re.search(pattern, text)]
        return shown[0] if len(shown) == 1 else None
    if shared["rs"] and re.search(r"\bIndia\b|\bGSTIN\b", text):
        return "INR"
    return None


def _code(sign: str) -> str | None:
    if sign in SIGNS:
        return SIGNS[sign]
    if sign in CODES:
        return sign
    return {"US$": "USD", "S$": "SGD", "A$": "AUD", "C$": "CAD", "HK$": "HKD", "RM": "MYR"}.get(sign)


def values_of(cells: Iterable[Cell], mark: Mark | None) -> list[Amount]:
    return [amount for cell in cells for amount in amounts(cell.text, mark)]
