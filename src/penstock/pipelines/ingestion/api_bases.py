"""`/kb`: knowledge bases, what is in them, searching them, and whether they are sound."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, get_args

from fastapi import APIRouter, Request, Response

from penstock.engine.errors import Conflict, NotFound, Permanent, StepError
from penstock.pipelines.ingestion import api_models as models
from penstock.pipelines.ingestion import bases, control, planning, reading, searching, verifying
from penstock.pipelines.ingestion.answers import (
    base_detail,
    base_line,
    document_line,
    error_line,
    hit_line,
    plan_line,
    run_line,
    verified_line,
)
from penstock.pipelines.ingestion.api_asked import configuration_asked, in_the_way
from penstock.pipelines.ingestion.bases import Base
from penstock.pipelines.ingestion.index import index_for
from penstock.pipelines.ingestion.status import status_of
from penstock.service.access.guard import Operator, Reader
from penstock.service.access.principal import Principal
from penstock.service.api import shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import problems
from penstock.service.api.limits import Taking
from penstock.service.api.paging import DEFAULT_LIMIT, Cursor, Limit, id_of, next_cursor, page, place_of
from penstock.service.api.problems import Problem, invalid
from penstock.service.api.tenancy import owner_for, seen_by
from penstock.service.state import Service, Serving

router = APIRouter(prefix="/kb", route_class=JsonRoute)

SEARCH_SECONDS = 20.0
"""After which nobody waits for a question any more."""

VERIFY_SECONDS = 3.0
"""Of comparing, in one request; the next one goes on."""

PLAN_READING, PLAN_SECONDS, PLANS_AT_ONCE = 5.0, 30.0, 2
"""Seconds of reading for a plan, and in all; and how many are made at the same time."""


@router.get(
    "",
    operation_id="listKnowledgeBases",
    summary="List knowledge bases",
    response_model=models.KnowledgeBasePage,
    responses=problems(path="/kb"),
)
async def list_bases(
    principal: Reader,
    service: Serving,
    tenant: shapes.OfTenant = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """By name, each with what is in it and how its newest run stands."""
    after = place_of(cursor, str, str)
    found = await reading.base_lines(
        service.penstock.engine, seen_by(principal, tenant), after=(after[0], after[1]) if after else None, limit=limit
    )
    more = next_cursor(found[-1].id, found[-1].tenant) if len(found) == limit else None
    return answer(page([base_line(line) for line in found], more))


@router.post(
    "/plan",
    operation_id="planIngestion",
    summary="What a run would come to",
    response_model=models.IngestionPlan,
    responses=problems(404, 409, 413, 415, 429, path="/kb/plan"),
)
async def plan(
    body: models.PlanIngestion,
    request: Request,
    principal: Operator,
    service: Serving,
    tenant: shapes.OfTenant = None,
) -> Response:
    """Documents, chunks, tokens, money and time, before it is started. Sources are read for a few seconds; what is not
    read by then is taken to be like the rest, and `exact` is false. Nothing is paid. The next run tells what it came to
    beside it."""
    owner = owner_for(principal, tenant)
    config = await configuration_asked(service, owner, body.kb_id, body)
    async with planning_turn(request):
        try:
            async with asyncio.timeout(PLAN_SECONDS):
                told = await planning.plan(
                    service.penstock, body.kb_id, config, rebuild=body.rebuild, tenant=owner, seconds=PLAN_READING
                )
        except TimeoutError as error:
            raise Problem(
                503,
                f"planning took more than {PLAN_SECONDS:g} s: `penstock ingest plan` takes its time",
                headers={"Retry-After": "60"},
            ) from error
        except Conflict as error:
            raise await in_the_way(service, error, owner, body.kb_id) from error
        except StepError as error:
            raise _unanswered(error, "the sources cannot be read", "body.sources") from error
    return answer(plan_line(told))


@asynccontextmanager
async def planning_turn(request: Request) -> AsyncIterator[None]:
    """A `Problem` where as many plans are being made as may be."""
    state = request.app.state
    if not hasattr(state, "ingestion_plans"):
        state.ingestion_plans = asyncio.Semaphore(PLANS_AT_ONCE)
    if state.ingestion_plans.locked():
        detail = f"{PLANS_AT_ONCE} plans are being made already: try again later"
        raise Problem(429, detail, headers={"Retry-After": str(round(PLAN_READING))})
    async with state.ingestion_plans:
        yield


@router.get(
    "/{kb_id}",
    operation_id="getKnowledgeBase",
    summary="Show a knowledge base",
    response_model=models.KnowledgeBaseDetail,
    responses=problems(404, path=models.PATH),
)
async def get_base(kb_id: models.KbId, principal: Reader, service: Serving, tenant: shapes.OfTenant = None) -> Response:
    """What is in it, what it is made from, and how its newest run stands."""
    penstock = service.penstock
    base = await _base(service, principal, kb_id, tenant)
    lines = await reading.base_lines(penstock.engine, base.tenant, named=base.id)
    if not lines:
        raise NotFound(f"there is no knowledge base {kb_id!r}")
    run = None if base.run is None else await bases.find_run(penstock.engine, base.run)
    status = None if run is None else await status_of(penstock, run)
    name = control.schedule_name(base.id)
    schedule = next((each for each in await penstock.schedules(tenant=base.tenant) if each.name == name), None)
    return answer(base_detail(lines[0], base, status, schedule))


@router.delete(
    "/{kb_id}",
    operation_id="deleteKnowledgeBase",
    summary="Delete a knowledge base",
    status_code=202,
    response_model=models.KbJob,
    responses=problems(404, 409, 415, path=models.PATH),
)
async def delete_base(
    kb_id: models.KbId, principal: Operator, service: Serving, tenant: shapes.OfTenant = None
) -> Response:
    """It is gone for everybody when this answers; a job then removes everything in it. 409 while a run is active."""
    owner = owner_for(principal, tenant)
    try:
        job = await control.forget(service.penstock, kb_id, tenant=owner, actor=principal.actor)
    except Conflict as error:
        raise await in_the_way(service, error, owner, kb_id) from error
    return answer({"kb_id": kb_id, "job_id": job}, 202, Location=f"/api/v1/jobs/{job}")


@router.get(
    "/{kb_id}/search",
    operation_id="searchKnowledgeBase",
    summary="Search a knowledge base",
    response_model=models.SearchAnswer,
    responses=problems(404, path=f"{models.PATH}/search?q=pause"),
)
async def search(
    kb_id: models.KbId,
    principal: Reader,
    service: Serving,
    q: models.Question,
    top: models.Top = 10,
    mode: models.OfMode = "hybrid",
    filter: models.Filters = [],  # noqa: B006
    tenant: shapes.OfTenant = None,
) -> Response:
    """The best chunks, each with the document it comes from and where it stands there."""
    owner, wanted = owner_for(principal, tenant), _wanted(filter)
    try:
        async with asyncio.timeout(SEARCH_SECONDS):
            hits = await searching.search(
                service.penstock.engine, kb_id, q, tenant=owner, top=top, mode=mode, filter=wanted
            )
    except TimeoutError as error:
        detail = f"searching took more than {SEARCH_SECONDS:g} s: ask for less, or with a filter that keeps more"
        raise Problem(503, detail, headers={"Retry-After": "5"}) from error
    except StepError as error:
        raise _unanswered(error, "the question cannot be embedded", "query.q") from error
    return answer({"kb_id": kb_id, "mode": mode, "hits": [hit_line(hit) for hit in hits]})


def _wanted(filters: Sequence[str]) -> dict[str, str]:
    wanted: dict[str, str] = {}
    for number, told in enumerate(filters):
        key, colon, value = told.partition(":")
        if not colon or not key or not value:
            raise invalid(f"query.filter.{number}", "must be a key and a value: language:en")
        if key in wanted:
            raise invalid(f"query.filter.{number}", "names a key for the second time")
        wanted[key] = value
    return wanted


def _unanswered(error: StepError, words: str, location: str) -> Problem:
    """Somebody else was asked, and refused for good or did not answer."""
    if isinstance(error, Permanent):
        return invalid(location, f"{words}: {error}")
    return Problem(503, f"{words} now: {error}", headers={"Retry-After": "5"})


@router.get(
    "/{kb_id}/documents",
    operation_id="listKnowledgeBaseDocuments",
    summary="List a knowledge base's documents",
    response_model=models.KbDocumentPage,
    responses=problems(404, path=f"{models.PATH}/documents"),
)
async def list_documents(
    kb_id: models.KbId,
    principal: Reader,
    service: Serving,
    tenant: shapes.OfTenant = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Those that can be searched now, in the order in which they came."""
    place = place_of(cursor, int)
    base = await _base(service, principal, kb_id, tenant)
    if base.edition is None:
        return answer(page([], None))
    found = await reading.documents(service.penstock.engine, base.edition, after=place[0] if place else 0, limit=limit)
    more = next_cursor(found[-1].n) if len(found) == limit else None
    return answer(page([document_line(line) for line in found], more))


