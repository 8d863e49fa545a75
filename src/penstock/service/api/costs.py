"""`/api/v1/costs`: what remote calls have used and cost."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime

from penstock.service.access.guard import Reader
from penstock.service.api import resource_shapes, shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import problems
from penstock.service.api.tenancy import seen_by
from penstock.service.state import Serving
from penstock.shapes import cost_amounts, cost_line, dearest_first, total_of

router = APIRouter(prefix="/costs", tags=["costs"], route_class=JsonRoute)

Time = Annotated[
    AwareDatetime | None,
    Query(description="RFC 3339, with its offset from UTC.", examples=["2026-03-01T00:00:00Z"]),
]


@router.get(
    "",
    operation_id="getCosts",
    summary="Add up costs",
    response_model=resource_shapes.Costs,
    responses=problems(path="/api/v1/costs"),
)
async def get_costs(
    principal: Reader,
    service: Serving,
    by: Annotated[
        list[resource_shapes.CostGroup], Query(max_length=6, description="Add up by these; may be repeated.")
    ] = ["workflow"],  # noqa: B006
    tenant: shapes.OfTenant = None,
    workflow: shapes.OfWorkflow = None,
    job: shapes.OfJob = None,
    batch: shapes.OfBatch = None,
    since: Time = None,
    until: Time = None,
) -> Response:
    """Dearest first; days stay in their order. Days are UTC."""
    names = tuple(dict.fromkeys(by))
    found = await service.penstock.costs(
        by=names,
        tenant=seen_by(principal, tenant),
        workflow=workflow,
        job=job,
        batch=batch,
        since=None if since is None else since.timestamp(),
        until=None if until is None else until.timestamp(),
    )
    lines = dearest_first(found, names)
    return answer(
        {
            "by": names,
            "costs": [cost_line(cost, names) for cost in lines],
            "total": cost_amounts(total_of(lines)),
        }
    )
