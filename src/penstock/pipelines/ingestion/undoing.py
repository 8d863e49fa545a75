"""A run that is cancelled: what it hid is searchable again and what it wrote is not, at once; then what it wrote is
removed, in slices. Done again after a crash, it goes on."""

from __future__ import annotations

from typing import Any

from penstock.engine.context import Context
from penstock.engine.outcome import Again, Goto
from penstock.pipelines.ingestion import bases
from penstock.pipelines.ingestion.finishing import GONE, of_run, opened_by, rows_removed, while_time
from penstock.pipelines.ingestion.index import index_for
from penstock.pipelines.ingestion.living import let_go
from penstock.pipelines.ingestion.removing import recounted, removal, some_of
from penstock.pipelines.ingestion.retrying import put_back
from penstock.pipelines.ingestion.running import lock_name, waits_for
from penstock.pipelines.ingestion.statements import Statement
from penstock.pipelines.ingestion.work import Begin, Work

CANCELED = "Canceled by user"


async def clean_up(work: Work | Begin, ctx: Context) -> Any:
    """Everything this run wrote goes, everything it hid comes back."""
    run = work.run or ctx.job.key
    await let_go(run)
    # One that failed has no lock any more, and what was done behind the run before it may be going on.
    if not await ctx.lock(lock_name(work.ask.base)):
        return Again(work, after=waits_for(ctx))
    base = await bases.find_base(ctx, ctx.job.tenant, work.ask.base)
    if base is None or base.run != run:
        # Another run was filled in since, and counts on what this one wrote.
        return None
    if isinstance(work, Begin):
        work = Work(ask=work.ask, run=run, edition=await _edition_of(run, ctx))
    if work.edition and not await _undone(work, ctx):
        return Again(work)
    for statement in of_run(run):
        ctx.write(statement)
    ctx.write(("DELETE FROM kb_errors WHERE run = :run", {"run": run}))
    ctx.write(bases.config_before(work.ask.base, tenant=ctx.job.tenant, run=run))
    ctx.write(bases.run_ended(run, state="not_started", now=ctx.now(), outcome=None, error=CANCELED))
    return None


async def begun_anew(work: Work, ctx: Context) -> Again | Goto:
    """A run that came to nothing, and is resumed: from the beginning."""
    if not await own_removed(work, ctx):
        work.holder = ""
        return Again(work)
    for statement in of_run(work.run):
        ctx.write(statement)
    ctx.write(("DELETE FROM kb_errors WHERE run = :run", {"run": work.run}))
    return Goto("prepare", Begin(ask=work.ask, run=work.run))


async def _edition_of(run: str, ctx: Context) -> int:
    """The edition that a run had before it began anew; 0 where it had none."""
    rows = await ctx.read(("SELECT edition FROM kb_runs WHERE id = :run", {"run": run}))
    return int(rows[0][0] or 0) if rows else 0


async def _undone(work: Work, ctx: Context) -> bool:
    opened = await opened_by(ctx, work.edition)
    if opened is GONE:
        return await rows_removed(ctx, work.edition, work)
    return await (_edition_removed(work, ctx) if opened == work.run else own_removed(work, ctx))


async def own_removed(work: Work, ctx: Context) -> bool:
    """Whether all is gone that the run wrote; it takes as long as a tick may."""
    edition, run, index = work.edition, work.run, index_for(ctx.engine)
    for statement in (*_turned_back(edition, run), recounted(edition)):
        ctx.write(statement)
    await ctx.checkpoint(work)
    async for _ in while_time(ctx):
        mine = await some_of(ctx, edition, "run = :run", {"run": run})
        if mine:
            statements, _gone = await removal(ctx, index, edition, mine)
            for statement in statements:
                ctx.write(statement)
        elif not await put_back(work, ctx):
            return True
        await ctx.checkpoint(work)
    return False


def _turned_back(edition: int, run: str) -> list[Statement]:
    """What the run wrote is not searchable any more, and what it hid is."""
    values = {"edition": edition, "run": run}
    return [
        ("UPDATE kb_documents SET state = 'writing' WHERE edition = :edition AND run = :run", values),
        (
            "UPDATE kb_documents SET state = 'current', hidden_by = NULL WHERE edition = :edition AND state = 'hidden'"
            " AND hidden_by = :run AND NOT EXISTS (SELECT 1 FROM kb_documents o WHERE o.edition = :edition"
            " AND o.source = kb_documents.source AND o.uri = kb_documents.uri AND o.state = 'current')",
            values,
        ),
    ]


async def _edition_removed(work: Work, ctx: Context) -> bool:
    """An edition that this run opened: with it everything goes."""
    for statement in index_for(ctx.engine).drop(work.edition):
        ctx.write(statement)
    ctx.write(("UPDATE kb_bases SET edition = NULL WHERE edition = :n", {"n": work.edition}))
    ctx.write(bases.edition_gone(work.edition))
    await ctx.checkpoint(work)
    return await rows_removed(ctx, work.edition, work)
