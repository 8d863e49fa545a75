"""How a run ends, and what is removed behind it: what it replaced, an edition that is searched no more, or a whole
knowledge base."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from penstock.engine.context import Context
from penstock.engine.errors import Permanent
from penstock.engine.outcome import Again, Goto
from penstock.pipelines.ingestion import bases, filling
from penstock.pipelines.ingestion.bases import source_key
from penstock.pipelines.ingestion.index import Index, index_for
from penstock.pipelines.ingestion.living import let_go
from penstock.pipelines.ingestion.removing import emptied, recounted, removal, some_of
from penstock.pipelines.ingestion.running import lock_name, taken_up, waits_for
from penstock.pipelines.ingestion.statements import Statement, listed
from penstock.pipelines.ingestion.trying import said
from penstock.pipelines.ingestion.work import Ended, Forget, Optimize, Purge, Work

SUSPICIOUS = 10
"""Documents that vanish at once, and are more than half of what there was, from which on nothing is pruned."""

LARGE = 50_000
"""Chunks from which on an edition gets an index of neighbours, where the store can build one."""

AT_ONCE = 0.7
"""Seconds of one tick of removing."""


async def finish(work: Work, ctx: Context) -> Ended | Again | Goto:
    """The commit of this step is the moment in which the run is complete: from then on nothing is brought back."""
    resumed = work.holder != ctx.job.id
    if not await taken_up(work, ctx):
        return Again(work, after=waits_for(ctx))
    await let_go(work.run)
    if why := _came_to_nothing(work):
        if not resumed:
            raise Permanent(why)
        from penstock.pipelines.ingestion.undoing import begun_anew

        return await begun_anew(work, ctx)
    edition, run, index = work.edition, work.run, index_for(ctx.engine)
    half = await filling.half_written(ctx, edition)
    if half and not await _removed(ctx, index, edition, half, work):
        return Again(work)
    removed = 0
    if work.ask.config.prune and not work.ask.errors_only:
        removed = await _vanished(work, ctx)
        work.counters.docs_removed += removed
        ctx.count(docs_removed=removed)
    ctx.write(recounted(edition))
    for statement in (*of_run(run), _outlived_errors(work)):
        ctx.write(statement)
    tenant, base = ctx.job.tenant, await bases.base_of(ctx, ctx.job.tenant, work.ask.base)
    ctx.write(bases.edition_complete(edition))
    from penstock.pipelines.ingestion.workflow import optimize, purge

    if base.edition is not None and base.edition != edition:
        ctx.write(bases.searched_edition(base.id, tenant=tenant, number=edition))
        ctx.spawn(purge, Purge(base=base.id, edition=base.edition))
    hidden = await some_of(ctx, edition, "state = 'hidden'", {}, limit=1)
    if hidden:
        ctx.write(_taken_over(edition, run))
    if removed or hidden:
        ctx.spawn(purge, Purge(base=base.id, edition=edition, hidden=True))
    if index.optimizes:
        known = await bases.edition_of(ctx, edition)
        if known is not None and known.chunks >= LARGE:
            ctx.spawn(optimize, Optimize(edition=edition, dimension=known.dimension))
    ended = Ended(base=base.id, edition=edition, counters=work.counters, seconds=work.seconds)
    outcome = ended.model_dump()
    ctx.write(bases.run_ended(run, state="completed", now=ctx.now(), outcome=outcome, error=work.error))
    return ended


def _came_to_nothing(work: Work) -> str | None:
    """A run that found nothing, or could use nothing of what it found, has failed."""
    seen, then = work.counters, f"then `penstock ingest resume {work.ask.base}`: it begins anew"
    if work.ask.errors_only:
        return None
    if not seen.docs_seen:
        return f"the source gave nothing ({_names(work)}): see that it is what you mean, {then}"
    failed = seen.chunks_error or seen.docs_error
    if failed and not (seen.chunks_processed or seen.chunks_skipped or seen.docs_unchanged or seen.docs_empty):
        return f"nothing could be indexed ({work.error}): see to it, {then}"
    return None


def _names(work: Work) -> str:
    return ", ".join(source_key(spec) for spec in work.ask.config.sources)


async def _vanished(work: Work, ctx: Context) -> int:
    """Hide the documents of the run's sources that the run did not meet; how many there are. Of a source that could
    not be read wholly nothing is hidden: what it did not show may be there."""
    sources = _read_wholly(work)
    if work.unsure:
        ctx.log.warning("%s: nothing is pruned of sources that could not be read wholly", work.ask.base)
    if not sources:
        return 0
    names, values = listed(sources)
    where = f"edition = :edition AND state = 'current' AND seen <> :run AND source IN {names}"
    values |= {"edition": work.edition, "run": work.run}
    ((count,),) = await ctx.read((f"SELECT COUNT(*) FROM kb_documents WHERE {where}", values))
    ((all_there,),) = await ctx.read(
        (
            "SELECT COUNT(*) FROM kb_documents WHERE edition = :edition AND state = 'current' AND run <> :run"
            f" AND source IN {names}",
            values,
        )
    )
    if count >= SUSPICIOUS and count * 2 > all_there:
        # A disk that is not mounted, a site that is down behind a friendly page: hardly what anybody wished for.
        work.error = said(
            f"nothing was pruned: {count:,} of {all_there:,} documents would go; if that is right, start it again with"
            " --rebuild (rebuild: true)"
        )
        ctx.log.warning("%s: %s", work.ask.base, work.error)
        return 0
    if count:
        ctx.write((f"UPDATE kb_documents SET state = 'hidden', hidden_by = :run WHERE {where}", values))
    return int(count)


def _read_wholly(work: Work) -> list[str]:
    keys = [source_key(spec) for spec in work.ask.config.sources]
    unsure = {keys[number] for number in work.unsure}
    return sorted({*keys} - unsure)


def _taken_over(edition: int, run: str) -> Statement:
    """What runs that failed have hidden is removed with what this one has: nobody can bring it back any more."""
    return (
        "UPDATE kb_documents SET hidden_by = :run WHERE edition = :edition AND state = 'hidden' AND hidden_by <> :run",
        {"edition": edition, "run": run},
    )


def _outlived_errors(work: Work) -> Statement:
    """Documents that earlier runs could not load, where this one has loaded them, has listed them itself, or knows that
    they are no more."""
    names, values = listed(_read_wholly(work))
    wholly = "" if work.ask.errors_only or not values else f"source IN {names} OR "
    return (
        "DELETE FROM kb_errors WHERE edition = :edition AND document IS NULL AND run <> :run"
        f" AND ({wholly}(source, uri) IN (SELECT source, uri FROM kb_errors WHERE run = :run AND document IS NULL)"
        " OR EXISTS (SELECT 1 FROM kb_documents d WHERE d.edition = :edition AND d.source = kb_errors.source"
        " AND d.uri = kb_errors.uri AND d.state = 'current' AND d.seen = :run))",
        {"edition": work.edition, "run": work.run, **(values if wholly else {})},
    )


def of_run(run: str) -> list[Statement]:
    """What a run needs only while it runs."""
    return [(f"DELETE FROM {table} WHERE {column} = :run", {"run": run}) for table, column in bases.OF_RUNS.items()]


GONE = object()


async def opened_by(ctx: Context, edition: int) -> Any:
    """The run that opened an edition and has not completed it; `GONE` where the edition is no more."""
    rows = await ctx.read(("SELECT opened_by FROM kb_editions WHERE number = :n AND gone = 0", {"n": edition}))
    return rows[0][0] if rows else GONE


async def rows_removed(ctx: Context, edition: int, payload: Any) -> bool:
    async for _ in while_time(ctx):
        statement = await emptied(ctx, edition)
        if statement is None:
            return True
        ctx.write(statement)
        await ctx.checkpoint(payload)
    return False


async def _removed(ctx: Context, index: Index, edition: int, documents: list[int], payload: Any) -> bool:
    """Remove these documents, slice by slice."""
    async for _ in while_time(ctx):
        if not documents:
            return True
        statements, gone = await removal(ctx, index, edition, documents[:200])
        for statement in statements:
            ctx.write(statement)
        await ctx.checkpoint(payload)
        documents = documents[gone:]
    return not documents


async def while_time(ctx: Context) -> AsyncIterator[None]:
    until = ctx.now() + AT_ONCE
    yield
    while ctx.now() < until and not ctx.halted:
        yield


_HIDDEN_FOR_GOOD = (
    "state = 'hidden' AND EXISTS (SELECT 1 FROM kb_runs r WHERE r.id = kb_documents.hidden_by"
    " AND r.state = 'completed')"
)


async def remove_hidden(what: Purge, ctx: Context) -> dict[str, int] | Again:
    if not await ctx.lock(lock_name(what.base)):
        return Again(what, after=waits_for(ctx))
    index = index_for(ctx.engine)
    if not what.hidden:
        if await opened_by(ctx, what.edition) is not GONE:
            for statement in index.drop(what.edition):
                ctx.write(statement)
            ctx.write(bases.edition_gone(what.edition))
            await ctx.checkpoint(what)
        return {"edition": what.edition} if await rows_removed(ctx, what.edition, what) else Again(what)
    if await opened_by(ctx, what.edition) is GONE:
        return {"removed": what.removed}
    async for _ in while_time(ctx):
        # What a run has hidden that failed may still be brought back.
        documents = await some_of(ctx, what.edition, _HIDDEN_FOR_GOOD, {})
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
        return Again(what, after=waits_for(ctx))
    named = {"tenant": ctx.job.tenant, "base": what.base}
    rows = await ctx.read(("SELECT number, gone FROM kb_editions WHERE tenant = :tenant AND base = :base", named))
    for number, gone in rows:
        if not gone:
            for statement in index_for(ctx.engine).drop(int(number)):
                ctx.write(statement)
            ctx.write(bases.edition_gone(int(number)))
            await ctx.checkpoint(what)
        if not await rows_removed(ctx, int(number), what):
            return Again(what)
    for statement in bases.left_by_others(what.base, tenant=ctx.job.tenant, run=""):
        ctx.write(statement)
    ctx.write(("DELETE FROM kb_runs WHERE tenant = :tenant AND base = :base", named))
    # Their numbers stay, so that none is used twice, and nothing of whom they were.
    ctx.write(("UPDATE kb_editions SET tenant = '', base = '' WHERE tenant = :tenant AND base = :base", named))
    ctx.write(("DELETE FROM kb_bases WHERE tenant = :tenant AND id = :base", named))
    return {"editions": len(rows)}


__all__ = ["finish", "remove_base", "remove_hidden"]
