"""`python -m bench.documents_calibration`: how far the confidence of a field can be relied on. Invoices are read by the
local rules and judged; of the fields given .90 or more at least 98 % must be right. Then right data are spoiled in one
field at a time, which must be noticed, and e-invoices are held against their pages."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench.table import table
from penstock.paper.page import Page, from_json
from penstock.paper.reading import read_document
from penstock.paper.unreadable import Unreadable
from penstock.pipelines.documents.checks import judge
from penstock.pipelines.documents.einvoice import NotAnInvoice, read_xml
from penstock.pipelines.documents.evidence import legal_form, name_words
from penstock.pipelines.documents.model import InvoiceData
from penstock.pipelines.documents.prompt import data_of
from penstock.pipelines.documents.reader import invoice_on
from penstock.pipelines.documents.samples import make_samples
from penstock.pipelines.documents.sheet import sheet_of
from penstock.pipelines.documents.values import fold, parse_date

DATA = Path(os.environ.get("PENSTOCK_DATA", "../shared/data"))
"""Invoices with truth (invoices_mixed, zugferd_invoices, receipts_sroie); not part of the repository."""

SAMPLES, SEED = 60, int(os.environ.get("SAMPLES_SEED", "7"))
"""Generated invoices that are measured too; another seed gives others."""

SURE = 0.90
WANTED = 0.98
"""Of the fields given at least `SURE`, this part must be right."""
BANDS = (0.95, 0.90, 0.80, 0.60, 0.0)
MAIN = ("vendor", "invoice_number", "date", "total", "currency")
MEASURED = (*MAIN, "due_date", "subtotal", "tax_amount", "tax_rate")


@dataclass(frozen=True)
class Document:
    """One file: its pages, and what is true of it. A field that is not in `truth` is not known."""

    name: str
    pages: tuple[Page, ...]
    truth: dict[str, Any]
    customer: str | None = None


@dataclass(frozen=True)
class Field:
    """One field of one document, as it was judged."""

    document: str
    name: str
    value: Any
    truth: Any
    confidence: float
    right: bool


class Missing(Exception):
    """There is nothing to measure with; the message says what is not there."""


def pages_of(path: Path, kept: Path | None = None) -> tuple[Page, ...]:
    """The pages of a file, from `kept` where they were read before."""
    data = path.read_bytes()
    copy = None if kept is None else kept / f"{hashlib.sha256(data).hexdigest()}.json"
    if copy is not None and copy.is_file():
        return tuple(from_json(page) for page in json.loads(copy.read_text()))
    pages: list[dict[str, Any]] = []
    first: int | None = 0
    while first is not None:
        answer, blobs = read_document({"pages": 100, "first": first}, [data])
        pages += json.loads(blobs[0])
        first = answer["next"]
    if copy is not None:
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(json.dumps(pages))
    return tuple(from_json(page) for page in pages)


def _listed(folder: Path) -> Iterator[dict[str, Any]]:
    listing = folder / "truth.jsonl"
    if not listing.is_file():
        raise Missing(f"there is no {listing}: nothing was measured with it")
    for line in listing.read_text().splitlines():
        yield json.loads(line)


def mixed(kept: Path | None, *, without: Collection[str] = ()) -> Iterator[Document]:
    folder = DATA / "invoices_mixed"
    for entry in _listed(folder):
        if entry["file"] in without:
            continue
        truth = {
            "vendor": entry.get("vendor"),
            "invoice_number": entry.get("invoice_number"),
            "date": _day(entry.get("issue_date")),
            "due_date": _day(entry.get("due_date")),
            "subtotal": _exact(entry.get("subtotal")),
            "tax_rate": _exact(entry.get("tax_rate")),
            "tax_amount": _exact(entry.get("tax")),
            "total": _exact(entry.get("total")),
            "currency": entry.get("currency"),
        }
        yield Document(entry["file"], pages_of(folder / entry["file"], kept), _known(truth), entry.get("customer"))


def zugferd(kept: Path | None) -> Iterator[Document]:
    """The pages of e-invoices, without their data: what a page does not show is not asked."""
    folder = DATA / "zugferd_invoices"
    for entry in _listed(folder):
        true = entry.get("page_truth") or entry.get("truth")
        if not true:
            continue
        visible = entry.get("visible_check") or {}
        if entry.get("page_truth"):
            visible = dict.fromkeys(("invoice_number", "issue_date", "vendor", "gross", "net", "tax"), True)
        sums = true["totals"]
        truth = {
            "vendor": true["vendor"]["name"] if visible.get("vendor") else None,
            "invoice_number": true["invoice_number"] if visible.get("invoice_number") else None,
            "date": _day(true["issue_date"]) if visible.get("issue_date") else None,
            "due_date": _day(true.get("due_date")),
            "subtotal": _exact(sums["net"]) if visible.get("net") else None,
            "tax_amount": _exact(sums["tax"]) if visible.get("tax") else None,
            "total": _exact(sums["gross"]) if visible.get("gross") else None,
            "currency": true.get("currency"),
        }
        buyer = (true.get("buyer") or {}).get("name")
        yield Document(entry["file"], pages_of(folder / entry["file"], kept), _known(truth), buyer)


def receipts(kept: Path | None) -> Iterator[Document]:
    folder = DATA / "receipts_sroie"
    if not (folder / "key").is_dir():
        raise Missing(f"there is no {folder / 'key'}: nothing was measured with it")
    for key in sorted((folder / "key").iterdir()):
        entry = json.loads(key.read_text())
        truth = {
            "vendor": entry["company"],
            "date": parse_date(entry["date"]),
            "total": _exact(re.sub(r"[^0-9.]", "", entry["total"])),
        }
        yield Document(key.stem, pages_of(folder / "img" / f"{key.stem}.jpg", kept), _known(truth))


def samples(kept: Path | None) -> Iterator[Document]:
    with tempfile.TemporaryDirectory() as folder:
        for made in make_samples(Path(folder), count=SAMPLES, seed=SEED):
            if made.readable:
                truth = _known({name: getattr(made.truth, name) for name in MEASURED})
                yield Document(made.path.name, pages_of(made.path, kept), truth)


SETS: dict[str, Callable[[Path | None], Iterator[Document]]] = {
    "invoices_mixed": mixed,
    "zugferd pages": zugferd,
    "receipts_sroie": receipts,
    "samples": samples,
}


def _known(truth: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in truth.items() if value is not None}


def _day(text: str | None) -> date | None:
    return None if text is None else date.fromisoformat(text)


def _exact(value: float | str | None) -> Decimal | None:
    return None if value is None else Decimal(str(value))


def right(name: str, value: Any, truth: Any) -> bool:
    """Whether a value is the true one: names without their legal form, numbers without punctuation."""
    if value is None:
        return False
    if name == "vendor":
        return _core(value) == _core(truth)
    if name == "invoice_number":
        return re.sub(r"[\W_]", "", fold(value)) == re.sub(r"[\W_]", "", fold(truth))
    return bool(value == truth)


def _core(name: str) -> str:
    return "".join(word for word in name_words(name) if not legal_form((word,)))


def measure(documents: Sequence[Document]) -> list[Field]:
    """Every known field of every document, read by the local rules and judged."""
    fields: list[Field] = []
    for document in documents:
        data, refused = data_of(invoice_on(document.pages))
        judged = judge(data, document.pages, source="model", refused=refused)
        for found in judged.field_confidences:
            if found.field_name in document.truth and found.field_name in MEASURED:
                value, truth = getattr(data, found.field_name), document.truth[found.field_name]
                fields.append(
                    Field(
                        document.name,
                        found.field_name,
                        value,
                        truth,
                        found.confidence,
                        right(found.field_name, value, truth),
                    )
                )
    return fields


def precision(fields: Sequence[Field], at_least: float = SURE) -> tuple[int, int]:
    """How many fields have this confidence, and how many of them are right."""
    sure = [field for field in fields if field.confidence >= at_least and field.value is not None]
    return len(sure), sum(field.right for field in sure)


def _part(count: int, of: int) -> str:
    return f"{count / of:.1%}" if of else "-"


def by_band(fields: Sequence[Field]) -> str:
    lines, above = [], 1.01
    for band in BANDS:
        inside = [field for field in fields if band <= field.confidence < above and field.value is not None]
        name = f"{band:.2f} and more" if above > 1 else f"{band:.2f} to {above:.2f}"
        good = sum(field.right for field in inside)
        lines.append([name, str(len(inside)), str(good), _part(good, len(inside)), _part(len(inside), len(fields))])
        above = band
    missing = [field for field in fields if field.value is None]
    lines.append(["no value", str(len(missing)), "0", "-", _part(len(missing), len(fields))])
    return table(["confidence", "fields", "right", "precision", "share"], lines)


def by_field(fields: Sequence[Field]) -> str:
    lines = []
    for name in MEASURED:
        own = [field for field in fields if field.name == name]
        if own:
            sure, good = precision(own)
            lines.append(
                [
                    name,
                    str(len(own)),
                    _part(sum(field.right for field in own), len(own)),
                    str(sure),
                    _part(good, sure),
                    _part(sure, len(own)),
                ]
            )
    return table(["field", "known", "right", f">= {SURE}", "of them right", "share"], lines)


@dataclass(frozen=True)
class Spoiled:
    """Right data with one field made wrong, and the confidence that field was given before and after."""

    document: str
    field: str
    how: str
    before: float
    after: float


def spoil(documents: Sequence[Document], seed: int = 1) -> list[Spoiled]:
    """For every document: another amount of the page, a swapped digit, another day of the page, a day off, another
    number, the customer's name, a wrong currency."""
    rng = random.Random(seed)
    found: list[Spoiled] = []
    for document in documents:
        base, _ = data_of(invoice_on(document.pages))
        true = base.model_copy(update={name: value for name, value in document.truth.items() if name in MEASURED})
        before = {
            entry.field_name: entry.confidence
            for entry in judge(true, document.pages, source="model", refused={}).field_confidences
        }
        for name, how, value in _wrong(document, true, rng):
            changed = true.model_copy(update={name: value})
            judged = judge(changed, document.pages, source="model", refused={})
            after = next(entry.confidence for entry in judged.field_confidences if entry.field_name == name)
            found.append(Spoiled(document.name, name, how, before[name], after))  # type: ignore[index]
    return found


