"""Single calls to Gemini, answered at once: a generation with a response schema, and embeddings.

Nothing can be looked up afterwards, so an answer that was lost on the way may be paid for again. What Gemini answers is
judged as a batch's rows are: an answer that was blocked, cut off or does not fit the schema says so.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from google.genai import types
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from penstock.engine.call import Usage
from penstock.engine.errors import Ambiguous, InvalidRequest, PenstockError, StepError
from penstock.remote.at_once import AnsweredAtOnce
from penstock.remote.gemini.client import GeminiClient
from penstock.remote.gemini.embedding import Embedding, asked
from penstock.remote.gemini.errors import translated
from penstock.remote.gemini.limits import EMBEDDINGS_AT_ONCE, INLINE_BYTES
from penstock.remote.gemini.lines import encoded
from penstock.remote.gemini.requests import checked, placeholders
from penstock.remote.gemini.rows import Row, answered
from penstock.remote.gemini.tokens import input_tokens, output_tokens, text_tokens
from penstock.remote.prices import Prices, load_prices, plain_name, rounded_up
from penstock.remote.protocol import Collected, Order, Plan

ROWS = "rows.jsonl"
MOST_TEXTS = 1000

_MOST_HOPS = 8
"""How often an answer that Gemini gives in parts is continued."""

_STAND_IN = "-"
"""What the SDK is given as content; the real request is laid over it, as it is."""


class GenerateRequest(BaseModel):
    """`request` is REST's JSON (`requests.generate_request`); the answer is held against `json_schema`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str | None = None
    request: dict[str, Any]
    json_schema: dict[str, Any] | None = None


class EmbedRequest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str | None = None
    texts: tuple[str, ...] = Field(min_length=1, max_length=MOST_TEXTS)
    task: str | None = None
    dimensions: int | None = Field(default=None, ge=1)


async def generate(
    client: GeminiClient, model: str, request: Mapping[str, Any], schema: Mapping[str, Any] | None = None
) -> Row:
    """One request and its answer. The SDK's own continuation has no bound, and its `.parsed` hides what went wrong;
    neither is used. From the first part on it is paid: then no error says that nothing was taken."""
    response = await _generated(client, model, request)
    parts = [answered("-", response)]
    while (token := _continuation(response)) is not None and len(parts) < _MOST_HOPS:
        try:
            response = await _generated(client, model, {**request, "continuationToken": token})
        except Ambiguous:
            raise
        except StepError as error:
            raise Ambiguous(f"{error} (after {len(parts)} parts of the answer, which are paid)") from error
        parts.append(answered("-", response))
    return answered("-", _joined(response, parts) if len(parts) > 1 else response, schema)


class Single(AnsweredAtOnce):
    """What single calls to Gemini have in common."""

    def __init__(self, client: GeminiClient, *, prices: Prices | None = None, identity: str | None = None) -> None:
        settings = client.settings
        self.identity = identity or settings.identity
        self._client = client
        self._prices = prices or load_prices(settings.prices)
        self.listing_margin = settings.listing_margin
        self.poll_every = settings.poll_every
        self.poll_at_most = settings.poll_at_most
        self.overdue_after = settings.overdue_after

    async def close(self) -> None:
        await self._client.close()

    def _planned(self, model: str, usage: Usage) -> Plan:
        within = timedelta(seconds=self._client.settings.generate_timeout)
        price = self._prices.dearest(model, "standard", self._client.clock.now(), within=within)
        estimate = rounded_up(price.charge(usage)) if price else 0
        return Plan(model=model, estimate=estimate, priced=price is not None, usage=usage)

    def _paid(self, model: str, usage: Usage, result: dict[str, Any]) -> Collected:
        now = self._client.clock.now()
        if not self._prices.is_priced(model, "standard", now):
            result["unpriced"] = True
        return Collected(result=result, usage=usage, cost=self._prices.cost(usage, model, "standard", now))


class GeminiGenerate(Single):
    """`order.request` is a `GenerateRequest`. The result: `outcome`, `text`, `parsed`, `error`, `finish`."""

    name = "gemini.generate"

    def __init__(self, client: GeminiClient, *, prices: Prices | None = None, identity: str | None = None) -> None:
        super().__init__(client, prices=prices, identity=identity)
        self.submit_timeout = client.settings.generate_timeout * _MOST_HOPS

    async def prepare(self, order: Order) -> Plan:
        request = checked(GenerateRequest, order.request)
        if not request.request.get("contents"):
            raise InvalidRequest("a request to generate needs contents")
        if any(placeholders(request.request)):
            raise InvalidRequest(
                "a single call uploads no files: put the bytes in it (`requests.data`), or use a batch"
            )
        if len(encoded(request.request)) >= INLINE_BYTES:
            raise InvalidRequest(f"the request has more than {INLINE_BYTES} bytes: use a batch with files")
        model = self._model(request)
        usage = Usage(
            input=input_tokens(request.request, model),
            output=output_tokens(request.request, self._client.settings.max_output_tokens),
        )
        return self._planned(model, usage)

    async def submit(self, order: Order) -> Collected:
        request = checked(GenerateRequest, order.request)
        model = self._model(request)
        row = await generate(self._client, model, request.request, request.json_schema)
        result, usage = row.as_json(), row.usage
        del result["key"]
        if usage == Usage():
            # Gemini answered and did not count: it is paid all the same.
            usage = Usage(input=input_tokens(request.request, model), output=text_tokens(row.text or ""))
            result["estimated"] = True
        return self._paid(model, usage, result)

    def _model(self, request: GenerateRequest) -> str:
        return plain_name(request.model or self._client.settings.model)


