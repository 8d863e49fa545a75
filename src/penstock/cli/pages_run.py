"""Running pages from the command line: a run is started (or found), and then watched, done here where no worker is
alive, or advanced once. What was sent to Gemini goes on whatever happens to this process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import click

from penstock.app import Penstock
from penstock.cli import sessions
from penstock.cli.logs import log_beside
from penstock.cli.output import harmless
from penstock.cli.pages_asked import Asked, check_pipeline
from penstock.cli.pages_live import Watched, view_for
from penstock.cli.pages_plan import looked_at
from penstock.cli.pages_shapes import overview_shape
from penstock.cli.pages_told import Told, overview, trouble, trouble_text
from penstock.cli.pages_views import big, done_text, many, paused_because, show_ended, unread_text
from penstock.cli.waiting import Deserted, Resting, Waiting
from penstock.cli.waiting_views import View
from penstock.engine.errors import OverBudget
from penstock.engine.model import Job
from penstock.pipelines.pages import asking, reading
from penstock.pipelines.pages.model import Task
from penstock.pipelines.pages.planning import nothing_matches
from penstock.pipelines.pages.workflow import pages
from penstock.shapes import summary
from penstock.store.protocol import Submitted
from penstock.times import length

READ_EVERY = 5
"""Looks at the job between two looks at its ledger."""
MOST_PASSES = 1000
"""Ticks of one `--once`: many where a first walk is long, and in any case not for ever."""


@dataclass(slots=True)
class PagesWaiting(Waiting):
    """A wait for one run, with its ledger."""

    watched: Watched = field(default_factory=lambda: Watched(""))
    ledger: str = ""
    looks: int = 0

    def _view(self) -> View:
        return view_for(self.out, self.jobs, self.watched)

    async def _look(self) -> float:
        # A dataclass with slots is made anew, so that a bare super() does not find its class.
        now = await Waiting._look(self)
        (job,) = self.jobs.values()
        if self.looks % READ_EVERY == 0 or job.final:
            await self._read(job)
        self.looks += 1
        return now

    async def _read(self, job: Job) -> None:
        engine, watched = self.app.engine, self.watched
        watched.overview = await overview(engine, self.ledger, Task.model_validate(job.payload).run)
        if self.out.live:
            watched.batches = await reading.batches(engine, self.ledger, active=True, limit=20)
            watched.books = await reading.books(engine, self.ledger, only="flying", limit=6)
            watched.events = await self.app.logs(job.id, limit=5)


async def start(asked: Asked, app: Penstock) -> Submitted:
    """Start the run. One that rests because its budget was spent goes on when the file grants it more."""
    check_pipeline(app)
    last = await asking.last_run(app, asked.run.paths.output_dir)
    if last is not None and last.status == "paused" and asked.run.budget.max_usd is not None:
        before = Task.model_validate(last.payload).run
        alike = before.model_copy(update={"budget": asked.run.budget}) == asked.run
        parked = last.reason is not None and last.reason.startswith(OverBudget.__name__)
        if alike and before.budget != asked.run.budget and parked:
            await app.set_budget(f"job:{last.id}", asked.run.budget.max_usd, actor=asked.call.who)
            resumed = await app.job(last.id)
            if resumed.status == "paused":
                resumed = await app.resume(last.id, actor=asked.call.who)
            asked.call.out.remark(f"The budget of run {last.id} is ${asked.run.budget.max_usd:,.2f} now; it goes on.")
            return Submitted(last.id, False, last.run, resumed.status)
    return await asking.start(app, asked.run, actor=asked.call.who)


async def run_here(asked: Asked, app: Penstock, told: Submitted) -> int:
    """Until the run has ended: watch it where a worker is alive, else do its work."""
    out = asked.call.out
    job = await app.job(told.job_id)
    if not told.created:
        out.remark(f"Going on with run {job.id}, which is {job.status}.")
    lack = None if job.final else await sessions.lack(app, job.workflow, job.queue)
    while True:
        if lack is None and not job.final:
            out.note("A worker is alive and does the work: this command only watches, and Ctrl-C ends just that.")
            interrupted = f"Interrupted: run {job.id} goes on in its worker; {asked.command('status')} tells how far"
        else:
            app.engine.claim_only(pages.name)
            interrupted = (
                f"Interrupted: the step that is running has up to {asked.settings.grace:g} s to finish; "
                "a second Ctrl-C stops it at once"
            )
        waiting = PagesWaiting(
            app, out, asked.settings, lack is not None, f"{interrupted}.",
            watched=Watched(asked.name, asked.local), ledger=asked.ledger,
        )  # fmt: skip
        try:
            (job,) = await waiting.until_final([job.id], until=None)
            break
        except Deserted as error:
            lack = error.lack
            out.note(f"{lack}: this process goes on with the work.")
        except Resting:
            return await _resting(asked, app, job.id, created=told.created)
        except asyncio.CancelledError:
            if lack is not None:
                await _left(asked, app, job.id)
            raise
    return await ended(asked, app, job, created=told.created)


async def left_to_a_worker(asked: Asked, app: Penstock, job_id: str, *, created: bool) -> int:
    """Say how it stands, and who would do the work."""
    out = asked.call.out
    job = await app.job(job_id)
    told = await overview(app.engine, asked.ledger, asked.run)
    out.data(result_of(job, told, created=created))
    out.tell(f"Run {job.id} is {job.status}." if created else f"Run {job.id} exists already, and is {job.status}.")
    if words := trouble_text(job, await app.engine.store.now()):
        out.wrong(words)
    if not job.final and (lack := await sessions.lack(app, job.workflow, job.queue)):
        out.note(f"{lack}: start one with `{asked.worker()}`, or run it here: {asked.command('run')}")
    else:
        out.remark(f"How far it is: {asked.command('status')}")
    return 0


async def ended(asked: Asked, app: Penstock, job: Job, *, created: bool, did: dict[str, Any] | None = None) -> int:
    """Say how the run ended. 1 where not every page is read."""
    told = await overview(app.engine, asked.ledger, asked.run)
    asked.call.out.data(result_of(job, told, created=created, did=did))
    show_ended(asked.call.out, job, told, asked.run, asked.commands, local=asked.local)
    return 0 if job.status == "completed" and told.totals.done == told.totals.pages else 1


def result_of(job: Job, told: Told, *, created: bool, did: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"run": summary(job), "created": created, "overview": overview_shape(told), "did": did}


async def _resting(
    asked: Asked, app: Penstock, job_id: str, *, created: bool, did: dict[str, Any] | None = None
) -> int:
    """The run is paused: what helps depends on why."""
    out = asked.call.out
    job = await app.job(job_id)
    told = await overview(app.engine, asked.ledger, asked.run)
    out.data(result_of(job, told, created=created, did=did))
    why = paused_because(job) or "somebody asked"
    out.wrong(f"run {job.id} is paused ({harmless(why)}); {done_text(told)} done")
    out.remark(f"  {way_on(asked, job)}")
    return 1


def way_on(asked: Asked, job: Job) -> str:
    """What lets a run go on that is paused; one way, the one that lasts."""
    why = job.reason or ""
    if why.startswith(OverBudget.__name__) and "nobody knows what" not in why:
        most = asked.run.budget.max_usd
        if most is not None and f"budget job:{job.id}" in why:
            return f"Raise budget.max_usd in {asked.name} (now {most:g}), then go on: {asked.command('run')}"
        return f"Raise that budget, then go on: {asked.command('run')}"
    if why.startswith("Ambiguous"):
        return "Decide about the call: penstock calls list --state quarantined"
    return f"Let it go on: penstock jobs resume {job.id} && {asked.command('run')}"


async def _left(asked: Asked, app: Penstock, job_id: str) -> None:
    """After Ctrl-C: what goes on without us, and how to go on with the rest."""
    job = await app.job(job_id)
    told = await overview(app.engine, asked.ledger, asked.run)
    if job.final:
        click.echo(f"Run {job.id} is {job.status}.", err=True)
        return
    if words := trouble_text(job, await app.engine.store.now()):
        asked.call.out.wrong(words)
    active = told.batches_active
    if active:
        it_goes = "goes on at Gemini and is kept" if active == 1 else "go on at Gemini and are kept"
        sent = f" {many(active, 'batch')} with {many(told.totals.flying, 'page')} {it_goes}: nothing is paid twice."
    else:
        sent = ""
    click.echo(f"{done_text(told)} done.{sent}\nGo on: {asked.command('run')}", err=True)


async def once(asked: Asked, app: Penstock, told: Submitted) -> int:
    """One pass, for cron: look after the batches, take in what has ended, fill the slots, and leave."""
    out = asked.call.out
    job = await app.job(told.job_id)
    before = await overview(app.engine, asked.ledger, asked.run)
    if not job.final and await sessions.alive(app, job.workflow, job.queue):
        out.note("A worker is alive and does the work: there is nothing to do here.")
        out.data(result_of(job, before, created=told.created, did=_did(before, before)))
        return await _in_trouble(asked, app, job)
    log_beside(out, [job.id])
    app.engine.claim_only(pages.name)
    delay: float | None = None
    try:
        for _ in range(MOST_PASSES):
            await _tend(app)
            wake = await app.engine.advance(job.id)
            job = await app.job(job.id)
            delay = None if wake is None else wake.delay
            if job.final or job.status == "paused" or delay is None or delay > 0:
                break
    finally:
        await app.engine.drain(asked.settings.grace)
    after = await overview(app.engine, asked.ledger, asked.run)
    did = _did(before, after)
    if any(did.values()) or not trouble(job):
        out.remark(_did_text(did, after))
    if job.status == "paused":
        return await _resting(asked, app, job.id, created=told.created, did=did)
    if job.final:
        return await ended(asked, app, job, created=told.created, did=did)
    out.data(result_of(job, after, created=told.created, did=did))
    out.remark(f"  Once more, in {length(delay or 0.0)} or later: {asked.command('run')} --once")
    return await _in_trouble(asked, app, job)


async def _in_trouble(asked: Asked, app: Penstock, job: Job) -> int:
    """1, and why, where the run's step failed and waits to be tried again."""
    words = trouble_text(job, await app.engine.store.now())
    if words:
        asked.call.out.wrong(words)
    return 1 if words else 0


