"""One sample: an invoice drawn up by chance, put into words, laid out, and made into the kind of file that was asked
for. The same arguments give the same bytes."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict

from penstock.engine.errors import InvalidRequest
from penstock.pipelines.documents.model import FIELDS, FieldName, InvoiceData
from penstock.pipelines.documents.samples import facturx, hostile, scans
from penstock.pipelines.documents.samples.countries import COUNTRIES, Country, Language
from penstock.pipelines.documents.samples.invoices import DocumentKind, Invoice, drawn_up, plain, with_sums
from penstock.pipelines.documents.samples.layouts import LAYOUTS, SHEETS, Layout, laid_out
from penstock.pipelines.documents.samples.wording import Wording

Kind = Literal["pdf", "facturx", "facturx_conflict", "scan", "tiff", "hostile"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LANGUAGES: tuple[Language, ...] = get_args(Language)

_T = TypeVar("_T")

_FORMS: tuple[scans.Form, ...] = ("png", "jpg", "jpg", "pdf")
_CARRYING: tuple[Kind, ...] = ("facturx", "facturx_conflict", "hostile")


class Sample(BaseModel):
    """One document and what is true of it. `truth` is what is printed, and nothing else; `printed` is how. `e_invoice`
    is what an embedded invoice says, and `contradicts` the fields in which the page says otherwise. `trouble` names
    what is wrong with a hostile file; one that is not `readable` must be refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    kind: Kind
    layout: Layout
    language: Language
    country: str
    document_kind: DocumentKind
    pages: int
    truth: InvoiceData
    printed: dict[str, str]
    e_invoice: InvoiceData | None = None
    profile: facturx.Profile | None = None
    contradicts: tuple[FieldName, ...] = ()
    trouble: hostile.Trouble | None = None
    readable: bool = True


def sample(
    seed: int | str = 1,
    *,
    kind: Kind = "pdf",
    layout: Layout | None = None,
    language: Language | None = None,
    country: str | None = None,
    document_kind: DocumentKind | None = None,
    long: bool | None = None,
    trouble: hostile.Trouble | None = None,
) -> tuple[bytes, Sample]:
    """One document; what is not said is left to chance. The sample's path is a name for the file. Not for two threads
    at once where pictures are made: the renderer is not made for it."""
    known("kind", kind, KINDS)
    if trouble is not None:
        known("trouble", trouble, hostile.TROUBLES)
    rng = random.Random(f"{seed}:{kind}:{layout}:{language}:{country}:{document_kind}:{long}:{trouble}")
    layout = _layout(rng, kind, layout, document_kind)
    chosen = _country(rng, kind, language, country)
    carries = kind in _CARRYING
    if long is None:
        long = layout != "receipt" and (kind == "tiff" or (kind == "pdf" and rng.random() < 0.12))
    invoice = drawn_up(
        rng,
        chosen,
        document_kind="receipt" if layout == "receipt" else document_kind,
        long=long,
        taxed=carries,
        # In an e-invoice the type says that money goes back; its amounts are written as they are.
        negative=not carries,
    )
    say = Wording(rng, invoice, full=carries)
    pdf, pages = laid_out(rng, layout, say)
    made = Sample(
        path=Path(f"{_speaking(say)}.pdf"),
        kind=kind,
        layout=layout,
        language=chosen.language,
        country="CH" if chosen.code == "CF" else chosen.code,
        document_kind=invoice.document_kind,
        pages=pages,
        truth=say.truth(),
        printed=say.printed(),
    )
    return _finished(rng, pdf, made, say, trouble)


def _finished(
    rng: random.Random, pdf: bytes, made: Sample, say: Wording, trouble: hostile.Trouble | None
) -> tuple[bytes, Sample]:
    """The printed invoice as the kind of file that was asked for."""
    grain = f"{rng.random()}"
    match made.kind:
        case "pdf":
            return pdf, made
        case "facturx" | "facturx_conflict":
            return _carrying(rng, pdf, made, say)
        case "scan":
            form: scans.Form = rng.choice(_FORMS) if made.pages == 1 else "pdf"
            free = made.layout != "receipt" and len(made.truth.line_items) < 5
            stamp = _stamp(rng, say) if free and rng.random() < 0.5 else None
            dpi = 200 if made.layout in ("receipt", "compact") else scans.DPI
            return scans.scanned(pdf, form, grain, stamp=stamp, dpi=dpi), _named(
                made, made.path.with_suffix(f".{form}")
            )
        case "tiff":
            return scans.faxed(pdf, grain), _named(made, made.path.with_suffix(".tif"))
        case "hostile":
            wrong = trouble if trouble is not None else rng.choice(hostile.TROUBLES)
            xml = facturx.xml(say.invoice, "BASIC")
            body, ending = hostile.spoiled(wrong, pdf, xml, lambda: scans.scanned(pdf, "png", grain))
            made = _named(made, made.path.with_name(f"{made.path.stem}-{wrong.replace('_', '-')}.{ending}"))
            return body, made.model_copy(update={"trouble": wrong, "readable": wrong in hostile.READABLE})


