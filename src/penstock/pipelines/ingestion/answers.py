"""What programs read of knowledge bases and their runs: plain values, as the HTTP API answers them and in the words of
the command line's `--json`. Times are RFC 3339 in UTC; money is told in dollars and in whole millionths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from penstock.engine.model import Schedule
from penstock.pipelines.ingestion.bases import Base
from penstock.pipelines.ingestion.planning import Plan
from penstock.pipelines.ingestion.reading import BaseLine, DocumentLine, ErrorLine, RunLine
from penstock.pipelines.ingestion.searching import Hit
from penstock.pipelines.ingestion.status import Status
from penstock.pipelines.ingestion.verifying import FAULTS, Verified
from penstock.shapes import money
from penstock.times import utc

NUMBERS = 20
"""Of the numbers of what is at fault: enough to look at some."""


def status_line(told: Status) -> dict[str, Any]:
    return {
        "id": told.id,
        "kb_id": told.kb_id,
        "tenant": told.tenant,
        "job_id": told.job,
        "status": told.status,
        "started_at": utc(told.started_at),
        "finished_at": utc(told.finished_at),
        "last_error": told.last_error,
        "reason": told.reason,
        "checkpoint": told.checkpoint,
        "counters": told.counters,
        "rates": asdict(told.rates),
        "phases": [asdict(phase) for phase in told.phases],
        "documents_total": told.documents_total,
        "eta_seconds": told.eta_seconds,
        "heartbeat_age": told.heartbeat_age,
        "stalled": told.stalled,
        "errors": told.errors,
        "plan": None if told.plan is None else plan_line(told.plan),
    }


def plan_line(plan: Plan | Mapping[str, Any]) -> dict[str, Any]:
    known = asdict(plan) if isinstance(plan, Plan) else plan
    cost = known["cost"]
    return {
        **{name: known[name] for name in ("documents", "unchanged", "chunks", "known_chunks", "tokens")},
        **({"cost_usd": None, "cost_microdollars": None} if cost is None else money("cost", cost)),
        **{name: known[name] for name in ("seconds", "unreadable", "exact")},
    }


def base_line(line: BaseLine) -> dict[str, Any]:
    return {
        "kb_id": line.id,
        "tenant": line.tenant,
        "status": line.status,
        "run": line.run,
        "documents": line.documents,
        "chunks": line.chunks,
        "errors": line.errors,
        "chunker": None if line.chunker is None else line.chunker.model_dump(),
        "embedder": None if line.embedder is None else line.embedder.model_dump(exclude={"batch"}),
        "created_at": utc(line.created),
        "updated_at": utc(line.updated),
    }


def base_detail(line: BaseLine, base: Base, status: Status | None, schedule: Schedule | None) -> dict[str, Any]:
    return {
        **base_line(line),
        "config": base.config.model_dump(mode="json", exclude={"sources": {"__all__": {"resolved"}}}),
        "last_run": None if status is None else status_line(status),
        "plan": None if base.plan is None else plan_line(base.plan),
        "schedule": None if schedule is None else {"cron": schedule.cron, "next_due": utc(schedule.next_due)},
    }


def document_line(line: DocumentLine) -> dict[str, Any]:
    return {
        "uri": line.uri,
        "title": line.title,
        "source": line.source,
        "chunks": line.chunks,
        "metadata": line.metadata,
        "content_hash": line.content_hash,
        "run": line.run,
        "indexed_at": utc(line.indexed_at),
    }


def error_line(line: ErrorLine) -> dict[str, Any]:
    return {
        "id": line.id,
        "run": line.run,
        "source": line.uri,
        "chunk": line.chunk,
        "position": line.position,
        "text": line.text,
        "error": line.error,
        "attempts": line.attempts,
        "at": utc(line.at),
    }


def run_line(base: str, line: RunLine) -> dict[str, Any]:
    return {
        "id": line.id,
        "kb_id": base,
        "status": line.status,
        "started_at": utc(line.began),
        "finished_at": utc(line.finished),
        "last_error": line.last_error,
        "counters": None if line.counters is None else line.counters.model_dump(),
    }


def hit_line(hit: Hit) -> dict[str, Any]:
    return {
        "score": hit.score,
        "text": hit.text,
        "source": hit.source,
        "title": hit.title,
        "position": hit.position,
        "metadata": hit.metadata,
        "also_in": list(hit.also_in),
    }


def verified_line(base: str, found: Verified, more: str | None) -> dict[str, Any]:
    """`more`: where to go on, where not everything was compared."""
    return {
        "kb_id": base,
        "sound": found.sound,
        "documents": found.documents,
        "chunks": found.chunks,
        "faults": [
            {"fault": fault, "meaning": FAULTS[fault], "count": len(numbers), "numbers": numbers[:NUMBERS]}
            for fault, numbers in found.faults.items()
            if numbers
        ],
        "cursor": more,
    }
