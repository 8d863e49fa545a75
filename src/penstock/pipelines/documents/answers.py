"""What programs read of documents and reviews: plain values, as the HTTP API answers them. Times are RFC 3339 in UTC;
amounts are text, so that nobody's floating point changes them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from penstock.engine.model import Batch, Job
from penstock.pipelines.documents.counting import Stats
from penstock.pipelines.documents.fields import FIELD_RULES
from penstock.pipelines.documents.files import Record
from penstock.pipelines.documents.reading import AuditLine, DocumentDetail, DocumentView, Lock, QueueItem, Twin
from penstock.shapes import batch_state
from penstock.times import utc


def document_line(found: DocumentView) -> dict[str, Any]:
    data = None if found.data is None else found.data.model_dump(mode="json")
    return {
        "document_id": found.id,
        "tenant": found.tenant,
        "filename": found.filename,
        "status": found.status,
        "error": found.error,
        "job_id": found.job,
        "batch_id": found.batch,
        "content_hash": found.content_hash,
        "size": found.size,
        "kind": found.kind,
        "pages": found.pages,
        "created": utc(found.created),
        "finished": utc(found.finished),
        "confidence": found.confidence,
        "review_item_id": found.review_item,
        "review_status": found.review_status,
        **{name: data and data[name] for name in ("vendor", "invoice_number", "date", "total", "currency")},
    }


def document_detail(found: DocumentDetail) -> dict[str, Any]:
    data = found.document.data
    return {
        "document": document_line(found.document),
        "invoice_data": None if data is None else data.model_dump(mode="json"),
        "fields": field_lines(found),
        "findings": [] if found.result is None else list(found.result.findings),
        "locks": [_lock(each) for each in found.locks],
        "differences": [asdict(each) for each in found.differences],
        "duplicates": [_twin(each) for each in found.duplicates],
        "result": None if found.result is None else found.result.model_dump(mode="json"),
    }


def field_lines(found: DocumentDetail) -> list[dict[str, Any]]:
    """Every field with its value as it counts now, and how sure the extraction was of its own."""
    if found.result is None or found.document.data is None:
        return []
    data = found.document.data.model_dump(mode="json")
    judged = {each.field_name: each for each in found.result.field_confidences}
    locked = {each.field for each in found.locks}
    lines = []
    for rule in FIELD_RULES:
        known = judged.get(rule.name)
        confidence = 0.0 if known is None else known.confidence
        evidence = None if known is None or known.evidence is None else known.evidence.model_dump(mode="json")
        lines.append(
            {
                "field": rule.name,
                "value": data[rule.name],
                "confidence": confidence,
                "threshold": rule.threshold,
                "doubtful": confidence < rule.threshold and rule.name not in locked,
                "required": rule.required,
                "locked": rule.name in locked,
                "evidence": evidence,
                "checks": [] if known is None else [check.model_dump(mode="json") for check in known.checks],
            }
        )
    return lines


def record_of(found: DocumentDetail) -> Record | None:
    """The document as its files have it; None while there is nothing to write."""
    data, result = found.document.data, found.result
    if data is None or result is None:
        return None
    locked = tuple(each.field for each in found.locks)
    return Record(result, data, found.document.review_status or "pending", locked)


def queue_line(item: QueueItem) -> dict[str, Any]:
    return {
        "review_item_id": item.id,
        "document_id": item.document,
        "tenant": item.tenant,
        "status": item.status,
        "priority": round(item.priority, 2),
        "band": item.band,
        "deadline": utc(item.deadline),
        "confidence": item.confidence,
        "line_count": item.line_count,
        "assigned_to": item.assigned_to,
        "claim_until": utc(item.claim_until),
        "created": utc(item.created),
        "claimed": utc(item.claimed),
        "decided": utc(item.decided),
        "decided_by": item.decided_by,
        "reason": item.reason,
        "filename": item.filename,
        "vendor": item.vendor,
        "invoice_number": item.invoice_number,
        "total": item.total,
        "currency": item.currency,
    }


def audit_line(line: AuditLine) -> dict[str, Any]:
    return {
        "id": line.id,
        "review_item_id": line.item or None,
        "document_id": line.document,
        "at": utc(line.at),
        "actor": line.actor,
        "action": line.action,
        "field": line.field,
        "before": line.before,
        "after": line.after,
        "reason": line.reason,
    }


def batch_detail(batch: Batch, following: Job | None) -> dict[str, Any]:
    result = following.result if following is not None and following.status == "completed" else None
    return {
        "batch_id": batch.id,
        "tenant": batch.tenant,
        "state": batch_state(batch),
        "documents": batch.members,
        "completed": batch.completed,
        "failed": batch.failed,
        "canceled": batch.canceled,
        "open": batch.members - batch.ended,
        "at_once": batch.limit,
        "created": utc(batch.created),
        "finished": utc(batch.finished),
        "result_job_id": batch.follow_up,
        "result": result,
    }


def stats_detail(told: Stats) -> dict[str, Any]:
    return {
        "documents": told.documents,
        "queue": told.queue,
        "bands": told.bands,
        "oldest_deadline": utc(told.oldest_deadline),
        "overdue": told.overdue,
        "reviewers": [
            {
                "reviewer": each.reviewer,
                "open": each.open,
                "decided_today": each.decided_today,
                "mean_review_seconds": None if each.mean_seconds is None else round(each.mean_seconds, 1),
            }
            for each in told.reviewers
        ],
        "completed_last_hour": told.last_hour,
        "failed_last_hour": told.failed_last_hour,
        "p95_processing_seconds": None if told.p95_seconds is None else round(told.p95_seconds, 3),
    }


def _lock(lock: Lock) -> dict[str, Any]:
    return {"field": lock.field, "value": lock.value, "actor": lock.actor, "at": utc(lock.at)}


def _twin(twin: Twin) -> dict[str, Any]:
    return {
        "document_id": twin.id,
        "filename": twin.filename,
        "created": utc(twin.created),
        "review_item_id": twin.review_item,
    }
