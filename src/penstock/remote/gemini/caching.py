"""Contexts that Gemini keeps, so that a long prompt is paid for once: found again by what is in them, kept alive while
they are used, deleted when they are not.

A cache costs by the hour, and nobody else deletes it before it expires: give it a life of what the work needs.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.genai import types
from pydantic_core import to_json

from penstock.engine.errors import Transient
from penstock.remote.gemini.client import GeminiClient
from penstock.remote.gemini.errors import Refused, translated
from penstock.remote.gemini.operation import moment
from penstock.remote.prices import plain_name

_MOST_PAGES = 1000


@dataclass(slots=True, frozen=True)
class Cache:
    """`name` goes into a request as `cachedContent`."""

    name: str
    expires: float


async def ensure_cache(
    client: GeminiClient,
    contents: Sequence[Mapping[str, Any]],
    *,
    model: str,
    ttl: float,
    system: str | None = None,
    tenant: str = "default",
) -> Cache:
    """A cache of these contents (REST's JSON) that lives `ttl` seconds at least from now. Tenants do not share one."""
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
                cache = Cache(str(raw["name"]), moment(raw.get("expireTime")) or 0.0)
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
    """A second cache by accident costs little and expires, so a lost answer is simply tried again, after a look."""
    body: dict[str, Any] = {"contents": [dict(content) for content in contents]}
    if system is not None:
        body["systemInstruction"] = {"parts": [{"text": system}]}
    try:
        with translated("create a cache"):
            made = await client.sdk.caches.create(
                model=model,
                config=types.CreateCachedContentConfig(
                    ttl=_seconds(ttl),
                    display_name=label,
                    http_options=client.options(client.settings.create_timeout, body),
                ),
            )
            return _read(client, made, ttl)
    except Transient:
        found = await _listed(client, label, model)
        if found is None:
            raise
        return found


async def _prolonged(client: GeminiClient, cache: Cache, ttl: float) -> Cache:
    with translated(f"prolong {cache.name}"):
        options = client.options(client.settings.request_timeout)
        told = await client.sdk.caches.update(
            name=cache.name, config=types.UpdateCachedContentConfig(ttl=_seconds(ttl), http_options=options)
        )
        return _read(client, told, ttl)


def _read(client: GeminiClient, told: types.CachedContent, ttl: float) -> Cache:
    if not told.name:
        raise Transient("Gemini did not say under which name the cache is")
    return Cache(told.name, told.expire_time.timestamp() if told.expire_time else client.clock.now() + ttl)


def _seconds(ttl: float) -> str:
    return f"{math.ceil(ttl)}s"
