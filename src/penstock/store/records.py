"""Rules about what is kept beside jobs, the same in every store."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from penstock.engine.audit import AuditEntry
from penstock.engine.errors import Conflict, KeyReused, NotFound
from penstock.store.protocol import Asked, BatchRow, Control, DropSession, Once, RemoveSchedule, Submit

ANSWERS_KEPT = 2 * 86_400.0
"""Seconds for which an idempotency key is known."""

SERIES_KEPT = 8 * 86_400.0


def answer_text(answer: Any) -> str:
    """What must be kept of an answer in order to give it again."""
    return json.dumps(answer.id if isinstance(answer, BatchRow) else [list(each) for each in answer])


def as_done(asked: Asked, answer: Any) -> AuditEntry | None:
    """Whose thing it was, and which job a key belongs to, is known when it was done. None: nothing was done, for what
    was to go was not there."""
    entry = asked.audit
    if entry is None or (isinstance(asked.op, RemoveSchedule | DropSession) and not answer):
        return None
    if isinstance(asked.op, Submit):
        tenant = entry.tenant or (asked.op.jobs[0].tenant if asked.op.jobs else "")
        return replace(entry, tenant=tenant, target=f"job:{answer[0].job_id}" if len(answer) == 1 else entry.target)
    if isinstance(answer, BatchRow):
        return replace(entry, tenant=answer.tenant, target=f"batch:{answer.id}")
    if isinstance(asked.op, Control) and answer.id != asked.op.job:
        entry = replace(entry, detail=f"as job {answer.id}")
    return entry if entry.tenant else replace(entry, tenant=getattr(answer, "tenant", None) or "")


def minute_of(now: float) -> float:
    return now // 60 * 60


def key_reused(once: Once) -> KeyReused:
    return KeyReused(f"the idempotency key {once.key!r} came with another request before")


def token_exists(name: str) -> Conflict:
    return Conflict(f"there is or was a token named {name!r}: choose another name")


def no_token(name: str) -> NotFound:
    return NotFound(f"there is no token named {name!r}")
