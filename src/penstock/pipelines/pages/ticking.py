"""A run's tick: it looks at everything once, and then waits.

A tick publishes what the last one left, grants wishes, walks the trees, takes in every batch that has ended, and fills
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
from penstock.pipelines.pages import outputs, rules
from penstock.pipelines.pages.collecting import collect, rows_of, summary
from penstock.pipelines.pages.images import image_problem
from penstock.pipelines.pages.ledger import Apart, BatchRow, Book, Failure, Ledger, Totals, called
from penstock.pipelines.pages.model import Run, Task
from penstock.pipelines.pages.prompts.context import split_provenance
from penstock.pipelines.pages.prompts.registry import LoadedPrompt, load_prompt
from penstock.pipelines.pages.submitting import choose, request_for
from penstock.pipelines.pages.walk import Walk, check_mark, mark
from penstock.pipelines.pages.wishes import fit, grant

BOOKS_AT_ONCE = 500
"""Books that one commit takes in while the trees are walked."""

FOUND_AT_ONCE = 50
"""Books of which found outputs are looked at between two commits."""

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
    await _check_outputs(ledger, task)
    await fit(ctx, ledger, task, prompt)
    return task


async def tick(task: Task, ctx: Context) -> Again | dict[str, Any]:
    """Everything once: see the module."""
    run = task.run
    ledger = Ledger(task.ledger, ctx, run.execution.on_dead_page)
    prompt = await asyncio.to_thread(load_prompt, run.prompt)
    await _check_outputs(ledger, task)
    await _publish(ctx, ledger, task)
    await grant(ctx, ledger, task)
    problems: list[Transient] = []
    live = await _service(ctx, ledger, task, prompt, problems)
    await _publish(ctx, ledger, task)
    # After what came home: an output that was put there meanwhile is seen before its page is sent again.
    await _index(ctx, ledger, task)
    await _verify(ctx, ledger, task, prompt)
    if not run.execution.dry_run:
        live = await _filled(ctx, ledger, task, prompt, live)
    totals = await ledger.totals()
    await _show_progress(ctx, totals, len(live))
    if problems:
        raise problems[0]
    if ctx.halted:
        return Again(task)
    await asyncio.to_thread(_drop_scratch, ctx.scratch, bool(totals.flying))
    active = await ledger.active()
    if active or totals.found or (totals.ready and not run.execution.dry_run):
        return Again(task, after=run.batch.poll_interval_seconds if active else 1.0, until=_under_way(live))
    if await ledger.staged() or await ledger.wishes():
        return Again(task)
    return _result(totals)


async def stop(task: Task, ctx: Context) -> Again | None:
    """The batches are being stopped at Gemini; what they still bring home is kept."""
    ledger = Ledger(task.ledger, ctx, task.run.execution.on_dead_page)
    if not await ledger.active() and not await ledger.staged():
        return None
    since = ctx.now() if task.canceled is None else task.canceled
    waiting = task.model_copy(update={"canceled": since})
    prompt = await asyncio.to_thread(load_prompt, task.run.prompt)
    await _check_outputs(ledger, waiting)
    await _publish(ctx, ledger, waiting)
    problems: list[Transient] = []
    live = await _service(ctx, ledger, waiting, prompt, problems, ending=True)
    await _publish(ctx, ledger, waiting)
    if problems and ctx.now() - since < PATIENCE_WHEN_CANCELED:
        raise problems[0]
    if live and ctx.now() - since < PATIENCE_WHEN_CANCELED:
        return Again(waiting, after=min(5.0, task.run.batch.poll_interval_seconds), until=_under_way(live))
    return None


def _under_way(live: Sequence[Call]) -> list[Call]:
    """One that waits for a person would let the job go on at once, and again and again."""
    return [call for call in live if call.state not in RESTING]


def _drop_scratch(folder: Path, needed: bool) -> None:
    """Images that were made readable, once no page in flight needs one."""
    if not needed:
        shutil.rmtree(folder, ignore_errors=True)


async def _check_outputs(ledger: Ledger, task: Task) -> None:
    """Nothing is written into, and nothing is missed in, a folder that is not the one it was."""
    output_dir = task.run.paths.output_dir
    totals = await ledger.totals()
    ((ours,),) = await ledger.read("SELECT mark FROM pages_ledgers WHERE id = :ledger")
    await asyncio.to_thread(check_mark, output_dir, ours, totals.done)
    if not totals.done:
        await asyncio.to_thread(mark, output_dir, ours)


async def _publish(ctx: Context, ledger: Ledger, task: Task) -> None:
    """Give outputs their names. One of which no file is left is work again."""
    staged = await ledger.staged()
    if not staged:
        return
    claim = (ctx.job.id, ctx.epoch)
    published = await asyncio.to_thread(outputs.publish, task.run.paths.output_dir, staged, claim)
    for book, name, _ in staged:
        ledger.unstage(book, name)
    if lost := published.lost:
        await _check_outputs(ledger, task)
        ctx.log.warning("%d outputs were removed before they had their names: their pages are work again", len(lost))
        await ledger.change([(book, int(name)) for book, name in lost], rules.WORK)
    if published.refused:
        await _bury(ctx, ledger, [(book, int(name)) for book, name in published.refused])
    await ctx.checkpoint(task)


async def _bury(ctx: Context, ledger: Ledger, pages: Sequence[tuple[str, int]]) -> None:
    """Pages whose output has no place to be: a folder stands where the file should."""
    books = await ledger.books([name for name, _ in pages])
    pages = [(name, number) for name, number in pages if name in books]
    for name, number in pages:
        message = f"{name}/{books[name].numbering.name(number)}.json is no file: remove what stands there, then retry"
        judged = rules.judge(rules.Strikes(), "output", most_failures=1, batch_failures_free=0)
        ledger.strike(Failure(books[name].page(number), name, 0, "output", message), judged, ctx.now())
        ctx.log.warning("%s", message)
    ctx.count(pages_dead=len(pages))
    await ledger.change(pages, rules.DEAD)


async def _index(ctx: Context, ledger: Ledger, task: Task) -> None:
    """Walk the trees: everything the first time, then what changed."""
    run = task.run
    totals = await ledger.totals()
    filters = run.filters
    states = None if filters.target_states is None else frozenset(filters.target_states)

    def admits(state: str, year: int | None) -> bool:
        return states is None or state in states if year is None else filters.admits(state, year)

    folders = await ledger.folders()
    walk = Walk(run.paths.label_source_dir, run.paths.output_dir, await ledger.known(), dict(folders), admits)
    seen = 0
    while sightings := await asyncio.to_thread(walk.step, BOOKS_AT_ONCE):
        await ledger.take_in(sightings)
        seen += len(sightings)
        ctx.progress(totals.done, totals.pages or None, f"looking at the folders, {seen} so far")
        # A disk that went away meanwhile looks like outputs that were removed.
        await _check_outputs(ledger, task)
        await ctx.checkpoint(task)
        if ctx.halted:
            return
    if walk.gone or walk.folders_changed or walk.ignored:
        ledger.drop_books(walk.gone)
        ledger.note_folders(folders, walk.folders)
        ledger.note_ignored(walk.ignored)
    if seen or walk.gone:
        ledger.write("UPDATE pages_ledgers SET scanned = :now WHERE id = :ledger", now=ctx.now())
    if seen or walk.gone or walk.folders_changed or walk.ignored:
        await ctx.checkpoint(task)


async def _verify(ctx: Context, ledger: Ledger, task: Task, prompt: LoadedPrompt) -> None:
    """Outputs that somebody else wrote, or an earlier run: those that fit the schema count as done, and nothing stands
    against their pages any more. With one that does not, a page is what it would be without."""
    while books := {book.book: book for book in await ledger.books_with("found", FOUND_AT_ONCE)}:
        dead = await ledger.dead_among(list(books))
        wrong, unplaced = await asyncio.to_thread(_judge_found, task.run, list(books.values()), prompt, dead)
        for page, why in wrong:
            ctx.log.warning("the output of %s is not valid, so it does not count: %s", page, why)
        for book in books.values():
            ledger.put(book)
        for name, number in await ledger.strikes(list(books)):
            if rules.state_of(books[name].numbering, books[name].states, number) == rules.DONE:
                ledger.clear(name, number)
        await _check_outputs(ledger, task)
        await ctx.checkpoint(task)
        if unplaced:
            await _bury(ctx, ledger, unplaced)
            await ctx.checkpoint(task)
        if ctx.halted:
            return


def _judge_found(
    run: Run, books: Sequence[Book], prompt: LoadedPrompt, dead: frozenset[tuple[str, int]]
) -> tuple[list[tuple[str, str]], list[tuple[str, int]]]:
    """What is not valid and why, and pages where something else than a file stands in the place of the output."""
    wrong: list[tuple[str, str]] = []
    unplaced: list[tuple[str, int]] = []
    for book in books:
        changes: dict[int, str] = {}
        for number in book.numbering:
            if rules.state_of(book.numbering, book.states, number) != rules.FOUND:
                continue
            path = run.paths.output_dir / book.book / f"{book.numbering.name(number)}.json"
            try:
                why = prompt.validate(split_provenance(outputs.read(path))[0])
            except outputs.NoFile:
                buried = (book.book, number) in dead
                changes[number] = rules.DEAD if buried else rules.WORK
                if not buried:
                    unplaced.append((book.book, number))
                continue
            except (FileNotFoundError, ValueError, RecursionError) as error:
                why = str(error)
            except OSError as error:
                raise Transient(f"{path} cannot be read: {error.strerror}") from error
            otherwise = rules.DEAD if (book.book, number) in dead else rules.WORK
            changes[number] = rules.DONE if why is None else otherwise
            if why is not None:
                wrong.append((book.page(number).id_string, why))
        book.change(changes)
    return wrong, unplaced


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
    result = await collect(ctx, replace(ledger, desk=apart), task.run, prompt, batch, call)
    # In this order: what is ended is not sent any more.
    _note_sent(ctx, ledger, batch, call)
    apart.hand_over()
    await ctx.checkpoint(task)
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
        await _check_outputs(ledger, task)
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
    ctx.log.info("batch %d with %d pages is %s (%s)", batch.number, len(flights), call.state, call.provider_id)
    return call


def _note_sent(ctx: Context, ledger: Ledger, batch: BatchRow, call: Call) -> None:
    """The batch is at Gemini, as far as anybody knows. Counted once, also when that is learned after a crash."""
    if batch.call != call.id:
        ledger.submitted(batch.number, call.id, call.submitted or ctx.now())
    if batch.call is None:
        ctx.count(batches_submitted=1)


async def _show_progress(ctx: Context, totals: Totals, live: int) -> None:
    note = f"{totals.books} books, {live} batches, {totals.flying} pages in flight, {totals.dead} dead"
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