async def nothing_to_do(asked: Asked, app: Penstock) -> int | None:
    """For a pass that would find everything as the last run left it: say so, and how that is. None: there may be
    something, which a run finds out."""
    last = await asking.last_run(app, asked.run.paths.output_dir)
    if last is None or last.status != "completed" or Task.model_validate(last.payload).run != asked.run:
        return None
    told = await overview(app.engine, asked.ledger, asked.run)
    totals = told.totals
    if told.batches_active or told.unsent_batches or told.wishes or totals.ready or totals.found:
        return None
    seen = await looked_at(asked, app)
    there = (seen.books, seen.pages, seen.done, seen.dead)
    if there != (totals.books, totals.pages, totals.done, totals.dead) or seen.to_do or seen.without_image:
        return None
    out = asked.call.out
    out.data(result_of(last, told, created=False, did=_did(told, told)))
    unread = totals.pages - totals.done
    out.remark(
        f"Nothing to do: {done_text(told)} done, nothing changed in the folders since run {last.id}; none was started."
    )
    if unread:
        out.note(f"  {unread_text(told)}")
        out.remark(f"  Why: {asked.command('failures')}")
    return 1 if unread else 0


async def matches_nothing(asked: Asked, app: Penstock) -> bool:
    """Whether the filters let nothing through, which is said. A run that is alive is another matter: it may have
    batches to take in."""
    filters = asked.run.filters
    if filters == type(filters)():
        return False
    last = await asking.last_run(app, asked.run.paths.output_dir)
    if last is not None and not last.final:
        return False
    wrong = await asyncio.to_thread(nothing_matches, asked.run)
    if wrong is not None:
        asked.call.out.wrong(wrong)
    return wrong is not None


