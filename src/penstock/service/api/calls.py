"""`/api/v1/calls`: remote calls, and what people decide about those that nobody can."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from penstock.app import Penstock
from penstock.engine.call import CallRow, State, view
from penstock.engine.errors import Conflict, NotFound
from penstock.service.access.guard import Operator, Reader
from penstock.service.access.principal import Principal
from penstock.service.api import resource_shapes, shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import problems
from penstock.service.api.paging import DEFAULT_LIMIT, Cursor, Limit, next_cursor, page, place_of
from penstock.service.api.problems import conflict
from penstock.service.api.tenancy import seen_by
from penstock.service.state import Serving
from penstock.shapes import call_detail, call_summary
from penstock.store.protocol import CallFilter

router = APIRouter(prefix="/calls", tags=["calls"], route_class=JsonRoute)

_PATH = "/api/v1/calls/9f86d081884c7d659a2feaa0c5"


async def call_seen(penstock: Penstock, principal: Principal, call_id: str) -> CallRow:
    row = await penstock.engine.store.call(call_id)
    if row is None:
        raise NotFound(f"there is no call {call_id}")
    principal.check_sees(row.tenant, f"call {call_id}")
    return row


@router.get(
    "",
    operation_id="listCalls",
    summary="List remote calls",
    response_model=resource_shapes.CallPage,
    responses=problems(path="/api/v1/calls"),
)
async def list_calls(
    principal: Reader,
    service: Serving,
    tenant: shapes.OfTenant = None,
    job: shapes.OfJob = None,
    remote: Annotated[str | None, Query(pattern=shapes.NAME, description="Only of this remote.")] = None,
    state: Annotated[list[State], Query(description="Only these; may be repeated.")] = [],  # noqa: B006
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Newest first. `state=quarantined` lists those that wait for a person."""
    where = CallFilter(
        tenant=seen_by(principal, tenant),
        job=job,
        remote=remote,
        state=tuple(state),
        before=place_of(cursor, float, str),
        limit=limit,
    )
    found = await service.penstock.engine.store.calls(where)
    more = next_cursor(found[-1].created, found[-1].id) if len(found) == limit else None
    return answer(page([call_summary(view(row)) for row in found], more))


@router.get(
    "/{call_id}",
    operation_id="getCall",
    summary="Show a remote call",
    response_model=resource_shapes.CallDetail,
    responses=problems(404, path=_PATH),
)
async def get_call(call_id: shapes.CallId, principal: Reader, service: Serving) -> Response:
    """Where it is, what it costs and what came of it."""
    return answer(call_detail(await call_seen(service.penstock, principal, call_id)))


_DECISION: dict[str, Any] = {
    "response_model": resource_shapes.CallSummary,
    "responses": problems(404, 409, 415, path=_PATH),
}


@router.post(
    "/{call_id}/adopt",
    operation_id="adoptCall",
    summary="Adopt a quarantined call",
    response_model=resource_shapes.CallSummary,
    responses=problems(404, 409, 413, 415, path=_PATH),
)
async def adopt_call(
    call_id: shapes.CallId,
    principal: Operator,
    service: Serving,
    body: resource_shapes.AdoptBody | None = None,
) -> Response:
    """The other side has it, under this id: it is looked after again, and the job that was parked for it goes on."""
    provider_id = body.provider_id if body else None
    return await _decided(service.penstock, principal, call_id, "adopt", provider_id)


@router.post("/{call_id}/resubmit", operation_id="resubmitCall", summary="Send a quarantined call again", **_DECISION)
async def resubmit_call(call_id: shapes.CallId, principal: Operator, service: Serving) -> Response:
    """The other side never got it: its next attempt is sent. If it did get it, it is paid twice."""
    return await _decided(service.penstock, principal, call_id, "resubmit")


@router.post("/{call_id}/discard", operation_id="discardCall", summary="Give a quarantined call up", **_DECISION)
async def discard_call(call_id: shapes.CallId, principal: Operator, service: Serving) -> Response:
    """Its job goes on without its result."""
    return await _decided(service.penstock, principal, call_id, "discard")


@router.post("/{call_id}/cancel", operation_id="cancelCall", summary="Stop a call that is under way", **_DECISION)
async def cancel_call(call_id: shapes.CallId, principal: Operator, service: Serving) -> Response:
    """The other side is asked to stop it; what it costs until then is counted."""
    return await _decided(service.penstock, principal, call_id, "cancel")


async def _decided(
    penstock: Penstock, principal: Principal, call_id: str, decision: str, provider_id: str | None = None
) -> Response:
    await call_seen(penstock, principal, call_id)
    try:
        call = await penstock.decide_call(call_id, decision, provider_id=provider_id, actor=principal.actor)
    except Conflict as error:
        raise conflict(error, id=call_id, state=(await penstock.call(call_id)).state) from error
    return answer(call_summary(call))
