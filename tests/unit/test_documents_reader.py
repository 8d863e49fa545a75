"""What the local Gemini makes of an invoice, on pages of words with boxes: labels in four languages, amounts and dates
as countries write them, and null where the page does not say."""

from __future__ import annotations

from decimal import Decimal

import pytest

from penstock.gemini_local.readers import all_readers
from penstock.gemini_local.readers.schema import fingerprint
from penstock.paper.page import Line, Page, Word
from penstock.pipelines.documents.prompt import AskedInvoice, data_of
from penstock.pipelines.documents.reader import invoice_on
from penstock.pipelines.documents.reader_values import amounts, dates, decimal_mark

Text = tuple[int, int, str] | tuple[int, int, str, int]


def page(*texts: Text, scanned: bool = False) -> Page:
    """An A4 page at 200 dpi of texts at (left, top); letters are 11 pixels wide and 20 high, or as high as said."""
    lines = []
    for left, top, text, *high in texts:
        tall = high[0] if high else 20
        wide = tall * 11 // 20
        words, at = [], left
        for word in text.split(" "):
            words.append(Word(word, (at, top, at + wide * len(word), top + tall)))
            at += wide * (len(word) + 1) - wide // 2
        lines.append(Line(tuple(words), 1, 1))
    return Page(1654, 2339, tuple(lines), "ocr" if scanned else "text")


ENGLISH = (
    (100, 100, "Harbour Tools Ltd", 36),
    (100, 150, "12 Quay Street, Bristol BS1 4ND"),
    (100, 180, "VAT Reg No GB123456789"),
    (1200, 100, "INVOICE", 36),
    (1100, 200, "Invoice No:"), (1350, 200, "HT-20931"),
    (1100, 240, "Order No:"), (1350, 240, "77001"),
    (1100, 280, "Invoice Date:"), (1350, 280, "03/04/2024"),
    (1100, 320, "Due Date:"), (1350, 320, "03/05/2024"),
    (100, 320, "Bill To:"),
    (100, 350, "Meadow Farms Ltd"),
    (100, 380, "1 Low Lane, Leeds LS1 1AA"),
    (100, 600, "Description"), (800, 600, "Qty"), (1000, 600, "Unit Price"), (1400, 600, "Amount"),
    (100, 650, "Torque wrench"), (800, 650, "2"), (1000, 650, "£45.00"), (1400, 650, "£90.00"),
    (100, 690, "Drill bits, boxed"), (800, 690, "10"), (1000, 690, "£1.10"), (1400, 690, "£11.00"),
    (1000, 800, "Subtotal"), (1400, 800, "£101.00"),
    (1000, 840, "VAT 20%"), (1400, 840, "£20.20"),
    (1000, 880, "Total"), (1400, 880, "£121.20"),
)  # fmt: skip

GERMAN = (
    (160, 200, "Schraubenwerk Nord GmbH - Hafenstraße 7 - 20457 Hamburg", 16),
    (160, 260, "Möbelhaus Süd KG"),
    (160, 290, "Ringstr. 3"),
    (160, 320, "80331 München"),
    (160, 500, "Rechnung", 40),
    (1000, 500, "Rechnungsnummer"), (1300, 500, "2024-0815"),
    (1000, 540, "Kundennummer"), (1300, 540, "40021"),
    (1000, 580, "Rechnungsdatum"), (1300, 580, "5. März 2024"),
    (1000, 620, "Lieferdatum"), (1300, 620, "01.03.2024"),
    (160, 700, "Pos."), (260, 700, "Bezeichnung"), (800, 700, "Menge"), (1000, 700, "Einzelpreis"),
    (1350, 700, "Gesamtpreis"),
    (160, 740, "1"), (260, 740, "Gewindestangen M8"), (800, 740, "1.000"), (1000, 740, "1,20 €"),
    (1350, 740, "1.200,00 €"),
    (260, 770, "verzinkt, 1 m"),
    (160, 820, "2"), (260, 820, "Muttern"), (800, 820, "50"), (1000, 820, "0,70 €"), (1350, 820, "35,00 €"),
    (900, 900, "Nettobetrag"), (1350, 900, "1.235,00 €"),
    (900, 940, "zzgl. 19 % USt."), (1350, 940, "234,65 €"),
    (900, 980, "Gesamtbetrag"), (1350, 980, "1.469,65 €"),
    (160, 1100, "Zahlbar bis 04.04.2024 ohne Abzug."),
    (160, 2200, "Schraubenwerk Nord GmbH", 16), (800, 2200, "IBAN DE02120300000000202051", 16),
)  # fmt: skip

