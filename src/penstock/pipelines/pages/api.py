"""`/pages/runs`: start runs, look at them, steer them. Runs are jobs, so the routes for jobs work on them, too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from penstock.engine.errors import Conflict, KeyReused
from penstock.engine.model import Job, Status
from penstock.pipelines.pages import api_models as models
from penstock.pipelines.pages import asking, reading
from penstock.pipelines.pages.answers import (
    attempt_line,
    batch_line,
    book_line,
    overview_line,
    page_line,
    run_detail,
    run_line,
)
from penstock.pipelines.pages.looking import newest, page_seen, seen, task_of
from penstock.pipelines.pages.roots import checked_run
from penstock.pipelines.pages.workflow import pages
from penstock.service.access.guard import Operator, Reader
from penstock.service.access.principal import Principal
from penstock.service.api import shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import problems
from penstock.service.api.limits import Taking
from penstock.service.api.once import IdempotencyKey, once_for
from penstock.service.api.paging import DEFAULT_LIMIT, Cursor, Limit, id_of, next_cursor, page, place_of
from penstock.service.api.problems import conflict
from penstock.service.api.tenancy import owner_for, seen_by
from penstock.service.state import Service, Serving

router = APIRouter(prefix="/pages/runs", tags=["pages"], route_class=JsonRoute)

MOST_BATCHES = 2**31 - 1
"""As many as a column of numbers can tell."""

_EXAMPLE = {"requestBody": {"required": True, "content": {"application/json": {"example": models.EXAMPLE_RUN}}}}


@router.post(
    "",
    operation_id="startPagesRun",
    summary="Start a run",
    status_code=201,
    response_model=models.RunStarted,
    responses={
        200: {"model": models.RunStarted, "description": "The folder has a run with this very configuration."},
        **problems(404, 409, 413, 415, 429, path="/pages/runs"),
    },
    openapi_extra=_EXAMPLE,
)
async def start_run(
    request: Request,
    principal: Operator,
    service: Serving,
    intake: Taking,
    body: models.RunBody = None,
    tenant: shapes.OfTenant = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """The body is what the configuration file holds. All folders must lie within `pages.roots` of the service's
    configuration; relative ones are in the first of these. 409 while another configuration writes to the same folder.
    """
    owner = owner_for(principal, tenant)
    once = await once_for(request, idempotency_key, owner, "startPagesRun")
    run = await asyncio.to_thread(checked_run, body, service.settings.pages.roots, owner)
    await intake.admit(1, once)
    try:
        told = await asking.start(service.penstock, run, tenant=owner, actor=principal.actor, once=once)
    except KeyReused:
        raise
    except Conflict as error:
        state = (await service.penstock.job(error.job)).status if error.job else None
        raise conflict(error, id=error.job, state=state) from error
    found = await seen(service.penstock, principal, told.job_id)
    content = {"run": run_line(found.job, found.task), "created": told.created}
    return answer(content, 201 if told.created else 200, Location=f"/pages/runs/{found.job.id}")


@router.get(
    "",
    operation_id="listPagesRuns",
    summary="List runs",
    response_model=models.RunPage,
    responses=problems(path="/pages/runs"),
)
async def list_runs(
    principal: Reader,
    service: Serving,
    tenant: shapes.OfTenant = None,
    status: Annotated[list[Status], Query(description="Only these; may be repeated.")] = [],  # noqa: B006
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Newest first."""
    found = await service.penstock.jobs(
        tenant=seen_by(principal, tenant), workflow=pages.name, status=status, before=id_of(cursor), limit=limit
    )
    more = next_cursor(found[-1].id) if len(found) == limit else None
    items = [run_line(job, task) for job in found if (task := task_of(job)) is not None]
    return answer(page(items, more))


