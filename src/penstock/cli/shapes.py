"""What `--json` writes about jobs: stable, and described by the schemas beside this module."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from penstock.cli.times import utc
from penstock.engine.model import Event, Job


def summary(job: Job) -> dict[str, Any]:
    """A job without its payload and result, which may be large."""
    return {
        "id": job.id,
        "workflow": job.workflow,
        "tenant": job.tenant,
        "key": job.key,
        "run": job.run,
        "queue": job.queue,
        "status": job.status,
        "step": job.step,
        "attempt": job.attempt,
        "priority": job.priority,
        "error": job.error,
        "reason": job.reason,
        "halting": job.halting or None,
        "progress": asdict(job.progress) if job.progress else None,
        "counters": job.counters,
        "created": utc(job.created),
        "started": utc(job.started),
        "due": utc(job.due),
        "finished": utc(job.finished),
        "worker": job.worker,
        "parent": job.parent,
        "batch": job.batch,
        "fan_in": job.fan_in,
    }


def detail(job: Job) -> dict[str, Any]:
    return {**summary(job), "payload": job.payload, "result": job.result}


def happening(event: Event) -> dict[str, Any]:
    """One line of a job's history."""
    return {
        "at": utc(event.at),
        "kind": event.kind,
        "step": event.step,
        "status": event.status,
        "attempt": event.attempt,
        "took": event.took,
        "by": event.worker,
        "note": event.note,
    }
