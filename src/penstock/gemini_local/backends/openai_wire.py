"""Requests and answers between Gemini's terms and those of OpenAI's chat completions. Pure; what is sent and received
is in `openai.py`."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.gemini_local.backend import Answer, CannotAnswer, Prompt
from penstock.gemini_local.readers.schema import all_required, json_schema
from penstock.gemini_local.wire import field

PICTURES = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
"""What every such server takes as it is; other images and PDFs are drawn first."""

_OPTIONS = {
    "temperature": "temperature",
    "topP": "top_p",
    "maxOutputTokens": "max_tokens",
    "stopSequences": "stop",
    "seed": "seed",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}

_FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY", "eos": "STOP"}


def chat_request(prompt: Prompt, model: str, contents: Sequence[tuple[str, list[dict[str, Any]]]]) -> dict[str, Any]:
    """The body of a chat completion. `contents` are the turns with their parts as `text_part` and `picture_part` make
    them."""
    if field(prompt.raw, "tools"):
        raise CannotAnswer("Tools are not passed on to an OpenAI-compatible server; send the request without.", code=12)
    messages: list[dict[str, Any]] = []
    if prompt.system:
        messages.append({"role": "system", "content": prompt.system})
    for role, parts in contents:
        messages.append({"role": "assistant" if role == "model" else "user", "content": _content(parts)})
    body: dict[str, Any] = {"model": model, "messages": messages}
    for ours, theirs in _OPTIONS.items():
        value = field(prompt.config, ours)
        if value is not None:
            body[theirs] = value
    if prompt.schema is not None:
        body["response_format"] = _response_format(prompt.schema)
    elif field(prompt.config, "responseMimeType") == "application/json":
        body["response_format"] = {"type": "json_object"}
    return body


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def picture_part(mime: str, data: bytes) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{mime};base64,{base64.b64encode(data).decode()}"}}


def chat_answer(body: Any) -> Answer:
    """The first choice. A refusal and a filter's work are blocks, as Gemini tells them."""
    choices = body.get("choices") if isinstance(body, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        raise CannotAnswer(f"The server's answer has no choice in it: {_short(body)}", code=13)
    said = message.get("content")
    text = said if isinstance(said, str) else "".join(str(part.get("text", "")) for part in said or ())
    finish = _FINISH.get(str(choice.get("finish_reason") or "stop"), "OTHER")
    blocked = "SAFETY" if finish == "SAFETY" or (not text and message.get("refusal")) else None
    if finish == "OTHER" and not text:
        raise CannotAnswer(f"The server stopped for a reason we do not know: {choice.get('finish_reason')!r}", code=13)
    asked, given, thought = _usage(body.get("usage"))
    return Answer(
        text="" if blocked else text,
        finish="SAFETY" if blocked else finish,
        blocked=blocked,
        prompt_tokens=asked,
        output_tokens=given,
        thought_tokens=thought,
    )


def vectors(body: Any, count: int) -> list[list[float]]:
    """The embeddings in the order of the texts, whatever order they came in."""
    data = body.get("data") if isinstance(body, Mapping) else None
    try:
        rows = sorted(data or (), key=lambda row: int(row["index"]))
        found = [[float(value) for value in row["embedding"]] for row in rows]
    except (KeyError, TypeError, ValueError):
        raise CannotAnswer(f"The server's embeddings cannot be understood: {_short(body)}", code=13) from None
    if len(found) != count:
        raise CannotAnswer(f"The server gave {len(found)} embeddings for {count} texts.", code=13)
    return found


def error_message(text: str) -> str:
    """What the server said, from the several ways in which such servers say it."""
    try:
        body = json.loads(text)
    except ValueError:
        return text.strip()[:500] or "no explanation"
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("detail") or error
    return str(error)[:500]


def _content(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Plain text as a plain string: servers without vision know nothing else."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Strict where the schema allows it; a schema with optional fields is followed all the same by servers that
    decode by a grammar."""
    plain = json_schema(schema)
    strict = plain.get("type") == "object" and all_required(plain)
    return {"type": "json_schema", "json_schema": {"name": "response", "schema": plain, "strict": strict}}


def _usage(usage: Any) -> tuple[int | None, int | None, int]:
    if not isinstance(usage, Mapping):
        return None, None, 0
    details = usage.get("completion_tokens_details")
    thought = details.get("reasoning_tokens") if isinstance(details, Mapping) else None
    thought = thought if isinstance(thought, int) else 0
    asked, given = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return (
        asked if isinstance(asked, int) else None,
        max(0, given - thought) if isinstance(given, int) else None,
        thought,
    )


def _short(body: Any) -> str:
    return json.dumps(body, default=str)[:300]
