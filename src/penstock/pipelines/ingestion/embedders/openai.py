"""Embeddings from a server that speaks OpenAI's protocol: OpenAI's own, or vLLM, Ollama, llama.cpp on your machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.engine.errors import InvalidRequest, Permanent
from penstock.pipelines.ingestion.embedders.remote import RemoteEmbedder
from penstock.pipelines.ingestion.model import EmbedderSpec
from penstock.remote.prices import plain_name

if TYPE_CHECKING:
    from penstock.config import Settings
    from penstock.remote.openai.embed import OpenAIEmbed

DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
    "all-minilm": 384,
    "bge-m3": 1024,
    "embeddinggemma": 768,
    "mxbai-embed-large": 1024,
    "nomic-embed-text": 768,
}
"""Of models whose dimension need not be said."""

SHORTENED = ("text-embedding-3-small", "text-embedding-3-large")
"""Models that give shorter vectors when asked to. Others refuse the question: theirs are cut here."""


def openai(spec: EmbedderSpec, settings: Settings) -> OpenAIEmbedder:
    model = spec.model or settings.openai.embedding_model
    name = plain_name(model).partition(":")[0].lower()
    whole = DIMENSIONS.get(name)
    dimension = spec.dimension or whole
    if spec.batch:
        raise InvalidRequest("only Gemini's embeddings come in batches: leave `batch` out, or take the embedder gemini")
    if dimension is None:
        raise InvalidRequest(
            f"how long the vectors of {model!r} are is not known here: say the embedder's `dimension`, such as 768"
        )
    if whole is not None and dimension > whole:
        raise InvalidRequest(f"{model} gives vectors of at most {whole} dimensions, not {dimension}")
    asks = name in SHORTENED and dimension != whole
    return OpenAIEmbedder(settings, model=model, dimension=dimension, asks=asks)


class OpenAIEmbedder(RemoteEmbedder):
    """Each call is the job's own, as Gemini's are. `asks`: the server is asked for shorter vectors."""

    name = "openai"
    remote = "openai.embed"

    def __init__(self, settings: Settings, *, model: str, dimension: int, asks: bool) -> None:
        super().__init__(
            settings, model=model, asked=model, dimension=dimension, at_once=settings.openai.at_once, cuts=not asks
        )
        self._asks = asks

    def _request(self, texts: Sequence[str]) -> Any:
        from penstock.remote.openai.embed import EmbedRequest

        return EmbedRequest(model=self.model, texts=tuple(texts), dimensions=self.dimension if self._asks else None)

    async def _answer(self, remote: OpenAIEmbed, question: str) -> Sequence[float]:
        answer = await remote.now(self._request([question]))
        if answer.wrong is not None:
            raise Permanent(f"{self.model}: {answer.wrong}")
        vector: list[float] = answer.vectors[0].tolist()
        return vector
