"""What a model is asked about an invoice: the instruction, the shape of its answer, and how the answer becomes data.
The answer holds text as it is printed or normalised, since models are better at copying than at reckoning."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penstock.pipelines.documents.model import FIELDS, InvoiceData, LineItem

PROMPT_VERSION = "invoice/1"
"""A new one makes every document be extracted anew when it comes again."""

INSTRUCTION = """\
You are given one invoice, credit note or receipt. Copy what it says into the fields of the answer.
- vendor: who issued it, by the name of the business, not its address; never the customer.
- invoice_number: the number of this document, not of an order, a customer or a delivery.
- date, due_date: as YYYY-MM-DD. Where day and month can be told apart only by the country, go by the country.
- subtotal: before tax; tax_rate in percent, null where there are several; tax_amount; total: what this document amounts
  to with tax (not what is left to pay after earlier payments). Plain numbers with a point: 1234.56. A credit note's
  amounts are negative if they are printed so.
- currency: its ISO 4217 code, only if the document shows it by a code, a name or an unambiguous sign.
- line_items: every line that is charged for, in order.
What is not on the document is null. Never guess and never work a value out."""


class AskedLine(BaseModel):
    """One charged line of the document."""

    model_config = ConfigDict(extra="forbid")

    item: str | None
    quantity: str | None
    unit_price: str | None
    total: str | None


class AskedInvoice(BaseModel):
    """What the document says; null for what it does not say."""

    model_config = ConfigDict(extra="forbid")

    vendor: str | None
    invoice_number: str | None
    date: str | None = Field(description="YYYY-MM-DD")
    due_date: str | None = Field(description="YYYY-MM-DD")
    subtotal: str | None
    tax_rate: str | None = Field(description="percent")
    tax_amount: str | None
    total: str | None
    currency: str | None = Field(description="ISO 4217")
    line_items: list[AskedLine]


def data_of(answer: AskedInvoice) -> tuple[InvoiceData, dict[str, str]]:
    """The answer as data, and what of it could not be understood, by field: such a field is None rather than wrong."""
    refused: dict[str, str] = {}
    kept: dict[str, object] = {}
    for name in FIELDS:
        value = getattr(answer, name)
        if name == "line_items":
            value = [_line(line, refused) for line in value]
        try:
            checked = InvoiceData.model_validate({name: value})
        except ValidationError as error:
            refused[name] = f"{value!r}: {error.errors()[0]['msg']}"
            continue
        kept[name] = getattr(checked, name)
    return InvoiceData.model_validate(kept), refused


def _line(line: AskedLine, refused: dict[str, str]) -> LineItem:
    kept: dict[str, object] = {}
    for name, value in line.model_dump().items():
        try:
            kept[name] = getattr(LineItem.model_validate({name: value}), name)
        except ValidationError as error:
            refused["line_items"] = f"{value!r}: {error.errors()[0]['msg']}"
    return LineItem.model_validate(kept)
