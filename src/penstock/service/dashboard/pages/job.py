"""One job: where it stands, what happened to it on a time axis, what it said, holds and started."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.responses import Response

from penstock.engine.call import LIVE, Call, view
from penstock.engine.errors import NotFound
from penstock.engine.model import FINAL, Event, Job, JobRow
from penstock.engine.model import view as job_view
from penstock.service.access.guard import Operator, Reader
from penstock.service.access.principal import Principal
from penstock.service.dashboard.acting import DONE, asked, is_done
from penstock.service.dashboard.charts import Axis, Bar, Track
from penstock.service.dashboard.rendering import link, render
from penstock.service.dashboard.timelines import track_of_call
from penstock.service.dashboard.wording import dollars, length, many, shape_of
from penstock.service.state import Service, Serving
from penstock.store.protocol import CallFilter, JobFilter, LockFilter

router = APIRouter()

LINES = 200
"""Lines of history that the page shows and draws; the newest. Older ones are further pages."""

LARGEST = 2**53

MOST_RUNS = 20
MOST_CALLS = 100
ASKED = frozenset({"pause", "resume", "cancel", "retry"})
_KINDS = {
    "next": "completed", "again": "waiting", "done": "completed", "cleaned": "canceled", "checkpoint": "running",
    "retry": "paused", "fail": "failed", "park": "paused", "hand back": "queued", "refused": "queued",
    "crash": "failed", "cancel": "canceled", "pause": "paused", "resume": "running",
}  # fmt: skip


@dataclass(slots=True, frozen=True)
class Line:
    """A line of history. Checkpoints of one step that follow each other are one line, the newest first."""

    event: Event
    checkpoints: tuple[Event, ...] = ()


SHORT = 0.4
"""Per cent of the axis: a tick that is no wider is short."""

NEAR = 1.0
"""Per cent of the axis between two short ticks of a run that are drawn as one."""


class Run:
    """Short ticks of one step that follow each other closely and ended alike: one bar."""

    def __init__(self, event: Event, first: int) -> None:
        self.first = first
        """Where its bar stands among those of its step."""
        self._last = event
        self._began = event.at - (event.took or 0.0)
        self._amount = 1

    def takes(self, axis: Axis, event: Event) -> bool:
        last, began = self._last, event.at - (event.took or 0.0)
        alike = (event.kind, event.status, event.attempt) == (last.kind, last.status, last.attempt)
        if not alike or event.note or last.note or event.took is None or last.took is None:
            return False
        short = max(event.took, last.took) <= axis.span * SHORT / 100
        return short and began - last.at <= axis.span * NEAR / 100

    def bar(self, axis: Axis, event: Event) -> Bar:
        """With one more tick."""
        self._last, self._amount = event, self._amount + 1
        title = f"{event.step}: {event.kind}, {self._amount} times in {length(event.at - self._began)}"
        width = axis.width(self._began, event.at)
        return Bar(axis.x(self._began), width, _KINDS.get(event.kind, "queued"), title)


async def row_of(service: Service, principal: Principal, job_id: str) -> JobRow:
    """Another tenant's job is not there."""
    row = await service.penstock.engine.store.job(job_id)
    if row is None:
        raise NotFound(f"there is no job {job_id}")
    principal.check_sees(row.tenant, f"job {job_id}")
    return row


@router.get("/ui/jobs/{job_id}", name="ui.job")
async def job_page(request: Request, service: Serving, principal: Reader, job_id: str, before: str = "") -> Response:
    """`before`: the number of the line whose elders the history shows; the timeline is about the newest ones."""
    penstock = service.penstock
    store = penstock.engine.store
    row = await row_of(service, principal, job_id)
    job = job_view(row)
    now = await store.now()
    last, logs = await asyncio.gather(penstock.history_page(job_id, limit=LINES + 1, newest=True), store.logs(job_id))
    drawn, shown = last[-LINES:], last
    if older_than := number_of(before):
        shown = await penstock.history_page(job_id, before=older_than, limit=LINES + 1, newest=True)
    more, shown = len(shown) > LINES, shown[-LINES:]
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
    axis, tracks = timeline(
        job, [event for _, event in drawn], calls, now, entered=row.entered, whole=len(last) <= LINES
    )
    cost = costs[0] if costs else None
    return render(
        request,
        "job.html",
        principal=principal,
        job=job,
        history=folded([event for _, event in shown])[::-1],
        lines=len(shown),
        cut=len(last) > LINES,
        newest=f"/ui/jobs/{job_id}" if older_than else "",
        older=link(f"/ui/jobs/{job_id}", before=shown[0][0]) if more else "",
        kinds=_KINDS,
        logs=logs,
        locks=locks,
        calls=calls,
        runs=runs,
        children=children,
        cost=cost,
        axis=axis,
        tracks=tracks,
        why=job.reason if job.status == "paused" else "",
        buttons=buttons(job) if principal.may("operate") else (),
        canceling=what_cancel_does(row, calls, cost.cost if cost else 0),
        feed=link("/ui/live", job=job_id),
        every=500,
        shape=shape_of(job.error) if job.error else "",
        elsewhere=_elsewhere(service, job),
    )