FRENCH = (
    (100, 100, "Atelier Colibri SARL", 30),
    (100, 150, "4 rue des Lilas"),
    (100, 180, "69003 Lyon"),
    (100, 300, "Facture N° FA-2024-117", 34),
    (900, 300, "Adresse de facturation"),
    (900, 330, "Boulangerie Petit SAS"),
    (900, 360, "9 place du Marché"),
    (100, 400, "Date de facture"), (400, 400, "07/11/2024"),
    (100, 440, "Date d'échéance"), (400, 440, "07/12/2024"),
    (100, 600, "Désignation"), (800, 600, "Quantité"), (1050, 600, "Prix unitaire"), (1400, 600, "Montant HT"),
    (100, 640, "Enseigne en bois"), (800, 640, "1"), (1050, 640, "1 250,00 €"), (1400, 640, "1 250,00 €"),
    (1100, 800, "Total HT"), (1400, 800, "1 250,00 €"),
    (1100, 840, "TVA 20 %"), (1400, 840, "250,00 €"),
    (1100, 880, "Total TTC"), (1400, 880, "1 500,00 €"),
    (1100, 920, "Acompte"), (1400, 920, "500,00 €"),
    (1100, 960, "Solde à payer"), (1400, 960, "1 000,00 €"),
)  # fmt: skip

DUTCH = (
    (100, 100, "FACTUUR", 36),
    (1200, 100, "Fietsenhuis De Ketting B.V."),
    (1200, 140, "Kanaalweg 2"),
    (1200, 180, "3526 KL Utrecht"),
    (100, 300, "Factuurnummer: 2024117"),
    (100, 340, "Klantnummer: 5512"),
    (100, 380, "Factuurdatum: 19 april 2024"),
    (100, 500, "Omschrijving"), (900, 500, "Aantal"), (1100, 500, "Prijs"), (1400, 500, "Bedrag"),
    (100, 540, "Fietstas"), (900, 540, "2"), (1100, 540, "€ 40,00"), (1400, 540, "€ 80,00"),
    (1100, 700, "Exclusief BTW"), (1400, 700, "€ 80,00"),
    (1100, 740, "BTW 21%"), (1400, 740, "€ 16,80"),
    (1100, 780, "Totaal"), (1400, 780, "€ 96,80"),
)  # fmt: skip


def test_an_english_invoice() -> None:
    found = invoice_on([page(*ENGLISH)])
    assert found.model_dump(exclude={"line_items"}) == {
        "vendor": "Harbour Tools Ltd",
        "invoice_number": "HT-20931",
        "date": "2024-04-03",
        "due_date": "2024-05-03",
        "subtotal": "101.00",
        "tax_rate": "20",
        "tax_amount": "20.20",
        "total": "121.20",
        "currency": "GBP",
    }
    assert [tuple(line.model_dump().values()) for line in found.line_items] == [
        ("Torque wrench", "2", "45.00", "90.00"),
        ("Drill bits, boxed", "10", "1.10", "11.00"),
    ]


