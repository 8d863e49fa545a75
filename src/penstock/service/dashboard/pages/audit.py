"""The audit log: who did what, to what, and from where."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.service.access.guard import Operator
from penstock.service.access.refusal import Refused
from penstock.service.dashboard.rendering import link, render
from penstock.service.state import Serving
from penstock.store.protocol import AuditFilter

router = APIRouter()

PAGE = 100
PAGES = {"job": "/ui/jobs/", "batch": "/ui/batches/", "call": "/ui/calls/"}


@router.get("/ui/audit", name="ui.audit")
async def audit_page(
    request: Request,
    service: Serving,
    principal: Operator,
    actor: str = "",
    action: str = "",
    target: str = "",
    before: str = "",
) -> Response:
    if principal.tenant is None and not principal.may("admin"):
        raise Refused(403, "the audit log of all tenants is shown to admins")
    where = AuditFilter(
        tenant=principal.tenant,
        actor=actor or None,
        action=action or None,
        target=target or None,
        before=before or None,
        limit=PAGE + 1,
    )
    rows = await service.penstock.engine.store.audit(where)
    filters = {"actor": actor, "action": action, "target": target}
    return render(
        request,
        "audit.html",
        principal=principal,
        rows=[(row, _page_of(row.target)) for row in rows[:PAGE]],
        filters=filters,
        older=link("/ui/audit", **filters, before=rows[PAGE - 1].id) if len(rows) > PAGE else "",
        newest=link("/ui/audit", **filters) if before else "",
        feed="/ui/live",
    )


def _page_of(target: str) -> str:
    kind, _, which = target.partition(":")
    return f"{PAGES[kind]}{which}" if kind in PAGES and which and "/" not in which else ""
