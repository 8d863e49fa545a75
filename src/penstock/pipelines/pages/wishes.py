"""What changes a ledger besides results: another configuration, and what people wish for. Both are carried out by the
run's own tick."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from penstock.engine.context import Context
from penstock.engine.errors import InvalidRequest, Permanent
from penstock.pipelines.pages import rules
from penstock.pipelines.pages.ledger import Ledger
from penstock.pipelines.pages.ledger_rows import Book
from penstock.pipelines.pages.model import Task
from penstock.pipelines.pages.prompts.registry import LoadedPrompt
from penstock.pipelines.pages.walk import UNKNOWN


async def fit(ctx: Context, ledger: Ledger, task: Task, prompt: LoadedPrompt) -> None:
    """Another configuration than the last run's: the walk begins anew where the filters changed, and who is dead or
    can run is decided anew."""
    run = task.run
    execution, paths = run.execution, run.paths
    scope = json.dumps([str(paths.label_source_dir), run.filters.model_dump(mode="json")], sort_keys=True)
    schema = hashlib.sha256(json.dumps(prompt.json_schema, sort_keys=True).encode()).hexdigest()[:20]
    rows = await ledger.read("SELECT scope, schema, on_dead, most_failures FROM pages_ledgers WHERE id = :ledger")
    if not rows:
        raise Permanent(
            f"there is no ledger {ledger.id} for {paths.output_dir}: start the run with `penstock pages run`"
        )
    before, judged_by, on_dead, most = rows[0]
    if before != scope:
        ledger.write("DELETE FROM pages_folders WHERE ledger = :ledger")
        ledger.write(f"UPDATE pages_books SET label_seen = {UNKNOWN}, output_seen = {UNKNOWN} WHERE ledger = :ledger")
        ledger.write("DELETE FROM pages_ignored WHERE ledger = :ledger")
    if judged_by not in ("", schema):
        ledger.doubt_outputs()
        await ctx.checkpoint(task)
    if most != execution.most_failures:
        await _reconsider(ctx, ledger, task)
    if on_dead != execution.on_dead_page:
        rows = await ledger.read("SELECT book FROM pages_books WHERE ledger = :ledger AND dead > 0")
        for book in (await ledger.books([name for (name,) in rows])).values():
            ledger.put(book)
    ledger.write(
        "UPDATE pages_ledgers SET job = :job, scope = :scope, schema = :schema, on_dead = :on_dead,"
        " most_failures = :most, label_dir = :labels, image_dir = :images WHERE id = :ledger",
        job=ctx.job.id,
        scope=scope,
        schema=schema,
        on_dead=execution.on_dead_page,
        most=execution.most_failures,
        labels=str(paths.label_source_dir),
        images=str(paths.image_source_dir),
    )


async def _reconsider(ctx: Context, ledger: Ledger, task: Task) -> None:
    """More retries than before bring pages back that died of fewer; fewer let those die that have had them already."""
    most = task.run.execution.most_failures
    for dead, compared, before, after in ((1, "<", rules.DEAD, rules.WORK), (0, ">=", rules.WORK, rules.DEAD)):
        which = f"ledger = :ledger AND dead = {dead} AND type NOT IN ('image', 'output') AND failures {compared} :most"
        rows = await ledger.read(f"SELECT book, number FROM pages_failures WHERE {which}", most=most)
        books = await ledger.books([book for book, _ in rows])
        meant = [row for row in rows if _is(books.get(row[0]), row[1], before)]
        for book, number in meant:
            ledger.write(
                f"UPDATE pages_failures SET dead = {1 - dead}"
                " WHERE ledger = :ledger AND book = :book AND number = :number",
                book=book,
                number=number,
            )
        await ledger.change(meant, after, only=before)
        ctx.count(pages_dead=len(meant) * (1 - 2 * dead))
        await ctx.checkpoint(task)


def _is(book: Book | None, number: int, letter: str) -> bool:
    return book is not None and rules.state_of(book.numbering, book.states, number) == letter


async def grant(ctx: Context, ledger: Ledger, task: Task) -> None:
    """What people asked for: pages to be tried again, folders to be looked at again."""
    for wish, kind, detail, actor in await ledger.wishes():
        if kind == "rescan":
            ledger.forget_folders(folder_meant(detail))
            ledger.doubt_outputs(folder_meant(detail))
            ctx.log.info("%s asked to look at %s again", actor, folder_meant(detail) or "everything")
        elif kind == "retry":
            await _retry(ctx, ledger, detail, actor)
        else:
            ctx.log.warning("nobody knows the wish %r", kind)
        ledger.granted(wish)
        await ctx.checkpoint(task)


async def _retry(ctx: Context, ledger: Ledger, detail: dict[str, Any], actor: str) -> None:
    where, named = dead_pages(detail)
    rows = await ledger.read(
        f"SELECT book, number FROM pages_failures WHERE ledger = :ledger AND dead = 1{where}", **named
    )
    ledger.write(f"DELETE FROM pages_failures WHERE ledger = :ledger AND dead = 1{where}", **named)
    await ledger.change(rows, rules.WORK, only=rules.DEAD)
    ctx.log.info("%s asked to try %d dead pages again", actor, len(rows))


def dead_pages(detail: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Which failures a wish to retry is about: `key`, or `state`, `school`, `year`; or all of them."""
    if detail.get("key"):
        return " AND key = :key", {"key": detail["key"]}
    prefix = folder_meant(detail)
    if not prefix:
        return "", {}
    below = f"{prefix}/"
    return " AND (book = :prefix OR substr(book, 1, :long) = :below)", {
        "prefix": prefix, "below": below, "long": len(below),
    }  # fmt: skip


def folder_meant(detail: dict[str, Any]) -> str:
    """The folder that is meant. A school is found in its state and a year in its school: half of a path would mean more
    than was asked for."""
    unknown = detail.keys() - {"key", "state", "school", "year"}
    if unknown:
        raise InvalidRequest(f"unknown: {', '.join(sorted(unknown))}; use key, or state, school and year")
    told = [detail.get(name) for name in ("state", "school", "year")]
    parts = [str(part) for part in told if part not in (None, "")]
    if any(part not in (None, "") for part in told[len(parts) :]):
        raise InvalidRequest("a school needs its state, and a year its school")
    return "/".join(parts)
