"""What embedders have in common whose vectors come from a paid remote: texts are calls of the job that asks, whose rows
are read from the call's folder; questions are asked directly, and remembered for a while.

What is wrong with some texts is `Permanent`; what would refuse every text (a key, a model, a dimension) is
`InvalidConfiguration`, so that nobody pays to find the culprit among them.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.engine.call import Call, Usage
from penstock.engine.clock import SystemClock
from penstock.engine.errors import Ambiguous, InvalidConfiguration, InvalidRequest, PenstockError, Permanent, Transient
from penstock.pipelines.ingestion.plugins import Vectors
from penstock.remote.gemini.results import read_rows
from penstock.remote.gemini.tokens import text_tokens
from penstock.remote.prices import Prices, Tier, load_prices, plain_name, rounded_up

if TYPE_CHECKING:
    from penstock.config import Settings
    from penstock.engine.context import Context
    from penstock.engine.engine import Engine

log = logging.getLogger("penstock.ingestion")

REMEMBERED = 256
"""Questions; 3 MB with vectors of 3,072 dimensions."""

LONGEST_QUESTION = 10_000
"""Characters of a question that is remembered."""

PHRASES: dict[str, tuple[str, str]] = {
    "gemini-embedding-2": ("title: none | text: ", "task: search result | query: "),
    "embeddinggemma": ("title: none | text: ", "task: search result | query: "),
    "nomic-embed-text": ("search_document: ", "search_query: "),
    "mxbai-embed-large": ("", "Represent this sentence for searching relevant passages: "),
    "multilingual-e5": ("passage: ", "query: "),
}
"""Models that are told in the text itself what it is: what comes before a document, and before a question. By how their
names begin. A knowledge base is filled and asked with the same words, so an entry is for good."""

_NOT_THE_TEXTS = (401, 403, 404)
"""Refusals of who asks, or of the model."""


class RemoteEmbedder(ABC):
    """`model` is what a knowledge base is pinned to, `asked` the name under which the remote knows it. `cuts`: a vector
    that is longer than `dimension` is cut to it, as models allow that are trained for it."""

    name: str
    remote: str
    tier: Tier = "standard"
    deferred = False

    def __init__(
        self, settings: Settings, *, model: str, asked: str, dimension: int, at_once: int, cuts: bool = False
    ) -> None:
        self.model = model
        self.asked = asked
        self.dimension = dimension
        self.at_once = at_once
        self._cuts = cuts
        self._own_prices = settings.gemini.prices
        self._clock = SystemClock()
        self._before = _phrases(asked)
        self._questions: OrderedDict[str, Vectors] = OrderedDict()

    @abstractmethod
    def _request(self, texts: Sequence[str]) -> Any:
        """The request of a call for documents. The remote is made by now, and its libraries are imported."""

    @abstractmethod
    async def _answer(self, remote: Any, question: str) -> Sequence[float]:
        """The vector of a question, asked directly."""

    async def embed(self, texts: Sequence[str], ctx: Context, key: str) -> Vectors:
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        for number, text in enumerate(texts, 1):
            if not text.strip():
                raise Permanent(f"text {number} of {len(texts)} is empty: it has no embedding")
        await ctx.remote(self.remote)
        try:
            call = await ctx.call(self.remote, key, self._request([self._before[0] + text for text in texts]))
        except Permanent as error:
            raise _judged(error) from error
        file = ctx.folder_of(call) / self._file_of(call)
        return await asyncio.to_thread(self._read, file, len(texts))

    async def embed_query(self, text: str, engine: Engine) -> Vectors:
        """No call is recorded, since there is no job to record it for; its tokens and its cost are in the metrics."""
        if not text.strip():
            raise InvalidRequest("an empty question has no embedding")
        known = self._questions.pop(text, None)
        if known is None:
            known = await self._ask(text, engine)
        if len(text) <= LONGEST_QUESTION:
            self._questions[text] = known
        while len(self._questions) > REMEMBERED:
            self._questions.popitem(last=False)
        return known

    def price(self, tokens: int) -> int | None:
        return self._charge(tokens, self.tier)

    def _charge(self, tokens: int, tier: Tier) -> int | None:
        line = self._prices.price_of(self.asked, tier, self._clock.now())
        return None if line is None else rounded_up(line.charge(Usage(input=tokens)))

    def units(self, rows: Sequence[Sequence[float]]) -> Vectors:
        """Of unit length, and of the dimension that was promised."""
        lengths = sorted({len(row) for row in rows})
        for length in lengths:
            if length != self.dimension and not (self._cuts and length > self.dimension):
                raise InvalidConfiguration(
                    f"{self.asked} gives vectors of {length} dimensions, not {self.dimension}: say"
                    f" `dimension: {length}` for the embedder {self.name}, or name another model"
                )
        vectors = np.array([row[: self.dimension] for row in rows], dtype=np.float64)
        if not np.isfinite(vectors).all():
            raise Permanent(f"{self.asked} gave a vector with a value that is no number")
        sizes = np.linalg.norm(vectors, axis=1, keepdims=True)
        # Zeros stay zeros, which are like nothing.
        units: Vectors = (vectors / np.where(sizes > 0, sizes, 1.0)).astype(np.float32)
        return units

    @cached_property
    def _prices(self) -> Prices:
        return load_prices(self._own_prices)

    def _file_of(self, call: Call) -> str:
        if not call.ended:
            raise Transient(f"call {call.key!r} to {call.remote} is {call.state}, and has no vectors yet")
        if not call.ok:
            raise Permanent(f"call {call.key!r} to {call.remote} ended as {call.state}: {call.error}")
        if wrong := call.result.get("error"):
            raise Permanent(f"{self.asked}: {wrong}")
        return str(call.result["file"])

    def _read(self, file: Path, count: int) -> Vectors:
        try:
            rows = [row.embedding or () for row in read_rows(file)]
        except (OSError, ValueError) as error:
            raise Permanent(f"the vectors in {file} cannot be read any more: {error}") from error
        if len(rows) != count:
            raise Permanent(f"{file} has {len(rows)} vectors, and {count} texts were embedded")
        return self.units(rows)

    async def _ask(self, text: str, engine: Engine) -> Vectors:
        remote = await engine.calls.ready(self.remote)
        try:
            async with asyncio.timeout(remote.submit_timeout):
                row = await self._answer(remote, self._before[1] + text)
        except TimeoutError:
            raise Transient(f"{self.remote} gave no answer within {remote.submit_timeout:g} s") from None
        except Ambiguous as error:
            raise Transient(str(error)) from error
        except Permanent as error:
            raise _judged(error) from error
        self._count(text_tokens(text), engine)
        vectors = self.units([row])
        vectors.setflags(write=False)
        return vectors

    def _count(self, tokens: int, engine: Engine) -> None:
        cost = self._charge(tokens, "standard") or 0
        engine.meters.add("tokens", (self.remote, self.asked, "input"), tokens)
        if cost:
            engine.meters.add("cost_microdollars", (self.remote, self.asked), cost)
        log.debug("a question was embedded by %s: %d tokens, %d millionths of a dollar", self.asked, tokens, cost)


def _judged(error: Permanent) -> PenstockError:
    """Whether it is these texts that were refused, or whatever is asked like this."""
    said = str(error)
    ours = "API key not valid" in said or "dimension" in said.lower()
    if getattr(error, "code", None) in _NOT_THE_TEXTS or (hasattr(error, "code") and ours):
        return InvalidConfiguration(said)
    return error


def _phrases(model: str) -> tuple[str, str]:
    name = plain_name(model).lower()
    return next((phrases for begin, phrases in PHRASES.items() if name.startswith(begin)), ("", ""))
