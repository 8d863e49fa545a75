"""The list of knowledge bases: what each holds, and how its last run stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastapi import Request
from starlette.responses import Response

from penstock.app import Penstock
from penstock.engine.model import Job
from penstock.pipelines.ingestion.control import newest_job
from penstock.pipelines.ingestion.dashboard.places import HOME, Paths, colour, plain, word
from penstock.pipelines.ingestion.reading import BaseLine, base_lines
from penstock.pipelines.ingestion.workflow import ingestion
from penstock.service.access.guard import Reader
from penstock.service.dashboard.rendering import link, render
from penstock.service.dashboard.survey import kept
from penstock.service.state import Serving

PAGE = 30
KEPT = 1.0
"""Seconds that the rows are kept: the list may be fetched every second, by many."""

TELLING = ("running", "paused", "canceled", "failed")
"""Of a run that stands so, its job tells more: how far it is, why it failed."""


async def bases_page(
    request: Request, service: Serving, principal: Reader, tenant: str = "", after: str = "", of: str = ""
) -> Response:
    """`after` and `of`: the name of the last one on the page before, and its tenant."""
    app, owner = service.penstock, principal.tenant or tenant or None
    rows, jobs = await kept(
        request, ("knowledge", owner or "", after, of), lambda: _rows(app, owner, after, of), seconds=KEPT
    )
    last = rows[PAGE - 1] if len(rows) > PAGE else None
    filters = {"tenant": "" if principal.tenant else tenant}

    def paths(row: BaseLine) -> Paths:
        return Paths(row.id, row.tenant, principal)

    return render(
        request,
        "knowledge/bases.html",
        principal=principal,
        rows=rows[:PAGE],
        jobs=jobs,
        filters=filters,
        paths=paths,
        word=word,
        colour=colour,
        plain=plain,
        following="" if last is None else link(HOME, **filters, after=last.id, of=last.tenant),
        first=link(HOME, **filters) if after else "",
        feed=link("/ui/live", workflow=ingestion.name),
    )


async def _rows(app: Penstock, tenant: str | None, after: str, of: str) -> tuple[Sequence[BaseLine], Mapping[str, Job]]:
    """One more than a page, if there is one; and the jobs that tell more, by run."""
    found = await base_lines(app.engine, tenant, after=(after, of) if after else None, limit=PAGE + 1)
    telling = [row.run for row in found if row.run is not None and row.status in TELLING]
    jobs = {run: await newest_job(app, run) for run in telling}
    return found, {run: job for run, job in jobs.items() if job is not None}
