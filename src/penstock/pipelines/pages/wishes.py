"""What changes a ledger besides results: another configuration, and what people wish for. Both are carried out by the
run's own tick."""

from __future__ import annotations

import json
from typing import Any

from penstock.engine.context import Context
from penstock.engine.errors import InvalidRequest, Permanent
from penstock.pipelines.pages import rules
from penstock.pipelines.pages.ledger import Ledger
from penstock.pipelines.pages.model import Task
from penstock.pipelines.pages.walk import UNKNOWN


async def fit(ctx: Context, ledger: Ledger, task: Task) -> None:
    """Another configuration than the last run's: the walk begins anew where the filters changed, and who is dead or
    can run is decided anew."""
    run = task.run
    execution, paths = run.execution, run.paths
    scope = json.dumps([str(paths.label_source_dir), run.filters.model_dump(mode="json")], sort_keys=True)
    rows = await ledger.read("SELECT scope, on_dead, most_failures FROM pages_ledgers WHERE id = :ledger")
    if not rows:
        raise Permanent(
            f"there is no ledger {ledger.id} for {paths.output_dir}: start the run with `penstock pages run`"
        )
    before, on_dead, most = rows[0]
    if before != scope:
        ledger.write("DELETE FROM pages_folders WHERE ledger = :ledger")
        ledger.write(f"UPDATE pages_books SET label_seen = {UNKNOWN}, output_seen = {UNKNOWN} WHERE ledger = :ledger")
        ledger.write("DELETE FROM pages_ignored WHERE ledger = :ledger")
    if most != execution.most_failures:
        await _reconsider(ledger, execution.most_failures)
        await ctx.checkpoint(task)
    if on_dead != execution.on_dead_page:
        rows = await ledger.read("SELECT book FROM pages_books WHERE ledger = :ledger AND dead > 0")
        for book in (await ledger.books([name for (name,) in rows])).values():
            ledger.put(book)
    ledger.write(
        "UPDATE pages_ledgers SET job = :job, scope = :scope, on_dead = :on_dead, most_failures = :most,"
        " label_dir = :labels, image_dir = :images WHERE id = :ledger",
        job=ctx.job.id,
        scope=scope,
        on_dead=execution.on_dead_page,
        most=execution.most_failures,
        labels=str(paths.label_source_dir),
        images=str(paths.image_source_dir),
    )


async def _reconsider(ledger: Ledger, most: int) -> None:
    """More retries than before bring pages back that died of fewer."""
    rows = await ledger.read(
        "SELECT book, number FROM pages_failures WHERE ledger = :ledger AND dead = 1 AND type <> 'image'"
        " AND failures < :most",
        most=most,
    )
    ledger.write(
        "UPDATE pages_failures SET dead = 0"
        " WHERE ledger = :ledger AND dead = 1 AND type <> 'image' AND failures < :most",
        most=most,
    )
    await ledger.change(rows, rules.WORK, only=rules.DEAD)


async def grant(ctx: Context, ledger: Ledger, task: Task) -> None:
    """What people asked for: pages to be tried again, folders to be looked at again."""
    for wish, kind, detail, actor in await ledger.wishes():
        if kind == "rescan":
            ledger.forget_folders(folder_meant(detail))
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
