"""One knowledge base and a run of it: how far each phase is, how fast, what it was planned to be, and what may be asked
of it; and the list of all its runs."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.app import Penstock
from penstock.engine.model import Job, Schedule
from penstock.pipelines.ingestion.control import schedule_name
from penstock.pipelines.ingestion.dashboard.pipe import COUNTED, TITLES, beside, pipe
from penstock.pipelines.ingestion.dashboard.seeing import LiveRoute, Seen, about, seen
from penstock.pipelines.ingestion.reading import run_lines
from penstock.pipelines.ingestion.status import STALLED_AFTER
from penstock.pipelines.ingestion.workflow import ingestion, repair
from penstock.service.access.guard import Reader
from penstock.service.dashboard.rendering import render
from penstock.service.state import Serving

router = APIRouter(route_class=LiveRoute)

PAGE = 20
FEW = 5
MOST_JOBS = 20


@router.get("/bases/{name}", name="ui.knowledge.base")
async def base_page(request: Request, service: Serving, principal: Reader, name: str, tenant: str = "") -> Response:
    return await _page(request, service.penstock, await seen(service.penstock, principal, name, tenant), principal)


@router.get("/bases/{name}/runs/{run}", name="ui.knowledge.run")
async def run_page(
    request: Request, service: Serving, principal: Reader, name: str, run: str, tenant: str = ""
) -> Response:
    it = await seen(service.penstock, principal, name, tenant, run)
    return await _page(request, service.penstock, it, principal)


async def _page(request: Request, app: Penstock, it: Seen, principal: Reader) -> Response:
    told = it.status
    cost = await _cost(app, it)
    base = it.base
    return render(
        request,
        "knowledge/run.html",
        **about(principal, it),
        tab="run",
        pipe=None if told is None else pipe(told),
        plan=beside(told.plan, told, cost) if told is not None and told.plan else [],
        exact=bool(told is not None and told.plan and told.plan.get("exact")),
        cost=cost,
        counted=COUNTED,
        titles={f"c{place}": title for place, title in enumerate(TITLES.values())},
        stalled_after=STALLED_AFTER,
        lines=await run_lines(app.engine, base.tenant, base.id, limit=FEW),
        schedule=await _schedule(app, it),
        repaired=await _repaired(app, it),
    )


@router.get("/bases/{name}/runs", name="ui.knowledge.runs")
async def runs_page(
    request: Request, service: Serving, principal: Reader, name: str, tenant: str = "", before: str = ""
) -> Response:
    app = service.penstock
    it = await seen(app, principal, name, tenant)
    found = await run_lines(app.engine, it.base.tenant, it.base.id, before=before or None, limit=PAGE + 1)
    known = about(principal, it)
    return render(
        request,
        "knowledge/runs.html",
        **known,
        tab="runs",
        lines=found[:PAGE],
        older=known["path"]("runs", before=found[PAGE - 1].id) if len(found) > PAGE else "",
        newest=known["path"]("runs") if before else "",
    )


async def _cost(app: Penstock, it: Seen) -> int:
    """In millionths of a dollar, of all jobs that have worked on the run."""
    if it.run is None:
        return 0
    jobs: list[Job] = await app.jobs(tenant=it.base.tenant, workflow=ingestion.name, key=it.run.id, limit=MOST_JOBS)
    sums = [await app.costs(job=job.id) for job in jobs]
    return sum(each.cost for costs in sums for each in costs)


async def _schedule(app: Penstock, it: Seen) -> Schedule | None:
    name = schedule_name(it.base.id)
    return next((each for each in await app.schedules(tenant=it.base.tenant) if each.name == name), None)


async def _repaired(app: Penstock, it: Seen) -> Job | None:
    """The last repair."""
    found = await app.jobs(tenant=it.base.tenant, workflow=repair.name, key=it.base.id, limit=1)
    return found[0] if found else None
