"""Vectors for the chunks of a group. A text that the embedder refuses is found by halving, so that one bad chunk does
not cost the others; an embedder that does not answer is waited for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.engine.context import Context
from penstock.engine.errors import InvalidConfiguration, Permanent
from penstock.pipelines.ingestion.plugins import Embedder, Vectors


@dataclass(slots=True)
class Embedded:
    """Content hash → vector, and → why there is none."""

    vectors: dict[str, Vectors] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


async def embedded(embedder: Embedder, texts: dict[str, str], ctx: Context) -> Embedded:
    """One vector for each text. Errors that may pass are raised; they concern all of them."""
    result = Embedded()
    hashes = list(texts)
    for start in range(0, len(hashes), embedder.at_once):
        await _embed(embedder, hashes[start : start + embedder.at_once], texts, ctx, result)
    return result


async def _embed(embedder: Embedder, hashes: Sequence[str], texts: dict[str, str], ctx: Context, to: Embedded) -> None:
    key = f"embed:{hashlib.sha256(''.join(hashes).encode()).hexdigest()[:32]}"
    try:
        vectors = await embedder.embed([texts[hash] for hash in hashes], ctx, key)
        check_vectors(embedder, vectors, len(hashes))
    except Permanent as error:
        if len(hashes) == 1:
            to.refused[hashes[0]] = str(error)
            return
        middle = len(hashes) // 2
        await _embed(embedder, hashes[:middle], texts, ctx, to)
        await _embed(embedder, hashes[middle:], texts, ctx, to)
        return
    to.vectors.update(zip(hashes, vectors, strict=True))


def check_vectors(embedder: Embedder, vectors: Vectors, count: int) -> None:
    """As many as there are texts, of the length that the knowledge base is pinned to, and numbers all of them."""
    if vectors.shape != (count, embedder.dimension):
        # No text's fault: nobody is to look for the culprit among them.
        raise InvalidConfiguration(
            f"the embedder {embedder.name} gave {' × '.join(map(str, vectors.shape))} numbers for {count} texts, not"
            f" {count} × {embedder.dimension}"
        )
    if not np.isfinite(vectors).all():
        raise Permanent(f"the embedder {embedder.name} gave a vector with a value that is no number")