class GeminiEmbed(Single):
    """`order.request` is an `EmbedRequest`. The vectors are rows of `rows.jsonl` in the order's folder, in the order of
    the texts, with their places ("0", "1", …) as keys."""

    name = "gemini.embed"
    keeps_files = True

    def __init__(self, client: GeminiClient, *, prices: Prices | None = None, identity: str | None = None) -> None:
        super().__init__(client, prices=prices, identity=identity)
        self.submit_timeout = client.settings.request_timeout * (MOST_TEXTS // EMBEDDINGS_AT_ONCE)

    async def prepare(self, order: Order) -> Plan:
        request = checked(EmbedRequest, order.request)
        if not all(text.strip() for text in request.texts):
            raise InvalidRequest("an empty text has no embedding")
        return self._planned(self._model(request), Usage(input=sum(text_tokens(text) for text in request.texts)))

    async def submit(self, order: Order) -> Collected:
        request = checked(EmbedRequest, order.request)
        model = self._model(request)
        embedding = Embedding(
            self._client, order, model, request.texts, task=request.task, dimensions=request.dimensions
        )
        try:
            await embedding.ask()
            await embedding.write(order.folder / ROWS)
        except Ambiguous:
            raise
        except PenstockError as error:
            if embedding.usage == Usage():
                raise
            answered = f"{len(embedding.vectors)} of {len(request.texts)} texts were answered, and are paid"
            raise Ambiguous(f"{error} ({answered})") from error
        vectors = embedding.vectors
        result: dict[str, Any] = {
            "file": ROWS,
            "rows": {"ok": len(vectors)},
            "dimensions": len(vectors[0]) if vectors else 0,
            "estimated": True,
        }
        if embedding.wrong is not None:
            result["rows"]["invalid"] = len(request.texts) - len(vectors)
            result |= {"outcome": "invalid", "error": embedding.wrong}
        return self._paid(model, embedding.usage, result)

    async def now(self, request: EmbedRequest) -> list[list[float]]:
        """The vectors of a few texts, asked for directly: no call is recorded, and nothing is kept."""
        return await asked(
            self._client, self._model(request), request.texts, task=request.task, dimensions=request.dimensions
        )

    def _model(self, request: EmbedRequest) -> str:
        return plain_name(request.model or self._client.settings.embedding_model)


async def _generated(client: GeminiClient, model: str, body: Mapping[str, Any]) -> dict[str, Any]:
    # Of an object the SDK would make a deep copy, the request included.
    config: types.GenerateContentConfigDict = {
        "automatic_continuation": False,
        "automatic_function_calling": {"disable": True},
        "should_return_http_response": True,
        "http_options": client.options(client.settings.generate_timeout, body),  # type: ignore[typeddict-item]
    }
    with translated("generate", stake="answer"):
        answer = await client.sdk.models.generate_content(model=model, contents=_STAND_IN, config=config)
        raw = answer.sdk_http_response.body if answer.sdk_http_response else None
        response = from_json(raw or "")
    if not isinstance(response, dict):
        raise Ambiguous("generate: the answer is no JSON object, and is paid")
    return response


def _continuation(response: Mapping[str, Any]) -> str | None:
    candidates = response.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    if not isinstance(first, Mapping) or first.get("finishReason") != "CONTINUATION":
        return None
    token = first.get("continuationToken")
    try:
        return token if isinstance(token, str) and base64.b64decode(token, altchars=b"-_") else None
    except ValueError:
        return None


def _joined(response: Mapping[str, Any], parts: Sequence[Row]) -> Mapping[str, Any]:
    """The last part of an answer that came in parts, with the text and the tokens of all."""
    usage = sum((part.usage for part in parts), Usage())
    candidates = response.get("candidates")
    if not isinstance(candidates, list) or not candidates:
        return response
    first = dict(candidates[0])
    first["content"] = {"role": "model", "parts": [{"text": "".join(part.text or "" for part in parts)}]}
    counts = {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": usage.output - usage.thinking,
        "thoughtsTokenCount": usage.thinking,
        "cachedContentTokenCount": usage.cached,
    }
    return {**response, "candidates": [first], "usageMetadata": counts}
