"""A run's tick: it looks at everything once, and then waits.

A tick publishes what the last one left, grants wishes, takes in every batch that has ended, walks the trees, and fills
the free slots with new ones. Each of these is stored before the next begins (`ctx.checkpoint`), so a crash repeats a
part and never loses one. What was sent to Gemini is found again by the engine; a page is in one batch at a time because
the ledger has one row for it in flight.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from penstock.engine.call import REPEATED, RESTING, Call
from penstock.engine.context import Context
from penstock.engine.errors import Blocked, InvalidRequest, Permanent, Transient
from penstock.engine.outcome import Again
from penstock.engine.staging import Report
from penstock.pipelines.pages import rules
from penstock.pipelines.pages.collecting import Damaged, collect, rows_of, summary
from penstock.pipelines.pages.images import image_problem
from penstock.pipelines.pages.inventory import check_outputs, index, publish, verify
from penstock.pipelines.pages.ledger import Apart, Ledger, called
from penstock.pipelines.pages.ledger_rows import BatchRow, Flight, Totals
from penstock.pipelines.pages.model import Task
from penstock.pipelines.pages.prompts.registry import LoadedPrompt, load_prompt
from penstock.pipelines.pages.submitting import choose, request_for
from penstock.pipelines.pages.wishes import fit, grant

NOT_FORGOTTEN = 30 * 86_400.0
"""Seconds for which a batch that was sent is not believed to be gone, whatever the store says: Gemini keeps none longer
than two days."""

PATIENCE_WHEN_CANCELED = 600.0
"""Seconds that a canceled run waits for Gemini to say what became of its batches. What comes later is taken in by the
next run."""


async def begin(task: Task, ctx: Context) -> Task | Again:
    """Take the lock of the output folder, and make the ledger fit this run's configuration."""
    if not await ctx.lock(f"pages:{task.ledger}"):
        return Again(task, after=5.0)
    prompt = await asyncio.to_thread(load_prompt, task.run.prompt)
    ledger = Ledger(task.ledger, ctx, task.run.execution.on_dead_page)
    await check_outputs(ledger, task)
    await fit(ctx, ledger, task, prompt)
    return task


async def tick(task: Task, ctx: Context) -> Again | dict[str, Any]:
    """Everything once: see the module."""
    run = task.run
    ledger = Ledger(task.ledger, ctx, run.execution.on_dead_page)
    prompt = await asyncio.to_thread(load_prompt, run.prompt)
    await check_outputs(ledger, task)
    problems: list[Transient] = []
    await publish(ctx, ledger, task, problems)
    await grant(ctx, ledger, task)
    live = await _service(ctx, ledger, task, prompt, problems)
    await publish(ctx, ledger, task, problems)
    # After what came home: an output that was put there meanwhile is seen before its page is sent again.
    await index(ctx, ledger, task)
    await verify(ctx, ledger, task, prompt)
    if not run.execution.dry_run:
        live = await _filled(ctx, ledger, task, prompt, live)
    totals = await ledger.totals()
    await _show_progress(ctx, totals, len(live))
    if problems and not live:
        # While something is under way the others are served as ever, and the log says what is wrong.
        raise problems[0]
    if ctx.halted:
        return Again(task)
    await asyncio.to_thread(_drop_scratch, ctx.scratch, bool(totals.flying))
    active = await ledger.active()
    if active or totals.found or (totals.ready and not run.execution.dry_run):
        return Again(task, after=run.batch.poll_interval_seconds if active else 1.0, until=_under_way(live))
    if problems or await ledger.staged() or await ledger.wishes():
        return Again(task, after=run.batch.poll_interval_seconds if problems else 0.0)
    return _result(totals)


async def stop(task: Task, ctx: Context) -> Again | None:
    """The batches are being stopped at Gemini; what they still bring home is kept."""
    ledger = Ledger(task.ledger, ctx, task.run.execution.on_dead_page)
    if not await ledger.active() and not await ledger.staged():
        return None
    since = ctx.now() if task.canceled is None else task.canceled
    waiting = task.model_copy(update={"canceled": since})
    prompt = await asyncio.to_thread(load_prompt, task.run.prompt)
    await check_outputs(ledger, waiting)
    problems: list[Transient] = []
    await publish(ctx, ledger, waiting, problems)
    live = await _service(ctx, ledger, waiting, prompt, problems, ending=True)
    await publish(ctx, ledger, waiting, problems)
    if problems and ctx.now() - since < PATIENCE_WHEN_CANCELED:
        raise problems[0]
    if live and ctx.now() - since < PATIENCE_WHEN_CANCELED:
        return Again(waiting, after=min(5.0, task.run.batch.poll_interval_seconds), until=_under_way(live))
    return None