def test_a_german_invoice_with_sender_line_and_unlabelled_addressee() -> None:
    found = invoice_on([page(*GERMAN)])
    assert found.model_dump(exclude={"line_items"}) == {
        "vendor": "Schraubenwerk Nord GmbH",
        "invoice_number": "2024-0815",
        "date": "2024-03-05",
        "due_date": "2024-04-04",
        "subtotal": "1235.00",
        "tax_rate": "19",
        "tax_amount": "234.65",
        "total": "1469.65",
        "currency": "EUR",
    }
    first, second = found.line_items
    assert (first.item, first.quantity, first.unit_price, first.total) == (
        "Gewindestangen M8 verzinkt, 1 m", "1000", "1.20", "1200.00",
    )  # fmt: skip
    assert (second.item, second.total) == ("Muttern", "35.00")


def test_a_french_invoice_amounts_to_its_total_and_not_to_what_is_left_to_pay() -> None:
    found = invoice_on([page(*FRENCH)])
    assert (found.vendor, found.invoice_number) == ("Atelier Colibri SARL", "FA-2024-117")
    assert (found.date, found.due_date) == ("2024-11-07", "2024-12-07")
    assert (found.subtotal, found.tax_rate, found.tax_amount, found.total) == ("1250.00", "20", "250.00", "1500.00")
    assert found.currency == "EUR"
    assert [line.total for line in found.line_items] == ["1250.00"]


def test_a_dutch_invoice() -> None:
    found = invoice_on([page(*DUTCH)])
    assert (found.vendor, found.invoice_number) == ("Fietsenhuis De Ketting B.V.", "2024117")
    assert (found.date, found.total, found.currency) == ("2024-04-19", "96.80", "EUR")
    assert [(line.item, line.quantity, line.total) for line in found.line_items] == [("Fietstas", "2", "80.00")]


def test_the_answer_becomes_data_without_loss() -> None:
    data, refused = data_of(invoice_on([page(*GERMAN)]))
    assert refused == {}
    assert data.total == Decimal("1469.65")
    assert data.line_items[0].quantity == 1000


def test_the_balance_of_earlier_invoices_is_no_part_of_the_total() -> None:
    found = invoice_on(
        [page(
            (1000, 800, "SUBTOTAL"), (1400, 800, "$100.00"),
            (1000, 840, "SALES TAX"), (1400, 840, "$10.00"),
            (1000, 880, "TOTAL"), (1400, 880, "$110.00"),
            (1000, 920, "PREVIOUS BALANCE"), (1400, 920, "$500.00"),
            (1000, 960, "AMOUNT DUE"), (1400, 960, "$610.00"),
        )]
    )  # fmt: skip
    assert (found.subtotal, found.tax_amount, found.total) == ("100.00", "10.00", "110.00")


def test_what_is_due_is_the_total_where_nothing_else_is_said() -> None:
    found = invoice_on(
        [page(
            (1000, 800, "Subtotal"), (1400, 800, "200.00"),
            (1000, 840, "Tax"), (1400, 840, "14.00"),
            (1000, 880, "Balance Due"), (1400, 880, "214.00"),
        )]
    )  # fmt: skip
    assert found.total == "214.00"


def test_several_rates_give_no_rate_and_the_printed_sum_of_taxes() -> None:
    found = invoice_on(
        [page(
            (300, 800, "Rechnungssumme netto"), (1400, 800, "300,00"),
            (300, 840, "zzgl. Umsatzsteuer 7 %"), (1400, 840, "7,00"),
            (300, 880, "zzgl. Umsatzsteuer 19 %"), (1400, 880, "38,00"),
            (300, 920, "Summe Umsatzsteuer"), (1400, 920, "45,00"),
            (300, 960, "Rechnungssumme brutto"), (1400, 960, "345,00"),
        )]
    )  # fmt: skip
    assert (found.subtotal, found.tax_rate, found.tax_amount, found.total) == ("300.00", None, "45.00", "345.00")


def test_taxes_that_are_not_summed_on_the_page_are_not_summed_here() -> None:
    found = invoice_on(
        [page(
            (300, 800, "Nettobetrag"), (1400, 800, "300,00"),
            (300, 840, "USt. 7 %"), (1400, 840, "7,00"),
            (300, 880, "USt. 19 %"), (1400, 880, "38,00"),
            (300, 960, "Gesamtbetrag"), (1400, 960, "345,00"),
        )]
    )  # fmt: skip
    assert (found.tax_amount, found.total) == (None, "345.00")


