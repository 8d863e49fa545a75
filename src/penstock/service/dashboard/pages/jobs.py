"""The list of jobs: filters in the address, a page at a time by the store's own cursor, and the same for many."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.responses import Response

from penstock.engine.model import STATUSES, view
from penstock.service.access.guard import Operator, Reader
from penstock.service.dashboard.acting import all_asked
from penstock.service.dashboard.rendering import link, render
from penstock.service.dashboard.survey import Counted
from penstock.service.state import Serving
from penstock.store.protocol import JobFilter

router = APIRouter()

PAGE = 50


@router.get("/ui/jobs", name="ui.jobs")
async def jobs_page(
    request: Request,
    service: Serving,
    principal: Reader,
    snapshot: Counted,
    workflow: str = "",
    status: str = "",
    key: str = "",
    tenant: str = "",
    batch: str = "",
    parent: str = "",
    before: str = "",
) -> Response:
    wanted = tuple(name for name in status.split(",") if name in STATUSES)
    where = JobFilter(
        tenant=principal.tenant or tenant or None,
        workflow=workflow or None,
        status=wanted,
        key=key or None,
        batch=batch or None,
        parent=parent or None,
        before=before or None,
        limit=PAGE + 1,
    )
    rows = await service.penstock.engine.store.jobs(where)
    filters = {
        "workflow": workflow,
        "status": ",".join(wanted),
        "key": key,
        "tenant": "" if principal.tenant else tenant,
        "batch": batch,
        "parent": parent,
    }
    jobs = [view(row) for row in rows[:PAGE]]
    return render(
        request,
        "jobs.html",
        principal=principal,
        snapshot=snapshot,
        jobs=jobs,
        filters=filters,
        chosen=wanted,
        counts=snapshot.by_status(workflow or None),
        narrowed=bool(key or batch or parent or filters["tenant"]),
        statuses=STATUSES,
        workflows=snapshot.workflows,
        before=before,
        older=link("/ui/jobs", **filters, before=jobs[-1].id) if len(rows) > PAGE else "",
        newest=link("/ui/jobs", **filters) if before else "",
        feed=link("/ui/live", workflow=workflow, batch=batch),
    )


@router.post("/ui/jobs/act", name="ui.jobs.act")
async def act_on_many(
    request: Request,
    service: Serving,
    principal: Operator,
    action: Annotated[str, Form(max_length=10)] = "",
    id: Annotated[list[str], Form()] = [],  # noqa: B006
    ids: Annotated[str, Form(max_length=20_000)] = "",
    back: Annotated[str, Form(max_length=2000)] = "/ui/jobs",
) -> Response:
    return await all_asked(request, service, principal, back, action, [*id, *filter(None, ids.split(","))])
