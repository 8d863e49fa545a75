"""How an invoice is put into words: its figures in the country's formats, the labels beside them, and which of them are
said at all. What is said is the truth of the sample; a layout only chooses where it stands."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from penstock.pipelines.documents.model import InvoiceData, LineItem
from penstock.pipelines.documents.samples import words
from penstock.pipelines.documents.samples.invoices import Invoice

_NAMES = {"EUR": "EUR", "USD": "US dollars (USD)", "INR": "Indian rupees (INR)", "JPY": "Japanese yen (JPY)"}


@dataclass(frozen=True)
class Row:
    """One row of the sums. `strong` ones are printed in bold."""

    label: str
    amount: str
    strong: bool = False


class Wording:
    """One vendor's way of writing, chosen once, and kept through the document. `full` says everything: what an
    e-invoice says too must then be on the page."""

    def __init__(self, rng: random.Random, invoice: Invoice, *, full: bool = False) -> None:
        self.invoice = invoice
        country = self.country = invoice.country
        local = dict(country.local)
        self._labels = {
            name: rng.choice(local.get(name, choices)) for name, choices in words.LABELS[country.language].items()
        }
        self._thousands = rng.choice(country.thousands)
        self._money = rng.choice(country.money)
        self._day = rng.choice(country.days)
        self._negative = rng.choice(country.negative)
        self._signs_in_lines = rng.random() < 0.35
        self._says_subtotal = full or rng.random() < 0.92
        self._says_tax_sum = full or rng.random() < 0.6
        self._says_rate_on_lines = len(invoice.taxes) > 1
        self._zeroes = rng.random() < 0.4
        self._says_units = rng.random() < 0.6
        self.articles = rng.random() < 0.3
        self.colon = rng.choice((":", "", ":"))
        self.stamp = self._labels["stamp"]

    def of(self, invoice: Invoice) -> Wording:
        """Another invoice by the same hand."""
        other = copy.copy(self)
        other.invoice = invoice
        return other

    def label(self, name: str, **values: str) -> str:
        """The word for it; the tax's name is filled in."""
        return self._labels[name].format(tax=self.country.tax, currency=self._currency_name(), **values)

    def _currency_name(self) -> str:
        return _NAMES.get(self.country.currency, self.country.currency)

    # Figures

    def number(self, value: Decimal, decimals: int) -> str:
        whole, _, part = f"{abs(value):.{decimals}f}".partition(".")
        groups = [whole[-3:]]
        whole, size = whole[:-3], 2 if self.country.lakh else 3
        while whole:
            groups.append(whole[-size:])
            whole = whole[:-size]
        text = self._thousands.join(reversed(groups)) + (self.country.point + part if part else "")
        return self._negative.format(n=text) if value < 0 else text

    def money(self, value: Decimal) -> str:
        """With the currency's sign or code."""
        if self._negative.startswith("-") and value < 0 and not self._money.startswith("{n}"):
            return "-" + self._money.format(n=self.number(-value, self.country.decimals))
        return self._money.format(n=self.number(value, self.country.decimals))

    def line_money(self, value: Decimal) -> str:
        """In the table, where the sign is often left out."""
        return self.money(value) if self._signs_in_lines else self.number(value, self.country.decimals)

    def quantity(self, value: Decimal) -> str:
        if value == value.to_integral() and not self._zeroes:
            return f"{int(value)}"
        return ("-" if value < 0 else "") + f"{abs(value):.2f}".replace(".", self.country.point)

    def counted(self, value: Decimal, unit: str) -> str:
        """The quantity, with its unit where this vendor says it."""
        return f"{self.quantity(value)} {unit}" if self._says_units else self.quantity(value)

    def percent(self, value: Decimal) -> str:
        text = f"{value.normalize():f}".replace(".", self.country.point)
        return self.country.percent.format(n=text)

    def day(self, value: date) -> str:
        names = words.VOCABULARIES[self.country.language]
        first = "1er" if self.country.language == "fr" and value.day == 1 and "M" in self._day else str(value.day)
        parts = {
            "D": first, "d": f"{value.day:02d}", "m": f"{value.month:02d}", "y": f"{value.year % 100:02d}",
            "Y": str(value.year), "M": names.months[value.month - 1], "B": names.short_months[value.month - 1],
        }  # fmt: skip
        return "".join(parts.get(letter, letter) for letter in self._day)

    # What stands on the page

    @property
    def title(self) -> str:
        return self.label(self.invoice.document_kind)

    @property
    def tax_label(self) -> str:
        return self.country.tax_id or self.label("tax_id")

    def meta(self) -> list[tuple[str, str]]:
        """The numbers and dates of the document, its own first."""
        found = self.invoice
        number = {"invoice": "number", "credit_note": "credit_number", "receipt": "receipt_number"}[found.document_kind]
        rows: list[tuple[str, str]] = [
            (self.label(number), found.number),
            (self.label("date" if found.document_kind == "invoice" else "plain_date"), self.day(found.date)),
        ]
        for name, text in (
            ("customer_number", found.customer_number),
            ("order", found.order),
            ("order_date", self.day(found.order_date) if found.order_date else ""),
            ("delivery_number", found.delivery_number),
            ("delivery_date", self.day(found.delivery_date) if found.delivery_date else ""),
            ("credits", found.credits),
            ("due", self.day(found.due) if found.due else ""),
        ):
            if text:
                rows.append((self.label(name), text))
        return rows

    def closing(self) -> list[str]:
        """The sentences below the sums."""
        said = []
        if self.invoice.days and not self.invoice.due:
            said.append(self.label("terms", days=str(self.invoice.days)))
        if not self.invoice.taxes:
            said.append(self.label("exempt"))
        if not self.country.sign_is_plain:
            said.append(self.label("currency"))
        said.append(self.label("thanks"))
        return said

    def sums(self) -> list[Row]:
        """From the lines to what is to be paid."""
        found = self.invoice
        if found.gross:
            return self._gross_sums()
        rows = []
        if found.discount or found.shipping:
            rows.append(Row(self.label("line_sum"), self.money(found.line_sum)))
        if found.discount:
            rows.append(
                Row(self.label("discount", rate=self.percent(found.discount_rate)), self.money(-found.discount))
            )
        if found.shipping:
            rows.append(Row(self.label("shipping"), self.money(found.shipping)))
        if found.taxes and self._says_subtotal:
            rows.append(Row(self.label("subtotal"), self.money(found.net)))
        rows += [Row(self.label("tax", rate=self.percent(tax.rate)), self.money(tax.amount)) for tax in found.taxes]
        if len(found.taxes) > 1 and self._says_tax_sum:
            rows.append(Row(self.label("tax_sum"), self.money(found.tax)))
        total = "credit_total" if found.document_kind == "credit_note" else "total"
        rows.append(Row(self.label(total), self.money(found.total), strong=True))
        if found.paid:
            rows.append(Row(self.label("paid"), self.money(-found.paid)))
            rows.append(Row(self.label("amount_due"), self.money(found.due_amount), strong=True))
        return rows

    def _gross_sums(self) -> list[Row]:
        found = self.invoice
        rows = [Row(self.label("total"), self.money(found.total), strong=True)]
        rows += [
            Row(self.label("included", rate=self.percent(tax.rate)), self.money(tax.amount)) for tax in found.taxes
        ]
        if self._says_subtotal:
            rows.append(Row(self.label("net"), self.money(found.net)))
        return rows

    @property
    def rates_on_lines(self) -> bool:
        return self._says_rate_on_lines

    # What is thereby known

    def truth(self) -> InvoiceData:
        found = self.invoice
        says_tax = len(found.taxes) == 1 or (len(found.taxes) > 1 and self._says_tax_sum and not found.gross)
        return InvoiceData(
            vendor=found.vendor.name,
            invoice_number=found.number,
            date=found.date,
            due_date=found.due,
            subtotal=found.net if found.taxes and self._says_subtotal else None,
            tax_rate=found.taxes[0].rate if len(found.taxes) == 1 else None,
            tax_amount=found.tax if says_tax else None,
            total=found.total,
            currency=self.country.currency,
            line_items=tuple(
                LineItem(item=line.item, quantity=line.quantity, unit_price=line.unit_price, total=line.total)
                for line in found.lines
            ),
        )

    def printed(self) -> dict[str, str]:
        """The value of each field of the truth as it stands on the page; of lines, as `line_items[0].total`."""
        truth = self.truth()
        found = self.invoice
        forms: dict[str, Any] = {
            "vendor": truth.vendor,
            "invoice_number": truth.invoice_number,
            "date": self.day(found.date),
            "due_date": found.due and self.day(found.due),
            "subtotal": truth.subtotal is not None and self.money(found.net),
            "tax_rate": truth.tax_rate is not None and self.percent(found.taxes[0].rate),
            "tax_amount": truth.tax_amount is not None and self.money(found.tax),
            "total": self.money(found.total),
            "currency": self._currency_form(),
        }
        for place, line in enumerate(found.lines):
            forms[f"line_items[{place}].item"] = line.item
            forms[f"line_items[{place}].quantity"] = self.quantity(line.quantity)
            forms[f"line_items[{place}].unit_price"] = self.line_money(line.unit_price)
            forms[f"line_items[{place}].total"] = self.line_money(line.total)
        return {name: form for name, form in forms.items() if form}

    def _currency_form(self) -> str:
        if not self.country.sign_is_plain:
            return self.country.currency
        return next(sign for sign in ("€", "£", self.country.currency) if sign in self._money)

    def paid_in_cash(self, rng: random.Random) -> list[tuple[str, str]]:
        """What a till prints below the total."""
        total = self.invoice.total
        if rng.random() < 0.5:
            return [(self.label("card"), self.money(total))]
        note = Decimal(10 if self.country.decimals else 1000)
        given = (total // note + 1) * note
        return [(self.label("cash"), self.money(given)), (self.label("change"), self.money(given - total))]