def test_a_credit_note_is_negative_as_it_is_printed() -> None:
    found = invoice_on(
        [page(
            (100, 100, "Nordlicht Energie AG", 30),
            (100, 300, "Gutschrift Nr. G-118 vom 02.02.2024", 30),
            (900, 900, "Nettobetrag"), (1350, 900, "-100,00 €"),
            (900, 940, "USt. 19 %"), (1350, 940, "-19,00 €"),
            (900, 980, "Gesamtbetrag"), (1350, 980, "-119,00 €"),
        )]
    )  # fmt: skip
    assert (found.vendor, found.invoice_number, found.date) == ("Nordlicht Energie AG", "G-118", "2024-02-02")
    assert (found.subtotal, found.tax_amount, found.total) == ("-100.00", "-19.00", "-119.00")


def test_labels_in_a_row_have_their_values_below() -> None:
    found = invoice_on(
        [page(
            (100, 500, "Invoice Number"), (450, 500, "Invoice Date"), (800, 500, "Invoice Due Date"),
            (1200, 500, "Total"),
            (100, 560, "458176"), (450, 560, "28 March 2018"), (800, 560, "16 April 2018"), (1300, 560, "$89,024.34"),
        )]
    )  # fmt: skip
    assert (found.invoice_number, found.date, found.due_date) == ("458176", "2018-03-28", "2018-04-16")
    assert found.total == "89024.34"


def test_a_number_in_the_heading_counts_and_other_numbers_do_not() -> None:
    heading = page((100, 100, "Invoice INV/2024/0008", 40), (100, 300, "Customer No: 1234"), (100, 340, "Order No. 99"))
    assert invoice_on([heading]).invoice_number == "INV/2024/0008"
    others = page((100, 300, "Customer No: 1234"), (100, 340, "Order No. 99"), (100, 380, "Lieferschein-Nr. 17"))
    assert invoice_on([others]).invoice_number is None


def test_of_two_columns_each_label_takes_its_own_value() -> None:
    found = invoice_on(
        [page(
            (100, 300, "Rechnungsnr."), (413, 300, "30064443"), (1000, 300, "Kundennr."), (1290, 300, "47774"),
            (100, 340, "Rechnungsdatum"), (413, 340, "7. Mai 2014"), (1000, 340, "Lieferdatum"),
            (1290, 340, "1. Mai 2014"),
        )]
    )  # fmt: skip
    assert (found.invoice_number, found.date) == ("30064443", "2014-05-07")


def test_a_label_that_comes_twice_says_the_same() -> None:
    again = page(
        (100, 300, "Invoice No: A-77"), (100, 340, "Date: 5 May 2024"), (1000, 900, "Total"), (1300, 900, "€ 9,90")
    )
    found = invoice_on([again, again])
    assert (found.invoice_number, found.date, found.total) == ("A-77", "2024-05-05", "9.90")


def test_the_named_seller_goes_before_the_largest_letters() -> None:
    found = invoice_on(
        [page(
            (100, 100, "MEGA MARKETPLACE", 60),
            (100, 300, "Sold By: Paper Crane Stationery Pvt. Ltd.,"),
            (100, 400, "Billing Address"), (100, 430, "A. Customer"), (100, 460, "4 Station Road"),
        )]
    )  # fmt: skip
    assert found.vendor == "Paper Crane Stationery Pvt. Ltd."


