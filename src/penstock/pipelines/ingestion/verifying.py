"""Whether ledger and index say the same, looked at in slices and both ways. A difference that is gone when it is looked
at again was a run at work, and is none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.pipelines.ingestion.index import Index
from penstock.pipelines.ingestion.model import hash_of
from penstock.pipelines.ingestion.statements import Reads, listed

SLICE = 500

Fault = Literal["no_vector", "no_text", "stray_vector", "stray_text", "orphan", "dangling", "wrong_hash", "incomplete"]

FAULTS: dict[Fault, str] = {
    "no_vector": "chunks that have no vector in the index",
    "no_text": "chunks that the full text does not have",
    "stray_vector": "vectors of chunks that are not there",
    "stray_text": "full text of chunks that are not there",
    "orphan": "chunks that no document has",
    "dangling": "places in documents whose chunk is not there, or that are in no document",
    "wrong_hash": "chunks whose text is not what was indexed",
    "incomplete": "documents that lack chunks",
}


@dataclass(slots=True)
class Verified:
    """What was compared, and what differs: numbers of chunks, or of documents for `incomplete`."""

    documents: int = 0
    chunks: int = 0
    faults: dict[Fault, list[int]] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        return not any(self.faults.values())

    def add(self, fault: Fault, numbers: list[int]) -> None:
        if numbers:
            self.faults.setdefault(fault, []).extend(numbers)


async def verify(reads: Reads, index: Index, edition: int) -> Verified:
    """Compare everything. Safe while a run is at work."""
    found, _ = await verify_from(reads, index, edition, START, enough=lambda: False)
    return found


Stage = Literal["chunks", "places", "documents"]

Place = tuple[Stage, int]
"""How far a comparison is: in which of its three parts, and after which number."""

START: Place = ("chunks", 0)


async def verify_from(
    reads: Reads, index: Index, edition: int, place: Place, *, enough: Callable[[], bool]
) -> tuple[Verified, Place | None]:
    """Compare from there on until somebody has had enough: what was found, and where to go on; None at the end."""
    result, (stage, after) = Verified(), place
    while stage == "chunks":
        part = await verify_chunks(reads, index, edition, after)
        result.chunks += part.chunks
        for fault, numbers in part.faults.items():
            result.add(fault, numbers)
        stage, after = ("places", 0) if part.last is None else ("chunks", part.last)
        if enough():
            return result, (stage, after)
    if stage == "places":
        result.add("dangling", await dangling(reads, edition))
        stage = "documents"
    while True:
        count, short, last = await _incomplete_after(reads, edition, after)
        result.documents += count
        result.add("incomplete", short)
        if last is None:
            return result, None
        after = last
        if enough():
            return result, ("documents", after)


@dataclass(slots=True)
class Part(Verified):
    last: int | None = None
    """Where to go on; None at the end."""


async def verify_chunks(reads: Reads, index: Index, edition: int, after: int) -> Part:
    """One slice of chunk numbers, from after this one on."""
    part = await _compared(reads, index, edition, after, SLICE)
    if not part.faults:
        return part
    again = await _compared(reads, index, edition, after, SLICE)
    for fault in list(part.faults):
        still = set(again.faults.get(fault, ()))
        part.faults[fault] = [n for n in part.faults[fault] if n in still]
    part.faults = {fault: numbers for fault, numbers in part.faults.items() if numbers}
    return part


async def _compared(reads: Reads, index: Index, edition: int, after: int, size: int) -> Part:
    rows = await reads.read(
        (
            "SELECT n, content_hash, text FROM kb_chunks WHERE edition = :edition AND n > :after"
            " ORDER BY n LIMIT :limit",
            {"edition": edition, "after": after, "limit": size},
        )
    )
    last = int(rows[-1][0]) if len(rows) == size else None
    have = {int(n) for n, _, _ in rows}
    indexed = await index.ids(edition, after, last)
    part = Part(chunks=len(rows), last=last)
    part.add("no_vector", sorted(have - indexed.vectors))
    part.add("no_text", sorted(have - indexed.texts))
    part.add("stray_vector", sorted(indexed.vectors - have))
    part.add("stray_text", sorted(indexed.texts - have))
    part.add("wrong_hash", [int(n) for n, content_hash, text in rows if hash_of(text) != content_hash])
    if have:
        part.add("orphan", await _orphans(reads, edition, sorted(have)))
    return part


async def _orphans(reads: Reads, edition: int, numbers: list[int]) -> list[int]:
    names, values = listed(numbers)
    rows = await reads.read(
        (
            f"SELECT n FROM kb_chunks c WHERE edition = :edition AND n IN {names} AND NOT EXISTS"
            " (SELECT 1 FROM kb_pieces p WHERE p.edition = c.edition AND p.chunk = c.n) ORDER BY n",
            {"edition": edition, **values},
        )
    )
    return [int(n) for (n,) in rows]


async def dangling(reads: Reads, edition: int) -> list[int]:
    """The chunks that such places name."""
    rows = await reads.read(
        (
            f"SELECT DISTINCT p.chunk FROM kb_pieces p WHERE p.edition = :edition AND {nowhere('p')}"
            " ORDER BY p.chunk LIMIT 10000",
            {"edition": edition},
        )
    )
    return [int(n) for (n,) in rows]


def nowhere(pieces: str) -> str:
    """What is true of a row of this table that names a chunk or a document which is not there."""
    there = f"SELECT 1 FROM {{}} t WHERE t.edition = {pieces}.edition AND t.n = {pieces}.{{}}"
    return (
        f"(NOT EXISTS ({there.format('kb_chunks', 'chunk')})"
        f" OR NOT EXISTS ({there.format('kb_documents', 'document')}))"
    )


async def incomplete(reads: Reads, edition: int) -> AsyncIterator[tuple[int, list[int]]]:
    """In slices: how many searchable documents were looked at, and which have other than the chunks they should (those
    that are listed as errors are known to be missing)."""
    after: int | None = 0
    while after is not None:
        count, short, after = await _incomplete_after(reads, edition, after)
        yield count, short


async def _incomplete_after(reads: Reads, edition: int, after: int) -> tuple[int, list[int], int | None]:
    """One slice, and the number of its last document; None at the end."""
    rows: list[tuple[Any, ...]] = await reads.read(
        (
            "SELECT d.n, d.chunks, (SELECT COUNT(*) FROM kb_pieces p WHERE p.edition = d.edition"
            " AND p.document = d.n), (SELECT COUNT(*) FROM kb_errors e WHERE e.edition = d.edition"
            " AND e.document = d.n) FROM kb_documents d WHERE d.edition = :edition AND d.n > :after"
            " AND d.state = 'current' ORDER BY d.n LIMIT :limit",
            {"edition": edition, "after": after, "limit": SLICE},
        )
    )
    short = [int(n) for n, said, have, missing in rows if said != have + missing]
    return len(rows), short, int(rows[-1][0]) if len(rows) == SLICE else None
