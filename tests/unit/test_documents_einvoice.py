"""E-invoices to data: every syntax and profile, and XML that is hostile, foreign or wrong."""

from __future__ import annotations

import random
import re
from datetime import date
from decimal import Decimal

import pytest

from penstock.pipelines.documents import xmltree
from penstock.pipelines.documents.einvoice import EInvoice, NotAnInvoice, is_named, looks_like, read_xml
from penstock.pipelines.documents.model import InvoiceData, LineItem

CII = """<?xml version="1.0" encoding="UTF-8"?>
<rsm:CrossIndustryInvoice xmlns:rsm="urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100"
  xmlns:ram="urn:un:unece:uncefact:data:standard:ReusableAggregateBusinessInformationEntity:100"
  xmlns:udt="urn:un:unece:uncefact:data:standard:UnqualifiedDataType:100">
 <rsm:ExchangedDocumentContext><ram:GuidelineSpecifiedDocumentContextParameter>
  <ram:ID>urn:cen.eu:en16931:2017</ram:ID></ram:GuidelineSpecifiedDocumentContextParameter></rsm:ExchangedDocumentContext>
 <rsm:ExchangedDocument><ram:ID> R-7 </ram:ID><ram:TypeCode>380</ram:TypeCode>
  <ram:IssueDateTime><udt:DateTimeString format="102">20240229</udt:DateTimeString></ram:IssueDateTime>
 </rsm:ExchangedDocument>
 <rsm:SupplyChainTradeTransaction>
  <ram:IncludedSupplyChainTradeLineItem>
   <ram:AssociatedDocumentLineDocument><ram:LineID>1</ram:LineID></ram:AssociatedDocumentLineDocument>
   <ram:SpecifiedTradeProduct><ram:Name>Schrauben
     M4 </ram:Name></ram:SpecifiedTradeProduct>
   <ram:SpecifiedLineTradeAgreement><ram:NetPriceProductTradePrice><ram:ChargeAmount>12.345</ram:ChargeAmount>
     <ram:BasisQuantity unitCode="C62">100</ram:BasisQuantity>
   </ram:NetPriceProductTradePrice></ram:SpecifiedLineTradeAgreement>
   <ram:SpecifiedLineTradeDelivery><ram:BilledQuantity unitCode="C62">1.234</ram:BilledQuantity>
   </ram:SpecifiedLineTradeDelivery>
   <ram:SpecifiedLineTradeSettlement><ram:SpecifiedTradeSettlementLineMonetarySummation>
     <ram:LineTotalAmount>100.00</ram:LineTotalAmount></ram:SpecifiedTradeSettlementLineMonetarySummation></ram:SpecifiedLineTradeSettlement>
  </ram:IncludedSupplyChainTradeLineItem>
  <ram:IncludedSupplyChainTradeLineItem>
   <ram:AssociatedDocumentLineDocument><ram:IncludedNote><ram:Content>Danke!</ram:Content></ram:IncludedNote>
   </ram:AssociatedDocumentLineDocument></ram:IncludedSupplyChainTradeLineItem>
  <ram:IncludedSupplyChainTradeLineItem>
   <ram:AssociatedDocumentLineDocument><ram:LineStatusReasonCode>GROUP</ram:LineStatusReasonCode></ram:AssociatedDocumentLineDocument>
   <ram:SpecifiedLineTradeSettlement><ram:SpecifiedTradeSettlementLineMonetarySummation>
     <ram:LineTotalAmount>100.00</ram:LineTotalAmount></ram:SpecifiedTradeSettlementLineMonetarySummation></ram:SpecifiedLineTradeSettlement>
  </ram:IncludedSupplyChainTradeLineItem>
  <ram:ApplicableHeaderTradeAgreement>
   <ram:SellerTradeParty><ram:Name>Müller &amp; Söhne GmbH</ram:Name>
    <ram:SpecifiedTaxRegistration><ram:ID schemeID="FC">12/345</ram:ID></ram:SpecifiedTaxRegistration>
    <ram:SpecifiedTaxRegistration><ram:ID schemeID="VA">DE123456789</ram:ID></ram:SpecifiedTaxRegistration>
   </ram:SellerTradeParty>
   <ram:BuyerTradeParty><ram:Name>Kundin AG</ram:Name></ram:BuyerTradeParty></ram:ApplicableHeaderTradeAgreement>
  <ram:ApplicableHeaderTradeSettlement>
   <ram:InvoiceCurrencyCode>EUR</ram:InvoiceCurrencyCode>
   <ram:SpecifiedTradeSettlementPaymentMeans><ram:PayeePartyCreditorFinancialAccount><ram:IBANID>DE89370400440532013000</ram:IBANID>
    </ram:PayeePartyCreditorFinancialAccount></ram:SpecifiedTradeSettlementPaymentMeans>
   <ram:ApplicableTradeTax><ram:RateApplicablePercent>19.00</ram:RateApplicablePercent></ram:ApplicableTradeTax>
   <ram:SpecifiedTradePaymentTerms><ram:DueDateDateTime><udt:DateTimeString format="102">20240331</udt:DateTimeString>
    </ram:DueDateDateTime></ram:SpecifiedTradePaymentTerms>
   <ram:SpecifiedTradeSettlementHeaderMonetarySummation>
    <ram:LineTotalAmount>100.00</ram:LineTotalAmount><ram:TaxBasisTotalAmount>100.00</ram:TaxBasisTotalAmount>
    <ram:TaxTotalAmount currencyID="USD">21.00</ram:TaxTotalAmount>
    <ram:TaxTotalAmount currencyID="EUR">19.00</ram:TaxTotalAmount>
    <ram:GrandTotalAmount>119.00</ram:GrandTotalAmount><ram:DuePayableAmount>19.00</ram:DuePayableAmount>
   </ram:SpecifiedTradeSettlementHeaderMonetarySummation></ram:ApplicableHeaderTradeSettlement>
 </rsm:SupplyChainTradeTransaction>
</rsm:CrossIndustryInvoice>"""

