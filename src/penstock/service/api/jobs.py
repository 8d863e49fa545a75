"""`/api/v1/jobs`: start work, look at it, steer it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from penstock.app import Penstock
from penstock.engine.errors import Conflict, KeyReused, NotFound
from penstock.engine.model import Job, NewJob, Status
from penstock.service.access.guard import Operator, Reader
from penstock.service.access.principal import Principal
from penstock.service.api import shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import problems
from penstock.service.api.limits import Taking
from penstock.service.api.once import IdempotencyKey, once_for
from penstock.service.api.paging import DEFAULT_LIMIT, Cursor, Limit, id_of, next_cursor, page, place_of
from penstock.service.api.priority import urgency
from penstock.service.api.problems import Problem, conflict
from penstock.service.api.starting import check_startable
from penstock.service.api.tenancy import owner_for, seen_by
from penstock.service.state import Serving
from penstock.shapes import batch_state, detail, happening, log_line, summary

router = APIRouter(prefix="/jobs", tags=["jobs"], route_class=JsonRoute)

AT_A_TIME = 250
"""Jobs that are checked before others get their turn on the event loop."""

LINES_SHOWN = 1000

Statuses = Annotated[list[Status], Query(description="Only these; may be repeated.")]


async def job_seen(penstock: Penstock, principal: Principal, job_id: str) -> Job:
    """The job, or `NotFound`: another tenant's is not there."""
    job = await penstock.job(job_id)
    principal.check_sees(job.tenant, f"job {job_id}")
    return job


