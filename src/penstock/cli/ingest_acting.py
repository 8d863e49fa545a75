"""The commands that change a knowledge base: each asks through `control`, says what became of it, and waits where that
was wished."""

from __future__ import annotations

import sys
from typing import Any

import click

from penstock.app import Penstock
from penstock.cli import sessions
from penstock.cli.command import Invocation
from penstock.cli.ingest_asked import Asked, acting, asked_of, base_meant, lack_for, run_meant, unknown
from penstock.cli.ingest_options import NEVER, Given, configuration, kept_of
from penstock.cli.ingest_shapes import run_shape, taken_out_shape
from penstock.cli.ingest_told import TakenOut, run_told, taken_out
from penstock.cli.ingest_views import big
from penstock.cli.ingest_wait import carried_out, check_kept, waited
from penstock.cli.output import harmless
from penstock.engine.errors import Conflict, NotFound
from penstock.engine.model import Job
from penstock.pipelines.ingestion import bases, control
from penstock.pipelines.ingestion.bases import Base, Run
from penstock.service.beginning import same_flags
from penstock.times import ago

MENDED = {
    "indexed": "chunk indexed again",
    "strays_removed": "stray entry of the index removed",
    "orphans_removed": "chunk removed that no document has",
    "dangling_removed": "place removed whose chunk is not there",
    "documents_to_read_again": "document that the next run reads again",
    "refused": "chunk that the embedder refuses",
}
"""What a repair counts, in words."""

LEFT = "left_to_the_next_repair"


def start(
    call: Invocation,
    kb: str,
    said: Given,
    sources: list[dict[str, Any]],
    *,
    rebuild: bool,
    every: float | None,
    wait: bool,
    tenant: str,
) -> int:
    asked = asked_of(call, tenant)
    control.checked_base(kb)
    if every:
        control.cron_of(every, 0.0)

    async def main() -> int:
        async with acting(asked, kb, must_exist=not sources) as app:
            check_kept(app, asked)
            found = await bases.find_base(app.engine, tenant, kb)
            if found is None and not sources:
                raise await unknown(app, asked, kb, "knowledge base", making=True)
            if every == NEVER:
                await _never_again(app, asked, kb)
                if not sources and not wait and not rebuild:
                    return 0
            config = configuration(said, sources, kept_of(found, rebuild=rebuild))
            try:
                told = await control.start(app, kb, config, rebuild=rebuild, tenant=tenant, actor=call.who)
            except Conflict as error:
                raise await _in_the_way(app, asked, found, error) from error
            if every:
                await _scheduled(app, asked, kb, every)
            run = await run_meant(app, asked, told.job_id)
            if wait:
                return await waited(asked, app, run, told.job_id)
            await _left_to_a_worker(app, asked, run, f"Started run {run.id} of {kb}")
            return 0

    return sessions.run(main())


async def _in_the_way(app: Penstock, asked: Asked, found: Base | None, error: Conflict) -> Conflict:
    """A run that is active is looked at, or gone on with where nobody does."""
    job = None if found is None or found.run is None else await control.newest_job(app, found.run)
    if found is None or job is None or job.final:
        return error
    finish = f"`{asked.command(f'cancel {found.id} --wait')}`"
    end = f"end it: {finish}"
    lack = await lack_for(app, job)
    if job.status == "canceling":
        way = f"no worker is alive to do it: `{asked.worker()}`, or do it here: {finish}" if lack else f"wait: {finish}"
        return Conflict(f"run {found.run} of {found.id!r} is being canceled; {way}", job=error.job)
    if job.status == "paused" or lack:
        way = f"go on with it: `{asked.command(f'resume {found.id} --wait')}`"
    else:
        way = f"look on: `{asked.command(f'status {found.id} --watch')}`"
    state = "paused" if job.status == "paused" else f"running{', but no worker is alive' if lack else ''}"
    return Conflict(f"run {found.run} of {found.id!r} is {state}; {way}, or {end}", job=error.job)


async def _scheduled(app: Penstock, asked: Asked, kb: str, every: float) -> None:
    await control.refresh_every(app, kb, every, tenant=asked.tenant, actor=asked.call.who)
    name = control.schedule_name(kb)
    due = next(each.next_due for each in await app.schedules(tenant=asked.tenant) if each.name == name)
    asked.call.out.remark(f"{kb} is refreshed by itself, next {ago(due, await app.engine.store.now())}.")


