"""Embeddings that come in batches: chunks wait as rows until there are many, one batch is asked for them all, and when
it has come home they are indexed, a group a commit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.engine.call import Call
from penstock.engine.context import Context
from penstock.engine.errors import Permanent, RateLimited, StepError, Transient
from penstock.engine.outcome import Again, Goto
from penstock.outputs.files import atomic_write
from penstock.pipelines.ingestion import filling, metrics, writing
from penstock.pipelines.ingestion.bases import grown
from penstock.pipelines.ingestion.embedding import Embedded, embedded
from penstock.pipelines.ingestion.filling import Piece
from penstock.pipelines.ingestion.index import index_for
from penstock.pipelines.ingestion.statements import listed
from penstock.pipelines.ingestion.trying import ATTEMPTS, NotYet, said, tried
from penstock.pipelines.ingestion.work import Counters, Work

BATCH_TEXTS = 5000
"""Chunks of one batch."""

_SLICE = 500

Staged = tuple[int, Piece, bool]
"""Number, piece, and whether it is the last of its document."""


async def collect(work: Work, ctx: Context) -> Again | Goto:
    from penstock.pipelines.ingestion.running import edition_for, embedder_for, taken_up, waits_for

    if not await taken_up(work, ctx):
        return Again(work, after=waits_for(ctx))
    edition = await edition_for(work, ctx)
    embedder: Any = embedder_for(work, edition, ctx)
    work.phase = "embed"
    staging = work.staging
    if not staging.asked:
        staging.began, staging.asked = staging.first, await _until(work, ctx, embedder)
        staging.since = ctx.now()
        # What is asked for is the same from now on, whatever happens.
        await ctx.checkpoint(work)
    call = await _asked(work, ctx, embedder)
    if call is not None and not call.ended:
        return Again(work, until=call)
    result, passing = await _vectors(call, ctx, embedder)
    try:
        await _once_more(work, ctx, embedder, result, passing)
    except NotYet as later:
        return Again(work, after=later.after)
    began = ctx.now()
    if staging.since:
        work.seconds.spend("embed", began - staging.since)
        staging.since = 0.0
    if not await _indexed(work, ctx, result):
        return Again(work)
    work.seconds.spend("index", ctx.now() - began)
    staging.asked = 0
    return Goto("ingest", work)


async def _until(work: Work, ctx: Context, embedder: Any) -> int:
    """The number of the first chunk that the next batch does not take: it has a limit of texts and of tokens."""
    most, tokens, end = embedder.batch_tokens, 0, work.staging.first
    while end < work.staging.next and end - work.staging.first < BATCH_TEXTS:
        rows = await _rows(work, ctx, end, _SLICE)
        if not rows:
            raise Permanent(f"chunks from number {end} on that wait for embeddings are not there any more")
        for number, piece, _ in rows:
            tokens += embedder.tokens_of(piece.text)
            if most is not None and tokens > most and number > work.staging.first:
                return number
            end = number + 1
    return min(end, work.staging.first + BATCH_TEXTS)


async def _asked(work: Work, ctx: Context, embedder: Any) -> Call | None:
    """The batch for the chunks that wait; None where all of them are known."""
    staging = work.staging
    key = f"embed:{staging.began}-{staging.asked}:{work.run}"
    known = await ctx.known_call(key)
    if known is not None and (not known.ended or known.state == "collected"):
        return known
    texts: dict[str, str] = {}
    start = staging.first
    while start < staging.asked:
        rows = await _rows(work, ctx, start, _SLICE, until=staging.asked)
        have = await filling.known_chunks(ctx, work.edition, [piece.content_hash for _, piece, _ in rows])
        texts |= {piece.content_hash: piece.text for _, piece, _ in rows if piece.content_hash not in have}
        start = rows[-1][0] + 1
    if not texts:
        return None
    file = ctx.scratch / f"embed-{staging.began}.jsonl"
    lines = b"".join(embedder.line(hash, text) + b"\n" for hash, text in texts.items())
    await asyncio.to_thread(atomic_write, file, lines)
    try:
        request = await asyncio.to_thread(embedder.request, file)
        return await ctx.call(embedder.batch_remote, key, request, attempts=ATTEMPTS)
    finally:
        # The other side has it; for another attempt it is written anew.
        await asyncio.to_thread(_dropped, file)


def _dropped(file: Path) -> None:
    file.unlink(missing_ok=True)
    with suppress(OSError):
        file.parent.rmdir()


async def _once_more(work: Work, ctx: Context, embedder: Any, result: Embedded, passing: set[str]) -> None:
    """Rows of a batch that failed in passing are few: they are asked for one by one, and not left for another batch."""
    texts: dict[str, str] = {}
    start = work.staging.first
    while passing and start < work.staging.asked:
        rows = await _rows(work, ctx, start, _SLICE, until=work.staging.asked)
        texts |= {piece.content_hash: piece.text for _, piece, _ in rows if piece.content_hash in passing}
        start = rows[-1][0] + 1
    have = await filling.known_chunks(ctx, work.edition, texts)
    texts = {hash: text for hash, text in texts.items() if hash not in have}
    if not texts:
        return
    try:
        more = await embedded(embedder, texts, ctx)
    except RateLimited:
        raise
    except Transient as error:
        tried(work, error)
        return
    work.attempt = 0
    result.vectors |= more.vectors
    result.refused |= more.refused


async def _vectors(call: Call | None, ctx: Context, embedder: Any) -> tuple[Embedded, set[str]]:
    """What the batch brought, and which of its rows may do better another time."""
    if call is None:
        return Embedded(), set()
    if call.state != "collected" or call.result is None:
        raise Permanent(f"the batch of embeddings {call.state}: {call.error or 'nothing was said'}")
    folder, result = ctx.folder_of(call), call.result

    def read() -> tuple[Embedded, set[str]]:
        found, passing = Embedded(), set[str]()
        for key, outcome in embedder.vectors_of(folder, result):
            if isinstance(outcome, StepError):
                found.refused[key] = str(outcome)
                if isinstance(outcome, Transient):
                    passing.add(key)
            else:
                found.vectors[key] = outcome
        return found, passing

    return await asyncio.to_thread(read)


async def _indexed(work: Work, ctx: Context, result: Embedded) -> bool:
    """Everything that the batch brought, a group a commit; False where the run is to halt before the end."""
    work.phase = "index"
    size = ctx.settings.ingestion.group
    _, last_chunk = await filling.last_numbers(ctx, work.edition)
    while work.staging.first < work.staging.asked:
        if ctx.halted:
            return False
        rows = await _rows(work, ctx, work.staging.first, size, until=work.staging.asked)
        last_chunk = await _group(work, ctx, rows, result, last_chunk)
        work.staging.first = rows[-1][0] + 1
        await ctx.checkpoint(work)
    return True


async def _group(work: Work, ctx: Context, rows: Sequence[Staged], result: Embedded, last_chunk: int) -> int:
    pieces, now = [piece for _, piece, _ in rows], ctx.now()
    known = await filling.known_chunks(ctx, work.edition, [piece.content_hash for piece in pieces])
    missing = {
        piece.content_hash: "the batch has no answer for it"
        for piece in pieces
        if piece.content_hash not in known and piece.content_hash not in result.vectors
    }
    refused = {hash: result.refused.get(hash, why) for hash, why in missing.items()}
    placed = writing.placed(
        work.edition, work.run, pieces, known, Embedded(result.vectors, refused),
        index=index_for(ctx.engine), last_chunk=last_chunk, now=now,
    )  # fmt: skip
    counters = placed.counters
    counters.chunks_seen = 0  # counted when they were staged
    documents = {int(n): (source, uri, replaced) for n, source, uri, replaced in await _documents(work, ctx, pieces)}
    places = {n: (source, uri) for n, (source, uri, _) in documents.items()}
    statements: list[Any] = [
        *placed.statements,
        *writing.refusals(work.edition, work.run, pieces, refused, places, attempts=1, ids=ctx.engine.new_id, now=now),
        *_wholes(work, rows, documents, counters, now),
        (
            "DELETE FROM kb_staged WHERE run = :run AND n BETWEEN :first AND :last",
            {"run": work.run, "first": rows[0][0], "last": rows[-1][0]},
        ),
        grown(work.edition, documents=_new(rows, documents), chunks=counters.chunks_processed),
        *metrics.counted(counters, worker=ctx.job.worker),
    ]
    for statement in statements:
        ctx.write(statement)
    if refused:
        work.error = said(next(iter(refused.values())))
    if work.part is not None and work.part.document == pieces[-1].document:
        # The rest of it has not been staged: should it be begun anew, this is taken back, too.
        placed.of_last.chunks_seen = 0
        work.part.counted.add(placed.of_last)
    work.counters.add(counters)
    ctx.count(**counters.amounts())
    return placed.last_chunk


def _wholes(
    work: Work, rows: Sequence[Staged], documents: dict[int, tuple[str, str, int]], counters: Counters, now: float
) -> Iterator[Any]:
    for _, piece, last in rows:
        if last:
            source, uri, replaced = documents[piece.document]
            counters.docs_replaced += bool(replaced)
            yield from filling.whole(
                work.edition, source=source, uri=uri, n=piece.document, chunks=piece.seq + 1, run=work.run, now=now
            )


def _new(rows: Sequence[Staged], documents: dict[int, tuple[str, str, int]]) -> int:
    return sum(last and not documents[piece.document][2] for _, piece, last in rows)


async def _documents(work: Work, ctx: Context, pieces: Sequence[Piece]) -> list[tuple[Any, ...]]:
    """Source, address, and whether there is one that they replace."""
    names, values = listed(sorted({piece.document for piece in pieces}))
    return await ctx.read(
        (
            "SELECT d.n, d.source, d.uri, (SELECT COUNT(*) FROM kb_documents o WHERE o.edition = d.edition"
            " AND o.source = d.source AND o.uri = d.uri AND o.state = 'current' AND o.n <> d.n)"
            f" FROM kb_documents d WHERE d.edition = :edition AND d.n IN {names}",
            {"edition": work.edition, **values},
        )
    )


async def _rows(work: Work, ctx: Context, first: int, limit: int, *, until: int | None = None) -> list[Staged]:
    rows = await ctx.read(
        (
            "SELECT n, document, seq, last, content_hash, text, position FROM kb_staged"
            " WHERE run = :run AND n >= :first AND n < :until ORDER BY n LIMIT :limit",
            {"run": work.run, "first": first, "until": until or work.staging.next, "limit": limit},
        )
    )
    return [
        (int(n), Piece(int(document), int(seq), hash, text, position), bool(last))
        for n, document, seq, last, hash, text, position in rows
    ]
