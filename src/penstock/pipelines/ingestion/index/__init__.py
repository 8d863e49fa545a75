"""The index of a knowledge base: its vectors and its full text, in the store's own database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.errors import InvalidRequest
from penstock.pipelines.ingestion.index.contract import Hits, Index, Indexed, Row
from penstock.pipelines.ingestion.index.fusion import DEPTH, fused, refined, weight_of
from penstock.pipelines.ingestion.index.sqlite import SqliteIndex

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

__all__ = ["DEPTH", "Hits", "Index", "Indexed", "Row", "fused", "index_for", "refined", "weight_of"]

MEMORY = 256 << 20
"""Bytes of vectors that are kept, of all knowledge bases that this process searches, unless the settings say
otherwise."""


def index_for(engine: Engine) -> Index:
    """The index that goes with the engine's store. Cheap: what it remembers belongs to the store."""
    url = str(getattr(engine.store, "url", ""))
    if url.startswith("sqlite:"):
        memory = MEMORY if engine.settings is None else engine.settings.ingestion.search_memory_mb << 20
        return SqliteIndex(engine, engine.store, memory=memory)
    if url.startswith("postgres"):
        from penstock.pipelines.ingestion.index.postgres import PostgresIndex

        return PostgresIndex(engine)
    raise InvalidRequest(
        "a knowledge base needs a store in SQL, sqlite:///file.db or postgresql://…:"
        f" this one is {url or type(engine.store).__name__}"
    )
