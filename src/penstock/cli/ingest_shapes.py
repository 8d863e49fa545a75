"""What programs read of knowledge bases: the values of `--json`, which the schemas describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from penstock.cli.ingest_told import BaseLine, ErrorRow, RunTold, TakenOut
from penstock.pipelines.ingestion.planning import Plan
from penstock.pipelines.ingestion.searching import Hit
from penstock.pipelines.ingestion.verifying import FAULTS, Verified
from penstock.shapes import money
from penstock.times import utc

NUMBERS = 20
"""Of the numbers of what is at fault: enough to look at some."""


def run_shape(told: RunTold) -> dict[str, Any]:
    status = told.status
    return {
        "id": status.id,
        "kb_id": status.kb_id,
        "tenant": status.tenant,
        "job_id": status.job,
        "status": status.status,
        "started_at": utc(status.started_at),
        "finished_at": utc(status.finished_at),
        "last_error": status.last_error,
        "reason": status.reason,
        "checkpoint": status.checkpoint,
        "counters": status.counters,
        "rates": asdict(status.rates),
        "phases": [asdict(phase) for phase in status.phases],
        "documents_total": status.documents_total,
        "eta_seconds": status.eta_seconds,
        "heartbeat_age": status.heartbeat_age,
        "stalled": status.stalled,
        "errors": status.errors,
        **money("cost", told.cost),
        "plan": None if status.plan is None else plan_shape(status.plan),
    }


def plan_shape(plan: Plan | Mapping[str, Any]) -> dict[str, Any]:
    known = asdict(plan) if isinstance(plan, Plan) else plan
    cost = known["cost"]
    return {
        **{name: known[name] for name in ("documents", "unchanged", "chunks", "known_chunks", "tokens")},
        **({"cost_usd": None, "cost_microdollars": None} if cost is None else money("cost", cost)),
        **{name: known[name] for name in ("seconds", "unreadable", "exact")},
    }


def base_shape(line: BaseLine) -> dict[str, Any]:
    base, edition, schedule = line.base, line.edition, line.schedule
    return {
        "kb_id": base.id,
        "tenant": base.tenant,
        "status": line.status,
        "run": base.run,
        "documents": 0 if edition is None else edition.documents,
        "chunks": 0 if edition is None else edition.chunks,
        "config": base.config.model_dump(mode="json"),
        "embedder": None if edition is None else edition.embedder.model_dump(mode="json", exclude={"batch"}),
        "created_at": utc(base.created),
        "updated_at": utc(base.updated),
        "schedule": None if schedule is None else {"cron": schedule.cron, "next_due": utc(schedule.next_due)},
    }


def error_shape(row: ErrorRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "run": row.run,
        "source": row.uri,
        "chunk": row.chunk,
        "position": row.position,
        "text": row.text,
        "error": row.error,
        "attempts": row.attempts,
        "at": utc(row.at),
    }


def verified_shape(base: str, found: Verified) -> dict[str, Any]:
    return {
        "kb_id": base,
        "sound": found.sound,
        "documents": found.documents,
        "chunks": found.chunks,
        "faults": [
            {"fault": fault, "meaning": FAULTS[fault], "count": len(numbers), "numbers": numbers[:NUMBERS]}
            for fault, numbers in found.faults.items()
        ],
    }


def hit_shape(hit: Hit) -> dict[str, Any]:
    return {
        "score": hit.score,
        "text": hit.text,
        "source": hit.source,
        "title": hit.title,
        "position": hit.position,
        "metadata": hit.metadata,
    }


def taken_out_shape(gone: TakenOut) -> dict[str, Any]:
    return asdict(gone)
