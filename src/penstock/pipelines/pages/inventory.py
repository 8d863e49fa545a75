"""What is on the disk, and what the ledger says about it: outputs are given their names, the trees are walked, and
outputs that somebody else put there are judged. Nothing is believed of a folder that has lost its mark."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.engine.context import Context
from penstock.engine.errors import Transient
from penstock.pipelines.pages import outputs, rules
from penstock.pipelines.pages.ledger import Ledger
from penstock.pipelines.pages.ledger_rows import Book, Failure
from penstock.pipelines.pages.model import Run, Task
from penstock.pipelines.pages.prompts.context import split_provenance
from penstock.pipelines.pages.prompts.registry import LoadedPrompt
from penstock.pipelines.pages.walk import Walk, check_mark, mark

BOOKS_AT_ONCE = 500
"""Books that one commit takes in while the trees are walked."""

FOUND_AT_ONCE = 50
"""Books of which found outputs are looked at between two commits."""


async def check_outputs(ledger: Ledger, task: Task) -> None:
    """Nothing is written into, and nothing is missed in, a folder that is not the one it was."""
    output_dir = task.run.paths.output_dir
    totals = await ledger.totals()
    ((ours,),) = await ledger.read("SELECT mark FROM pages_ledgers WHERE id = :ledger")
    await asyncio.to_thread(check_mark, output_dir, ours, totals.done)
    if not totals.done:
        await asyncio.to_thread(mark, output_dir, ours)


async def publish(ctx: Context, ledger: Ledger, task: Task, problems: list[Transient]) -> None:
    """Give outputs their names. One of which no file is left is work again; a folder that cannot be written now is
    tried again later, and holds up no other."""
    staged = await ledger.staged()
    if not staged:
        return
    claim = (ctx.job.id, ctx.epoch)
    published = await asyncio.to_thread(outputs.publish, task.run.paths.output_dir, staged, claim)
    for error in published.failed.values():
        ctx.log.warning("%s", error)
        problems.append(Transient(error))
    for book, name, _ in staged:
        if book not in published.failed:
            ledger.unstage(book, name)
    if lost := published.lost:
        await check_outputs(ledger, task)
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


async def index(ctx: Context, ledger: Ledger, task: Task) -> None:
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
        await check_outputs(ledger, task)
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


async def verify(ctx: Context, ledger: Ledger, task: Task, prompt: LoadedPrompt) -> None:
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
        await check_outputs(ledger, task)
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
