"""`/api/v1/counts`: how many jobs there are."""

from __future__ import annotations

from fastapi import APIRouter, Response

from penstock.service.access.guard import Reader
from penstock.service.api import resource_shapes, shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import problems
from penstock.service.api.tenancy import seen_by
from penstock.service.state import Serving

router = APIRouter(prefix="/counts", tags=["jobs"], route_class=JsonRoute)


@router.get(
    "",
    operation_id="getCounts",
    summary="Count jobs",
    response_model=resource_shapes.Counts,
    responses=problems(path="/api/v1/counts"),
)
async def get_counts(principal: Reader, service: Serving, tenant: shapes.OfTenant = None) -> Response:
    """By workflow and status."""
    counts = await service.penstock.counts(tenant=seen_by(principal, tenant))
    items = [
        {"workflow": workflow, "status": status, "count": count} for (workflow, status), count in sorted(counts.items())
    ]
    return answer({"items": items, "total": sum(counts.values())})
