"""An invented invoice as figures: who, what, how much. Every sum is worked out from the lines, so that it adds up
whatever the layout makes of it."""

from __future__ import annotations

import random
import unicodedata
from dataclasses import dataclass, replace
from datetime import date as Day
from datetime import timedelta
from decimal import Decimal
from typing import Literal

from penstock.pipelines.documents.samples import countries, words
from penstock.pipelines.documents.samples.countries import Country

DocumentKind = Literal["invoice", "credit_note", "receipt"]

ZERO = Decimal(0)

FEWEST_OF_MANY, MANY = 46, 60
"""Lines of a long invoice: more than one page holds."""


_SPELLED = {ord("ä"): "ae", ord("ö"): "oe", ord("ü"): "ue", ord("ß"): "ss"}


@dataclass(frozen=True)
class Party:
    name: str
    street: str
    town: str
    tax_number: str
    contact: str
    phone: str
    host: str


@dataclass(frozen=True)
class Line:
    item: str
    article: str
    quantity: Decimal
    unit: str
    unit_price: Decimal
    rate: Decimal
    total: Decimal


@dataclass(frozen=True)
class Tax:
    rate: Decimal
    base: Decimal
    amount: Decimal


@dataclass(frozen=True)
class Invoice:
    """`due` is None where only `days` are said, and both where nothing is. `taxes` are empty for a vendor that
    charges none. Where `gross`, the prices include the tax. `due_amount` is what is left of `total` after `paid`."""

    country: Country
    document_kind: DocumentKind
    vendor: Party
    customer: Party
    number: str
    date: Day
    due: Day | None
    days: int | None
    lines: tuple[Line, ...]
    gross: bool
    discount_rate: Decimal
    discount: Decimal
    shipping: Decimal
    taxes: tuple[Tax, ...]
    paid: Decimal
    order: str
    order_date: Day | None
    customer_number: str
    delivery_number: str
    delivery_date: Day | None
    credits: str
    """The invoice that a credit note takes back."""
    iban: str
    bank: str

    @property
    def line_sum(self) -> Decimal:
        return sum((line.total for line in self.lines), ZERO)

    @property
    def net(self) -> Decimal:
        inside = sum((tax.amount for tax in self.taxes), ZERO) if self.gross else ZERO
        return self.line_sum - self.discount + self.shipping - inside

    @property
    def tax(self) -> Decimal:
        return sum((tax.amount for tax in self.taxes), ZERO)

    @property
    def total(self) -> Decimal:
        return self.net + self.tax

    @property
    def due_amount(self) -> Decimal:
        return self.total - self.paid


def drawn_up(
    rng: random.Random,
    country: Country,
    *,
    document_kind: DocumentKind | None = None,
    long: bool = False,
    taxed: bool = False,
    negative: bool = True,
) -> Invoice:
    """An invoice by chance. `long` ones have many lines; `taxed` ones always have a tax; a credit note's amounts are
    negative, or not where `negative` is off."""
    kind: DocumentKind = document_kind or ("credit_note" if rng.random() < 0.12 else "invoice")
    exempt = not taxed and kind == "invoice" and rng.random() < 0.06
    several = not exempt and rng.random() < 0.3
    gross = kind == "receipt" and country.gross_receipts
    sign = -1 if kind == "credit_note" and negative else 1
    day = Day(2023, 1, 1) + timedelta(days=rng.randrange(1000))
    lines = _lines(rng, country, kind, long=long, several=several, exempt=exempt, gross=gross, sign=sign)
    rates = {line.rate for line in lines}
    billed = kind == "invoice"
    discount_rate = Decimal(rng.choice((2, 3, 5, 10))) if billed and len(rates) == 1 and rng.random() < 0.2 else ZERO
    days = rng.choice((7, 10, 14, 30, 30, 45, 60)) if billed and (rng.random() < 0.85 or taxed) else None
    invoice = Invoice(
        country=country,
        document_kind=kind,
        vendor=_vendor(rng, country),
        customer=_customer(rng, country),
        number=_number(rng, kind, day),
        date=day,
        due=day + timedelta(days=days) if days and rng.random() < 0.7 else None,
        days=days,
        lines=lines,
        gross=gross,
        discount_rate=discount_rate,
        discount=country.rounded(sum((line.total for line in lines), ZERO) * discount_rate / 100),
        shipping=_money(rng, country, 4, 25) if billed and rng.random() < 0.3 else ZERO,
        taxes=(),
        paid=ZERO,
        order=rng.choice((f"PO-{rng.randrange(10**4, 10**5)}", f"{rng.randrange(10**8, 10**9)}", ""))
        if kind != "receipt"
        else "",
        order_date=day - timedelta(days=rng.randrange(3, 30)) if rng.random() < 0.25 else None,
        customer_number=str(rng.randrange(10**4, 10**6)) if rng.random() < 0.7 else "",
        delivery_number=f"{rng.choice('LDB')}{rng.randrange(10**5, 10**6)}" if rng.random() < 0.3 else "",
        delivery_date=day - timedelta(days=rng.randrange(1, 9)) if rng.random() < 0.4 else None,
        credits=_number(rng, "invoice", day - timedelta(days=40)) if kind == "credit_note" else "",
        iban=countries.iban(rng, country) if rng.random() < 0.9 else "",
        bank=rng.choice(words.VOCABULARIES[country.language].banks),
    )
    if not exempt:
        invoice = with_sums(invoice)
    if billed and rng.random() < 0.15:
        invoice = replace(invoice, paid=country.rounded(invoice.total * rng.choice((10, 20, 30, 50)) / 100))
    return invoice


