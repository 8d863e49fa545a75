"""How a run ends: completed, with what it replaced hidden and then removed; or cancelled, as if it had not been."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from penstock.engine.context import Context
from penstock.engine.errors import Permanent
from penstock.engine.outcome import Again
from penstock.pipelines.ingestion import bases, filling
from penstock.pipelines.ingestion.bases import source_key
from penstock.pipelines.ingestion.index import Index, index_for
from penstock.pipelines.ingestion.living import let_go
from penstock.pipelines.ingestion.removing import emptied, recounted, removal, some_of
from penstock.pipelines.ingestion.running import LOCK_EVERY, lock_name, taken_up
from penstock.pipelines.ingestion.statements import Statement, listed
from penstock.pipelines.ingestion.work import Begin, Counters, Ended, Forget, Purge, Work

AT_ONCE = 0.7
"""Seconds of one tick of removing."""

CANCELED = "Canceled by user"


async def finish(work: Work, ctx: Context) -> Ended | Again:
    """The commit of this step is the moment in which the run is complete: from then on nothing is brought back."""
    if not await taken_up(work, ctx):
        return Again(work, after=LOCK_EVERY)
    await let_go(work.run)
    edition, run, index = work.edition, work.run, index_for(ctx.engine)
    half = await filling.half_written(ctx, edition)
    if half and not await _removed(ctx, index, edition, half, work):
        return Again(work)
    await _check_outcome(work, ctx)
    removed = 0
    if work.ask.config.prune and not work.ask.errors_only:
        removed = await _vanished(work, ctx)
        work.counters.docs_removed += removed
        ctx.count(docs_removed=removed)
    ctx.write(recounted(edition))
    for statement in of_run(run):
        ctx.write(statement)
    tenant, base = ctx.job.tenant, await bases.base_of(ctx, ctx.job.tenant, work.ask.base)
    ctx.write(bases.edition_complete(edition))
    from penstock.pipelines.ingestion.workflow import purge

    if base.edition is not None and base.edition != edition:
        ctx.write(bases.searched_edition(base.id, tenant=tenant, number=edition))
        ctx.spawn(purge, Purge(base=base.id, edition=base.edition))
    if removed or work.counters.docs_replaced or await some_of(ctx, edition, "state = 'hidden'", {}, limit=1):
        ctx.spawn(purge, Purge(base=base.id, edition=edition, hidden=True))
    ended = Ended(base=base.id, edition=edition, counters=work.counters, seconds=work.seconds)
    outcome = ended.model_dump()
    ctx.write(bases.run_ended(run, state="completed", now=ctx.now(), outcome=outcome, error=work.error))
    return ended


async def _check_outcome(work: Work, ctx: Context) -> None:
    """A run that found nothing, or could use nothing of what it found, has failed."""
    seen = work.counters
    if work.ask.errors_only:
        return
    if not seen.docs_seen:
        raise Permanent(
            f"the source gave nothing ({_names(work)}): see that it is what you mean, then"
            f" `penstock ingest resume {work.ask.base}`"
        )
    failed = seen.chunks_error or seen.docs_error
    if failed and not (seen.chunks_processed or seen.chunks_skipped or seen.docs_unchanged or seen.docs_empty):
        raise Permanent(f"nothing could be indexed: {work.error}")


def _names(work: Work) -> str:
    return ", ".join(source_key(spec) for spec in work.ask.config.sources)


async def _vanished(work: Work, ctx: Context) -> int:
    """Hide the documents of the run's sources that the run did not meet; how many there are. Of a source that could
    not be read wholly nothing is hidden: what it did not show may be there."""
    sources = [source_key(spec) for number, spec in enumerate(work.ask.config.sources) if number not in work.unsure]
    if work.unsure:
        ctx.log.warning("%s: nothing is pruned of sources that had errors", work.ask.base)
    if not sources:
        return 0
    names, values = listed(sources)
    where = f"edition = :edition AND state = 'current' AND seen <> :run AND source IN {names}"
    values |= {"edition": work.edition, "run": work.run}
    ((count,),) = await ctx.read((f"SELECT COUNT(*) FROM kb_documents WHERE {where}", values))
    if count:
        ctx.write((f"UPDATE kb_documents SET state = 'hidden', hidden_by = :run WHERE {where}", values))
    return int(count)


def of_run(run: str) -> list[Statement]:
    """What a run needs only while it runs."""
    return [
        ("DELETE FROM kb_frontier WHERE run = :run", {"run": run}),
        ("DELETE FROM kb_staged WHERE run = :run", {"run": run}),
    ]


async def clean_up(work: Work | Begin, ctx: Context) -> Any:
    """Everything this run wrote goes, everything it hid comes back. Done again after a crash, it goes on."""
    run = work.run or ctx.job.id
    await let_go(run)
    if isinstance(work, Work) and work.edition:
        opened = await _opened_by(ctx, work.edition)
        if opened == run:
            if not await _edition_removed(work, ctx):
                return Again(work)
        elif opened is not _GONE and not await _own_removed(work, ctx):
            return Again(work)
    for statement in of_run(run):
        ctx.write(statement)
    ctx.write(("DELETE FROM kb_errors WHERE run = :run", {"run": run}))
    ctx.write(bases.run_ended(run, state="not_started", now=ctx.now(), outcome=None, error=CANCELED))
    return None


_GONE = object()


async def _opened_by(ctx: Context, edition: int) -> Any:
    """The run that opened an edition and has not completed it; `_GONE` where the edition is no more."""
    rows = await ctx.read(("SELECT opened_by FROM kb_editions WHERE number = :n AND gone = 0", {"n": edition}))
    return rows[0][0] if rows else _GONE


async def _own_removed(work: Work, ctx: Context) -> bool:
    edition, run, index = work.edition, work.run, index_for(ctx.engine)
    async for _ in _while_time(ctx):
        mine = await some_of(ctx, edition, "run = :run", {"run": run})
        if mine:
            statements, _gone = await removal(ctx, index, edition, mine)
            for statement in statements:
                ctx.write(statement)
        ctx.write(_brought_back(edition, run))
        if not mine:
            ctx.write(recounted(edition))
            return True
        await ctx.checkpoint(work)
    return False


def _brought_back(edition: int, run: str) -> Statement:
    """What the run hid, where nothing of the same name stands in its place any more."""
    return (
        "UPDATE kb_documents SET state = 'current', hidden_by = NULL"
        " WHERE edition = :edition AND state = 'hidden' AND hidden_by = :run AND NOT EXISTS"
        " (SELECT 1 FROM kb_documents o WHERE o.edition = :edition AND o.source = kb_documents.source"
        " AND o.uri = kb_documents.uri AND o.state = 'current')",
        {"edition": edition, "run": run},
    )


async def _edition_removed(work: Work, ctx: Context) -> bool:
    """An edition that this run opened: with it everything goes."""
    index = index_for(ctx.engine)
    for statement in index.drop(work.edition):
        ctx.write(statement)
    ctx.write(("UPDATE kb_bases SET edition = NULL WHERE edition = :n", {"n": work.edition}))
    ctx.write(bases.edition_gone(work.edition))
    await ctx.checkpoint(work)
    return await _rows_removed(ctx, work.edition, work)


async def _rows_removed(ctx: Context, edition: int, payload: Any) -> bool:
    async for _ in _while_time(ctx):
        statement = await emptied(ctx, edition)
        if statement is None:
            return True
        ctx.write(statement)
        await ctx.checkpoint(payload)
    return False


async def _removed(ctx: Context, index: Index, edition: int, documents: list[int], payload: Any) -> bool:
    """Remove these documents, slice by slice."""
    async for _ in _while_time(ctx):
        if not documents:
            return True
        statements, gone = await removal(ctx, index, edition, documents[:200])
        for statement in statements:
            ctx.write(statement)
        await ctx.checkpoint(payload)
        documents = documents[gone:]
    return not documents


async def _while_time(ctx: Context) -> AsyncIterator[None]:
    until = ctx.now() + AT_ONCE
    yield
    while ctx.now() < until and not ctx.halted:
        yield


async def remove_hidden(what: Purge, ctx: Context) -> dict[str, int] | Again:
    if not await ctx.lock(lock_name(what.base)):
        return Again(what, after=LOCK_EVERY)
    index = index_for(ctx.engine)
    if not what.hidden:
        if await _opened_by(ctx, what.edition) is not _GONE:
            for statement in index.drop(what.edition):
                ctx.write(statement)
            ctx.write(bases.edition_gone(what.edition))
            await ctx.checkpoint(what)
        return {"edition": what.edition} if await _rows_removed(ctx, what.edition, what) else Again(what)
    if await _opened_by(ctx, what.edition) is _GONE:
        return {"removed": what.removed}
    async for _ in _while_time(ctx):
        # Nobody else has the knowledge base now: what is hidden was hidden by runs that are over.
        documents = await some_of(ctx, what.edition, "state = 'hidden'", {})
        if not documents:
            return {"removed": what.removed}
        statements, gone = await removal(ctx, index, what.edition, documents)
        for statement in statements:
            ctx.write(statement)
        what = what.model_copy(update={"removed": what.removed + gone})
        await ctx.checkpoint(what)
    return Again(what)


async def remove_base(what: Forget, ctx: Context) -> dict[str, int] | Again:
    if not await ctx.lock(lock_name(what.base)):
        return Again(what, after=LOCK_EVERY)
    named = {"tenant": ctx.job.tenant, "base": what.base}
    rows = await ctx.read(("SELECT number, gone FROM kb_editions WHERE tenant = :tenant AND base = :base", named))
    for number, gone in rows:
        if not gone:
            for statement in index_for(ctx.engine).drop(int(number)):
                ctx.write(statement)
            ctx.write(bases.edition_gone(int(number)))
            await ctx.checkpoint(what)
        if not await _rows_removed(ctx, int(number), what):
            return Again(what)
    runs = "SELECT id FROM kb_runs WHERE tenant = :tenant AND base = :base"
    ctx.write((f"DELETE FROM kb_frontier WHERE run IN ({runs})", named))
    ctx.write((f"DELETE FROM kb_staged WHERE run IN ({runs})", named))
    ctx.write(("DELETE FROM kb_runs WHERE tenant = :tenant AND base = :base", named))
    ctx.write(("DELETE FROM kb_bases WHERE tenant = :tenant AND id = :base", named))
    return {"editions": len(rows)}


__all__ = ["CANCELED", "Counters", "clean_up", "finish", "remove_base", "remove_hidden"]
