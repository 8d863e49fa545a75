"""What failed: by type, and the dead pages, which somebody may let the run try again."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.pipelines.pages import reading
from penstock.pipelines.pages.dashboard.places import Number, about, run_path
from penstock.pipelines.pages.looking import seen
from penstock.pipelines.pages.model import PageIdentifier
from penstock.service.access.guard import Reader
from penstock.service.dashboard.rendering import link, render
from penstock.service.state import Serving

router = APIRouter()

PAGE = 50
MOST_DEAD = 200

MEANINGS = {
    "api_error": "Gemini refused the request",
    "blocked": "Gemini would not answer",
    "truncated": "the answer was cut off",
    "invalid_json": "the answer is no JSON",
    "schema": "the answer does not fit the schema",
    "missing": "the batch came home without it",
    "duplicate": "the batch answered it twice",
    "unknown": "nobody knows why",
    "batch": "its whole batch failed",
    "file_lost": "Gemini no longer had its image",
    "image": "it has no image that can be sent",
}


@dataclass(slots=True)
class DeadOf:
    """The dead pages of a state: how many, and the first of them."""

    state: str
    count: int
    pages: list[tuple[PageIdentifier, int, str, str]] = field(default_factory=list)


@router.get("/runs/{run_id}/failures", name="ui.pages.failures")
async def failures_page(
    request: Request,
    service: Serving,
    principal: Reader,
    run_id: str,
    type: str = "",
    state: str = "",
    before: Number = 0,
) -> Response:
    engine = service.penstock.engine
    found = await seen(service.penstock, principal, run_id)
    counted = await reading.ledger_of(engine, found.ledger).read(
        "SELECT state, SUM(dead) FROM pages_books WHERE ledger = :ledger AND dead > 0 GROUP BY state ORDER BY state"
    )
    dead = {name: DeadOf(name, int(count)) for name, count in counted}
    for key, failures, kind, message in await reading.dead(engine, found.ledger, limit=MOST_DEAD):
        named = PageIdentifier.parse(key)
        # Its book may have been counted a moment before it died.
        dead.setdefault(named.state, DeadOf(named.state, 1)).pages.append((named, failures, kind, message))
    rows = await reading.attempts(
        engine, found.ledger, type=type or None, state=state or None, before=before or None, limit=PAGE + 1
    )
    filters = {"type": type, "state": state}
    place = run_path(run_id, "failures")
    return render(
        request,
        "pages/failures.html",
        **await about(service.penstock, principal, found),
        tab="failures",
        groups=await reading.failure_groups(engine, found.ledger, "type"),
        meanings=MEANINGS,
        dead=list(dead.values()),
        dead_in_all=sum(group.count for group in dead.values()),
        rows=rows[:PAGE],
        filters=filters,
        older=link(place, **filters, before=rows[PAGE - 1].id) if len(rows) > PAGE else "",
        newest=link(place, **filters) if before else "",
    )
