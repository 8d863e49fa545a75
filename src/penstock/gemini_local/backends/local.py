"""The backend that needs nothing but this machine: readers over OCR and PDF text, and an offline embedder.

It answers what it can read and says plainly what it cannot; it never makes data up.
"""

from __future__ import annotations

import asyncio
import logging

from penstock.gemini_local.backend import Answer, CannotAnswer, Prompt
from penstock.gemini_local.backends.documents import PooledDocuments
from penstock.gemini_local.backends.embedder import Embedder
from penstock.gemini_local.readers.registry import Reader, Registry, all_readers
from penstock.remote.pool import ProcessPool

log = logging.getLogger(__name__)

WORKERS = 2


class LocalBackend:
    """Without `readers` it has all that are installed. A pool that is handed in stays open when this is closed."""

    name = "local"

    def __init__(
        self, *, readers: Registry | None = None, pool: ProcessPool | None = None, workers: int = WORKERS
    ) -> None:
        self.readers = all_readers() if readers is None else readers
        self._pool = ProcessPool(workers=workers) if pool is None else pool
        self._owns_pool = pool is None
        self._documents = PooledDocuments(self._pool)
        self._embedder = Embedder()

    def register(self, reader: Reader) -> None:
        """Ask this reader before all others."""
        self.readers.register(reader)

    async def generate(self, prompt: Prompt) -> Answer:
        reader = self.readers.find(prompt)
        try:
            return await reader.read(prompt, self._documents)
        except CannotAnswer:
            raise
        except Exception as error:
            log.exception("reader %r failed", reader.name)
            raise CannotAnswer(
                f"The reader '{reader.name}' failed: {type(error).__name__}: {error}", code=13
            ) from error

    async def embed(
        self, model: str, texts: list[str], *, dimensions: int | None, task: str | None
    ) -> list[list[float]]:
        """`model` and `task` change nothing: there is one embedder, and its vectors serve queries and documents
        alike."""
        return await asyncio.to_thread(self._embedder.embed, texts, dimensions=dimensions)

    async def close(self) -> None:
        if self._owns_pool:
            await self._pool.close()
