"""Where a value stands on the pages: in any printed form, beside its label, in spite of OCR."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from penstock.paper.page import Line, Page, Word
from penstock.pipelines.documents.evidence import announced, find, places
from penstock.pipelines.documents.model import FieldName
from penstock.pipelines.documents.sheet import MOST_WORDS, sheet_of
from tests.support.invoice_pages import HEIGHT, WIDTH, Cell, ordinary, page


def text_of(name: FieldName, value: object, *rows: str | list[Cell]) -> str | None:
    found = find(name, value, [page(rows)])
    return None if found is None else found.text


@pytest.mark.parametrize(
    "printed", ["1.234,56", "1,234.56", "1 234,56", "1'234.56", "€1.234,56", "1.234,56€", "EUR 1.234,56", "$1,234.56*"]
)
def test_an_amount_is_found_in_every_form(printed: str) -> None:
    assert text_of("total", Decimal("1234.56"), f"Total {printed}") is not None


@pytest.mark.parametrize("printed", ["-12,00", "12,00-", "(12.00)", "€-12.00", "- 12.00"])
def test_a_credit_is_found_with_its_sign(printed: str) -> None:
    (place,) = places(sheet_of([page([f"Credit total {printed}"])]), "total", Decimal("-12"))
    assert place.exact
    (other,) = places(sheet_of([page([f"Credit total {printed}"])]), "total", Decimal("12"))
    assert not other.exact


@pytest.mark.parametrize(
    "printed",
    ["05.03.2024", "5/3/2024", "2024-03-05", "5 March 2024", "5. März 2024", "Mar 5, 2024", "5 mars 2024", "05-MAR-24"],
)
def test_a_day_is_found_in_every_format(printed: str) -> None:
    assert text_of("date", date(2024, 3, 5), f"Date: {printed}") == printed


@pytest.mark.parametrize(
    ("value", "printed"),
    [("INV-2024/17", "INV 2024 17"), ("INV17", "#INV-17"), ("471102", "Nr.:471102"), ("A-1", "A-1,")],
)
def test_a_number_is_found_in_spite_of_its_punctuation(value: str, printed: str) -> None:
    assert text_of("invoice_number", value, f"Invoice {printed}") is not None


def test_a_part_of_another_number_is_not_the_number() -> None:
    assert text_of("invoice_number", "471102", "Reference GE2020211-471102", "Order 4711021") is None


def test_of_several_places_the_one_beside_the_label_is_taken() -> None:
    rows: list[list[Cell]] = [[(100, "Saw"), (1200, "120.00")], [(900, "Total"), (1200, "120.00")]]
    found = find("total", Decimal("120.00"), [page(rows)])
    assert found is not None
    assert found.box is not None
    assert found.box == pytest.approx((1200 / WIDTH, 136 / HEIGHT, 1266 / WIDTH, 156 / HEIGHT), abs=1e-4)


def test_a_box_is_a_part_of_its_page() -> None:
    rows = ordinary()
    second = find("total", Decimal("120.00"), [page(["Terms"]), page(rows)])
    assert second is not None
    assert second.page == 2
    assert second.box is not None
    assert all(0 <= edge <= 1 for edge in second.box)


@pytest.mark.parametrize(
    ("label", "name", "value", "printed"),
    [
        ("Rechnungsdatum", "date", date(2024, 3, 5), "05.03.2024"),
        ("Date de facture", "date", date(2024, 3, 5), "05/03/2024"),
        ("Factuurdatum:", "date", date(2024, 3, 5), "5 maart 2024"),
        ("Zahlbar bis", "due_date", date(2024, 3, 5), "05.03.2024"),
        ("Date d’échéance", "due_date", date(2024, 3, 5), "05/03/2024"),
        ("Vervaldatum", "due_date", date(2024, 3, 5), "5-3-2024"),
        ("Gesamtbetrag", "total", Decimal(12), "12,00 €"),
        ("Total TTC", "total", Decimal(12), "12,00 €"),
        ("Totaal", "total", Decimal(12), "€ 12,00"),
        ("Grand Total", "total", Decimal(12), "£12.00"),
        ("Nettobetrag", "subtotal", Decimal(12), "12,00"),
        ("Total HT", "subtotal", Decimal(12), "12,00"),
        ("Total (excl. VAT)", "subtotal", Decimal(12), "12.00"),
        ("zzgl. 19 % MwSt.", "tax_amount", Decimal(12), "12,00"),
        ("BTW 21%", "tax_amount", Decimal(12), "12,00"),
        ("Rechnungsnr.", "invoice_number", "R17", "R17"),
        ("N° de facture :", "invoice_number", "R17", "R17"),
        ("Factuurnummer:", "invoice_number", "R17", "R17"),
    ],
)
def test_labels_are_known_in_four_languages(label: str, name: FieldName, value: object, printed: str) -> None:
    sheet = sheet_of([page([[(100, label), (900, printed)]])])
    (place,) = places(sheet, name, value)
    assert place.kind == name
    assert [spot.text for _, _, spot in announced(sheet, name)] != []


def test_a_label_may_stand_above_its_value() -> None:
    heads: list[Cell] = [(100, "Invoice Number"), (500, "Invoice Date"), (900, "Due Date"), (1300, "Charges")]
    values: list[Cell] = [(100, "458176"), (500, "3/28/2018"), (900, "4/16/2018"), (1330, "$89,024.34")]
    sheet = sheet_of([page([heads, values])])
    assert [place.kind for place in places(sheet, "invoice_number", "458176")] == ["invoice_number"]
    assert [place.kind for place in places(sheet, "date", date(2018, 3, 28))] == ["date"]
    assert [place.kind for place in places(sheet, "due_date", date(2018, 4, 16))] == ["due_date"]
    assert [place.kind for place in places(sheet, "total", Decimal("89024.34"))] == ["total_word"]


def test_the_columns_of_a_table_of_items_announce_nothing() -> None:
    rows: list[list[Cell]] = [
        [(100, "Date"), (400, "Description"), (800, "Quantity"), (1200, "Total")],
        [(100, "3/28/2018"), (400, "Saw"), (800, "1"), (1200, "50.00")],
    ]
    sheet = sheet_of([page(rows)])
    assert announced(sheet, "date") == announced(sheet, "total") == []


def test_the_last_amount_of_a_row_belongs_to_its_label() -> None:
    sheet = sheet_of([page([[(100, "zzgl. Umsatzsteuer 19% von"), (800, "64,46"), (1200, "12,25")]])])
    assert [value for _, value, _ in announced(sheet, "tax_amount")] == [Decimal("12.25")]


def test_a_name_is_found_without_its_legal_form_and_over_two_lines() -> None:
    assert text_of("vendor", "Northgate Tools Ltd", "NORTHGATE TOOLS") == "NORTHGATE TOOLS"
    assert text_of("vendor", "Altmann & Söhne GmbH", "Altmann &", "Söhne GmbH") == "Altmann & Söhne GmbH"
    assert text_of("vendor", "Altmann & Söhne GmbH", "Altmann Handel") is None


def test_a_scanned_name_may_be_a_letter_off_and_a_printed_one_may_not() -> None:
    rows = ["Northgale Too1s Ltd"]
    found = places(sheet_of([page(rows, source="ocr")]), "vendor", "Northgate Tools Ltd")
    assert [place.exact for place in found] == [False]
    assert places(sheet_of([page(rows)]), "vendor", "Northgate Tools Ltd") == []


def test_a_scanned_number_may_have_an_o_for_a_zero() -> None:
    rows = ["Invoice No: INV-2O24-17"]
    found = places(sheet_of([page(rows, source="ocr")]), "invoice_number", "INV-2024-17")
    assert [place.exact for place in found] == [False]
    assert places(sheet_of([page(rows)]), "invoice_number", "INV-2024-17") == []


def test_a_name_in_the_customers_block_is_the_customers() -> None:
    (place,) = places(sheet_of([page(ordinary())]), "vendor", "Elm Bakery")
    assert place.kind == "customer"
    form: list[str | list[Cell] | None] = [
        "Käufer",
        [(100, "Nummer:"), (700, "GE20")],
        [(100, "Name:"), (700, "Kunden AG")],
    ]
    (other,) = places(sheet_of([page(form)]), "vendor", "Kunden AG")
    assert other.kind == "customer"


def test_a_currency_is_found_by_code_sign_and_name() -> None:
    for row in ("Total EUR 12.00", "Total 12,00€", "All prices in Euro", "EUR12.00"):
        assert text_of("currency", "EUR", row) is not None
    assert text_of("currency", "EUR", "Neuro 12.00") is None
    assert text_of("currency", "USD", "$ 12.00") is None


def test_what_is_not_there_is_not_found() -> None:
    empty = Page(0, 0, (), "ocr")
    for name, value in (
        ("total", Decimal(1)),
        ("date", date(2024, 1, 1)),
        ("vendor", "x"),
        ("currency", "EUR"),
        ("total", None),
    ):
        assert find(name, value, [empty]) is None  # type: ignore[arg-type]
        assert find(name, value, []) is None  # type: ignore[arg-type]


def test_of_an_endless_document_the_beginning_and_the_end_are_looked_at() -> None:
    line = Line((Word("Saw", (0, 0, 9, 9)), Word("7.00", (20, 0, 29, 9))), 1, 1)
    pages = [page(["Invoice No: A1"]), Page(100, 100, (line,) * (MOST_WORDS // 2), "text"), page(["Total 9.00"])]
    assert find("invoice_number", "A1", pages) is not None
    assert find("total", Decimal("9.00"), pages) is not None
    assert sum(len(row.words) for row in sheet_of(pages).rows) <= MOST_WORDS + 10
