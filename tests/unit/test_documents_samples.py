"""The sample invoices: what is said to be true of them stands on them, their sums add up, and they are the same every
time."""

from __future__ import annotations

import io
import random
import re
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pypdfium2 as pdfium
import pytest
from PIL import Image

from penstock.engine.errors import InvalidRequest
from penstock.pipelines.documents.model import FIELDS
from penstock.pipelines.documents.samples import KINDS, LANGUAGES, Sample, bulk, make_samples, read_truth, sample
from penstock.pipelines.documents.samples.countries import COUNTRIES, iban, iso, tax_number
from penstock.pipelines.documents.samples.hostile import TROUBLES
from penstock.pipelines.documents.samples.invoices import drawn_up
from penstock.pipelines.documents.samples.layouts import LAYOUTS
from penstock.pipelines.documents.samples.wording import Wording
from penstock.pipelines.documents.values import iban_valid, parse_currency, parse_date, parse_money, vat_id_valid

RAM = "{urn:un:unece:uncefact:data:standard:ReusableAggregateBusinessInformationEntity:100}"


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def text_of(pdf: bytes) -> str:
    with pdfium.PdfDocument(pdf) as document:
        texts = []
        for page in document:
            text = page.get_textpage()
            texts.append(text.get_text_range())
            text.close()
            page.close()
    return plain(" ".join(texts))


def attached(pdf: bytes) -> tuple[str, bytes]:
    with pdfium.PdfDocument(pdf) as document:
        assert document.count_attachments() == 1
        found = document.get_attachment(0)
        return found.get_name(), bytes(found.get_data())


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_printed(text: str, one: Sample) -> None:
    for field, form in one.printed.items():
        assert plain(form) in text, f"{field} of {one.path} should be printed as {form!r}"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_value_of_the_truth_stands_on_the_page(layout: Any, language: Any) -> None:
    for seed in range(4):
        pdf, one = sample(seed, layout=layout, language=language)
        text = text_of(pdf)
        assert_printed(text, one)
        assert (one.layout, one.language, one.kind) == (layout, language, "pdf")
        for field in FIELDS:
            said = getattr(one.truth, field) is not None
            assert field == "line_items" or said == (field in one.printed), f"{field} of {one.path}"
        assert len(one.truth.line_items) == sum(name.endswith(".item") for name in one.printed)


@pytest.mark.parametrize("country", COUNTRIES)
def test_each_country_writes_in_its_own_way_what_can_be_understood(country: str) -> None:
    for seed in range(20):
        chosen, rng = COUNTRIES[country], random.Random(seed)
        invoice = drawn_up(rng, chosen)
        say = Wording(rng, invoice)
        truth, printed = say.truth(), say.printed()
        for field in ("subtotal", "tax_amount", "total"):
            if field in printed:
                assert parse_money(printed[field]) == getattr(truth, field)
        assert parse_date(printed["date"], day_first=country != "US") == truth.date
        assert parse_currency(printed["currency"]) == truth.currency == chosen.currency
        account, number = iban(rng, chosen), tax_number(rng, chosen)
        assert not account or iban_valid(account)
        assert iso(chosen) in ("US", "IN", "JP") or vat_id_valid(number), number


def test_formats_of_countries() -> None:
    def forms(country: str, amount: str) -> set[str]:
        rngs = map(random.Random, range(30))
        return {Wording(rng, drawn_up(rng, COUNTRIES[country])).money(Decimal(amount)) for rng in rngs}

    def days(country: str) -> set[str]:
        rngs = map(random.Random, range(30))
        return {Wording(rng, drawn_up(rng, COUNTRIES[country])).day(date(2024, 3, 1)) for rng in rngs}

    assert forms("DE", "1234.5") == {"1.234,50\u00a0€", "1.234,50 €", "1.234,50 EUR"}
    assert forms("CH", "1234.5") == {"CHF 1'234.50", "1'234.50 CHF"}
    assert forms("IN", "1234567.8") == {"INR 12,34,567.80", "Rs. 12,34,567.80"}
    assert forms("JP", "1234") == {"¥1,234", "JPY 1,234"}
    assert forms("US", "-1234") == {"-$1,234.00", "$(1,234.00)", "-USD 1,234.00", "USD (1,234.00)"}
    assert days("FR") == {"01/03/2024", "1er mars 2024"}
    assert days("US") == {"Mar 1, 2024", "03/01/2024", "March 1, 2024"}
    assert days("DE") == {"01.03.2024", "1. März 2024", "01.03.24"}