def test_the_customer_is_never_the_vendor() -> None:
    found = invoice_on([page((100, 400, "Bill To:"), (100, 430, "Meadow Farms Ltd"), (100, 460, "1 Low Lane"))])
    assert found.vendor is None


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        (("Total 12.00 USD",), None),
        (("Springfield, IL 62704",), "2024-03-04"),
        (("VAT Reg No GB123456789",), "2024-04-03"),
        (("Order Date: 03/25/2024",), "2024-03-04"),
        (("Order Date: 25/03/2024",), "2024-04-03"),
    ],
)  # fmt: skip
def test_day_and_month_are_told_apart_by_the_country_or_another_date_or_not_at_all(
    others: tuple[str, ...], expected: str | None
) -> None:
    texts = [(100, 400 + 40 * at, text) for at, text in enumerate(others)]
    assert invoice_on([page((100, 300, "Invoice Date: 03/04/2024"), *texts)]).date == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("Total $ 12.00",), None),
        (("Total $ 12.00", "Portland, OR 97201"), "USD"),
        (("Total $ 12.00", "Toronto, Ontario, Canada"), "CAD"),
        (("Total $ 12.00", "Portland, OR 97201", "Toronto, Canada"), None),
        (("Total CHF 12.00",), "CHF"),
        (("Total 12,00 €",), "EUR"),
        (("All amounts in US Dollars", "Total $12.00"), "USD"),
        (("Total 12.00",), None),
    ],
)
def test_a_currency_is_shown_or_it_is_not_known(texts: tuple[str, ...], expected: str | None) -> None:
    found = invoice_on([page(*((100, 400 + 60 * at, text) for at, text in enumerate(texts)))])
    assert found.currency == expected
    assert (found.total is None) == (not any("Total" in text for text in texts))


def test_a_receipt_is_rounded_and_paid() -> None:
    found = invoice_on(
        [page(
            (500, 100, "KEDAI BUKU LIMA SDN BHD", 24),
            (500, 140, "12, JALAN SATU, 81100 JOHOR"),
            (300, 400, "TOTAL INCL. GST"), (800, 400, "RM 33.92"),
            (300, 440, "ROUNDING ADJUSTMENT"), (800, 440, "-RM 0.02"),
            (300, 480, "TOTAL ROUNDED"), (800, 480, "RM 33. 90"),
            (300, 520, "CASH"), (800, 520, "RM 50.00"),
            (300, 560, "CHANGE"), (800, 560, "RM 16.10"),
            (300, 600, "12-01-19 21:13"),
            scanned=True,
        )]
    )  # fmt: skip
    assert (found.vendor, found.total, found.currency) == ("KEDAI BUKU LIMA SDN BHD", "33.90", "MYR")
    assert found.date == "2019-01-12"


def test_the_lines_of_a_slip_are_quantity_times_price() -> None:
    found = invoice_on(
        [page(
            (500, 100, "Hollow & Reed Print Works Ltd", 24),
            (400, 300, "Network cable"),
            (400, 330, "2 x €14.60"), (900, 330, "€29.20"),
            (400, 360, "Handbook of joinery"),
            (400, 390, "1 x €65.45"), (900, 390, "€65.45"),
            (400, 450, "Total"), (900, 450, "€94.65"),
        )]
    )  # fmt: skip
    assert [tuple(line.model_dump().values()) for line in found.line_items] == [
        ("Network cable", "2", "14.60", "29.20"),
        ("Handbook of joinery", "1", "65.45", "65.45"),
    ]


def test_what_is_carried_to_the_next_page_is_no_line() -> None:
    head = (100, 300, "Bezeichnung"), (800, 300, "Menge"), (1000, 300, "Einzelpreis"), (1350, 300, "Betrag")
    first = page(*head, (100, 340, "Muttern"), (800, 340, "2"), (1000, 340, "5,00"), (1350, 340, "10,00"),
                 (100, 400, "Übertrag"), (1350, 400, "10,00"), (100, 2200, "Bank 29"),
                 (1350, 2200, "Seite 1"))  # fmt: skip
    second = page(*head, (100, 340, "Übertrag"), (1350, 340, "10,00"),
                  (100, 380, "Anfahrt"), (800, 380, "1"), (1000, 380, "20,00"), (1350, 380, "20,00"),
                  (1000, 500, "Gesamtbetrag"), (1350, 500, "30,00 €"))  # fmt: skip
    found = invoice_on([first, second])
    assert [(line.item, line.total) for line in found.line_items] == [("Muttern", "10.00"), ("Anfahrt", "20.00")]
    assert found.total == "30.00"