UBL = """<Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-2"
  xmlns:cac="urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2"
  xmlns:cbc="urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2">
 <cbc:CustomizationID>urn:xeinkauf.de:kosit:xrechnung_3.0</cbc:CustomizationID>
 <cbc:ID>U-1</cbc:ID><cbc:IssueDate>2024-05-06</cbc:IssueDate><cbc:DueDate>2024-06-05</cbc:DueDate>
 <cbc:InvoiceTypeCode>380</cbc:InvoiceTypeCode><cbc:DocumentCurrencyCode>CHF</cbc:DocumentCurrencyCode>
 <cac:AccountingSupplierParty><cac:Party><cac:PartyName><cbc:Name>Shop</cbc:Name></cac:PartyName>
  <cac:PartyTaxScheme><cbc:CompanyID>CHE123</cbc:CompanyID></cac:PartyTaxScheme>
  <cac:PartyLegalEntity><cbc:RegistrationName>Shop AG</cbc:RegistrationName></cac:PartyLegalEntity>
 </cac:Party></cac:AccountingSupplierParty>
 <cac:PaymentMeans><cac:PayeeFinancialAccount><cbc:ID>CH93</cbc:ID></cac:PayeeFinancialAccount></cac:PaymentMeans>
 <cac:TaxTotal><cbc:TaxAmount currencyID="CHF">8.10</cbc:TaxAmount>
  <cac:TaxSubtotal><cac:TaxCategory><cbc:Percent>8.1</cbc:Percent></cac:TaxCategory></cac:TaxSubtotal></cac:TaxTotal>
 <cac:LegalMonetaryTotal><cbc:TaxExclusiveAmount>100</cbc:TaxExclusiveAmount>
  <cbc:TaxInclusiveAmount>108.10</cbc:TaxInclusiveAmount><cbc:PayableAmount>108.10</cbc:PayableAmount></cac:LegalMonetaryTotal>
 <cac:InvoiceLine><cbc:InvoicedQuantity>2</cbc:InvoicedQuantity><cbc:LineExtensionAmount>100</cbc:LineExtensionAmount>
  <cac:Item><cbc:Name>Uhr</cbc:Name></cac:Item><cac:Price><cbc:PriceAmount>50</cbc:PriceAmount></cac:Price></cac:InvoiceLine>
</Invoice>"""

