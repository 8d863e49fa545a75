"""The index inside the store's own PostgreSQL: vectors by pgvector, words by its full text (`postgres_text`).

A search by vectors compares all of them, which is exact, until `optimize` has built an index of neighbours (HNSW),
which nearly is.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import asyncpg

from penstock.engine.errors import InvalidConfiguration, InvalidRequest, PenstockError, StoreError
from penstock.pipelines.ingestion.index.contract import Hits, Indexed, Row
from penstock.pipelines.ingestion.index.postgres_text import CONFIGURATION, Statistics, TextSearch
from penstock.pipelines.ingestion.index.query import plain
from penstock.pipelines.ingestion.index.vectors import unit_rows
from penstock.pipelines.ingestion.plugins import Vectors
from penstock.pipelines.ingestion.statements import MOST, Statement

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

LONGEST_TEXT = 500_000
"""Characters of one chunk that full text takes in: PostgreSQL refuses more than a megabyte."""

WHOLE, HALVED = 2000, 4000
"""Up to so many dimensions pgvector builds an index of neighbours, and of numbers of half precision."""

LEAST_BROAD, BROADEST = 100, 1000
"""Neighbours that an index of them looks at before it answers: the more, the fewer are missed."""

CONNECTING = 10.0
BUILDING = 6 * 3600.0
"""Seconds that building an index of neighbours may take."""

_BUILDERS = 7303
"""Advisory lock: of two who build the same index, one."""


@dataclass(slots=True)
class _Known:
    """What was learned of a database: where pgvector lives there, and how the words of its editions are spread."""

    schema: str = ""
    version: tuple[int, ...] = ()
    statistics: dict[int, Statistics] = field(default_factory=dict)


_known: weakref.WeakKeyDictionary[Any, _Known] = weakref.WeakKeyDictionary()


class PostgresIndex:
    optimizes = True

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known = _known.setdefault(engine.store, _Known())

    async def prepare(self) -> None:
        if await self._found():
            return
        url = getattr(self._engine.store, "url", "the database")
        if not await self._engine.read("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
            raise InvalidConfiguration(
                f"{url} has no pgvector, which knowledge bases need: install it on the server (on Debian the package"
                " postgresql-NN-pgvector), then let a superuser run CREATE EXTENSION vector in this database"
            )
        try:
            await self._engine.write("CREATE EXTENSION IF NOT EXISTS vector")
        except PenstockError as error:
            # Somebody else may have made it in the same moment.
            if not await self._found():
                raise InvalidConfiguration(
                    f"{url} lacks the extension vector, and its user may not make it: let a superuser run"
                    f" CREATE EXTENSION vector in this database ({error})"
                ) from error
        await self._found()

    async def _found(self) -> bool:
        """Whether the extension is there; where, is remembered. It need not be on the user's path."""
        if not self._known.schema:
            rows = await self._engine.read(
                "SELECT quote_ident(n.nspname), e.extversion FROM pg_extension e"
                " JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
            )
            for schema, version in rows:
                self._known.version = tuple(int(part) for part in re.findall(r"\d+", version))
                self._known.schema = schema
        return bool(self._known.schema)

    def _of_vector(self, name: str) -> str:
        return f"{self._known.schema}.{name}" if self._known.schema else name

    def create(self, edition: int, dimension: int) -> list[Statement]:
        table = f"kb{edition}_index"
        return [
            (
                f"CREATE TABLE {table} (chunk bigint PRIMARY KEY, embedding {self._of_vector('vector')}({dimension}),"
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
                        "sizes": [len(text.split()) for text in texts],
                    },
                )
            )
        return statements

    def remove(self, edition: int, rows: Sequence[tuple[int, str]]) -> list[Statement]:
        return self.strays_removed(edition, [n for n, _ in rows], ())

    def mended(self, edition: int, rows: Sequence[tuple[int, str]], lacking_text: Collection[int]) -> list[Statement]:
        """Nothing: what is added replaces what is there."""
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

    async def search_text(self, edition: int, question: str, limit: int, *, generation: int = 0) -> Hits:
        return await TextSearch(self._engine, edition, self._known.statistics).hits(question, limit, generation)

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
        await self._found()
        values: dict[str, Any] = {"vector": question.tolist(), "limit": limit}
        source = f"kb{edition}_index"
        if await self._neighbours(edition):
            # To order by the number too would leave the index of neighbours unused.
            values["breadth"] = str(min(BROADEST, max(LEAST_BROAD, 2 * limit)))
            embedding, kind = self._indexed(dimension)
            source = (
                f"(SELECT chunk, embedding FROM {source} WHERE {self._broadly()}"
                f" ORDER BY {embedding} {self._away(kind)} LIMIT :limit) AS near"
            )
        rows = await self._engine.read(
            (
                f"SELECT chunk, embedding {self._away(self._of_vector('vector'))} AS away FROM {source}"
                " WHERE embedding IS NOT NULL ORDER BY away, chunk LIMIT :limit",
                values,
            )
        )
        return sorted(((int(n), -float(away)) for n, away in rows), key=lambda hit: (-hit[1], hit[0]))

    def _away(self, kind: str) -> str:
        """Minus the inner product with the question: minus the cosine, of vectors of unit length."""
        operator = f"OPERATOR({self._known.schema}.<#>)" if self._known.schema else "<#>"
        return f"{operator} CAST(CAST(:vector AS real[]) AS {kind})"

    def _indexed(self, dimension: int) -> tuple[str, str]:
        """What the index of neighbours is of, and its type: it is used by who asks in the same words."""
        if dimension <= WHOLE:
            return "embedding", self._of_vector("vector")
        kind = f"{self._of_vector('halfvec')}({dimension})"
        return f"CAST(embedding AS {kind})", kind

    def _broadly(self) -> str:
        """Always true: says, for this statement, how many neighbours are looked at. It is evaluated first."""
        broadly = "(SELECT set_config('hnsw.ef_search', :breadth, true)) IS NOT NULL"
        if self._known.version >= (0, 8):
            broadly += " AND (SELECT set_config('hnsw.iterative_scan', 'strict_order', true)) IS NOT NULL"
        return broadly

    async def _neighbours(self, edition: int) -> bool | None:
        """Whether the index of neighbours is whole; None where there is none."""
        rows = await self._engine.read(
            (
                "SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
                " WHERE c.relname = :name AND pg_table_is_visible(c.oid)",
                {"name": f"kb{edition}_near"},
            )
        )
        return bool(rows[0][0]) if rows else None

    async def optimize(self, edition: int, dimension: int) -> bool:
        """Build the index of neighbours, on a connection of its own, so that nobody waits for it."""
        await self._found()
        if dimension > HALVED or self._known.version < (0, 7):
            return False
        embedding, _ = self._indexed(dimension)
        operators = self._of_vector("vector_ip_ops" if dimension <= WHOLE else "halfvec_ip_ops")
        store: Any = self._engine.store
        try:
            async with store.apart() as connection:
                if not await connection.fetchval("SELECT pg_try_advisory_lock($1, $2)", _BUILDERS, edition):
                    return False
                whole = await self._neighbours(edition)
                if whole:
                    return False
                if whole is False:
                    # Somebody died while building it.
                    await connection.execute(f"DROP INDEX IF EXISTS kb{edition}_near")
                await connection.execute(
                    f"CREATE INDEX CONCURRENTLY kb{edition}_near ON kb{edition}_index"
                    f" USING hnsw (({embedding}) {operators})",
                    timeout=BUILDING,
                )
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise StoreError(
                f"{store.url}: the index of neighbours of edition {edition} was not built: {error}"
            ) from error
        return True
