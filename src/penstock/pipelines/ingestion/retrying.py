"""What an earlier run could not do, tried again by a run that does nothing else. The errors it takes up are set aside:
they are forgotten when it completes, and listed again as they were when it is cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.engine.context import Context
from penstock.engine.errors import RateLimited, Transient
from penstock.engine.outcome import Again
from penstock.pipelines.ingestion import bases, filling, metrics, writing
from penstock.pipelines.ingestion.embedders import make_embedder
from penstock.pipelines.ingestion.embedding import Embedded, embedded
from penstock.pipelines.ingestion.filling import Piece
from penstock.pipelines.ingestion.index import index_for
from penstock.pipelines.ingestion.model import hash_of
from penstock.pipelines.ingestion.plugins import Embedder
from penstock.pipelines.ingestion.removing import places_removed
from penstock.pipelines.ingestion.statements import Statement, listed
from penstock.pipelines.ingestion.tables import errors
from penstock.pipelines.ingestion.trying import NotYet, said, struck, tried
from penstock.pipelines.ingestion.work import Work

_COLUMNS = ", ".join(f'"{column.name}"' for column in errors.columns)

_AT_ONCE = 100
"""Errors that are put back in one commit."""


def taken_from_errors(run: str, ids: Sequence[str]) -> list[Statement]:
    """The run has taken these up, whatever becomes of it."""
    names, values = listed(ids)
    return [
        (
            f"INSERT INTO kb_retried (taken_by, {_COLUMNS}) SELECT :run, {_COLUMNS} FROM kb_errors WHERE id IN {names}",
            {"run": run, **values},
        ),
        (f"DELETE FROM kb_errors WHERE id IN {names}", values),
    ]


async def retry_chunks(work: Work, ctx: Context) -> Work | Again:
    """A group of chunks that could not be embedded, until there are none left but those of this run."""
    from penstock.pipelines.ingestion.running import edition_for, taken_up, waits_for

    if not await taken_up(work, ctx):
        return Again(work, after=waits_for(ctx))
    rows = await ctx.read(
        (
            "SELECT id, document, seq, position, text, source, uri, attempts FROM kb_errors"
            " WHERE edition = :edition AND document IS NOT NULL AND run <> :run ORDER BY id LIMIT :limit",
            {"edition": work.edition, "run": work.run, "limit": ctx.settings.ingestion.group},
        )
    )
    if not rows:
        return work
    edition = await edition_for(work, ctx)
    pieces = [Piece(int(n), int(seq), hash_of(text), text, position) for _, n, seq, position, text, *_ in rows]
    known = await filling.known_chunks(ctx, work.edition, [piece.content_hash for piece in pieces])
    texts = {piece.content_hash: piece.text for piece in pieces if piece.content_hash not in known}
    try:
        result = await _embedded(make_embedder(edition.embedder, ctx.settings), texts, work, ctx)
    except NotYet as later:
        return Again(work, after=later.after)
    _, last_chunk = await filling.last_numbers(ctx, work.edition)
    now = ctx.now()
    written = writing.placed(
        work.edition, work.run, pieces, known, result, index=index_for(ctx.engine), last_chunk=last_chunk, now=now
    )
    statements: list[Any] = [
        *taken_from_errors(work.run, [row[0] for row in rows]),
        *written.statements,
        *writing.refusals(
            work.edition, work.run, pieces, result.refused, {int(row[1]): (row[5], row[6]) for row in rows},
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


async def _embedded(embedder: Embedder, texts: dict[str, str], work: Work, ctx: Context) -> Embedded:
    if not texts:
        return Embedded()
    try:
        result = await embedded(embedder, texts, ctx)
    except RateLimited:
        raise
    except Transient as error:
        tried(work, error)
        struck(work, embedder.name)
        return Embedded(refused=dict.fromkeys(texts, str(error)))
    work.attempt = work.strikes = 0
    if result.refused:
        work.error = said(next(iter(result.refused.values())))
    return result


async def put_back(work: Work, ctx: Context) -> bool:
    """Some of what a cancelled run took up is listed again, without what it has put in their places; False where there
    is nothing left."""
    rows = await ctx.read(
        (
            "SELECT id, document, seq FROM kb_retried WHERE taken_by = :run ORDER BY id LIMIT :limit",
            {"run": work.run, "limit": _AT_ONCE},
        )
    )
    if not rows:
        return False
    places = [(int(document), int(seq)) for _, document, seq in rows if document is not None]
    names, values = listed([row[0] for row in rows])
    values |= {"run": work.run}
    statements = [
        *(await places_removed(ctx, index_for(ctx.engine), work.edition, places) if places else []),
        (
            f"INSERT INTO kb_errors ({_COLUMNS}) SELECT {_COLUMNS} FROM kb_retried"
            f" WHERE taken_by = :run AND id IN {names}",
            values,
        ),
        (f"DELETE FROM kb_retried WHERE taken_by = :run AND id IN {names}", values),
    ]
    for statement in statements:
        ctx.write(statement)
    return True
