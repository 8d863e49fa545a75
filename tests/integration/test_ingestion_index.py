"""The index of a knowledge base, on SQLite and on PostgreSQL with pgvector: what is in it is found, what was taken out
is not, what comes twice does no harm, and both find the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import numpy as np
import pytest

from penstock.engine.engine import Engine
from penstock.engine.errors import InvalidConfiguration, InvalidRequest, PenstockError
from penstock.pipelines.ingestion.index import Index, Indexed, Row, index_for
from penstock.pipelines.ingestion.index.vectors import unit_rows
from penstock.store.connect import store_from_url
from penstock.store.memory import MemoryStore
from tests.support.pgvector import PgvectorServer
from tests.support.postgres import USER

EDITION = 7
DIMENSION = 16

TEXTS = {
    1: "A penstock is a pipe that feeds water to a turbine.",
    2: "The gate of the penstock closes when the turbine stops. The gate is made of steel.",
    3: "Turbines turn generators, which make electricity.",
    4: "Die Wasserkraftwerke im Gebirge: Größe und Höhe der Mauern, naïve Schätzungen.",
    5: "Rivers carry sand; sand wears out blades, runners and seals over the years.",
    8: "gate gate gate gate gate gate",
}


def vector_of(n: int) -> Any:
    return unit_rows([np.random.default_rng(n).normal(size=DIMENSION)])[0]


ROWS: list[Row] = [(n, text, vector_of(n)) for n, text in TEXTS.items()]


@dataclass
class House:
    """An edition whose ledger and index have the same chunks."""

    engine: Engine
    index: Index

    async def fill(self, rows: list[Row]) -> None:
        await self.engine.write(*map(chunk_row, rows), *self.index.add(EDITION, rows))

    async def by_words(self, question: str, limit: int = 10) -> list[int]:
        return [n for n, _ in await self.index.search_text(EDITION, question, limit)]

    async def by_meaning(self, n: int, limit: int = 3, *, generation: int = 0) -> list[int]:
        hits = await self.index.search_vectors(EDITION, DIMENSION, vector_of(n), limit, generation=generation)
        return [found for found, _ in hits]

    async def everything(self) -> Indexed:
        return await self.index.ids(EDITION, 0, None)


def chunk_row(row: Row) -> tuple[str, dict[str, Any]]:
    n, text, _ = row
    return (
        "INSERT INTO kb_chunks (edition, n, content_hash, text, tokens, run, indexed_at)"
        " VALUES (:edition, :n, :hash, :text, 1, 'run', 0)",
        {"edition": EDITION, "n": n, "hash": str(n), "text": text},
    )


@asynccontextmanager
async def house_at(url: str) -> AsyncIterator[House]:
    store = store_from_url(url)
    await store.open()
    try:
        engine = Engine(store)
        index = index_for(engine)
        await index.prepare()
        yield House(engine, index)
    finally:
        await store.close()


def in_house(url: str, test: Callable[[House], Awaitable[None]], rows: list[Row] = ROWS) -> None:
    async def run() -> None:
        async with house_at(url) as house:
            await house.engine.write(*house.index.create(EDITION, DIMENSION))
            if rows:
                await house.fill(rows)
            await test(house)

    asyncio.run(run())


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    found: str = request.getfixturevalue("pgvector_url")
    return found


def test_chunks_are_found_by_their_words_and_by_their_vectors(url: str) -> None:
    async def test(house: House) -> None:
        assert await house.by_words("Which pipe feeds the turbine?") == [1, 3, 2]
        assert await house.by_words("What is the gate of a penstock made of?") == [2, 8, 1]
        assert await house.by_words("penstocks") == [1, 2]
        assert (await house.by_words("Wie hoch ist die NAIVE Große?"))[0] == 4
        assert (await house.by_words('"turbine stops"'))[0] == 2
        assert await house.by_words("generators electricity", limit=1) == [3]
        for question in ("volcano", "what is it about?", '"; DROP TABLE kb_chunks', "''", "🌊", "a" * 100_000):
            assert await house.by_words(question) == []
        for n in TEXTS:
            assert (await house.by_meaning(n))[0] == n
        hits = await house.index.search_vectors(EDITION, DIMENSION, 3 * vector_of(2), 100)
        scores = {n: float(vector_of(n) @ vector_of(2)) for n in TEXTS}
        assert [n for n, _ in hits] == sorted(scores, key=lambda n: -scores[n])
        assert [score for _, score in hits] == pytest.approx(sorted(scores.values(), reverse=True), abs=1e-5)

    in_house(url, test)


def test_what_was_removed_is_not_found_and_may_come_again(url: str) -> None:
    async def test(house: House) -> None:
        gone = [(2, TEXTS[2]), (8, TEXTS[8])]
        assert 2 in await house.by_meaning(2)
        for generation in (1, 2):
            await house.engine.write(*house.index.remove(EDITION, gone))
            assert await house.by_words("gate") == []
            assert await house.by_words("turbine") == [3, 1]
            assert not {2, 8} & set(await house.by_meaning(2, 10, generation=generation))
            assert await house.everything() == Indexed({1, 3, 4, 5}, {1, 3, 4, 5})
        await house.engine.write(*house.index.add(EDITION, [row for row in ROWS if row[0] in (2, 8)]))
        assert await house.by_words("gate") == [8, 2]
        assert (await house.by_meaning(8, generation=2))[0] == 8

    in_house(url, test)


def test_what_is_added_twice_is_there_once(url: str) -> None:
    async def test(house: House) -> None:
        before = await house.index.search_text(EDITION, "gate turbine", 10)
        await house.engine.write(*house.index.add(EDITION, ROWS))
        assert await house.index.search_text(EDITION, "gate turbine", 10) == before
        changed = [(n, text, vector_of(100 + n)) for n, text, _ in ROWS]
        await house.engine.write(*house.index.add(EDITION, changed))
        assert (await house.by_meaning(103, generation=1))[0] == 3

    in_house(url, test)


def test_an_index_joins_the_transaction_that_it_is_written_in(url: str) -> None:
    async def test(house: House) -> None:
        new: list[Row] = [(20, "an aqueduct", vector_of(20))]
        with pytest.raises(PenstockError):
            await house.engine.write(
                *house.index.add(EDITION, new), *house.index.create(99, DIMENSION), "INSERT INTO nowhere VALUES (1)"
            )
        assert await house.by_words("aqueduct") == []
        assert 20 not in (await house.everything()).vectors
        await house.engine.write(*house.index.create(99, DIMENSION))
        await house.engine.write(*house.index.drop(99), *house.index.drop(98))

    in_house(url, test)


def test_what_there_is_is_told_in_slices(url: str) -> None:
    async def test(house: House) -> None:
        assert await house.everything() == Indexed(set(TEXTS), set(TEXTS))
        assert await house.index.ids(EDITION, 2, 5) == Indexed({3, 4, 5}, {3, 4, 5})
        assert await house.index.ids(EDITION, 8, None) == Indexed(set(), set())

    in_house(url, test)


def test_strays_are_taken_out_without_their_text(url: str) -> None:
    async def test(house: House) -> None:
        await house.engine.write(f"DELETE FROM kb_chunks WHERE edition = {EDITION} AND n IN (2, 8)")
        await house.engine.write(*house.index.strays_removed(EDITION, [2, 8], [2, 8]))
        assert await house.everything() == Indexed({1, 3, 4, 5}, {1, 3, 4, 5})
        assert await house.by_words("gate") == []
        assert await house.by_words("turbine") == [3, 1]
        assert house.index.strays_removed(EDITION, [], []) == []

    in_house(url, test)


def test_what_an_index_lacks_or_has_otherwise_is_mended(url: str) -> None:
    """One chunk lacks all, one its vector, and one has had another text."""

    async def test(house: House) -> None:
        await house.engine.write(*house.index.remove(EDITION, [(1, TEXTS[1])]))
        if url.startswith("sqlite"):
            await house.engine.write(f"DELETE FROM kb{EDITION}_vectors WHERE chunk = 3")
        else:
            await house.engine.write(f"UPDATE kb{EDITION}_index SET embedding = NULL WHERE chunk = 3")
        await house.engine.write(f"UPDATE kb_chunks SET text = 'an aqueduct' WHERE edition = {EDITION} AND n = 5")
        assert await house.everything() == Indexed(set(TEXTS) - {1, 3}, set(TEXTS) - {1})
        assert await house.by_meaning(3, 10) and 3 not in await house.by_meaning(3, 10)
        lacking: list[Row] = [
            (1, TEXTS[1], vector_of(1)), (3, TEXTS[3], vector_of(3)), (5, "an aqueduct", vector_of(5)),
        ]  # fmt: skip
        await house.engine.write(
            *house.index.mended(EDITION, [(n, text) for n, text, _ in lacking], [1]), *house.index.add(EDITION, lacking)
        )
        assert await house.everything() == Indexed(set(TEXTS), set(TEXTS))
        assert await house.by_words("sand aqueduct") == [5]
        assert await house.by_words("pipe") == [1]
        assert (await house.by_meaning(3, generation=1))[0] == 3

    in_house(url, test)


def test_hundreds_of_chunks_go_in_few_statements(url: str) -> None:
    rows: list[Row] = [(n, f"chunk number n{n} of many", vector_of(n)) for n in range(1, 701)]

    async def test(house: House) -> None:
        assert len(house.index.add(EDITION, rows)) <= 4
        for n in (1, 500, 501, 700):
            assert await house.by_words(f"n{n}") == [n]
            assert (await house.by_meaning(n))[0] == n
        everyone = await house.index.search_text(EDITION, "chunk", 1000)
        assert [n for n, _ in everyone][:3] == [1, 2, 3] and len(everyone) == 700
        few, more = await house.by_meaning(5, 20), await house.by_meaning(5, 60)
        assert more[:20] == few
        await house.engine.write(*house.index.remove(EDITION, [(n, text) for n, text, _ in rows]))
        assert await house.everything() == Indexed(set(), set())

    in_house(url, test, rows)


def test_a_question_with_another_number_of_dimensions_is_told_so(url: str) -> None:
    async def test(house: House) -> None:
        with pytest.raises(InvalidRequest, match="3 dimensions and the index 16"):
            await house.index.search_vectors(EDITION, DIMENSION, np.ones(3, np.float32), 5)
        assert await house.index.search_vectors(EDITION, DIMENSION, np.zeros(DIMENSION, np.float32), 5) == []

    in_house(url, test)


def test_both_databases_rank_words_alike(pgvector_url: str, tmp_path: Path) -> None:
    """Made texts of three hundred words, of which few are frequent and most are rare."""
    rng = np.random.default_rng(3)
    words = np.array([f"{a}{b}{c}" for a in "bdgklmnprt" for b in "aou" for c in ("nk", "lt", "rp", "m", "g")])
    often = 1 / np.arange(1, len(words) + 1)
    rows: list[Row] = [
        (n, " ".join(rng.choice(words, rng.integers(5, 60), p=often / often.sum())), vector_of(n))
        for n in range(1, 401)
    ]
    questions = [" ".join(rng.choice(words, 4)) for _ in range(15)] + [f'"{words[0]} {words[1]}" {words[90]}']
    found: dict[str, list[list[tuple[int, float]]]] = {}

    def searched(url: str) -> list[list[tuple[int, float]]]:
        async def test(house: House) -> None:
            found[url] = [await house.index.search_text(EDITION, question, 10) for question in questions]

        in_house(url, test, rows)
        return found[url]

    for ours, theirs in zip(searched(f"sqlite:///{tmp_path}/store.db"), searched(pgvector_url), strict=True):
        assert [n for n, _ in ours] == [n for n, _ in theirs]
        assert [score for _, score in ours] == pytest.approx([score for _, score in theirs], rel=1e-6)


@pytest.mark.parametrize("dimension", [DIMENSION, 2100])
def test_a_large_edition_gets_an_index_of_neighbours_and_is_searched_by_it(pgvector_url: str, dimension: int) -> None:
    vectors = unit_rows(list(np.random.default_rng(5).normal(size=(300, dimension))))
    rows: list[Row] = [(n, f"n{n}", vector) for n, vector in enumerate(vectors, 1)]

    async def run() -> None:
        async with house_at(pgvector_url) as house:
            index = house.index
            await house.engine.write(*index.create(EDITION, dimension))
            await house.engine.write(*index.add(EDITION, rows))
            exact = await index.search_vectors(EDITION, dimension, vectors[7], 20)
            both = await asyncio.gather(index.optimize(EDITION, dimension), index.optimize(EDITION, dimension))
            assert any(both)
            assert not await index.optimize(EDITION, dimension)
            near = await index.search_vectors(EDITION, dimension, vectors[7], 20)
            assert near[0] == exact[0] and len({n for n, _ in near} & {n for n, _ in exact}) >= 18
            assert len(await index.search_vectors(EDITION, dimension, vectors[7], 250)) == 250
            # A builder that died leaves an index that is not whole: it is not used, and made anew.
            await house.engine.write(
                f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'kb{EDITION}_near'::regclass"
            )
            assert await index.search_vectors(EDITION, dimension, vectors[7], 20) == exact
            assert await index.optimize(EDITION, dimension)
            await house.engine.write(*index.drop(EDITION))

    asyncio.run(run())


def test_pgvector_may_live_outside_of_the_path(pgvector_server: PgvectorServer) -> None:
    url = pgvector_server.fresh_database()

    async def run() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute('CREATE SCHEMA "Ours"; CREATE SCHEMA kb; CREATE EXTENSION vector SCHEMA "Ours"')
        await connection.close()
        async with house_at(f"{url}&search_path=kb") as house:
            await house.engine.write(*house.index.create(EDITION, DIMENSION))
            await house.fill(ROWS)
            assert (await house.by_meaning(3))[0] == 3
            assert await house.index.optimize(EDITION, DIMENSION)
            assert (await house.by_meaning(3))[0] == 3

    asyncio.run(run())


def test_who_may_not_make_the_extension_is_told_who_can(pgvector_server: PgvectorServer) -> None:
    url = pgvector_server.fresh_database()

    async def run() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(
            "DO $$ BEGIN CREATE ROLE clerk LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
            " GRANT ALL ON SCHEMA public TO clerk"
        )
        try:
            with pytest.raises(InvalidConfiguration, match="superuser run CREATE EXTENSION vector"):
                async with house_at(url.replace(f"{USER}@", "clerk@")):
                    pass
            await connection.execute("CREATE EXTENSION vector")
            async with house_at(url.replace(f"{USER}@", "clerk@")) as house:
                await house.engine.write(*house.index.create(EDITION, DIMENSION))
        finally:
            await connection.close()

    asyncio.run(run())


def test_a_server_without_pgvector_is_told_where_to_get_it(postgres_url: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(postgres_url)
        there = await connection.fetchval("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'")
        await connection.close()
        if there:
            pytest.skip("the installed PostgreSQL has pgvector")
        with pytest.raises(InvalidConfiguration, match=r"has no pgvector.*install it.*CREATE EXTENSION vector"):
            async with house_at(postgres_url):
                pass

    asyncio.run(run())


def test_a_store_without_sql_has_no_index() -> None:
    with pytest.raises(InvalidRequest, match="needs a store in SQL"):
        index_for(Engine(MemoryStore()))
