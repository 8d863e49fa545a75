"""One ranking out of several: reciprocal rank fusion, and the rankings that hybrid search fuses.

Only ranks count, so that scores need no common scale: a chunk gets `weight / (K + rank)` from each ranking that has it.
K is 10, where the usual 60 nearly forgets who was first. Words weigh more than the local embedder's vectors, which are
means of word vectors and tell neighbouring paragraphs of one article apart badly: fused with them, full text is no
better on short English paragraphs than alone, whatever the weights, for where it errs they mostly err alike. What both
lack is told by a third ranking, how close the question is to the best passage within a chunk, word by word
(`closeness`); it is asked only of the best candidates of the two. `bench/ingestion_retrieval.py` has the figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.pipelines.ingestion.index.closeness import closeness

Ranking = Sequence[tuple[int, float]]
"""Numbers of chunks with their scores, the best first."""

K = 10

WORDS, MEANING, CLOSENESS = 1.0, 0.4, 1.0
"""What the three rankings weigh, with the local embedder."""

READING = 1.0
"""What the vectors of an embedder weigh that reads whole sentences."""

DEPTH = 20
"""How many of the best candidates are compared word by word: more take longer, and the far ones only mislead."""


def reciprocal(rankings: Sequence[Ranking], weights: Sequence[float], *, k: float = K) -> list[tuple[int, float]]:
    """Any rankings, fused. Ties by number, so that the same question has the same answer."""
    scores: dict[int, float] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        for rank, (number, _) in enumerate(ranking, 1):
            scores[number] = scores.get(number, 0.0) + weight / (k + rank)
    return sorted(scores.items(), key=lambda scored: (-scored[1], scored[0]))


def weight_of(embedder: str) -> float:
    """What vectors of this embedder weigh beside words."""
    return MEANING if embedder == "local" else READING


def fused(by_meaning: Ranking, by_words: Ranking, *, meaning: float = MEANING) -> list[tuple[int, float]]:
    """Candidates by vectors and by full text in one ranking: what `refined` is given the texts of the best of."""
    return reciprocal([by_words, by_meaning], [WORDS, meaning])


def refined(
    question: str, by_meaning: Ranking, by_words: Ranking, texts: Mapping[int, str], *, meaning: float = MEANING
) -> list[tuple[int, float]]:
    """The ranking of hybrid search. `texts` has the texts of the best candidates, those that may be shown; the others
    come after them. Blocking: some milliseconds."""
    numbers = list(texts)
    close = zip(numbers, closeness(question, [texts[number] for number in numbers]), strict=True)
    by_passage = sorted(close, key=lambda scored: (-scored[1], scored[0]))
    best = reciprocal([by_words, by_meaning, by_passage], [WORDS, meaning, CLOSENESS])
    return [each for each in best if each[0] in texts] + [each for each in best if each[0] not in texts]
