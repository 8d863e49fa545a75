"""The index inside the store's own PostgreSQL: vectors by pgvector, words by its full text.

PostgreSQL finds the chunks that have the words, and ranks them without regard to how rare a word is. So its best are
only candidates, which are ranked again by BM25 (`bm25`). A search by vectors compares all of them, which is exact,
until `optimize` has built an index of neighbours (HNSW), which nearly is.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.engine.errors import InvalidConfiguration, InvalidRequest, PenstockError
from penstock.pipelines.ingestion.index.bm25 import Candidate, Term, ranked
from penstock.pipelines.ingestion.index.contract import Hits, Indexed, Row
from penstock.pipelines.ingestion.index.query import asked, plain
from penstock.pipelines.ingestion.index.vectors import unit_rows
from penstock.pipelines.ingestion.plugins import Vectors
from penstock.pipelines.ingestion.statements import MOST, Reads, Statement

CONFIGURATION = "CAST('english' AS regconfig)"

BEST = 200
"""Candidates that are ranked again, at least."""

MOST_RANKED = 5000
"""Chunks that PostgreSQL ranks, about: a word that every chunk has finds no better ones, and takes seconds."""

LONGEST_TEXT = 500_000
"""Characters of one chunk that full text takes: PostgreSQL has an end there."""

HNSW_DIMENSIONS = 2000
HALF_DIMENSIONS = 4000
"""Up to so many dimensions pgvector builds an index of whole numbers, or of halved ones."""

_HNSW_BREADTH = 1000
_LEXEME = re.compile(r"'((?:[^']|'')*)'|<(\d+|-)>")


class Writes(Reads, Protocol):
    """The engine."""

    store: Any

    async def write(self, *statements: Any) -> Any: ...


@dataclass(slots=True)
class _Statistics:
    """What BM25 knows of an edition; counted anew when that has changed by much."""

    generation: int
    last: int
    texts: int
    average: float
    having: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Known:
    """What was learned of a database: where pgvector lives there, and how the words of its editions are spread."""

    schema: str = ""
    version: tuple[int, ...] = ()
    statistics: dict[int, _Statistics] = field(default_factory=dict)


_known: weakref.WeakKeyDictionary[Any, _Known] = weakref.WeakKeyDictionary()


class PostgresIndex:
    def __init__(self, engine: Writes) -> None:
        self._engine = engine
        self._found = _known.setdefault(engine.store, _Known())

    async def prepare(self) -> None:
        if await self._looked_up():
            return
        there = await self._engine.read("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'")
        url = self._engine.store.url
        if not there:
            raise InvalidConfiguration(
                f"{url} has no pgvector, which knowledge bases need: install it on the server (on Debian the package"
                " postgresql-NN-pgvector), then let its superuser run CREATE EXTENSION vector in this database"
            )
        try:
            await self._engine.write("CREATE EXTENSION IF NOT EXISTS vector")
        except PenstockError as error:
            # Somebody else may have made it in the same moment.
            if not await self._looked_up():
                raise InvalidConfiguration(
                    f"{url} has pgvector, but not in this database, and its user may not change that: let a superuser"
                    f" run CREATE EXTENSION vector there ({error})"
                ) from error
        await self._looked_up()

    async def _looked_up(self) -> bool:
        if not self._found.schema:
            rows = await self._engine.read(
                "SELECT quote_ident(n.nspname), e.extversion FROM pg_extension e"
                " JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
            )
            for schema, version in rows:
                self._found.version = tuple(int(part) for part in re.findall(r"\d+", version))
                self._found.schema = schema
        return bool(self._found.schema)

    def _typed(self, name: str) -> str:
        """A type of pgvector, wherever that is installed: it need not be on the path."""
        return f"{self._found.schema}.{name}" if self._found.schema else name

    def create(self, edition: int, dimension: int) -> list[Statement]:
        table = f"kb{edition}_index"
        return [
            (
                f"CREATE TABLE {table} (chunk bigint PRIMARY KEY, embedding {self._typed('vector')}({dimension}),"
                " words tsvector, size integer)",
                {},
            ),
            (f"CREATE INDEX {table}_words ON {table} USING gin (words)", {}),
        ]

    def drop(self, edition: int) -> list[Statement]:
        return [(f"DROP TABLE IF EXISTS kb{edition}_index", {})]

    def add(self, edition: int, rows: Sequence[Row]) -> list[Statement]:
        statements: list[Statement] = []
        for start in range(0, len(rows), MOST):
            some = rows[start : start + MOST]
            vectors = unit_rows([vector for _, _, vector in some])
            texts = [plain(text[:LONGEST_TEXT]) for _, text, _ in some]
            width = vectors.shape[1]
            statements.append(
                (
                    f"INSERT INTO kb{edition}_index (chunk, embedding, words, size) SELECT g.n,"
                    # One value for all vectors; an array of numbers becomes a vector as it is stored.
                    f" (CAST(:vectors AS real[]))[(g.place - 1) * {width} + 1 : g.place * {width}],"
                    f" to_tsvector({CONFIGURATION}, g.text), g.size"
                    " FROM unnest(CAST(:chunks AS bigint[]), CAST(:texts AS text[]), CAST(:sizes AS integer[]))"
                    " WITH ORDINALITY AS g (n, text, size, place)"
                    " ON CONFLICT (chunk) DO UPDATE SET embedding = EXCLUDED.embedding, words = EXCLUDED.words,"
                    " size = EXCLUDED.size",
                    {
                        "chunks": [n for n, _, _ in some],
                        "vectors": vectors.ravel().tolist(),
                        "texts": texts,
                        "sizes": [text.count(" ") + 1 for text in texts],
                    },
                )
            )
        return statements

    def remove(self, edition: int, rows: Sequence[tuple[int, str]]) -> list[Statement]:
        return self.strays_removed(edition, [n for n, _ in rows], ())

    def mended(self, edition: int, rows: Sequence[tuple[int, str]], lacking_text: Collection[int]) -> list[Statement]:
        return []

    def strays_removed(self, edition: int, vectors: Sequence[int], texts: Sequence[int]) -> list[Statement]:
        gone = sorted({*vectors, *texts})
        if not gone:
            return []
        return [(f"DELETE FROM kb{edition}_index WHERE chunk = ANY(CAST(:chunks AS bigint[]))", {"chunks": gone})]

    async def ids(self, edition: int, after: int, last: int | None) -> Indexed:
        until, values = ("", {}) if last is None else (" AND chunk <= :last", {"last": last})
        rows = await self._engine.read(
            (
                f"SELECT chunk, embedding IS NOT NULL, words IS NOT NULL FROM kb{edition}_index"
                f" WHERE chunk > :after{until}",
                {"after": after, **values},
            )
        )
        return Indexed({n for n, vector, _ in rows if vector}, {n for n, _, words in rows if words})

    async def search_vectors(
        self, edition: int, dimension: int, vector: Vectors, limit: int, *, generation: int = 0
    ) -> Hits:
        question = unit_rows([vector.reshape(-1)])[0]
        if not question.any():
            return []
        if len(question) != dimension:
            raise InvalidRequest(
                f"the question's vector has {len(question)} dimensions and the index {dimension}: it must be embedded"
                " as the knowledge base is"
            )
        await self._looked_up()
        table = f"kb{edition}_index"
        # One pass by the halved numbers, where those are indexed; the whole ones decide.
        halved = dimension > HNSW_DIMENSIONS and await self._neighbours(edition) is not None
        source = table
        if halved:
            kind = f"{self._typed('halfvec')}({dimension})"
            source = (
                f"(SELECT chunk, embedding FROM {table} WHERE {self._broad()}"
                f" ORDER BY CAST(embedding AS {kind}) {self._product()} CAST(CAST(:vector AS real[]) AS {kind})"
                " LIMIT :limit) AS near"
            )
        rows = await self._engine.read(
            (
                f"SELECT chunk, embedding {self._product()} CAST(CAST(:vector AS real[]) AS {self._typed('vector')})"
                f" AS away FROM {source} WHERE {'embedding IS NOT NULL' if halved else self._broad()}"
                " ORDER BY away, chunk LIMIT :limit",
                {"vector": question.tolist(), "limit": limit, "breadth": str(min(_HNSW_BREADTH, max(40, limit)))},
            )
        )
        return sorted(((int(n), -float(away)) for n, away in rows), key=lambda hit: (-hit[1], hit[0]))

    def _product(self) -> str:
        """Minus the inner product: the cosine, of vectors of unit length."""
        return f"OPERATOR({self._found.schema}.<#>)" if self._found.schema else "<#>"

    def _broad(self) -> str:
        """Always true: told, before an index of neighbours is walked, how broadly; for this statement only."""
        broad = "(SELECT set_config('hnsw.ef_search', :breadth, true)) IS NOT NULL"
        if self._found.version >= (0, 8):
            broad += " AND (SELECT set_config('hnsw.iterative_scan', 'strict_order', true)) IS NOT NULL"
        return f"{broad} AND embedding IS NOT NULL"

    async def search_text(self, edition: int, question: str, limit: int, *, generation: int = 0) -> Hits:
        what = asked(question)
        told = [plain(" ".join(term)) for term in (*((word,) for word in what.words), *what.phrases)]
        if not told:
            return []
        rows = await self._engine.read(
            (
                f"SELECT DISTINCT CAST(phraseto_tsquery({CONFIGURATION}, told) AS text)"
                " FROM unnest(CAST(:told AS text[])) AS told",
                {"told": told},
            )
        )
        statistics = await self._statistics(edition, generation)
        counted = await self._counted(edition, statistics, sorted(query for (query,) in rows if query))
        terms = [(query, count) for query, count in counted if count]
        if not terms:
            return []
        wanted = max(BEST, limit)
        candidates = await self._candidates(edition, terms, wanted)
        hits = ranked(
            [Term(_words(query), count) for query, count in terms], candidates,
            texts=statistics.texts, average=statistics.average,
        )  # fmt: skip
        return hits[:limit]

    async def _statistics(self, edition: int, generation: int) -> _Statistics:
        known = self._found.statistics.get(edition)
        ((last,),) = await self._engine.read(f"SELECT COALESCE(MAX(chunk), 0) FROM kb{edition}_index")
        if known is None or known.generation != generation or not known.last <= last <= 1.1 * known.last + 10:
            ((texts, average),) = await self._engine.read(
                f"SELECT COUNT(*), CAST(COALESCE(AVG(size), 0) AS float8) FROM kb{edition}_index"
            )
            known = self._found.statistics[edition] = _Statistics(generation, last, texts, average)
        return known

    async def _counted(self, edition: int, statistics: _Statistics, queries: list[str]) -> list[tuple[str, int]]:
        """How many chunks have each; the rarest first."""
        new = [query for query in queries if query not in statistics.having]
        if new:
            rows = await self._engine.read(
                (
                    f"SELECT q, (SELECT COUNT(*) FROM kb{edition}_index WHERE words @@ CAST(q AS tsquery))"
                    " FROM unnest(CAST(:queries AS text[])) AS q",
                    {"queries": new},
                )
            )
            statistics.having.update(rows)
        return sorted(((query, statistics.having[query]) for query in queries), key=lambda each: (each[1], each[0]))

    async def _candidates(self, edition: int, terms: list[tuple[str, int]], wanted: int) -> list[Candidate]:
        """Chunks that have some of the rarer terms; all terms decide which of those are the best."""
        rare: list[str] = []
        total = 0
        for query, count in terms:
            if rare and total >= wanted and total + count > MOST_RANKED:
                break
            rare.append(query)
            total += count
        table = f"kb{edition}_index"
        found = await self._engine.read(
            (
                f"SELECT chunk, size FROM {table} WHERE words @@ CAST(:rare AS tsquery)"
                " ORDER BY ts_rank_cd(words, CAST(:all AS tsquery)) DESC, chunk LIMIT :wanted",
                {"rare": _any_of(rare), "all": _any_of([query for query, _ in terms]), "wanted": wanted},
            )
        )
        lexemes = sorted({word for query, _ in terms for word, _ in _words(query)})
        rows = await self._engine.read(
            (
                f"SELECT i.chunk, w.lexeme, w.positions FROM {table} i, unnest(i.words) AS w"
                " WHERE i.chunk = ANY(CAST(:chunks AS bigint[])) AND w.lexeme = ANY(CAST(:lexemes AS text[]))",
                {"chunks": [chunk for chunk, _ in found], "lexemes": lexemes},
            )
        )
        positions: dict[int, dict[str, list[int]]] = {}
        for chunk, lexeme, places in rows:
            positions.setdefault(chunk, {})[lexeme] = places
        return [Candidate(chunk, size, positions.get(chunk, {})) for chunk, size in found]

    async def _neighbours(self, edition: int) -> bool | None:
        """Whether the index of neighbours is sound; None where there is none."""
        rows = await self._engine.read(
            (
                "SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
                " WHERE c.relname = :name AND pg_table_is_visible(c.oid)",
                {"name": f"kb{edition}_near"},
            )
        )
        return bool(rows[0][0]) if rows else None

    async def optimize(self, edition: int, dimension: int) -> bool:
        """Build the index of neighbours, on a connection of its own: nobody waits for it."""
        from penstock.store.sql.postgres_connection import connect, quietly_close

        await self._looked_up()
        if dimension > HALF_DIMENSIONS or self._found.version < (0, 7):
            return False
        name, table = f"kb{edition}_near", f"kb{edition}_index"
        kind = "vector" if dimension <= HNSW_DIMENSIONS else "halfvec"
        what = "embedding" if kind == "vector" else f"(CAST(embedding AS {self._typed('halfvec')}({dimension})))"
        connection = await connect(self._engine.store._dsn, known=True)
        try:
            # Of two at once, one builds.
            if not await connection.fetchval("SELECT pg_try_advisory_lock(7303, $1)", edition):
                return False
            sound = await self._neighbours(edition)
            if sound:
                return False
            if sound is False:
                await connection.execute(f"DROP INDEX IF EXISTS {name}")
            await connection.execute(
                f"CREATE INDEX CONCURRENTLY {name} ON {table} USING hnsw ({what} {self._typed(f'{kind}_ip_ops')})",
                timeout=24 * 3600,
            )
        finally:
            await quietly_close(connection)
        return True


def _words(query: str) -> tuple[tuple[str, int], ...]:
    """`'a' <-> 'b' <2> 'c'`: the words, and how far each stands from the first."""
    words: list[tuple[str, int]] = []
    distance = 0
    for lexeme, step in _LEXEME.findall(query):
        if step:
            distance += 1 if step == "-" else int(step)
        else:
            words.append((lexeme.replace("''", "'"), distance))
    return tuple(words)


def _any_of(queries: Sequence[str]) -> str:
    return " | ".join(f"({query})" for query in queries)
