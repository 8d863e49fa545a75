"""Waiting for a run, and for what else is done to a knowledge base. Where no worker is alive the work is done in this
process; Ctrl-C leaves it to whoever comes, and says how to go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import click

from penstock.app import Penstock
from penstock.cli import sessions
from penstock.cli.ingest_asked import Asked, lack_for
from penstock.cli.ingest_live import Watched, status_words, view_for, working
from penstock.cli.ingest_shapes import run_shape
from penstock.cli.ingest_told import run_told
from penstock.cli.ingest_views import show_ended
from penstock.cli.output import Output, harmless
from penstock.cli.waiting import COUNT_WORKERS_EVERY, LOOK_EVERY, Deserted, Resting, Waiting
from penstock.cli.waiting_views import View
from penstock.engine.errors import OverBudget
from penstock.engine.model import Job
from penstock.pipelines.ingestion import bases
from penstock.pipelines.ingestion.bases import Run
from penstock.pipelines.ingestion.control import newest_job
from penstock.pipelines.ingestion.status import status_of
from penstock.pipelines.ingestion.workflow import ALL

MOST_CHILDREN = 100

Make = Callable[[bool, str], Waiting]
"""A wait, given whether the work is done here and what an interruption says."""


@dataclass(slots=True)
class RunWaiting(Waiting):
    """A wait for one run."""

    run: Run | None = None
    watched: Watched = field(default_factory=Watched)

    def _view(self) -> View:
        return view_for(self.out, self.jobs, self.watched)

    async def _look(self) -> float:
        # A dataclass with slots is made anew, so that a bare super() does not find its class.
        now = await Waiting._look(self)
        assert self.run is not None
        self.run = await bases.find_run(self.app.engine, self.run.id) or self.run
        self.watched.status = await status_of(self.app, self.run)
        return now

    async def _watch(self, view: View) -> None:
        await Waiting._watch(self, view)
        if self.here:
            await self._removed_behind(view)

    async def _removed_behind(self, view: View) -> None:
        """What the run replaced is removed by jobs of their own, and nobody else is there to do them."""
        (job,) = self.jobs.values()
        names = {workflow.name for workflow in ALL}
        for child in await self.app.jobs(parent=job.id, limit=MOST_CHILDREN, brief=True):
            if child.workflow in names and not child.final:
                if self.out.live:
                    view.remark("removing what was replaced")
                await self.app.wait(child.id)


async def until_ended(asked: Asked, app: Penstock, job_id: str, make: Make, *, how_far: str, go_on: str) -> Job:
    """The job, final. `how_far` tells of it, `go_on` goes on with it: both are commands."""
    settings, out = asked.settings, asked.call.out
    lack = await lack_for(app, await app.job(job_id))
    while True:
        interrupted = f"Interrupted: the work goes on without us; `{how_far}` tells how far."
        if lack is not None:
            out.note(f"{lack}: running the work in this process.")
            app.engine.claim_only(*(workflow.name for workflow in ALL))
            interrupted = (
                f"Interrupted: the step that is running has up to {settings.grace:g} s to finish; "
                "a second Ctrl-C stops it at once and hands it back."
            )
        try:
            (job,) = await make(lack is not None, interrupted).until_final([job_id], until=None)
            return job
        except Deserted as error:
            lack = error.lack
        except asyncio.CancelledError:
            if lack is not None:
                await _left(asked, app, job_id, go_on)
            raise


async def _left(asked: Asked, app: Penstock, job_id: str, go_on: str) -> None:
    """After Ctrl-C: what became of the work, and who goes on with it."""
    job = await app.job(job_id)
    if job.final:
        click.echo(f"It is {job.status} all the same.", err=True)
        return
    seen = job.counters.get("docs_seen", 0)
    words = f"{seen:,} {'document' if seen == 1 else 'documents'} done. " if seen else ""
    click.echo(
        f"{words}The rest is safe: it goes on when a worker runs, `{asked.worker()}`, or here: `{go_on}`", err=True
    )


async def waited(asked: Asked, app: Penstock, run: Run, job_id: str) -> int:
    """Watch a run to its end, and say what it came to. 1 where it failed, or something could not be indexed."""
    watched, base = Watched(), run.base

    def make(here: bool, interrupted: str) -> Waiting:
        return RunWaiting(app, asked.call.out, asked.settings, here, interrupted, run=run, watched=watched)

    try:
        await until_ended(
            asked, app, job_id, make,
            how_far=asked.command(f"status {base}"), go_on=asked.command(f"resume {base} --wait"),
        )  # fmt: skip
    except Resting:
        return await _resting(asked, app, run)
    told = await run_told(app, run)
    asked.call.out.data({"run": run_shape(told)})
    await show_ended(asked, app, told)
    return 0 if told.well else 1


async def _resting(asked: Asked, app: Penstock, run: Run) -> int:
    """The run is paused: what helps depends on why."""
    out = asked.call.out
    told = await run_told(app, run)
    out.data({"run": run_shape(told)})
    why = told.status.reason or "somebody asked"
    out.wrong(harmless(f"run {run.id} of {run.base!r} is paused ({why})"))
    out.remark(f"  {way_on(asked, run.base, told.status.reason)}")
    return 1


def way_on(asked: Asked, base: str, reason: str | None) -> str:
    """What lets a paused run go on."""
    why, resume = reason or "", asked.command(f"resume {base} --wait")
    if why.startswith(OverBudget.__name__):
        return f"Raise that budget, then go on: {resume}"
    if why.startswith("Ambiguous"):
        return f"Decide about the call (penstock calls list --state quarantined), then go on: {resume}"
    return f"Go on: {resume}"


@dataclass(slots=True)
class JobWaiting(Waiting):
    """A wait for something of which there is little to tell while it is done."""

    words: str = ""

    def _view(self) -> View:
        return Doing(self.out, self.jobs, self.words)


class Doing(View):
    """On a terminal a line that moves."""

    def __init__(self, out: Output, jobs: Mapping[str, Job], words: str) -> None:
        super().__init__(out, jobs)
        self._line = working(out, words)

    def __enter__(self) -> View:
        self._line.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._line.__exit__(None, None, None)

    def remark(self, text: str) -> None:
        if text and text != self._remark:
            self.out.note(text)
        self._remark = text


async def carried_out(asked: Asked, app: Penstock, job_id: str, again: str, *, words: str) -> Job:
    """Wait for a job that is no run: a repair, a deletion, or the clean-up of a cancelled run."""

    def make(here: bool, interrupted: str) -> Waiting:
        return JobWaiting(app, asked.call.out, asked.settings, here, interrupted, words=words)

    return await until_ended(asked, app, job_id, make, how_far=f"penstock jobs show {job_id}", go_on=again)


async def watched_to_the_end(asked: Asked, app: Penstock, run: Run) -> int:
    """Only look, until the run has ended or rests."""
    out, watched = asked.call.out, Watched()
    jobs: dict[str, Job] = {}
    looks, shown = 0, None
    with view_for(out, jobs, watched) as view:
        while True:
            job = await newest_job(app, run.id)
            jobs.clear()
            if job is not None:
                jobs[job.id] = job
            told = await run_told(app, run)
            watched.status = told.status
            view.show(await app.engine.store.now())
            if out.json and (shape := run_shape(told)) != shown:
                out.data(shape)
                shown = shape
            if told.status.status in ("completed", "failed", "paused", "not_started"):
                break
            if looks % COUNT_WORKERS_EVERY == 0:
                lack = await lack_for(app, job)
                view.remark(
                    f"{lack}: `{asked.worker()}`, or `{asked.command(f'resume {run.base} --wait')}`" if lack else ""
                )
            looks += 1
            await asyncio.sleep(LOOK_EVERY)
    if told.status.status == "paused":
        out.note(f"Run {run.id} is {status_words(told.status)}. {way_on(asked, run.base, told.status.reason)}")
    else:
        await show_ended(asked, app, told)
    return 0 if told.well else 1


def check_kept(app: Penstock, asked: Asked) -> None:
    """Refuse a store that would be gone with this process."""
    from penstock.engine.errors import InvalidRequest

    if sessions.store_url(app, asked.settings) == "memory://":
        raise InvalidRequest("memory:// cannot hold a knowledge base: use sqlite:///FILE or postgresql://…")
