"""How candidates become one ranking: fused by their ranks, refined by how close their passages are to the question, and
by BM25 as FTS5 counts it."""

from __future__ import annotations

import sqlite3

import pytest

from penstock.pipelines.ingestion.index.bm25 import Candidate, Term, ranked
from penstock.pipelines.ingestion.index.closeness import PASSAGE, closeness
from penstock.pipelines.ingestion.index.fusion import fused, reciprocal, refined

TEXTS = [
    "the gate feeds the turbine and the gate closes",
    "a penstock is a pipe with a gate",
    "turbines turn generators",
    "the weather was fine",
    "rivers and lakes " * 20,
]


def test_who_is_first_in_one_and_second_in_the_other_comes_before_who_is_third_in_both() -> None:
    first = [(7, 0.9), (8, 0.8), (9, 0.7)]
    second = [(8, 31.0), (7, 30.0), (9, 2.0)]
    assert [n for n, _ in reciprocal([first, second], [1, 1])] == [7, 8, 9]


def test_only_ranks_count_and_ties_go_by_number() -> None:
    assert reciprocal([[(5, 1.0)], [(3, 1e9)]], [1, 1]) == reciprocal([[(5, 0.1)], [(3, 0.1)]], [1, 1])
    assert [n for n, _ in reciprocal([[(5, 1.0)], [(3, 1.0)]], [1, 1])] == [3, 5]
    assert reciprocal([[], []], [1, 1]) == []


def test_words_weigh_more_than_vectors_and_an_embedder_that_reads_weighs_as_much() -> None:
    assert [n for n, _ in fused([(1, 0.9)], [(2, 3.0)])] == [2, 1]
    assert [n for n, _ in fused([(1, 0.9)], [(2, 3.0)], meaning=1.0)] == [1, 2]


def test_the_best_candidates_are_ordered_by_their_passages_too() -> None:
    texts = {1: TEXTS[2], 2: TEXTS[1], 3: TEXTS[3]}
    by_meaning, by_words = [(2, 0.5), (1, 0.4), (3, 0.3), (4, 0.1)], [(1, 2.0), (2, 1.9)]
    assert [n for n, _ in fused(by_meaning, by_words)] == [1, 2, 3, 4]
    assert [n for n, _ in refined("What pipe has a gate?", by_meaning, by_words, texts)] == [2, 1, 3, 4]


def test_what_has_no_text_comes_after_what_has() -> None:
    assert [n for n, _ in refined("gate", [(9, 1.0), (1, 0.1)], [(9, 5.0)], {1: TEXTS[0]})] == [1, 9]
    assert refined("gate", [], [], {}) == []


def test_a_misspelt_word_finds_its_like() -> None:
    texts = ["Which hearing care services are covered", "How claims are sent in", "Holidays of the staff"]
    scores = closeness("What typs of hearin care servises are there?", texts)
    assert scores[0] == max(scores) and all(0 <= score <= 1.001 for score in scores)


def test_words_that_stand_together_are_closer_than_the_same_words_far_apart() -> None:
    filler = "and so on it went for a long while " * PASSAGE
    together, apart = f"the turbine broke in March {filler}", f"the turbine {filler} broke {filler} March"
    near, far = closeness("Which turbine broke in March?", [together, apart])
    assert near > far


@pytest.mark.parametrize("question", ["", "what is it about?", "🌊", "\ud800", "\0", "x" * 100_000])
def test_any_question_has_an_answer(question: str) -> None:
    assert len(closeness(question, ["", "a gate", "🌊"])) == 3
    assert closeness(question, []) == []


def test_bm25_is_that_of_fts5() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5(text, content='')")
    connection.executemany("INSERT INTO t (rowid, text) VALUES (?, ?)", enumerate(TEXTS, 1))
    theirs = connection.execute(
        "SELECT rowid, -bm25(t) FROM t WHERE t MATCH ? ORDER BY bm25(t), rowid", ('gate OR penstock OR "the gate"',)
    ).fetchall()
    connection.close()
    words = [text.split() for text in TEXTS]
    candidates = [
        Candidate(n, len(split), {word: [at for at, each in enumerate(split) if each == word] for word in split})
        for n, split in enumerate(words, 1)
    ]
    terms = [Term((("gate", 0),), 2), Term((("penstock", 0),), 1), Term((("the", 0), ("gate", 1)), 1)]
    average = sum(map(len, words)) / len(words)
    ours = ranked(terms, candidates, texts=len(TEXTS), average=average)
    assert [n for n, _ in ours] == [n for n, _ in theirs]
    assert [score for _, score in ours] == pytest.approx([score for _, score in theirs])
