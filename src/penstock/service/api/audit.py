"""`/api/v1/audit`: who did what."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import AfterValidator

from penstock.service.access.guard import Operator
from penstock.service.api import resource_shapes, shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import problems
from penstock.service.api.paging import DEFAULT_LIMIT, Cursor, Limit, id_of, next_cursor, page
from penstock.service.api.problems import forbidden
from penstock.service.api.tenancy import seen_by
from penstock.service.state import Serving
from penstock.times import utc

router = APIRouter(prefix="/audit", tags=["audit"], route_class=JsonRoute)


def _only(what: str, example: str) -> object:
    return Query(min_length=1, max_length=600, description=f"Only of this {what}.", examples=[example])


@router.get(
    "",
    operation_id="listAudit",
    summary="List what people did",
    response_model=resource_shapes.AuditPage,
    responses=problems(path="/api/v1/audit"),
)
async def list_audit(
    principal: Operator,
    service: Serving,
    tenant: shapes.OfTenant = None,
    actor: Annotated[str | None, _only("actor", "ada"), AfterValidator(shapes.storable_or_none)] = None,
    action: Annotated[str | None, _only("action", "job.pause"), AfterValidator(shapes.storable_or_none)] = None,
    target: Annotated[str | None, _only("target", "job:ID"), AfterValidator(shapes.storable_or_none)] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Newest first. A token that is bound to a tenant sees what was done there; to see all tenants needs `admin`."""
    if principal.tenant is None and not principal.may("admin"):
        raise forbidden("the audit log of all tenants needs the scope admin")
    found = await service.penstock.audit(
        tenant=seen_by(principal, tenant),
        actor=actor,
        action=action,
        target=target,
        before=id_of(cursor),
        limit=limit,
    )
    more = next_cursor(found[-1].id) if len(found) == limit else None
    return answer(page([{**asdict(row), "at": utc(row.at)} for row in found], more))