def _money(rng: random.Random, country: Country, low: int, high: int) -> Decimal:
    """A price as shops make them: round, or just below."""
    cents = rng.randrange(low * 100, high * 100)
    if rng.random() < 0.6:
        cents -= cents % 10 - rng.choice((0, 5, 9))
    price = country.rounded(Decimal(cents) / 100 * country.level)
    return price - price % 10 if country.decimals == 0 else price


def _lines(
    rng: random.Random,
    country: Country,
    kind: DocumentKind,
    *,
    long: bool,
    several: bool,
    exempt: bool,
    gross: bool,
    sign: int,
) -> tuple[Line, ...]:
    goods = words.VOCABULARIES[country.language].goods
    if kind == "receipt":
        goods = tuple(good for good in goods if good.price[1] <= 70 and good.unit not in ("h", "Std"))
    count = rng.randint(FEWEST_OF_MANY, MANY) if long else rng.choice((1, 1, 2, 2, 3, 3, 4, 5, 6, 8))
    if several:
        count = max(count, 2)
    chosen = [*rng.sample(goods, min(count, len(goods))), *rng.choices(goods, k=max(0, count - len(goods)))]
    if several:
        # Of both kinds of goods, or there would be one rate only.
        chosen[0] = rng.choice([good for good in goods if good.reduced])
        chosen[-1] = rng.choice([good for good in goods if not good.reduced])
    usual, *lower = country.rates
    made = []
    for good in chosen:
        rate = ZERO if exempt else (rng.choice(lower) if several and good.reduced else usual)
        price = _money(rng, country, *good.price)
        if gross:
            price = country.rounded(price * (1 + rate / 100))
        quantity = Decimal(rng.choice((1, 1, 1, 2, 2, 3, 4, 5, 6, 10, 12)))
        if good.unit in ("h", "Std", "kg"):
            quantity = Decimal(rng.randint(2, 60)) / 4
        if kind == "receipt":
            quantity = Decimal(rng.choice((1, 2, 3, 5, 7))) / 4 if good.unit == "kg" else min(quantity, Decimal(4))
        quantity *= sign
        article = f"{rng.choice('ABHKMTX')}{rng.randrange(100, 1000)}-{rng.randrange(10, 100)}"
        total = country.rounded(quantity * price)
        made.append(Line(good.name, article, quantity, good.unit, price, rate, total))
    return tuple(made)


def with_sums(invoice: Invoice) -> Invoice:
    """The invoice with discount and taxes worked out from its lines."""
    discount = invoice.country.rounded(invoice.line_sum * invoice.discount_rate / 100)
    invoice = replace(invoice, discount=discount)
    return replace(invoice, taxes=_taxes(invoice))


def _taxes(invoice: Invoice) -> tuple[Tax, ...]:
    """By rate, the higher first. The discount belongs to the one rate there is, shipping to the usual one."""
    rounded = invoice.country.rounded
    bases: dict[Decimal, Decimal] = {}
    for line in invoice.lines:
        bases[line.rate] = bases.get(line.rate, ZERO) + line.total
    first = max(bases)
    bases[first] += invoice.shipping - invoice.discount
    made = []
    for rate, base in sorted(bases.items(), reverse=True):
        if invoice.gross:
            net = rounded(base / (1 + rate / 100))
            made.append(Tax(rate, net, base - net))
        else:
            made.append(Tax(rate, base, rounded(base * rate / 100)))
    return tuple(made)


def _number(rng: random.Random, kind: DocumentKind, day: Day) -> str:
    serial = rng.randrange(1, 9999)
    if kind == "receipt":
        return rng.choice((f"{serial:06d}", f"{rng.randrange(1, 9)}-{serial:04d}", f"{day:%y%m%d}/{serial}"))
    front = "CN" if kind == "credit_note" else rng.choice(("INV", "RE", "R", "F", "FA"))
    return rng.choice(
        (
            f"{front}-{day.year}-{serial:04d}",
            f"{day.year}/{serial:05d}",
            f"{front}{day:%y}{serial:05d}",
            f"{rng.randrange(10**5, 10**7)}",
            f"{day:%Y%m}-{serial}",
            f"{front} {day.year}-{serial}",
        )
    )


def plain(text: str) -> str:
    """Small letters without marks."""
    spelled = text.lower().translate(_SPELLED)
    return "".join(letter for letter in unicodedata.normalize("NFKD", spelled) if letter.isascii())


def _host(name: str) -> str:
    """A domain of the kind that is kept free for examples."""
    return "".join(letter for letter in plain(name) if letter.isalnum()) + ".example"


def _vendor(rng: random.Random, country: Country) -> Party:
    names = words.VOCABULARIES[country.language]
    front, trade, form = rng.choice(names.fronts), rng.choice(names.trades), rng.choice(country.forms)
    if country.language == "fr" and rng.random() < 0.5:
        front, trade = trade, front
    if country.language == "de" and rng.random() < 0.15:
        trade = f"& {rng.choice(names.fronts)}"
    return _party(rng, country, f"{front} {trade} {form}", front)


def _customer(rng: random.Random, country: Country) -> Party:
    names = words.VOCABULARIES[country.language]
    person = rng.choice(names.people)
    if rng.random() < 0.3:
        return _party(rng, country, person, person.split()[-1])
    front = rng.choice(names.fronts)
    return _party(rng, country, f"{front} {rng.choice(names.trades)} {rng.choice(country.forms)}", front)


def _party(rng: random.Random, country: Country, name: str, short: str) -> Party:
    names = words.VOCABULARIES[country.language]
    street, number = rng.choice(names.streets), rng.randint(1, 180)
    return Party(
        name=name,
        street=f"{street} {number}" if country.language == "de" else f"{number} {street}",
        town=rng.choice(country.towns),
        tax_number=countries.tax_number(rng, country),
        contact=rng.choice(names.people),
        phone=country.phone.format(rng.randrange(100)),
        host=_host(short),
    )
