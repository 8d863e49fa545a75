"""Schedules: what starts when, and switching it off and on."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.responses import Response

from penstock.engine.errors import NotFound
from penstock.service.access.guard import Operator, Reader
from penstock.service.access.principal import Principal
from penstock.service.dashboard.acting import asked
from penstock.service.dashboard.rendering import render
from penstock.service.state import Service, Serving
from penstock.store import encoding
from penstock.store.protocol import ScheduleRow

router = APIRouter()


@router.get("/ui/schedules", name="ui.schedules")
async def schedules_page(request: Request, service: Serving, principal: Reader) -> Response:
    found = await service.penstock.schedules(tenant=principal.tenant)
    return render(
        request,
        "schedules.html",
        principal=principal,
        schedules=sorted(found, key=lambda one: (not one.enabled, one.next_due)),
        feed="/ui/live",
    )


@router.post("/ui/schedules/act", name="ui.schedules.act")
async def act(
    request: Request,
    service: Serving,
    principal: Operator,
    name: Annotated[str, Form(max_length=500)],
    tenant: Annotated[str, Form(max_length=120)],
    action: Annotated[str, Form(max_length=10)],
) -> Response:
    row = await _row(service, principal, name, tenant)
    if action == "remove":
        doing = service.penstock.unschedule(name, tenant=tenant, actor=principal.actor)
        return await asked(request, "/ui/schedules", doing, f"schedule {name} removed")
    if action not in ("enable", "disable"):
        raise NotFound(f"there is no action {action!r}")
    changing = service.penstock.engine.set_schedule(
        row.name,
        row.cron,
        encoding.load(row.job),
        timezone=row.timezone,
        enabled=action == "enable",
        actor=principal.actor,
    )
    return await asked(request, "/ui/schedules", changing, f"schedule {name} {action}d")


async def _row(service: Service, principal: Principal, name: str, tenant: str) -> ScheduleRow:
    principal.check_sees(tenant, f"schedule {name!r}")
    for row in await service.penstock.engine.store.schedules():
        if (row.name, row.tenant) == (name, tenant):
            return row
    raise NotFound(f"there is no schedule {name!r}")