@router.get(
    "/{kb_id}/errors",
    operation_id="listKnowledgeBaseErrors",
    summary="List what could not be taken in",
    response_model=models.KbErrorPage,
    responses=problems(404, path=f"{models.PATH}/errors"),
)
async def list_errors(
    kb_id: models.KbId,
    principal: Reader,
    service: Serving,
    tenant: shapes.OfTenant = None,
    run: models.OfRun = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Documents that could not be loaded and chunks that could not be embedded, newest first. `resume` with `errors`
    tries them again."""
    before = id_of(cursor)
    base = await _base(service, principal, kb_id, tenant)
    found = await reading.errors(service.penstock.engine, base.tenant, base.id, run=run, before=before, limit=limit)
    more = next_cursor(found[-1].id) if len(found) == limit else None
    return answer(page([error_line(line) for line in found], more))


@router.get(
    "/{kb_id}/runs",
    operation_id="listKnowledgeBaseRuns",
    summary="List a knowledge base's runs",
    response_model=models.IngestionRunPage,
    responses=problems(404, path=f"{models.PATH}/runs"),
)
async def list_runs(
    kb_id: models.KbId,
    principal: Reader,
    service: Serving,
    tenant: shapes.OfTenant = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Newest first."""
    before = id_of(cursor)
    base = await _base(service, principal, kb_id, tenant)
    found = await reading.run_lines(service.penstock.engine, base.tenant, base.id, before=before, limit=limit)
    more = next_cursor(found[-1].id) if len(found) == limit else None
    return answer(page([run_line(base.id, line) for line in found], more))


@router.get(
    "/{kb_id}/verify",
    operation_id="verifyKnowledgeBase",
    summary="Compare ledger and index",
    response_model=models.Verification,
    responses=problems(404, path=f"{models.PATH}/verify"),
)
async def verify(
    kb_id: models.KbId,
    principal: Reader,
    service: Serving,
    tenant: shapes.OfTenant = None,
    cursor: models.VerifyCursor = None,
) -> Response:
    """Both ways, for a few seconds: where not all of it was compared by then, `cursor` goes on. Safe while a run is at
    work."""
    place = _place(cursor)
    base = await _base(service, principal, kb_id, tenant)
    if base.edition is None:
        return answer(verified_line(kb_id, verifying.Verified(), None))
    engine = service.penstock.engine
    until = engine.clock.monotonic() + VERIFY_SECONDS
    found, further = await verifying.verify_from(
        engine, index_for(engine), base.edition, place, enough=lambda: engine.clock.monotonic() > until
    )
    return answer(verified_line(kb_id, found, None if further is None else next_cursor(*further)))


def _place(cursor: str | None) -> verifying.Place:
    place = place_of(cursor, str, int)
    if place is None:
        return verifying.START
    for stage in get_args(verifying.Stage):
        if stage == place[0]:
            return stage, place[1]
    raise invalid("query.cursor", "this is not a cursor of this list")


@router.post(
    "/{kb_id}/repair",
    operation_id="repairKnowledgeBase",
    summary="Mend what differs",
    status_code=202,
    response_model=models.KbJob,
    responses=problems(404, 409, 415, 429, path=f"{models.PATH}/repair"),
)
async def repair(
    kb_id: models.KbId, principal: Operator, service: Serving, intake: Taking, tenant: shapes.OfTenant = None
) -> Response:
    """A job makes the index say what the ledger says. Safe while a run is at work. Asked again before it has ended, it
    answers with the same job."""
    base = await _base(service, principal, kb_id, tenant)
    await intake.admit(1)
    told = await control.start_repair(service.penstock, base.id, tenant=base.tenant, actor=principal.actor)
    content: dict[str, Any] = {"kb_id": base.id, "job_id": told.job_id}
    return answer(content, 202, Location=f"/api/v1/jobs/{told.job_id}")


async def _base(service: Service, principal: Principal, name: str, tenant: str | None) -> Base:
    """Another tenant's is not there."""
    return await bases.base_of(service.penstock.engine, owner_for(principal, tenant), name)
