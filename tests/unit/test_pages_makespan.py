"""Longest remaining chain first: the ledger's SQL and the pure rule name the same pages, and it pays."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import pytest
from bench.pages_makespan import ORDERS, Library, library, simulate

from penstock import Penstock
from penstock.engine.engine import Engine
from penstock.pipelines.pages import rules
from penstock.pipelines.pages.ledger import Ledger
from penstock.pipelines.pages.ledger_rows import Book
from penstock.pipelines.pages.model import OnDeadPage
from penstock.pipelines.pages.rules import Numbering, Ready

OURS, FIRST_COME = ORDERS.values()


class Desk:
    """Reads and writes a real store, without a job around it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.waiting: list[Any] = []

    async def read(self, statement: Any) -> list[tuple[Any, ...]]:
        return await self.engine.read(statement)

    def write(self, statement: Any) -> None:
        self.waiting.append(statement)

    async def commit(self) -> None:
        await self.engine.write(*self.waiting)
        self.waiting.clear()


def random_books(dice: Random, count: int) -> list[Book]:
    """Books with gaps, in any state, some of them alike in all but their names."""
    made = []
    for at in range(count):
        names = [f"{number:04d}" for number in range(1, dice.randint(2, 180)) if dice.random() < 0.9]
        numbering = Numbering(rules.numbered(names)[0])
        letters = {number: dice.choice("wwwwwdf?x") for number in numbering}
        states = rules.changed(numbering, rules.all_to_do(numbering.text), letters)
        name = f"Ohio/School {dice.choice('AÄaZz')}{at}/1850"
        made.append(
            Book(name, "Ohio", name.split("/")[1], 1850, numbering, states, served=dice.randint(0, 3), new=True)
        )
    return made


@pytest.mark.parametrize("on_dead", ["block", "skip"])
def test_the_ledger_names_the_pages_that_the_rule_names(tmp_path: Path, on_dead: OnDeadPage) -> None:
    asyncio.run(names_the_same(f"sqlite:///{tmp_path}/penstock.db", tmp_path, on_dead))


def test_the_ledger_names_them_on_postgresql_too(tmp_path: Path, postgres_url: str) -> None:
    asyncio.run(names_the_same(postgres_url, tmp_path, "block"))


async def names_the_same(store: str, folder: Path, on_dead: OnDeadPage) -> None:
    async with Penstock(store=store, outputs=folder) as app:
        desk = Desk(app.engine)
        ledger, other = Ledger("ours", desk, on_dead), Ledger("another", desk, on_dead)
        books = random_books(Random(on_dead), 60)
        for book in books:
            ledger.put(book)
            other.put(book)
        await desk.commit()
        for book in books[:20]:
            book.change(dict.fromkeys(list(book.numbering)[:3], rules.DONE))
            book.served += 5
            ledger.put(book)
        await desk.commit()
        ready = [
            Ready(book.book, head.number, head.remaining, book.served)
            for book in books
            for head in rules.heads(book.numbering, book.states, on_dead)
        ]
        expected = [(page.book, page.number) for page in sorted(ready, key=rules.rank)]
        assert len(expected) > 500
        assert await ledger.next_pages(100) == expected[:100]
        assert await ledger.next_pages(10_000) == expected
        assert (await ledger.totals()).ready == len(expected)


def test_no_order_beats_the_bound_and_ours_comes_close_to_it() -> None:
    ratios = {
        (slots, name): [simulate(library(seed, slots), order).ratio for seed in range(4)]
        for slots in ("tight", "ample")
        for name, order in (("ours", OURS), ("first come", FIRST_COME))
    }
    assert all(ratio >= 1 for some in ratios.values() for ratio in some)
    assert median(ratios["tight", "ours"]) <= 1.05
    assert median(ratios["ample", "ours"]) <= 1.05
    assert median(ratios["tight", "first come"]) > median(ratios["tight", "ours"])


def test_one_long_book_among_short_ones_is_begun_at_once() -> None:
    """Two slots of one page, batches of one minute: the book of 30 pages never waits, the others go beside it."""
    made = Library(1, (*[5] * 6, 30), slots=2, batch_size=1, latency=lambda _: 60.0, failing=0.0)
    ours, first_come = simulate(made, OURS), simulate(made, FIRST_COME)
    assert ours.makespan == ours.bound
    assert first_come.makespan > ours.makespan * 1.1
