"""Where things stand in a UBL 2 invoice or credit note, as XRechnung and Peppol use them."""

from __future__ import annotations

from penstock.pipelines.documents.einvoice_fields import Fields, clean
from penstock.pipelines.documents.model import LineItem
from penstock.pipelines.documents.xmltree import Element


def ubl_fields(root: Element, fields: Fields) -> None:
    kind = root.name
    fields.profile = clean(root.value("CustomizationID"))
    fields.type_code = clean(root.value(f"{kind}TypeCode"))
    fields.put("invoice_number", clean(root.value("ID")))
    fields.put_days("date", (fields.day("date", at.text.strip(), None) for at in root.all("IssueDate")))
    due = root.all("DueDate") or root.all("PaymentMeans/PaymentDueDate")
    fields.put_days("due_date", (fields.day("due_date", at.text.strip(), None) for at in due))
    currency = clean(root.value("DocumentCurrencyCode"))
    fields.put("currency", currency)
    fields.put("vendor", _party(root, "AccountingSupplierParty"))
    fields.buyer = _party(root, "AccountingCustomerParty")
    fields.vat_id = clean(root.value("AccountingSupplierParty/Party/PartyTaxScheme/CompanyID"))
    fields.iban = clean(root.value("PaymentMeans/PayeeFinancialAccount/ID"))
    totals = "LegalMonetaryTotal"
    fields.put("subtotal", fields.money("subtotal", root.all(f"{totals}/TaxExclusiveAmount"), currency))
    fields.put("tax_amount", fields.money("tax_amount", root.all("TaxTotal/TaxAmount"), currency))
    fields.put("total", fields.money("total", root.all(f"{totals}/TaxInclusiveAmount"), currency))
    fields.payable = fields.money("total", root.all(f"{totals}/PayableAmount"), currency)
    rates = root.all("TaxTotal/TaxSubtotal/TaxCategory")
    fields.put_rates(fields.amount("tax_rate", each.first("Percent")) for each in rates)
    quantity = "InvoicedQuantity" if kind == "Invoice" else "CreditedQuantity"
    fields.put_lines([_line(each, quantity, fields) for each in root.all(f"{kind}Line")])


def _party(root: Element, role: str) -> str | None:
    """The name in the register is the one that counts; the other is what a shop calls itself."""
    party = f"{role}/Party"
    return clean(root.value(f"{party}/PartyLegalEntity/RegistrationName") or root.value(f"{party}/PartyName/Name"))


def _line(line: Element, quantity: str, fields: Fields) -> LineItem:
    return fields.line(
        line.value("Item/Name"),
        line.first(quantity),
        fields.price(line.first("Price/PriceAmount"), line.first("Price/BaseQuantity")),
        line.first("LineExtensionAmount"),
    )