async def _never_again(app: Penstock, asked: Asked, kb: str) -> None:
    try:
        await app.unschedule(control.schedule_name(kb), tenant=asked.tenant, actor=asked.call.who)
    except NotFound:
        asked.call.out.tell(f"{kb} was not refreshed by itself.")
    else:
        asked.call.out.tell(f"{kb} is no longer refreshed by itself.")


async def _left_to_a_worker(app: Penstock, asked: Asked, run: Run, words: str) -> None:
    """In a pipe the run's id alone goes to stdout."""
    out = asked.call.out
    out.data({"run": run_shape(await run_told(app, run))})
    if out.fancy and not out.quiet:
        out.result(harmless(words))
    else:
        out.result(run.id)
        out.remark(harmless(words))
    job = await control.newest_job(app, run.id)
    if job is not None and not job.final and (lack := await lack_for(app, job)):
        go_on = asked.command(f"resume {run.base} --wait")
        out.note(f"{lack}: start one with `{asked.worker()}`, or do the work here: `{go_on}`")
    else:
        out.remark(f"How far it is: {asked.command(f'status {run.base} --watch')}")


def pause(call: Invocation, kb: str, *, wait: bool, tenant: str) -> int:
    asked = asked_of(call, tenant)

    async def main() -> int:
        async with acting(asked, kb) as app:
            run = await run_meant(app, asked, kb)
            job = await control.pause(app, run, actor=call.who)
            if wait and job.status != "paused" and not await lack_for(app, job):
                job = await app.wait(job.id, until=("paused",))
            call.out.data({"run": run_shape(await run_told(app, run))})
            if job.status == "paused":
                call.out.tell(f"Run {run.id} of {run.base} is paused.")
            elif job.final:
                call.out.note(f"Run {run.id} of {run.base} was {job.status} before it could be paused.")
            else:
                call.out.tell(f"Run {run.id} of {run.base} stops before its next group of chunks.")
            call.out.remark(f"Go on: {asked.command(f'resume {run.base}')}")
            return 0

    return sessions.run(main())


def resume(call: Invocation, kb: str, *, errors: bool, wait: bool, tenant: str) -> int:
    asked = asked_of(call, tenant)

    async def main() -> int:
        async with acting(asked, kb) as app:
            run = await run_meant(app, asked, kb)
            if errors:
                told = await control.retry_errors(app, run, actor=call.who)
                run, job_id = await run_meant(app, asked, told.job_id), told.job_id
                words = f"Run {run.id} of {run.base} tries again what could not be indexed"
            else:
                job = await _going_on(app, asked, run, wait=wait)
                job_id, words = job.id, f"Run {run.id} of {run.base} goes on"
            if wait:
                call.out.remark(harmless(f"{words}."))
                return await waited(asked, app, run, job_id)
            await _left_to_a_worker(app, asked, run, words)
            return 0

    return sessions.run(main())


async def _going_on(app: Penstock, asked: Asked, run: Run, *, wait: bool) -> Job:
    """A run that nobody paused, and that whoever did the work has left, is just waited for."""
    job = await control.newest_job(app, run.id)
    if job is not None and wait and job.status in ("queued", "running", "waiting") and job.halting == "":
        return job
    try:
        return await control.resume(app, run, actor=asked.call.who)
    except Conflict as error:
        if job is not None and not job.final and job.status != "canceling" and await lack_for(app, job):
            go_on = asked.command(f"resume {run.base} --wait")
            raise Conflict(f"{error}, and no worker is alive: `{asked.worker()}`, or `{go_on}`", job=run.id) from error
        if job is None or job.status == "canceled":
            again = asked.command(f"start {run.base}")
            raise Conflict(f"{error}; fill it once more: `{again}`", job=run.id) from error
        if job.status == "canceling":
            finish, again = asked.command(f"cancel {run.base} --wait"), asked.command(f"start {run.base}")
            words = f"run {run.id} of {run.base!r} is being canceled: let that end (`{finish}`), then `{again}`"
            raise Conflict(words, job=run.id) from error
        raise


