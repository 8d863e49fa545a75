"""The batches of a run on a time axis, the newest at the top."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.pipelines.pages import reading
from penstock.pipelines.pages.dashboard.places import Number, about, run_path
from penstock.pipelines.pages.looking import seen
from penstock.pipelines.pages.reading import BatchView
from penstock.service.access.guard import Reader
from penstock.service.dashboard.charts import Axis, Bar, Track
from penstock.service.dashboard.rendering import link, render
from penstock.service.dashboard.wording import length
from penstock.service.state import Serving

router = APIRouter()

PAGE = 100
NAMES = {"queued": "to be sent", "running": "running", "completed": "all done", "paused": "some failed",
         "failed": "all failed", "canceled": "canceled"}  # fmt: skip
"""What a batch came to, by the colour that says so."""


@router.get("/runs/{run_id}/batches", name="ui.pages.batches")
async def batches_page(
    request: Request, service: Serving, principal: Reader, run_id: str, active: str = "", before: Number = 0
) -> Response:
    engine = service.penstock.engine
    found = await seen(service.penstock, principal, run_id)
    told = {"yes": True, "no": False}.get(active)
    rows = await reading.batches(engine, found.ledger, active=told, before=before or None, limit=PAGE + 1)
    now = await engine.store.now()
    shown = rows[:PAGE]
    axis = _axis([(batch.created, batch.ended or now) for batch in shown], now)
    place = run_path(run_id, "batches")
    filters = {"active": active if told is not None else ""}
    return render(
        request,
        "pages/batches.html",
        **await about(service.penstock, principal, found),
        tab="batches",
        rows=[(batch, outcome(batch), track(batch, axis, now)) for batch in shown],
        names=NAMES,
        axis=axis,
        filters=filters,
        older=link(place, **filters, before=shown[-1].number) if len(rows) > PAGE else "",
        newest=link(place, **filters) if before else "",
    )


def _axis(spans: Sequence[tuple[float, float]], now: float) -> Axis:
    """Within a minute, times are told since the first."""
    moments = [moment for span in spans for moment in span]
    if moments and max(moments) - min(moments) < 60:
        return Axis.around(moments, now)
    return Axis.with_most_of(spans, now)


def outcome(batch: BatchView) -> str:
    if batch.state != "ended":
        return "queued" if batch.state == "planned" else "running"
    if batch.failed == 0 and batch.ok:
        return "completed"
    if batch.ok:
        return "paused"
    return "canceled" if batch.outcome in ("cancelled", "discarded") else "failed"


def track(batch: BatchView, axis: Axis, now: float) -> Track:
    """On its way until Gemini has it, then at work until its rows are home."""
    end = batch.ended or now
    kind = outcome(batch)
    if kind == "queued":
        words = f"made ready {length(end - batch.created)} ago, not sent yet"
        bar = Bar(axis.x(batch.created), axis.width(batch.created, end), "intent", words, thin=True)
        return Track(f"batch {batch.number}", (bar,))
    sent = min(batch.submitted if batch.submitted is not None else end, end)
    bars = []
    if sent > batch.created:
        words = f"made ready and sent: {length(sent - batch.created)}"
        bars.append(Bar(axis.x(batch.created), axis.width(batch.created, sent), "intent", words, thin=True))
    if batch.submitted is not None:
        took = length(end - sent)
        words = f"{took} at Gemini, not ended" if batch.ended is None else f"{NAMES[kind]} after {took}"
        bars.append(Bar(axis.x(sent), axis.width(sent, end), kind, words))
    elif batch.ended is not None:
        bars.append(Bar(axis.x(end), "0%", kind, "never sent", point=True))
    earlier = end < axis.start
    return Track(f"batch {batch.number}", () if earlier else tuple(bars), earlier=earlier)