@router.get(
    "",
    operation_id="listJobs",
    summary="List jobs",
    response_model=shapes.JobPage,
    responses=problems(path="/api/v1/jobs"),
)
async def list_jobs(
    principal: Reader,
    service: Serving,
    tenant: shapes.OfTenant = None,
    workflow: shapes.OfWorkflow = None,
    status: Statuses = [],  # noqa: B006
    key: shapes.OfKey = None,
    batch: shapes.OfBatch = None,
    parent: Annotated[str | None, Query(pattern=shapes.ID, description="Only those that this job started.")] = None,
    dead: Annotated[bool, Query(description="Only dead letters: failed, and their key has not run again.")] = False,
    include: Annotated[Literal["payload"] | None, Query(description="`payload`: with payload and result.")] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Newest first. What is submitted meanwhile moves no page."""
    found = await service.penstock.jobs(
        tenant=seen_by(principal, tenant),
        workflow=workflow,
        status=status,
        key=key,
        batch=batch,
        parent=parent,
        dead=dead,
        before=id_of(cursor),
        limit=limit,
        brief=not include,
    )
    shown = detail if include else summary
    more = next_cursor(found[-1].id) if len(found) == limit else None
    return answer(page([shown(job) for job in found], more))


@router.post(
    "",
    operation_id="submitJob",
    summary="Start a job",
    status_code=201,
    response_model=shapes.Submitted,
    responses={
        200: {"model": shapes.Submitted, "description": "The key existed already: this is its job."},
        **problems(404, 409, 413, 415, 429, path="/api/v1/jobs"),
    },
)
async def submit_job(
    body: shapes.SubmitBody,
    request: Request,
    principal: Operator,
    service: Serving,
    intake: Taking,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Durable when this answers. A key that exists answers with its job, and with 409 if its payload was another one.

    429 when as many jobs wait as the service takes."""
    penstock = service.penstock
    check_startable(service, body.workflow)
    tenant = owner_for(principal, body.tenant)
    once = await once_for(request, idempotency_key, tenant, "submitJob")
    await intake.admit(1, once)
    try:
        told = await penstock.submit(
            body.workflow,
            body.payload,
            key=body.key,
            tenant=tenant,
            again=body.again,
            after=body.after,
            priority=urgency(penstock, body.workflow, body.priority),
            queue=body.queue,
            batch=body.batch,
            budget=body.budget,
            actor=principal.actor,
            once=once,
        )
    except KeyReused:
        raise
    except Conflict as error:
        raise await _in_the_way(penstock, error) from error
    job = await penstock.job(told.job_id)
    status = 201 if told.created else 200
    return answer({"job": detail(job), "created": told.created}, status, Location=f"/api/v1/jobs/{job.id}")


@router.post(
    "/many",
    operation_id="submitJobs",
    summary="Start many jobs",
    status_code=201,
    response_model=shapes.SubmittedMany,
    responses={
        200: {"model": shapes.SubmittedMany, "description": "All keys existed already."},
        **problems(404, 409, 413, 415, 429, path="/api/v1/jobs/many"),
    },
)
async def submit_jobs(
    body: shapes.SubmitManyBody,
    request: Request,
    principal: Operator,
    service: Serving,
    intake: Taking,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Up to 10,000, in one transaction: all of them are stored, or none."""
    for workflow in {new.workflow for new in body.jobs}:
        check_startable(service, workflow)
    tenant = owner_for(principal, body.tenant)
    once = await once_for(request, idempotency_key, tenant, "submitJobs")
    await intake.admit(len(body.jobs), once)
    jobs: list[NewJob] = []
    for start in range(0, len(body.jobs), AT_A_TIME):
        jobs += [_new(service.penstock, new, tenant) for new in body.jobs[start : start + AT_A_TIME]]
        await asyncio.sleep(0)
    try:
        told = await service.penstock.engine.submit(jobs, actor=principal.actor, once=once)
    except KeyReused:
        raise
    except Conflict as error:
        raise await _in_the_way(service.penstock, error) from error
    created = sum(one.created for one in told)
    items = [{"id": one.job_id, "created": one.created, "run": one.run, "status": one.status} for one in told]
    return answer({"jobs": items, "created": created}, 201 if created else 200)


async def _in_the_way(penstock: Penstock, error: Conflict) -> Problem:
    """The job that has the key, or the batch that takes no more members. Two of one request that disagree have none."""
    try:
        if error.job is not None:
            return conflict(error, id=error.job, state=(await penstock.job(error.job)).status)
        if error.batch is not None:
            return conflict(error, id=error.batch, state=batch_state(await penstock.batch(error.batch)))
    except NotFound:
        pass
    return conflict(error, id=None, state=None)


def _new(penstock: Penstock, new: shapes.NewJobBody, tenant: str) -> NewJob:
    return penstock.engine.new_job(
        new.workflow,
        new.payload,
        key=new.key,
        tenant=tenant,
        again=new.again,
        after=new.after,
        priority=urgency(penstock, new.workflow, new.priority),
        queue=new.queue,
        batch=new.batch,
    )


@router.get(
    "/{job_id}",
    operation_id="getJob",
    summary="Show a job",
    response_model=shapes.JobDetail,
    responses=problems(404),
)
async def get_job(job_id: shapes.JobId, principal: Reader, service: Serving) -> Response:
    """Where it is, and its payload and result."""
    return answer(detail(await job_seen(service.penstock, principal, job_id)))


@router.get(
    "/{job_id}/timeline",
    operation_id="getJobTimeline",
    summary="What happened to a job",
    response_model=shapes.Timeline,
    responses=problems(404),
)
async def get_timeline(
    job_id: shapes.JobId, principal: Reader, service: Serving, limit: Limit = 200, cursor: Cursor = None
) -> Response:
    """Its ticks, crashes that were noticed, and what people asked for; oldest first."""
    place = place_of(cursor, int)
    await job_seen(service.penstock, principal, job_id)
    found = await service.penstock.history_page(job_id, after=place[0] if place else 0, limit=limit + 1)
    shown = found[:limit]
    more = next_cursor(shown[-1][0]) if len(found) > limit else None
    return answer(page([happening(event) for _, event in shown], more))


@router.get(
    "/{job_id}/logs",
    operation_id="getJobLogs",
    summary="What a job's steps said",
    response_model=shapes.Logs,
    responses=problems(404),
)
async def get_logs(job_id: shapes.JobId, principal: Reader, service: Serving) -> Response:
    """What its steps wrote with `ctx.log`: the last thousand lines, oldest first. A job keeps its last 2,000 lines:
    older ones are dropped."""
    await job_seen(service.penstock, principal, job_id)
    lines = await service.penstock.logs(job_id, limit=LINES_SHOWN + 1)
    return answer({"items": [log_line(line) for line in lines[-LINES_SHOWN:]], "older": len(lines) > LINES_SHOWN})


_CONTROL: dict[str, Any] = {"response_model": shapes.JobSummary, "responses": problems(404, 409, 415)}
_CONTROL_WITH_BODY: dict[str, Any] = {**_CONTROL, "responses": problems(404, 409, 413, 415)}


@router.post("/{job_id}/pause", operation_id="pauseJob", summary="Pause a job", **_CONTROL_WITH_BODY)
async def pause_job(
    job_id: shapes.JobId, principal: Operator, service: Serving, body: shapes.ReasonBody | None = None
) -> Response:
    """It stops at the next gate; a tick in flight commits first. Calls that are paid for are still collected."""
    doing = partial(service.penstock.pause, reason=body.reason if body else None)
    return await _steered(service.penstock, principal, job_id, doing)


@router.post("/{job_id}/resume", operation_id="resumeJob", summary="Let a paused job go on", **_CONTROL)
async def resume_job(job_id: shapes.JobId, principal: Operator, service: Serving) -> Response:
    """It goes on where it stopped."""
    return await _steered(service.penstock, principal, job_id, service.penstock.resume)


@router.post("/{job_id}/cancel", operation_id="cancelJob", summary="Cancel a job", **_CONTROL_WITH_BODY)
async def cancel_job(
    job_id: shapes.JobId, principal: Operator, service: Serving, body: shapes.ReasonBody | None = None
) -> Response:
    """It stops for good: its clean-up step runs, if there is one, then it is `canceled`."""
    doing = partial(service.penstock.cancel, reason=body.reason if body else None)
    return await _steered(service.penstock, principal, job_id, doing)


@router.post("/{job_id}/retry", operation_id="retryJob", summary="Run a failed job again", **_CONTROL)
async def retry_job(job_id: shapes.JobId, principal: Operator, service: Serving) -> Response:
    """Answers its next run, which begins at the step that failed; a parked job goes on under its own id."""
    return await _steered(service.penstock, principal, job_id, service.penstock.retry)


async def _steered(
    penstock: Penstock, principal: Principal, job_id: str, act: Callable[..., Awaitable[Job]]
) -> Response:
    """`act` is asked of the job in the name of who asks."""
    await job_seen(penstock, principal, job_id)
    try:
        return answer(summary(await act(job_id, actor=principal.actor)))
    except Conflict as error:
        raise conflict(error, id=job_id, state=(await penstock.job(job_id)).status) from error
