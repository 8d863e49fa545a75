"""How close a question is to the best passage of a text, word by word: late interaction, with the word vectors that
come with Penstock, whatever embedder the knowledge base has.

Each word of the question is compared with each word of a passage and counts as much as the most similar one is; so a
misspelt or inflected word, or a part of a German compound, finds its like, where full text finds nothing and a mean of
vectors drowns it. A word that has its like in all the texts tells none of them apart, and counts less.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.pipelines.ingestion.index.query import asked, words_of
from penstock.wordvectors import word_vectors

PASSAGE = 128
"""Tokens of a passage, about five sentences; each begins half a passage after the one before."""

MOST_TOKENS = 20_000
"""Of one text; a chunk has a few hundred."""

_LEAST = 0.05

Similar = NDArray[np.float32]


def closeness(question: str, texts: Sequence[str]) -> list[float]:
    """For each text a number up to 1. Blocking: some 10 ms for 20 chunks."""
    if not texts:
        return []
    vectors = word_vectors()
    kept = set(asked(question).words)
    told = " ".join(word for word in words_of(question) if word.lower() in kept)
    tokens = np.unique(vectors.tokens(told)) if told else np.empty(0, np.uint16)
    if not len(tokens):
        return [0.0] * len(texts)
    # Each word that the texts have is compared once; then a text is looked up. Not by BLAS, whose threads spin while
    # they wait for each other, and take many times as long on a busy machine.
    read = [vectors.tokens(text)[:MOST_TOKENS] for text in texts]
    distinct, places = np.unique(np.concatenate(read), return_inverse=True)
    similar = np.einsum("ij,kj->ik", _unit(vectors.table[distinct]), _unit(vectors.table[tokens]))
    ends = np.cumsum([len(each) for each in read])[:-1]
    passages = [_passages(similar[each]) for each in np.split(places, ends)]
    common = np.stack([each.max(axis=0) for each in passages]).mean(axis=0)
    weights = np.maximum(1 - common, 0) + _LEAST
    return [float((each @ weights).max() / weights.sum()) for each in passages]


def _unit(vectors: Similar) -> Similar:
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return np.asarray(vectors / np.maximum(lengths, 1e-6)[:, None], np.float32)


def _passages(similar: Similar) -> Similar:
    """From one row for each word of a text to one for each passage: how similar the most similar word of it is."""
    if not len(similar):
        return np.zeros((1, similar.shape[1]), np.float32)
    halves = np.maximum.reduceat(similar, np.arange(0, len(similar), PASSAGE // 2), axis=0)
    return halves if len(halves) == 1 else np.maximum(halves[:-1], halves[1:])
