"""Bodies and answers of the documents routes, as the OpenAPI document says them. `answers` makes the answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from penstock.pipelines.documents.exporting import Format
from penstock.pipelines.documents.model import (
    BatchResult,
    Check,
    Evidence,
    ExtractionResult,
    FieldName,
    InvoiceData,
)
from penstock.pipelines.documents.queue import LONGEST_REASON, MOST_AT_ONCE
from penstock.pipelines.documents.reading import DocumentStatus
from penstock.pipelines.documents.rules import Action, Band
from penstock.pipelines.documents.rules import Status as ReviewStatus
from penstock.service.api import shapes
from penstock.service.api.shapes import Body, Moment

DOCUMENT = f"/api/documents/{shapes.EXAMPLE_ID}"
ITEM = f"/api/queue/{shapes.EXAMPLE_ID}"
BATCH = f"/api/batches/{shapes.EXAMPLE_ID}"


def _one_of(*formats: str) -> Callable[[object], object]:
    """In our words, and not in those of the library that reads requests."""

    def check(given: object) -> object:
        if given not in formats:
            raise PydanticCustomError(
                "format", "there is no such format: use {formats}", {"formats": " or ".join(formats)}
            )
        return given

    return check


Given = AfterValidator(shapes.storable_or_none)

DocumentId = Annotated[str, Path(pattern=shapes.ID, description="The document's id.", examples=[shapes.EXAMPLE_ID])]
ItemId = Annotated[str, Path(pattern=shapes.ID, description="The review item's id.", examples=[shapes.EXAMPLE_ID])]
BatchId = Annotated[str, Path(pattern=shapes.ID, description="The batch's id.", examples=[shapes.EXAMPLE_ID])]
OfField = Annotated[FieldName, Path(description="A field of the invoice.", examples=["total"])]

OfStatus = Annotated[DocumentStatus | None, Query(description="Only these.")]
OfBatch = Annotated[str | None, Query(pattern=shapes.ID, description="Only documents of this batch.")]
Before = Annotated[
    str | None, Query(pattern=shapes.ID, description="The `before` of the page before; leave it out for the first.")
]
Download = Literal["json", "parquet"]
Exported = Annotated[Format, BeforeValidator(_one_of("csv", "parquet")), Query(description="What is made of them.")]
Downloaded = Annotated[
    Download, BeforeValidator(_one_of("json", "parquet")), Path(description="Which of its two files.")
]
Reviewed = Annotated[list[ReviewStatus], Query(description="Only with these; may be repeated.")]
InQueue = Annotated[list[ReviewStatus], Query(description="Only these; may be repeated. What is open unless told.")]
OfReviewer = Annotated[str | None, Query(max_length=120, description="Only what this reviewer has."), Given]
PriorityMin = Annotated[float, Query(ge=0, le=100, description="Only what is at least so urgent now.")]
Sort = Annotated[Literal["priority", "deadline", "oldest", "newest"], Query(description="What comes first.")]
Offset = Annotated[int, Query(ge=0, le=1_000_000, description="Leave out so many.")]
PageNumber = Annotated[int, Query(ge=1, le=1000, description="The page, counted from 1.")]
Width = Annotated[int, Query(ge=50, le=3000, description="At most so many pixels across.")]

Reviewer = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=120,
        description="Who it is done for, where that is somebody else: needs the scope operate, too.",
    ),
    Given,
]


class DocumentTaken(BaseModel):
    """A file that is safe, and the job that works on it."""

    document_id: str = Field(examples=[shapes.EXAMPLE_ID])
    job_id: str = Field(examples=[shapes.EXAMPLE_ID])
    filename: str = Field(examples=["invoice-17.pdf"])
    status: Literal["queued"]


class Uploaded(BaseModel):
    """One file: its document. Several: a batch."""

    document_id: str | None = Field(description="Null where there are several.", examples=[shapes.EXAMPLE_ID])
    job_id: str | None = Field(description="Null where there are several.", examples=[shapes.EXAMPLE_ID])
    status: Literal["queued"]
    batch_id: str | None = Field(description="Null where there is one.")
    documents: list[DocumentTaken] = Field(description="In the order they were sent.")


class DocumentLine(BaseModel):
    """A document of a list. What it says of the invoice is what counts now."""

    document_id: str = Field(examples=[shapes.EXAMPLE_ID])
    tenant: str = Field(examples=["default"])
    filename: str = Field(examples=["invoice-17.pdf"])
    status: DocumentStatus
    error: str | None = Field(description="Why it failed, or why the last try did.")
    job_id: str
    batch_id: str | None
    content_hash: str = Field(description="SHA-256 of its bytes.")
    size: int = Field(description="Bytes.")
    kind: str | None = Field(description="What its bytes are; null until it was looked at.")
    pages: int | None
    created: Moment
    finished: Moment | None
    confidence: float | None
    review_item_id: str | None
    review_status: ReviewStatus | None
    vendor: str | None
    invoice_number: str | None
    date: str | None
    total: str | None
    currency: str | None


class DocumentPage(BaseModel):
    """Newest first."""

    items: list[DocumentLine]
    before: str | None = Field(description="The `before` of the next page; null on the last.")


class FieldLine(BaseModel):
    """A field: what counts now, and how sure the extraction was."""

    field: FieldName
    value: Any = None
    confidence: float = Field(ge=0, le=1)
    threshold: float = Field(description="Below it a person should look.")
    doubtful: bool = Field(description="Below it, and not locked.")
    required: bool
    locked: bool
    evidence: Evidence | None = Field(description="Where it stands.")
    checks: list[Check]


class LockLine(BaseModel):
    """A field that a person corrected: no extraction changes it."""

    field: FieldName
    value: Any = None
    actor: str
    at: Moment


class DifferenceLine(BaseModel):
    """An extraction that disagrees with what is locked."""

    field: FieldName
    locked: Any = None
    extracted: Any = None


class Duplicate(BaseModel):
    """Another document that looks like the same invoice, in other bytes."""

    document_id: str
    filename: str
    created: Moment
    review_item_id: str | None


class DocumentShown(BaseModel):
    """A document with all that is known of it."""

    document: DocumentLine
    invoice_data: InvoiceData | None = Field(description="What counts now; null until it was extracted.")
    fields: list[FieldLine]
    findings: list[str] = Field(description="What a reviewer must know beyond the fields.")
    locks: list[LockLine]
    differences: list[DifferenceLine]
    duplicates: list[Duplicate]
    result: ExtractionResult | None = Field(description="What was extracted, before any correction.")


class ItemLine(BaseModel):
    """An item of the review queue, with the priority it has now."""

    review_item_id: str = Field(examples=[shapes.EXAMPLE_ID])
    document_id: str
    tenant: str = Field(examples=["default"])
    status: ReviewStatus
    priority: float = Field(description="From 0 to 100.")
    band: Band
    deadline: Moment
    confidence: float
    line_count: int
    assigned_to: str | None
    claim_until: Moment | None
    created: Moment
    claimed: Moment | None
    decided: Moment | None
    decided_by: str | None
    reason: str | None
    filename: str
    vendor: str | None
    invoice_number: str | None
    total: str | None
    currency: str | None


class QueuePage(BaseModel):
    """A part of the queue, and how long all of it is."""

    items: list[ItemLine]
    total: int = Field(description="How many there are with this filter.")
    limit: int
    offset: int


class ItemShown(DocumentShown):
    """A review: the item, and its document."""

    item: ItemLine


class ClaimBody(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"reopen": False}]})

    reopen: bool = Field(False, description="Take one that was decided, to decide anew.")
    reviewer: Reviewer = None


class DecisionBody(Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"action": "correct", "corrections": {"total": "1234.56"}}]}
    )

    action: Action
    corrections: dict[str, Any] | None = Field(None, description="Field → value; with `correct` only.")
    reason: Annotated[str | None, Field(max_length=LONGEST_REASON, description="`reject` needs one."), Given] = None
    reviewer: Reviewer = None


class AssignBody(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"reviewers": ["ann", "bob"], "limit": 20}]})

    reviewers: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=120), Given]] | None,
        Field(min_length=1, max_length=200, description="`documents.reviewers` of the configuration unless told."),
    ] = None
    limit: int = Field(50, ge=1, le=MOST_AT_ONCE, description="At most so many items.")


class Assignment(BaseModel):
    review_item_id: str = Field(examples=[shapes.EXAMPLE_ID])
    reviewer: str = Field(examples=["ann"])


class Assigned(BaseModel):
    """The most urgent first."""

    assigned: list[Assignment]


class ApproveBody(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"min_confidence": 0.95}]})

    min_confidence: float = Field(ge=0, le=1)
    limit: int = Field(100, ge=1, le=MOST_AT_ONCE, description="At most so many items.")
    reviewer: Reviewer = None


class Approved(BaseModel):
    approved: list[str] = Field(description="Ids of review items.")


class AuditLine(BaseModel):
    """One thing that was done about a review."""

    id: str
    review_item_id: str | None
    document_id: str
    at: Moment
    actor: str
    action: str = Field(examples=["corrected field"])
    field: str | None
    before: Any = None
    after: Any = None
    reason: str | None


class Audit(BaseModel):
    """Oldest first."""

    items: list[AuditLine]


class Workload(BaseModel):
    """What one reviewer has to do, and did."""

    reviewer: str
    open: int
    decided_today: int = Field(description="Since midnight, UTC.")
    mean_review_seconds: float | None = Field(description="From claim to decision, over the last seven days.")


class Stats(BaseModel):
    """Where documents and reviews stand."""

    documents: dict[str, int] = Field(description="By status.", examples=[{"completed": 12}])
    queue: dict[str, int] = Field(description="By status.", examples=[{"pending": 3}])
    bands: dict[str, int] = Field(description="Open items by how urgent they are now.", examples=[{"high": 1}])
    oldest_deadline: Moment | None
    overdue: int
    reviewers: list[Workload]
    completed_last_hour: int
    failed_last_hour: int
    p95_processing_seconds: float | None = Field(
        description="All but one in twenty of the documents of the last hour took no longer, from first step to last."
    )


class BatchShown(BaseModel):
    """Many documents that were sent together."""

    batch_id: str = Field(examples=[shapes.EXAMPLE_ID])
    tenant: str = Field(examples=["default"])
    state: Literal["open", "sealed", "ended"]
    documents: int
    completed: int
    failed: int
    canceled: int
    open: int = Field(description="Those that have not ended.")
    at_once: int | None = Field(description="How many are worked on at once.")
    created: Moment
    finished: Moment | None
    result_job_id: str | None = Field(description="The job that adds them up; null before all have ended.")
    result: BatchResult | None = Field(description="What they gave together; null before that job has ended.")
