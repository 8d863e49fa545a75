"""A question is asked of full text by its words and phrases; nothing in it is syntax, whatever it looks like."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipelines.ingestion.index.query import (
    LONGEST,
    MOST_PHRASES,
    MOST_TERMS,
    Asked,
    asked,
    fts5,
    plain,
)


@pytest.fixture(scope="module")
def full_text() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5(text, content='', tokenize='porter unicode61')")
    texts = ["the gate of the penstock", "near the gate: a col:umn", "turbines and gates"]
    connection.executemany("INSERT INTO t (rowid, text) VALUES (?, ?)", enumerate(texts, 1))
    yield connection
    connection.close()


def found(connection: sqlite3.Connection, question: str) -> list[int]:
    what = asked(question)
    if not what:
        return []
    sql = "SELECT rowid FROM t WHERE t MATCH ? ORDER BY bm25(t), rowid"
    return [n for (n,) in connection.execute(sql, (fts5(what),))]


def test_words_that_every_text_has_are_left_out() -> None:
    assert asked("What is the role of the gate?").words == ("role", "gate")
    assert asked("Wann wurde die Schleuse gebaut?").words == ("schleuse", "gebaut")
    assert asked("Quelle est la hauteur du barrage ?").words == ("hauteur", "barrage")


def test_which_words_those_are_depends_on_the_questions_language() -> None:
    assert asked("How did sailors die in the war?").words == ("sailors", "die", "war")
    assert asked("Wie hoch war die Mauer?").words == ("hoch", "mauer")


def test_one_or_two_words_are_meant_as_they_are_written_and_more_of_nothing_are_nothing() -> None:
    assert asked("war").words == ("war",)
    assert asked("the who").words == ("the", "who")
    assert not asked("what is it about?")


def test_capitals_are_names() -> None:
    assert asked("Who runs the IT department?").words == ("runs", "it", "department")
    assert asked("Is vitamin D good?").words == ("vitamin", "d", "good")
    assert asked("WHAT IS THE ROLE OF A GATE").words == ("role", "gate")


@pytest.mark.parametrize("question", ['"balance billing" rules', "“balance billing” rules", "„balance billing“ rules"])
def test_what_stands_in_quotes_is_a_phrase_and_its_words_count_too(question: str) -> None:
    assert asked(question) == Asked(("balance", "billing", "rules"), (("balance", "billing"),))


def test_a_phrase_is_found_as_it_stands(full_text: sqlite3.Connection) -> None:
    assert found(full_text, '"near the gate"')[0] == 2
    assert found(full_text, '"penstock the of gate"') == found(full_text, "penstock gate")


def test_a_pasted_page_is_cut(full_text: sqlite3.Connection) -> None:
    page = " ".join(f'word{n} "gate {n}"' for n in range(10_000))
    what = asked(page)
    assert len(what.words) == MOST_TERMS and len(what.phrases) == MOST_PHRASES
    assert not asked(" " * LONGEST + "gate")
    assert asked("x" * 100_000) == Asked()
    assert found(full_text, page) == found(full_text, "gate")


@pytest.mark.parametrize(
    "question",
    ['"', '""', '"gate', "gate*", "-gate", "^gate", "text:gate", "gate AND", "OR", "NEAR(gate", "gate NEAR/2 penstock",
     "(gate", "gate)", "{text}: gate", "'; DROP TABLE t; --", "gate\0", "\ud800gate", "🌊🌊", "", "   ",
     "«»", "%", "_"],
)  # fmt: skip
def test_nothing_in_a_question_is_syntax(full_text: sqlite3.Connection, question: str) -> None:
    assert set(found(full_text, question)) == ({1, 2, 3} if "gate" in question else set())


@given(st.text(st.characters() | st.sampled_from('"*:^-(){}+ NEAR'), max_size=60))
def test_no_question_breaks_full_text(full_text: sqlite3.Connection, question: str) -> None:
    found(full_text, question)


def test_a_text_for_postgresql_has_nothing_but_words() -> None:
    assert plain("Don't e-mail me@x.org!") == "don t e mail me x org "
    assert plain("Größe: naïve ﬁle_№5") == "große naive file no5"
    assert plain("v1.2 -5 /etc/x") == "v1 2 5 etc x"


@given(st.text(max_size=200))
def test_postgresql_is_given_the_same_words_however_often_it_is_made_plain(text: str) -> None:
    once = plain(text)
    assert plain(once) == once
