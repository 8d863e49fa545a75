"""`/api/v1/batches`: groups of jobs that end exactly once."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from penstock.app import FollowUp, Penstock
from penstock.engine.errors import Conflict, KeyReused
from penstock.engine.model import Batch
from penstock.service.access.guard import Operator, Reader
from penstock.service.access.principal import Principal
from penstock.service.api import shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import problems
from penstock.service.api.limits import Taking
from penstock.service.api.once import IdempotencyKey, once_for
from penstock.service.api.paging import DEFAULT_LIMIT, Cursor, Limit, id_of, next_cursor, page, place_of
from penstock.service.api.priority import urgency
from penstock.service.api.problems import conflict
from penstock.service.api.starting import check_startable
from penstock.service.api.tenancy import owner_for, seen_by
from penstock.service.state import Serving
from penstock.shapes import batch_line, batch_state, summary

router = APIRouter(prefix="/batches", tags=["batches"], route_class=JsonRoute)

_PATH = f"/api/v1/batches/{shapes.EXAMPLE_ID}"


async def batch_seen(penstock: Penstock, principal: Principal, batch_id: str) -> Batch:
    batch = await penstock.batch(batch_id)
    principal.check_sees(batch.tenant, f"batch {batch_id}")
    return batch


@router.get(
    "",
    operation_id="listBatches",
    summary="List batches",
    response_model=shapes.BatchPage,
    responses=problems(path="/api/v1/batches"),
)
async def list_batches(
    principal: Reader,
    service: Serving,
    tenant: shapes.OfTenant = None,
    key: shapes.OfKey = None,
    open: Annotated[bool | None, Query(description="Only those that have not ended, or only those that have.")] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Newest first."""
    found = await service.penstock.batches(
        tenant=seen_by(principal, tenant), key=key, open=open, before=id_of(cursor), limit=limit
    )
    more = next_cursor(found[-1].id) if len(found) == limit else None
    return answer(page([batch_line(batch) for batch in found], more))


@router.post(
    "",
    operation_id="openBatch",
    summary="Open a batch",
    status_code=201,
    response_model=shapes.BatchSummary,
    responses={
        200: {"model": shapes.BatchSummary, "description": "The key existed already: this is its batch."},
        **problems(404, 409, 413, 415, path="/api/v1/batches"),
    },
)
async def open_batch(
    body: shapes.BatchBody,
    request: Request,
    principal: Operator,
    service: Serving,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Submit jobs with its id as their `batch`, then seal it: when all of them have ended, the job in `then` starts."""
    penstock = service.penstock
    tenant = owner_for(principal, body.tenant)
    once = await once_for(request, idempotency_key, tenant, "openBatch")
    before = await penstock.batches(tenant=tenant, key=body.key, limit=1) if body.key else []
    then = None
    if body.then is not None:
        check_startable(service, body.then.workflow)
        priority = urgency(penstock, body.then.workflow, body.then.priority)
        then = FollowUp(
            workflow=body.then.workflow, payload=body.then.payload, priority=priority, queue=body.then.queue
        )
    try:
        batch = await penstock.open_batch(
            key=body.key,
            tenant=tenant,
            limit=body.limit,
            then=then,
            budget=body.budget,
            actor=principal.actor,
            once=once,
        )
    except KeyReused:
        raise
    except Conflict as error:
        if not before:
            raise
        raise conflict(error, id=before[0].id, state=batch_state(before[0])) from error
    status = 200 if before and before[0].id == batch.id else 201
    return answer(batch_line(batch), status, Location=f"/api/v1/batches/{batch.id}")


@router.get(
    "/{batch_id}",
    operation_id="getBatch",
    summary="Show a batch",
    response_model=shapes.BatchSummary,
    responses=problems(404, path=_PATH),
)
async def get_batch(batch_id: shapes.BatchId, principal: Reader, service: Serving) -> Response:
    """How many members it has, and how they ended."""
    return answer(batch_line(await batch_seen(service.penstock, principal, batch_id)))


@router.get(
    "/{batch_id}/members",
    operation_id="listBatchMembers",
    summary="List a batch's members",
    response_model=shapes.MemberPage,
    responses=problems(404, path=_PATH),
)
async def list_members(
    batch_id: shapes.BatchId,
    principal: Reader,
    service: Serving,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """By id. A member's job may be gone, by retention; how it ended is kept."""
    place = place_of(cursor, str)
    penstock = service.penstock
    batch = await batch_seen(penstock, principal, batch_id)
    members = await penstock.engine.store.members(batch_id, after=place[0] if place else "", limit=limit)
    ids = [member.job for member in members]
    jobs = await penstock.jobs(tenant=batch.tenant, ids=ids, limit=len(ids), brief=True) if ids else []
    known: dict[str, Any] = {job.id: summary(job) for job in jobs}
    items = [{"id": member.job, "ended": member.ended, "job": known.get(member.job)} for member in members]
    return answer(page(items, next_cursor(ids[-1]) if len(ids) == limit else None))


@router.post(
    "/{batch_id}/seal",
    operation_id="sealBatch",
    summary="Seal a batch",
    response_model=shapes.BatchSummary,
    responses=problems(404, 409, 415, path=_PATH),
)
async def seal_batch(batch_id: shapes.BatchId, principal: Operator, service: Serving) -> Response:
    """No more members: it ends when those it has have ended. Sealing a sealed one changes nothing."""
    penstock = service.penstock
    await batch_seen(penstock, principal, batch_id)
    try:
        return answer(batch_line(await penstock.seal_batch(batch_id, actor=principal.actor)))
    except Conflict as error:
        raise conflict(error, id=batch_id, state=batch_state(await penstock.batch(batch_id))) from error


@router.post(
    "/{batch_id}/retry",
    operation_id="retryBatch",
    summary="Run again what failed in a batch",
    status_code=201,
    response_model=shapes.BatchSummary,
    responses=problems(404, 409, 415, 429, path=_PATH),
)
async def retry_batch(
    batch_id: shapes.BatchId,
    request: Request,
    principal: Operator,
    service: Serving,
    intake: Taking,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Answers a new batch, the next generation: what completed is kept, what failed runs again, and the follow-up
    starts once more after that."""
    penstock = service.penstock
    batch = await batch_seen(penstock, principal, batch_id)
    once = await once_for(request, idempotency_key, batch.tenant, "retryBatch")
    await intake.admit(batch.failed, once)
    try:
        following = await penstock.retry_batch(batch_id, actor=principal.actor, once=once)
    except KeyReused:
        raise
    except Conflict as error:
        raise conflict(error, id=batch_id, state=batch_state(await penstock.batch(batch_id))) from error
    return answer(batch_line(following), 201, Location=f"/api/v1/batches/{following.id}")
