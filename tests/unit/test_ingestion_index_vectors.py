"""Vectors in memory: exact, read once, kept up to date, and never more than may be kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from penstock.engine.errors import InvalidRequest, StoreError
from penstock.pipelines.ingestion.index import vectors
from penstock.pipelines.ingestion.index.vectors import Hits, Matrices, unit_rows

DIMENSION = 8
ROW = 4 * DIMENSION + 8
PLENTY = 1 << 20


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(vectors, "SLICE", 10)
    monkeypatch.setattr(vectors, "_SMALL", 25)
    yield


class Table:
    """An edition's vectors, in the order of their numbers, and what was read of them."""

    def __init__(self, count: int, seed: int = 1) -> None:
        rows = unit_rows(list(np.random.default_rng(seed).normal(size=(count, DIMENSION))))
        self.rows = dict(enumerate(rows, 1))
        self.reads: list[int] = []

    async def read(self, after: int) -> list[tuple[Any, ...]]:
        self.reads.append(after)
        await asyncio.sleep(0)
        later = sorted(number for number in self.rows if number > after)[: vectors.SLICE]
        return [(number, self.rows[number].tobytes()) for number in later]

    def best(self, question: Any, limit: int) -> list[int]:
        scores = {number: float(row @ question) for number, row in self.rows.items()}
        return sorted(scores, key=lambda number: (-scores[number], number))[:limit]


class Store:
    """Whom vectors belong to."""


class House:
    """Searches of one store."""

    def __init__(self, memory: int = PLENTY) -> None:
        self.matrices = Matrices()
        self.store = Store()
        self.memory = memory

    def search(self, table: Table, question: Any, limit: int = 5, *, edition: int = 1, generation: int = 0) -> Hits:
        return asyncio.run(self.searched(table, question, limit, edition=edition, generation=generation))

    async def searched(
        self, table: Table, question: Any, limit: int = 5, *, edition: int = 1, generation: int = 0
    ) -> Hits:
        return await self.matrices.search(
            self.store, edition, generation, question, limit, read=table.read, memory=self.memory
        )


def numbers(hits: Hits) -> list[int]:
    return [number for number, _ in hits]


QUESTION = unit_rows([np.arange(DIMENSION) + 1.0])[0]


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 57])
@pytest.mark.parametrize("limit", [1, 5, 100])
def test_the_best_are_found_among_all(count: int, limit: int) -> None:
    table = Table(count)
    hits = House().search(table, QUESTION, limit)
    assert numbers(hits) == table.best(QUESTION, limit)
    assert [score for _, score in hits] == pytest.approx([float(table.rows[n] @ QUESTION) for n, _ in hits], abs=1e-6)


def test_equal_ones_go_by_number_however_many_are_asked_for() -> None:
    table = Table(30)
    for number in (4, 9, 17, 23):
        table.rows[number] = QUESTION
    house = House()
    assert numbers(house.search(table, QUESTION, 3)) == [4, 9, 17]
    assert numbers(house.search(table, QUESTION, 6))[:4] == [4, 9, 17, 23]


def test_what_was_read_is_not_read_again_and_what_is_new_is() -> None:
    table, house = Table(35), House()
    house.search(table, QUESTION)
    table.reads.clear()
    table.rows[40] = QUESTION
    assert numbers(house.search(table, QUESTION, 1)) == [40]
    assert table.reads == [35]


def test_two_searches_at_once_read_once() -> None:
    table, house = Table(35), House()

    async def twice() -> list[Hits]:
        return await asyncio.gather(house.searched(table, QUESTION), house.searched(table, QUESTION))

    first, second = asyncio.run(twice())
    assert first == second
    assert table.reads == [0, 10, 20, 30, 35]


def test_something_removed_is_forgotten_with_the_next_generation() -> None:
    table, house = Table(30), House()
    (best, _), *_ = house.search(table, QUESTION)
    del table.rows[best]
    assert best not in numbers(house.search(table, QUESTION, generation=1))
    # Who looked at the edition before that is answered by what is there now.
    assert best not in numbers(house.search(table, QUESTION, generation=0))


def test_editions_that_were_not_searched_for_the_longest_make_room() -> None:
    house = House(memory=50 * ROW)
    tables = {edition: Table(20, seed=edition) for edition in (1, 2, 3)}
    for edition in (1, 2, 1, 3):
        house.search(tables[edition], QUESTION, edition=edition)
        assert house.matrices.size() <= house.memory
    for table in tables.values():
        table.reads.clear()
    for edition in (1, 3, 2):
        hits = house.search(tables[edition], QUESTION, edition=edition)
        assert numbers(hits) == tables[edition].best(QUESTION, 5)
    assert [table.reads[0] for table in tables.values()] == [20, 0, 20]


def test_an_edition_that_does_not_fit_is_read_each_time_and_not_kept() -> None:
    table, house = Table(57), House(memory=20 * ROW)
    for _ in range(2):
        assert numbers(house.search(table, QUESTION, 7)) == table.best(QUESTION, 7)
    assert house.matrices.size() == 0
    for number in range(10, 58):
        del table.rows[number]
    house.search(table, QUESTION, generation=1)
    assert house.matrices.size() == 9 * ROW


def test_a_question_without_meaning_finds_nothing() -> None:
    assert House().search(Table(20), np.zeros(DIMENSION)) == []


def test_a_question_of_another_embedder_is_told_so() -> None:
    with pytest.raises(InvalidRequest, match="has 3 dimensions and the index 8"):
        House().search(Table(5), np.ones(3))


def test_a_damaged_vector_is_named_with_the_way_out() -> None:
    table = Table(12)
    table.rows[11] = table.rows[11][:3]
    with pytest.raises(StoreError, match=r"chunk 11 is damaged.*ingest repair"):
        House().search(table, QUESTION)


def test_a_read_that_fails_leaves_what_is_known_as_it_was() -> None:
    table, house = Table(35), House()
    house.search(table, QUESTION)
    table.rows[36] = table.rows[1][:2]
    with pytest.raises(InvalidRequest):
        house.search(table, QUESTION)
    table.rows[36] = QUESTION
    assert numbers(house.search(table, QUESTION, 1)) == [36]


def test_vectors_go_with_their_store() -> None:
    house = House()
    house.search(Table(20), QUESTION)
    assert house.matrices.size() > 0
    house.store = Store()
    assert house.matrices.size() == 0


def test_vectors_are_brought_to_unit_length() -> None:
    rows = unit_rows([np.array([3.0, 4.0]), np.array([0.0, 0.0]), np.array([1e-30, 0.0])])
    assert rows.dtype == np.float32
    assert rows.tolist() == [pytest.approx([0.6, 0.8]), [0.0, 0.0], pytest.approx([1.0, 0.0])]
