"""Where things stand in a UN/CEFACT cross industry invoice: CrossIndustryInvoice of ZUGFeRD 2, Factur-X and XRechnung,
and CrossIndustryDocument of ZUGFeRD 1.0, which calls the same things by longer names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from penstock.pipelines.documents.einvoice_fields import Fields, clean
from penstock.pipelines.documents.model import FieldName, LineItem
from penstock.pipelines.documents.xmltree import Element, walk


@dataclass(frozen=True, slots=True)
class _Names:
    """What the two generations call the same element."""

    context: str
    document: str
    transaction: str
    agreement: str
    settlement: str
    summation: str
    line_agreement: str
    line_delivery: str
    line_settlement: str
    line_summation: str
    rate: str


_NEW = _Names(
    context="ExchangedDocumentContext",
    document="ExchangedDocument",
    transaction="SupplyChainTradeTransaction",
    agreement="ApplicableHeaderTradeAgreement",
    settlement="ApplicableHeaderTradeSettlement",
    summation="SpecifiedTradeSettlementHeaderMonetarySummation",
    line_agreement="SpecifiedLineTradeAgreement",
    line_delivery="SpecifiedLineTradeDelivery",
    line_settlement="SpecifiedLineTradeSettlement",
    line_summation="SpecifiedTradeSettlementLineMonetarySummation",
    rate="RateApplicablePercent",
)
_OLD = _Names(
    context="SpecifiedExchangedDocumentContext",
    document="HeaderExchangedDocument",
    transaction="SpecifiedSupplyChainTradeTransaction",
    agreement="ApplicableSupplyChainTradeAgreement",
    settlement="ApplicableSupplyChainTradeSettlement",
    summation="SpecifiedTradeSettlementMonetarySummation",
    line_agreement="SpecifiedSupplyChainTradeAgreement",
    line_delivery="SpecifiedSupplyChainTradeDelivery",
    line_settlement="SpecifiedSupplyChainTradeSettlement",
    line_summation="SpecifiedTradeSettlementMonetarySummation",
    rate="ApplicablePercent",
)
_NOT_CHARGED = frozenset(("GROUP", "INFORMATION"))
"""Lines of the extended profile that sum up others, or only tell something."""


def cii_fields(root: Element, fields: Fields) -> None:
    names = _OLD if root.name == "CrossIndustryDocument" else _NEW
    settlement = f"{names.transaction}/{names.settlement}"
    fields.profile = clean(root.value(f"{names.context}/GuidelineSpecifiedDocumentContextParameter/ID"))
    fields.type_code = clean(root.value(f"{names.document}/TypeCode"))
    fields.put("invoice_number", clean(root.value(f"{names.document}/ID")))
    fields.put_days("date", (_day(fields, "date", at) for at in root.all(f"{names.document}/IssueDateTime")))
    due = root.all(f"{settlement}/SpecifiedTradePaymentTerms/DueDateDateTime")
    fields.put_days("due_date", (_day(fields, "due_date", at) for at in due))
    currency = clean(root.value(f"{settlement}/InvoiceCurrencyCode"))
    fields.put("currency", currency)
    _parties(root, names, fields)
    _amounts(root, f"{settlement}/{names.summation}", currency, fields)
    taxes = root.all(f"{settlement}/ApplicableTradeTax")
    fields.put_rates(fields.amount("tax_rate", tax.first(names.rate)) for tax in taxes)
    lines = root.all(f"{names.transaction}/IncludedSupplyChainTradeLineItem")
    fields.put_lines([line for each in lines if (line := _line(each, names, fields)) is not None])


def _day(fields: Fields, name: FieldName, at: Element) -> date | None:
    written = next((each for each in walk(at) if each.text.strip()), None)
    if written is None:
        return None
    return fields.day(name, written.text.strip(), written.attributes.get("format"))


def _parties(root: Element, names: _Names, fields: Fields) -> None:
    agreement = f"{names.transaction}/{names.agreement}"
    fields.put("vendor", clean(root.value(f"{agreement}/SellerTradeParty/Name")))
    fields.buyer = clean(root.value(f"{agreement}/BuyerTradeParty/Name"))
    for number in root.all(f"{agreement}/SellerTradeParty/SpecifiedTaxRegistration/ID"):
        if number.attributes.get("schemeID") == "VA":
            fields.vat_id = fields.vat_id or clean(number.text)
    means = f"{names.transaction}/{names.settlement}/SpecifiedTradeSettlementPaymentMeans"
    fields.iban = clean(root.value(f"{means}/PayeePartyCreditorFinancialAccount/IBANID"))


def _amounts(root: Element, summation: str, currency: str | None, fields: Fields) -> None:
    fields.put("subtotal", fields.money("subtotal", root.all(f"{summation}/TaxBasisTotalAmount"), currency))
    fields.put("tax_amount", fields.money("tax_amount", root.all(f"{summation}/TaxTotalAmount"), currency))
    fields.put("total", fields.money("total", root.all(f"{summation}/GrandTotalAmount"), currency))
    fields.payable = fields.money("total", root.all(f"{summation}/DuePayableAmount"), currency)


def _line(line: Element, names: _Names, fields: Fields) -> LineItem | None:
    """None for text: a line with neither amount, nor price, nor quantity is a note."""
    if line.value("AssociatedDocumentLineDocument/LineStatusReasonCode") in _NOT_CHARGED:
        return None
    price = f"{names.line_agreement}/NetPriceProductTradePrice"
    found = fields.line(
        line.value("SpecifiedTradeProduct/Name"),
        line.first(f"{names.line_delivery}/BilledQuantity"),
        fields.price(line.first(f"{price}/ChargeAmount"), line.first(f"{price}/BasisQuantity")),
        line.first(f"{names.line_settlement}/{names.line_summation}/LineTotalAmount"),
    )
    return None if found.quantity is found.unit_price is found.total is None else found
