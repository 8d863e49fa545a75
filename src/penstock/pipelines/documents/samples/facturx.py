"""E-invoices: an invoice as Cross Industry Invoice XML (Factur-X, ZUGFeRD 2), and a PDF that carries it. The XML is
appended to the PDF as an update, with the names and metadata by which readers find it. The PDF/A that the standard asks
for is not claimed, since the standard fonts are not embedded."""

from __future__ import annotations

import re
import zlib
from datetime import date
from decimal import Decimal
from typing import Literal, get_args
from xml.etree import ElementTree

from penstock.pipelines.documents.samples.countries import COUNTRIES, iso
from penstock.pipelines.documents.samples.invoices import Invoice, Line, Party, Tax

Profile = Literal["BASIC", "EN 16931"]
PROFILES: tuple[Profile, ...] = get_args(Profile)

FILE_NAME = "factur-x.xml"

_GUIDELINES: dict[Profile, str] = {
    "BASIC": "urn:cen.eu:en16931:2017#compliant#urn:factur-x.eu:1p0:basic",
    "EN 16931": "urn:cen.eu:en16931:2017",
}

_SPACES = {
    "rsm": "urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100",
    "ram": "urn:un:unece:uncefact:data:standard:ReusableAggregateBusinessInformationEntity:100",
    "udt": "urn:un:unece:uncefact:data:standard:UnqualifiedDataType:100",
}

_UNITS = {"h": "HUR", "Std": "HUR", "kg": "KGM", "pair": "PR", "Paar": "PR", "paire": "PR"}

_PLACE = re.compile(r"^(?:(?P<before>\d{4,5}) )?(?P<town>.+?)(?: (?P<after>[A-Z]\w{2} \w{3,4}))?$")


def able(code: str) -> bool:
    """Whether invoices of this country can be written so here: its tax is a value added tax."""
    return COUNTRIES[code].currency in ("EUR", "GBP", "CHF")


class _Node:
    """One element, to which others are added by their short names: `ram:ID`."""

    def __init__(self, element: ElementTree.Element) -> None:
        self._element = element

    def add(self, name: str, text: str | None = None, **attributes: str) -> _Node:
        prefix, _, local = name.partition(":")
        made = ElementTree.SubElement(self._element, f"{{{_SPACES[prefix]}}}{local}", attributes)
        made.text = text
        return _Node(made)

    def day(self, name: str, value: date) -> None:
        self.add(name).add("udt:DateTimeString", f"{value:%Y%m%d}", format="102")

    def money(self, name: str, value: Decimal, **attributes: str) -> None:
        self.add(name, f"{value:.2f}", **attributes)


def xml(invoice: Invoice, profile: Profile) -> bytes:
    """The invoice as XML, elements in the order of the schema."""
    for prefix, space in _SPACES.items():
        ElementTree.register_namespace(prefix, space)
    root = ElementTree.Element(f"{{{_SPACES['rsm']}}}CrossIndustryInvoice")
    top = _Node(root)
    context = top.add("rsm:ExchangedDocumentContext")
    context.add("ram:GuidelineSpecifiedDocumentContextParameter").add("ram:ID", _GUIDELINES[profile])
    head = top.add("rsm:ExchangedDocument")
    head.add("ram:ID", invoice.number)
    head.add("ram:TypeCode", "381" if invoice.document_kind == "credit_note" else "380")
    head.day("ram:IssueDateTime", invoice.date)
    trade = top.add("rsm:SupplyChainTradeTransaction")
    for place, line in enumerate(invoice.lines):
        _line(trade, place + 1, line, profile)
    _agreement(trade, invoice, profile)
    delivery = trade.add("ram:ApplicableHeaderTradeDelivery")
    event = delivery.add("ram:ActualDeliverySupplyChainEvent")
    event.day("ram:OccurrenceDateTime", invoice.delivery_date or invoice.date)
    if invoice.delivery_number and profile == "EN 16931":
        despatch = delivery.add("ram:DespatchAdviceReferencedDocument")
        despatch.add("ram:IssuerAssignedID", invoice.delivery_number)
    _settlement(trade, invoice)
    ElementTree.indent(root)
    body: bytes = ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True)
    return body + b"\n"


def _line(trade: _Node, number: int, line: Line, profile: Profile) -> None:
    item = trade.add("ram:IncludedSupplyChainTradeLineItem")
    item.add("ram:AssociatedDocumentLineDocument").add("ram:LineID", str(number))
    product = item.add("ram:SpecifiedTradeProduct")
    if profile == "EN 16931":
        product.add("ram:SellerAssignedID", line.article)
    product.add("ram:Name", line.item)
    price = item.add("ram:SpecifiedLineTradeAgreement").add("ram:NetPriceProductTradePrice")
    price.money("ram:ChargeAmount", line.unit_price)
    quantity = item.add("ram:SpecifiedLineTradeDelivery")
    quantity.add("ram:BilledQuantity", f"{line.quantity:.4f}", unitCode=_UNITS.get(line.unit, "C62"))
    settled = item.add("ram:SpecifiedLineTradeSettlement")
    _rate(settled.add("ram:ApplicableTradeTax"), line.rate)
    summed = settled.add("ram:SpecifiedTradeSettlementLineMonetarySummation")
    summed.money("ram:LineTotalAmount", line.total)