def _named(made: Sample, path: Path) -> Sample:
    return made.model_copy(update={"path": path})


def _carrying(rng: random.Random, pdf: bytes, made: Sample, say: Wording) -> tuple[bytes, Sample]:
    """With the e-invoice of the page, or with another that contradicts it."""
    profile = rng.choice(facturx.PROFILES)
    inside = say.invoice if made.kind == "facturx" else _contradicting(rng, say.invoice)
    told = say.of(inside).truth()
    differs = tuple(name for name in FIELDS if getattr(told, name) != getattr(made.truth, name))
    changes = {"e_invoice": told, "profile": profile, "contradicts": differs}
    return facturx.carried(pdf, facturx.xml(inside, profile), profile), made.model_copy(update=changes)


def _contradicting(rng: random.Random, invoice: Invoice) -> Invoice:
    """Another invoice of the same number, of which all adds up too."""
    if rng.random() < 0.4:
        return replace(invoice, date=invoice.date + timedelta(days=rng.choice((-30, -1, 1, 10, 365))))
    first, *others = invoice.lines
    price = first.unit_price + invoice.country.rounded(Decimal(rng.choice((1, 10, 100))))
    first = replace(first, unit_price=price, total=invoice.country.rounded(price * first.quantity))
    return with_sums(replace(invoice, lines=(first, *others)))


def _stamp(rng: random.Random, say: Wording) -> str:
    """With a date that is none of the document's own."""
    later = say.invoice.date + timedelta(days=rng.randint(1, 6))
    return f"{say.stamp} {later:%d.%m.%y}"


def _layout(rng: random.Random, kind: Kind, asked: Layout | None, document_kind: DocumentKind | None) -> Layout:
    if asked is not None:
        known("layout", asked, LAYOUTS)
    layout = asked if asked is not None else rng.choice(LAYOUTS if kind in ("pdf", "scan") else SHEETS)
    if asked is None and document_kind is not None:
        layout = "receipt" if document_kind == "receipt" else rng.choice(SHEETS)
    if layout == "receipt" and kind in _CARRYING:
        raise InvalidRequest(f"a receipt carries no e-invoice: choose another layout for the kind {kind!r}")
    if document_kind is not None and (layout == "receipt") != (document_kind == "receipt"):
        raise InvalidRequest(f"the layout {layout!r} is not that of a {document_kind!r}: leave one of them out")
    return layout


def _country(rng: random.Random, kind: Kind, language: Language | None, country: str | None) -> Country:
    if language is not None:
        known("language", language, LANGUAGES)
    if country is not None:
        known("country", country, tuple(COUNTRIES))
    carries = kind in _CARRYING
    fits = [
        found
        for found in COUNTRIES.values()
        if (language is None or found.language == language)
        and (country is None or found.code == country)
        and (not carries or facturx.able(found.code))
    ]
    if not fits:
        raise InvalidRequest(
            f"no {kind!r} in the language {language!r} for the country {country!r}: leave one of them out"
        )
    if language is None:
        spoken = rng.choice(sorted({found.language for found in fits}))
        fits = [found for found in fits if found.language == spoken]
    return rng.choice(fits)


def known(name: str, value: str, choices: Sequence[_T]) -> _T:
    """The one of these that was asked for, or `InvalidRequest`."""
    for choice in choices:
        if choice == value:
            return choice
    raise InvalidRequest(f"{name} must be one of {', '.join(map(str, choices))}, not {value!r}")


def _speaking(say: Wording) -> str:
    """The name of the file: what it is, from whom, its number."""
    text = f"{say.title} {say.invoice.vendor.host.removesuffix('.example')} {say.invoice.number}"
    return re.sub(r"[^a-z0-9]+", "-", plain(text)).strip("-")
