"""A plan: what is counted from the trees, how deep the chains are, and what that comes to."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from penstock.pipelines.pages.model import Run
from penstock.pipelines.pages.planning import (
    Estimate,
    History,
    Rounds,
    Survey,
    estimate,
    nothing_matches,
    pages_until_pause,
    rounds,
    survey,
)
from penstock.pipelines.pages.prompts.registry import load_prompt
from penstock.remote.prices import load_prices

NOW = 1_800_000_000.0


class Shelf:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("labels", "images"):
            (folder / name).mkdir()

    def add(self, book: str, *pages: str, images: bool = True) -> None:
        for page in pages:
            self.file("labels", book, f"{page}.json")
            if images:
                self.file("images", book, f"{page}.JPG")

    def done(self, book: str, *pages: str) -> None:
        for page in pages:
            self.file("output", book, f"{page}.json")

    def file(self, *parts: str) -> None:
        path = self.folder.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")

    def run(self, **groups: object) -> Run:
        names = {"label_source_dir": "labels", "image_source_dir": "images", "output_dir": "output"}
        return Run.model_validate({"paths": {key: self.folder / name for key, name in names.items()}, **groups})


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def test_books_pages_and_chains_are_counted_and_a_gap_begins_a_chain(shelf: Shelf) -> None:
    shelf.add("Ohio/A/1850", "3", "4", "5", "12")
    shelf.add("Iowa/B/1851", "0001")
    told = survey(shelf.run())
    assert (told.books, told.pages, told.runs_of_pages, told.longest_book_chain) == (2, 5, 3, 3)
    assert (told.to_do, told.ready, told.chains) == (5, 3, Counter({3: 1, 1: 2}))


def test_an_empty_tree_is_no_work(shelf: Shelf) -> None:
    told = survey(shelf.run())
    assert (told.books, told.pages, told.to_do, told.longest_chain) == (0, 0, 0, 0)


def test_outputs_that_are_there_are_done(shelf: Shelf) -> None:
    shelf.add("Ohio/A/1850", "1", "2", "3", "4")
    shelf.done("Ohio/A/1850", "1", "2")
    told = survey(shelf.run())
    assert (told.done, told.to_do, told.chains) == (2, 2, Counter({2: 1}))


def test_filters_and_what_is_no_page(shelf: Shelf) -> None:
    shelf.add("Ohio/A/1850", "1", "cover")
    shelf.add("Ohio/A/1900", "1")
    shelf.add("Ohio/A/index", "1")
    shelf.add("Iowa/B/1850", "1")
    told = survey(shelf.run(filters={"target_states": ["Ohio"], "target_years": {"end": 1899}}))
    assert (told.books, told.pages, told.ignored) == (1, 1, 2)


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        ({}, None),
        ({"target_states": ["Ohio", "Ohoi"]}, None),
        ({"target_years": {"start": 1850}}, None),
        (
            {"target_states": ["Ohoi"]},
            "filters.target_states: no state Ohoi in LABELS; there are Iowa, Ohio; did you mean Ohio?",
        ),
        ({"target_states": ["x"]}, "filters.target_states: no state x in LABELS; there are Iowa, Ohio"),
        ({"target_years": {"end": 1800}}, "filters.target_years: no year to 1800 in LABELS; there are 1849 to 1850"),
        (
            {"target_states": ["Iowa"], "target_years": {"start": 1851, "end": 1852}},
            "filters.target_years: no year from 1851 to 1852 in LABELS; there are 1849",
        ),
    ],
)
def test_filters_that_let_nothing_through_are_named(shelf: Shelf, filters: object, told: str | None) -> None:
    assert nothing_matches(shelf.run(filters=filters)) is None, "an empty tree is nobody's mistake"
    shelf.add("Ohio/A/1850", "1")
    shelf.add("Iowa/B/1849", "1")
    wrong = nothing_matches(shelf.run(filters=filters))
    assert wrong == (None if told is None else told.replace("LABELS", str(shelf.folder / "labels")))


@pytest.mark.parametrize(("on_dead", "blocked", "chains"), [("block", 2, {1: 1}), ("skip", 0, {1: 1, 2: 1})])
def test_a_page_without_an_image_holds_up_what_follows_it_unless_it_is_skipped(
    shelf: Shelf, on_dead: str, blocked: int, chains: dict[int, int]
) -> None:
    shelf.add("Ohio/A/1850", "1", "3", "4")
    shelf.add("Ohio/A/1850", "2", images=False)
    told = survey(shelf.run(execution={"on_dead_page": on_dead}))
    assert (told.without_image, told.blocked, told.chains) == (1, blocked, Counter(chains))
    assert told.to_do == 3 - blocked


def test_what_a_ledger_knows_is_not_planned_again(shelf: Shelf) -> None:
    shelf.add("Ohio/A/1850", "1", "2", "3")
    shelf.add("Ohio/B/1850", "1", "2")
    told = survey(shelf.run(), History(dead={"Ohio/B/1850": [1]}, flying={"Ohio/A/1850": [1]}))
    assert (told.flying, told.dead, told.blocked, told.to_do, told.ready) == (1, 1, 1, 2, 0)
    assert told.chains == Counter({3: 1}), "the page in flight is the first of its chain"


def test_the_first_pages_are_those_that_most_others_wait_for(shelf: Shelf) -> None:
    shelf.add("Ohio/A/1850", "1", "2", "7")
    shelf.add("Iowa/B/1850", "1", "2", "3")
    shelf.add("Iowa/C:D/1850", "01")
    told = survey(shelf.run(), first=3)
    assert told.next_pages == [("Iowa:B:1850:1", 3), ("Ohio:A:1850:1", 2), ("Iowa:C%3AD:1850:01", 1)]


@pytest.mark.parametrize(
    ("chains", "size", "slots", "expected"),
    [
        ({}, 10, 2, Rounds(0, 0)),
        ({5: 1}, 10, 2, Rounds(5, 5)),
        ({1: 25}, 10, 2, Rounds(2, 3)),
        ({3: 10}, 10, 2, Rounds(3, 3)),
        ({3: 1, 1: 4}, 1, 2, Rounds(4, 7)),
    ],
)
def test_rounds(chains: dict[int, int], size: int, slots: int, expected: Rounds) -> None:
    assert rounds(chains, size=size, slots=slots) == expected


def test_rounds_are_as_few_as_can_be() -> None:
    """Longest chain first reaches the bound of unit chains: the longest one, or what is above each level."""
    for seed in range(200):
        rng = random.Random(seed)
        chains = Counter(rng.randint(1, 12) for _ in range(rng.randint(1, 30)))
        room = rng.randint(1, 8)
        told = rounds(chains, size=1, slots=room)
        above = [
            sum((length - level) * count for length, count in chains.items() if length > level) for level in range(12)
        ]
        assert told.rounds == max(level + -(-pages // room) for level, pages in enumerate(above) if pages), seed
        assert told.batches == sum(length * count for length, count in chains.items())


def test_money_is_tokens_at_batch_prices(shelf: Shelf) -> None:
    told = Survey(pages=1000, ready=10, chains=Counter({100: 10}))
    run = shelf.run()
    cost = estimate(
        run, load_prompt(run.prompt), told, load_prices(), model="gemini-3.8-flash", most_output=8000, now=NOW
    )
    price = load_prices().required("gemini-3.8-flash", "batch", NOW)
    assert cost.output_tokens == 1000 * cost.answer == 1_500_000
    assert cost.input_tokens > 1000 * cost.image
    expected = (cost.input_tokens * price.rates.input + cost.output_tokens * price.rates.output) / 1_000_000
    assert cost.cost is not None and abs(cost.cost - expected) <= 1
    assert cost.most is not None and cost.most > cost.cost
    assert cost.price is not None and cost.price.read is not None and cost.price.read >= date(2026, 1, 1)


def test_what_earlier_batches_took_is_believed_before_what_is_assumed(shelf: Shelf) -> None:
    run = shelf.run()
    told = Survey(pages=10, chains=Counter({10: 1}))
    known = History(input_tokens=2000.0, output_tokens=321.0)
    prompt, prices = load_prompt(run.prompt), load_prices()
    cost = estimate(run, prompt, told, prices, model="gemini-3.8-flash", most_output=8000, now=NOW, history=known)
    assert (cost.input_tokens, cost.output_tokens, cost.measured) == (20_000, 3210, True)
    own = estimate(
        run, prompt, told, prices, model="gemini-3.8-flash", most_output=8000, now=NOW, history=known, answer=50
    )
    assert (own.output_tokens, own.measured) == (500, False)


def test_a_model_without_a_price_has_no_cost_and_an_answer_no_more_than_is_allowed(shelf: Shelf) -> None:
    run = shelf.run(model={"generation_config": {"max_output_tokens": 700}})
    told = Survey(pages=2, chains=Counter({1: 2}))
    cost = estimate(run, load_prompt(run.prompt), told, load_prices(), model="my-model", most_output=8000, now=NOW)
    assert (cost.cost, cost.most, cost.price) == (None, None, None)
    assert (cost.answer, cost.longest_answer) == (700, 700)


@pytest.mark.parametrize(
    ("left", "pages"),
    [(4000, None), (3999, 100), (1400, 100), (900, 60), (400, 10), (399, 0), (0, 0)],
)
def test_a_budget_is_known_to_hold_a_run_up(left: int, pages: int | None) -> None:
    """A hundred pages in batches of ten, each 10 and at most 40."""
    told = Survey(pages=100, ready=10, chains=Counter({10: 10}))
    cost = Estimate("m", 0, 0, cost=1000, most=4000, image=0, words=0, answer=0, longest_answer=0, measured=False,
                    price=None)  # fmt: skip
    assert pages_until_pause(told, cost, size=10, left=left) == pages
