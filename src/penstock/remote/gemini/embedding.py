"""Many texts embedded in several requests, each of which is paid: what was answered is kept in the call's folder, one
file for each request, so that sending the call again pays only for the rest."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from google.genai import types
from pydantic_core import from_json, to_json

from penstock.engine.call import Usage, call_id
from penstock.outputs.files import atomic_write
from penstock.remote.gemini.client import GeminiClient
from penstock.remote.gemini.errors import Stake, translated
from penstock.remote.gemini.limits import EMBEDDINGS_AT_ONCE
from penstock.remote.gemini.lines import encoded, whole
from penstock.remote.gemini.rows import Row
from penstock.remote.gemini.tokens import text_tokens
from penstock.remote.protocol import Order

KEPT = "answered"

Vectors = list[list[float]]


class Embedding:
    """One call. `usage` is what it has paid for so far, about (Gemini does not say); `wrong` says why an answer cannot
    be used: then nothing more is asked."""

    def __init__(
        self,
        client: GeminiClient,
        order: Order,
        model: str,
        texts: Sequence[str],
        *,
        task: str | None = None,
        dimensions: int | None = None,
    ) -> None:
        self._client = client
        self._own = order.folder / KEPT
        self._earlier = [folder / KEPT for folder in _earlier_folders(order)]
        self._model = model
        self._texts = texts
        self._task = task
        self._dimensions = dimensions
        self.vectors: Vectors = []
        self.usage = Usage()
        self.wrong: str | None = None

    async def ask(self) -> None:
        """Everything that is not kept. What Gemini surely did not take is tried again here once something is paid:
        outside, all of it would count as lost."""
        at_once = 1 if self._client.settings.vertex else EMBEDDINGS_AT_ONCE
        for start in range(0, len(self._texts), at_once):
            some = self._texts[start : start + at_once]
            vectors = await self._kept(some)
            if vectors is None:
                attempts = None if self.usage.input else 1
                vectors = await self._client.patiently(partial(self._sent, some), attempts=attempts)
                self._count(some)
                if len(vectors) != len(some) or not all(vectors):
                    self.wrong = (
                        f"{len(some)} texts gave {len(vectors)} vectors; {self._model} cannot be used like this"
                    )
                    return
                await self._client.in_thread(atomic_write, self._own / self._name(some), to_json(vectors))
            self.vectors += vectors

    async def write(self, target: Path) -> None:
        """The rows, in the order of the texts. What is kept is not needed any more."""
        async with whole(target, self._client.token(), self._client.in_thread) as file:
            await self._client.in_thread(self._write, file)
        await self._client.in_thread(_remove, self._own)

    def _write(self, file: BinaryIO) -> None:
        for number in range(len(self._texts)):
            if number < len(self.vectors):
                row = Row(str(number), "ok", embedding=self.vectors[number])
            else:
                row = Row(str(number), "invalid", error=self.wrong)
            file.write(encoded(row.as_json()))

    async def _sent(self, some: Sequence[str]) -> Vectors:
        return await asked(
            self._client, self._model, some, task=self._task, dimensions=self._dimensions, stake="answer"
        )

    async def _kept(self, some: Sequence[str]) -> Vectors | None:
        """What was answered before. An earlier attempt was counted as lost, so what it paid is not counted again."""
        name = self._name(some)
        for folder in (self._own, *self._earlier):
            vectors: Vectors | None = await self._client.in_thread(_read, folder / name)
            if vectors is not None:
                if folder == self._own:
                    self._count(some)
                return vectors
        return None

    def _count(self, some: Sequence[str]) -> None:
        self.usage += Usage(input=sum(text_tokens(text) for text in some))

    def _name(self, some: Sequence[str]) -> str:
        asked = to_json([self._model, self._task, self._dimensions, list(some)])
        return f"{hashlib.sha256(asked).hexdigest()[:32]}.json"


async def asked(
    client: GeminiClient,
    model: str,
    texts: Sequence[str],
    *,
    task: str | None = None,
    dimensions: int | None = None,
    stake: Stake = "nothing",
) -> Vectors:
    """One request, and what it was answered."""
    # As contents, not as texts: some models take a list of texts for one content, and give one vector.
    contents: list[Any] = [types.Content(role="user", parts=[types.Part(text=text)]) for text in texts]
    with translated("embed", stake=stake):
        response = await client.sdk.models.embed_content(
            model=model,
            contents=contents,
            config=types.EmbedContentConfig(
                task_type=task,
                output_dimensionality=dimensions,
                http_options=client.options(client.settings.request_timeout),
            ),
        )
    return [list(item.values or ()) for item in response.embeddings or ()]


def _earlier_folders(order: Order) -> list[Path]:
    """Of the attempts before this one, where folders are named by their calls."""
    if order.folder.name != call_id(order.job, order.key, order.attempt):
        return []
    calls = (call_id(order.job, order.key, attempt) for attempt in range(order.attempt - 1, 0, -1))
    return [order.folder.parent.parent / call[:2] / call for call in calls]


def _read(path: Path) -> Vectors | None:
    try:
        vectors: Vectors = from_json(path.read_bytes())
    except (OSError, ValueError):
        return None
    return vectors


def _remove(folder: Path) -> None:
    try:
        for path in folder.iterdir():
            path.unlink(missing_ok=True)
        folder.rmdir()
    except OSError:
        return
