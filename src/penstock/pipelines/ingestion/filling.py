"""What is in an edition, as rows: documents, chunks, and the pieces that say which chunk stands where in which
document. A chunk is there once, however many documents have it, and as long as one does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from penstock.pipelines.ingestion.model import Chunk, Document
from penstock.pipelines.ingestion.statements import MOST, Reads, Statement, inserted, listed
from penstock.remote.gemini.tokens import text_tokens
from penstock.store.protocol import Expect


@dataclass(slots=True, frozen=True)
class Held:
    """What an edition has of a document already."""

    n: int
    uri: str
    fingerprint: str | None
    content_hash: str
    state: str
    run: str
    seen: str


@dataclass(slots=True, frozen=True)
class Piece:
    """A chunk in its place: number `seq` of document `document`."""

    document: int
    seq: int
    content_hash: str
    text: str
    position: str

    @classmethod
    def of(cls, document: int, seq: int, chunk: Chunk) -> Piece:
        return cls(document, seq, chunk.content_hash, chunk.text, to_json(dict(chunk.position)).decode())


async def held(reads: Reads, edition: int, source: str, uris: Sequence[str]) -> list[Held]:
    """What there is of these, searchable or half written."""
    found: list[Held] = []
    for start in range(0, len(uris), MOST):
        names, values = listed(uris[start : start + MOST])
        rows = await reads.read(
            (
                "SELECT n, uri, fingerprint, content_hash, state, run, seen FROM kb_documents"
                f" WHERE edition = :edition AND source = :source AND state = 'current' AND uri IN {names}",
                {"edition": edition, "source": source, **values},
            )
        )
        found += [Held(*row) for row in rows]
    return found


async def half_written(reads: Reads, edition: int, *, other_than: int | None = None) -> list[int]:
    """Documents that a run which failed or was killed left in the middle."""
    rows = await reads.read(
        (
            "SELECT n FROM kb_documents WHERE edition = :edition AND state = 'writing' AND n <> :kept ORDER BY n",
            {"edition": edition, "kept": 0 if other_than is None else other_than},
        )
    )
    return [int(n) for (n,) in rows]


async def known_chunks(reads: Reads, edition: int, hashes: Iterable[str]) -> dict[str, int]:
    """Which of these an edition has, and their numbers."""
    wanted = list(dict.fromkeys(hashes))
    found: dict[str, int] = {}
    for start in range(0, len(wanted), MOST):
        names, values = listed(wanted[start : start + MOST])
        rows = await reads.read(
            (
                "SELECT content_hash, n FROM kb_chunks"
                f" WHERE edition = :edition AND content_hash IN {names}",
                {"edition": edition, **values},
            )
        )  # fmt: skip
        found.update((content_hash, int(n)) for content_hash, n in rows)
    return found


async def last_numbers(reads: Reads, edition: int) -> tuple[int, int]:
    """The highest numbers that documents and chunks have."""
    ((documents, chunks),) = await reads.read(
        (
            "SELECT (SELECT COALESCE(MAX(n), 0) FROM kb_documents WHERE edition = :edition),"
            " (SELECT COALESCE(MAX(n), 0) FROM kb_chunks WHERE edition = :edition)",
            {"edition": edition},
        )
    )
    return int(documents), int(chunks)


def begun(
    edition: int,
    n: int,
    source: str,
    document: Document,
    *,
    content_hash: str,
    run: str,
    now: float,
    chunks: int | None = None,
) -> dict[str, Any]:
    """The row of a document that is being written; of one that is whole, where the number of its chunks is given."""
    return {
        "edition": edition, "n": n, "source": source, "uri": document.uri, "title": document.title,
        "metadata": to_json(dict(document.metadata), fallback=str).decode(), "content_hash": content_hash,
        "fingerprint": document.fingerprint, "chunks": chunks or 0,
        "state": "writing" if chunks is None else "current", "run": run, "seen": run, "indexed_at": now,
    }  # fmt: skip


def new_documents(rows: Sequence[dict[str, Any]]) -> Statement:
    return inserted("kb_documents", rows)


def new_chunks(edition: int, run: str, now: float, rows: Sequence[tuple[int, str, str]]) -> Statement:
    """Number, hash and text."""
    return inserted(
        "kb_chunks",
        [{"n": n, "content_hash": hash, "text": text, "tokens": text_tokens(text)} for n, hash, text in rows],
        shared={"edition": edition, "run": run, "indexed_at": now},
    )


def still_there(edition: int, chunks: Sequence[int]) -> Expect:
    """These chunks are counted on: they are as they were, or nothing of the commit counts."""
    names, values = listed(chunks)
    return Expect(
        (f"UPDATE kb_chunks SET run = run WHERE edition = :edition AND n IN {names}", {"edition": edition, **values}),
        "chunks were removed in this moment by somebody else",
        rows=len(chunks),
    )


def new_pieces(edition: int, placed: Sequence[tuple[Piece, int]]) -> Statement:
    return inserted(
        "kb_pieces",
        [
            {"document": piece.document, "seq": piece.seq, "chunk": chunk, "position": piece.position}
            for piece, chunk in placed
        ],
        shared={"edition": edition},
    )


def whole(edition: int, *, source: str, uri: str, n: int, chunks: int, run: str, now: float) -> list[Any]:
    """A document is complete: it is searchable, and what it replaces is hidden, in one step."""
    return [
        (
            "UPDATE kb_documents SET state = 'hidden', hidden_by = :run"
            " WHERE edition = :edition AND source = :source AND uri = :uri AND state = 'current' AND n <> :n",
            {"edition": edition, "source": source, "uri": uri, "n": n, "run": run},
        ),
        (
            "UPDATE kb_documents SET state = 'current', chunks = :chunks, indexed_at = :now"
            " WHERE edition = :edition AND n = :n",
            {"edition": edition, "n": n, "chunks": chunks, "now": now},
        ),
    ]


def hidden(edition: int, source: str, uris: Sequence[str], run: str) -> list[Statement]:
    """What is searchable under these addresses makes room for what comes in its place."""
    statements = []
    for start in range(0, len(uris), MOST):
        names, values = listed(uris[start : start + MOST])
        statements.append(
            (
                "UPDATE kb_documents SET state = 'hidden', hidden_by = :run"
                f" WHERE edition = :edition AND source = :source AND state = 'current' AND uri IN {names}",
                {"edition": edition, "source": source, "run": run, **values},
            )
        )
    return statements


def seen(edition: int, run: str, numbers: Sequence[int]) -> list[Statement]:
    """These documents are as they were."""
    statements = []
    for start in range(0, len(numbers), MOST):
        names, values = listed(numbers[start : start + MOST])
        statements.append(
            (
                f"UPDATE kb_documents SET seen = :run WHERE edition = :edition AND n IN {names}",
                {"edition": edition, "run": run, **values},
            )
        )
    return statements


def same_under(edition: int, n: int, fingerprint: str | None, run: str) -> Statement:
    """A document has the same content under another fingerprint."""
    return (
        "UPDATE kb_documents SET seen = :run, fingerprint = :fingerprint WHERE edition = :edition AND n = :n",
        {"edition": edition, "n": n, "fingerprint": fingerprint, "run": run},
    )
