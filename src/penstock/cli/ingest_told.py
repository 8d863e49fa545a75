"""What the command line tells of knowledge bases beyond what the API does: where each is filled from, what a run has
cost, and what a cancelled one leaves behind: nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.app import Penstock
from penstock.engine.model import Job, Schedule
from penstock.pipelines.ingestion import bases
from penstock.pipelines.ingestion.bases import Run
from penstock.pipelines.ingestion.control import schedule_name
from penstock.pipelines.ingestion.model import SourceSpec
from penstock.pipelines.ingestion.reading import BaseLine, base_lines
from penstock.pipelines.ingestion.status import Status, status_of
from penstock.pipelines.ingestion.work import Work
from penstock.pipelines.ingestion.workflow import ingestion
from penstock.shapes import total_of

MOST_JOBS = 100


@dataclass(slots=True, frozen=True)
class BaseTold:
    """A knowledge base in a list, with where it is filled from and when it is refreshed."""

    line: BaseLine
    sources: tuple[SourceSpec, ...]
    schedule: Schedule | None


async def bases_told(app: Penstock, tenant: str | None, *, after: tuple[str, str] | None, limit: int) -> list[BaseTold]:
    schedules = {(each.tenant, each.name): each for each in await app.schedules(tenant=tenant)}
    found = []
    for line in await base_lines(app.engine, tenant, after=after, limit=limit):
        base = await bases.find_base(app.engine, line.tenant, line.id)
        sources = () if base is None else base.config.sources
        found.append(BaseTold(line, sources, schedules.get((line.tenant, schedule_name(line.id)))))
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


def kind_of(spec: SourceSpec) -> str:
    """As the option that names it is called."""
    options = spec.options
    only_files = options.get("files") and not options.get("ids") and not options.get("playlists")
    return "subtitles" if spec.type == "youtube" and only_files else spec.type


def sources_text(specs: Sequence[SourceSpec]) -> list[str]:
    """`markdown /srv/docs`, `website https://…`, a line for each source."""
    told = []
    for spec in specs:
        named = [spec.options.get(name) for name in ("path", "url", "paths", "urls", "ids", "playlists", "files")]
        flat = [str(each) for some in named if some for each in (some if isinstance(some, (list, tuple)) else [some])]
        shown = ", ".join(flat[:3]) + (f" and {len(flat) - 3} more" if len(flat) > 3 else "")
        told.append(f"{kind_of(spec)} {shown}".rstrip())
    return told
