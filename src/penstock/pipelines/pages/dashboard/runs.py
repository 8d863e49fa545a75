"""The list of runs, the newest first, with how far each output folder is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Request
from starlette.responses import Response

from penstock.engine.engine import Engine
from penstock.engine.model import STATUSES, Job
from penstock.pipelines.pages.dashboard.places import HOME, run_path, title_of
from penstock.pipelines.pages.looking import task_of
from penstock.pipelines.pages.model import Task
from penstock.pipelines.pages.workflow import pages
from penstock.service.access.guard import Reader
from penstock.service.dashboard.charts import Part, stacked
from penstock.service.dashboard.rendering import link, render
from penstock.service.dashboard.survey import kept
from penstock.service.state import Serving

PAGE = 20
KEPT = 2.0
"""Seconds that sums over whole ledgers are kept: the list may be fetched every second."""


@dataclass(slots=True, frozen=True)
class Sum:
    """What a ledger comes to. Batches that are not sent yet, and their pages, are not under way."""

    pages: int = 0
    done: int = 0
    flying: int = 0
    dead: int = 0
    active: int = 0
    batches: int = 0
    cost: int = 0

    @property
    def parts(self) -> list[Part]:
        amounts = [("completed", self.done), ("running", self.flying), ("failed", self.dead)]
        return stacked(amounts, total=self.pages or None)


@dataclass(slots=True, frozen=True)
class Row:
    """A run. Only the last on its folder shows the sums: they are the folder's."""

    job: Job
    task: Task
    sum: Sum | None


async def runs_page(
    request: Request, service: Serving, principal: Reader, status: str = "", tenant: str = "", before: str = ""
) -> Response:
    penstock = service.penstock
    owner = principal.tenant or tenant or None
    wanted = tuple(name for name in status.split(",") if name in STATUSES)
    found = await penstock.jobs(tenant=owner, workflow=pages.name, status=wanted, before=before or None, limit=PAGE + 1)
    told = [(job, task) for job in found[:PAGE] if (task := task_of(job)) is not None]
    ledgers = tuple(sorted({task.ledger for _, task in told}))
    sums, last = await kept(request, ("pages", *ledgers), lambda: _sums(penstock.engine, ledgers), seconds=KEPT)
    filters = {"status": ",".join(wanted), "tenant": "" if principal.tenant else tenant}
    rows = [Row(job, task, sums.get(task.ledger, Sum()) if _is_last(job, task, last) else None) for job, task in told]
    return render(
        request,
        "pages/runs.html",
        principal=principal,
        rows=rows,
        filters=filters,
        chosen=wanted,
        statuses=STATUSES,
        run_path=run_path,
        title_of=title_of,
        older=link(HOME, **filters, before=found[PAGE - 1].id) if len(found) > PAGE else "",
        newest=link(HOME, **filters) if before else "",
        feed=link("/ui/live", workflow=pages.name),
        every=2000,
    )


def _is_last(job: Job, task: Task, last: dict[str, str]) -> bool:
    """Whether nobody has worked on its folder since."""
    return not job.final or last.get(task.ledger) == job.id


async def _sums(engine: Engine, ledgers: Sequence[str]) -> tuple[dict[str, Sum], dict[str, str]]:
    if not ledgers:
        return {}, {}
    named = {f"l{n}": ledger for n, ledger in enumerate(ledgers)}
    among = ", ".join(f":{name}" for name in named)
    books = await engine.read(
        (
            "SELECT ledger, SUM(total), SUM(done), SUM(flying), SUM(dead) FROM pages_books"
            f" WHERE ledger IN ({among}) GROUP BY ledger",
            named,
        )
    )
    batches = await engine.read(
        (
            "SELECT ledger, SUM(CASE WHEN state NOT IN ('ended', 'planned') THEN 1 ELSE 0 END), COUNT(*), SUM(cost),"
            " SUM(CASE WHEN state = 'planned' THEN size ELSE 0 END) FROM pages_batches"
            f" WHERE ledger IN ({among}) GROUP BY ledger",
            named,
        )
    )
    jobs = await engine.read((f"SELECT id, job FROM pages_ledgers WHERE id IN ({among})", named))
    paid = {row[0]: [int(value) for value in row[1:]] for row in batches}
    sums: dict[str, Sum] = {}
    for ledger, *counts in books:
        pages, done, flying, dead = (int(value) for value in counts)
        active, many, cost, planned = paid.get(ledger, (0, 0, 0, 0))
        sums[ledger] = Sum(pages, done, max(flying - planned, 0), dead, active, many, cost)
    return sums, dict(jobs)
