"""`/api/v1/budgets`: what tenants, jobs and batches may spend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Response

from penstock.app import Penstock
from penstock.engine.budget import checked_scope
from penstock.engine.errors import InvalidRequest, NotFound
from penstock.engine.identity import checked_name
from penstock.service.access.guard import Admin, Reader
from penstock.service.access.principal import Principal
from penstock.service.api import resource_shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import problems
from penstock.service.api.paging import DEFAULT_LIMIT, Cursor, Limit, next_cursor, page, place_of
from penstock.service.state import Serving
from penstock.shapes import budget_line
from penstock.store.protocol import BatchFilter, Budget, JobFilter

router = APIRouter(prefix="/budgets", tags=["budgets"], route_class=JsonRoute)

_PATH = "/api/v1/budgets/tenant:acme"

AT_A_TIME = 500
"""Budgets whose owners are asked for in one question."""

Scope = Annotated[
    str,
    Path(
        pattern=r"^(tenant|job|batch):[A-Za-z0-9_.@:+-]{1,120}$",
        description="`tenant:NAME`, `job:ID` or `batch:ID`.",
        examples=["tenant:acme"],
    ),
]


@router.get(
    "",
    operation_id="listBudgets",
    summary="List budgets",
    response_model=resource_shapes.BudgetPage,
    responses=problems(path="/api/v1/budgets"),
)
async def list_budgets(
    principal: Reader, service: Serving, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Response:
    """By scope, and what is left of them."""
    place = place_of(cursor, str)
    penstock = service.penstock
    left = sorted(
        (one for one in await penstock.budgets() if place is None or one.scope > place[0]), key=lambda one: one.scope
    )
    if principal.tenant is not None:
        left = await of_tenant(penstock, principal.tenant, left, limit + 1)
    shown = left[:limit]
    more = next_cursor(shown[-1].scope) if len(left) > limit else None
    return answer(page([budget_line(one) for one in shown], more))


async def of_tenant(penstock: Penstock, tenant: str, budgets: Sequence[Budget], most: int) -> list[Budget]:
    """The first `most` that are this tenant's, its jobs' or its batches'."""
    found: list[Budget] = []
    for start in range(0, len(budgets), AT_A_TIME):
        some = budgets[start : start + AT_A_TIME]
        theirs = await _scopes_of(penstock, tenant, [one.scope for one in some])
        found += [one for one in some if one.scope in theirs]
        if len(found) >= most:
            break
    return found[:most]


async def _scopes_of(penstock: Penstock, tenant: str, scopes: Sequence[str]) -> set[str]:
    """Which of them are this tenant's."""
    jobs = tuple(scope.removeprefix("job:") for scope in scopes if scope.startswith("job:"))
    batches = tuple(scope.removeprefix("batch:") for scope in scopes if scope.startswith("batch:"))
    store, theirs = penstock.engine.store, {f"tenant:{tenant}"}
    if jobs:
        rows = await store.jobs(JobFilter(tenant=tenant, ids=jobs, limit=len(jobs), brief=True))
        theirs |= {f"job:{row.id}" for row in rows}
    if batches:
        found = await store.batches(BatchFilter(tenant=tenant, ids=batches, limit=len(batches)))
        theirs |= {f"batch:{row.id}" for row in found}
    return theirs


@router.put(
    "/{scope}",
    operation_id="putBudget",
    summary="Set a budget",
    response_model=resource_shapes.BudgetLine,
    responses=problems(404, 413, 415, path=_PATH),
)
async def put_budget(scope: Scope, body: resource_shapes.BudgetBody, principal: Admin, service: Serving) -> Response:
    """What a job or batch has spent already counts; a tenant's spending counts from when its budget is first set.
    Jobs that were parked for want of this budget go on."""
    tenant = await owner_of(service.penstock, principal, scope)
    budget = await service.penstock.set_budget(scope, body.budget_usd, tenant=tenant, actor=principal.actor)
    assert budget is not None
    return answer(budget_line(budget))


@router.delete(
    "/{scope}",
    operation_id="deleteBudget",
    summary="Remove a budget",
    status_code=204,
    responses=problems(404, 415, path=_PATH),
)
async def delete_budget(scope: Scope, principal: Admin, service: Serving) -> Response:
    """It may spend without a limit again. Jobs that were parked for want of this budget go on."""
    tenant = await owner_of_known(service.penstock, principal, scope)
    await service.penstock.set_budget(scope, None, tenant=tenant, actor=principal.actor)
    return Response(status_code=204)


async def owner_of_known(penstock: Penstock, principal: Principal, scope: str) -> str:
    """Whose a budget is that there is; `NotFound` where there is none. Whose it was is not known any more ("") where
    its job has gone before it: then it is there only for who sees all tenants."""
    gone = NotFound(f"there is no budget {scope}")
    if not await penstock.budgets(scope=checked_scope(scope)):
        raise gone
    try:
        return await owner_of(penstock, principal, scope)
    except InvalidRequest:
        if principal.tenant is not None:
            raise gone from None
        return ""


async def owner_of(penstock: Penstock, principal: Principal, scope: str) -> str:
    """Whose a budget will be: a mistyped name or id would make one that nobody draws on."""
    kind, _, name = checked_scope(scope).partition(":")
    checked_name(kind, name)
    if kind == "tenant":
        tenant = name
    else:
        tenant = (await penstock.job(name)).tenant if kind == "job" else (await penstock.batch(name)).tenant
    principal.check_sees(tenant, f"{kind} {name}")
    return tenant
