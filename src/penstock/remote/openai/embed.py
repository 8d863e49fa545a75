"""Embeddings from a server that speaks OpenAI's protocol, one request for each call.

What the server answers is judged before it is kept: as many vectors as there are texts, in their order, of one length,
and numbers all of them. An answer that is not so was paid for all the same, and says what is wrong with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import httpx2
import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from penstock.engine.call import Usage
from penstock.engine.clock import Clock
from penstock.engine.errors import Ambiguous, InvalidConfiguration, InvalidRequest, Transient
from penstock.outputs.files import atomic_write
from penstock.remote.address import no_tls
from penstock.remote.at_once import AnsweredAtOnce
from penstock.remote.gemini.lines import encoded
from penstock.remote.gemini.requests import checked
from penstock.remote.gemini.rows import Row
from penstock.remote.gemini.tokens import text_tokens
from penstock.remote.openai.errors import refusal, translated
from penstock.remote.openai.settings import KEY_VARIABLES, MOST_TEXTS, OPENAI, OpenAISettings
from penstock.remote.prices import Prices, load_prices
from penstock.remote.protocol import Collected, Order, Plan

ROWS = "rows.jsonl"
LARGEST_ANSWER = 256 * 1024 * 1024
"""Bytes; 2,048 vectors of 3,072 numbers are 140 MB of JSON."""

_MOST_TOKENS = 10**12
_CONNECT = 10.0
_SLACK = 5.0
"""Seconds to write down what was answered."""


class EmbedRequest(BaseModel):
    """`dimensions` only for models that take them (OpenAI's text-embedding-3): others refuse the request."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str | None = None
    texts: tuple[str, ...] = Field(min_length=1, max_length=MOST_TEXTS)
    dimensions: int | None = Field(default=None, ge=1)


@dataclass(slots=True, frozen=True)
class Answer:
    """`wrong` says why an answer cannot be used; `counted` is False where the server did not say how many tokens the
    texts were."""

    vectors: NDArray[np.float64]
    usage: Usage
    counted: bool
    wrong: str | None = None


class OpenAIEmbed(AnsweredAtOnce):
    """`order.request` is an `EmbedRequest`. The vectors are rows of `rows.jsonl` in the order's folder, in the order of
    the texts, with their places ("0", "1", …) as keys."""

    name = "openai.embed"
    keeps_files = True
    listing_margin = 1.0
    poll_every = 1.0
    poll_at_most = 1.0

    def __init__(self, settings: OpenAISettings, *, clock: Clock, prices: Prices | None = None) -> None:
        if settings.api_key is None and settings.base_url == OPENAI:
            raise InvalidConfiguration(
                f"openai.api_key: there is no key for {OPENAI}; set {KEY_VARIABLES[0]}, or name another server with"
                " openai.base_url, such as http://127.0.0.1:11434/v1"
            )
        self.settings = settings
        self.identity = settings.base_url
        self.submit_timeout = settings.timeout + _SLACK
        self.overdue_after = self.submit_timeout
        self._clock = clock
        self._prices = prices or load_prices()
        key = settings.api_key
        self._http = httpx2.AsyncClient(
            headers={} if key is None else {"Authorization": f"Bearer {key.get_secret_value()}"},
            timeout=httpx2.Timeout(settings.timeout, connect=min(settings.timeout, _CONNECT)),
            follow_redirects=False,
            trust_env=not settings.on_loopback,
            verify=no_tls(settings.base_url) or True,
        )

    async def prepare(self, order: Order) -> Plan:
        request = checked(EmbedRequest, order.request)
        if not all(text.strip() for text in request.texts):
            raise InvalidRequest("an empty text has no embedding")
        model, usage = self._model(request), _estimated(request.texts)
        now = self._clock.now()
        return Plan(
            model=model,
            estimate=self._prices.cost(usage, model, "standard", now),
            priced=self._prices.is_priced(model, "standard", now),
            usage=usage,
        )

    async def submit(self, order: Order) -> Collected:
        request = checked(EmbedRequest, order.request)
        answer = await self.now(request)
        rows = len(answer.vectors)
        result: dict[str, Any] = {"file": ROWS, "rows": {"ok": rows}, "dimensions": answer.vectors.shape[1]}
        if answer.wrong is not None:
            result["rows"]["invalid"] = len(request.texts) - rows
            result |= {"outcome": "invalid", "error": answer.wrong}
        if not answer.counted:
            result["estimated"] = True
        try:
            await asyncio.to_thread(_write, order.folder / ROWS, answer, len(request.texts))
        except Transient as error:
            raise Ambiguous(f"{error} (the answer is paid)") from error
        model, now = self._model(request), self._clock.now()
        if not self._prices.is_priced(model, "standard", now):
            result["unpriced"] = True
        return Collected(
            result=result, usage=answer.usage, cost=self._prices.cost(answer.usage, model, "standard", now)
        )

    async def now(self, request: EmbedRequest) -> Answer:
        """What the server answers, asked directly: no call is recorded, and nothing is kept."""
        body: dict[str, Any] = {"model": self._model(request), "input": list(request.texts), "encoding_format": "float"}
        if request.dimensions is not None:
            body["dimensions"] = request.dimensions
        content = await self._asked(body)
        return await asyncio.to_thread(_read, content, request)

    async def close(self) -> None:
        await self._http.aclose()

    async def _asked(self, body: dict[str, Any]) -> bytes:
        base = self.settings.base_url
        content = bytearray()
        with translated(base):
            async with self._http.stream("POST", f"{base}/embeddings", json=body) as response:
                async for piece in response.aiter_bytes():
                    content += piece
                    if len(content) > LARGEST_ANSWER:
                        raise Ambiguous(f"embed: {base} answers with more than {LARGEST_ANSWER} bytes, and is paid")
        if response.status_code != 200:
            raise refusal(response.status_code, bytes(content), response.headers, base)
        return bytes(content)

    def _model(self, request: EmbedRequest) -> str:
        return request.model or self.settings.embedding_model


def _estimated(texts: Sequence[str]) -> Usage:
    return Usage(input=sum(text_tokens(text) for text in texts))


def _read(content: bytes, request: EmbedRequest) -> Answer:
    try:
        told = from_json(content)
    except ValueError:
        told = None
    if not isinstance(told, Mapping):
        raise Ambiguous(f"embed: the answer is no JSON object, and is paid: {content[:100]!r}")
    usage = told.get("usage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    counted = isinstance(tokens, int) and 0 < tokens <= _MOST_TOKENS
    used = Usage(input=int(tokens or 0)) if counted else _estimated(request.texts)
    try:
        return Answer(_vectors(told.get("data"), len(request.texts), request.dimensions), used, counted)
    except ValueError as error:
        return Answer(np.zeros((0, 0)), used, counted, wrong=str(error))


def _vectors(data: Any, count: int, dimensions: int | None) -> NDArray[np.float64]:
    """In the order of the texts, whatever order they came in."""
    rows = [row for row in data if isinstance(row, Mapping)] if isinstance(data, list) else []
    if len(rows) != count:
        raise ValueError(f"{count} texts gave {len(rows)} vectors")
    places: list[Any] = [row.get("index") for row in rows]
    if any(place is not None for place in places):
        if any(type(place) is not int for place in places) or sorted(places) != list(range(count)):
            raise ValueError(f"the vectors are not numbered from 0 to {count - 1}: {str(places)[:100]}")
        rows.sort(key=lambda row: int(row["index"]))
    vectors = [_vector(row.get("embedding"), number) for number, row in enumerate(rows)]
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1:
        raise ValueError(f"the vectors have {lengths[0]} to {lengths[-1]} dimensions")
    if dimensions is not None and lengths != [dimensions]:
        raise ValueError(f"the vectors have {lengths[0]} dimensions, and {dimensions} were asked for")
    return np.stack(vectors)


def _vector(values: Any, number: int) -> NDArray[np.float64]:
    if not isinstance(values, list) or not values or not all(type(value) in (float, int) for value in values):
        raise ValueError(f"vector {number} is no list of numbers")
    try:
        vector = np.array(values, dtype=np.float64)
    except OverflowError:
        vector = np.array([np.inf])
    if not np.isfinite(vector).all():
        raise ValueError(f"vector {number} has a value that is no number")
    return vector


def _write(target: Path, answer: Answer, count: int) -> None:
    def rows(file: BinaryIO) -> None:
        for number in range(count):
            if answer.wrong is None:
                row = Row(str(number), "ok", embedding=answer.vectors[number].tolist())
            else:
                row = Row(str(number), "invalid", error=answer.wrong)
            file.write(encoded(row.as_json()))

    atomic_write(target, rows)
