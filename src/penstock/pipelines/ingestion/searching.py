"""Searching a knowledge base: by meaning, by words, or by both; and where each hit comes from.

The index answers with candidates; the ledger says which of them are searchable now, and in which documents they stand.
Where too few are left (hidden ones, or a filter that keeps little), more are asked for.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args
from weakref import WeakKeyDictionary

from pydantic_core import from_json

from penstock.engine.engine import Engine
from penstock.engine.errors import InvalidRequest, StoreError
from penstock.engine.model import DEFAULT_TENANT
from penstock.pipelines.ingestion import bases, metrics
from penstock.pipelines.ingestion.bases import Edition
from penstock.pipelines.ingestion.embedders import make_embedder
from penstock.pipelines.ingestion.index import DEPTH, fused, index_for, refined, weight_of
from penstock.pipelines.ingestion.model import EmbedderSpec
from penstock.pipelines.ingestion.plugins import Embedder
from penstock.pipelines.ingestion.statements import MOST, listed

Mode = Literal["hybrid", "vector", "text"]

CANDIDATES = 200
"""Asked for at first, of each kind."""

MOST_HITS = 100
LONGEST_QUESTION = 20_000

_embedders: WeakKeyDictionary[Engine, dict[EmbedderSpec, Embedder]] = WeakKeyDictionary()
_MOST_EMBEDDERS = 16


@dataclass(slots=True, frozen=True)
class Hit:
    """A chunk that was found. `source` is the address of its document; `also_in` of others that have it too."""

    score: float
    text: str
    source: str
    title: str
    position: dict[str, Any]
    metadata: dict[str, Any]
    chunk: int
    also_in: tuple[str, ...] = field(default=())


async def search(
    engine: Engine,
    base: str,
    question: str,
    *,
    tenant: str = DEFAULT_TENANT,
    top: int = 10,
    mode: Mode = "hybrid",
    filter: Mapping[str, Any] | None = None,
) -> list[Hit]:
    """The best hits first. `filter` names values of the documents' metadata; `source` and `uri` are there too, and
    `uri` may end in `*`."""
    question = question.strip()
    if not question or len(question) > LONGEST_QUESTION:
        raise InvalidRequest(f"a question has 1 to {LONGEST_QUESTION:,} characters, not {len(question):,}")
    if not 1 <= top <= MOST_HITS:
        raise InvalidRequest(f"top must be from 1 to {MOST_HITS}, not {top}")
    if mode not in get_args(Mode):
        raise InvalidRequest(f"mode must be hybrid, vector or text, not {mode!r}")
    began, edition = engine.clock.monotonic(), await _edition(engine, tenant, base)
    while edition is not None:
        try:
            hits = await _Search(engine, edition, question, top, mode, dict(filter or {})).hits()
        except (InvalidRequest, StoreError):
            before, edition = edition.number, await _edition(engine, tenant, base)
            if edition is not None and edition.number == before:
                raise
            # It was rebuilt in this moment, and the tables that were searched are gone.
            continue
        metrics.searched(engine, mode, engine.clock.monotonic() - began)
        return hits
    return []


async def _edition(engine: Engine, tenant: str, base: str) -> Edition | None:
    """The one that is searched now."""
    found = await bases.base_of(engine, tenant, base)
    return None if found.edition is None else await bases.edition_of(engine, found.edition)


class _Search:
    def __init__(
        self, engine: Engine, edition: Edition, question: str, top: int, mode: Mode, wanted: dict[str, Any]
    ) -> None:
        self._engine = engine
        self._edition = edition
        self._question = question
        self._top = top
        self._mode = mode
        self._wanted = wanted
        self._index = index_for(engine)
        self._weight = weight_of(edition.embedder.name)
        self._enough = max(top, DEPTH) if mode == "hybrid" else top

    async def hits(self) -> list[Hit]:
        vector = None
        if self._mode != "text":
            embedder = embedder_of(self._engine, self._edition)
            vector = (await embedder.embed_query(self._question, self._engine))[0]
        most = max(CANDIDATES, self._top * 4)
        while True:
            by_meaning, by_words = await asyncio.gather(self._by_meaning(vector, most), self._by_words(most))
            hits = await self._located(self._ranked(by_meaning, by_words))
            exhausted = len(by_meaning) < most and len(by_words) < most
            if len(hits) >= self._enough or exhausted:
                if self._mode == "hybrid":
                    hits = await self._refined(hits, by_meaning, by_words)
                return hits[: self._top]
            most *= 4

    async def _refined(
        self, hits: list[Hit], by_meaning: list[tuple[int, float]], by_words: list[tuple[int, float]]
    ) -> list[Hit]:
        """The best of them held against the question word by word: as many, however many are wanted, so that the order
        does not depend on that."""
        texts = {hit.chunk: hit.text for hit in hits[:DEPTH]}
        ranked = await asyncio.to_thread(refined, self._question, by_meaning, by_words, texts, meaning=self._weight)
        found, lowest, again = {hit.chunk: hit for hit in hits}, math.inf, []
        for number, score in ranked:
            if number in found:
                lowest = min(lowest, round(score, 6))
                again.append(replace(found[number], score=lowest))
        return again

    async def _by_meaning(self, vector: Any, most: int) -> list[tuple[int, float]]:
        if vector is None:
            return []
        edition = self._edition
        return await self._index.search_vectors(
            edition.number, edition.dimension, vector, most, generation=edition.generation
        )

    async def _by_words(self, most: int) -> list[tuple[int, float]]:
        if self._mode == "vector":
            return []
        return await self._index.search_text(
            self._edition.number, self._question, most, generation=self._edition.generation
        )

    def _ranked(
        self, by_meaning: list[tuple[int, float]], by_words: list[tuple[int, float]]
    ) -> list[tuple[int, float]]:
        if self._mode == "vector":
            return by_meaning
        return by_words if self._mode == "text" else fused(by_meaning, by_words, meaning=self._weight)

    async def _located(self, ranked: Sequence[tuple[int, float]]) -> list[Hit]:
        """Where the best of these stand, until there are enough."""
        hits: list[Hit] = []
        for start in range(0, len(ranked), MOST):
            some = ranked[start : start + MOST]
            # Without a filter few are lost: the first ones will do.
            if not self._wanted and start == 0:
                hits = await self._places(some[: self._enough * 2])
                if len(hits) >= self._enough:
                    return hits
                some = some[self._enough * 2 :]
            hits += await self._places(some)
            if len(hits) >= self._enough:
                break
        return hits

    async def _places(self, ranked: Sequence[tuple[int, float]]) -> list[Hit]:
        if not ranked:
            return []
        names, values = listed([n for n, _ in ranked])
        rows = await self._engine.read(
            (
                "SELECT c.n, c.text, p.position, d.uri, d.title, d.metadata, d.source FROM kb_chunks c"
                " JOIN kb_pieces p ON p.edition = c.edition AND p.chunk = c.n"
                " JOIN kb_documents d ON d.edition = p.edition AND d.n = p.document AND d.state = 'current'"
                f" WHERE c.edition = :edition AND c.n IN {names} ORDER BY c.n, d.n, p.seq",
                {"edition": self._edition.number, **values},
            )
        )
        places: dict[int, list[tuple[Any, ...]]] = {}
        for row in rows:
            metadata = from_json(row[5])
            if self._fits(metadata, uri=row[3], source=row[6]):
                places.setdefault(int(row[0]), []).append((*row[:5], metadata))
        return [self._hit(n, score, places[n]) for n, score in ranked if n in places]

    def _hit(self, n: int, score: float, places: list[tuple[Any, ...]]) -> Hit:
        _, text, position, uri, title, metadata = places[0]
        others = tuple(dict.fromkeys(place[3] for place in places if place[3] != uri))
        return Hit(round(score, 6), text, uri, title, from_json(position), metadata, n, others)

    def _fits(self, metadata: dict[str, Any], *, uri: str, source: str) -> bool:
        known = {**metadata, "uri": uri, "source": source}
        return all(_matches(known.get(name), value) for name, value in self._wanted.items())


def _matches(have: Any, wanted: Any) -> bool:
    """A list has a value if one of its values is it; text may end in `*`."""
    if isinstance(have, list):
        return any(_matches(each, wanted) for each in have)
    if have is None:
        return False
    said, told = str(wanted).casefold(), str(have).casefold()
    return told.startswith(said[:-1]) if said.endswith("*") else told == said


def embedder_of(engine: Engine, edition: Edition) -> Embedder:
    """The one that the edition is pinned to. It remembers questions, so it is kept."""
    kept = _embedders.setdefault(engine, {})
    found = kept.get(edition.embedder)
    if found is None:
        if len(kept) >= _MOST_EMBEDDERS:
            kept.pop(next(iter(kept)))
        found = kept[edition.embedder] = make_embedder(edition.embedder, engine.settings)
    return found