def test_sums_add_up_by_construction() -> None:
    seen = set()
    for seed in range(40):
        for country in COUNTRIES.values():
            rng = random.Random(f"{seed}{country.code}")
            kind = "receipt" if seed % 5 == 0 else None
            made = drawn_up(rng, country, document_kind=kind, long=seed % 10 == 1)
            rounded = country.rounded
            for line in made.lines:
                assert line.total == rounded(line.quantity * line.unit_price)
            assert made.total == made.net + made.tax == rounded(made.total)
            assert made.due_amount + made.paid == made.total
            if made.taxes:
                assert sum(tax.base for tax in made.taxes) == made.net
            if made.gross:
                assert made.total == made.line_sum
            else:
                assert made.net == made.line_sum - made.discount + made.shipping
                assert all(tax.amount == rounded(tax.base * tax.rate / 100) for tax in made.taxes)
            assert (made.total < 0) == (made.document_kind == "credit_note")
            seen |= {made.document_kind, f"rates {len(made.taxes)}"}
            seen |= {"discount"} if made.discount else set()
            seen |= {"shipping"} if made.shipping else set()
            seen |= {"part paid"} if made.paid else set()
            seen |= {"due"} if made.due else {"terms"} if made.days else set()
    assert seen >= {
        "invoice", "credit_note", "receipt", "rates 0", "rates 1", "rates 2", "discount", "shipping", "part paid",
        "due", "terms",
    }  # fmt: skip


def test_what_is_not_printed_is_not_known() -> None:
    rngs = map(random.Random, range(60))
    made = [Wording(rng, drawn_up(rng, COUNTRIES["FR"])).truth() for rng in rngs]
    for field in ("due_date", "subtotal", "tax_rate", "tax_amount"):
        known = [getattr(truth, field) is not None for truth in made]
        assert any(known) and not all(known), f"{field} is always or never printed"


def test_a_long_invoice_runs_over_pages_that_are_numbered_and_carry_the_sum() -> None:
    for layout in LAYOUTS[:5]:
        pdf, one = sample(1, layout=layout, country="DE", long=True)
        assert one.pages >= 2 and len(one.truth.line_items) > 40
        text = text_of(pdf)
        assert_printed(text, one)
        assert "Übertrag" in text and re.search(rf"Seite {one.pages}(/| von ){one.pages}", text)
        with pdfium.PdfDocument(pdf) as document:
            assert len(document) == one.pages


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_bytes_and_another_one_other_bytes(kind: Any) -> None:
    small: Any = {"layout": "receipt"} if kind in ("scan", "tiff") else {}
    small |= {"trouble": "broken_xml"} if kind == "hostile" else {}
    first = sample(7, kind=kind, **small)
    assert first == sample(7, kind=kind, **small)
    assert first[0] != sample(8, kind=kind, **small)[0]


@pytest.mark.parametrize("kind", ["facturx", "facturx_conflict"])
def test_an_e_invoice_is_whole_and_says_what_is_true(kind: Any) -> None:
    seen = set()
    for seed in range(16):
        pdf, one = sample(seed, kind=kind)
        told = one.e_invoice
        assert told is not None
        assert_printed(text_of(pdf), one)
        name, xml = attached(pdf)
        assert name == "factur-x.xml" and all(mark in pdf for mark in (b"/AF [", b"/AFRelationship", b"<fx:Version>"))
        root = ElementTree.fromstring(xml)
        say = {node.tag.removeprefix(RAM): node.text for node in root.iter() if node.text}
        money = {name: Decimal(text) for name, text in say.items() if name.endswith("Amount")}
        lines = [Decimal(node.text or "") for node in root.iter(f"{RAM}LineTotalAmount")]
        taxes = [Decimal(node.text or "") for node in root.iter(f"{RAM}CalculatedAmount")]
        assert sum(lines[:-1]) == lines[-1] == sum(line.total or 0 for line in told.line_items)
        assert money["TaxBasisTotalAmount"] == told.subtotal
        assert money["TaxBasisTotalAmount"] == lines[-1] + money["ChargeTotalAmount"] - money["AllowanceTotalAmount"]
        assert sum(taxes) == money["TaxTotalAmount"] == told.tax_amount
        assert money["GrandTotalAmount"] == money["TaxBasisTotalAmount"] + money["TaxTotalAmount"] == told.total
        assert money["DuePayableAmount"] == money["GrandTotalAmount"] - money.get("TotalPrepaidAmount", Decimal(0))
        assert say["InvoiceCurrencyCode"] == told.currency
        assert f"{told.date:%Y%m%d}" in xml.decode() and (told.vendor or "").split()[0] in xml.decode()
        assert set(one.contradicts) == {field for field in FIELDS if getattr(told, field) != getattr(one.truth, field)}
        assert bool(one.contradicts) == (kind == "facturx_conflict")
        seen |= {one.profile, *one.contradicts}
    assert seen >= {"BASIC", "EN 16931"}
    assert kind == "facturx" or {"total", "date"} <= seen


