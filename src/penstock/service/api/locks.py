"""`/api/v1/locks`: who holds what."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import AfterValidator

from penstock.service.access.guard import Reader
from penstock.service.api import resource_shapes, shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import problems
from penstock.service.api.paging import DEFAULT_LIMIT, Cursor, Limit, next_cursor, page, place_of
from penstock.service.api.tenancy import seen_by
from penstock.service.state import Serving
from penstock.times import utc

router = APIRouter(prefix="/locks", tags=["locks"], route_class=JsonRoute)


@router.get(
    "",
    operation_id="listLocks",
    summary="List locks",
    response_model=resource_shapes.LockPage,
    responses=problems(path="/api/v1/locks"),
)
async def list_locks(
    principal: Reader,
    service: Serving,
    tenant: shapes.OfTenant = None,
    job: shapes.OfJob = None,
    name: Annotated[
        str | None,
        Query(min_length=1, max_length=500, description="Only this one."),
        AfterValidator(shapes.storable_or_none),
    ] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """By tenant and name. A lock has no expiry: it goes with its job, or when a step gives it back."""
    found = await service.penstock.locks(
        tenant=seen_by(principal, tenant),
        job=job,
        name=name,
        after=place_of(cursor, str, str),
        limit=limit,
    )
    items = [{"tenant": lock.tenant, "name": lock.name, "job": lock.job, "taken": utc(lock.taken)} for lock in found]
    more = next_cursor(found[-1].tenant, found[-1].name) if len(found) == limit else None
    return answer(page(items, more))
