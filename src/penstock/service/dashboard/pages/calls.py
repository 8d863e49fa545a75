"""Remote calls on a time axis, and one call: what is known of it, and what a person may decide."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from pydantic_core import from_json
from starlette.responses import Response

from penstock.engine.call import DECISIONS, ENDED, LIVE, STATES, UNDER_WAY, Call, CallRow, held_by, label_of, view
from penstock.engine.errors import NotFound
from penstock.service.access.guard import Operator, Reader
from penstock.service.access.principal import Principal
from penstock.service.dashboard.acting import asked
from penstock.service.dashboard.charts import Axis
from penstock.service.dashboard.rendering import link, render
from penstock.service.dashboard.timelines import track_of_call
from penstock.service.state import Service, Serving
from penstock.shapes import CALL_MEANINGS
from penstock.store.protocol import CallFilter

router = APIRouter()

PAGE = 50
GROUPS = {
    "live": tuple(state for state in STATES if state in LIVE),
    "ended": tuple(state for state in STATES if state in ENDED),
}
SHOWN = ("quarantined", "overdue", "running", "submitted", "intent", "collected", "failed", "lost")
DONE = {
    "adopt": "adopted: it is watched from now on",
    "resubmit": "given up: the next attempt is sent",
    "discard": "discarded: its job goes on without it",
    "cancel": "cancel asked of the other side",
}


@router.get("/ui/calls", name="ui.calls")
async def calls_page(
    request: Request,
    service: Serving,
    principal: Reader,
    state: str = "",
    remote: str = "",
    job: str = "",
    tenant: str = "",
    before: str = "",
) -> Response:
    store = service.penstock.engine.store
    states = GROUPS.get(state) or tuple(name for name in state.split(",") if name in STATES)
    rows = await store.calls(
        CallFilter(
            tenant=principal.tenant or tenant or None,
            job=job or None,
            remote=remote or None,
            state=states,
            before=place_of(before),
            limit=PAGE + 1,
        )
    )
    now = await store.now()
    calls = [view(row) for row in rows[:PAGE]]
    axis = Axis.with_most_of([(call.created, call.finished or now) for call in calls], now)
    filters = {"state": state, "remote": remote, "job": job, "tenant": "" if principal.tenant else tenant}
    last = calls[-1] if calls else None
    return render(
        request,
        "calls.html",
        principal=principal,
        rows=[(call, track_of_call(call, axis, now)) for call in calls],
        axis=axis,
        filters=filters,
        shown=SHOWN,
        meanings=CALL_MEANINGS,
        remotes=sorted({call.remote for call in calls} | ({remote} if remote else set())),
        older=link("/ui/calls", **filters, before=f"{last.created}~{last.id}") if last and len(rows) > PAGE else "",
        newest=link("/ui/calls", **filters) if before else "",
        live=LIVE,
        feed=link("/ui/live", job=job),
    )


def place_of(text: str) -> tuple[float, str] | None:
    """`created~id`, as `older` writes it."""
    created, _, call_id = text.partition("~")
    try:
        return (float(created), call_id) if call_id else None
    except ValueError:
        return None


async def call_of(service: Service, principal: Principal, call_id: str) -> tuple[CallRow, Call]:
    """Another tenant's call is not there."""
    row = await service.penstock.engine.store.call(call_id)
    if row is None:
        raise NotFound(f"there is no call {call_id}")
    principal.check_sees(row.tenant, f"call {call_id}")
    return row, view(row)


@router.get("/ui/calls/{call_id}", name="ui.call")
async def call_page(request: Request, service: Serving, principal: Reader, call_id: str) -> Response:
    row, call = await call_of(service, principal, call_id)
    store = service.penstock.engine.store
    now = await store.now()
    attempts = [view(other) for other in await store.calls(CallFilter(job=call.job, key=call.key, limit=20))]
    axis = Axis.around([m for other in attempts for m in (other.created, other.finished or now)], now)
    return render(
        request,
        "call.html",
        principal=principal,
        call=call,
        row=row,
        prepared=from_json(row.prepared),
        label=label_of(call.id),
        holds=held_by(row) if call.state in LIVE else [],
        meaning=CALL_MEANINGS[call.state],
        axis=axis,
        tracks=[(other, track_of_call(other, axis, now)) for other in attempts],
        decides=call.state == "quarantined" and principal.may("operate"),
        may_cancel=call.state in UNDER_WAY and not call.unwanted and principal.may("operate"),
        live=LIVE,
        feed=link("/ui/live", job=call.job),
    )


@router.post("/ui/calls/{call_id}/{decision}", name="ui.call.decide")
async def decide(
    request: Request,
    service: Serving,
    principal: Operator,
    call_id: str,
    decision: str,
    provider_id: Annotated[str, Form(max_length=1000)] = "",
    back: Annotated[str, Form(max_length=2000)] = "",
) -> Response:
    if decision not in (*DECISIONS, "cancel"):
        raise NotFound(f"there is no decision {decision[:20]!r}")
    await call_of(service, principal, call_id)
    doing = service.penstock.decide_call(
        call_id, decision, provider_id=provider_id.strip() or None, actor=principal.actor
    )
    return await asked(request, back or f"/ui/calls/{call_id}", doing, DONE[decision])
