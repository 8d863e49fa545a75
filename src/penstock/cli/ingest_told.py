"""What the command line reads of knowledge bases beyond a run's status: how each stands, what could not be indexed, and
what a run has cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from penstock.app import Penstock
from penstock.engine.model import Job, Schedule
from penstock.pipelines.ingestion import bases
from penstock.pipelines.ingestion.bases import Base, Edition, Run
from penstock.pipelines.ingestion.control import newest_job, schedule_name
from penstock.pipelines.ingestion.status import Status, status_of, word_of
from penstock.pipelines.ingestion.work import Work
from penstock.pipelines.ingestion.workflow import ingestion
from penstock.shapes import total_of

MOST_JOBS = 100


@dataclass(slots=True, frozen=True)
class BaseLine:
    """A knowledge base in a list."""

    base: Base
    edition: Edition | None
    status: str
    schedule: Schedule | None


async def base_lines(app: Penstock, tenant: str | None, *, after: str, limit: int) -> list[BaseLine]:
    schedules = {(each.tenant, each.name): each for each in await app.schedules(tenant=tenant)}
    found = []
    for base in await bases.bases(app.engine, tenant, after=after, limit=limit):
        edition = None if base.edition is None else await bases.edition_of(app.engine, base.edition)
        run = None if base.run is None else await bases.find_run(app.engine, base.run)
        status = "not_started" if run is None else word_of(run, await newest_job(app, run.id))
        found.append(BaseLine(base, edition, status, schedules.get((base.tenant, schedule_name(base.id)))))
    return found


@dataclass(slots=True, frozen=True)
class RunTold:
    """How a run stands, and what it has cost so far, in millionths of a dollar."""

    run: Run
    status: Status
    cost: int

    @property
    def well(self) -> bool:
        return self.status.status == "completed" and not self.status.errors


async def run_told(app: Penstock, run: Run) -> RunTold:
    """Its row is read again: the end of a run is written there."""
    run = await bases.find_run(app.engine, run.id) or run
    status = await status_of(app, run)
    # Without a call there is nothing to add up; a run that was resumed after a failure has several jobs.
    jobs = await app.jobs(workflow=ingestion.name, key=run.id, limit=MOST_JOBS, brief=True)
    cost = 0
    for job in jobs:
        cost += total_of(await app.costs(job=job.id)).cost
    return RunTold(run, status, cost)


@dataclass(slots=True, frozen=True)
class ErrorRow:
    """A document that could not be loaded, or a chunk that could not be embedded."""

    id: str
    run: str
    uri: str
    chunk: int | None
    position: dict[str, Any] | None
    text: str | None
    error: str
    attempts: int
    at: float


async def errors(app: Penstock, run: Run, *, of_run: bool, before: str | None, limit: int) -> list[ErrorRow]:
    """The newest first: those of one run, or all that the run's edition has."""
    where = "run = :of" if of_run else "edition = :of"
    values: dict[str, Any] = {"of": run.id if of_run else run.edition, "limit": limit}
    if values["of"] is None:
        return []
    if before is not None:
        where += " AND id < :before"
        values["before"] = before
    rows = await app.engine.read(
        (
            "SELECT id, run, uri, seq, position, text, error, attempts, at FROM kb_errors"
            f" WHERE {where} ORDER BY id DESC LIMIT :limit",
            values,
        )
    )
    return [_error(row) for row in rows]


def _error(row: tuple[Any, ...]) -> ErrorRow:
    id, run, uri, seq, position, text, error, attempts, at = row
    return ErrorRow(id, run, uri, seq, from_json(position) if position else None, text, error, attempts, at)


def work_of(job: Job) -> Work | None:
    """What a run's job carries, also of one that was cancelled; None before its first step."""
    payload = job.payload
    return Work.model_validate(payload) if isinstance(payload, dict) and "edition" in payload else None


@dataclass(slots=True, frozen=True)
class TakenOut:
    """What a cancelled run had written: removed, and what it had replaced is back."""

    documents: int = 0
    chunks: int = 0
    brought_back: int = 0


def taken_out(job: Job) -> TakenOut:
    work = work_of(job)
    if work is None:
        return TakenOut()
    seen = work.counters
    begun = int(work.part is not None)
    whole = seen.docs_seen - seen.docs_unchanged - seen.docs_error - seen.docs_empty
    return TakenOut(max(whole, 0) + begun, seen.chunks_processed, seen.docs_replaced)


def sources_text(specs: Sequence[Any]) -> list[str]:
    """`markdown /srv/docs`, `website https://…`, a line for each source."""
    told = []
    for spec in specs:
        options = spec.options
        names = [options.get(name) for name in ("path", "url", "paths", "urls", "ids", "playlists", "files")]
        flat = [str(each) for name in names if name for each in (name if isinstance(name, (list, tuple)) else [name])]
        shown = ", ".join(flat[:3]) + (f" and {len(flat) - 3} more" if len(flat) > 3 else "")
        told.append(f"{spec.type} {shown}".rstrip())
    return told