OLD_NAMES = {
    "urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100": "urn:ferd:CrossIndustryDocument:invoice:1p0",
    "CrossIndustryInvoice": "CrossIndustryDocument",
    "rsm:ExchangedDocumentContext": "rsm:SpecifiedExchangedDocumentContext",
    "rsm:ExchangedDocument>": "rsm:HeaderExchangedDocument>",
    "rsm:SupplyChainTradeTransaction": "rsm:SpecifiedSupplyChainTradeTransaction",
    "ApplicableHeaderTrade": "ApplicableSupplyChainTrade",
    "SpecifiedTradeSettlementHeaderMonetarySummation": "SpecifiedTradeSettlementMonetarySummation",
    "SpecifiedTradeSettlementLineMonetarySummation": "SpecifiedTradeSettlementMonetarySummation",
    "SpecifiedLineTrade": "SpecifiedSupplyChainTrade",
    "RateApplicablePercent": "ApplicablePercent",
}


def read(text: str) -> EInvoice:
    return read_xml(text.encode())


def without(element: str, text: str = CII) -> str:
    changed = re.sub(rf"<(\w+:{element})\b[^>]*>.*?</\1>", "", text, flags=re.DOTALL)
    assert changed != text
    return changed


def with_text(element: str, value: str, text: str = CII) -> str:
    changed = re.sub(rf"(<\w+:{element}\b[^>]*>)[^<]*(</)", rf"\g<1>{value}\g<2>", text, count=1)
    assert changed != text
    return changed


WANTED = InvoiceData(
    vendor="Müller & Söhne GmbH",
    invoice_number="R-7",
    date=date(2024, 2, 29),
    due_date=date(2024, 3, 31),
    subtotal=Decimal("100.00"),
    tax_rate=Decimal("19.00"),
    tax_amount=Decimal("19.00"),
    total=Decimal("119.00"),
    currency="EUR",
    line_items=(
        LineItem(
            item="Schrauben M4", quantity=Decimal("1.234"), unit_price=Decimal("0.12345"), total=Decimal("100.00")
        ),
    ),
)


def test_a_cross_industry_invoice_is_read_whole() -> None:
    found = read(CII)
    assert found.data == WANTED and found.refused == {}
    assert (found.syntax, found.type_code, found.profile) == ("cii", "380", "urn:cen.eu:en16931:2017")
    assert (found.iban, found.vat_id, found.buyer) == ("DE89370400440532013000", "DE123456789", "Kundin AG")
    assert found.payable == Decimal("19.00"), "what is left to pay is not the total"


def test_zugferd_1_says_the_same_by_longer_names() -> None:
    text = CII
    for new, old in OLD_NAMES.items():
        text = text.replace(new, old)
    found = read(text)
    assert found.syntax == "zugferd-1" and found.data == WANTED


def test_utf_16_is_read_too_and_found_by_content() -> None:
    xml = CII.replace("UTF-8", "UTF-16").encode("utf-16")
    assert looks_like(xml) and read_xml(xml).data == WANTED


def test_the_smallest_profile_has_no_lines_no_rate_and_no_due_date() -> None:
    text = CII
    for element in ("IncludedSupplyChainTradeLineItem", "ApplicableTradeTax", "SpecifiedTradePaymentTerms"):
        text = without(element, text)
    data = read(text).data
    assert (data.total, data.tax_rate, data.due_date, data.line_items) == (Decimal("119.00"), None, None, ())


def test_two_rates_are_no_rate() -> None:
    tax = "<ram:ApplicableTradeTax><ram:RateApplicablePercent>{}</ram:RateApplicablePercent></ram:ApplicableTradeTax>"
    assert read(CII.replace(tax.format("19.00"), tax.format("19.00") + tax.format("7"))).data.tax_rate is None
    assert read(CII.replace(tax.format("19.00"), tax.format("19.00") + tax.format("19"))).data.tax_rate == 19