async def _tend(app: Penstock) -> None:
    """Look after all batches that are due, a few at a time."""
    for _ in range(MOST_PASSES):
        if not await app.engine.tend():
            return


def _did(before: Told, after: Told) -> dict[str, Any]:
    ended = after.batches_ended - before.batches_ended
    return {
        "pages_done": after.totals.done - before.totals.done,
        "pages_dead": after.totals.dead - before.totals.dead,
        "failed_attempts": after.failed_attempts - before.failed_attempts,
        "batches_ended": ended,
        "batches_sent": ended + after.batches_active - before.batches_active,
    }


def _did_text(did: dict[str, Any], after: Told) -> str:
    parts = [
        f"{many(did['batches_ended'], 'batch')} taken in" if did["batches_ended"] else "",
        f"{many(did['pages_done'], 'page')} done" if did["pages_done"] > 0 else "",
        f"{many(did['failed_attempts'], 'attempt')} failed" if did["failed_attempts"] else "",
        f"{many(did['pages_dead'], 'page')} dead" if did["pages_dead"] > 0 else "",
        f"{many(did['batches_sent'], 'batch')} sent" if did["batches_sent"] else "",
    ]
    news = ", ".join(part for part in parts if part) or "nothing was due"
    active = f"; {many(after.batches_active, 'batch')} active with {big(after.totals.flying)} in flight"
    unsent = f"; {big(after.unsent_pages)} waiting to be sent" if after.unsent_pages else ""
    return f"This pass: {news}. {done_text(after)} done{active if after.batches_active else ''}{unsent}."