def cancel(call: Invocation, kb: str, *, wait: bool, tenant: str) -> int:
    asked = asked_of(call, tenant)

    async def main() -> int:
        async with acting(asked, kb) as app:
            run = await run_meant(app, asked, kb)
            job = await control.newest_job(app, run.id)
            if job is None or not (wait and job.status == "canceling"):
                job = await control.cancel(app, run, actor=call.who)
            again = asked.command(f"cancel {run.base} --wait")
            if wait:
                job = await carried_out(asked, app, job.id, again, words=f"taking out what run {run.id} wrote")
            gone = taken_out(job)
            call.out.data({"run": run_shape(await run_told(app, run)), "taken_out": taken_out_shape(gone)})
            if job.status == "canceled":
                call.out.tell(f"Run {run.id} of {run.base} is canceled: {_gone_text(gone, 'was taken out')}.")
                return 0
            if job.status != "canceling":
                call.out.wrong(f"run {run.id} of {run.base!r} is {job.status}: {harmless(job.error or '')}")
                return 1
            call.out.tell(f"Run {run.id} of {run.base} is being canceled: {_gone_text(gone, 'is being taken out')}.")
            if lack := await lack_for(app, job):
                call.out.note(f"{lack}: start one with `{asked.worker()}`, or do the work here: `{again}`")
            return 0

    return sessions.run(main())


def _gone_text(gone: TakenOut, verb: str) -> str:
    if not gone.chunks and not gone.documents:
        return "it had indexed nothing"
    words = f"what it wrote ({big(gone.chunks, 'chunk')} of {big(gone.documents, 'document')}) {verb}"
    if gone.brought_back:
        words += f"; what it had replaced ({big(gone.brought_back, 'document')}) is back"
    return words


def repair(call: Invocation, kb: str, *, wait: bool, tenant: str) -> int:
    asked = asked_of(call, tenant)

    async def main() -> int:
        async with acting(asked, kb) as app:
            await base_meant(app, asked, kb)
            told = await control.start_repair(app, kb, tenant=tenant, actor=call.who)
            job = await app.job(told.job_id)
            if wait:
                again = asked.command(f"repair {kb} --wait")
                job = await carried_out(asked, app, job.id, again, words=f"mending {kb}")
            mended = job.result if job.status == "completed" and isinstance(job.result, dict) else {}
            call.out.data({"kb_id": kb, "job_id": job.id, "status": job.status, "error": job.error, "mended": mended})
            return await _show_repair(app, asked, kb, job, mended)

    return sessions.run(main())


async def _show_repair(app: Penstock, asked: Asked, kb: str, job: Job, mended: dict[str, int]) -> int:
    out = asked.call.out
    if job.status == "completed":
        for name, words in MENDED.items():
            if amount := mended.get(name):
                noun, _, rest = words.partition(" ")
                out.result(f"{amount:,} {noun}{'' if amount == 1 else 's'} {rest}")
        if not mended:
            out.tell(f"{kb}: there was nothing to mend.")
        if mended.get("documents_to_read_again"):
            out.remark(f"Read them: {asked.command(f'start {kb} --wait')}")
        if mended.get(LEFT):
            out.note("A run is at work: what it may need was left. Repair once more when it has ended.")
        return 0
    if job.final:
        out.wrong(f"the repair of {kb!r} {job.status}: {harmless(job.error or '')}")
        return 1
    out.tell(f"Job {job.id} mends {kb}.")
    if lack := await lack_for(app, job):
        again = asked.command(f"repair {kb} --wait")
        out.note(f"{lack}: start one with `{asked.worker()}`, or do the work here: `{again}`")
    return 0


def delete(call: Invocation, kb: str, *, yes: bool, wait: bool, tenant: str) -> int:
    asked = asked_of(call, tenant)
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("deleting cannot be undone, and there is no terminal to ask on: add --yes")

    async def main() -> int:
        async with acting(asked, kb) as app:
            base = await base_meant(app, asked, kb)
            edition = None if base.edition is None else await bases.edition_of(app.engine, base.edition)
            documents = 0 if edition is None else edition.documents
            if not yes and not click.confirm(f"Delete {kb} and its {big(documents, 'document')}?", err=True):
                call.out.note("Nothing was changed.")
                return 1
            try:
                job_id = await control.forget(app, kb, tenant=tenant, actor=call.who)
            except Conflict as error:
                raise await _in_the_way(app, asked, base, error) from error
            job = await app.job(job_id)
            if wait:
                again = f"penstock jobs wait {job_id}{same_flags(asked.settings)}"
                job = await carried_out(asked, app, job_id, again, words=f"removing {kb}")
            call.out.data({"kb_id": kb, "documents": documents, "job_id": job.id, "status": job.status})
            call.out.tell(f"Deleted {kb} ({big(documents, 'document')}).")
            if job.status == "failed":
                call.out.wrong(f"its rows could not be removed: {harmless(job.error or '')}")
                return 1
            if not job.final and (lack := await lack_for(app, job)):
                call.out.note(f"{lack}: its rows are removed when one runs, `{asked.worker()}`")
            return 0

    return sessions.run(main())
