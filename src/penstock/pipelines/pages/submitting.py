"""A new batch: which pages go into it, what each is asked, and how the request is put together.

Everything a request is made of (the image, the context) is stored with the pages before anything is sent. So after a
crash the same batch is asked for with the same words, under the same key.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.engine.context import Context
from penstock.engine.errors import Transient
from penstock.gemini import BatchRequest, BatchRow, Transfers, file, generate_request
from penstock.pipelines.pages import rules
from penstock.pipelines.pages.images import UnreadableImage, find_image, image_mime, image_problem, readable
from penstock.pipelines.pages.ledger import Ledger
from penstock.pipelines.pages.ledger_rows import BatchRow as Batch
from penstock.pipelines.pages.ledger_rows import Book, Failure, Flight
from penstock.pipelines.pages.model import PageIdentifier, Run
from penstock.pipelines.pages.outputs import read
from penstock.pipelines.pages.prompts.context import PageContext, context_of, split_provenance
from penstock.pipelines.pages.prompts.registry import LoadedPrompt
from penstock.remote.gemini.requests import mime_of
from penstock.remote.pool import ProcessPool


@dataclass(slots=True, frozen=True)
class _Inspected:
    """What the disk says about a page that is to be sent."""

    book: str
    number: int
    image: Path | None
    tiff: bool
    problem: str | None
    context: PageContext | None
    unread: bool
    """The page before counts as done, and its output cannot be read."""


@dataclass(slots=True, frozen=True)
class Chosen:
    """How far choosing pages came: how many go into the batch, and whether the ledger was changed at all."""

    pages: int
    changed: bool


async def choose(ctx: Context, ledger: Ledger, run: Run, prompt: LoadedPrompt, number: int, workspace: Path) -> Chosen:
    """Write a new batch into the ledger, as part of the next commit. A page without a usable image dies here."""
    wanted = await ledger.next_pages(run.execution.batch_size_limit)
    if not wanted:
        return Chosen(0, changed=False)
    books = await ledger.books([book for book, _ in wanted])
    inspected = await asyncio.to_thread(_inspect, run, books, wanted)
    strikes = await ledger.strikes(list(books))
    changes: dict[str, dict[int, str]] = {}
    flights: list[Flight] = []
    dead: list[str] = []
    if all(found.image is None for found in inspected):
        await asyncio.to_thread(_check_images, run.paths.image_source_dir)
    images = await _images(inspected, workspace)
    for found, (image, problem) in zip(inspected, images, strict=True):
        book = books[found.book]
        page = book.page(found.number)
        letters = changes.setdefault(found.book, {})
        if found.unread:
            letters[found.number - 1] = rules.WORK
            ctx.log.warning("%s: its output cannot be read any more, so it is work again", _before(book, found.number))
            continue
        if image is None:
            judged = rules.judge(
                strikes.get((found.book, found.number), rules.Strikes()),
                "image",
                most_failures=run.execution.most_failures,
                batch_failures_free=run.execution.batch_failures_free,
            )
            ledger.strike(Failure(page, found.book, 0, "image", problem), judged, ctx.now())
            ctx.count(pages_dead=1)
            dead.append(f"{page.id_string} ({problem})")
            letters[found.number] = rules.DEAD
            continue
        letters[found.number] = rules.FLYING
        context = None if found.context is None else found.context.model_dump_json()
        without = _without(book, found.number, run)
        flights.append(Flight(found.book, found.number, page.id_string, number, str(image), context, without))
    if dead:
        more = f" and {len(dead) - 3} more" if len(dead) > 3 else ""
        ctx.log.warning("dead for want of an image: %s%s", ", ".join(dead[:3]), more)
    for name, letters in changes.items():
        book = books[name]
        book.change(letters)
        if rules.FLYING in letters.values():
            book.served = number
        ledger.put(book)
    if flights:
        told = {
            "model": run.model.name or "",
            "prompt": prompt.name,
            "version": prompt.version,
            "generation": json.dumps(run.model.generation_config, sort_keys=True),
        }
        ledger.open_batch(number, ctx.job.id, ctx.now(), size=len(flights), told=told)
        for flight in flights:
            ledger.take_off(flight)
    return Chosen(len(flights), changed=True)


def request_for(run: Run, prompt: LoadedPrompt, batch: Batch, flights: Sequence[Flight]) -> BatchRequest:
    """What Gemini is asked. The same for the same rows."""
    rows = []
    for flight in flights:
        context = None if flight.context is None else PageContext.model_validate_json(flight.context)
        words = prompt.render(PageIdentifier.parse(flight.key), context, skipped=flight.without)
        image = file(flight.key, _mime(Path(flight.image)))
        request = generate_request([image, words], schema=prompt.json_schema, config=json.loads(batch.generation))
        request["generationConfig"] = {
            **json.loads(batch.generation),
            **{name: request["generationConfig"][name] for name in ("responseMimeType", "responseSchema")},
        }
        rows.append(BatchRow(key=flight.key, request=request))
    files = run.files
    return BatchRequest(
        model=batch.model or None,
        requests=tuple(rows),
        mode="file",
        json_schema=prompt.json_schema,
        uploads={flight.key: Path(flight.image) for flight in flights},
        display_prefix=run.batch.display_name_prefix,
        poll_every=run.batch.poll_interval_seconds,
        overdue_after=run.batch.poll_timeout_seconds,
        transfers=Transfers(
            attempts=files.upload_retry_attempts,
            backoff=files.upload_retry_backoff_seconds,
            parallel=files.upload_concurrency,
            max_age=files.max_age_minutes * 60,
        ),
    )


def _inspect(run: Run, books: dict[str, Book], wanted: Sequence[tuple[str, int]]) -> list[_Inspected]:
    """Blocking: looks at an image and reads an output for each page."""
    found = []
    for name, number in wanted:
        book = books[name]
        image = find_image(run.paths.image_source_dir, book.page(number))
        problem = None if image is None else image_problem(image)
        tiff = image is not None and problem is None and _mime(image) == "image/tiff"
        context, unread = None, False
        before = _chained_before(book, number)
        if before is not None and rules.state_of(book.numbering, book.states, before) in (rules.DONE, rules.FOUND):
            output = run.paths.output_dir / name / f"{book.numbering.name(before)}.json"
            try:
                context = context_of(split_provenance(read(output))[0])
            except (FileNotFoundError, ValueError, RecursionError):
                unread = True
            except OSError as error:
                # A disk that fails is no reason to pay for the page again.
                raise Transient(f"{output} cannot be read: {error.strerror}") from error
        found.append(_Inspected(name, number, image, tiff, problem, context, unread))
    return found


async def _images(inspected: Sequence[_Inspected], workspace: Path) -> list[tuple[Path | None, str]]:
    """What is sent for each page, or why nothing can be. Processes are started only for what must be converted."""
    async with ProcessPool(workers=2) as pool:
        return list(await asyncio.gather(*(_usable(found, workspace, pool) for found in inspected)))


def _check_images(folder: Path) -> None:
    """One page without an image is dead; a folder without any is a disk that is away."""
    try:
        empty = not any(folder.iterdir())
    except OSError as error:
        raise Transient(
            f"paths.image_source_dir: {folder} cannot be read ({error.strerror}): is a disk not mounted?"
        ) from error
    if empty:
        raise Transient(f"paths.image_source_dir: {folder} is empty: is a disk not mounted?")


async def _usable(found: _Inspected, workspace: Path, pool: ProcessPool) -> tuple[Path | None, str]:
    if found.image is None:
        return None, "there is no image of the page"
    if found.problem is not None:
        return None, found.problem
    if not found.tiff:
        return found.image, ""
    try:
        return await readable(found.image, workspace, pool=pool), ""
    except UnreadableImage as error:
        return None, str(error)


def _mime(image: Path) -> str:
    """By what is in it, whatever it is called; one that is gone this moment is missed when it is uploaded."""
    try:
        return image_mime(image) or mime_of(image.name)
    except OSError:
        return mime_of(image.name)


def _chained_before(book: Book, number: int) -> int | None:
    """The page before it, if that is in the book: a gap starts a new chain."""
    return number - 1 if book.numbering.place(number - 1) is not None else None


def _before(book: Book, number: int) -> str:
    return book.page(number - 1).id_string


def _without(book: Book, number: int, run: Run) -> str | None:
    """Said in the output of a page that had to go on without the one before it."""
    before = _chained_before(book, number)
    if before is None or run.execution.on_dead_page != "skip":
        return None
    if rules.state_of(book.numbering, book.states, before) != rules.DEAD:
        return None
    return f"page {book.numbering.name(before)} is dead"