def _wrong(document: Document, true: InvoiceData, rng: random.Random) -> Iterator[tuple[str, str, Any]]:
    sheet = sheet_of(document.pages)
    amounts = sorted({number.value for number in sheet.numbers if number.money and not number.percent})
    days = sorted({day for found in sheet.days for day in found.days})
    for name in ("total", "subtotal", "tax_amount"):
        value = getattr(true, name)
        if name not in document.truth or not value:
            continue
        if others := [amount for amount in amounts if abs(amount) != abs(value) and amount]:
            yield name, "another amount of the page", rng.choice(others)
        yield name, "two digits swapped", _swapped(value)
    for name in ("date", "due_date"):
        value = getattr(true, name)
        if name not in document.truth:
            continue
        if others := [day for day in days if day != value]:
            yield name, "another day of the page", rng.choice(others)
        yield name, "ten days later", value + timedelta(days=10)
    if "invoice_number" in document.truth:
        codes = [
            word.text.strip(".,:;#")
            for row in sheet.rows
            for word in row.words
            if sum(sign.isdigit() for sign in word.text) >= 3 and word.text.strip(".,:;#") not in true.invoice_number  # type: ignore[operator]
        ]
        if codes:
            yield "invoice_number", "another number of the page", rng.choice(codes)
        yield (
            "invoice_number",
            "a digit changed",
            re.sub(r"\d", lambda found: str((int(found[0]) + 1) % 10), str(true.invoice_number), count=1),
        )
    if "vendor" in document.truth and document.customer and _core(document.customer) != _core(str(true.vendor)):
        yield "vendor", "the customer", document.customer
    if "currency" in document.truth:
        yield "currency", "another currency", "GBP" if true.currency != "GBP" else "CHF"


