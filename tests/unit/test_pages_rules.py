"""The rules of the pages pipeline: how a book is written down, who can run, what a look at the outputs and a failure
mean."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipelines.pages import rules
from penstock.pipelines.pages.model import Execution, Filters, OnDeadPage, Years
from penstock.pipelines.pages.rules import DEAD, DONE, FLYING, FOUND, GAP, WORK, Head, Numbering, Strikes


@st.composite
def spellings(draw: st.DrawFn) -> dict[int, str]:
    """Some page numbers with gaps between them, each with its own spelling."""
    numbers = draw(st.sets(st.integers(0, 40) | st.integers(95, 105) | st.integers(9_995, 10_005), max_size=40))
    width = draw(st.sampled_from([0, 0, 4, 6]))
    odd = draw(st.sets(st.sampled_from(sorted(numbers)), max_size=4)) if numbers else set()
    return {number: str(number).zfill(3 if number in odd else width) for number in numbers}


@st.composite
def books(draw: st.DrawFn) -> tuple[Numbering, str, dict[int, str]]:
    """A book in any state at all, and the letters of its pages."""
    names = draw(spellings())
    numbering = Numbering(rules.numbered(list(names.values()))[0])
    letters = {number: draw(st.sampled_from([WORK, FLYING, DONE, FOUND, DEAD])) for number in sorted(names)}
    return numbering, rules.changed(numbering, rules.all_to_do(numbering.text), letters), letters


def book(numbers: list[int]) -> tuple[Numbering, str]:
    numbering = Numbering(rules.numbered([f"{number:04d}" for number in numbers])[0])
    return numbering, rules.all_to_do(numbering.text)


def ready(numbers: list[int], done: list[int], on_dead: OnDeadPage = "block", dead: tuple[int, ...] = ()) -> list[int]:
    numbering, states = book(numbers)
    states = rules.changed(numbering, states, dict.fromkeys(done, DONE) | dict.fromkeys(dead, DEAD))
    return [head.number for head in rules.heads(numbering, states, on_dead)]


# How a book is written down.


@given(spellings(), st.randoms())
def test_every_page_is_found_again_with_its_number_its_place_and_its_spelling(
    names: dict[int, str], dice: Random
) -> None:
    shuffled = list(names.values())
    dice.shuffle(shuffled)
    written, left_out = rules.numbered(shuffled)
    numbering = Numbering(written)
    assert left_out == []
    assert list(numbering) == sorted(names)
    assert {number: numbering.name(number) for number in numbering} == names
    places = [numbering.place(number) for number in numbering]
    assert [numbering.number(place) for place in places if place is not None] == sorted(names)
    assert [name for name in numbering.names() if name] == [names[number] for number in sorted(names)]
    assert Numbering(numbering.text).names() == numbering.names()


@given(spellings())
def test_letters_stand_where_the_pages_are_and_a_blank_where_a_chain_ends(names: dict[int, str]) -> None:
    numbering = Numbering(rules.numbered(list(names.values()))[0])
    states = rules.all_to_do(numbering.text)
    assert numbering.size == len(states) == len(numbering.names())
    ordered = sorted(names)
    for before, number in pairwise(ordered):
        one, other = numbering.place(before), numbering.place(number)
        assert one is not None and other is not None
        assert states[one + 1 : other] == ("" if number == before + 1 else GAP)


@given(spellings(), st.integers(0, 11_000))
def test_a_page_that_is_not_in_the_book_has_no_place(names: dict[int, str], number: int) -> None:
    numbering = Numbering(rules.numbered(list(names.values()))[0])
    assert (numbering.place(number) is None) == (number not in names)
    assert (rules.state_of(numbering, rules.all_to_do(numbering.text), number) is None) == (number not in names)


@pytest.mark.parametrize(
    ("names", "written", "left_out"),
    [
        ([], "", []),
        (["0007"], "0007", []),
        (["0002", "0001", "0003"], "0001-0003", []),
        (["3", "4", "5", "12"], "3-5 12", []),
        (["8", "9", "10", "11"], "8-11", []),
        (["0099", "0100", "0102"], "0099-0100 0102", []),
        (["1", "02", "3"], "1,02,3", []),
        (["1", "01", "2"], "01,2", ["1"]),
        (["1", "cover", "2", "-3", "٤", "", "1234567890"], "1-2", ["", "-3", "1234567890", "cover", "٤"]),
    ],
)
def test_how_label_files_are_written_down(names: list[str], written: str, left_out: list[str]) -> None:
    assert rules.numbered(names) == (written, left_out)


# Who can run.


@pytest.mark.parametrize(
    ("numbers", "done", "expected"),
    [
        ([], [], []),
        ([1, 2, 3], [], [1]),
        ([1, 2, 3], [1], [2]),
        ([1, 2, 3], [1, 2, 3], []),
        ([1, 2, 5], [], [1, 5]),
        ([3, 4, 5, 12], [3, 12], [4]),
        ([1, 2, 3], [2], [1, 3]),
    ],
)
def test_a_page_waits_for_the_one_before_it_and_a_gap_starts_a_new_chain(
    numbers: list[int], done: list[int], expected: list[int]
) -> None:
    assert ready(numbers, done) == expected


def test_a_dead_page_blocks_its_chain_or_is_skipped() -> None:
    assert ready([1, 2, 3, 7, 8], [1], "block", dead=(2,)) == [7]
    assert ready([1, 2, 3, 7, 8], [1], "skip", dead=(2,)) == [3, 7]


@given(books(), st.sampled_from(["block", "skip"]))
def test_a_page_can_run_if_and_only_if_the_one_before_it_is_done_or_not_in_the_book(
    given_book: tuple[Numbering, str, dict[int, str]], on_dead: OnDeadPage
) -> None:
    numbering, states, letters = given_book
    passed = {None, DONE, FOUND} | ({DEAD} if on_dead == "skip" else set())
    expected = []
    for number, letter in letters.items():
        if letter == WORK and letters.get(number - 1) in passed:
            last = number
            while letters.get(last + 1) == WORK:
                last += 1
            expected.append(Head(number, last - number + 1))
    assert rules.heads(numbering, states, on_dead) == expected


@given(books())
def test_what_is_counted_is_what_is_there(given_book: tuple[Numbering, str, dict[int, str]]) -> None:
    _, states, letters = given_book
    values = list(letters.values())
    assert rules.tally(states) == rules.Tally(
        total=len(values),
        done=values.count(DONE) + values.count(FOUND),
        flying=values.count(FLYING),
        dead=values.count(DEAD),
        found=values.count(FOUND),
    )


# What a look at the folders means.


@given(books(), spellings())
def test_pages_that_stay_keep_their_states_when_labels_come_and_go(
    given_book: tuple[Numbering, str, dict[int, str]], names: dict[int, str]
) -> None:
    numbering, states, letters = given_book
    new = Numbering(rules.numbered(list(names.values()))[0])
    moved = rules.moved(numbering, states, new)
    assert {number: rules.state_of(new, moved, number) for number in new} == {
        number: letters.get(number, WORK) for number in names
    }
    assert [at for at, letter in enumerate(moved) if letter == GAP] == [
        at for at, letter in enumerate(rules.all_to_do(new.text)) if letter == GAP
    ]


@given(books(), st.data())
def test_an_output_that_came_is_found_and_one_that_went_is_work_again(
    given_book: tuple[Numbering, str, dict[int, str]], data: st.DataObject
) -> None:
    numbering, states, letters = given_book
    names = [numbering.name(number) for number in numbering]
    some = st.sets(st.sampled_from(names)) if names else st.just(set())
    there, unpublished = data.draw(some), frozenset(data.draw(some))
    after = rules.seen(numbering, states, [*there, "99999", "cover"], unpublished)
    for number, letter in letters.items():
        name = numbering.name(number)
        if name in there:
            expected = FOUND if letter in (WORK, DEAD) else letter
        elif letter == FOUND or (letter == DONE and name not in unpublished):
            expected = WORK
        else:
            expected = letter
        assert rules.state_of(numbering, after, number) == expected
    assert after.count(GAP) == states.count(GAP)


def test_an_output_under_another_spelling_is_not_the_pages_output() -> None:
    numbering, states = book([1, 2])
    assert rules.seen(numbering, states, ["1", "0002"]) == "w?"
    assert rules.seen(numbering, "dd", [], frozenset({"1", "0002", "0007"})) == "wd"


@given(books(), st.dictionaries(st.integers(0, 11_000), st.sampled_from([WORK, DONE])))
def test_changing_pages_that_are_not_in_the_book_changes_nothing_else(
    given_book: tuple[Numbering, str, dict[int, str]], changes: dict[int, str]
) -> None:
    numbering, states, letters = given_book
    after = rules.changed(numbering, states, changes)
    assert {n: rules.state_of(numbering, after, n) for n in letters} == {n: changes.get(n, letters[n]) for n in letters}


# What a failure means.


def fails(kind: rules.FailureType, *, max_retries: int = 3, free: int = 1, times: int) -> list[rules.Judged]:
    most, strikes, told = Execution(max_retries=max_retries).most_failures, Strikes(), []
    for _ in range(times):
        told.append(rules.judge(strikes, kind, most_failures=most, batch_failures_free=free))
        strikes = told[-1].strikes
    return told


@pytest.mark.parametrize(
    "kind", ["api_error", "blocked", "truncated", "invalid_json", "schema", "missing", "duplicate"]
)
def test_three_retries_are_one_try_and_three_more(kind: rules.FailureType) -> None:
    assert [judged.dead for judged in fails(kind, max_retries=3, times=4)] == [False, False, False, True]


def test_no_retries_are_one_try() -> None:
    assert [judged.dead for judged in fails("schema", max_retries=0, times=1)] == [True]


@pytest.mark.parametrize(("free", "counted"), [(0, [True] * 3), (1, [False, True, True]), (3, [False] * 3)])
def test_whole_batches_that_fail_are_counted_after_the_free_ones(free: int, counted: list[bool]) -> None:
    assert [judged.counted for judged in fails("batch", free=free, times=3)] == counted


def test_a_page_whose_batches_always_fail_dies_in_the_end() -> None:
    assert [judged.dead for judged in fails("batch", max_retries=1, free=2, times=4)] == [False, False, False, True]


def test_lost_uploads_are_not_the_pages_fault_for_a_while() -> None:
    judged = fails("file_lost", max_retries=0, times=rules.MOST_LOST_FILES + 1)
    assert [one.counted for one in judged] == [False] * rules.MOST_LOST_FILES + [True]
    assert judged[-1].dead


def test_free_failures_do_not_use_up_the_retries() -> None:
    strikes = Strikes()
    for kind in ("batch", "file_lost", "schema"):
        judged = rules.judge(strikes, kind, most_failures=2, batch_failures_free=1)  # type: ignore[arg-type]
        strikes = judged.strikes
    assert strikes == Strikes(failures=1, batch_failures=1, file_failures=1)
    assert not judged.dead


def test_a_page_without_an_image_is_dead_at_once_and_nothing_is_counted() -> None:
    judged = rules.judge(Strikes(1, 0, 0), "image", most_failures=1000, batch_failures_free=1)
    assert judged.dead and not judged.counted and judged.strikes == Strikes(1, 0, 0)


# Filters.


@pytest.mark.parametrize(
    ("filters", "admitted"),
    [
        (Filters(), [("Ohio", 1849), ("Ohio", 1850), ("Iowa", 1850)]),
        (Filters(target_states=("Ohio",)), [("Ohio", 1849), ("Ohio", 1850)]),
        (Filters(target_years=Years(start=1850)), [("Ohio", 1850), ("Iowa", 1850)]),
        (Filters(target_years=Years(start=1849, end=1849)), [("Ohio", 1849)]),
        (Filters(target_states=("Iowa",), target_years=Years(end=1849)), []),
        (Filters(target_states=()), []),
    ],
)
def test_filters_admit_states_and_years_inclusively(filters: Filters, admitted: list[tuple[str, int]]) -> None:
    all_of_them = [("Ohio", 1849), ("Ohio", 1850), ("Iowa", 1850)]
    assert [book for book in all_of_them if filters.admits(*book)] == admitted
