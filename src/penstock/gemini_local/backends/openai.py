"""The backend that passes requests on to an OpenAI-compatible server: vLLM, Ollama, llama.cpp, or OpenAI itself."""

from __future__ import annotations

import asyncio
import ipaddress
import math
from typing import Any

import httpx2
from pydantic_core import from_json

from penstock.engine.errors import InvalidRequest
from penstock.gemini_local.backend import Answer, CannotAnswer, Part, Prompt
from penstock.gemini_local.backends import openai_wire as wire
from penstock.gemini_local.backends.documents import LARGEST_FILE, PooledDocuments
from penstock.gemini_local.readers.page import paged
from penstock.remote.pool import ProcessPool

TIMEOUT = 600.0
"""Seconds for one answer; a long page on a small card takes minutes."""


class OpenAIBackend:
    """`url` is the server's base, with or without `/v1`. Without `model` the request's own is used if the server has
    it, else the only one that the server has."""

    name = "openai"

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        model: str | None = None,
        embedding_model: str | None = None,
        timeout: float = TIMEOUT,
        pool: ProcessPool | None = None,
    ) -> None:
        base = _base(url)
        self.url = str(base)
        self._model = model
        self._embedding_model = embedding_model or model
        self._served: list[str] | None = None
        self._pool = pool
        self._owns_pool = pool is None
        self._client = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=httpx2.Timeout(timeout, connect=min(timeout, 10.0), pool=None),
            trust_env=not _loopback(base.host),
        )

    async def generate(self, prompt: Prompt) -> Answer:
        model = await self._chosen(prompt.model, self._model)
        contents = [
            (turn.role, [piece for part in turn.parts for piece in await self._pieces(part)]) for turn in prompt.turns
        ]
        return wire.chat_answer(
            await self._asked("POST", "chat/completions", wire.chat_request(prompt, model, contents))
        )

    async def embed(
        self, model: str, texts: list[str], *, dimensions: int | None, task: str | None
    ) -> list[list[float]]:
        """Cut here rather than there, since few servers know how. `task` has no counterpart on this wire."""
        chosen = await self._chosen(model, self._embedding_model)
        body = {"model": chosen, "input": texts, "encoding_format": "float"}
        found = wire.vectors(await self._asked("POST", "embeddings", body), len(texts))
        return found if dimensions is None else [_cut(vector, dimensions) for vector in found]

    async def close(self) -> None:
        await self._client.aclose()
        if self._owns_pool and self._pool is not None:
            await self._pool.close()

    async def _pieces(self, part: Part) -> list[dict[str, Any]]:
        """One part of a request as parts of a message: PDFs and rarer images become pictures of their pages."""
        if part.text is not None:
            return [wire.text_part(part.text)]
        mime = (part.mime or "").partition(";")[0].strip().lower()
        if mime in wire.PICTURES:
            return [wire.picture_part(mime, await asyncio.to_thread(_bytes, part))]
        if mime.startswith("text/"):
            return [wire.text_part((await asyncio.to_thread(_bytes, part)).decode(errors="replace"))]
        if not paged(part):
            raise CannotAnswer(f"{part.mime} cannot be passed on to an OpenAI-compatible server.", code=12)
        if self._pool is None:
            self._pool = ProcessPool(workers=1)
        pictures = await PooledDocuments(self._pool).pictures(part)
        return [wire.picture_part("image/jpeg", picture) for picture in pictures]

    async def _chosen(self, asked: str, configured: str | None) -> str:
        if configured is not None:
            return configured
        if self._served is None:
            body = await self._asked("GET", "models")
            rows = body.get("data") if isinstance(body, dict) else None
            self._served = [str(row["id"]) for row in rows or () if isinstance(row, dict) and "id" in row]
        name = asked.removeprefix("models/")
        if name in self._served:
            return name
        if len(self._served) == 1:
            return self._served[0]
        known = ", ".join(self._served[:20]) or "none"
        raise CannotAnswer(
            f"{self.url} has no model {name!r} and it is not clear which to use instead: it has {known}. Name one: "
            f"openai:{self.url}#MODEL"
        )

    async def _asked(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        where = f"{self.url}/{path}"
        try:
            response = await self._client.request(method, where, json=body)
        except httpx2.ConnectError as error:
            raise CannotAnswer(
                f"Nothing answers at {self.url} ({error}). Check that the server runs, and its address and port.",
                code=14,
            ) from error
        except httpx2.TimeoutException as error:
            code = 14 if isinstance(error, httpx2.ConnectTimeout) else 4
            raise CannotAnswer(f"{where} did not answer in time ({type(error).__name__}).", code=code) from error
        except httpx2.HTTPError as error:
            raise CannotAnswer(f"The connection to {where} broke: {error or type(error).__name__}", code=14) from error
        if response.status_code != 200:
            raise _refusal(where, response.status_code, response.text)
        try:
            return from_json(response.content)
        except ValueError:
            raise CannotAnswer(f"{where} did not answer with JSON: {response.text[:200]}", code=13) from None


def _refusal(where: str, status: int, text: str) -> CannotAnswer:
    said = f"{where} answered {status}: {wire.error_message(text)}"
    if status == 429:
        return CannotAnswer(said, code=8)
    if status in (401, 403):
        return CannotAnswer(f"{said}. Check the API key of the server.")
    if status == 404:
        return CannotAnswer(f"{said}. Check the address and the name of the model.")
    if status == 408 or status >= 500:
        return CannotAnswer(said, code=14)
    return CannotAnswer(said)


def _cut(vector: list[float], dimensions: int) -> list[float]:
    if not 1 <= dimensions <= len(vector):
        raise CannotAnswer(f"The server's vectors have {len(vector)} dimensions; {dimensions} cannot be had of them.")
    short = vector[:dimensions]
    length = math.sqrt(sum(value * value for value in short))
    return [value / length for value in short] if length else short


def _bytes(part: Part) -> bytes:
    data = part.read()
    if len(data) > LARGEST_FILE:
        raise CannotAnswer(f"The file has {len(data) // 2**20} MB; at most {LARGEST_FILE // 2**20} MB are passed on.")
    return data


def _base(url: str) -> httpx2.URL:
    try:
        base = httpx2.URL(url.rstrip("/"))
    except httpx2.InvalidURL as error:
        raise InvalidRequest(f"{url!r} is no address: {error}") from None
    if base.scheme not in ("http", "https") or not base.host:
        raise InvalidRequest(f"{url!r} is no address of an OpenAI-compatible server, such as http://127.0.0.1:8000/v1")
    return base.copy_with(path="/v1") if base.path in ("", "/") else base


def _loopback(host: str) -> bool:
    """A proxy of the environment is not for this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
