"""Mending an index: what it lacks is embedded again from the chunks' own text, what it has too much is removed. What a
run at work could need is left alone while it works; the next repair mends it."""

from __future__ import annotations

from typing import Any

from penstock.engine.context import Context
from penstock.engine.outcome import Again
from penstock.pipelines.ingestion import bases, filling
from penstock.pipelines.ingestion.bases import Edition
from penstock.pipelines.ingestion.embedders import make_embedder
from penstock.pipelines.ingestion.embedding import embedded
from penstock.pipelines.ingestion.index import Index, index_for
from penstock.pipelines.ingestion.running import lock_name
from penstock.pipelines.ingestion.statements import listed
from penstock.pipelines.ingestion.verifying import Part, dangling, incomplete, verify_chunks
from penstock.pipelines.ingestion.work import Repair


async def mend(what: Repair, ctx: Context) -> dict[str, Any] | Again:
    """One slice of chunks; at the end, the places that lead nowhere and the documents that lack something."""
    base = await bases.base_of(ctx, ctx.job.tenant, what.base)
    edition = None if base.edition is None else await bases.edition_of(ctx, base.edition)
    if edition is None:
        return what.mended
    index = index_for(ctx.engine)
    if what.stage == 0:
        part = await verify_chunks(ctx, index, edition.number, what.after)
        await _index_mended(what, part, edition, index, ctx)
        alone = await ctx.lock(lock_name(what.base))
        if alone:
            _removed(what, part, edition, index, ctx)
            ctx.release(lock_name(what.base))
        elif part.faults.get("stray_vector") or part.faults.get("stray_text") or part.faults.get("orphan"):
            _count(what, "left_to_the_next_repair", 1)
        what.after, what.stage = (part.last, 0) if part.last is not None else (0, 1)
        return Again(what)
    return await _documents_mended(what, edition, ctx)


async def _index_mended(what: Repair, part: Part, edition: Edition, index: Index, ctx: Context) -> None:
    """Chunks that the index lacks, or has otherwise, are taken out of it and put in again, in one commit."""
    lacking = sorted({n for fault in ("no_vector", "no_text", "wrong_hash") for n in part.faults.get(fault, ())})
    if not lacking:
        return
    names, values = listed(lacking)
    rows = await ctx.read(
        (
            f"SELECT n, text FROM kb_chunks WHERE edition = :edition AND n IN {names} ORDER BY n",
            {"edition": edition.number, **values},
        )
    )
    texts = {str(n): text for n, text in rows}
    result = await embedded(make_embedder(edition.embedder, ctx.settings), texts, ctx)
    good = [(int(n), text, result.vectors[n]) for n, text in texts.items() if n in result.vectors]
    if not good:
        _count(what, "refused", len(result.refused))
        return
    ctx.write(filling.still_there(edition.number, [n for n, _, _ in good]))
    there = [(n, text) for n, text, _ in good]
    for statement in index.mended(edition.number, there, part.faults.get("no_text", ())):
        ctx.write(statement)
    for statement in index.add(edition.number, good):
        ctx.write(statement)
    ctx.write(bases.grown(edition.number, documents=0, chunks=0, removed=True))
    _count(what, "indexed", len(good))
    _count(what, "refused", len(result.refused))


def _removed(what: Repair, part: Part, edition: Edition, index: Index, ctx: Context) -> None:
    """Only while nobody else works on the knowledge base: a number that is stray now may be used the next moment."""
    vectors, texts = part.faults.get("stray_vector", []), part.faults.get("stray_text", [])
    for statement in index.strays_removed(edition.number, vectors, texts):
        ctx.write(statement)
    _count(what, "strays_removed", len({*vectors, *texts}))
    orphans = part.faults.get("orphan", [])
    if orphans:
        names, values = listed(orphans)
        ctx.write(
            (
                f"DELETE FROM kb_chunks WHERE edition = :edition AND n IN {names} AND NOT EXISTS (SELECT 1 FROM"
                " kb_pieces p WHERE p.edition = kb_chunks.edition AND p.chunk = kb_chunks.n)",
                {"edition": edition.number, **values},
            )
        )
        for statement in index.strays_removed(edition.number, orphans, orphans):
            ctx.write(statement)
        _count(what, "orphans_removed", len(orphans))
    if vectors or texts or orphans:
        ctx.write(bases.grown(edition.number, documents=0, chunks=-len(orphans), removed=True))


async def _documents_mended(what: Repair, edition: Edition, ctx: Context) -> dict[str, Any]:
    """A document that lacks chunks is forgotten to be known: the next run reads it again."""
    number = edition.number
    lost = await dangling(ctx, number)
    for start in range(0, len(lost), 500):
        names, values = listed(lost[start : start + 500])
        ctx.write(
            (f"DELETE FROM kb_pieces WHERE edition = :edition AND chunk IN {names}", {"edition": number, **values})
        )
    short = [n async for _, some in incomplete(ctx, number) for n in some]
    for start in range(0, len(short), 500):
        names, values = listed(short[start : start + 500])
        ctx.write(
            (
                "UPDATE kb_documents SET content_hash = '', fingerprint = NULL"
                f" WHERE edition = :edition AND n IN {names}",
                {"edition": number, **values},
            )
        )
    if lost:
        _count(what, "dangling_removed", len(lost))
    _count(what, "documents_to_read_again", len(short))
    return dict(what.mended)


def _count(what: Repair, name: str, amount: int) -> None:
    if amount:
        what.mended[name] = what.mended.get(name, 0) + amount
