"""The index inside the store's own SQLite file: full text by FTS5, and vectors as they are, searched in memory.

FTS5 keeps no text of its own: the ledger has it. To take a chunk out it must be told the words that went in, so an
index whose words are in doubt is filled anew from the ledger (`strays_removed`, `mended`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from penstock.pipelines.ingestion.index.contract import Hits, Indexed, Row
from penstock.pipelines.ingestion.index.query import asked, fts5
from penstock.pipelines.ingestion.index.vectors import SLICE, Matrices, Rows, unit_rows
from penstock.pipelines.ingestion.plugins import Vectors
from penstock.pipelines.ingestion.statements import MOST, Reads, Statement, listed

TOKENS = "porter unicode61 remove_diacritics 2"

_matrices = Matrices()


class SqliteIndex:
    """`store` is whom the vectors in memory belong to; `memory` is how many bytes they may take."""

    optimizes = False

    def __init__(self, reads: Reads, store: Any, *, memory: int) -> None:
        self._reads = reads
        self._store = store
        self._memory = memory

    async def prepare(self) -> None:
        """FTS5 is a part of every SQLite that Python comes with."""

    def create(self, edition: int, dimension: int) -> list[Statement]:
        return [
            (f"CREATE TABLE kb{edition}_vectors (chunk INTEGER PRIMARY KEY, vector BLOB NOT NULL)", {}),
            (f"CREATE VIRTUAL TABLE kb{edition}_text USING fts5(text, content='', tokenize='{TOKENS}')", {}),
        ]

    def drop(self, edition: int) -> list[Statement]:
        return [(f"DROP TABLE IF EXISTS kb{edition}_{name}", {}) for name in ("vectors", "text")]

    def add(self, edition: int, rows: Sequence[Row]) -> list[Statement]:
        statements: list[Statement] = []
        for start in range(0, len(rows), MOST):
            some = rows[start : start + MOST]
            vectors = unit_rows([vector for _, _, vector in some]).astype("<f4")
            statements.append(
                (
                    # One value for all vectors: cut apart here, not bound one by one.
                    f"INSERT OR REPLACE INTO kb{edition}_vectors (chunk, vector)"
                    " SELECT value, substr(:vectors, 1 + key * :width, :width) FROM json_each(:chunks)",
                    {
                        "chunks": f"[{','.join(str(n) for n, _, _ in some)}]",
                        "vectors": vectors.tobytes(),
                        "width": vectors.shape[1] * 4,
                    },
                )
            )
            statements.append(_told(edition, [(n, text) for n, text, _ in some], "", "NOT "))
        return statements

    def remove(self, edition: int, rows: Sequence[tuple[int, str]]) -> list[Statement]:
        statements: list[Statement] = []
        for start in range(0, len(rows), MOST):
            some = rows[start : start + MOST]
            statements.append(_without(edition, [n for n, _ in some]))
            statements.append(_told(edition, some, "delete", ""))
        return statements

    def mended(self, edition: int, rows: Sequence[tuple[int, str]], lacking_text: Collection[int]) -> list[Statement]:
        sound = {n for n, _ in rows} <= set(lacking_text)
        return [] if sound else _filled_anew(edition)

    def strays_removed(self, edition: int, vectors: Sequence[int], texts: Sequence[int]) -> list[Statement]:
        statements = [_without(edition, vectors[start : start + MOST]) for start in range(0, len(vectors), MOST)]
        return [*statements, *(_filled_anew(edition) if texts else [])]

    async def ids(self, edition: int, after: int, last: int | None) -> Indexed:
        until, values = ("", {}) if last is None else (" AND {} <= :last", {"last": last})

        async def numbers(table: str, column: str) -> set[int]:
            rows = await self._reads.read(
                (
                    f"SELECT {column} FROM kb{edition}_{table} WHERE {column} > :after{until.format(column)}",
                    {"after": after, **values},
                )
            )
            return {int(n) for (n,) in rows}

        return Indexed(await numbers("vectors", "chunk"), await numbers("text", "rowid"))

    async def search_vectors(
        self, edition: int, dimension: int, vector: Vectors, limit: int, *, generation: int = 0
    ) -> Hits:
        async def read(after: int) -> Rows:
            return await self._reads.read(
                (
                    f"SELECT chunk, vector FROM kb{edition}_vectors WHERE chunk > :after ORDER BY chunk LIMIT :limit",
                    {"after": after, "limit": SLICE},
                )
            )

        question = unit_rows([np.asarray(vector).reshape(-1)])[0]
        return await _matrices.search(
            self._store, edition, generation, question, limit, read=read, memory=self._memory
        )  # fmt: skip

    async def search_text(self, edition: int, question: str, limit: int, *, generation: int = 0) -> Hits:
        what = asked(question)
        if not what:
            return []
        table = f"kb{edition}_text"
        rows = await self._reads.read(
            (
                # Not by the hidden column `rank`, which is sorted without the number that decides ties.
                f"SELECT rowid, bm25({table}) AS score FROM {table} WHERE {table} MATCH :question"
                " ORDER BY score, rowid LIMIT :limit",
                {"question": fts5(what), "limit": limit},
            )
        )
        return [(int(n), -float(score)) for n, score in rows]

    async def optimize(self, edition: int, dimension: int) -> bool:
        """Nothing to do: vectors are in memory, and FTS5 merges as it grows."""
        return False


def _told(edition: int, rows: Sequence[tuple[int, str]], command: str, unless: str) -> Statement:
    """Full text is given these, or told to delete them: only those that it has not, or has, so that what comes twice
    does no harm."""
    table = f"kb{edition}_text"
    given = ", ".join(f"(:n{place}, :t{place})" for place in range(len(rows)))
    values: dict[str, Any] = {}
    for place, (n, text) in enumerate(rows):
        values[f"n{place}"], values[f"t{place}"] = n, text
    into, what = (f"{table}, rowid, text", f"'{command}', n, t") if command else ("rowid, text", "n, t")
    return (
        f"WITH given (n, t) AS (VALUES {given}) INSERT INTO {table} ({into}) SELECT {what} FROM given"
        f" WHERE {unless}EXISTS (SELECT 1 FROM {table}_docsize WHERE id = n)",
        values,
    )


def _without(edition: int, numbers: Sequence[int]) -> Statement:
    names, values = listed(numbers)
    return f"DELETE FROM kb{edition}_vectors WHERE chunk IN {names}", values


def _filled_anew(edition: int) -> list[Statement]:
    """Full text of exactly the chunks that the ledger has when this is carried out."""
    table = f"kb{edition}_text"
    return [
        (f"INSERT INTO {table} ({table}) VALUES ('delete-all')", {}),
        (
            f"INSERT INTO {table} (rowid, text) SELECT n, text FROM kb_chunks WHERE edition = :edition ORDER BY n",
            {"edition": edition},
        ),
    ]
