"""Contexts that Gemini keeps, so that a long prompt is paid for once: found again by what is in them, kept alive while
they are used, deleted when they are not.

A cache costs by the hour, and nobody else deletes it before it expires: give it a life of what the work needs.
Creating one is paid and not idempotent: when nobody knows whether it was made, it is looked for, never made again here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from google.genai import types
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from penstock.engine.call import Usage
from penstock.engine.errors import Ambiguous, InvalidConfiguration, InvalidRequest, PenstockError
from penstock.remote.gemini.client import GeminiClient
from penstock.remote.gemini.errors import Refused, translated
from penstock.remote.gemini.operation import moment
from penstock.remote.gemini.requests import checked, placeholders
from penstock.remote.gemini.single import Single
from penstock.remote.gemini.tokens import input_tokens
from penstock.remote.prices import Prices, plain_name
from penstock.remote.protocol import Collected, Order, Plan

_MOST_PAGES = 1000


@dataclass(slots=True, frozen=True)
class Cache:
    """`name` goes into a request as `cachedContent`. `tokens` as Gemini counts them, 0 where it does not say; `made`:
    just now, and paid."""

    name: str
    expires: float
    tokens: int = 0
    made: bool = False


class CacheRequest(BaseModel):
    """`contents` is REST's JSON, as in `generate_request(…)["contents"]`; `ttl` the seconds it is to live at least."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    contents: tuple[dict[str, Any], ...] = Field(min_length=1)
    model: str | None = None
    ttl: float = Field(default=3600.0, gt=0, allow_inf_nan=False)
    system: str | None = None


class GeminiCache(Single):
    """`order.request` is a `CacheRequest`. The result: `name` for `generate_request(cached=…)`, `model`, `expires` (in
    seconds of the epoch), `tokens`, and whether it was `made` by this call. Making one costs its tokens at the price of
    input; one that was found costs nothing. That Gemini charges for keeping it, by the hour, is not counted."""

    name = "gemini.cache"

    def __init__(self, client: GeminiClient, *, prices: Prices | None = None, identity: str | None = None) -> None:
        if client.settings.vertex:
            raise InvalidConfiguration("gemini.vertex_project: contexts are cached with an API key, not on Vertex AI")
        super().__init__(client, prices=prices, identity=identity)
        settings = client.settings
        self.submit_timeout = 3 * settings.create_timeout + 6 * settings.request_timeout

    async def prepare(self, order: Order) -> Plan:
        request = checked(CacheRequest, order.request)
        if any(placeholders(list(request.contents))):
            raise InvalidRequest("a cache uploads no files: put the bytes in its contents (`requests.data`)")
        if not any(content.get("parts") for content in request.contents):
            raise InvalidRequest("a cache needs contents with parts")
        return self._planned(self._model(request), self._counted(request))

    async def submit(self, order: Order) -> Collected:
        request = checked(CacheRequest, order.request)
        model = self._model(request)
        cache = await ensure_cache(
            self._client, request.contents, model=model, ttl=request.ttl, system=request.system, tenant=order.tenant
        )
        result: dict[str, Any] = {"name": cache.name, "model": model, "expires": cache.expires, "made": cache.made}
        counted = Usage(input=cache.tokens) if cache.tokens else self._counted(request)
        if not cache.tokens:
            result["estimated"] = True
        result["tokens"] = counted.input
        return self._paid(model, counted if cache.made else Usage(), result)

    def _counted(self, request: CacheRequest) -> Usage:
        told = {"contents": list(request.contents), "system": request.system or ""}
        return Usage(input=input_tokens(told, self._model(request)))

    def _model(self, request: CacheRequest) -> str:
        return plain_name(request.model or self._client.settings.model)