def _under_way(live: Sequence[Call]) -> list[Call]:
    """One that waits for a person would let the job go on at once, and again and again."""
    return [call for call in live if call.state not in RESTING]


def _drop_made(root: Path, flights: Sequence[Flight]) -> None:
    """Images that were made readable for a batch that has landed. One that another page shares is made again."""
    for flight in flights:
        if (image := Path(flight.image)).is_relative_to(root):
            image.unlink(missing_ok=True)


def _drop_scratch(folder: Path, needed: bool) -> None:
    """Images that were made readable, once no page in flight needs one."""
    if not needed:
        shutil.rmtree(folder, ignore_errors=True)


async def _service(
    ctx: Context,
    ledger: Ledger,
    task: Task,
    prompt: LoadedPrompt,
    problems: list[Transient],
    *,
    ending: bool = False,
) -> list[Call]:
    """Every active batch once: those that have ended are taken in, one commit each, and one that cannot be holds up no
    other. Answers with those that have not ended."""
    active = await ledger.active()
    if not active:
        return []
    states = await ctx.part("wait_for_batch_completion", partial(_look, ctx, active))
    live: list[Call] = []
    for batch, call in states:
        if call is None and batch.call is not None and ctx.now() - batch.created < NOT_FORGOTTEN:
            problems.append(Transient(f"batch {batch.number} was sent as call {batch.call}, which is not in the store"))
        elif call is None or call.state in REPEATED or call.state == "unsent":
            if ending or batch.job != ctx.job.id:
                await _free(ctx, ledger, task, batch)
            elif batch.state == "submitted":
                ledger.write(
                    "UPDATE pages_batches SET state = 'planned' WHERE ledger = :ledger AND number = :number",
                    number=batch.number,
                )
                await ctx.checkpoint(task)
        elif call.ended:
            try:
                await ctx.part("process_batch_results", partial(_take_in, ctx, ledger, task, prompt, batch, call))
            except Transient as error:
                ctx.log.warning("batch %d cannot be taken in: %s", batch.number, error)
                problems.append(error)
        else:
            if batch.call != call.id:
                _note_sent(ctx, ledger, batch, call)
                await ctx.checkpoint(task)
            live.append(call)
    return live


async def _look(ctx: Context, active: Sequence[BatchRow]) -> list[tuple[BatchRow, Call | None]]:
    """The calls of batches, by their keys, whichever run on this folder holds them: a retried run takes over those of
    the run before it."""
    keys = {f"k{batch.number}": called(batch.number) for batch in active}
    job = ctx.job
    rows = await ctx.read(
        (
            "SELECT c.key, c.job FROM jobs j JOIN calls c ON c.job = j.id WHERE j.tenant = :tenant"
            f" AND j.workflow = :workflow AND j.key = :key AND c.key IN ({', '.join(f':{name}' for name in keys)})"
            " ORDER BY c.attempt",
            {**keys, "tenant": job.tenant, "workflow": job.workflow, "key": job.key},
        )
    )
    holders = dict(rows)
    found: list[tuple[BatchRow, Call | None]] = []
    for batch in active:
        key = called(batch.number)
        found.append((batch, await ctx.known_call(key, job=holders[key]) if key in holders else None))
    return found


async def _free(ctx: Context, ledger: Ledger, task: Task, batch: BatchRow) -> None:
    """A batch that was planned and never sent, by a run that is over."""
    flights = await ledger.flights(batch.number)
    await ledger.change([(flight.book, flight.number) for flight in flights], rules.WORK)
    ledger.drop_batch(batch.number)
    if batch.call is not None and batch.job == ctx.job.id:
        ctx.count(batches_submitted=-1)
    await ctx.checkpoint(task)


async def _take_in(
    ctx: Context, ledger: Ledger, task: Task, prompt: LoadedPrompt, batch: BatchRow, call: Call
) -> dict[str, Any]:
    flights = await ledger.flights(batch.number)
    apart = Apart(ctx)
    try:
        result = await collect(ctx, replace(ledger, desk=apart), task.run, prompt, batch, call)
    except Damaged as error:
        apart = Apart(ctx)
        told = str(error)
        result = await collect(ctx, replace(ledger, desk=apart), task.run, prompt, batch, call, damage=told)
    # In this order: what is ended is not sent any more.
    _note_sent(ctx, ledger, batch, call)
    apart.hand_over()
    await ctx.checkpoint(task)
    await asyncio.to_thread(_drop_made, ctx.scratch.parent, flights)
    ctx.log.info(
        "batch %d: %d of %d pages done, %d failed",
        batch.number,
        result.successful_records,
        result.total_records,
        result.failed_records,
    )
    await ctx.show(
        Report(
            key=f"pages-{called(batch.number)}",
            title=f"Batch {batch.number}",
            text=summary(result, batch.number),
            table=rows_of(result, flights),
        )
    )
    return result.model_dump()


