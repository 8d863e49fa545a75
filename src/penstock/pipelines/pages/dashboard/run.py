"""A run: figures, and the grid of its books, fifty at a time."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.engine.engine import Engine
from penstock.pipelines.pages import reading
from penstock.pipelines.pages.dashboard.grid import KINDS, strips
from penstock.pipelines.pages.dashboard.places import about, run_path
from penstock.pipelines.pages.looking import seen
from penstock.service.access.guard import Reader
from penstock.service.dashboard.charts import stacked
from penstock.service.dashboard.rendering import link, render
from penstock.service.state import Serving

router = APIRouter()

PAGE = 50
MOST_NAMED = 400
ONLY = {"": "all", "open": "not done", "flying": "in flight", "dead": "with dead pages"}


@router.get("/runs/{run_id}", name="ui.pages.run")
async def run_page(
    request: Request,
    service: Serving,
    principal: Reader,
    run_id: str,
    state: str = "",
    school: str = "",
    only: str = "",
    after: str = "",
) -> Response:
    engine = service.penstock.engine
    found = await seen(service.penstock, principal, run_id)
    wanted = only if only in ONLY else ""
    rows = await reading.books(
        engine,
        found.ledger,
        state=state or None,
        school=school or None,
        only=wanted or None,
        after=after or None,
        limit=PAGE + 1,
    )
    told = await reading.overview(engine, found.ledger, found.run)
    totals = told.totals
    amounts = [("completed", totals.done), ("running", totals.flying), ("waiting", totals.ready)]
    amounts += [("failed", totals.dead)]
    filters = {"state": state, "school": school, "only": wanted}
    place = run_path(run_id)
    return render(
        request,
        "pages/run.html",
        **await about(service.penstock, principal, found),
        tab="books",
        overview=told,
        totals=totals,
        parts_of_all=stacked([(kind, float(amount)) for kind, amount in amounts], total=totals.pages or None),
        strips=strips(rows[:PAGE]),
        kinds=list(KINDS.values()),
        only=ONLY,
        filters=filters,
        states=await _names(engine, found.ledger, "state"),
        schools=await _names(engine, found.ledger, "school", state),
        following=link(place, **filters, after=rows[PAGE - 1].book) if len(rows) > PAGE else "",
        first=link(place, **filters) if after else "",
    )


async def _names(engine: Engine, ledger: str, column: str, state: str = "") -> list[str]:
    within = " AND state = :state" if state else ""
    rows = await reading.ledger_of(engine, ledger).read(
        f"SELECT DISTINCT {column} FROM pages_books WHERE ledger = :ledger{within}"
        f" ORDER BY {column} LIMIT {MOST_NAMED}",
        **({"state": state} if state else {}),
    )
    return [name for (name,) in rows]
