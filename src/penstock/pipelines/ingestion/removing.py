"""Taking things out of an edition: documents with their pieces, and the chunks that no other document has. Done in
slices, each a commit of its own, so that nobody waits long for the store and a crash loses nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.pipelines.ingestion.bases import grown
from penstock.pipelines.ingestion.index import Index
from penstock.pipelines.ingestion.statements import Reads, Statement, listed

SLICE = 200
"""Pieces of one commit."""


async def some_of(reads: Reads, edition: int, where: str, values: dict[str, Any], *, limit: int = SLICE) -> list[int]:
    """The numbers of some documents."""
    rows = await reads.read(
        (
            f"SELECT n FROM kb_documents WHERE edition = :edition AND {where} ORDER BY n LIMIT :limit",
            {"edition": edition, "limit": limit, **values},
        )
    )
    return [int(n) for (n,) in rows]


async def removal(reads: Reads, index: Index, edition: int, documents: Sequence[int]) -> tuple[list[Any], int]:
    """The statements that remove these documents, or the next pieces of the first of them where it is large; and how
    many of the documents are gone with that."""
    sizes = await _sizes(reads, edition, documents)
    taken: list[int] = []
    for document in documents:
        if taken and sum(sizes[each] for each in taken) + sizes[document] > SLICE:
            break
        taken.append(document)
    if sizes[taken[0]] > SLICE:
        return await _some_pieces(reads, index, edition, taken[0]), 0
    names, values = listed(taken)
    gone = await _left_alone(reads, edition, f"p.document IN {names}", values, f"o.document NOT IN {names}")
    statements: list[Any] = [
        (f"DELETE FROM kb_pieces WHERE edition = :edition AND document IN {names}", {"edition": edition, **values}),
        (f"DELETE FROM kb_errors WHERE edition = :edition AND document IN {names}", {"edition": edition, **values}),
        (f"DELETE FROM kb_documents WHERE edition = :edition AND n IN {names}", {"edition": edition, **values}),
        *_without(index, edition, gone),
        grown(edition, documents=0, chunks=-len(gone), removed=True),
    ]
    return statements, len(taken)


async def _sizes(reads: Reads, edition: int, documents: Sequence[int]) -> dict[int, int]:
    """How many pieces each has."""
    names, values = listed(documents)
    rows = await reads.read(
        (
            f"SELECT document, COUNT(*) FROM kb_pieces WHERE edition = :edition AND document IN {names}"
            " GROUP BY document",
            {"edition": edition, **values},
        )
    )
    return dict.fromkeys(documents, 0) | {int(document): int(count) for document, count in rows}


async def _some_pieces(reads: Reads, index: Index, edition: int, document: int) -> list[Any]:
    """The last pieces of a large document."""
    ((first,),) = await reads.read(
        (
            "SELECT MIN(seq) FROM (SELECT seq FROM kb_pieces WHERE edition = :edition AND document = :document"
            " ORDER BY seq DESC LIMIT :limit) AS last",
            {"edition": edition, "document": document, "limit": SLICE},
        )
    )
    values = {"document": document, "first": first}
    return await _pieces_removed(reads, index, edition, "{0}document = :document AND {0}seq >= :first", values)


async def places_removed(reads: Reads, index: Index, edition: int, places: Sequence[tuple[int, int]]) -> list[Any]:
    """Without what stands in these places of documents (document and number of the chunk in it)."""
    values: dict[str, Any] = {}
    for number, (document, seq) in enumerate(places):
        values |= {f"d{number}": document, f"s{number}": seq}
    pairs = " OR ".join(f"{{0}}document = :d{number} AND {{0}}seq = :s{number}" for number in range(len(places)))
    return await _pieces_removed(reads, index, edition, f"({pairs})", values)


async def _pieces_removed(reads: Reads, index: Index, edition: int, mine: str, values: dict[str, Any]) -> list[Any]:
    """`mine` says which pieces, with the name of their table to be filled in."""
    gone = await _left_alone(reads, edition, mine.format("p."), values, f"NOT ({mine.format('o.')})")
    return [
        (f"DELETE FROM kb_pieces WHERE edition = :edition AND {mine.format('')}", {"edition": edition, **values}),
        *_without(index, edition, gone),
        grown(edition, documents=0, chunks=-len(gone), removed=True),
    ]


async def _left_alone(
    reads: Reads, edition: int, mine: str, values: dict[str, Any], others: str
) -> list[tuple[int, str]]:
    """Number and text of the chunks that only these pieces have."""
    rows = await reads.read(
        (
            "SELECT c.n, c.text FROM kb_chunks c WHERE c.edition = :edition"
            f" AND c.n IN (SELECT p.chunk FROM kb_pieces p WHERE p.edition = :edition AND {mine})"
            " AND NOT EXISTS (SELECT 1 FROM kb_pieces o WHERE o.edition = :edition AND o.chunk = c.n"
            f" AND {others}) ORDER BY c.n",
            {"edition": edition, **values},
        )
    )
    return [(int(n), text) for n, text in rows]


def _without(index: Index, edition: int, chunks: Sequence[tuple[int, str]]) -> list[Statement]:
    if not chunks:
        return []
    names, values = listed([n for n, _ in chunks])
    # The chunk first: who counts on it holds its row, and what that one has indexed is seen afterwards.
    removed = (f"DELETE FROM kb_chunks WHERE edition = :edition AND n IN {names}", {"edition": edition, **values})
    return [removed, *index.remove(edition, chunks)]


def recounted(edition: int) -> Statement:
    """How many documents an edition has, after some were removed, hidden or brought back."""
    return (
        "UPDATE kb_editions SET generation = generation + 1, documents = (SELECT COUNT(*) FROM kb_documents d"
        " WHERE d.edition = :edition AND d.state = 'current') WHERE number = :edition",
        {"edition": edition},
    )


EDITION_TABLES = ("kb_pieces", "kb_chunks", "kb_documents", "kb_errors", "kb_retried")


async def emptied(reads: Reads, edition: int) -> Statement | None:
    """The statement that removes the next rows of an edition whose index is gone; None when there are no more."""
    for table, key in zip(EDITION_TABLES, ("document", "n", "n", "id", "id"), strict=True):
        rows = await reads.read(
            (
                f"SELECT MAX({key}) FROM (SELECT {key} FROM {table} WHERE edition = :edition ORDER BY {key}"
                " LIMIT :limit) AS these",
                {"edition": edition, "limit": SLICE * 5},
            )
        )
        if rows and rows[0][0] is not None:
            return (
                f"DELETE FROM {table} WHERE edition = :edition AND {key} <= :last",
                {"edition": edition, "last": rows[0][0]},
            )
    return None