def test_a_crooked_scan_is_read_as_if_it_lay_straight() -> None:
    straight = page(*ENGLISH, (100, 1500, "We thank you for your order and hope to see you again at our shop."),
                    (100, 1600, "Goods remain our property until they have been paid in full by the customer."),
                    (100, 1700, "Please quote the number of this invoice whenever you write to us about it."),
                    scanned=True)  # fmt: skip
    lines = tuple(
        Line(tuple(Word(word.text, tilted(word.box)) for word in line.words), line.block, line.paragraph)
        for line in straight.lines
    )
    crooked = Page(straight.width, straight.height, lines, "ocr")
    assert invoice_on([crooked]) == invoice_on([straight])


def tilted(box: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    left, top, right, bottom = box
    return left, top + left * 3 // 100, right, bottom + left * 3 // 100


def test_a_page_without_labels_gives_nulls() -> None:
    letter = page(
        (100, 400, "dear all, the meeting of the 99 members took 3.5 hours and cost more than we thought."),
        (100, 440, "we will meet again when 1,250 seats are free."),
    )
    found = invoice_on([letter])
    assert found == AskedInvoice(**dict.fromkeys(AskedInvoice.model_fields, None) | {"line_items": []})


@pytest.mark.parametrize("pages", [[], [Page(100, 100, (), "ocr")]])
def test_nothing_to_read_gives_nulls(pages: list[Page]) -> None:
    assert set(invoice_on(pages).model_dump(exclude={"line_items"}).values()) == {None}


def test_absurd_words_take_no_absurd_time() -> None:
    words = [(100, 20 * at, "-" * 5000 + " Total 1" + "2" * 500) for at in range(60)]
    assert invoice_on([page(*words)]).total is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.234,56", "1234.56"), ("1,234.56", "1234.56"), ("1 234,56", "1234.56"), ("1'234.56", "1234.56"),
        ("$10,375", "10375"), ("(12.00)", "-12.00"), ("12,00-", "-12.00"), ("17.074,01- €", "-17074.01"),
        ("INR 1,02,518.40", "102518.40"), ("-RM 0.02", "-0.02"), ("€ 9,90", "9.90"),
        ("0,025 €", "0.025"),
    ],
)  # fmt: skip
def test_amounts_as_countries_write_them(text: str, value: str) -> None:
    (found,) = amounts(text, decimal_mark(text))
    assert found.value == Decimal(value)


@pytest.mark.parametrize("text", ["19 %", "12:30", "05.03.2024", "A-1234", "TB100A4", "GB123456789"])
def test_what_is_no_amount(text: str) -> None:
    assert [one for one in amounts(text, None) if one.money] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-03-05", "2024-03-05"), ("05.03.24", "2024-03-05"), ("5. März 2024", "2024-03-05"),
        ("5 mars 2024", "2024-03-05"),
        ("March 5 , 2024", "2024-03-05"), ("30 MAR 18", "2018-03-30"), ("31/12/2024", "2024-12-31"),
        ("12/31/2024", "2024-12-31"), ("5 mei 2024", "2024-05-05"), ("1er août 2024", "2024-08-01"),
    ],
)  # fmt: skip
def test_dates_that_leave_no_doubt(text: str, expected: str) -> None:
    (found,) = dates(text)
    assert str(found.sure) == expected


def test_a_doubtful_date_keeps_both_readings() -> None:
    (found,) = dates("on 03/04/2024")
    assert found.sure is None
    assert (str(found.read(True)), str(found.read(False)), found.read(None)) == ("2024-04-03", "2024-03-04", None)
    assert dates("31/31/2024, 12.17.26 PM, HCO3-7-15") == []


def test_the_reader_is_found_by_its_schema() -> None:
    registry = all_readers()
    assert registry.broken == {}
    (reader,) = [one for one in registry.readers if one.name == "invoice"]
    assert [fingerprint(schema) for schema in reader.schemas] == [fingerprint(AskedInvoice.model_json_schema())]