def _swapped(value: Decimal) -> Decimal:
    digits = list(str(abs(value)))
    for at in range(len(digits) - 1):
        if digits[at].isdigit() and digits[at + 1].isdigit() and digits[at] != digits[at + 1]:
            digits[at], digits[at + 1] = digits[at + 1], digits[at]
            return Decimal("".join(digits))
    return value + 9


def by_spoiling(found: Sequence[Spoiled]) -> str:
    lines = []
    for name, how in sorted({(one.field, one.how) for one in found}):
        own = [one for one in found if (one.field, one.how) == (name, how)]
        noticed = sum(one.after < SURE for one in own)
        mean = sum(one.after for one in own) / len(own)
        lines.append([f"{name}: {how}", str(len(own)), str(noticed), _part(noticed, len(own)), f"{mean:.2f}"])
    return table(["spoiled field", "times", f"below {SURE}", "noticed", "mean confidence"], lines)


def conflicts(kept: Path | None) -> list[tuple[str, bool, tuple[str, ...]]]:
    """Every e-invoice with readable data: whether its page is known to say otherwise, and what was found."""
    folder = DATA / "zugferd_invoices"
    out: list[tuple[str, bool, tuple[str, ...]]] = []
    for entry in _listed(folder):
        if not entry.get("xml"):
            continue
        try:
            told = read_xml((folder / entry["xml"]).read_bytes())
            pages = pages_of(folder / entry["file"], kept)
        except (NotAnInvoice, Unreadable):
            continue
        judged = judge(told.data, pages, source="e-invoice", refused=told.refused)
        out.append((entry["file"], "CONFLICT" in (entry.get("note") or ""), judged.findings))
    return out


