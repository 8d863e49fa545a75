"""Values of an e-invoice as they are gathered: each is checked strictly, since XML has one way to write a number and
few to write a date, and a value that is wrong is left out with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Any

from pydantic import ValidationError

from penstock.pipelines.documents.model import FieldName, InvoiceData, LineItem
from penstock.pipelines.documents.xmltree import Element

MOST_LINES = 2000
LONGEST = 500

_NUMBER = re.compile(r"[+-]?(\d{1,20}(\.\d{0,12})?|\.\d{1,12})")
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)(\d{4}(\d\d)?)?([+-]\d{4}|Z)?")
_DASHED = re.compile(r"(\d{4})-(\d\d)-(\d\d)([T ].{0,30}|Z|[+-]\d\d:\d\d)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u2028\u2029\ufeff]+")


class Fields:
    """What was found so far. The first reason against a field is kept."""

    def __init__(self) -> None:
        self.refused: dict[str, str] = {}
        self.profile: str | None = None
        self.type_code: str | None = None
        self.iban: str | None = None
        self.vat_id: str | None = None
        self.buyer: str | None = None
        self.payable: Decimal | None = None
        self._found: dict[str, Any] = {}

    def put(self, name: FieldName, value: Any) -> None:
        if value is None:
            return
        try:
            self._found[name] = getattr(InvoiceData.model_validate({name: value}), name)
        except ValidationError as error:
            self.refuse(name, f"{_shown(value)}: {_why(error)}")

    def refuse(self, name: FieldName, reason: str) -> None:
        self.refused.setdefault(name, reason)

    def data(self) -> InvoiceData:
        return InvoiceData.model_validate(self._found)

    def amount(self, name: FieldName, element: Element | None) -> Decimal | None:
        """A number as XML writes it; what is something else is refused for the field."""
        text = element.text.strip() if element is not None else ""
        if not text:
            return None
        if not _NUMBER.fullmatch(text):
            self.refuse(name, f"{_shown(text)} is no number as XML writes it, like 1234.56")
            return None
        return Decimal(text)

    def money(self, name: FieldName, elements: Iterable[Element], currency: str | None) -> Decimal | None:
        """The amount in the invoice's own currency: tax may be told in the tax office's as well."""
        told = [each for each in elements if each.text.strip()]
        others = {each.attributes.get("currencyID") for each in told} - {None, "", currency}
        own = [each for each in told if each.attributes.get("currencyID") in (currency, "", None)]
        if not own and told and (currency is not None or len(others) > 1):
            self.refuse(name, f"it is told in {', '.join(sorted(str(each)[:10] for each in others)[:3])} only")
            return None
        return self.amount(name, next(iter(own or told), None))

    def day(self, name: FieldName, text: str | None, form: str | None) -> date | None:
        """A date by its format code: 102 is YYYYMMDD; without a code it is as XML writes dates."""
        if not text:
            return None
        if form not in (None, "", "102", "203", "204"):
            self.refuse(name, f"{_shown(text)} is written as format {form[:10]}, which names no day")
            return None
        match = _COMPACT.fullmatch(text) or _DASHED.fullmatch(text)
        if match is None:
            self.refuse(name, f"{_shown(text)} is no date")
            return None
        try:
            return date(int(match[1]), int(match[2]), int(match[3]))
        except ValueError:
            self.refuse(name, f"{_shown(text)} is no day of the calendar")
            return None

    def put_days(self, name: FieldName, days: Iterable[date | None]) -> None:
        """One day; several that differ are instalments, and none of them is *the* day."""
        different = sorted({day for day in days if day is not None})
        if len(different) > 1:
            self.refuse(name, f"there are several: {', '.join(day.isoformat() for day in different[:6])}")
        elif different:
            self.put(name, different[0])

    def put_rates(self, rates: Iterable[Decimal | None]) -> None:
        """The rate, if there is one for all of the invoice."""
        different = set(rates)
        if len(different) == 1:
            self.put("tax_rate", different.pop())

    def put_lines(self, lines: list[LineItem]) -> None:
        if len(lines) > MOST_LINES:
            self.refuse("line_items", f"there are {len(lines)} lines, and at most {MOST_LINES} are kept")
        else:
            self.put("line_items", tuple(lines))

    def line(
        self, name: str | None, quantity: Element | None, price: Decimal | None, total: Element | None
    ) -> LineItem:
        values = {
            "item": clean(name),
            "quantity": self.amount("line_items", quantity),
            "unit_price": price,
            "total": self.amount("line_items", total),
        }
        kept: dict[str, Any] = {}
        for key, value in values.items():
            try:
                kept[key] = getattr(LineItem.model_validate({key: value}), key)
            except ValidationError as error:
                self.refuse("line_items", f"{_shown(value)}: {_why(error)}")
        return LineItem.model_validate(kept)

    def price(self, amount: Element | None, basis: Element | None) -> Decimal | None:
        """For one unit: a price may be told for ten or a hundred."""
        price, units = self.amount("line_items", amount), self.amount("line_items", basis)
        if price is None or units in (None, Decimal(0), Decimal(1)):
            return price
        assert units is not None
        return round(price / units, 10).normalize() + Decimal(0)


def clean(text: str | None) -> str | None:
    """On one line, without what cannot be seen; None if nothing is left."""
    if text is None:
        return None
    joined = " ".join(_CONTROL.sub(" ", text).split())
    return (joined if len(joined) <= LONGEST else joined[: LONGEST - 1].rstrip() + "…") or None


def _shown(value: object) -> str:
    text = repr(value if isinstance(value, str) else str(value))
    return text if len(text) <= 60 else f"{text[:58]}…'"


def _why(error: ValidationError) -> str:
    return error.errors()[0]["msg"].removeprefix("Value error, ")
