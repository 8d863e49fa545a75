"""BM25 as SQLite's FTS5 counts it, for candidates that another database found: both stores rank alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

K1 = 1.2
B = 0.75
_LEAST = 1e-6
"""The weight of a word that more than half of all texts have."""


@dataclass(slots=True, frozen=True)
class Candidate:
    """How many words a text has, and where in it which of them stand."""

    number: int
    size: int
    positions: Mapping[str, Sequence[int]]


@dataclass(slots=True, frozen=True)
class Term:
    """A word, or a phrase: words with their distance from the first one."""

    words: tuple[tuple[str, int], ...]
    texts: int
    """How many texts have it."""

    def occurs(self, positions: Mapping[str, Sequence[int]]) -> int:
        (first, _), *others = self.words
        if not others:
            return len(positions.get(first, ()))
        rest = [(frozenset(positions.get(word, ())), distance) for word, distance in others]
        return sum(all(at + distance in places for places, distance in rest) for at in positions.get(first, ()))


def rarity(texts: int, having: int) -> float:
    """What a term weighs that so many of the texts have."""
    return max(_LEAST, math.log(max(texts - having + 0.5, 0.5) / (having + 0.5)))


def ranked(
    terms: Sequence[Term], candidates: Sequence[Candidate], *, texts: int, average: float
) -> list[tuple[int, float]]:
    """Best first, ties by number. `texts` there are, of `average` words."""
    weights = [rarity(texts, term.texts) for term in terms]
    scored = []
    for candidate in candidates:
        norm = K1 * (1 - B + B * candidate.size / max(average, 1.0))
        score = 0.0
        for term, weight in zip(terms, weights, strict=True):
            count = term.occurs(candidate.positions)
            score += weight * count * (K1 + 1) / (count + norm) if count else 0.0
        if score > 0:
            scored.append((candidate.number, score))
    return sorted(scored, key=lambda each: (-each[1], each[0]))
