"""One job: where it stands, what happened to it on a time axis, what it said, holds and started."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.responses import Response

from penstock.engine.call import Call, view
from penstock.engine.errors import NotFound
from penstock.engine.model import FINAL, Event, Job
from penstock.service.access.guard import Operator, Reader
from penstock.service.access.principal import Principal
from penstock.service.dashboard.acting import DONE, asked
from penstock.service.dashboard.charts import Axis, Bar, Track
from penstock.service.dashboard.rendering import link, render
from penstock.service.dashboard.timelines import track_of_call
from penstock.service.dashboard.wording import length, shape_of
from penstock.service.state import Service, Serving
from penstock.store.protocol import CallFilter, JobFilter, LockFilter

router = APIRouter()

LINES = 400
"""Lines of history that the page shows; the newest."""

MOST_RUNS = 20
MOST_CALLS = 100
ASKED = frozenset({"pause", "resume", "cancel", "retry"})
_KINDS = {
    "next": "completed", "again": "waiting", "done": "completed", "cleaned": "canceled", "checkpoint": "running",
    "retry": "paused", "fail": "failed", "park": "paused", "hand back": "queued", "refused": "queued",
    "crash": "failed", "cancel": "canceled", "pause": "paused", "resume": "running",
}  # fmt: skip


async def job_of(service: Service, principal: Principal, job_id: str) -> Job:
    """Another tenant's job is not there."""
    job = await service.penstock.job(job_id)
    principal.check_sees(job.tenant, f"job {job_id}")
    return job


@router.get("/ui/jobs/{job_id}", name="ui.job")
async def job_page(request: Request, service: Serving, principal: Reader, job_id: str) -> Response:
    penstock = service.penstock
    store = penstock.engine.store
    job = await job_of(service, principal, job_id)
    now = await store.now()
    history, logs = await asyncio.gather(penstock.history(job_id), store.logs(job_id))
    locks, rows = await asyncio.gather(
        store.locks(LockFilter(tenant=job.tenant, job=job_id, limit=100)),
        store.calls(CallFilter(job=job_id, limit=MOST_CALLS)),
    )
    runs, children, costs = await asyncio.gather(
        penstock.jobs(tenant=job.tenant, workflow=job.workflow, key=job.key, limit=MOST_RUNS),
        store.jobs(JobFilter(tenant=job.tenant, parent=job_id, limit=21)),
        penstock.costs(job=job_id),
    )
    calls = [view(row) for row in reversed(rows)]
    axis, tracks = timeline(job, history, calls, now)
    return render(
        request,
        "job.html",
        principal=principal,
        job=job,
        history=history[-LINES:][::-1],
        hidden=max(len(history) - LINES, 0),
        began=history[0].at if history else job.created,
        kinds=_KINDS,
        logs=logs,
        locks=locks,
        calls=calls,
        runs=runs,
        children=children,
        cost=costs[0] if costs else None,
        axis=axis,
        tracks=tracks,
        why=job.reason if job.status == "paused" else "",
        buttons=buttons(job) if principal.may("operate") else (),
        feed=link("/ui/live", job=job_id),
        every=500,
        shape=shape_of(job.error) if job.error else "",
    )


@router.post("/ui/jobs/{job_id}/{action}", name="ui.job.act")
async def act(
    request: Request,
    service: Serving,
    principal: Operator,
    job_id: str,
    action: str,
    back: Annotated[str, Form(max_length=2000)] = "",
    confirmed: Annotated[str, Form(max_length=5)] = "",
) -> Response:
    """Cancelling asks first: in a dialog where there is a script, on a page where there is none."""
    if action not in DONE:
        raise NotFound(f"there is no action {action[:20]!r}")
    job = await job_of(service, principal, job_id)
    to = back or f"/ui/jobs/{job_id}"
    if action == "cancel" and not confirmed:
        return render(request, "confirm.html", principal=principal, job=job, back=to)
    doing = getattr(service.penstock, action)(job_id, actor=principal.actor)
    said = {"cancel": "cancel asked", "pause": "pause asked" if job.status == "running" else "paused"}
    return await asked(request, to, doing, f"{job.workflow} {job_id}: {said.get(action, DONE[action])}")


def buttons(job: Job) -> tuple[str, ...]:
    """What may be asked of the job as it stands."""
    if job.status == "failed":
        return ("retry",)
    if job.status in FINAL or job.status == "canceling" or job.halting == "cancel":
        return ()
    return ("resume" if job.status == "paused" or job.halting == "pause" else "pause", "cancel")


def timeline(job: Job, history: Sequence[Event], calls: Sequence[Call], now: float) -> tuple[Axis, list[Track]]:
    """A track for each step, one for what people asked, and one for each remote call, on one axis."""
    end = job.finished or now
    moments = [job.created, end, *(event.at - (event.took or 0) for event in history), *(e.at for e in history)]
    moments += [call.finished or now for call in calls]
    axis = Axis.around(moments, now)
    steps: dict[str, list[Bar]] = {}
    wishes: list[Bar] = []
    free, after = job.created, "queued"
    for event in history:
        if event.kind.startswith("call "):
            continue
        if event.kind in ASKED and event.took is None:
            who = f" by {event.worker}" if event.worker else ""
            title = f"{event.kind}{who}" + (f": {event.note}" if event.note else "")
            wishes.append(Bar(axis.x(event.at), "0%", _KINDS[event.kind], title, point=True))
            after = event.status
            continue
        bars = steps.setdefault(event.step, [])
        if event.kind == "crash":
            words = f"{event.step}: its worker died, try {event.attempt} was lost"
            bars.append(Bar(axis.x(free), axis.width(free, event.at), "crash", words))
        else:
            bars += [*_gap(axis, free, event.at - (event.took or 0.0), after), _bar(axis, event)]
        free, after = event.at, event.status
    if job.worker:
        last = max(free, job.started or job.created)
        words = f"{job.step}, try {job.attempt}: running now"
        steps.setdefault(job.step, []).append(Bar(axis.x(last), axis.width(last, now), "running", words))
    elif not job.final:
        steps.setdefault(job.step, []).extend(_gap(axis, free, now, job.status))
    tracks = [Track(step, tuple(bars), _ticks(bars)) for step, bars in steps.items()]
    if wishes:
        tracks.append(Track("asked", tuple(wishes), kind="asked"))
    return axis, tracks + [track_of_call(call, axis, now) for call in calls[-40:]]


def _ticks(bars: Sequence[Bar]) -> str:
    amount = sum(not bar.thin for bar in bars)
    return f"{amount}×" if amount > 1 else ""


def _gap(axis: Axis, start: float, end: float, status: str) -> list[Bar]:
    """Time in which nobody worked on the job; what cannot be seen is left out."""
    if end - start < axis.span * 0.004:
        return []
    kind = {"waiting": "waits", "paused": "rests"}.get(status, "queues")
    words = {"waits": "waiting", "rests": "paused"}.get(kind, "queued")
    return [Bar(axis.x(start), axis.width(start, end), kind, f"{words} for {length(end - start)}", thin=True)]


def _bar(axis: Axis, event: Event) -> Bar:
    began = event.at - (event.took or 0.0)
    title = f"{event.step}: {event.kind}, try {event.attempt}"
    if event.took is not None:
        title += f", took {length(event.took)}"
    if event.note:
        title += f" – {event.note.splitlines()[0][:160]}"
    return Bar(axis.x(began), axis.width(began, event.at), _KINDS.get(event.kind, "queued"), title)
