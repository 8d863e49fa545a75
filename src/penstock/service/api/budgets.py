"""`/api/v1/budgets`: what tenants, jobs and batches may spend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Response

from penstock.app import Penstock
from penstock.engine.budget import checked_scope
from penstock.engine.errors import NotFound
from penstock.service.access.guard import Admin, Reader
from penstock.service.access.principal import Principal
from penstock.service.api import resource_shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import problems
from penstock.service.api.paging import DEFAULT_LIMIT, Cursor, Limit, next_cursor, page, place_of
from penstock.service.state import Serving
from penstock.shapes import budget_line
from penstock.store.protocol import Budget

router = APIRouter(prefix="/budgets", tags=["budgets"], route_class=JsonRoute)

_PATH = "/api/v1/budgets/tenant:acme"

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
        left = await _of_tenant(penstock, principal.tenant, left, limit + 1)
    shown = left[:limit]
    more = next_cursor(shown[-1].scope) if len(left) > limit else None
    return answer(page([budget_line(one) for one in shown], more))


async def _of_tenant(penstock: Penstock, tenant: str, budgets: Sequence[Budget], most: int) -> list[Budget]:
    """The first `most` that are this tenant's, its jobs' or its batches'."""
    found: list[Budget] = []
    for start in range(0, len(budgets), most):
        some = budgets[start : start + most]
        jobs = [one.scope.removeprefix("job:") for one in some if one.scope.startswith("job:")]
        theirs = {f"tenant:{tenant}"}
        if jobs:
            theirs |= {f"job:{job.id}" for job in await penstock.jobs(tenant=tenant, ids=jobs, limit=len(jobs))}
        for one in some:
            if one.scope.startswith("batch:"):
                batch = await penstock.engine.store.batch(one.scope.removeprefix("batch:"))
                theirs |= {one.scope} if batch is not None and batch.tenant == tenant else set()
        found += [one for one in some if one.scope in theirs]
        if len(found) >= most:
            break
    return found[:most]


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
    tenant = await _owner(service.penstock, principal, scope)
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
    penstock = service.penstock
    gone = NotFound(f"there is no budget {scope}")
    if scope not in {one.scope for one in await penstock.budgets()}:
        raise gone
    try:
        tenant = await _owner(penstock, principal, scope)
    except NotFound:
        # A budget outlives its job; of whose it was, nobody but who sees all tenants is told.
        if principal.tenant is not None:
            raise gone from None
        tenant = ""
    await penstock.set_budget(scope, None, tenant=tenant, actor=principal.actor)
    return Response(status_code=204)


async def _owner(penstock: Penstock, principal: Principal, scope: str) -> str:
    """Whose it is: a mistyped id would make a budget that nobody draws on."""
    kind, _, name = checked_scope(scope).partition(":")
    if kind == "tenant":
        tenant = name
    else:
        tenant = (await penstock.job(name)).tenant if kind == "job" else (await penstock.batch(name)).tenant
    principal.check_sees(tenant, f"{kind} {name}")
    return tenant
