"""The steps of a run that fill an edition."""

from __future__ import annotations

from penstock.engine.context import Context
from penstock.engine.errors import Permanent
from penstock.engine.outcome import Again, Goto
from penstock.pipelines.ingestion import bases, writing
from penstock.pipelines.ingestion.bases import Base, Edition, source_key
from penstock.pipelines.ingestion.collecting import BATCH_TEXTS
from penstock.pipelines.ingestion.embedders import make_embedder
from penstock.pipelines.ingestion.index import index_for
from penstock.pipelines.ingestion.living import tools_for
from penstock.pipelines.ingestion.plugins import Embedder
from penstock.pipelines.ingestion.sources import make_source
from penstock.pipelines.ingestion.ticking import Tick
from penstock.pipelines.ingestion.work import Begin, Purge, Work

LOCK_EVERY, LOCK_SELDOM = 0.5, 30.0
"""Seconds between two looks whether the knowledge base is free: the first ones, and at most."""


def lock_name(base: str) -> str:
    """Who changes a knowledge base holds this lock: one at a time."""
    return f"kb:{base}"


def waits_for(ctx: Context) -> float:
    """Seconds until the next look: who has waited for long, for a run that rests, looks seldom."""
    return min(LOCK_SELDOM, max(LOCK_EVERY, (ctx.now() - ctx.job.created) / 10))


async def prepare(begin: Begin, ctx: Context) -> Work | Again | Goto:
    # The first job of a run has its own id for a key, and those that go on with it have the same.
    ask, run = begin.ask, begin.run or ctx.job.key
    if not await ctx.lock(lock_name(ask.base)):
        return Again(begin, after=waits_for(ctx))
    base = await newest(ask.base, run, ctx)
    for statement in bases.left_by_others(ask.base, tenant=ctx.job.tenant, run=run):
        ctx.write(statement)
    index = index_for(ctx.engine)
    await index.prepare()
    work = Work(ask=ask, run=run, holder=ctx.job.id)
    edition = None if ask.rebuild or base.edition is None else await bases.edition_of(ctx, base.edition)
    if edition is None:
        await _open_edition(work, base, ctx)
    else:
        work.edition = edition.number
        # What a rebuild that came to nothing has asked for is not what the edition is filled with.
        work.ask.config = edition.pinning(ask.config, base.config)
    ctx.write(bases.run_works(run, job=ctx.job.id, edition=work.edition))
    for number in await _abandoned(ctx, base, keep=(work.edition, base.edition)):
        from penstock.pipelines.ingestion.workflow import purge

        ctx.spawn(purge, Purge(base=ask.base, edition=number))
    await _look_at_sources(work, ctx)
    return Goto("retry_chunks", work) if ask.errors_only else Goto("ingest", work)


async def _open_edition(work: Work, base: Base, ctx: Context) -> None:
    config, now = work.ask.config, ctx.now()
    embedder = make_embedder(config.embedder, ctx.settings)
    number = await bases.next_edition(ctx, work.run, ctx.job.attempt)
    ctx.write(
        bases.new_edition(
            number, base.id, tenant=base.tenant, chunker=config.chunker, embedder=embedder, run=work.run, now=now
        )
    )
    for statement in index_for(ctx.engine).create(number, embedder.dimension):
        ctx.write(statement)
    if base.edition is None:
        ctx.write(bases.searched_edition(base.id, tenant=base.tenant, number=number))
    work.edition = number


async def _abandoned(ctx: Context, base: Base, keep: tuple[int | None, ...]) -> list[int]:
    """Editions that a rebuild which failed left behind."""
    rows = await ctx.read(
        (
            "SELECT number FROM kb_editions WHERE tenant = :tenant AND base = :base AND gone = 0",
            {"tenant": base.tenant, "base": base.id},
        )
    )
    return [int(number) for (number,) in rows if number not in keep]


async def _look_at_sources(work: Work, ctx: Context) -> None:
    """How much there is, about; and where sources that find their own way begin: at their seeds, and at what the
    knowledge base has of them, so that a page that is unchanged leads on to those it led to."""
    total: int | None = 0
    for number, spec in enumerate(work.ask.config.sources):
        source = make_source(spec, tools_for(ctx.engine, work.run, number))
        try:
            if work.ask.errors_only:
                continue
            seeds = getattr(source, "seeds", None)
            first: list[str] | None = None if seeds is None else list(await seeds())
            count = await source.count()
            total = None if total is None or count is None else total + count
            if first is None:
                continue
        finally:
            await source.close()
        rows = await ctx.read(
            (
                "SELECT uri FROM kb_documents WHERE edition = :edition AND source = :source AND state = 'current'"
                " ORDER BY uri",
                {"edition": work.edition, "source": source_key(spec)},
            )
        )
        known = [uri for (uri,) in rows]
        for statement in writing.found_addresses(work.run, number, 0, list(dict.fromkeys([*first, *known]))):
            ctx.write(statement)
    work.total = None if work.ask.errors_only else total


async def newest(name: str, run: str, ctx: Context) -> Base:
    """The knowledge base of a run. One that another run has filled since is no more this run's to go on with."""
    base = await bases.find_base(ctx, ctx.job.tenant, name)
    if base is None:
        raise Permanent(f"there is no knowledge base {name!r} any more")
    if base.run != run:
        raise Permanent(f"run {run} is not the newest of {name!r}: that is {base.run}")
    return base


async def taken_up(work: Work, ctx: Context) -> bool:
    """Whether this job may go on with the run: after a failed run was resumed, it is another job that does."""
    if work.holder == ctx.job.id:
        return True
    if not await ctx.lock(lock_name(work.ask.base)):
        return False
    await newest(work.ask.base, work.run, ctx)
    work.holder = ctx.job.id
    work.attempt = 0
    ctx.write(bases.run_works(work.run, job=ctx.job.id, edition=work.edition))
    return True


def embedder_for(work: Work, edition: Edition, ctx: Context) -> Embedder:
    """The one that the edition is pinned to; whether in batches is the run's own choice."""
    spec = edition.embedder.model_copy(update={"batch": work.ask.config.embedder.batch})
    return make_embedder(spec, ctx.settings)


async def edition_for(work: Work, ctx: Context) -> Edition:
    edition = await bases.edition_of(ctx, work.edition)
    if edition is None:
        raise Permanent(f"the knowledge base {work.ask.base!r} was deleted")
    return edition


async def ingest(work: Work, ctx: Context) -> Again | Goto:
    if not await taken_up(work, ctx):
        return Again(work, after=waits_for(ctx))
    waiting = work.staging.next - work.staging.first
    if work.source >= len(work.ask.config.sources):
        return Goto("collect" if waiting else "finish", work)
    if waiting >= BATCH_TEXTS:
        return Goto("collect", work)
    edition = await edition_for(work, ctx)
    return await Tick(work, ctx, embedder_for(work, edition, ctx), index_for(ctx.engine)).go()


__all__ = ["edition_for", "embedder_for", "ingest", "lock_name", "prepare", "taken_up", "waits_for"]
