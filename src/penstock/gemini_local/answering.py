"""Answers to single requests, alike for those of a caller and the rows of a batch."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from random import Random

from penstock.gemini_local import tokens
from penstock.gemini_local.backend import Backend, CannotAnswer, Part, Prompt, Turn
from penstock.gemini_local.bending import bend, spoil
from penstock.gemini_local.caches import Caches
from penstock.gemini_local.errors import INTERNAL, ApiError, bad_request
from penstock.gemini_local.faults import Fault
from penstock.gemini_local.files import Files
from penstock.gemini_local.prompts import (
    cut_to_limit,
    read_embedding,
    read_prompt,
    read_system,
    read_turns,
    write_response,
)
from penstock.gemini_local.wire import Json, field, file_name, new_id

log = logging.getLogger("penstock.gemini")


class Answering:
    """Raises `ApiError` where there is no answer, and `SpoiltRow` where a fault says so."""

    def __init__(self, backend: Backend, files: Files, caches: Caches, rng: Random) -> None:
        self.backend = backend
        self._files = files
        self._caches = caches
        self._rng = rng

    async def generate(self, model: str, request: Json, faults: Sequence[Fault] = (), *, key: str = "") -> Json:
        spoil(faults)
        prompt, cached = self._prompt(model, request, key)
        try:
            answer = await self.backend.generate(prompt)
        except CannotAnswer as why:
            raise ApiError(why.code, str(why)) from why
        except Exception as error:
            raise _internal(error) from error
        answer = bend(cut_to_limit(answer, prompt.config), faults)
        return write_response(prompt, answer, response_id=new_id(self._rng, 22), cached=cached)

    async def embed(
        self, model: str, requests: Sequence[Json], faults: Sequence[Fault] = ()
    ) -> list[tuple[list[float], int]]:
        """The vector and the tokens of each request. Those that ask alike go to the backend together."""
        spoil(faults)
        read = [read_embedding(request) for request in requests]
        groups: dict[tuple[int | None, str | None], list[int]] = {}
        for place, (_, dimensions, task) in enumerate(read):
            groups.setdefault((dimensions, task), []).append(place)
        vectors: dict[int, list[float]] = {}
        for (dimensions, task), places in groups.items():
            texts = [read[place][0] for place in places]
            try:
                found = await self.backend.embed(model, texts, dimensions=dimensions, task=task)
            except CannotAnswer as why:
                raise ApiError(why.code, str(why)) from why
            except Exception as error:
                raise _internal(error) from error
            vectors.update(zip(places, found, strict=True))
        return [(vectors[place], tokens.of_text(text)) for place, (text, _, _) in enumerate(read)]

    def count_tokens(self, model: str, body: Json) -> Json:
        request = field(body, "generateContentRequest", dict, body)
        turns = read_turns(field(request, "contents"), self.find_file)
        counts = tokens.of_turns(turns, read_system(request, self.find_file))
        return {"totalTokens": sum(counts.values()), "promptTokensDetails": tokens.details(counts)}

    def find_file(self, uri: str, mime: str | None) -> Part:
        file = self._files.usable(file_name(uri))
        return Part(mime=mime or file.mime, file=self._files.path(file))

    def _prompt(self, model: str, request: Json, key: str) -> tuple[Prompt, int]:
        """The prompt, and how many of its tokens came from a cache."""
        before: tuple[Turn, ...] = ()
        system, cached = None, 0
        if (name := field(request, "cachedContent", str)) is not None:
            cache = self._caches.get(name)
            if cache.model != model:
                raise bad_request(
                    f"Model used by GenerateContent request (models/{model}) and CachedContent "
                    f"(models/{cache.model}) has to be the same."
                )
            kept = cache.request
            before = read_turns(kept["contents"], self.find_file)
            system, cached = read_system(kept, self.find_file), cache.tokens
        return read_prompt(model, request, self.find_file, before, system, key), cached


def _internal(error: Exception) -> ApiError:
    log.error("the backend failed", exc_info=error)
    return ApiError(INTERNAL, f"Internal error encountered: {type(error).__name__}: {error}"[:500])
