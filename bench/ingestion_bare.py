"""`python -m bench.ingestion_bare CORPUS HOME EMBEDDER WARM`: the same work without an orchestrator, which is what ours
is measured against. Penstock's own reading, cutting and embedding, one after the other, and the same rows by plain
`sqlite3`, ten documents a transaction, as durable as ours. It knows of no jobs, keeps no place to go on from, and
cannot be paused. Prints what it took as a line of JSON."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench import ingestion_wordllama
from bench.ingestion_ours import warm
from bench.pages_memory import peak_megabytes
from penstock import wordvectors
from penstock.pipelines.ingestion.chunking import chunked
from penstock.pipelines.ingestion.filling import Piece
from penstock.pipelines.ingestion.model import ChunkerSpec, Document
from penstock.pipelines.ingestion.sources.folders import look, read
from penstock.pipelines.ingestion.sources.markdown import document_of

BATCH = 10

TABLES = """
CREATE TABLE documents (n INTEGER PRIMARY KEY, uri TEXT UNIQUE, title TEXT, metadata TEXT, content_hash TEXT,
    fingerprint TEXT);
CREATE TABLE chunks (n INTEGER PRIMARY KEY, content_hash TEXT UNIQUE, text TEXT);
CREATE TABLE pieces (document INTEGER, seq INTEGER, chunk INTEGER, position TEXT, PRIMARY KEY (document, seq));
CREATE INDEX pieces_chunk ON pieces (chunk);
CREATE TABLE vectors (chunk INTEGER PRIMARY KEY, vector BLOB);
CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize='porter unicode61 remove_diacritics 2');
"""


def embedder(name: str) -> Callable[[list[str]], Any]:
    if name == "wordllama":
        return ingestion_wordllama.vectors
    own = wordvectors.word_vectors()
    return lambda texts: wordvectors.of_unit_length(own.totals(texts)).astype("<f4")


class Bare:
    """Seconds by phase, as ours tells them."""

    def __init__(self, home: Path, vectors: Callable[[list[str]], Any]) -> None:
        self.database = sqlite3.connect(home / "bare.db", isolation_level=None)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute("PRAGMA synchronous = FULL")
        self.database.executescript(TABLES)
        self.vectors = vectors
        self.seconds = dict.fromkeys(("load", "chunk", "embed", "index"), 0.0)
        self.documents = self.chunks = 0

    def take_in(self, folder: Path) -> None:
        paths = sorted(folder.rglob("*.md"))
        for start in range(0, len(paths), BATCH):
            self._batch(folder, paths[start : start + BATCH])

    def _batch(self, folder: Path, paths: list[Path]) -> None:
        began = time.perf_counter()
        documents = list(self._loaded(folder, paths))
        loaded = time.perf_counter()
        rows, pieces = [], []
        for document in documents:
            self.documents += 1
            rows.append((
                self.documents, document.uri, document.title, json.dumps(dict(document.metadata)),
                document.content_hash, document.fingerprint,
            ))  # fmt: skip
            pieces += [
                Piece.of(self.documents, seq, chunk) for seq, chunk in enumerate(chunked(document, ChunkerSpec()))
            ]
        cut = time.perf_counter()
        new = {piece.content_hash: piece.text for piece in pieces if not self._has(piece.content_hash)}
        asked = time.perf_counter()
        vectors = self.vectors(list(new.values())) if new else ()
        embedded = time.perf_counter()
        self._write(rows, pieces, new, vectors)
        done = time.perf_counter()
        spent = (loaded - began, cut - loaded, embedded - asked, done - embedded + asked - cut)
        for phase, seconds in zip(self.seconds, spent, strict=True):
            self.seconds[phase] += seconds

    def _loaded(self, folder: Path, paths: list[Path]) -> Iterator[Document]:
        for path in paths:
            place = look(path.relative_to(folder).as_posix(), path)
            assert place is not None
            yield document_of(place, read(place), place.fingerprint)

    def _has(self, content_hash: str) -> bool:
        found = self.database.execute("SELECT 1 FROM chunks WHERE content_hash = ?", (content_hash,))
        return found.fetchone() is not None

    def _write(self, rows: list[Any], pieces: list[Piece], new: dict[str, str], vectors: Any) -> None:
        numbers = {content_hash: self.chunks + place for place, content_hash in enumerate(new, 1)}
        self.chunks += len(new)
        texts = [(numbers[content_hash], text) for content_hash, text in new.items()]
        many = self.database.executemany
        self.database.execute("BEGIN IMMEDIATE")
        many("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?)", rows)
        many("INSERT INTO chunks VALUES (?, ?, ?)", [(numbers[each], each, text) for each, text in new.items()])
        many("INSERT INTO words (rowid, text) VALUES (?, ?)", texts)
        many(
            "INSERT INTO vectors VALUES (?, ?)",
            [(n, vector.tobytes()) for (n, _), vector in zip(texts, vectors, strict=True)],
        )
        many(
            "INSERT INTO pieces VALUES (?, ?, (SELECT n FROM chunks WHERE content_hash = ?), ?)",
            [(piece.document, piece.seq, piece.content_hash, piece.position) for piece in pieces],
        )
        self.database.execute("COMMIT")


def main(corpus: Path, home: Path, name: str, beforehand: Path) -> list[dict[str, Any]]:
    warm(name)
    (home / "warm").mkdir()
    Bare(home / "warm", embedder(name)).take_in(beforehand)
    bare = Bare(home, embedder(name))
    before, began = os.times(), time.perf_counter()
    bare.take_in(corpus)
    seconds, after = time.perf_counter() - began, os.times()
    cpu = after.user + after.system - before.user - before.system
    told = {"seconds": seconds, "cpu": cpu, "chunks": bare.chunks, "phases": bare.seconds}
    return [{**told, "megabytes": peak_megabytes()}]


if __name__ == "__main__":
    source, place, which, small = sys.argv[1:]
    print(json.dumps(main(Path(source).resolve(), Path(place).resolve(), which, Path(small).resolve())))
