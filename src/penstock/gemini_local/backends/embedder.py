"""Vectors for texts, offline: the mean of the word vectors that come with wordllama, of unit length.

The model is loaded on first use and kept. A text's vector depends on that text alone, not on what else is asked for
with it, so the same text gives the same numbers every time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.gemini_local.backend import CannotAnswer

DIMENSIONS = 256

LONGEST = 1_000_000
"""Characters of one text; more than a long novel makes no meaningful mean."""


class Embedder:
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self._loading = threading.Lock()
        self._model: Any = None

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
        model = self._loaded()
        return [_vector(model, text, size).tolist() for text in texts]

    def _loaded(self) -> Any:
        with self._loading:
            if self._model is None:
                self._model = _load()
            return self._model


def _vector(model: Any, text: str, size: int) -> NDArray[np.float64]:
    """Each token's row once, times how often it occurs: memory stays bounded however long the text is."""
    readable = text.encode(errors="replace").decode()
    tokens, counts = np.unique(model.tokenizer.encode(readable, add_special_tokens=False).ids, return_counts=True)
    rows = model.embedding[tokens][:, :size].astype(np.float64)
    total: NDArray[np.float64] = (rows * counts[:, None]).sum(axis=0)
    length = float(np.linalg.norm(total))
    if length == 0.0:
        raise CannotAnswer(f"A text has no meaning to the local embedder: {text[:40]!r}.")
    return total / length


def _load() -> Any:
    """The model from the installed package's own files. Importing wordllama sets up the root logger, which is not its
    to set up: that is undone."""
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    try:
        import wordllama  # type: ignore[import-untyped]
    finally:
        root.setLevel(before[0])
        root.handlers[:] = before[1]
    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    model.tokenizer.no_padding()
    return model
