"""E-invoices that travel inside a PDF, to data: ZUGFeRD 1.0, ZUGFeRD 2 and Factur-X in all profiles, XRechnung (all
UN/CEFACT), and UBL. What the XML says is copied, never reckoned; a value that cannot be is None, with the reason.

Signs stay as they are written: a credit note (type 381) mostly has positive amounts, because its type says which way
the money goes, and a corrected invoice (384) negative ones. `type_code` tells them apart.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pydantic import BaseModel, ConfigDict

from penstock.pipelines.documents.einvoice_cii import cii_fields
from penstock.pipelines.documents.einvoice_fields import Fields
from penstock.pipelines.documents.einvoice_ubl import ubl_fields
from penstock.pipelines.documents.model import InvoiceData
from penstock.pipelines.documents.xmltree import BadXml, Element, parsed

Syntax = Literal["zugferd-1", "cii", "ubl"]

NAMES = frozenset(("factur-x.xml", "zugferd-invoice.xml", "xrechnung.xml"))
"""What the standards call the file in the PDF, in lower case. `order-x.xml` is an order and not wanted."""

_HEAD = 16_384
"""Bytes that are looked at for the name of the root: licences may stand before it."""

_ROOTS: dict[tuple[str, str], Syntax] = {
    ("urn:ferd:CrossIndustryDocument:invoice:", "CrossIndustryDocument"): "zugferd-1",
    ("urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:", "CrossIndustryInvoice"): "cii",
    ("urn:oasis:names:specification:ubl:schema:xsd:Invoice-2", "Invoice"): "ubl",
    ("urn:oasis:names:specification:ubl:schema:xsd:CreditNote-2", "CreditNote"): "ubl",
}


class NotAnInvoice(Exception):
    """The XML is no e-invoice that is read here. The message says why, as part of a sentence."""


class EInvoice(BaseModel):
    """What an e-invoice says. `profile` is the standard's own name for how much it says; `payable` what is left to pay
    after what was paid before. `refused` says by field why a value that is there was not taken."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: InvoiceData
    syntax: Syntax
    profile: str | None = None
    type_code: str | None = None
    iban: str | None = None
    vat_id: str | None = None
    buyer: str | None = None
    payable: Decimal | None = None
    refused: dict[str, str] = {}

    @property
    def credit_note(self) -> bool:
        """By its type: 381 is a credit note, 261 one that the buyer wrote; 83, 308 and 396 are seldom used."""
        return self.type_code in ("381", "261", "83", "308", "396")


def is_named(name: str) -> bool:
    return name.lower() in NAMES


def looks_like(content: bytes) -> bool:
    """Whether the beginning names a root that is read here; `read_xml` looks closely."""
    head = content[:_HEAD].replace(b"\x00", b"")
    if b"CrossIndustryInvoice" in head or b"CrossIndustryDocument" in head:
        return True
    return b"urn:oasis:names:specification:ubl:schema:xsd:" in head and (
        b"Invoice-2" in head or b"CreditNote-2" in head
    )


def read_xml(xml: bytes) -> EInvoice:
    """The e-invoice in the bytes. `NotAnInvoice` for what is not well-formed, not within bounds, or something else."""
    try:
        root = parsed(xml)
    except BadXml as error:
        raise NotAnInvoice(str(error)) from None
    syntax = _syntax(root)
    fields = Fields()
    (ubl_fields if syntax == "ubl" else cii_fields)(root, fields)
    data = fields.data()
    if not (data.invoice_number or data.total is not None or data.vendor):
        raise NotAnInvoice("it says neither who sent it, nor its number, nor an amount")
    return EInvoice(
        data=data,
        syntax=syntax,
        profile=fields.profile,
        type_code=fields.type_code,
        iban=fields.iban,
        vat_id=fields.vat_id,
        buyer=fields.buyer,
        payable=fields.payable,
        refused=fields.refused,
    )


def _syntax(root: Element) -> Syntax:
    for (space, name), syntax in _ROOTS.items():
        if root.name == name and root.space.startswith(space):
            return syntax
    if root.name in {name for _, name in _ROOTS}:
        raise NotAnInvoice(f"its root {root.name} is of an unknown kind: {root.space[:100] or 'no namespace'}")
    raise NotAnInvoice(f"it is not an invoice but {root.name[:60]!r}")