def _rate(tax: _Node, rate: Decimal) -> None:
    tax.add("ram:TypeCode", "VAT")
    tax.add("ram:CategoryCode", "S")
    tax.money("ram:RateApplicablePercent", rate)


def _agreement(trade: _Node, invoice: Invoice, profile: Profile) -> None:
    agreement = trade.add("ram:ApplicableHeaderTradeAgreement")
    country = iso(invoice.country)
    _party(agreement.add("ram:SellerTradeParty"), invoice.vendor, country, profile)
    _party(agreement.add("ram:BuyerTradeParty"), invoice.customer, country, profile, buyer=True)
    if invoice.order:
        agreement.add("ram:BuyerOrderReferencedDocument").add("ram:IssuerAssignedID", invoice.order)


def _party(node: _Node, party: Party, country: str, profile: Profile, *, buyer: bool = False) -> None:
    node.add("ram:Name", party.name)
    if profile == "EN 16931" and not buyer:
        contact = node.add("ram:DefinedTradeContact")
        contact.add("ram:PersonName", party.contact)
        contact.add("ram:TelephoneUniversalCommunication").add("ram:CompleteNumber", party.phone)
    address = node.add("ram:PostalTradeAddress")
    place = _PLACE.match(party.town)
    code = place and (place["before"] or place["after"])
    if place and code:
        address.add("ram:PostcodeCode", code)
    address.add("ram:LineOne", party.street)
    address.add("ram:CityName", place["town"] if place else party.town)
    address.add("ram:CountryID", country)
    if not buyer:
        number = re.sub(r"[^A-Z0-9]", "", party.tax_number.split(" ")[0])
        node.add("ram:SpecifiedTaxRegistration").add("ram:ID", number, schemeID="VA")


def _settlement(trade: _Node, invoice: Invoice) -> None:
    settled = trade.add("ram:ApplicableHeaderTradeSettlement")
    settled.add("ram:InvoiceCurrencyCode", invoice.country.currency)
    if invoice.iban:
        means = settled.add("ram:SpecifiedTradeSettlementPaymentMeans")
        means.add("ram:TypeCode", "58")
        account = means.add("ram:PayeePartyCreditorFinancialAccount")
        account.add("ram:IBANID", invoice.iban.replace(" ", ""))
    for tax in invoice.taxes:
        _tax(settled.add("ram:ApplicableTradeTax"), tax)
    usual = invoice.taxes[0].rate
    if invoice.discount:
        allowance = _charge(settled, charge=False)
        allowance.money("ram:CalculationPercent", invoice.discount_rate)
        allowance.money("ram:BasisAmount", invoice.line_sum)
        allowance.money("ram:ActualAmount", invoice.discount)
        allowance.add("ram:ReasonCode", "95")
        allowance.add("ram:Reason", "Discount")
        _rate(allowance.add("ram:CategoryTradeTax"), usual)
    if invoice.shipping:
        charge = _charge(settled, charge=True)
        charge.money("ram:ActualAmount", invoice.shipping)
        charge.add("ram:ReasonCode", "FC")
        charge.add("ram:Reason", "Freight")
        _rate(charge.add("ram:CategoryTradeTax"), usual)
    terms = settled.add("ram:SpecifiedTradePaymentTerms")
    terms.add("ram:Description", f"{invoice.days} days net" if invoice.days else "Set off against open invoices")
    if invoice.due:
        terms.day("ram:DueDateDateTime", invoice.due)
    _summation(settled, invoice)


def _charge(settled: _Node, *, charge: bool) -> _Node:
    made = settled.add("ram:SpecifiedTradeAllowanceCharge")
    made.add("ram:ChargeIndicator").add("udt:Indicator", "true" if charge else "false")
    return made


def _tax(node: _Node, tax: Tax) -> None:
    node.money("ram:CalculatedAmount", tax.amount)
    node.add("ram:TypeCode", "VAT")
    node.money("ram:BasisAmount", tax.base)
    node.add("ram:CategoryCode", "S")
    node.money("ram:RateApplicablePercent", tax.rate)


