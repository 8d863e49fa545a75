"""From chunks to rows: what one commit writes of a batch of documents. A chunk that the edition has already is not
embedded; a document is searchable from the commit on that has its last chunk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.pipelines.ingestion import filling
from penstock.pipelines.ingestion.bases import grown
from penstock.pipelines.ingestion.embedding import Embedded
from penstock.pipelines.ingestion.filling import Held, Piece
from penstock.pipelines.ingestion.index import Index
from penstock.pipelines.ingestion.model import Chunk, Document
from penstock.pipelines.ingestion.statements import Statement, inserted
from penstock.pipelines.ingestion.work import Counters
from penstock.remote.gemini.tokens import text_tokens


@dataclass(slots=True)
class Doc:
    """A document on its way into an edition."""

    n: int
    source: str
    document: Document
    content_hash: str
    chunks: Sequence[Chunk]
    replaced: Held | None
    begun: bool = False
    """Whether its row is there already: the run was interrupted in the middle of it."""


@dataclass(slots=True)
class Group:
    """The chunks of one commit, and the documents that begin and end with it."""

    pieces: list[Piece] = field(default_factory=list)
    begins: list[Doc] = field(default_factory=list)
    ends: list[Doc] = field(default_factory=list)

    @property
    def of_last(self) -> int:
        """How many of the chunks belong to the document of the last one."""
        return sum(piece.document == self.pieces[-1].document for piece in self.pieces)


@dataclass(slots=True)
class Written:
    """What a commit does, and what it adds to the counters; `of_last` is what the document of the last piece adds."""

    statements: list[Any]
    counters: Counters
    of_last: Counters
    last_chunk: int
    """The highest number that a chunk has now."""
    new: dict[str, int]
    """The chunks that were not there before: content hash → number."""


def groups(docs: Iterable[Doc], size: int, *, skip: int = 0) -> Iterable[Group]:
    """The chunks of these documents in groups; of the first document `skip` are there already."""
    group = Group()
    for doc in docs:
        if not doc.begun:
            group.begins.append(doc)
        for seq in range(skip, len(doc.chunks)):
            group.pieces.append(Piece.of(doc.n, seq, doc.chunks[seq]))
            if seq == len(doc.chunks) - 1:
                group.ends.append(doc)
            if len(group.pieces) == size:
                yield group
                group = Group()
        if skip >= len(doc.chunks):
            group.ends.append(doc)
        skip = 0
    if group.pieces or group.begins or group.ends:
        yield group


def begins(edition: int, run: str, docs: Sequence[Doc], now: float, *, whole: Sequence[Doc]) -> list[Any]:
    """The rows of these documents. Those that are also whole with this commit are searchable with it, and what they
    replace is hidden."""
    at_once = _numbers(whole)
    replaced: dict[str, list[str]] = {}
    rows = []
    for doc in docs:
        chunks = len(doc.chunks) if doc.n in at_once else None
        if chunks is not None:
            replaced.setdefault(doc.source, []).append(doc.document.uri)
        rows.append(
            filling.begun(
                edition, doc.n, doc.source, doc.document,
                content_hash=doc.content_hash, run=run, now=now, chunks=chunks,
            )
        )  # fmt: skip
    statements: list[Any] = [
        statement for source, uris in replaced.items() for statement in filling.hidden(edition, source, uris, run)
    ]
    return [*statements, filling.new_documents(rows)] if rows else statements


def ends(
    edition: int, run: str, docs: Sequence[Doc], now: float, counters: Counters, *, begun: Sequence[Doc]
) -> list[Any]:
    """These are whole now. Those that were `begun` with the same commit are so already."""
    statements: list[Any] = []
    done = _numbers(begun)
    for doc in docs:
        counters.docs_replaced += doc.replaced is not None
        counters.docs_empty += not doc.chunks
        if doc.n in done:
            continue
        uri = doc.document.uri
        statements += filling.whole(
            edition, source=doc.source, uri=uri, n=doc.n, chunks=len(doc.chunks), run=run, now=now
        )
    return statements


def _numbers(docs: Sequence[Doc]) -> set[int]:
    return {doc.n for doc in docs}


def placed(
    edition: int,
    run: str,
    pieces: Sequence[Piece],
    known: dict[str, int],
    embedded: Embedded,
    *,
    index: Index,
    last_chunk: int,
    now: float,
) -> Written:
    """The rows of these pieces: new chunks with their vectors, and where every chunk stands. What was refused is left
    out."""
    of_all: Counter[str] = Counter()
    of_last: Counter[str] = Counter()
    numbers = dict(known)
    new: list[tuple[int, str, str]] = []
    places: list[tuple[Piece, int]] = []
    for piece in pieces:
        number, tokens = numbers.get(piece.content_hash), 0
        if piece.content_hash in embedded.refused:
            became = "chunks_error"
        elif number is None:
            last_chunk += 1
            number = numbers[piece.content_hash] = last_chunk
            new.append((number, piece.content_hash, piece.text))
            became, tokens = "chunks_processed", text_tokens(piece.text)
        else:
            became = "chunks_skipped"
        if number is not None:
            places.append((piece, number))
        for tally in (of_all, of_last) if piece.document == pieces[-1].document else (of_all,):
            tally["chunks_seen"] += 1
            tally[became] += 1
            tally["tokens"] += tokens
    statements: list[Any] = []
    if new:
        statements.append(filling.new_chunks(edition, run, now, new))
        statements += index.add(edition, [(n, text, embedded.vectors[hash]) for n, hash, text in new])
    shared = sorted({known[piece.content_hash] for piece, _ in places if piece.content_hash in known})
    if shared:
        statements.append(filling.still_there(edition, shared))
    if places:
        statements.append(filling.new_pieces(edition, places))
    return Written(
        statements, Counters(**of_all), Counters(**of_last), last_chunk, {hash: n for n, hash, _ in new}
    )  # fmt: skip


def counted(edition: int, group_ends: Sequence[Doc], processed: int) -> Any:
    documents = sum(doc.replaced is None for doc in group_ends)
    return grown(edition, documents=documents, chunks=processed)


def refusals(
    edition: int,
    run: str,
    pieces: Sequence[Piece],
    refused: dict[str, str],
    documents: Mapping[int, tuple[str, str]],
    *,
    attempts: int,
    ids: Any,
    now: float,
) -> list[Statement]:
    """Rows of the chunks that could not be embedded, with all that is needed to try again. `documents` has the source
    and the address of each."""
    rows = [
        {
            "id": ids(), "source": documents[piece.document][0], "uri": documents[piece.document][1],
            "document": piece.document, "seq": piece.seq, "position": piece.position, "text": piece.text,
            "error": refused[piece.content_hash][:2000], "attempts": attempts,
        }
        for piece in pieces
        if piece.content_hash in refused
    ]  # fmt: skip
    return [inserted("kb_errors", rows, shared={"edition": edition, "run": run, "at": now})] if rows else []


def not_loaded(
    edition: int,
    run: str,
    source: str,
    failures: Sequence[tuple[str, str, str, int]],
    *,
    ids: Any,
    now: float,
) -> list[Statement]:
    """Rows of the documents that could not be loaded: address, cursor, why, and how often that was tried."""
    rows = [
        {"id": ids(), "source": source, "uri": uri, "cursor": cursor, "error": error[:2000], "attempts": attempts}
        for uri, cursor, error, attempts in failures
    ]
    return [inserted("kb_errors", rows, shared={"edition": edition, "run": run, "at": now})] if rows else []


def found_addresses(run: str, source: int, after: int, uris: Sequence[str]) -> list[Statement]:
    """Addresses that were found, after those that are known."""
    statements = []
    for start in range(0, len(uris), 200):
        rows = [{"n": after + start + place + 1, "uri": uri} for place, uri in enumerate(uris[start : start + 200])]
        statements.append(
            inserted("kb_frontier", rows, shared={"run": run, "source": source}, then=" ON CONFLICT DO NOTHING")
        )
    return statements


def staged_rows(run: str, first: int, pieces: Sequence[Piece], last_of: set[tuple[int, int]]) -> Statement:
    """Chunks that wait for a batch of embeddings."""
    rows = [
        {
            "n": first + place, "document": piece.document, "seq": piece.seq,
            "last": int((piece.document, piece.seq) in last_of), "content_hash": piece.content_hash,
            "text": piece.text, "position": piece.position,
        }
        for place, piece in enumerate(pieces)
    ]  # fmt: skip
    return inserted("kb_staged", rows, shared={"run": run})
