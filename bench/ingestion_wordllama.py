"""The embedder that all contestants of the ingestion bench call: wordllama's own `embed`, in batches, as its users do.
It runs in every contestant's interpreter, so nothing of Penstock is imported here but by the plug-in."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.config import Settings
    from penstock.pipelines.ingestion.model import EmbedderSpec

DIMENSION = 256
AT_ONCE = 64
"""Texts in one call: wordllama's own default."""


@cache
def model() -> Any:
    """The model that comes with the package; nothing is downloaded."""
    import wordllama

    return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)


def vectors(texts: Sequence[str]) -> Any:
    """One row of unit length for each text. Blocking."""
    return model().embed(list(texts), norm=True, batch_size=AT_ONCE)


def plugin(spec: EmbedderSpec, settings: Settings) -> Plugin:
    return Plugin()


class Plugin:
    """What a package would bring as an entry point of the group `penstock.embedders`."""

    name = "wordllama"
    model = "wordllama-l2-supercat-256"
    dimension = DIMENSION
    at_once = AT_ONCE

    async def embed(self, texts: Sequence[str], ctx: Any, key: str) -> Any:
        return await asyncio.to_thread(vectors, texts)

    async def embed_query(self, text: str, engine: Any) -> Any:
        return await asyncio.to_thread(vectors, [text])

    def price(self, tokens: int) -> int | None:
        return 0
