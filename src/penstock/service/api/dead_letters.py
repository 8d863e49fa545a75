"""`/api/v1/dead-letters`: jobs that failed and have not run again, which wait for a person."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Response

from penstock.app import Penstock
from penstock.engine.audit import Actor
from penstock.engine.errors import InvalidRequest
from penstock.service.access.guard import Operator, Reader
from penstock.service.api import shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import problems
from penstock.service.api.limits import Taking
from penstock.service.api.paging import DEFAULT_LIMIT, Cursor, Limit, id_of, next_cursor, page
from penstock.service.api.problems import invalid
from penstock.service.api.tenancy import seen_by
from penstock.service.state import Serving
from penstock.shapes import summary

router = APIRouter(prefix="/dead-letters", tags=["dead letters"], route_class=JsonRoute)

AT_A_TIME = 100


@router.get(
    "",
    operation_id="listDeadLetters",
    summary="List dead letters",
    response_model=shapes.JobPage,
    responses=problems(path="/api/v1/dead-letters"),
)
async def list_dead_letters(
    principal: Reader,
    service: Serving,
    tenant: shapes.OfTenant = None,
    workflow: shapes.OfWorkflow = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Failed jobs whose key has not run again, newest first."""
    found = await service.penstock.jobs(
        tenant=seen_by(principal, tenant), workflow=workflow, dead=True, before=id_of(cursor), limit=limit, brief=True
    )
    more = next_cursor(found[-1].id) if len(found) == limit else None
    return answer(page([summary(job) for job in found], more))


@router.post(
    "/retry",
    operation_id="retryDeadLetters",
    summary="Run dead letters again",
    response_model=shapes.DeadLettersRetried,
    responses=problems(413, 415, 429, path="/api/v1/dead-letters/retry"),
)
async def retry_dead_letters(
    body: shapes.DeadLetterRetryBody, principal: Operator, service: Serving, intake: Taking
) -> Response:
    """Those with these `ids`, or the newest of a `workflow`; at most 1,000. Each is done or refused by itself, and the
    answer says which. Asked again with the same `ids`, nothing runs twice; with a `workflow`, the next ones run."""
    penstock = service.penstock
    if (body.ids is None) == (body.workflow is None):
        raise invalid("body", "name either ids or a workflow")
    tenant = seen_by(principal, body.tenant)
    if body.ids is None:
        found = await penstock.jobs(tenant=tenant, workflow=body.workflow, dead=True, limit=body.limit, brief=True)
        ids = [job.id for job in found]
        dead = set(ids)
    else:
        ids = list(dict.fromkeys(body.ids))
        known = await penstock.jobs(tenant=tenant, ids=ids, dead=True, limit=len(ids), brief=True)
        dead = {job.id for job in known}
    if dead:
        await intake.admit(len(dead))
    items: list[dict[str, Any]] = []
    for start in range(0, len(ids), AT_A_TIME):
        asked = ids[start : start + AT_A_TIME]
        items += await asyncio.gather(*(_retried(penstock, one, one in dead, principal.actor) for one in asked))
    retried = sum(item["job"] is not None for item in items)
    return answer({"items": items, "retried": retried, "refused": len(items) - retried})


async def _retried(penstock: Penstock, job_id: str, dead: bool, actor: Actor) -> dict[str, Any]:
    if not dead:
        return {"id": job_id, "job": None, "error": f"there is no dead letter {job_id}"}
    try:
        job = await penstock.retry(job_id, actor=actor)
    except InvalidRequest as error:
        return {"id": job_id, "job": None, "error": str(error)}
    return {"id": job_id, "job": job.id, "error": None}
