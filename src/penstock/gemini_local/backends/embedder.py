"""Vectors for texts, offline: the mean of the word vectors that come with wordllama, of unit length.

A text's vector depends on that text alone, not on what else is asked for with it, so the same text gives the same
numbers every time.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.gemini_local.backend import CannotAnswer
from penstock.wordvectors import DIMENSIONS, LONGEST, of_unit_length, word_vectors


class Embedder:
    """Safe to use from several threads."""

    def embed(self, texts: Sequence[str], *, dimensions: int | None = None) -> list[list[float]]:
        """One vector for each text, cut to `dimensions` and brought back to unit length. Blocking."""
        size = DIMENSIONS if dimensions is None else dimensions
        if not 1 <= size <= DIMENSIONS:
            raise CannotAnswer(
                f"The local embedder gives vectors of 1 to {DIMENSIONS} dimensions, not {size}. Ask for at most "
                f"{DIMENSIONS}, serve an embedding model with the backend 'openai:URL', or set GEMINI_API_KEY."
            )
        for number, text in enumerate(texts):
            if not text.strip():
                raise CannotAnswer(f"Text {number + 1} of {len(texts)} is empty: there is nothing to embed.")
            if len(text) > LONGEST:
                raise CannotAnswer(
                    f"Text {number + 1} of {len(texts)} has {len(text)} characters; at most {LONGEST} are embedded."
                )
        if not texts:
            return []
        vectors = of_unit_length(word_vectors().totals(texts), size)
        for text, vector in zip(texts, vectors, strict=True):
            if not vector.any():
                raise CannotAnswer(f"A text has no meaning to the local embedder: {text[:40]!r}.")
        return [vector.tolist() for vector in vectors]