async def _filled(ctx: Context, ledger: Ledger, task: Task, prompt: LoadedPrompt, live: list[Call]) -> list[Call]:
    """The live batches, with new ones in the free slots. A request that Gemini will never take ends the run, but not
    before the batches that are under way have come home."""
    try:
        room = task.run.execution.max_concurrent_batches - len(live)
        return live + await _fill(ctx, ledger, task, prompt, room=room)
    except Permanent as error:
        looked = await _look(ctx, await ledger.active())
        live = [call for _, call in looked if call is not None and not call.ended and call.state != "unsent"]
        if not live:
            raise
        ctx.log.error("no new batches are sent: %s", error)
        return live


async def _fill(ctx: Context, ledger: Ledger, task: Task, prompt: LoadedPrompt, *, room: int) -> list[Call]:
    """Send what was planned and not sent, then new batches while there are slots and pages."""
    sent: list[Call] = []
    while room > len(sent) and not ctx.halted:
        planned = [batch for batch in await ledger.active() if batch.state == "planned"]
        if not planned:
            chosen = await ctx.part("scan_runnable_pages", partial(_plan, ctx, ledger, task, prompt))
            if chosen is None:
                break
            continue
        try:
            sent.append(await ctx.part("submit_new_batch", partial(_send, ctx, ledger, task, prompt, planned[0])))
        except Blocked as error:
            ctx.log.info("batch %d waits: %s", planned[0].number, error)
            break
    return sent


async def _plan(ctx: Context, ledger: Ledger, task: Task, prompt: LoadedPrompt) -> int | None:
    """A new batch in the ledger; None where nothing can run."""
    while True:
        ((last,),) = await ledger.read("SELECT batches FROM pages_ledgers WHERE id = :ledger")
        chosen = await choose(ctx, ledger, task.run, prompt, last + 1, ctx.scratch)
        if not chosen.changed:
            return None
        await check_outputs(ledger, task)
        await ctx.checkpoint(task)
        if chosen.pages:
            return chosen.pages


async def _send(ctx: Context, ledger: Ledger, task: Task, prompt: LoadedPrompt, batch: BatchRow) -> Call:
    flights = await ledger.flights(batch.number)
    if not flights:
        raise Permanent(f"batch {batch.number} has no pages in the ledger")
    request = await asyncio.to_thread(request_for, task.run, prompt, batch, flights)
    try:
        call = await ctx.call("gemini.batch", called(batch.number), request)
    except InvalidRequest as error:
        # An image went away since it was looked at: choosing again finds out which.
        spoiled = await asyncio.to_thread(lambda: [flight for flight in flights if image_problem(Path(flight.image))])
        if not spoiled:
            raise Permanent(f"batch {batch.number} is refused: {error}") from error
        await _free(ctx, ledger, task, batch)
        raise Blocked(f"{len(spoiled)} images are gone: the batch is put together anew") from error
    _note_sent(ctx, ledger, batch, call)
    await ctx.checkpoint(task)
    ctx.log.info("batch %d is %s with pages: %d (%s)", batch.number, call.state, len(flights), call.provider_id)
    return call


def _note_sent(ctx: Context, ledger: Ledger, batch: BatchRow, call: Call) -> None:
    """The batch is at Gemini, as far as anybody knows. Counted once, also when that is learned after a crash."""
    if batch.call != call.id:
        ledger.submitted(batch.number, call.id, call.submitted or ctx.now())
    if batch.call is None:
        ctx.count(batches_submitted=1)


async def _show_progress(ctx: Context, totals: Totals, live: int) -> None:
    note = f"books: {totals.books}, batches: {live}, pages in flight: {totals.flying}, dead: {totals.dead}"
    ctx.progress(totals.done, totals.pages, note)
    await ctx.show(
        Report(
            key="pages",
            title="Pages",
            text=f"{totals.done} of {totals.pages} pages done: {note}.",
            progress=100.0 * totals.done / totals.pages if totals.pages else 0.0,
        )
    )


def _result(totals: Totals) -> dict[str, Any]:
    waiting = totals.pages - totals.done - totals.dead
    return {
        "books": totals.books,
        "pages": totals.pages,
        "done": totals.done,
        "dead": totals.dead,
        "ready": totals.ready,
        "blocked": waiting - totals.ready,
    }
