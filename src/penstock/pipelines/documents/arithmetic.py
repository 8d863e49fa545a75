"""The sums of an invoice: total = subtotal + tax, tax = subtotal x rate, the lines add up. Discounts and shipping that
are printed on the page are tried as the reason where a sum is off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations, product
from typing import Literal

from penstock.pipelines.documents.model import FieldName, InvoiceData
from penstock.pipelines.documents.sheet import Sheet

TAX_TOLERANCE = Decimal("0.02")
TOTAL_TOLERANCE = Decimal("0.02")
LINES_TOLERANCE = Decimal("0.05")
CENTS = Decimal("0.02")
"""What rounding may take or add."""
MOST_ADJUSTMENTS = 5
"""Printed discounts and charges that are tried together."""


@dataclass(slots=True, frozen=True)
class Relation:
    """One sum. `exact` to the cent, `close` within its tolerance, or `off`. `proves` are the fields a sum that is exact
    speaks for; one of two equal values (a total without tax) proves less."""

    name: str
    fields: tuple[FieldName, ...]
    state: Literal["exact", "close", "off"]
    note: str
    weak: bool = False


def relations(data: InvoiceData, sheet: Sheet) -> list[Relation]:
    adjustments = _adjustments(data, sheet)
    return [*_total(data, adjustments), *_tax(data, adjustments), *_lines(data, adjustments)]


def _adjustments(data: InvoiceData, sheet: Sheet) -> list[Decimal]:
    """Amounts beside words for discounts, charges and shipping, without those that are the totals themselves."""
    known = {data.total, data.subtotal, data.tax_amount}
    found: list[Decimal] = []
    for number in sheet.numbers:
        if number.nearest and not number.percent and number.beside is not None and number.beside.kind == "adjust":
            amount = abs(number.value)
            if amount and amount not in known and amount not in found:
                found.append(amount)
                if len(found) == MOST_ADJUSTMENTS:
                    break
    return found


def _explained(gap: Decimal, adjustments: Sequence[Decimal]) -> tuple[Decimal, ...] | None:
    """Printed discounts (taken off) and charges (added) that make up a gap, the fewest first."""
    for count in range(1, min(3, len(adjustments)) + 1):
        for chosen in combinations(adjustments, count):
            for signs in product((-1, 1), repeat=count):
                signed = tuple(sign * amount for sign, amount in zip(signs, chosen, strict=True))
                if abs(sum(signed) - gap) <= CENTS:
                    return signed
    return None


def _state(gap: Decimal, of: Decimal, tolerance: Decimal, cents: Decimal = CENTS) -> Literal["exact", "close", "off"]:
    if abs(gap) <= cents:
        return "exact"
    return "close" if abs(gap) <= abs(of) * tolerance else "off"


def _signed(amounts: Iterable[Decimal]) -> str:
    return " ".join(f"{'-' if amount < 0 else '+'} {abs(amount)}" for amount in amounts)


def _total(data: InvoiceData, adjustments: Sequence[Decimal]) -> Iterable[Relation]:
    total, subtotal, tax = data.total, data.subtotal, data.tax_amount
    if total is None or subtotal is None:
        return
    fields: tuple[FieldName, ...] = ("subtotal", "tax_amount", "total") if tax is not None else ("subtotal", "total")
    if tax is None and data.tax_rate is not None:
        tax = (subtotal * data.tax_rate / 100).quantize(Decimal("0.01"))
        fields = ("subtotal", "tax_rate", "total")
    sum_text = f"{subtotal} + {tax}" if tax is not None else f"{subtotal}"
    gap = total - subtotal - (tax or 0)
    state = _state(gap, total, TOTAL_TOLERANCE)
    if state != "exact" and (signed := _explained(gap, adjustments)):
        note = f"{sum_text} {_signed(signed)} = {total}, with the discount or charge on the page"
        yield Relation("total is subtotal and tax", fields, "exact", note)
    elif state == "off" and tax is None:
        note = f"the total {total} is not the subtotal {subtotal}, and no tax is known"
        yield Relation("total is subtotal and tax", fields, "close", note)
    else:
        words = {"exact": "=", "close": "is nearly", "off": "is not"}[state]
        note = f"{sum_text} {words} {total}"
        if state == "off":
            note += "; a discount or shipping may be missing"
        yield Relation("total is subtotal and tax", fields, state, note, weak=not tax)


def _tax(data: InvoiceData, adjustments: Sequence[Decimal]) -> Iterable[Relation]:
    subtotal, tax, rate = data.subtotal, data.tax_amount, data.tax_rate
    if subtotal is None or tax is None or rate is None:
        return
    fields: tuple[FieldName, ...] = ("subtotal", "tax_rate", "tax_amount")
    bases = [subtotal, subtotal if data.total is None else data.total - tax]
    bases += [subtotal - amount for amount in adjustments] + [subtotal + amount for amount in adjustments]
    best = min(bases, key=lambda base: abs(base * rate / 100 - tax))
    meant = (best * rate / 100).quantize(Decimal("0.01"))
    state = _state(meant - tax, max(abs(tax), Decimal("0.5")), TAX_TOLERANCE)
    words = {"exact": "=", "close": "is nearly", "off": "is not"}[state]
    after = "" if best == subtotal else " (after discounts and charges)"
    if best == bases[1] != subtotal:
        # Then nothing is said about the subtotal.
        fields = ("tax_rate", "tax_amount", "total")
    note = f"{rate} % of {best}{after} {words} {tax}"
    if state == "off":
        note += "; there may be several rates"
    yield Relation("tax is subtotal times rate", fields, state, note, weak=not tax)


def _lines(data: InvoiceData, adjustments: Sequence[Decimal]) -> Iterable[Relation]:
    totals = [line.total for line in data.line_items]
    known = [amount for amount in totals if amount is not None]
    if not known or len(known) < len(totals):
        return
    added = sum(known, Decimal(0))
    cents = max(CENTS, Decimal("0.01") * len(known))
    count = f"the {len(known)} lines add up to {added}" if len(known) > 1 else f"the only line is {added}"
    off: Relation | None = None
    for name, wanted in (("subtotal", data.subtotal), ("total", data.total)):
        if wanted is None:
            continue
        fields: tuple[FieldName, ...] = ("line_items", "subtotal" if name == "subtotal" else "total")
        state = _state(added - wanted, wanted, LINES_TOLERANCE, cents)
        if state == "exact":
            yield Relation("lines add up", fields, "exact", f"{count}, the {name}")
            return
        with_tax = _with_tax(added, data) if name == "total" and data.subtotal is None else None
        if with_tax is not None and abs(with_tax - wanted) <= cents:
            fields = ("line_items", "total", "tax_rate" if data.tax_amount is None else "tax_amount")
            yield Relation("lines add up", fields, "exact", f"{count}, with tax the total {wanted}")
            return
        if signed := _explained(wanted - added, adjustments):
            note = f"{count} {_signed(signed)} = {wanted}, the {name}, with the discount or charge on the page"
            yield Relation("lines add up", fields, "exact", note)
            return
        if off is None:
            words = "nearly" if state == "close" else "not"
            note = f"{count}, {words} the {name} {wanted}"
            if state == "off":
                note += "; a discount, shipping or a line may be missing"
            off = Relation("lines add up", fields, state, note)
    if off is not None:
        yield off


def _with_tax(added: Decimal, data: InvoiceData) -> Decimal | None:
    if data.tax_amount is not None:
        return added + data.tax_amount
    if data.tax_rate is not None:
        return added + (added * data.tax_rate / 100).quantize(Decimal("0.01"))
    return None
