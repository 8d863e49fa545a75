"""How a run stands, in the words of its users: what `status` says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.app import Penstock
from penstock.engine.model import Job
from penstock.pipelines.ingestion import bases
from penstock.pipelines.ingestion.bases import Run
from penstock.pipelines.ingestion.work import PHASES, Counters, Seconds, Work

STALLED_AFTER = 15.0
"""Seconds without a heartbeat: three are missing."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Rates:
    docs_per_second: float | None
    chunks_per_second: float | None


@dataclass(slots=True, frozen=True, kw_only=True)
class PhaseProgress:
    """One of the four: what has passed it, of how many where that is known, and the time it took."""

    name: str
    done: int
    total: int | None
    seconds: float
    active: bool


@dataclass(slots=True, frozen=True, kw_only=True)
class Status:
    id: str
    kb_id: str
    tenant: str
    job: str
    status: str
    started_at: float
    finished_at: float | None
    last_error: str | None
    checkpoint: dict[str, Any] | None
    counters: dict[str, int]
    rates: Rates
    phases: tuple[PhaseProgress, ...]
    eta_seconds: float | None
    documents_total: int | None
    heartbeat_age: float | None
    stalled: bool
    errors: int
    plan: dict[str, Any] | None
    reason: str | None


def word_of(run: Run, job: Job | None) -> str:
    """Of the pipeline's own words: a run that was cancelled and cleaned up is `not_started`."""
    return word(run.state, None if job is None else job.status)


def word(state: str | None, job: str | None) -> str:
    """The same from the state that a run's row has and the status of its newest job; None: there is none."""
    if job is None or state == "not_started":
        # One that was completed or cancelled has said so itself.
        return state or "failed"
    if job == "canceled":
        return "not_started"
    words = {"queued": "running", "waiting": "running", "canceling": "canceled"}
    return words.get(job, job)


async def status_of(app: Penstock, run: Run) -> Status:
    from penstock.pipelines.ingestion.control import newest_job

    job = await newest_job(app, run.id, run.tenant)
    word = word_of(run, job)
    counters, seconds, work = _measured(run, job, word)
    rates = Rates(
        docs_per_second=_rate(counters.docs_seen, seconds.active),
        chunks_per_second=_rate(counters.chunks_processed + counters.chunks_skipped, seconds.active),
    )
    total = None if work is None else work.total
    age = None if job is None else await _heartbeat_age(app, job)
    error = job.error if job is not None and job.status == "failed" else run.last_error
    if error is None and work is not None:
        error = work.error
    ((errors,),) = await app.engine.read(("SELECT COUNT(*) FROM kb_errors WHERE run = :run", {"run": run.id}))
    checkpoint = None if work is None else _checkpoint(work)
    return Status(
        id=run.id,
        kb_id=run.base,
        tenant=run.tenant,
        job=run.job if job is None else job.id,
        status=word,
        started_at=run.began,
        finished_at=run.finished if job is None or not job.final else (run.finished or job.finished),
        last_error=error,
        checkpoint=checkpoint,
        counters=counters.model_dump(),
        rates=rates,
        phases=_phases(counters, seconds, work, word),
        eta_seconds=_eta(counters, seconds, total) if word == "running" else None,
        documents_total=total,
        heartbeat_age=age,
        stalled=age is not None and age > STALLED_AFTER,
        errors=int(errors),
        plan=run.plan,
        reason=None if job is None else job.reason,
    )


def _checkpoint(work: Work) -> dict[str, Any]:
    """Where it is; after the last source, that one."""
    source = min(work.source, len(work.ask.config.sources) - 1)
    return {"last_batch_id": work.batch, "cursor": work.cursor, "source": source}


def _measured(run: Run, job: Job | None, word: str) -> tuple[Counters, Seconds, Work | None]:
    if word == "not_started":
        return Counters(), Seconds(), None
    if run.outcome is not None:
        kept = Counters.model_validate(run.outcome["counters"]), Seconds.model_validate(run.outcome["seconds"])
        return (*kept, _work(job))
    work = _work(job)
    return (Counters(), Seconds(), None) if work is None else (work.counters, work.seconds, work)


def _work(job: Job | None) -> Work | None:
    payload = None if job is None else job.payload
    return Work.model_validate(payload) if isinstance(payload, dict) and "edition" in payload else None


def _rate(count: int, seconds: float) -> float | None:
    return round(count / seconds, 2) if seconds > 0 and count else None


def _eta(counters: Counters, seconds: Seconds, total: int | None) -> float | None:
    if not total or not counters.docs_seen or seconds.active <= 0:
        return None
    left = max(0, total - counters.docs_seen)
    return round(left * seconds.active / counters.docs_seen, 1)


def _phases(counters: Counters, seconds: Seconds, work: Work | None, word: str) -> tuple[PhaseProgress, ...]:
    indexed = counters.chunks_processed + counters.chunks_skipped
    amounts = {
        "load": (counters.docs_seen, None if work is None else work.total),
        "chunk": (counters.chunks_seen, None),
        "embed": (indexed + counters.chunks_error, counters.chunks_seen),
        "index": (indexed, counters.chunks_seen - counters.chunks_error),
    }
    return tuple(
        PhaseProgress(
            name=name,
            done=amounts[name][0],
            total=amounts[name][1],
            seconds=round(getattr(seconds, name), 3),
            active=word == "running" and work is not None and work.phase == name,
        )
        for name in PHASES
    )


async def _heartbeat_age(app: Penstock, job: Job) -> float | None:
    """Of the worker that has the job now; None while none has."""
    if job.worker is None or job.status != "running":
        return None
    rows = await app.engine.read(("SELECT seen FROM workers WHERE id = :id", {"id": job.worker}))
    now = await app.engine.store.now()
    return round(max(0.0, now - rows[0][0]), 1) if rows else None


__all__ = ["PhaseProgress", "Rates", "Status", "bases", "status_of", "word", "word_of"]