def sample_conflicts(kept: Path | None) -> list[tuple[str, bool, tuple[str, ...]]]:
    """The same for generated e-invoices."""
    out: list[tuple[str, bool, tuple[str, ...]]] = []
    with tempfile.TemporaryDirectory() as folder:
        for made in make_samples(Path(folder), count=SAMPLES, seed=SEED, kinds=("facturx", "facturx_conflict")):
            if made.e_invoice is not None:
                judged = judge(made.e_invoice, pages_of(made.path, kept), source="e-invoice", refused={})
                out.append((made.path.name, bool(made.contradicts), judged.findings))
    return out


def main(args: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.documents_calibration", description=__doc__)
    parser.add_argument("sets", nargs="*", choices=[*SETS, []], help="sets to measure (default: all)")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the pages that were read there, or reuse them"
    )
    parser.add_argument("--wrong", action="store_true", help="list what is wrong, and what is right but unsure")
    chosen = parser.parse_args(args)
    failed = False
    for name in chosen.sets or SETS:
        try:
            documents = list(SETS[name](chosen.keep))
        except Missing as missing:
            print(f"\n{name}: not measured: {missing}")
            continue
        start = time.process_time()
        fields = measure(documents)
        took = time.process_time() - start
        main_fields = [field for field in fields if field.name in MAIN]
        sure, good = precision(main_fields)
        each = took / max(1, len(documents)) * 1000
        print(f"\n{name}: {len(documents)} documents, read and judged in {each:.1f} ms each")
        print(by_field(fields))
        print(f"\n{', '.join(MAIN)}\n{by_band(main_fields)}\n\nall fields\n{by_band(fields)}")
        print(f"\n{good} of {sure} sure fields are right ({_part(good, sure)}; wanted {WANTED:.0%}).")
        failed = failed or good < WANTED * sure
        if chosen.wrong:
            _list(fields)
        print(f"\n{by_spoiling(spoil(documents))}")
    for name, found in (("zugferd_invoices", conflicts), ("samples", sample_conflicts)):
        try:
            held = found(chosen.keep)
        except Missing as missing:
            print(f"\n{name}: not measured: {missing}")
            continue
        known = [entry for entry in held if entry[1]]
        seen = sum(bool(entry[2]) for entry in known)
        alarms = [entry for entry in held if not entry[1] and entry[2]]
        others = len(held) - len(known)
        print(
            f"\n{name}: {seen} of {len(known)} contradictions found, {len(alarms)} false alarms in {others} e-invoices"
        )
        for entry in alarms:
            print(f"  {entry[0]}: {'; '.join(entry[2])}")
        failed = failed or seen < len(known) or bool(alarms)
    return 1 if failed else 0


def _list(fields: Sequence[Field]) -> None:
    for field in sorted(fields, key=lambda field: -field.confidence):
        if field.value is not None and not field.right:
            print(f"  wrong {field.confidence:.3f} {field.name} {field.document}: {field.value} (true: {field.truth})")
    for field in sorted(fields, key=lambda field: -field.confidence):
        if field.right and field.confidence < SURE:
            print(f"  unsure {field.confidence:.3f} {field.name} {field.document}: {field.value}")


if __name__ == "__main__":
    sys.exit(main())
