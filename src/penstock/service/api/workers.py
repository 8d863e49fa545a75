"""`/api/v1/workers`: who runs jobs."""

from __future__ import annotations

from fastapi import APIRouter, Response
from pydantic_core import from_json

from penstock.service.access.guard import Unbound
from penstock.service.api import resource_shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import problems
from penstock.service.state import Serving
from penstock.times import utc

router = APIRouter(prefix="/workers", tags=["workers"], route_class=JsonRoute)


@router.get(
    "",
    operation_id="listWorkers",
    summary="List workers",
    response_model=resource_shapes.Workers,
    responses=problems(path="/api/v1/workers"),
)
async def list_workers(principal: Unbound, service: Serving) -> Response:
    """All processes that run jobs, on all machines. For tokens that are not bound to a tenant."""
    store = service.penstock.engine.store
    now = await store.now()
    items = [
        {
            "id": worker.id,
            "alive": worker.expires > now,
            "holds": worker.holds,
            "started": utc(worker.started),
            "seen": utc(worker.seen),
            "expires": utc(worker.expires),
            "info": from_json(worker.info),
        }
        for worker in await store.workers()
    ]
    return answer({"items": items})
