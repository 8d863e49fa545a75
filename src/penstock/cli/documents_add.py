"""Taking files in: looked at first, so that a wrong one is told before anything is stored; then copied into the home,
each whole and synced, and only then told to the store, all of them in one commit."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from penstock.app import Penstock
from penstock.cli.command import Invocation
from penstock.cli.documents_asked import command, nobody_there, worker
from penstock.cli.documents_found import HIDDEN, MARK, TRUTH, FoundFiles, Refused, find
from penstock.cli.output import Output, counted, harmless
from penstock.config import Settings
from penstock.engine.engine import Engine
from penstock.engine.errors import CommitUnknown, InvalidRequest, NotFound, StoreReadOnly
from penstock.paper.unreadable import Unreadable
from penstock.pipelines.documents import asking, reading
from penstock.pipelines.documents.asking import MOST_AT_ONCE, AddedMany
from penstock.pipelines.documents.contents import Kept, copy_in

SHOWN_LEFT_OUT = 10
FEW = 5
"""So many files need no bar while they are taken in."""


def found_files(out: Output, settings: Settings, paths: Sequence[str]) -> FoundFiles | None:
    """What is to be added; None, and said, where something that was named cannot be, or nothing is left."""
    found = find(paths, largest=settings.documents.largest_file, home=settings.home)
    for each in found.wrong:
        out.wrong(harmless(f"{each.path}: {each.reason}"))
    if found.wrong:
        return None
    _tell_left_out(out, found.left_out)
    if not found.files:
        out.wrong(f"there is no document in {harmless(', '.join(paths))}")
        return None
    if len(found.files) > MOST_AT_ONCE:
        raise InvalidRequest(
            f"{len(found.files):,} documents at once are too many: at most {MOST_AT_ONCE:,}; name folders in it"
        )
    return found


def _tell_left_out(out: Output, left_out: Sequence[Refused]) -> None:
    """Nobody means what is hidden to be read, nor what we put beside samples: only `--json` lists it."""
    told = [each for each in left_out if HIDDEN not in each.reason.split() and not _of_samples(Path(each.path))]
    for each in told[:SHOWN_LEFT_OUT]:
        out.note(f"Left out {harmless(f'{each.path}: {each.reason}')}")
    if len(told) > SHOWN_LEFT_OUT:
        out.note(f"Left out {len(told) - SHOWN_LEFT_OUT} more of such files.")


def _of_samples(path: Path) -> bool:
    return path.name == TRUTH and (path.parent / MARK).is_file()


async def added(call: Invocation, settings: Settings, app: Penstock, files: Sequence[Path], tenant: str) -> AddedMany:
    """All of them, or none. Files that were copied go again where the store knows nothing of them."""
    kept = await _taken_in(call.out, app.engine, files, tenant=tenant, largest=settings.documents.largest_file)
    try:
        return await asking.add(app, settings, kept, tenant=tenant, actor=call.who)
    except (CommitUnknown, asyncio.CancelledError):
        raise
    except Exception:
        with contextlib.suppress(Exception):
            await _forget(app.engine, kept)
        raise


async def _forget(engine: Engine, kept: Sequence[Kept]) -> None:
    try:
        await reading.document(engine, kept[0].document_id)
    except NotFound:
        await asyncio.to_thread(_remove, kept)


async def _taken_in(out: Output, engine: Engine, files: Sequence[Path], *, tenant: str, largest: int) -> list[Kept]:
    """Copied in a thread; Ctrl-C waits for the file at hand, and leaves nothing behind."""
    over = threading.Event()
    kept: list[Kept] = []

    def copy(tell: Callable[[], None]) -> None:
        for path in files:
            if over.is_set():
                return
            try:
                kept.append(copy_in(engine, tenant, path, largest=largest))
            except Unreadable as error:
                raise Unreadable(f"{path}: {error}") from error
            except OSError as error:
                words = (error.strerror or str(error)).lower()
                raise StoreReadOnly(f"{path} cannot be stored in {engine.home}: {words}") from error
            tell()

    with _bar(out, len(files)) as tell:
        copying = asyncio.ensure_future(asyncio.to_thread(copy, tell))
        try:
            await asyncio.shield(copying)
        except BaseException:
            over.set()
            await asyncio.gather(copying, return_exceptions=True)
            await asyncio.to_thread(_remove, kept)
            raise
    return kept


def _remove(kept: Sequence[Kept]) -> None:
    for each in kept:
        each.path.unlink(missing_ok=True)


@contextlib.contextmanager
def _bar(out: Output, total: int) -> Iterator[Callable[[], None]]:
    if not out.live or total <= FEW:
        yield lambda: None
        return
    from rich.progress import Progress

    with Progress(console=out.console(stderr=True), transient=True) as progress:
        task = progress.add_task("Taking in", total=total)
        yield lambda: progress.advance(task)


async def show_added(call: Invocation, settings: Settings, app: Penstock, told: AddedMany, found: FoundFiles) -> None:
    """In a pipe the ids alone go to stdout, in the order of the files."""
    out = call.out
    out.data(
        {
            "documents": [
                {
                    "document_id": each.document_id,
                    "job_id": each.job_id,
                    "filename": each.filename,
                    "path": str(path),
                    "status": "queued",
                }
                for each, path in zip(told.documents, found.files, strict=True)
            ],
            "batch_id": told.batch_id,
            "left_out": [{"path": each.path, "reason": each.reason} for each in found.left_out],
        }
    )
    words = f"Added {counted(len(told.documents), 'document')}" + (f", batch {told.batch_id}" if told.batch_id else "")
    if out.fancy and not out.quiet:
        shown = f" {told.documents[0].document_id}" if len(told.documents) == 1 else ""
        out.result(f"{words}{shown}")
    else:
        for each in told.documents:
            out.result(each.document_id)
        out.remark(words)
    if lack := await nobody_there(app):
        out.note(f"{lack}: start one with `{worker(settings)}`, or add --wait to do the work here.")
    else:
        which = f" --batch {told.batch_id}" if told.batch_id else ""
        out.remark(f"How far they are: {command(call, settings, f'documents list{which}')}")