def test_a_ubl_invoice_and_a_credit_note_are_read() -> None:
    found = read(UBL)
    assert found.syntax == "ubl" and not found.credit_note and found.vat_id == "CHE123"
    assert found.data == InvoiceData(
        vendor="Shop AG",
        invoice_number="U-1",
        date=date(2024, 5, 6),
        due_date=date(2024, 6, 5),
        subtotal=Decimal(100),
        tax_rate=Decimal("8.1"),
        tax_amount=Decimal("8.10"),
        total=Decimal("108.10"),
        currency="CHF",
        line_items=(LineItem(item="Uhr", quantity=Decimal(2), unit_price=Decimal(50), total=Decimal(100)),),
    )
    note = (
        UBL.replace("<Invoice ", "<CreditNote ")
        .replace("</Invoice>", "</CreditNote>")
        .replace("Invoice-2", "CreditNote-2")
    )
    note = note.replace("InvoiceLine>", "CreditNoteLine>").replace("InvoicedQ", "CreditedQ").replace("380", "381")
    note = note.replace("InvoiceTypeCode", "CreditNoteTypeCode")
    credit = read(note)
    assert (
        credit.credit_note
        and credit.data.total == Decimal("108.10")
        and credit.data.line_items == found.data.line_items
    )


def test_signs_stay_as_they_are_written() -> None:
    assert read(with_text("GrandTotalAmount", "-119.00")).data.total == Decimal("-119.00")
    credit = read(with_text("TypeCode", "381"))
    assert credit.credit_note and credit.data.total == Decimal("119.00")


@pytest.mark.parametrize(
    ("field", "element", "value", "why"),
    [
        ("total", "GrandTotalAmount", "119,00", "no number"),
        ("total", "GrandTotalAmount", "1E400", "no number"),
        ("total", "GrandTotalAmount", "NaN", "no number"),
        ("total", "GrandTotalAmount", "9" * 19, "larger"),
        ("subtotal", "TaxBasisTotalAmount", "hundred", "no number"),
        ("date", "DateTimeString", "20240230", "no day of the calendar"),
        ("date", "DateTimeString", "29.02.2024", "no date"),
        ("tax_rate", "RateApplicablePercent", "1900", "between 0 and 100"),
        ("line_items", "BilledQuantity", "many", "no number"),
    ],
)
def test_a_wrong_value_is_left_out_with_the_reason(field: str, element: str, value: str, why: str) -> None:
    found = read(with_text(element, value))
    assert why in found.refused[field] and set(found.refused) == {field}
    if field != "line_items":
        assert getattr(found.data, field) is None
    else:
        assert found.data.line_items[0].quantity is None and found.data.line_items[0].total == 100


def test_a_date_by_month_or_two_different_due_dates_are_no_day() -> None:
    assert "format 610" in read(CII.replace('format="102">20240229', 'format="610">202402')).refused["date"]
    term = re.search(r"<ram:SpecifiedTradePaymentTerms>.*?</ram:SpecifiedTradePaymentTerms>", CII, re.DOTALL)
    assert term is not None
    twice = read(CII.replace(term[0], term[0] + term[0].replace("20240331", "20240430")))
    assert twice.data.due_date is None and "2024-03-31, 2024-04-30" in twice.refused["due_date"]
    assert read(CII.replace(term[0], term[0] * 2)).data.due_date == date(2024, 3, 31)


def test_an_empty_currency_is_not_made_up_from_anything_else() -> None:
    found = read(with_text("InvoiceCurrencyCode", ""))
    assert found.data.currency is None and found.data.total == Decimal("119.00")
    assert found.data.tax_amount is None and "EUR, USD" in found.refused["tax_amount"]


def test_an_amount_in_another_currency_only_is_not_taken() -> None:
    found = read(CII.replace('currencyID="EUR"', 'currencyID="USD"'))
    assert found.data.tax_amount is None and found.refused == {"tax_amount": "it is told in USD only"}


def test_an_unknown_currency_is_refused_with_the_amounts_that_need_it() -> None:
    found = read(with_text("InvoiceCurrencyCode", "EURO-DOLLAR"))
    assert found.data.currency is None and set(found.refused) == {"currency", "tax_amount"}


