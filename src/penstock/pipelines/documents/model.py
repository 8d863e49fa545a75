"""What is known of an invoice, and how sure that is. Money is exact, dates are dates, a currency is a code and is never
assumed; what is not known is None, everywhere."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from penstock.pipelines.documents.values import money_text, parse_currency, parse_date, parse_money, parse_percent

SCHEMA_VERSION = "1"
"""Of `InvoiceData` and of how it is judged. A new one makes every document be extracted anew when it comes again."""

FieldName = Literal[
    "vendor",
    "invoice_number",
    "date",
    "due_date",
    "subtotal",
    "tax_rate",
    "tax_amount",
    "total",
    "currency",
    "line_items",
]
FIELDS: tuple[FieldName, ...] = get_args(FieldName)

_Plain = PlainSerializer(money_text, return_type=str, when_used="json-unless-none")
"""Such that it is read back as the same amount: of `1.500` nobody knows whether it is a thousand and a half."""

Money = Annotated[Decimal | None, BeforeValidator(parse_money), _Plain]
Percent = Annotated[Decimal | None, BeforeValidator(parse_percent), _Plain]
Day = Annotated[date | None, BeforeValidator(parse_date)]
Currency = Annotated[str | None, BeforeValidator(parse_currency)]


def _one_line(value: Any) -> Any:
    """Text as one line without spaces around it; nothing is None."""
    if isinstance(value, str):
        return re.sub(r"\s+", " ", value).strip() or None
    return value


Text = Annotated[Annotated[str, Field(max_length=500)] | None, BeforeValidator(_one_line)]


class LineItem(BaseModel):
    """One line of an invoice. A credit is negative."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    item: Text = None
    quantity: Money = None
    unit_price: Money = None
    total: Money = None


class InvoiceData(BaseModel):
    """What an invoice says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    vendor: Text = None
    invoice_number: Text = None
    date: Day = None
    due_date: Day = None
    subtotal: Money = None
    tax_rate: Percent = None
    tax_amount: Money = None
    total: Money = None
    currency: Currency = None
    line_items: tuple[LineItem, ...] = Field(default=(), max_length=2000)


class Evidence(BaseModel):
    """Where a value stands. `page` counts from 1; `box` is left, top, right, bottom as parts of the page's width and
    height, from its upper left corner."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    page: int
    text: str
    box: tuple[float, float, float, float] | None = None


class Check(BaseModel):
    """One thing that was checked about a field. `note` says what was found, in words for the reviewer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    passed: bool
    note: str = ""


class FieldConfidence(BaseModel):
    """How sure one field is, and why. `value` is as it is written in JSON: text, or null."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field_name: FieldName
    value: Any = None
    confidence: float = Field(ge=0, le=1)
    evidence: Evidence | None = None
    checks: tuple[Check, ...] = ()


class Usage(BaseModel):
    """What the model call took; all zero where no model was asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)


class ExtractionResult(BaseModel):
    """What one upload gave. `source` is `e-invoice` where the document carried its own data. `findings` are what a
    reviewer must know beyond the fields: a page that contradicts its e-invoice, say. `page_turns`: by how many degrees,
    counter-clockwise, each page was turned to be read; boxes are in the turned page."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    document_id: str
    filename: str
    invoice_data: InvoiceData
    field_confidences: tuple[FieldConfidence, ...]
    overall_confidence: float = Field(ge=0, le=1)
    extracted_at: datetime
    processing_time_seconds: float
    content_hash: str
    schema_version: str = SCHEMA_VERSION
    model: str
    usage: Usage = Usage()
    source: Literal["e-invoice", "model"] = "model"
    findings: tuple[str, ...] = ()
    page_turns: tuple[int, ...] = ()


class Upload(BaseModel):
    """What a job is told about a document. `place` and `model` say who is asked; `fresh` asks anew although the answer
    is known. `began` is when work on it began, `waits` how often it waited for a twin that came first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    document_id: str
    filename: str
    content_hash: str
    size: int
    place: str
    model: str
    fresh: bool = False
    most_pages: int = 50
    review_hours: float = 24.0
    began: float | None = None
    waits: int = 0


class Fingerprinted(BaseModel):
    """A document that is not known yet. `told` is what its own e-invoice says, `refused` what of it cannot be
    understood, by field, and `trouble` what a reviewer must know of it; `tries` counts answers of the model that
    were of no use."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    upload: Upload
    cache_key: str
    kind: str
    pages: int
    told: InvoiceData | None = None
    refused: dict[str, str] = {}
    trouble: str | None = None
    tries: int = 0


class Extracted(BaseModel):
    """A document and what it says. `cached`: it was known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    upload: Upload
    cache_key: str
    kind: str
    pages: int
    result: ExtractionResult
    cached: bool = False


class Saved(BaseModel):
    """A document that is stored, and waits to be put before a reviewer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    upload: Upload
    confidence: float
    cached: bool = False


class Reviewed(BaseModel):
    """What a document's job ends with: where a reviewer finds it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    document_id: str
    review_item_id: str
    confidence: float
    cached: bool


class Export(BaseModel):
    """Write the files of all documents of this content anew, in the order of their ids; `after` is the last that was
    done."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    content_hash: str
    after: str = ""


class Many(BaseModel):
    """The follow-up of a batch of documents."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class BatchResult(BaseModel):
    """What many documents gave together. `totals` adds up by currency what was extracted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    documents: int
    completed: int
    failed: int
    canceled: int
    cached: int
    mean_confidence: float | None
    totals: dict[str, Decimal]
    failures: tuple[str, ...] = ()