@router.get(
    "/{run_id}",
    operation_id="getPagesRun",
    summary="Show a run",
    response_model=models.RunShown,
    responses=problems(404, path=models.PATH),
)
async def get_run(run_id: models.RunId, principal: Reader, service: Serving) -> Response:
    """What it was started with, and how far its output folder is."""
    found = await seen(service.penstock, principal, run_id)
    told = await reading.overview(service.penstock.engine, found.ledger, found.run)
    last = await newest(service.penstock, found)
    return answer({"run": run_detail(found.job, found.task, last.id), "overview": overview_line(told)})


@router.get(
    "/{run_id}/books",
    operation_id="listPagesBooks",
    summary="List a run's books",
    response_model=models.BookPage,
    responses=problems(404, path=f"{models.PATH}/books"),
)
async def list_books(
    run_id: models.RunId,
    principal: Reader,
    service: Serving,
    state: models.OfState = None,
    school: models.OfSchool = None,
    year: models.OfYear = None,
    only: models.Only = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """By state, school and year, each with the states of its pages."""
    place = place_of(cursor, str)
    found = await seen(service.penstock, principal, run_id)
    rows = await reading.books(
        service.penstock.engine,
        found.ledger,
        state=state,
        school=school,
        year=year,
        only=only,
        after=place[0] if place else None,
        limit=limit,
    )
    more = next_cursor(rows[-1].book) if len(rows) == limit else None
    return answer(page([book_line(row) for row in rows], more))


@router.get(
    "/{run_id}/pages/{key}",
    operation_id="getPagesPage",
    summary="Show a page",
    response_model=models.PageShown,
    responses=problems(404, path=f"{models.PATH}/pages/{models.EXAMPLE_KEY}"),
)
async def get_page(run_id: models.RunId, key: models.Key, principal: Reader, service: Serving) -> Response:
    """Its state, what was read from it, the context it got, and every failed attempt with what Gemini answered."""
    found = await seen(service.penstock, principal, run_id)
    return answer(page_line(await page_seen(service.penstock.engine, found, key)))


@router.get(
    "/{run_id}/batches",
    operation_id="listPagesBatches",
    summary="List a run's batches",
    response_model=models.BatchPage,
    responses=problems(404, path=f"{models.PATH}/batches"),
)
async def list_batches(
    run_id: models.RunId,
    principal: Reader,
    service: Serving,
    active: Annotated[bool | None, Query(description="Only those that have not ended, or those that have.")] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Newest first, of every run that writes to the same folder."""
    place = place_of(cursor, int)
    found = await seen(service.penstock, principal, run_id)
    rows = await reading.batches(
        service.penstock.engine,
        found.ledger,
        active=active,
        before=min(place[0], MOST_BATCHES) if place else None,
        limit=limit,
    )
    more = next_cursor(rows[-1].number) if len(rows) == limit else None
    return answer(page([batch_line(row) for row in rows], more))


@router.get(
    "/{run_id}/failures",
    operation_id="listPagesFailures",
    summary="List failed attempts",
    response_model=models.FailurePage,
    responses=problems(404, path=f"{models.PATH}/failures"),
)
async def list_failures(
    run_id: models.RunId,
    principal: Reader,
    service: Serving,
    type: Annotated[str | None, Query(max_length=40, description="Only of this type.", examples=["schema"])] = None,
    state: models.OfState = None,
    by: Annotated[
        Literal["type", "state", "school"] | None, Query(description="Count them by this instead, over all of them.")
    ] = None,
    include: Annotated[Literal["raw"] | None, Query(description="`raw`: with what Gemini answered.")] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Newest first."""
    place = place_of(cursor, int)
    engine = service.penstock.engine
    found = await seen(service.penstock, principal, run_id)
    if by is not None:
        counted = await reading.failure_groups(engine, found.ledger, by)
        groups = [{"group": group, "attempts": attempts, "pages": many} for group, attempts, many in counted]
        return answer({**page([], None), "groups": groups})
    rows = await reading.attempts(
        engine,
        found.ledger,
        type=type,
        state=state,
        before=place[0] if place else None,
        limit=limit,
        whole=include == "raw",
    )
    more = next_cursor(rows[-1].id) if len(rows) == limit else None
    return answer({**page([attempt_line(row) for row in rows], more), "groups": None})


@router.post(
    "/{run_id}/retry",
    operation_id="retryPages",
    summary="Try dead pages again",
    response_model=models.Retried,
    responses=problems(404, 409, 413, 415, 429, path=f"{models.PATH}/retry"),
)
async def retry(
    run_id: models.RunId,
    principal: Operator,
    service: Serving,
    intake: Taking,
    body: models.RetryBody | None = None,
) -> Response:
    """The run comes to it at its next tick; where it has ended, the next run is started."""
    asked = body or models.RetryBody()
    penstock = service.penstock
    found = await seen(penstock, principal, run_id)
    if not asked.dry_run:
        await intake.admit(1)
    detail = asked.model_dump(exclude_none=True, exclude={"dry_run"})
    count = await asking.retry(penstock, found.job, detail, actor=principal.actor, dry_run=asked.dry_run)
    return answer({"pages": count, "run": _line(await asking.newest_run(penstock, found.job))})


@router.post(
    "/{run_id}/rescan",
    operation_id="rescanPages",
    summary="Read the trees again",
    response_model=models.Rescanned,
    responses=problems(404, 409, 413, 415, 429, path=f"{models.PATH}/rescan"),
)
async def rescan(
    run_id: models.RunId,
    principal: Operator,
    service: Serving,
    intake: Taking,
    body: models.RescanBody | None = None,
) -> Response:
    """Whatever the times of the folders say. The run comes to it at its next tick; where it has ended, the next run is
    started."""
    penstock = service.penstock
    found = await seen(penstock, principal, run_id)
    await intake.admit(1)
    detail = (body or models.RescanBody()).model_dump(exclude_none=True)
    await asking.rescan(penstock, found.job, detail, actor=principal.actor)
    return answer({"run": _line(await asking.newest_run(penstock, found.job))})


_CONTROL: dict[str, Any] = {
    "response_model": models.RunSummary, "responses": problems(404, 409, 415, path=models.PATH)
}  # fmt: skip
_CONTROL_WITH_BODY: dict[str, Any] = {**_CONTROL, "responses": problems(404, 409, 413, 415, path=models.PATH)}


@router.post("/{run_id}/pause", operation_id="pausePagesRun", summary="Pause a run", **_CONTROL_WITH_BODY)
async def pause_run(
    run_id: models.RunId, principal: Operator, service: Serving, body: shapes.ReasonBody | None = None
) -> Response:
    """Nothing new is submitted; batches that are paid for are still collected when it goes on."""
    return await _steered(
        service, principal, run_id, partial(service.penstock.pause, reason=body.reason if body else None)
    )


@router.post("/{run_id}/resume", operation_id="resumePagesRun", summary="Let a paused run go on", **_CONTROL)
async def resume_run(run_id: models.RunId, principal: Operator, service: Serving) -> Response:
    """It goes on where it stopped."""
    return await _steered(service, principal, run_id, service.penstock.resume)


@router.post("/{run_id}/cancel", operation_id="cancelPagesRun", summary="Cancel a run", **_CONTROL_WITH_BODY)
async def cancel_run(
    run_id: models.RunId, principal: Operator, service: Serving, body: shapes.ReasonBody | None = None
) -> Response:
    """It stops for good, and its batches are stopped at Gemini. What they still bring is kept."""
    return await _steered(
        service, principal, run_id, partial(service.penstock.cancel, reason=body.reason if body else None)
    )


async def _steered(service: Service, principal: Principal, run_id: str, act: Callable[..., Awaitable[Job]]) -> Response:
    await seen(service.penstock, principal, run_id)
    try:
        return answer(_line(await act(run_id, actor=principal.actor)))
    except Conflict as error:
        raise conflict(error, id=run_id, state=(await service.penstock.job(run_id)).status) from error


def _line(job: Job) -> dict[str, Any]:
    task = task_of(job)
    assert task is not None, "a run that was seen has been told what to do"
    return run_line(job, task)
