"""The steps of a run that fill an edition."""

from __future__ import annotations

from typing import Any

from penstock.engine.context import Context
from penstock.engine.errors import Permanent, RateLimited, Transient
from penstock.engine.outcome import Again, Goto
from penstock.pipelines.ingestion import bases, filling, metrics, writing
from penstock.pipelines.ingestion.bases import Base, Edition, source_key
from penstock.pipelines.ingestion.collecting import BATCH_TEXTS
from penstock.pipelines.ingestion.embedders import make_embedder
from penstock.pipelines.ingestion.embedding import Embedded, embedded
from penstock.pipelines.ingestion.filling import Piece
from penstock.pipelines.ingestion.index import index_for
from penstock.pipelines.ingestion.living import tools_for
from penstock.pipelines.ingestion.model import EmbedderSpec
from penstock.pipelines.ingestion.plugins import Embedder
from penstock.pipelines.ingestion.sources import make_source
from penstock.pipelines.ingestion.statements import listed
from penstock.pipelines.ingestion.ticking import Tick
from penstock.pipelines.ingestion.trying import NotYet, tried
from penstock.pipelines.ingestion.work import Begin, Counters, Purge, Work

LOCK_EVERY = 0.5
"""Seconds between two looks whether the knowledge base is free."""


def lock_name(base: str) -> str:
    """Who changes a knowledge base holds this lock: one at a time."""
    return f"kb:{base}"


async def prepare(begin: Begin, ctx: Context) -> Work | Again | Goto:
    ask, run = begin.ask, begin.run or ctx.job.id
    if not await ctx.lock(lock_name(ask.base)):
        return Again(begin, after=LOCK_EVERY)
    base = await bases.find_base(ctx, ctx.job.tenant, ask.base)
    if base is None:
        raise Permanent(f"there is no knowledge base {ask.base!r} any more")
    index = index_for(ctx.engine)
    await index.prepare()
    work = Work(ask=ask, run=run, holder=ctx.job.id)
    edition = None if ask.rebuild or base.edition is None else await bases.edition_of(ctx, base.edition)
    if edition is None:
        await _open_edition(work, base, ctx)
    else:
        work.edition = edition.number
        # What a rebuild that came to nothing has asked for is not what the edition is filled with.
        work.ask.config = ask.config.model_copy(update={"chunker": edition.chunker})
    ctx.write(bases.run_works(run, job=ctx.job.id, edition=work.edition))
    for number in await _abandoned(ctx, base, keep=(work.edition, base.edition)):
        from penstock.pipelines.ingestion.workflow import purge

        ctx.spawn(purge, Purge(base=ask.base, edition=number))
    await _look_at_sources(work, ctx)
    return Goto("retry_chunks", work) if ask.errors_only else Goto("ingest", work)


async def _open_edition(work: Work, base: Base, ctx: Context) -> None:
    config, now = work.ask.config, ctx.now()
    embedder = make_embedder(config.embedder, ctx.settings)
    number = await bases.next_edition(ctx)
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


async def taken_up(work: Work, ctx: Context) -> bool:
    """Whether this job may go on with the run: after a failed run was resumed, it is another job that does."""
    if work.holder == ctx.job.id:
        return True
    if not await ctx.lock(lock_name(work.ask.base)):
        return False
    work.holder = ctx.job.id
    work.attempt = 0
    ctx.write(bases.run_works(work.run, job=ctx.job.id, edition=work.edition))
    return True


def embedder_for(work: Work, edition: Edition, ctx: Context) -> Embedder:
    """The one that the edition is pinned to; whether in batches is the run's own choice."""
    pinned = edition.embedder
    spec = EmbedderSpec(
        name=pinned.name, model=pinned.model, dimension=pinned.dimension, batch=work.ask.config.embedder.batch
    )
    return make_embedder(spec, ctx.settings)


async def edition_for(work: Work, ctx: Context) -> Edition:
    edition = await bases.edition_of(ctx, work.edition)
    if edition is None:
        raise Permanent(f"the knowledge base {work.ask.base!r} was deleted")
    return edition


async def ingest(work: Work, ctx: Context) -> Again | Goto:
    if not await taken_up(work, ctx):
        return Again(work, after=LOCK_EVERY)
    waiting = work.staging.next - work.staging.first
    if work.source >= len(work.ask.config.sources):
        return Goto("collect" if waiting else "finish", work)
    if waiting >= BATCH_TEXTS:
        return Goto("collect", work)
    edition = await edition_for(work, ctx)
    return await Tick(work, ctx, embedder_for(work, edition, ctx), index_for(ctx.engine)).go()


async def retry_chunks(work: Work, ctx: Context) -> Work | Again:
    """A group of chunks that could not be embedded, until there are none left but those of this run."""
    if not await taken_up(work, ctx):
        return Again(work, after=LOCK_EVERY)
    rows = await ctx.read(
        (
            "SELECT e.id, e.document, e.seq, e.position, e.text, e.uri, e.source, e.attempts FROM kb_errors e"
            " WHERE e.edition = :edition AND e.document IS NOT NULL AND e.run <> :run ORDER BY e.id LIMIT :limit",
            {"edition": work.edition, "run": work.run, "limit": ctx.settings.ingestion.group},
        )
    )
    if not rows:
        return work
    edition = await edition_for(work, ctx)
    pieces = [_piece(row) for row in rows]
    known = await filling.known_chunks(ctx, work.edition, [piece.content_hash for piece in pieces])
    texts = {piece.content_hash: piece.text for piece in pieces if piece.content_hash not in known}
    spec = edition.embedder
    try:
        result = await _embedded_now(make_embedder(spec, ctx.settings), texts, work, ctx)
    except NotYet as later:
        return Again(work, after=later.after)
    _, last_chunk = await filling.last_numbers(ctx, work.edition)
    now = ctx.now()
    written = writing.placed(
        work.edition, work.run, pieces, known, result, index=index_for(ctx.engine), last_chunk=last_chunk, now=now
    )
    names, values = listed([row[0] for row in rows])
    statements: list[Any] = [
        (f"DELETE FROM kb_errors WHERE id IN {names}", values),
        *written.statements,
        *writing.refusals(
            work.edition, work.run, rows[0][6], pieces, result.refused, {row[1]: row[5] for row in rows},
            attempts=max(row[7] for row in rows) + 1, ids=ctx.engine.new_id, now=now,
        ),
        bases.grown(work.edition, documents=0, chunks=written.counters.chunks_processed),
        *metrics.counted(written.counters, worker=ctx.job.worker),
    ]  # fmt: skip
    for statement in statements:
        ctx.write(statement)
    work.counters.add(written.counters)
    ctx.count(**written.counters.amounts())
    return Again(work)


async def _embedded_now(embedder: Embedder, texts: dict[str, str], work: Work, ctx: Context) -> Embedded:
    if not texts:
        return Embedded()
    try:
        result = await embedded(embedder, texts, ctx)
    except RateLimited:
        raise
    except Transient as error:
        tried(work, error)
        return Embedded(refused=dict.fromkeys(texts, str(error)))
    work.attempt = 0
    return result


def _piece(row: tuple[Any, ...]) -> Piece:
    from penstock.pipelines.ingestion.model import hash_of

    _, document, seq, position, text, *_ = row
    return Piece(int(document), int(seq), hash_of(text), text, position)


__all__ = ["Counters", "edition_for", "ingest", "lock_name", "prepare", "retry_chunks", "taken_up"]