def _summation(settled: _Node, invoice: Invoice) -> None:
    sums = settled.add("ram:SpecifiedTradeSettlementHeaderMonetarySummation")
    sums.money("ram:LineTotalAmount", invoice.line_sum)
    sums.money("ram:ChargeTotalAmount", invoice.shipping)
    sums.money("ram:AllowanceTotalAmount", invoice.discount)
    sums.money("ram:TaxBasisTotalAmount", invoice.net)
    sums.money("ram:TaxTotalAmount", invoice.tax, currencyID=invoice.country.currency)
    sums.money("ram:GrandTotalAmount", invoice.total)
    if invoice.paid:
        sums.money("ram:TotalPrepaidAmount", invoice.paid)
    sums.money("ram:DuePayableAmount", invoice.due_amount)


def carried(pdf: bytes, content: bytes, profile: Profile) -> bytes:
    """The PDF of reportlab with the XML attached: an update behind its end, as the format allows. The catalogue is
    written anew with the attachment's names in it."""
    end = pdf.rindex(b"trailer")
    size, root = (int(_found(rb"/%s (\d+)" % name, pdf, end)) for name in (b"Size", b"Root"))
    start = int(_found(rb"startxref\s+(\d+)", pdf, end))
    catalogue = _found(rb"\n%d 0 obj\s*<<(.*?)>>\s*endobj" % root, pdf, 0)
    names = f"({FILE_NAME})".encode()
    packed = zlib.compress(content)
    packet = _packet(profile)
    objects = {
        root: b"<<%s/AF [%d 0 R] /Names << /EmbeddedFiles << /Names [%s %d 0 R] >> >> /Metadata %d 0 R >>"
        % (catalogue, size + 1, names, size + 1, size + 2),
        size: b"<< /Type /EmbeddedFile /Subtype /text#2Fxml /Filter /FlateDecode /Length %d /Params << /Size %d >> >>\n"
        b"stream\n%s\nendstream" % (len(packed), len(content), packed),
        size + 1: b"<< /Type /Filespec /F %s /UF %s /AFRelationship /Alternative /EF << /F %d 0 R /UF %d 0 R >>"
        b" /Desc (Factur-X invoice) >>" % (names, names, size, size),
        size + 2: b"<< /Type /Metadata /Subtype /XML /Length %d >>\nstream\n%s\nendstream" % (len(packet), packet),
    }
    out = bytearray(pdf if pdf.endswith(b"\n") else pdf + b"\n")
    table = bytearray(b"xref\n")
    for number, body in sorted(objects.items()):
        table += b"%d 1\n%010d 00000 n \n" % (number, len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    at = len(out)
    ids, info = _found(rb"/ID\s*(\[.*?\])", pdf, end), _found(rb"(/Info \d+ 0 R)", pdf, end)
    out += table + b"trailer\n<< /Size %d /Root %d 0 R %s /Prev %d /ID %s >>\n" % (size + 3, root, info, start, ids)
    return bytes(out + b"startxref\n%d\n%%%%EOF\n" % at)


def _found(pattern: bytes, pdf: bytes, start: int) -> bytes:
    found = re.compile(pattern, re.DOTALL).search(pdf, start)
    if found is None:
        raise ValueError(f"the PDF has no {pattern!r}: it was not written by reportlab")
    return found[1]


def _packet(profile: Profile) -> bytes:
    """The metadata by which a reader knows the attachment, and the description of their names that PDF/A wants."""
    fields = {
        "DocumentType": "INVOICE", "DocumentFileName": FILE_NAME, "Version": "1.0", "ConformanceLevel": profile,
    }  # fmt: skip
    said = "".join(f"   <fx:{name}>{value}</fx:{name}>\n" for name, value in fields.items())
    described = "".join(
        '        <rdf:li rdf:parseType="Resource">'
        f"<pdfaProperty:name>{name}</pdfaProperty:name><pdfaProperty:valueType>Text</pdfaProperty:valueType>"
        f"<pdfaProperty:category>external</pdfaProperty:category><pdfaProperty:description>{name}"
        "</pdfaProperty:description></rdf:li>\n"
        for name in fields
    )
    return f"""\
<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about="" xmlns:fx="urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#">
{said}  </rdf:Description>
  <rdf:Description rdf:about="" xmlns:pdfaExtension="http://www.aiim.org/pdfa/ns/extension/"
    xmlns:pdfaSchema="http://www.aiim.org/pdfa/ns/schema#" xmlns:pdfaProperty="http://www.aiim.org/pdfa/ns/property#">
   <pdfaExtension:schemas><rdf:Bag><rdf:li rdf:parseType="Resource">
     <pdfaSchema:schema>Factur-X PDFA Extension Schema</pdfaSchema:schema>
     <pdfaSchema:namespaceURI>urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#</pdfaSchema:namespaceURI>
     <pdfaSchema:prefix>fx</pdfaSchema:prefix>
     <pdfaSchema:property><rdf:Seq>
{described}     </rdf:Seq></pdfaSchema:property>
   </rdf:li></rdf:Bag></pdfaExtension:schemas>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>""".encode()
