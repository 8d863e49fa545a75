"""Batches: how far each is, and its members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.responses import Response

from penstock.engine.errors import Conflict, NotFound
from penstock.engine.model import STATUSES, Batch, view
from penstock.service.access.guard import Operator, Reader
from penstock.service.access.principal import Principal
from penstock.service.dashboard import charts
from penstock.service.dashboard.acting import asked
from penstock.service.dashboard.rendering import back_to, link, render
from penstock.service.dashboard.survey import kept
from penstock.service.state import Service, Serving
from penstock.store.protocol import JobFilter

router = APIRouter()

PAGE = 50
COSTS_KEPT = 3.0
"""Seconds: they are added up from all calls of the batch, and its page may be fetched every second."""


@dataclass(slots=True, frozen=True)
class Progress:
    """A batch with its bar: how its members ended, and how many have not."""

    batch: Batch
    parts: list[charts.Part]

    @property
    def state(self) -> str:
        if self.batch.finished is not None:
            return "failed" if self.batch.failed else "completed"
        return "running" if self.batch.sealed else "open"


def progress_of(batch: Batch) -> Progress:
    amounts = [("completed", batch.completed), ("failed", batch.failed), ("canceled", batch.canceled)]
    return Progress(batch, charts.stacked(amounts, total=batch.members or None))


@router.get("/ui/batches", name="ui.batches")
async def batches_page(
    request: Request,
    service: Serving,
    principal: Reader,
    state: str = "",
    key: str = "",
    tenant: str = "",
    before: str = "",
) -> Response:
    found = await service.penstock.batches(
        tenant=principal.tenant or tenant or None,
        key=key or None,
        open={"open": True, "ended": False}.get(state),
        before=before or None,
        limit=PAGE + 1,
    )
    filters = {"state": state, "key": key, "tenant": "" if principal.tenant else tenant}
    return render(
        request,
        "batches.html",
        principal=principal,
        rows=[progress_of(batch) for batch in found[:PAGE]],
        filters=filters,
        older=link("/ui/batches", **filters, before=found[PAGE - 1].id) if len(found) > PAGE else "",
        newest=link("/ui/batches", **filters) if before else "",
        feed="/ui/live",
    )


async def batch_of(service: Service, principal: Principal, batch_id: str) -> Batch:
    """Another tenant's batch is not there."""
    batch = await service.penstock.batch(batch_id)
    principal.check_sees(batch.tenant, f"batch {batch_id}")
    return batch


@router.get("/ui/batches/{batch_id}", name="ui.batch")
async def batch_page(
    request: Request, service: Serving, principal: Reader, batch_id: str, status: str = "", before: str = ""
) -> Response:
    batch = await batch_of(service, principal, batch_id)
    wanted = tuple(name for name in status.split(",") if name in STATUSES)
    where = JobFilter(batch=batch_id, status=wanted, before=before or None, limit=PAGE + 1)
    rows = await service.penstock.engine.store.jobs(where)
    place = f"/ui/batches/{batch_id}"
    what = ("costs", "batch", batch_id)
    costs = await kept(request, what, lambda: service.penstock.costs(batch=batch_id), seconds=COSTS_KEPT)
    return render(
        request,
        "batch.html",
        principal=principal,
        batch=batch,
        progress=progress_of(batch),
        members=[view(row) for row in rows[:PAGE]],
        cost=costs[0] if costs else None,
        chosen=wanted,
        statuses=STATUSES,
        filters={"status": ",".join(wanted)},
        older=link(place, status=",".join(wanted), before=rows[PAGE - 1].id) if len(rows) > PAGE else "",
        newest=link(place, status=",".join(wanted)) if before else "",
        feed=link("/ui/live", batch=batch_id),
    )


@router.post("/ui/batches/{batch_id}/{action}", name="ui.batch.act")
async def act(
    request: Request,
    service: Serving,
    principal: Operator,
    batch_id: str,
    action: str,
    back: Annotated[str, Form(max_length=2000)] = "",
) -> Response:
    await batch_of(service, principal, batch_id)
    to = back or f"/ui/batches/{batch_id}"
    if action == "seal":
        doing = service.penstock.seal_batch(batch_id, actor=principal.actor)
        return await asked(request, to, doing, "sealed: it ends when its members have ended")
    if action != "retry":
        raise NotFound(f"there is no action {action[:20]!r}")
    try:
        next_one = await service.penstock.retry_batch(batch_id, actor=principal.actor)
    except Conflict as error:
        return back_to(request, to, ("refused", str(error)))
    return back_to(
        request, f"/ui/batches/{next_one.id}", ("done", f"generation {next_one.generation} runs what failed")
    )