async def ensure_cache(
    client: GeminiClient,
    contents: Sequence[Mapping[str, Any]],
    *,
    model: str,
    ttl: float,
    system: str | None = None,
    tenant: str = "default",
) -> Cache:
    """A cache of these contents (REST's JSON) that lives `ttl` seconds at least from now. Tenants do not share one.
    `Ambiguous`: one may have been made, and cannot be seen."""
    label = label_of(contents, model=model, system=system, tenant=tenant)
    found = await _listed(client, label, model)
    if found is None:
        return await client.patiently(lambda: _created(client, contents, label, model, ttl, system), attempts=3)
    if found.expires - client.clock.now() >= ttl:
        return found
    try:
        return await _prolonged(client, found, ttl)
    except Refused as error:
        if error.code not in (403, 404):
            raise
        return await _created(client, contents, label, model, ttl, system)


async def delete_cache(client: GeminiClient, name: str) -> None:
    """Gone already is as good."""
    try:
        with translated(f"delete {name}"):
            options = client.options(client.settings.request_timeout)
            await client.sdk.caches.delete(name=name, config=types.DeleteCachedContentConfig(http_options=options))
    except Refused as error:
        if error.code not in (403, 404):
            raise


def label_of(contents: Sequence[Mapping[str, Any]], *, model: str, system: str | None, tenant: str) -> str:
    """The display name: the same for the same content."""
    told = to_json([tenant, plain_name(model), system, [dict(content) for content in contents]])
    return f"penstock-{hashlib.sha256(told).hexdigest()[:32]}"


async def _listed(client: GeminiClient, label: str, model: str) -> Cache | None:
    """Our cache, the longest-lived should there be several. By hand: the SDK's pager stumbles over empty pages."""
    best: Cache | None = None
    token = ""
    for _ in range(_MOST_PAGES):
        params = {"pageSize": "100"} | ({"pageToken": token} if token else {})
        page = await client.ask("GET", "cachedContents", "list caches", params=params)
        for raw in page.get("cachedContents") or ():
            if raw.get("displayName") == label and plain_name(str(raw.get("model"))) == plain_name(model):
                cache = Cache(str(raw["name"]), moment(raw.get("expireTime")) or 0.0, _tokens(raw))
                if cache.expires > client.clock.now() and (best is None or best.expires < cache.expires):
                    best = cache
        token = str(page.get("nextPageToken") or "")
        if not token:
            break
    return best


async def _created(
    client: GeminiClient,
    contents: Sequence[Mapping[str, Any]],
    label: str,
    model: str,
    ttl: float,
    system: str | None,
) -> Cache:
    """One request. After a lost answer one look; what it does not show may still be there."""
    body: dict[str, Any] = {"contents": [dict(content) for content in contents]}
    if system is not None:
        body["systemInstruction"] = {"parts": [{"text": system}]}
    try:
        with translated("create a cache", stake="work"):
            made = await client.sdk.caches.create(
                model=model,
                config=types.CreateCachedContentConfig(
                    ttl=_seconds(ttl),
                    display_name=label,
                    http_options=client.options(client.settings.create_timeout, body),
                ),
            )
            return replace(_read(client, made, ttl), made=True)
    except Ambiguous as lost:
        try:
            found = await _listed(client, label, model)
        except PenstockError as error:
            raise lost from error
        if found is None:
            raise
        return replace(found, made=True)


async def _prolonged(client: GeminiClient, cache: Cache, ttl: float) -> Cache:
    with translated(f"prolong {cache.name}"):
        options = client.options(client.settings.request_timeout)
        told = await client.sdk.caches.update(
            name=cache.name, config=types.UpdateCachedContentConfig(ttl=_seconds(ttl), http_options=options)
        )
        return _read(client, told, ttl)


def _read(client: GeminiClient, told: types.CachedContent, ttl: float) -> Cache:
    if not told.name:
        raise Ambiguous("Gemini did not say under which name the cache is")
    expires = told.expire_time.timestamp() if told.expire_time else client.clock.now() + ttl
    return Cache(told.name, expires, (told.usage_metadata and told.usage_metadata.total_token_count) or 0)


def _tokens(raw: Mapping[str, Any]) -> int:
    metadata = raw.get("usageMetadata")
    count = metadata.get("totalTokenCount") if isinstance(metadata, Mapping) else None
    return count if isinstance(count, int) else 0


def _seconds(ttl: float) -> str:
    return f"{math.ceil(ttl)}s"