def test_scans_are_pictures_of_the_page() -> None:
    endings = set()
    for seed in (1, 2, 3):
        content, one = sample(seed, kind="scan", layout="receipt")
        endings.add(one.path.suffix)
        if one.path.suffix == ".pdf":
            assert text_of(content).strip() == "", "a scan has no text of its own"
            continue
        with Image.open(io.BytesIO(content)) as image:
            assert image.format == {".png": "PNG", ".jpg": "JPEG"}[one.path.suffix]
            assert image.width > 600 and image.height > 600
    assert len(endings) > 1


def test_a_fax_has_every_page() -> None:
    content, one = sample(1, kind="tiff", layout="compact")
    with Image.open(io.BytesIO(content)) as image:
        assert (image.format, image.mode, image.n_frames) == ("TIFF", "1", one.pages)
    assert one.path.suffix == ".tif"


@pytest.mark.parametrize("trouble", TROUBLES)
def test_hostile_files_are_what_they_are_called(trouble: Any) -> None:
    content, one = sample(1, kind="hostile", trouble=trouble)
    assert one.trouble == trouble and trouble.replace("_", "-") in one.path.name
    assert len(content) < 3_000_000
    if one.readable:
        assert_printed(text_of(content), one)
        name, xml = attached(content)
        assert name == "factur-x.xml"
        assert (b"<!ENTITY" in xml) == (trouble == "entities_in_xml")
        if trouble == "broken_xml":
            with pytest.raises(ElementTree.ParseError):
                ElementTree.fromstring(xml)
    elif one.path.suffix == ".png":
        with pytest.raises((OSError, Image.DecompressionBombError)), Image.open(io.BytesIO(content)) as image:
            image.load()
    elif trouble == "no_pages":
        with pytest.raises(pdfium.PdfiumError), pdfium.PdfDocument(content) as document:
            document[0]
    else:
        with pytest.raises(pdfium.PdfiumError, match="assword" if trouble == "locked" else "Failed to load"):
            pdfium.PdfDocument(content)


def test_a_folder_has_some_of_everything_and_its_truth(tmp_path: Path) -> None:
    kinds = ["pdf", "facturx", "facturx_conflict"]
    made = make_samples(tmp_path / "a", count=18, kinds=kinds)
    assert [one.kind for one in made] == kinds * 6
    assert {one.language for one in made} == set(LANGUAGES) and len({one.layout for one in made}) >= 5
    assert read_truth(tmp_path / "a") == made
    assert {path.name for path in (tmp_path / "a").iterdir()} == {
        ".samples.json", "truth.jsonl", *(one.path.name for one in made),
    }  # fmt: skip
    shorter = make_samples(tmp_path / "b", count=5, kinds=kinds)
    assert [one.path.name for one in shorter] == [one.path.name for one in made[:5]]
    assert all(one.path.read_bytes() == other.path.read_bytes() for one, other in zip(shorter, made, strict=False))


def test_a_half_written_folder_is_completed(tmp_path: Path) -> None:
    made = make_samples(tmp_path, count=4, kinds=["pdf", "hostile"])
    whole = files(tmp_path)
    made[0].path.unlink()
    made[2].path.write_bytes(b"")
    (tmp_path / "truth.jsonl").unlink()
    assert make_samples(tmp_path, count=4, kinds=["pdf", "hostile"]) == made
    assert files(tmp_path) == whole


def test_samples_are_not_mixed_and_unknown_wishes_are_refused(tmp_path: Path) -> None:
    make_samples(tmp_path / "s", count=1, kinds=["pdf"])
    with pytest.raises(InvalidRequest, match=r"holds other samples .*'seed': 1.* choose another folder"):
        make_samples(tmp_path / "s", count=1, kinds=["pdf"], seed=2)
    with pytest.raises(InvalidRequest, match="count must be from 1 to 1,000,000, not 0"):
        make_samples(tmp_path / "t", count=0)
    with pytest.raises(InvalidRequest, match=r"kind must be one of pdf, facturx, .*, not 'fax'"):
        make_samples(tmp_path / "t", kinds=["fax"])
    with pytest.raises(InvalidRequest, match="kinds must name at least one"):
        make_samples(tmp_path / "t", kinds=[])
    with pytest.raises(InvalidRequest, match="a receipt carries no e-invoice"):
        sample(1, kind="facturx", layout="receipt")
    with pytest.raises(InvalidRequest, match="no 'facturx' in the language None for the country 'US'"):
        sample(1, kind="facturx", country="US")
    assert not (tmp_path / "t").exists()


def test_many_are_all_different_and_true(tmp_path: Path) -> None:
    made = bulk(tmp_path / "a", 60)
    contents = [one.path.read_bytes() for one in made]
    assert len(set(contents)) == len({one.truth.invoice_number for one in made}) == 60
    for one, content in zip(made, contents, strict=True):
        assert one.pages == 1
        assert one.truth.subtotal and one.truth.tax_amount
        assert one.truth.subtotal + one.truth.tax_amount == one.truth.total
        assert_printed(text_of(content), one)
    assert bulk(tmp_path / "a", 60) == made == read_truth(tmp_path / "a")
