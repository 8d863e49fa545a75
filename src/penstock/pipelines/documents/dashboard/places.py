"""The addresses of the pipeline's pages, and the words they share."""

from __future__ import annotations

from penstock.pipelines.documents.model import FieldName
from penstock.pipelines.documents.reading import DocumentView, QueueItem

DOCUMENTS = "/ui/documents"
REVIEW = "/ui/review"

TITLES: dict[FieldName, str] = {
    "vendor": "Vendor",
    "invoice_number": "Invoice number",
    "date": "Date",
    "due_date": "Due date",
    "subtotal": "Subtotal",
    "tax_rate": "Tax rate, %",
    "tax_amount": "Tax",
    "total": "Total",
    "currency": "Currency",
    "line_items": "Line items",
}

DECIDED = {"approved": "completed", "corrected": "running", "rejected": "failed", "in_review": "waiting"}
"""The colour of a review's status, by the job's status that has it; what is pending has that of what is queued."""


def document_path(document_id: str, *parts: str) -> str:
    return "/".join((f"{DOCUMENTS}/{document_id}", *parts))


def item_path(item_id: str, *parts: str) -> str:
    return "/".join((f"{REVIEW}/{item_id}", *parts))


def preview_path(document_id: str) -> str:
    return f"/api/documents/{document_id}/preview"


def called(item: QueueItem) -> str:
    """What people call an invoice: who sent it and its number, or the file's name."""
    return " ".join(part for part in (item.vendor, item.invoice_number) if part) or item.filename


def title_of(found: DocumentView) -> str:
    data = found.data
    parts = (data.vendor, data.invoice_number) if data is not None else ()
    return " ".join(part for part in parts if part) or found.filename
