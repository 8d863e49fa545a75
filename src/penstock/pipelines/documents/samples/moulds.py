"""Invoices by the thousand: one is laid out, and its numbers are exchanged for others of the same length, which moves
nothing else in the file."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from penstock.pipelines.documents.samples.countries import COUNTRIES
from penstock.pipelines.documents.samples.invoices import ZERO, Invoice, drawn_up, with_sums
from penstock.pipelines.documents.samples.layouts import Layout, laid_out
from penstock.pipelines.documents.samples.sampling import Sample
from penstock.pipelines.documents.samples.wording import Wording

# Whose thousands are parted by a letter of ASCII: others are spelled in the file in a way of PDF's own.
_COUNTRIES = ("DE", "GB", "AT", "IE")
_LAYOUTS: tuple[Layout, ...] = ("letter_left", "letter_right", "ruled")

_LINES = 3


class Mould:
    """One invoice whose numbers can be changed."""

    def __init__(self, seed: str) -> None:
        rng = random.Random(seed)
        self._seed = seed
        self._layout = rng.choice(_LAYOUTS)
        invoice = drawn_up(rng, COUNTRIES[rng.choice(_COUNTRIES)], document_kind="invoice", taxed=True)
        usual = invoice.country.rates[0]
        lines = tuple(replace(invoice.lines[0], rate=usual) for _ in range(_LINES))
        base = replace(invoice, lines=lines, discount_rate=ZERO, shipping=ZERO, paid=ZERO)
        self._invoice = _figured(base, rng, 0)
        self._say = Wording(rng, self._invoice, full=True)
        pdf, self._pages = laid_out(rng, self._layout, self._say, compressed=False)
        self._forms = _forms(self._say)
        self._pdf = pdf.decode("latin-1")
        self._pattern = re.compile("|".join(map(re.escape, self._forms)))

    def cast(self, place: int) -> tuple[bytes, Sample]:
        """The invoice with numbers of this place."""
        rng = random.Random(f"{self._seed}:{place}")
        while True:
            say = self._say.of(_figured(self._invoice, rng, place))
            forms = _forms(say)
            if list(map(len, forms)) == list(map(len, self._forms)):
                break
        changed = dict(zip(self._forms, forms, strict=True))
        content = self._pattern.sub(lambda found: changed[found[0]], self._pdf).encode("latin-1")
        return content, Sample(
            path=Path(f"{place:06d}.pdf"),
            kind="pdf",
            layout=self._layout,
            language=say.country.language,
            country=say.country.code,
            document_kind="invoice",
            pages=self._pages,
            truth=say.truth(),
            printed=say.printed(),
        )


def _figured(invoice: Invoice, rng: random.Random, place: int) -> Invoice:
    """With other prices, all of four digits, and so the sums below them; no two figures alike."""
    rounded = invoice.country.rounded
    while True:
        prices = [Decimal(rng.randrange(100_000, 250_000)) / 100 for _ in invoice.lines]
        lines = tuple(
            replace(line, quantity=Decimal(1 + at % 2), unit_price=price, total=rounded((1 + at % 2) * price))
            for at, (line, price) in enumerate(zip(invoice.lines, prices, strict=True))
        )
        made = with_sums(replace(invoice, lines=lines, number=f"INV-{invoice.date.year}-{place:06d}"))
        sums = (*prices, made.net, made.tax, made.total)
        if len(set(sums)) == len(sums) and all(1000 <= value < 10_000 for value in sums):
            return made


def _forms(say: Wording) -> list[str]:
    """The figures as they stand in the file."""
    found = say.invoice
    amounts = [value for line in found.lines for value in (line.unit_price, line.total)]
    amounts += [found.net, found.tax, found.total]
    return [found.number, *dict.fromkeys(say.number(value, found.country.decimals) for value in amounts)]
