"""The statements of the documents pipeline: plain SQL that both databases take. What a step writes joins its commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pydantic_core import from_json, to_json

from penstock.engine.audit import Actor, name_of
from penstock.pipelines.documents import rules
from penstock.pipelines.documents.contents import Kept
from penstock.pipelines.documents.files import Record, folder_of
from penstock.pipelines.documents.model import Extracted, ExtractionResult, InvoiceData
from penstock.store.protocol import Expect

Statement = tuple[str, dict[str, Any]]


NEWEST_RUN = (
    "LEFT JOIN jobs j ON j.tenant = d.tenant AND j.workflow = 'documents' AND j.key = d.job AND NOT EXISTS"
    " (SELECT 1 FROM jobs n WHERE n.tenant = j.tenant AND n.workflow = j.workflow AND n.key = j.key AND n.run > j.run)"
)
"""The job `j` that works on document `d`, or did: its newest run, where it was retried."""


class Reads(Protocol):
    """Who answers questions: a step's context, or the engine."""

    async def read(self, statement: Any) -> list[tuple[Any, ...]]: ...


def new_document(kept: Kept, *, tenant: str, job: str, batch: str | None, now: float) -> Statement:
    return (
        "INSERT INTO documents (id, tenant, filename, content_hash, size, job, earlier, batch, done, created,"
        " folder, revision, exported) VALUES (:id, :tenant, :filename, :content, :size, :job, '', :batch, 0, :now,"
        " :folder, 0, 0)"
        " ON CONFLICT (id) DO NOTHING",
        {
            "id": kept.document_id, "tenant": tenant, "filename": kept.filename, "content": kept.content_hash,
            "size": kept.size, "job": job, "batch": batch, "now": now, "folder": folder_of(now),
        },
    )  # fmt: skip


async def known_extraction(reads: Reads, tenant: str, key: str) -> tuple[str, int, ExtractionResult] | None:
    """Kind, pages and result of an extraction that is in the cache."""
    rows = await reads.read(
        (
            "SELECT kind, pages, result FROM document_extractions WHERE tenant = :tenant AND cache_key = :key",
            {"tenant": tenant, "key": key},
        )
    )
    return (rows[0][0], rows[0][1], ExtractionResult.model_validate_json(rows[0][2])) if rows else None


def remember_extraction(doc: Extracted, *, tenant: str, now: float) -> Statement:
    return (
        "INSERT INTO document_extractions (tenant, cache_key, content_hash, kind, pages, result, created)"
        " VALUES (:tenant, :key, :content, :kind, :pages, :result, :now)"
        " ON CONFLICT (tenant, cache_key) DO UPDATE SET result = excluded.result, created = excluded.created",
        {
            "tenant": tenant, "key": doc.cache_key, "content": doc.upload.content_hash, "kind": doc.kind,
            "pages": doc.pages, "result": _nobodys(doc.result).model_dump_json(), "now": now,
        },
    )  # fmt: skip


def _nobodys(result: ExtractionResult) -> ExtractionResult:
    """What is known of a content does not say whose document it came with, which may be deleted before its twins."""
    return result.model_copy(update={"document_id": "", "filename": ""})


async def locks(reads: Reads, tenant: str, content_hash: str) -> dict[str, Any]:
    """Field → the value that a person locked, as JSON."""
    rows = await reads.read(
        (
            "SELECT field, value FROM document_locks WHERE tenant = :tenant AND content_hash = :content ORDER BY field",
            {"tenant": tenant, "content": content_hash},
        )
    )
    return {field: from_json(value) for field, value in rows}


def store_result(doc: Extracted, record: Record, *, folder: str, revision: int, now: float) -> Expect:
    """Refused where somebody changed the document since `revision`: what they locked is laid over it at the next
    try."""
    data = record.data
    return Expect(
        (
            "UPDATE documents SET kind = :kind, pages = :pages, done = 1, finished = :now, folder = :folder,"
            " extraction = :extraction, data = :data, confidence = :confidence, twin = :twin,"
            " review_status = :status, revision = revision + 1, exported = revision + 1"
            " WHERE id = :id AND revision = :revision",
            {
                "kind": doc.kind, "pages": doc.pages, "now": now, "folder": folder,
                "extraction": doc.result.model_dump_json(), "data": data.model_dump_json(),
                "confidence": record.result.overall_confidence, "twin": rules.twin_key(data),
                "status": record.review_status, "id": doc.upload.document_id, "revision": revision,
            },
        ),
        f"document {doc.upload.document_id} was changed, or deleted, at this moment",
    )  # fmt: skip


def exported(document: str, data: InvoiceData, *, revision: int, behind: bool) -> Expect:
    """Its files show this revision; or the next one where its data was `behind` what is locked. Refused where the
    document is gone: its files must not come back."""
    if not behind:
        return Expect(
            (
                "UPDATE documents SET exported = :revision WHERE id = :id AND exported < :revision",
                {"id": document, "revision": revision},
            ),
            f"document {document} was deleted while its files were written",
        )
    return Expect(
        (
            "UPDATE documents SET data = :data, twin = :twin, revision = revision + 1, exported = revision + 1"
            " WHERE id = :id AND revision = :revision",
            {"id": document, "data": data.model_dump_json(), "twin": rules.twin_key(data), "revision": revision},
        ),
        f"document {document} was changed, or deleted, while its files were written",
    )


def audited(
    id: str,
    actor: Actor | str,
    action: str,
    *,
    tenant: str,
    item: str,
    document: str,
    now: float,
    field: str | None = None,
    before: Any = None,
    after: Any = None,
    reason: str | None = None,
) -> Statement:
    """A line of what reviewers did. Values are kept as JSON, and only where a field is named."""
    told: Mapping[str, Any] = {
        "id": id, "tenant": tenant, "item": item, "document": document, "at": now, "actor": name_of(actor) or "",
        "action": action, "field": field, "reason": reason,
        "before": None if field is None else to_json(before).decode(),
        "after": None if field is None else to_json(after).decode(),
    }  # fmt: skip
    return (
        'INSERT INTO review_audit (id, tenant, item, document, at, actor, action, field, "before", after, reason)'
        " VALUES (:id, :tenant, :item, :document, :at, :actor, :action, :field, :before, :after, :reason)"
        " ON CONFLICT (id) DO NOTHING",
        dict(told),
    )


def parsed(extraction: str) -> ExtractionResult:
    return ExtractionResult.model_validate_json(extraction)


def parsed_data(data: str) -> InvoiceData:
    return InvoiceData.model_validate_json(data)
