"""`/api/v1/schedules`: jobs that start by the clock."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import AfterValidator

from penstock.service.access.guard import Operator, Reader
from penstock.service.api import resource_shapes, shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import problems
from penstock.service.api.paging import DEFAULT_LIMIT, Cursor, Limit, next_cursor, page, place_of
from penstock.service.api.priority import urgency
from penstock.service.api.starting import check_startable
from penstock.service.api.tenancy import owner_for, seen_by
from penstock.service.state import Serving
from penstock.shapes import schedule_detail, schedule_line

router = APIRouter(prefix="/schedules", tags=["schedules"], route_class=JsonRoute)

_PATH = "/api/v1/schedules/nightly"

Named = Annotated[
    str,
    Path(min_length=1, max_length=500, description="The schedule's name; unique in its tenant.", examples=["nightly"]),
    AfterValidator(shapes.storable_or_none),
]


@router.get(
    "",
    operation_id="listSchedules",
    summary="List schedules",
    response_model=resource_shapes.SchedulePage,
    responses=problems(path="/api/v1/schedules"),
)
async def list_schedules(
    principal: Reader,
    service: Serving,
    tenant: shapes.OfTenant = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """By tenant and name."""
    place = place_of(cursor, str, str)
    found = await service.penstock.schedules(tenant=seen_by(principal, tenant))
    left = [one for one in found if place is None or (one.tenant, one.name) > place]
    shown = left[:limit]
    more = next_cursor(shown[-1].tenant, shown[-1].name) if len(left) > limit else None
    return answer(page([schedule_line(one) for one in shown], more))


@router.put(
    "/{name}",
    operation_id="putSchedule",
    summary="Set a schedule",
    response_model=resource_shapes.ScheduleDetail,
    responses=problems(404, 413, 415, path=_PATH),
)
async def put_schedule(
    name: Named, body: resource_shapes.ScheduleBody, principal: Operator, service: Serving
) -> Response:
    """Made, or changed. A firing that was missed runs once; changing the payload keeps the next firing."""
    penstock = service.penstock
    check_startable(service, body.workflow)
    tenant = owner_for(principal, body.tenant)
    await penstock.schedule(
        name,
        body.cron,
        body.workflow,
        body.payload,
        timezone=body.timezone,
        tenant=tenant,
        priority=urgency(penstock, body.workflow, body.priority),
        enabled=body.enabled,
        actor=principal.actor,
    )
    (made,) = [one for one in await penstock.schedules(tenant=tenant) if one.name == name]
    return answer(schedule_detail(made))


@router.delete(
    "/{name}",
    operation_id="deleteSchedule",
    summary="Remove a schedule",
    status_code=204,
    responses=problems(404, 415, path=_PATH),
)
async def delete_schedule(
    name: Named, principal: Operator, service: Serving, tenant: shapes.OfTenant = None
) -> Response:
    """Jobs that it has started go on."""
    await service.penstock.unschedule(name, tenant=owner_for(principal, tenant), actor=principal.actor)
    return Response(status_code=204)
