"""`/api/v1/counts`: how many jobs there are."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from penstock.service.access.guard import Reader
from penstock.service.api import resource_shapes, shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import problems
from penstock.service.api.tenancy import seen_by
from penstock.service.census import census_of

router = APIRouter(prefix="/counts", tags=["jobs"], route_class=JsonRoute)


@router.get(
    "",
    operation_id="getCounts",
    summary="Count jobs",
    response_model=resource_shapes.Counts,
    responses=problems(path="/api/v1/counts"),
)
async def get_counts(request: Request, principal: Reader, tenant: shapes.OfTenant = None) -> Response:
    """By workflow and status, as they were counted a second ago or less; up to 15 where counting takes long."""
    counts = await census_of(request).counts(seen_by(principal, tenant))
    items = [
        {"workflow": workflow, "status": status, "count": count} for (workflow, status), count in sorted(counts.items())
    ]
    return answer({"items": items, "total": sum(counts.values())})
