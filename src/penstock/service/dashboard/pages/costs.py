"""Costs: what was paid day by day and for what, and what may still be spent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.responses import Response

from penstock.engine.errors import InvalidRequest
from penstock.service.access.guard import Admin, Reader
from penstock.service.access.principal import Principal
from penstock.service.api.budgets import of_tenant, owner_of, owner_of_known
from penstock.service.dashboard import charts
from penstock.service.dashboard.acting import asked
from penstock.service.dashboard.rendering import back_to, render
from penstock.service.dashboard.survey import kept
from penstock.service.dashboard.wording import dollars
from penstock.service.state import Service, Serving
from penstock.store.protocol import Budget, Cost

router = APIRouter()

DAY = 86_400.0
SPANS = {"7": "7 days", "30": "30 days", "90": "90 days"}
COLOURS = 6
"""How many workflows have a colour of their own; the rest are one more."""


@dataclass(slots=True, frozen=True)
class Daily:
    """Money by day: a chart, the sum of each day, and the workflows in the order of their colours."""

    chart: charts.Columns
    totals: list[int]
    names: list[str]


@dataclass(slots=True, frozen=True)
class Group:
    """What was paid for one workflow, tenant or model, and its part of the whole."""

    name: str
    cost: Cost
    share: float


@dataclass(slots=True, frozen=True)
class Purse:
    """A budget, and how much of its bar is spent and reserved."""

    budget: Budget
    parts: list[charts.Part]
    href: str

    @property
    def left(self) -> int:
        return self.budget.most - self.budget.spent - self.budget.reserved

    @property
    def state(self) -> str:
        if self.left <= 0:
            return "failed"
        return "paused" if self.left < self.budget.most * 0.2 else "completed"


@router.get("/ui/costs", name="ui.costs")
async def costs_page(request: Request, service: Serving, principal: Reader, days: str = "30") -> Response:
    now = await service.penstock.engine.store.now()
    span = int(days) if days in SPANS else 30
    by_day = await costs_by(request, service, principal, ("day", "workflow"), now, span)
    money = daily(by_day, now, span, height=180)
    groups = {}
    for by in ("workflow", "model", "remote", *(("tenant",) if principal.tenant is None else ())):
        groups[by] = shares(await costs_by(request, service, principal, (by,), now, span))
    return render(
        request,
        "costs.html",
        principal=principal,
        money=money,
        days=str(span),
        spans=SPANS,
        groups=groups,
        total=sum(money.totals),
        reserved=sum(cost.reserved for cost in by_day),
        purses=await purses(service, principal),
        feed="/ui/live",
        every=5000,
    )


@router.post("/ui/costs/budget", name="ui.costs.budget")
async def set_budget(
    request: Request,
    service: Serving,
    principal: Admin,
    scope: Annotated[str, Form(max_length=520)],
    dollars_most: Annotated[str, Form(alias="dollars", max_length=40)] = "",
    action: Annotated[str, Form(max_length=10)] = "set",
) -> Response:
    """Budgets of one's own tenant, or all where one sees all."""
    back, scope, penstock = "/ui/costs", scope.strip(), service.penstock
    try:
        if action == "remove":
            tenant = await owner_of_known(penstock, principal, scope)
            doing = penstock.set_budget(scope, None, tenant=tenant, actor=principal.actor)
            return await asked(request, back, doing, f"budget {scope} removed")
        tenant, most = await owner_of(penstock, principal, scope), amount_of(dollars_most)
    except InvalidRequest as error:
        return back_to(request, back, ("refused", str(error)))
    doing = penstock.set_budget(scope, most, tenant=tenant, actor=principal.actor)
    return await asked(request, back, doing, f"budget {scope} is now {dollars(most * 1_000_000)}")


async def costs_by(
    request: Request, service: Service, principal: Principal, by: tuple[str, ...], now: float, days: int
) -> list[Cost]:
    """Added up anew only now and then: calls are kept for long, and there may be many."""
    tenant = principal.tenant
    what = ("costs", *by, str(days), "" if tenant is None else f"of {tenant}")
    since = days_before(now, days - 1)
    return await kept(request, what, lambda: service.penstock.costs(by=by, tenant=tenant, since=since))


def amount_of(text: str) -> float:
    try:
        return float(text.strip().lstrip("$").replace(",", ""))
    except ValueError:
        raise InvalidRequest(f"a budget is an amount of dollars, like 25 or 2.50, not {text[:20]!r}") from None


def days_before(now: float, days: int) -> float:
    """The beginning of the day, in UTC, so many days before today's."""
    return now // DAY * DAY - days * DAY


def daily(costs: Sequence[Cost], now: float, days: int, *, height: int) -> Daily:
    """Costs by (day, workflow) as a chart. The dearest workflows have a colour of their own."""
    sums: dict[str, int] = defaultdict(int)
    cells: dict[str, dict[str, int]] = defaultdict(dict)
    for cost in costs:
        day, workflow = cost.group
        sums[workflow] += cost.cost
        cells[day][workflow] = cost.cost
    names = [name for name, amount in sorted(sums.items(), key=lambda item: (-item[1], item[0])) if amount]
    colour = {name: f"c{min(n, COLOURS)}" for n, name in enumerate(names)}
    amounts, titles, totals = [], [], []
    for n in range(days - 1, -1, -1):
        moment = days_before(now, n)
        date = datetime.fromtimestamp(moment, UTC)
        parts: dict[str, float] = defaultdict(float)
        for name, amount in cells[date.date().isoformat()].items():
            if amount:
                parts[colour[name]] += amount
        amounts.append((moment, parts))
        totals.append(int(sum(parts.values())))
        titles.append(f"{date.day} {date:%b}: {dollars(totals[-1])}")
    kinds = [f"c{n}" for n in range(COLOURS + 1)]
    chart = charts.columns(amounts, kinds=kinds, height=height, titles=titles, gap=0.3, lines=2 if height < 120 else 3)
    return Daily(chart, totals, names)


def shares(costs: Sequence[Cost]) -> list[Group]:
    whole = sum(cost.cost for cost in costs) or 1
    found = [Group(cost.group[0] or "–", cost, cost.cost / whole) for cost in costs]
    return sorted(found, key=lambda group: (-group.cost.cost, group.name))[:50]


async def purses(service: Service, principal: Principal) -> list[Purse]:
    """The budgets one may see: those of a job or batch belong to its tenant."""
    budgets = await service.penstock.budgets()
    if principal.tenant is not None:
        budgets = await of_tenant(service.penstock, principal.tenant, budgets, len(budgets))
    made = []
    for budget in sorted(budgets, key=lambda budget: (not budget.scope.startswith("tenant:"), budget.scope)):
        whole = max(budget.most, budget.spent + budget.reserved, 1)
        kind, _, which = budget.scope.partition(":")
        href = {"job": f"/ui/jobs/{which}", "batch": f"/ui/batches/{which}"}.get(kind, "")
        made.append(
            Purse(budget, charts.stacked([("spent", budget.spent), ("reserved", budget.reserved)], total=whole), href)
        )
    return made
