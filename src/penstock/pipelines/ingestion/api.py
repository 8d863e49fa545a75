"""`/jobs/…` and `/ingestion/jobs/…`: start runs that fill knowledge bases, look at them, steer them. The routes of the
knowledge bases themselves are in `api_bases`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from penstock.engine.errors import Conflict, KeyReused, NotFound
from penstock.pipelines.ingestion import api_models as models
from penstock.pipelines.ingestion import bases, control
from penstock.pipelines.ingestion.answers import status_line
from penstock.pipelines.ingestion.api_asked import configuration_asked, in_the_way
from penstock.pipelines.ingestion.api_bases import router as knowledge_bases
from penstock.pipelines.ingestion.bases import Run
from penstock.pipelines.ingestion.status import status_of
from penstock.service.access.guard import Operator, Reader
from penstock.service.access.principal import Principal
from penstock.service.api import shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import problems
from penstock.service.api.limits import Taking
from penstock.service.api.once import IdempotencyKey, once_for
from penstock.service.api.tenancy import owner_for, seen_by
from penstock.service.state import Service, Serving

router = APIRouter(tags=["ingestion"], route_class=JsonRoute)
router.include_router(knowledge_bases)

JOB, OF_BASE = f"/jobs/{shapes.EXAMPLE_ID}", f"/ingestion/jobs/{models.EXAMPLE_KB}"

Act = Callable[..., Awaitable[Any]]


async def start_ingestion(
    kb_id: models.KbId,
    request: Request,
    principal: Operator,
    service: Serving,
    intake: Taking,
    body: models.StartIngestion | None = None,
    tenant: shapes.OfTenant = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """What the body leaves out is as the knowledge base keeps it. Files and folders must lie within `ingestion.roots`
    of the service's configuration; relative ones are in the first of these.

    409 with the run's id and state while one is active, and where chunker or embedder differ from what the knowledge
    base is pinned to, unless `rebuild` is true."""
    owner, asked = owner_for(principal, tenant), body or models.StartIngestion()
    once = await once_for(request, idempotency_key, owner, "startIngestion")
    config = await configuration_asked(service, owner, kb_id, asked)
    await intake.admit(1, once)
    try:
        told = await control.start(
            service.penstock, kb_id, config, rebuild=asked.rebuild, tenant=owner, actor=principal.actor, once=once
        )
    except KeyReused:
        raise
    except Conflict as error:
        raise await in_the_way(service, error, owner, kb_id) from error
    return await _shown(service, told.job_id, 202)


for _prefix, _operation in (("", "startIngestion"), ("/ingestion", "startIngestionOf")):
    router.add_api_route(
        f"{_prefix}/jobs/{{kb_id}}/start",
        start_ingestion,
        methods=["POST"],
        operation_id=_operation,
        summary="Fill or refresh a knowledge base",
        status_code=202,
        response_model=models.IngestionStatus,
        responses=problems(404, 409, 413, 415, 429, path=f"{_prefix}/jobs/{models.EXAMPLE_KB}/start"),
    )


def _control(path: str, *statuses: int) -> dict[str, Any]:
    return {"response_model": models.IngestionStatus, "responses": problems(404, *statuses, path=path)}


@router.get(
    "/jobs/{id}/status",
    operation_id="getIngestionStatus",
    summary="How far a run is",
    **_control(f"{JOB}/status"),
)
async def status(id: models.RunId, principal: Reader, service: Serving, tenant: shapes.OfTenant = None) -> Response:
    """Its phases, counters and rates, how long it will take, and whether its worker is alive."""
    return answer(status_line(await status_of(service.penstock, await _run(service, principal, id, tenant))))


@router.get(
    "/ingestion/jobs/{kb_id}/status",
    operation_id="getIngestionStatusOf",
    summary="How far a knowledge base's newest run is",
    **_control(f"{OF_BASE}/status"),
)
async def status_of_base(
    kb_id: models.RunOf, principal: Reader, service: Serving, tenant: shapes.OfTenant = None
) -> Response:
    """The same as `GET /jobs/{id}/status`."""
    return await status(kb_id, principal, service, tenant)


@router.post(
    "/jobs/{id}/pause", operation_id="pauseIngestion", summary="Pause a run", **_control(f"{JOB}/pause", 409, 415)
)
async def pause(id: models.RunId, principal: Operator, service: Serving, tenant: shapes.OfTenant = None) -> Response:
    """It stops before the next group of chunks, and stays so, also when the service is started anew."""
    return await _steered(service, principal, id, tenant, control.pause)


@router.post(
    "/ingestion/jobs/{kb_id}/pause",
    operation_id="pauseIngestionOf",
    summary="Pause a knowledge base's newest run",
    **_control(f"{OF_BASE}/pause", 409, 415),
)
async def pause_base(
    kb_id: models.RunOf, principal: Operator, service: Serving, tenant: shapes.OfTenant = None
) -> Response:
    """The same as `POST /jobs/{id}/pause`."""
    return await _steered(service, principal, kb_id, tenant, control.pause)


@router.post(
    "/jobs/{id}/resume",
    operation_id="resumeIngestion",
    summary="Let a run go on",
    **_control(f"{JOB}/resume", 409, 413, 415, 429),
)
async def resume(
    id: models.RunId,
    principal: Operator,
    service: Serving,
    intake: Taking,
    body: models.ResumeIngestion | None = None,
    tenant: shapes.OfTenant = None,
) -> Response:
    """A paused run goes on at the next group of chunks, one that failed at the last that is stored. With `errors` a new
    run begins, over what earlier ones could not take in; it is the one that is answered."""
    if body is None or not body.errors:
        return await _steered(service, principal, id, tenant, control.resume)
    run = await _run(service, principal, id, tenant)
    await intake.admit(1)
    try:
        told = await control.retry_errors(service.penstock, run, actor=principal.actor)
    except Conflict as error:
        raise await in_the_way(service, error, run.tenant, run.base) from error
    return await _shown(service, told.job_id)


@router.post(
    "/ingestion/jobs/{kb_id}/resume",
    operation_id="resumeIngestionOf",
    summary="Let a knowledge base's newest run go on",
    **_control(f"{OF_BASE}/resume", 409, 413, 415, 429),
)
async def resume_base(
    kb_id: models.RunOf,
    principal: Operator,
    service: Serving,
    intake: Taking,
    body: models.ResumeIngestion | None = None,
    tenant: shapes.OfTenant = None,
) -> Response:
    """The same as `POST /jobs/{id}/resume`."""
    return await resume(kb_id, principal, service, intake, body, tenant)


@router.post(
    "/jobs/{id}/cancel", operation_id="cancelIngestion", summary="Cancel a run", **_control(f"{JOB}/cancel", 409, 415)
)
async def cancel(id: models.RunId, principal: Operator, service: Serving, tenant: shapes.OfTenant = None) -> Response:
    """It stops, and everything it wrote is taken out again: it is `canceled` until that is done, then `not_started`."""
    return await _steered(service, principal, id, tenant, control.cancel)


@router.post(
    "/ingestion/jobs/{kb_id}/cancel",
    operation_id="cancelIngestionOf",
    summary="Cancel a knowledge base's newest run",
    **_control(f"{OF_BASE}/cancel", 409, 415),
)
async def cancel_base(
    kb_id: models.RunOf, principal: Operator, service: Serving, tenant: shapes.OfTenant = None
) -> Response:
    """The same as `POST /jobs/{id}/cancel`."""
    return await _steered(service, principal, kb_id, tenant, control.cancel)


async def _run(service: Service, principal: Principal, name: str, tenant: str | None) -> Run:
    return await control.run_meant(service.penstock, name, tenant=seen_by(principal, tenant))


async def _steered(service: Service, principal: Principal, name: str, tenant: str | None, act: Act) -> Response:
    run = await _run(service, principal, name, tenant)
    try:
        await act(service.penstock, run, actor=principal.actor)
    except Conflict as error:
        raise await in_the_way(service, error, run.tenant, run.base, run=run.id) from error
    return await _shown(service, run.id)


async def _shown(service: Service, id: str, code: int = 200) -> Response:
    """A run as it is now: what was asked of it has changed its row."""
    run = await bases.find_run(service.penstock.engine, id)
    if run is None:
        raise NotFound(f"there is no ingestion {id!r} any more: its knowledge base was deleted")
    headers = {"Location": f"/jobs/{run.id}/status"} if code == 202 else {}
    return answer(status_line(await status_of(service.penstock, run)), code, **headers)
