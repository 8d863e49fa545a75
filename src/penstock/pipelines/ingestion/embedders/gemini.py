"""Gemini's embeddings: interactive, or deferred to Gemini Batch at half the price.

The dimension is always said in the request, so that it is known before anything is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.builtin import uses_own_gemini
from penstock.engine.errors import InvalidRequest, PenstockError, Permanent, StepError, Transient
from penstock.pipelines.ingestion.embedders.remote import RemoteEmbedder
from penstock.pipelines.ingestion.model import EmbedderSpec
from penstock.pipelines.ingestion.plugins import Vectors
from penstock.remote.gemini.limits import EMBEDDINGS_AT_ONCE, enqueued_tokens
from penstock.remote.gemini.lines import encoded
from penstock.remote.gemini.requests import embed_request
from penstock.remote.gemini.results import read_rows
from penstock.remote.gemini.rows import Row
from penstock.remote.gemini.tokens import input_tokens
from penstock.remote.prices import plain_name
from penstock.wordvectors import DIMENSIONS as WORDS

if TYPE_CHECKING:
    from penstock.config import Settings
    from penstock.remote.gemini.batch_input import BatchRequest
    from penstock.remote.gemini.single import GeminiEmbed

AT_GOOGLE = 768
"""As good as all 3,072 for search, to within a fraction of a percent, and a quarter of the space."""

MOST = 3072

OWN = "@own"
"""Ends the name of a model that Penstock's own Gemini stands in for: its vectors are not Google's."""

BATCH_ROWS = 10_000
"""Texts in one batch."""

_PASSING = frozenset({1, 4, 8, 10, 13, 14, 408, 409, 429, 499, 500, 502, 503, 504})
"""Codes of rows that failed and may do better another time, as google.rpc and as HTTP say them."""


def gemini(spec: EmbedderSpec, settings: Settings) -> GeminiEmbedder:
    """A Gemini on this machine gives as many dimensions as there are, Google's as many as are worth their space."""
    own = uses_own_gemini(settings)
    told = plain_name(spec.model or settings.gemini.embedding_model)
    asked = told.removesuffix(OWN)
    if asked != told and not own:
        raise InvalidRequest(
            f"{told} are the vectors of Penstock's own Gemini, which are not Google's: ask with the one that was used"
            " (local_gemini.use: always), or fill the knowledge base anew (rebuild)"
        )
    near = own or (settings.gemini.on_loopback and not settings.gemini.vertex)
    dimension = spec.dimension or (WORDS if near else AT_GOOGLE)
    most = WORDS if own and settings.local_gemini.backend == "local" else MOST
    if dimension > most:
        whose = "Penstock's own Gemini" if most == WORDS else "Gemini"
        raise InvalidRequest(f"{whose} gives vectors of at most {most} dimensions, not {dimension}")
    if spec.batch and settings.gemini.vertex:
        raise InvalidRequest("Gemini's batches need an API key, not Vertex AI: leave `batch` out, or set a key")
    kind = GeminiBatchEmbedder if spec.batch else GeminiEmbedder
    return kind(settings, model=asked + OWN if own else asked, asked=asked, dimension=dimension)


class GeminiEmbedder(RemoteEmbedder):
    """Each call is the job's own: recorded before it is made, paid once, counted against budgets."""

    name = "gemini"
    remote = "gemini.embed"

    def __init__(self, settings: Settings, *, model: str, asked: str, dimension: int) -> None:
        super().__init__(settings, model=model, asked=asked, dimension=dimension, at_once=EMBEDDINGS_AT_ONCE)

    def _request(self, texts: Sequence[str]) -> Any:
        return self._asking(texts, "RETRIEVAL_DOCUMENT")

    async def _answer(self, remote: GeminiEmbed, question: str) -> Sequence[float]:
        vectors = await remote.now(self._asking([question], "RETRIEVAL_QUERY"))
        if len(vectors) != 1:
            raise Permanent(f"one question gave {len(vectors)} vectors; {self.asked} cannot be used like this")
        return vectors[0]

    def _asking(self, texts: Sequence[str], task: str) -> Any:
        from penstock.remote.gemini.single import EmbedRequest

        return EmbedRequest(model=self.asked, texts=tuple(texts), task=self._task(task), dimensions=self.dimension)

    def _task(self, task: str) -> str | None:
        """None where the text itself says what it is."""
        return None if any(self._before) else task


class GeminiBatchEmbedder(GeminiEmbedder):
    """For large jobs: `ctx.call("gemini.batch", key, embedder.request(…))`, and when that has ended,
    `embedder.vectors_of(ctx.folder_of(call), call.result)`. `embed` works as well, at the full price."""

    deferred = True
    tier = "batch"
    batch_remote = "gemini.batch"
    batch_rows = BATCH_ROWS

    def __init__(self, settings: Settings, *, model: str, asked: str, dimension: int) -> None:
        super().__init__(settings, model=model, asked=asked, dimension=dimension)
        self.batch_tokens = enqueued_tokens(asked, settings.gemini.tier, settings.gemini.enqueued_tokens)
        """Tokens (`tokens_of`) that all texts of one batch may have together; None: nobody knows a limit."""

    def request(self, texts: Iterable[tuple[str, str]] | Path) -> BatchRequest:
        """Keys and texts, or a file of such `line`s. Blocking: the first one imports Google's library."""
        from penstock.remote.gemini.batch_input import BatchRequest, BatchRow

        if isinstance(texts, Path):
            return BatchRequest(model=self.asked, kind="embed", file=texts)
        rows = tuple(BatchRow(key=key, request=self._row(text)) for key, text in texts)
        return BatchRequest(model=self.asked, kind="embed", requests=rows)

    def line(self, key: str, text: str) -> bytes:
        """One line of a file for `request`."""
        return encoded({"key": key, "request": self._row(text)})

    def tokens_of(self, text: str) -> int:
        """What a text counts for against `batch_tokens`."""
        return input_tokens(self._row(text), self.asked)

    def vectors_of(self, folder: Path, result: Mapping[str, Any]) -> Iterator[tuple[str, Vectors | StepError]]:
        """For each key that was asked its vector, or why there is none: `Transient` where asking again may help.
        Blocking, one row in memory at a time."""
        for row in read_rows(folder / str(result["file"])):
            if row.key is not None and row.outcome not in ("duplicate", "unknown"):
                yield row.key, self._outcome(row)

    def _row(self, text: str) -> dict[str, Any]:
        return embed_request(self._before[0] + text, task=self._task("RETRIEVAL_DOCUMENT"), dimensions=self.dimension)

    def _outcome(self, row: Row) -> Vectors | StepError:
        if row.outcome == "ok" and row.embedding is not None:
            try:
                vector: Vectors = self.units([row.embedding])[0]
            except PenstockError as error:
                return Permanent(str(error))
            return vector
        said = f"{self.asked}: {row.error or row.outcome}"
        passing = row.outcome == "missing" or (row.outcome == "api_error" and row.code in _PASSING)
        return Transient(said) if passing else Permanent(said)
