"""The embedder that needs nothing but this machine: the mean of a text's word vectors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from penstock import wordvectors
from penstock.engine.errors import InvalidRequest, Permanent
from penstock.pipelines.ingestion.model import EmbedderSpec
from penstock.pipelines.ingestion.plugins import Vectors

if TYPE_CHECKING:
    from penstock.config import Settings
    from penstock.engine.context import Context
    from penstock.engine.engine import Engine

AT_ONCE = 256
"""Texts in one trip to a thread: some 50 ms of work."""


def local(spec: EmbedderSpec, settings: Settings) -> LocalEmbedder:
    if spec.model not in (None, wordvectors.NAME):
        raise InvalidRequest(f"the local embedder has one model, {wordvectors.NAME}, not {spec.model!r}")
    if spec.batch:
        raise InvalidRequest("the local embedder has no batches, and costs nothing: leave `batch` out")
    dimension = spec.dimension or wordvectors.DIMENSIONS
    if dimension > wordvectors.DIMENSIONS:
        raise InvalidRequest(
            f"the local embedder gives vectors of 1 to {wordvectors.DIMENSIONS} dimensions, not {dimension}"
        )
    return LocalEmbedder(dimension)


class LocalEmbedder:
    """The same text has the same vector on every machine, whatever is asked with it. A text without a word has zeros,
    which are like nothing."""

    name = "local"
    model = wordvectors.NAME
    at_once = AT_ONCE

    def __init__(self, dimension: int = wordvectors.DIMENSIONS) -> None:
        self.dimension = dimension

    async def embed(self, texts: Sequence[str], ctx: Context, key: str) -> Vectors:
        return await asyncio.to_thread(self.vectors, texts)

    async def embed_query(self, text: str, engine: Engine) -> Vectors:
        return await asyncio.to_thread(self.vectors, [text])

    async def trial(self, texts: Sequence[str]) -> None:
        """For a plan, which wants to know how long it takes."""
        await asyncio.to_thread(self.vectors, texts)

    def price(self, tokens: int) -> int | None:
        return 0

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Blocking."""
        for number, text in enumerate(texts, 1):
            if len(text) > wordvectors.LONGEST:
                much = f"{len(text)} characters; at most {wordvectors.LONGEST} are embedded"
                raise Permanent(f"text {number} of {len(texts)} has {much}")
        totals = wordvectors.word_vectors().totals(texts)
        return wordvectors.of_unit_length(totals, self.dimension).astype(np.float32)
