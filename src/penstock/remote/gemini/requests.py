"""Requests as they travel: raw REST JSON, the same in a batch's file, inline and alone.

Field names are REST's (`generationConfig`, `systemInstruction`), not the SDK's flat `config`, which a batch refuses.
"""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from penstock.engine.errors import InvalidPayload, InvalidRequest

PLACEHOLDER = "penstock-file:"
"""Begins the address of a file that is not uploaded yet: `penstock-file:NAME`."""

Part = Mapping[str, Any]

M = TypeVar("M", bound=BaseModel)

_MIMES = {".jsonl": "application/jsonl", ".md": "text/markdown", ".webp": "image/webp"}


def checked(model: type[M], request: Any) -> M:
    """A request as the call's author gave it, or as it came back from the store."""
    try:
        return request if isinstance(request, model) else model.model_validate(request)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidPayload(f"no {model.__name__}: {place + ': ' if place else ''}{first['msg']}") from error


def text(content: str) -> dict[str, Any]:
    return {"text": content}


def file(name: str, mime: str | None = None) -> dict[str, Any]:
    """A part that stands for a local file, uploaded when the batch is prepared."""
    return {"fileData": {"fileUri": f"{PLACEHOLDER}{name}", "mimeType": mime or mime_of(name)}}


def data(content: bytes, mime: str) -> dict[str, Any]:
    """Bytes within the request: for small things."""
    return {"inlineData": {"data": base64.b64encode(content).decode(), "mimeType": mime}}


def generate_request(
    parts: str | Sequence[Part | str],
    *,
    system: str | None = None,
    schema: type[BaseModel] | Mapping[str, Any] | None = None,
    temperature: float | None = None,
    max_output_tokens: int | None = None,
    thinking_budget: int | None = None,
    cached: str | None = None,
    config: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One GenerateContentRequest. `config` is laid over the generation config, in REST's names."""
    told = [parts] if isinstance(parts, str) else parts
    turn = {"role": "user", "parts": [text(part) if isinstance(part, str) else dict(part) for part in told]}
    generation: dict[str, Any] = {}
    if temperature is not None:
        generation["temperature"] = temperature
    if max_output_tokens is not None:
        generation["maxOutputTokens"] = max_output_tokens
    if thinking_budget is not None:
        generation["thinkingConfig"] = {"thinkingBudget": thinking_budget}
    if schema is not None:
        # `responseJsonSchema` gives silently degenerate answers in batches; this does not.
        generation |= {"responseMimeType": "application/json", "responseSchema": response_schema(schema)}
    request: dict[str, Any] = {"contents": [turn]}
    if system is not None:
        request["systemInstruction"] = {"parts": [text(system)]}
    if generation or config:
        request["generationConfig"] = {**generation, **(config or {})}
    if cached is not None:
        request["cachedContent"] = cached
    return request


def embed_request(
    content: str, *, task: str | None = None, dimensions: int | None = None, title: str | None = None
) -> dict[str, Any]:
    request: dict[str, Any] = {"content": {"parts": [text(content)]}}
    if task is not None:
        request["taskType"] = task
    if title is not None:
        request["title"] = title
    if dimensions is not None:
        request["outputDimensionality"] = dimensions
    return request


def response_schema(schema: type[BaseModel] | Mapping[str, Any]) -> dict[str, Any]:
    """Gemini's subset of OpenAPI, by the SDK's own converter, with the fields in the order of their declaration.
    What is written in those words already is left as it is."""
    from google.genai import types

    plain = json_schema(schema)
    if str(plain.get("type", "")).isupper():
        return plain
    _check_expressible(plain, plain, ())
    try:
        converted = types.Schema.from_json_schema(json_schema=types.JSONSchema.model_validate(plain))
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the schema cannot be told to Gemini: {error}") from error
    return _ordered(converted.model_dump(mode="json", by_alias=True, exclude_none=True))


def json_schema(schema: type[BaseModel] | Mapping[str, Any]) -> dict[str, Any]:
    """The schema that answers are held against."""
    return dict(schema) if isinstance(schema, Mapping) else schema.model_json_schema()


def placeholders(request: Any) -> Iterator[dict[str, Any]]:
    """The `fileData` objects in a request that wait for an upload."""
    if isinstance(request, dict):
        for name, item in request.items():
            if name in ("fileData", "file_data") and isinstance(item, dict):
                if uri_of(item).startswith(PLACEHOLDER):
                    yield item
            else:
                yield from placeholders(item)
    elif isinstance(request, list):
        for item in request:
            yield from placeholders(item)


def uri_of(file_data: Mapping[str, Any]) -> str:
    return str(file_data.get("fileUri", file_data.get("file_uri", "")))


def mime_of(name: str) -> str:
    found = _MIMES.get(PurePath(name).suffix.lower()) or mimetypes.guess_type(name)[0]
    if found is None:
        raise InvalidRequest(f"what is in {name!r} is not told by its name: give it a mime type")
    return found


def _check_expressible(schema: Any, root: Mapping[str, Any], above: tuple[str, ...]) -> None:
    """Two things would be lost without a word: fields of any name, and schemas within themselves."""
    if isinstance(schema, list):
        for item in schema:
            _check_expressible(item, root, above)
    if not isinstance(schema, Mapping):
        return
    if isinstance(schema.get("additionalProperties"), Mapping) or schema.get("additionalProperties") is True:
        raise InvalidRequest("the schema has fields of any name (a dict), which Gemini cannot be told: use a list")
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference in above:
            raise InvalidRequest(f"the schema holds itself ({reference}), which Gemini cannot be told")
        target: Any = root
        for step in reference.removeprefix("#/").split("/"):
            target = target.get(step, {}) if isinstance(target, Mapping) else {}
        _check_expressible(target, root, (*above, reference))
    for field in (schema.get("properties") or {}).values():
        _check_expressible(field, root, above)
    for name in ("items", "prefixItems", "anyOf", "oneOf", "allOf"):
        _check_expressible(schema.get(name), root, above)


def _ordered(schema: dict[str, Any]) -> dict[str, Any]:
    if isinstance(schema.get("items"), dict):
        _ordered(schema["items"])
    for choice in schema.get("anyOf") or ():
        _ordered(choice)
    properties = schema.get("properties")
    if isinstance(properties, dict):
        schema["propertyOrdering"] = list(properties)
        for field in properties.values():
            _ordered(field)
    return schema
