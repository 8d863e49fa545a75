"""The grid of books: what stands where, without a browser."""

from __future__ import annotations

import pytest

from penstock.pipelines.pages.dashboard.book import PAGE, pieces
from penstock.pipelines.pages.dashboard.grid import CELLS, KINDS, LINES, TALL, strip, strips
from penstock.pipelines.pages.reading import BookRow


def book(pages: str, states: str, ready: tuple[int, ...] = (), school: str = "Howard College") -> BookRow:
    total = len(states.replace(" ", ""))
    return BookRow("Ohio/x/1850", "Ohio", school, 1850, pages, states, total, states.count("d"),
                   states.count("f"), states.count("x"), ready)  # fmt: skip


def told(row: BookRow) -> list[tuple[str, str, str, str]]:
    return [(one.kind.name, one.x, one.width, one.title) for one in strip(row).stretches]


def test_pages_of_one_state_are_one_rectangle_and_a_gap_is_none() -> None:
    assert told(book("0001-0004 0007-0008", "dddf wx", ready=(7,))) == [
        ("done", "0%", "3%", "pages 0001 to 0003: done"),
        ("in flight", "3%", "1%", "page 0004: in flight"),
        ("ready", "5%", "1%", "page 0007: ready"),
        ("dead", "6%", "1%", "page 0008: dead"),
    ]


def test_a_line_has_a_hundred_cells() -> None:
    made = strip(book("1-250", "d" * 250))
    assert (made.lines, made.height, made.dense) == (3, 3 * TALL, False)
    assert [(one.first, one.count, one.width) for one in made.stretches] == [
        ("1", 100, "100%"), ("101", 100, "100%"), ("201", 50, "50%"),
    ]  # fmt: skip


@pytest.mark.parametrize("size", [CELLS * LINES + 1, 5_000, 99_999])
def test_a_long_book_has_no_more_lines(size: int) -> None:
    made = strip(book(f"1-{size}", "d" * (size - 2) + "xw"))
    assert made.lines == LINES and made.dense and len(made.stretches) <= LINES + 2
    assert sum(one.count for one in made.stretches) == size


def test_short_books_have_wide_cells_as_long_as_all_are_short() -> None:
    short, long = book("1-20", "d" * 20), book("1-41", "d" * 41)
    assert [one.stretches[0].width for one in strips([short])] == ["50%"]
    assert [one.stretches[0].width for one in strips([short, long])] == ["20%", "41%"]
    assert strips([]) == []


def test_states_are_told_apart_without_colours() -> None:
    looks = {(kind.y, kind.height, kind.slug if kind.pattern else "") for kind in KINDS.values()}
    assert len(looks) == len(KINDS) == len({kind.letter for kind in KINDS.values()})


def test_an_address_carries_any_name() -> None:
    assert strip(book("1", "w", school="Ob:erlin 50% / ü")).key == "Ohio:Ob%253Aerlin%2050%2525%20%2F%20%C3%BC:1850"


def test_an_empty_book_is_an_empty_strip() -> None:
    assert strip(book("", "")).stretches == () and strip(book("", "")).height == TALL


def test_a_long_book_is_listed_piece_by_piece() -> None:
    row = book(f"1-400 405-{PAGE + 104}", "d" * 400 + " " + "w" * (PAGE - 300))
    first, following = pieces(row, 0)
    assert [(chain[0][0], chain[-1][0]) for chain in first] == [("1", "400"), ("405", "504")] and following == 505
    rest, end = pieces(row, following)
    assert (rest[0][0][0], rest[-1][-1][0], end) == ("505", str(PAGE + 104), None)
    assert pieces(row, 10_000) == ([], None)