def _elsewhere(service: Service, job: Job) -> list[tuple[str, str]]:
    """(title, path) of pages that sections have about this job."""
    told = [(section.title, section.link_of(job)) for section in service.sections if section.link_of is not None]
    return [(title, path) for title, path in told if path is not None]


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
    row = await row_of(service, principal, job_id)
    to = back or f"/ui/jobs/{job_id}"
    if action == "cancel" and not confirmed:
        calls = await service.penstock.engine.store.calls(CallFilter(job=job_id, limit=MOST_CALLS))
        costs = await service.penstock.costs(job=job_id)
        words = what_cancel_does(row, [view(call) for call in calls], costs[0].cost if costs else 0)
        return render(request, "confirm.html", principal=principal, job=job_view(row), words=words, back=to)
    doing = getattr(service.penstock, action)(job_id, actor=principal.actor)

    def said(job: Job) -> str:
        words = DONE[action] if is_done(action, job) else f"asked to {action}"
        return f"{row.workflow} {job_id}: {words}"

    return await asked(request, to, doing, said)


def what_cancel_does(row: JobRow, calls: Sequence[Call], paid: int) -> str:
    """In a person's words, by what this job has."""
    words = ["It stops for good."]
    if row.cleanup is not None and row.cleanup != row.step:
        words.append(f"Its clean-up step {row.cleanup} runs.")
    if unfinished := sum(call.state in LIVE for call in calls):
        words.append(f"The other side is asked to stop {many(unfinished, 'remote call')}; what was done may be paid.")
    if paid:
        words.append(f"The {dollars(paid)} paid so far are not paid back.")
    return " ".join(words)


def number_of(text: str) -> int | None:
    """The number of a line as a link has it; what no link of ours has is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 17 and 0 < int(text) < LARGEST else None


def folded(history: Sequence[Event]) -> list[Line]:
    """Oldest first, as `history` is."""
    lines: list[Line] = []
    for (kind, *_), alike in groupby(history, key=lambda event: (event.kind, event.step, event.epoch)):
        events = list(alike)
        if kind == "checkpoint" and len(events) > 1:
            lines.append(Line(events[-1], tuple(events[::-1])))
        else:
            lines += map(Line, events)
    return lines


def buttons(job: Job) -> tuple[str, ...]:
    """What may be asked of the job as it stands."""
    if job.status == "failed":
        return ("retry",)
    if job.status in FINAL or job.status == "canceling" or job.halting == "cancel":
        return ()
    return ("resume" if job.status == "paused" or job.halting == "pause" else "pause", "cancel")


def timeline(
    job: Job,
    history: Sequence[Event],
    calls: Sequence[Call],
    now: float,
    entered: float | None = None,
    *,
    whole: bool = True,
) -> tuple[Axis, list[Track]]:
    """A track for each step, one for what people asked, and one for each remote call, on one axis. `entered`: when the
    step it is at was first taken up. Not `whole`: it begins with the first of these lines."""
    end = job.finished or now
    begun = job.created if whole else history[0].at - (history[0].took or 0.0)
    moments = [begun, end, *(event.at - (event.took or 0) for event in history), *(e.at for e in history)]
    moments += [call.finished or now for call in calls]
    axis = Axis.around(moments if whole else [moment for moment in moments if moment >= begun], now)
    steps: dict[str, list[Bar]] = {}
    marks: dict[str, list[Bar]] = {}
    wishes: list[Bar] = []
    runs: dict[str, Run] = {}
    ticks: Counter[str] = Counter()
    free, after = begun, "queued"
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
        if event.kind == "checkpoint":
            # The step goes on: it is a mark on the bar of the tick, which is drawn when the tick has ended.
            _mark(axis, marks.setdefault(event.step, []), event)
            continue
        ticks[event.step] += 1
        if (run := runs.get(event.step)) is not None and run.takes(axis, event):
            bars[run.first :] = [run.bar(axis, event)]
            free, after = event.at, event.status
            continue
        if event.kind == "crash":
            words = f"{event.step}: its worker died, try {event.attempt} was lost"
            bars.append(Bar(axis.x(free), axis.width(free, event.at), "crash", words))
        else:
            bars += [*_gap(axis, free, event.at - (event.took or 0.0), after), _bar(axis, event)]
        runs[event.step] = Run(event, len(bars) - 1)
        free, after = event.at, event.status
    if job.worker:
        last = max(free, entered or job.started or job.created)
        words = f"{job.step}, try {job.attempt}: running now"
        bars = steps.setdefault(job.step, [])
        ticks[job.step] += 1
        bars += [*_gap(axis, free, last, after), Bar(axis.x(last), axis.width(last, now), "running", words)]
    elif not job.final:
        steps.setdefault(job.step, []).extend(_gap(axis, free, now, job.status))
    tracks = [Track(step, (*bars, *marks.get(step, ())), _times(ticks[step])) for step, bars in steps.items()]
    if wishes:
        tracks.append(Track("requests", tuple(wishes), kind="asked"))
    return axis, tracks + [track_of_call(call, axis, now) for call in calls[-40:]]


def _mark(axis: Axis, marks: list[Bar], event: Event) -> None:
    """What would stand on the mark before it is left out."""
    if not marks or axis.at(event.at) - float(marks[-1].x.rstrip("%")) >= 0.5:
        marks.append(Bar(axis.x(event.at), "0%", "mark", f"{event.step}: checkpoint", mark=True))


def _times(amount: int) -> str:
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
