"""The list of knowledge bases: what each holds, and how its last run stands."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Request
from starlette.responses import Response

from penstock.app import Penstock
from penstock.engine.model import Job
from penstock.pipelines.ingestion import bases
from penstock.pipelines.ingestion.bases import Base, Edition, Run
from penstock.pipelines.ingestion.control import error_count, newest_job
from penstock.pipelines.ingestion.dashboard.places import HOME, SOURCES, Paths, colour, place_of, word
from penstock.pipelines.ingestion.status import word_of
from penstock.pipelines.ingestion.workflow import ingestion
from penstock.service.access.guard import Reader
from penstock.service.dashboard.rendering import link, render
from penstock.service.dashboard.survey import kept
from penstock.service.state import Serving

PAGE = 30
KEPT = 1.0
"""Seconds that the rows are kept: the list may be fetched every second, by many."""


@dataclass(slots=True, frozen=True)
class Row:
    """A knowledge base. `job` is that of a run that has not ended well, or not at all."""

    base: Base
    edition: Edition | None
    run: Run | None
    job: Job | None
    status: str
    errors: int

    @property
    def when(self) -> float:
        """The moment the last thing happened: begun, or ended."""
        if self.run is None:
            return self.base.created
        ended = self.run.finished or (self.job.finished if self.job is not None and self.job.final else None)
        return ended or self.run.began

    @property
    def ended(self) -> bool:
        return self.run is not None and self.status not in ("running", "paused", "canceled")

    @property
    def error(self) -> str:
        """What a run that failed died of."""
        if self.status != "failed":
            return ""
        return (self.job.error if self.job is not None else self.run.last_error if self.run else None) or ""


async def bases_page(
    request: Request, service: Serving, principal: Reader, tenant: str = "", after: str = "", of: str = ""
) -> Response:
    """`after` and `of`: the name of the last one on the page before, and its tenant."""
    owner = principal.tenant or tenant or None
    app = service.penstock
    rows = await kept(
        request, ("knowledge", owner or "", after, of), lambda: rows_of(app, owner, after, of), seconds=KEPT
    )
    last = rows[PAGE - 1].base if len(rows) > PAGE else None
    filters = {"tenant": "" if principal.tenant else tenant}

    def path(row: Row) -> Paths:
        return Paths(row.base.id, row.base.tenant, principal)

    return render(
        request,
        "knowledge/bases.html",
        principal=principal,
        rows=rows[:PAGE],
        filters=filters,
        paths=path,
        place_of=place_of,
        sources=SOURCES,
        word=word,
        colour=colour,
        following="" if last is None else link(HOME, **filters, after=last.id, of="" if owner else last.tenant),
        first=link(HOME, **filters) if after else "",
        feed=link("/ui/live", workflow=ingestion.name),
    )


async def rows_of(app: Penstock, tenant: str | None, after: str, of: str) -> Sequence[Row]:
    """One more than a page, if there is one."""
    found = await bases.bases(app.engine, tenant, after=after, after_tenant=of or None, limit=PAGE + 1)
    return await asyncio.gather(*(_row(app, base) for base in found))


async def _row(app: Penstock, base: Base) -> Row:
    engine = app.engine
    edition = None if base.edition is None else await bases.edition_of(engine, base.edition)
    run = None if base.run is None else await bases.find_run(engine, base.run)
    job = None if run is None or run.state == "completed" else await newest_job(app, run.id)
    status = "not_started" if run is None else "completed" if run.state == "completed" else word_of(run, job)
    return Row(base, edition, run, job, status, await error_count(app, base.edition))
