"""How close a question is to the best passage of a text, word by word: late interaction, with the word vectors that
come with Penstock, whatever embedder the knowledge base has.

Each word of the question is compared with each word of a passage and counts as much as the most similar one is; so a
misspelt or inflected word, or a part of a German compound, finds its like, where full text finds nothing and a mean of
vectors drowns it. Words that few of the texts have count more: they are what tells the texts apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.pipelines.ingestion.index.query import LONGEST, Asked, asked
from penstock.wordvectors import word_vectors

PASSAGE = 64
"""Tokens of a passage, about three sentences; each begins half a passage after the one before."""

MOST_TOKENS = 20_000
"""Of one text; a chunk has a few hundred."""

_SAME = 0.999

Similar = NDArray[np.float32]


def closeness(question: str, texts: Sequence[str]) -> list[float]:
    """For each text a number up to 1. Blocking."""
    words = word_vectors()
    tokens = np.unique(words._tokens(_told(question, asked(question))))
    if not len(tokens) or not texts:
        return [0.0] * len(texts)
    told = _unit(words._table[tokens])
    passages = [_passages(told, _unit(words._table[words._tokens(text)[:MOST_TOKENS]])) for text in texts]
    weights = _weights(np.stack([each.max(axis=0) for each in passages]))
    return [float((each @ weights).max()) for each in passages]


def _told(question: str, what: Asked) -> str:
    """Only the words that mean something, as they are written: capitals are other tokens than small letters."""
    kept = set(what.words)
    words = [word for word in question[:LONGEST].split() if any(part.lower() in kept for part in _parts(word))]
    return " ".join(words)


def _parts(word: str) -> list[str]:
    return "".join(char if char.isalnum() else " " for char in word).split()


def _unit(vectors: Similar) -> Similar:
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return np.asarray(vectors / np.maximum(lengths, 1e-6)[:, None], np.float32)


def _passages(question: Similar, text: Similar) -> Similar:
    """One row for each passage: how similar its most similar word is to each word of the question."""
    if not len(text):
        return np.zeros((1, len(question)), np.float32)
    similar: Similar = text @ question.T
    half = PASSAGE // 2
    if len(similar) <= PASSAGE:
        return np.asarray(similar.max(axis=0, keepdims=True))
    halves = np.maximum.reduceat(similar, np.arange(0, len(similar), half), axis=0)
    return np.maximum(halves[:-1], halves[1:])


def _weights(best: Similar) -> Similar:
    """By how many of the texts have the word itself, as in BM25."""
    count = len(best)
    having = (best > _SAME).sum(axis=0)
    weights = np.log(1 + (count - having + 0.5) / (having + 0.5))
    return np.asarray(weights / weights.sum(), np.float32)