def test_elements_of_other_namespaces_are_not_read() -> None:
    alien = '<x:GrandTotalAmount xmlns:x="urn:evil:x">1.00</x:GrandTotalAmount><ram:GrandTotalAmount>'
    assert read(CII.replace("<ram:GrandTotalAmount>", alien)).data.total == Decimal("119.00")


def test_an_e_invoice_crosses_between_processes_as_itself() -> None:
    found = read(with_text("ChargeAmount", "1.234"))
    assert EInvoice.model_validate_json(found.model_dump_json()) == found
    assert found.data.line_items[0].quantity == Decimal("1.234"), "three decimals are no thousands"


def test_names_are_a_hint_and_orders_are_not_wanted() -> None:
    assert all(map(is_named, ("factur-x.xml", "ZUGFeRD-invoice.xml", "xrechnung.xml")))
    assert not is_named("order-x.xml")
    order = CII.replace("CrossIndustryInvoice", "SCRDMCCBDACIOMessageStructure")
    assert not looks_like(order.encode())
    with pytest.raises(NotAnInvoice, match="not an invoice but"):
        read(order)


BOMB = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
HOSTILE = {
    "document type": (f'<!DOCTYPE x [<!ENTITY a0 "ha">{BOMB}]><x>&a9;</x>'.encode(), "document type"),
    "external entity": (b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>', "document type"),
    "external type": (b'<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd"><x/>', "document type"),
    "undefined entity": (b"<x>&nbsp;</x>", "well-formed"),
    "depth": (b"<x>" * 5000, "nested"),
    "elements": (b"<x>" + b"<y/>" * (xmltree.MOST_ELEMENTS + 1), "elements"),
    "text": (b"<x>" + b"a" * (xmltree.LONGEST_TEXT + 1) + b"</x>", "characters"),
    "attributes": (b"<x " + b" ".join(b'a%d="1"' % n for n in range(100)) + b"/>", "attributes"),
    "size": (b"<x>" + b" " * xmltree.LARGEST, "larger"),
    "nothing": (b"", "well-formed"),
    "no XML": (b"%PDF-1.7", "well-formed"),
    "torn": (CII.encode()[:3000], "well-formed"),
    "encoding": (CII.replace("UTF-8", "UTF-99").encode(), "XML|encoding"),
    "declaration": (CII.replace('encoding="UTF-8"', 'encoding="UTF-8').encode(), "well-formed"),
    "namespace": (CII.replace("CrossIndustryInvoice:100", "x").replace("urn:un:unece", "urn:us").encode(), "unknown"),
    "no namespace": (b"<Invoice/>", "no namespace"),
    "another root": (b"<html/>", "not an invoice"),
    "empty": (b'<Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-2"/>', "neither"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_and_broken_xml_is_one_clear_error(name: str) -> None:
    xml, why = HOSTILE[name]
    with pytest.raises(NotAnInvoice, match=why):
        read_xml(xml)


def test_too_many_lines_are_left_out_with_the_reason_and_the_rest_is_kept() -> None:
    lines = re.findall(r"<cac:InvoiceLine>.*?</cac:InvoiceLine>", UBL, re.DOTALL)
    found = read(UBL.replace(lines[0], lines[0] * 2001))
    assert found.data.line_items == () and "2001 lines" in found.refused["line_items"] and found.data.total is not None


def test_long_names_are_cut_rather_than_refused() -> None:
    item = read(with_text("Name", "ä" * 5000)).data.line_items[0].item
    assert item is not None and len(item) == 500 and item.endswith("…")


def test_damaged_bytes_never_raise_anything_else() -> None:
    rng = random.Random(7)
    for _ in range(400):
        xml = bytearray((CII if rng.random() < 0.5 else UBL).encode())
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(xml))
            match rng.randrange(10):
                case 0:
                    xml[at] = rng.randrange(256)
                case 1:
                    del xml[at : at + rng.randint(1, 40)]
                case _ if chr(xml[at]).isalnum():
                    xml[at] = rng.choice(b"0123456789.-+eEX ")
        try:
            found = read_xml(bytes(xml))
        except NotAnInvoice as error:
            assert str(error)
        else:
            assert EInvoice.model_validate_json(found.model_dump_json()) == found
