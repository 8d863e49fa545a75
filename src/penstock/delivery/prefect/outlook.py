"""What a flow run asks before it ends: is there anything to do soon, and is somebody else waiting for it already?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from penstock.engine.call import UNDER_WAY
from penstock.engine.engine import Engine
from penstock.engine.machine import is_dead, told_by
from penstock.store.protocol import CallFilter, JobFilter, WorkerRow

LIVE = ("queued", "waiting", "canceling", "running")
ENOUGH = 200
"""Rows that are looked at one by one; where there are more, something is always near."""


async def until_next(engine: Engine, workflow: str, queues: Collection[str]) -> float | None:
    """In how many seconds there is something to do for a workflow's jobs: 0 is now (but a limit may forbid it), None
    is never, as far as anybody can tell."""
    store = engine.store
    jobs = await store.jobs(JobFilter(workflow=workflow, status=LIVE, limit=ENOUGH, brief=True))
    ours = [job for job in jobs if job.queue in queues]
    if any(job.phase == "ready" or (job.phase == "held" and job.worker == engine.worker) for job in ours):
        return 0.0
    now = await store.now()
    soon = [job.due for job in ours if job.phase == "timed" and job.due is not None]
    if soon:
        calls = await store.calls(CallFilter(state=tuple(UNDER_WAY), limit=ENOUGH))
        soon += [call.due for call in calls if call.workflow == workflow and call.due is not None]
    if len(jobs) == ENOUGH and (first := await store.next_due()) is not None:
        soon.append(first)
    return max(0.0, min(soon) - now) if soon else None


async def alive_for(engine: Engine, workflow: str) -> list[WorkerRow]:
    """The workers that take this workflow's jobs, the one that came first at the head. One that serves no queue only
    has others do the work."""
    now = await engine.store.now()
    alive = [
        worker
        for worker in await engine.store.workers()
        if worker.expires > now and _takes(told_by(worker), workflow) and not is_dead(told_by(worker))
    ]
    return sorted(alive, key=lambda worker: (worker.started, worker.id))


def _takes(told: Mapping[str, Any], workflow: str) -> bool:
    return workflow in told.get("workflows", ()) and bool(told.get("queues"))
