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
from penstock.pipelines.ingestion.model import hash_of
from penstock.pipelines.ingestion.running import lock_name
from penstock.pipelines.ingestion.statements import MOST, listed
from penstock.pipelines.ingestion.verifying import Part, dangling, incomplete, nowhere, verify_chunks
from penstock.pipelines.ingestion.work import Repair


async def mend(what: Repair, ctx: Context) -> dict[str, Any] | Again:
    """First the places that lead nowhere, then the chunks, a slice a tick; at the end the documents that lack
    something."""
    base = await bases.base_of(ctx, ctx.job.tenant, what.base)
    edition = None if base.edition is None else await bases.edition_of(ctx, base.edition)
    if edition is None:
        return what.mended
    if what.edition != edition.number:
        # Another is searched since: that one is to be mended.
        what.edition, what.stage, what.after = edition.number, 0, 0
    # Before anything is looked at: what is there too much now may be used by a run the next moment.
    alone = await ctx.lock(lock_name(what.base))
    if alone:
        ctx.release(lock_name(what.base))
    if what.stage == 0:
        what.stage = 0 if await _places_mended(what, edition.number, ctx) else 1
        return Again(what)
    if what.stage == 1:
        await _chunks_mended(what, edition, ctx, alone=alone)
        return Again(what)
    return await _documents_mended(what, edition.number, ctx, alone=alone)


async def _chunks_mended(what: Repair, edition: Edition, ctx: Context, *, alone: bool) -> None:
    index = index_for(ctx.engine)
    part = await verify_chunks(ctx, index, edition.number, what.after)
    await _index_mended(what, part, edition, index, ctx)
    if alone:
        _removed(what, part, edition, index, ctx)
    elif part.faults.get("stray_vector") or part.faults.get("stray_text") or part.faults.get("orphan"):
        _count(what, "left_to_the_next_repair", 1)
    what.after, what.stage = (part.last, 1) if part.last is not None else (0, 2)


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
    wrong = [(n, text) for n, text, _ in good if n in part.faults.get("wrong_hash", ())]
    # Only of those somebody has changed the text: what the others lack is put in beside what there is.
    for statement in index.mended(edition.number, wrong, part.faults.get("no_text", ())) if wrong else ():
        ctx.write(statement)
    for statement in index.add(edition.number, good):
        ctx.write(statement)
    ctx.write(bases.grown(edition.number, documents=0, chunks=0, removed=True))
    _count(what, "indexed", len(good))
    _count(what, "refused", len(result.refused))
    if wrong:
        await _named_anew(what, wrong, edition.number, ctx)


async def _named_anew(what: Repair, chunks: list[tuple[int, str]], edition: int, ctx: Context) -> None:
    """Chunks that go by the hash of another text than they have. Nobody knows any more which text that was: they are
    called by what they are now, and the documents that have them are read again."""
    known = await filling.known_chunks(ctx, edition, [hash_of(text) for _, text in chunks])
    for n, text in chunks:
        other = known.setdefault(hash_of(text), n)
        ctx.write(
            (
                "UPDATE kb_chunks SET content_hash = :hash WHERE edition = :edition AND n = :n",
                {"edition": edition, "n": n, "hash": hash_of(text) if other == n else f"of no use: {n}"},
            )
        )
        if other != n:
            # There is one of this text: it stands in the places of both, and this one in none.
            ctx.write(
                (
                    "UPDATE kb_pieces SET chunk = :other WHERE edition = :edition AND chunk = :n",
                    {"edition": edition, "n": n, "other": other},
                )
            )
    names, values = listed([n for n, _ in chunks])
    rows = await ctx.read(
        (
            f"SELECT DISTINCT document FROM kb_pieces WHERE edition = :edition AND chunk IN {names}",
            {"edition": edition, **values},
        )
    )
    _to_read_again(what, [int(n) for (n,) in rows], edition, ctx)


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


async def _places_mended(what: Repair, edition: int, ctx: Context) -> bool:
    """Places without a chunk, or in no document, are removed; whether there were any."""
    lost = await dangling(ctx, edition)
    for start in range(0, len(lost), MOST):
        names, values = listed(lost[start : start + MOST])
        ctx.write(
            (
                f"DELETE FROM kb_pieces WHERE edition = :edition AND chunk IN {names} AND {nowhere('kb_pieces')}",
                {"edition": edition, **values},
            )
        )
    _count(what, "dangling_removed", len(lost))
    return bool(lost)


async def _documents_mended(what: Repair, edition: int, ctx: Context, *, alone: bool) -> dict[str, Any]:
    """A document that lacks chunks is forgotten to be known: the next run reads it again."""
    _to_read_again(what, [n async for _, some in incomplete(ctx, edition) for n in some], edition, ctx)
    if alone:
        ctx.write(
            (
                "UPDATE kb_editions SET documents = (SELECT COUNT(*) FROM kb_documents d WHERE d.edition = :edition"
                " AND d.state = 'current'), chunks = (SELECT COUNT(*) FROM kb_chunks c WHERE c.edition = :edition)"
                " WHERE number = :edition",
                {"edition": edition},
            )
        )
    return dict(what.mended)


def _to_read_again(what: Repair, documents: list[int], edition: int, ctx: Context) -> None:
    for start in range(0, len(documents), MOST):
        names, values = listed(documents[start : start + MOST])
        ctx.write(
            (
                "UPDATE kb_documents SET content_hash = '', fingerprint = NULL"
                f" WHERE edition = :edition AND n IN {names}",
                {"edition": edition, **values},
            )
        )
    _count(what, "documents_to_read_again", len(documents))


def _count(what: Repair, name: str, amount: int) -> None:
    if amount:
        what.mended[name] = what.mended.get(name, 0) + amount
