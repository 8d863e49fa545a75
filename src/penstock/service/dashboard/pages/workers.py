"""Workers and what they hold, limits and their use, and who holds which lock."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.engine.model import JobRow
from penstock.service.access.guard import Unbound
from penstock.service.dashboard import charts
from penstock.service.dashboard.rendering import link, render
from penstock.service.state import Serving
from penstock.store.protocol import JobFilter, LockFilter, Store, WorkerRow

router = APIRouter()

MOST_HELD = 500
PAGE = 50


@dataclass(slots=True, frozen=True)
class Worker:
    """A worker, what it said of itself, and some of the jobs it holds."""

    row: WorkerRow
    alive: bool
    host: str
    pid: int | None
    queues: list[str]
    workflows: list[str]
    held: list[JobRow]


@dataclass(slots=True, frozen=True)
class Limit:
    """A limit and how much of it is in use now; None where nobody can say."""

    name: str
    most: int
    used: int | None
    parts: list[charts.Part]


@router.get("/ui/workers", name="ui.workers")
async def workers_page(
    request: Request, service: Serving, principal: Unbound, lock: str = "", after: str = ""
) -> Response:
    store = service.penstock.engine.store
    now = await store.now()
    running = await store.jobs(JobFilter(status=("running", "canceling"), limit=MOST_HELD))
    held: dict[str, list[JobRow]] = defaultdict(list)
    for job in running:
        if job.worker:
            held[job.worker].append(job)
    workers = [_worker(row, held[row.id], now) for row in await store.workers()]
    tenant, _, name = after.partition("~")
    locks = await store.locks(LockFilter(name=lock or None, after=(tenant, name) if name else None, limit=PAGE + 1))
    holders = {
        row.id: row for row in await store.jobs(JobFilter(ids=tuple({one.job for one in locks}), limit=PAGE + 1))
    }
    last = locks[PAGE - 1] if len(locks) > PAGE else None
    return render(
        request,
        "workers.html",
        principal=principal,
        workers=sorted(workers, key=lambda worker: (not worker.alive, -worker.row.started)),
        fleet=service.fleet,
        locks=locks[:PAGE],
        holders=holders,
        lock=lock,
        older=link("/ui/workers", lock=lock, after=f"{last.tenant}~{last.name}") if last else "",
        newest=link("/ui/workers", lock=lock) if after else "",
        limits=await _limits(service.penstock.engine.store, running),
        feed="/ui/live",
    )


def _worker(row: WorkerRow, held: list[JobRow], now: float) -> Worker:
    try:
        info: dict[str, Any] = json.loads(row.info)
    except ValueError:
        info = {}
    return Worker(
        row,
        row.expires > now,
        str(info.get("host", "")),
        info.get("pid"),
        list(info.get("queues", [])),
        list(info.get("workflows", [])),
        held[:12],
    )


async def _limits(store: Store, running: list[JobRow]) -> list[Limit]:
    """Limits on ticks count what runs; those on resources count besides what unfinished calls hold."""
    found = []
    limits = await store.limits()
    calls = await store.held_amounts([name for name in limits if name.startswith("resource:")])
    for name, most in sorted(limits.items()):
        used = _used(name, running)
        if used is not None:
            used += calls.get(name, 0)
        parts = charts.stacked([("running", min(used, most))], total=most) if used is not None else []
        found.append(Limit(name, most, used, parts))
    return found


def _used(name: str, running: list[JobRow]) -> int | None:
    kind, _, which = name.partition(":")
    if len(running) >= MOST_HELD or which == "*":
        return None
    seen = {
        "workflow": lambda job: job.workflow,
        "tenant": lambda job: job.tenant,
        "resource": lambda job: job.resource,
    }.get(kind)
    return None if seen is None else sum(seen(job) == which for job in running)
