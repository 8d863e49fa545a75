"""From requests as they come to the backend's terms, and from its answers to responses as they go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.gemini_local import tokens
from penstock.gemini_local.backend import Answer, Part, Prompt, Turn
from penstock.gemini_local.errors import bad_request
from penstock.gemini_local.wire import Json, decode_bytes, field, whole_number

FindFile = Callable[[str, str | None], Part]
"""The part for a file's URI and the type the request gives it, if any."""


def read_turns(contents: Any, find_file: FindFile) -> tuple[Turn, ...]:
    """`contents` of a request: a list of contents, or one."""
    if isinstance(contents, dict):
        contents = [contents]
    if not isinstance(contents, list):
        raise bad_request("* GenerateContentRequest.contents: contents is not specified")
    return tuple(_turn(content, find_file) for content in contents)


def read_system(request: Json, find_file: FindFile) -> str | None:
    system = field(request, "systemInstruction")
    if isinstance(system, str):
        return system
    if system is None:
        return None
    return "\n".join(part.text for part in _turn(system, find_file).parts if part.text is not None) or None


def read_prompt(
    model: str,
    request: Json,
    find_file: FindFile,
    before: tuple[Turn, ...] = (),
    system: str | None = None,
    key: str = "",
) -> Prompt:
    """`before` and `system` come from a cached content."""
    turns = read_turns(field(request, "contents"), find_file)
    if not turns:
        raise bad_request("* GenerateContentRequest.contents: contents is not specified")
    config = field(request, "generationConfig", dict, {})
    schema = field(config, "responseSchema", dict) or field(config, "responseJsonSchema", dict)
    return Prompt(
        model=model,
        turns=before + turns,
        system=system or read_system(request, find_file),
        schema=schema,
        config=config,
        raw=request,
        key=key,
    )


def read_embedding(request: Json) -> tuple[str, int | None, str | None]:
    """The text of an embedding request, the dimensions asked for and its task."""
    content = field(request, "content")
    if content is None:
        raise bad_request("* EmbedContentRequest.content: content is not specified")
    turn = _turn(content, _no_files)
    text = "\n".join(part.text for part in turn.parts if part.text is not None)
    if not text:
        raise bad_request("* EmbedContentRequest.content: content is empty")
    dimensions = whole_number(request, "outputDimensionality")
    if dimensions is not None and not 1 <= dimensions <= 3072:
        raise bad_request("* EmbedContentRequest.output_dimensionality: must be between 1 and 3072")
    return text, dimensions, field(request, "taskType", str)


def cut_to_limit(answer: Answer, config: Json) -> Answer:
    """Gemini stops in the middle of a word when the tokens asked for are used up."""
    most = whole_number(config, "maxOutputTokens")
    if most is None or most <= 0 or answer.output_tokens is not None or tokens.of_text(answer.text) <= most:
        return answer
    return Answer(
        answer.text[: most * 4], "MAX_TOKENS", answer.blocked, answer.prompt_tokens, most, answer.thought_tokens
    )


def write_response(prompt: Prompt, answer: Answer, *, response_id: str, cached: int = 0) -> Json:
    counts = tokens.of_turns(prompt.turns, prompt.system)
    prompt_tokens = sum(counts.values()) if answer.prompt_tokens is None else answer.prompt_tokens
    usage: Json = {"promptTokenCount": prompt_tokens}
    if cached:
        usage["cachedContentTokenCount"] = cached
    response: Json = {"usageMetadata": usage, "modelVersion": prompt.model, "responseId": response_id}
    if answer.blocked is not None:
        usage |= {"totalTokenCount": prompt_tokens, "promptTokensDetails": tokens.details(counts)}
        return {"promptFeedback": {"blockReason": answer.blocked}, **response}
    output = tokens.of_text(answer.text) if answer.output_tokens is None else answer.output_tokens
    usage["candidatesTokenCount"] = output
    if answer.thought_tokens:
        usage["thoughtsTokenCount"] = answer.thought_tokens
    usage["totalTokenCount"] = prompt_tokens + output + answer.thought_tokens
    usage["promptTokensDetails"] = tokens.details(counts)
    candidate: Json = {"finishReason": answer.finish, "index": 0}
    if answer.text:
        candidate = {"content": {"parts": [{"text": answer.text}], "role": "model"}, **candidate}
    return {"candidates": [candidate], **response}


def _turn(content: Any, find_file: FindFile) -> Turn:
    if isinstance(content, str):
        return Turn("user", (Part(text=content),))
    if not isinstance(content, dict):
        raise bad_request("Invalid JSON payload received: a content is an object with parts.")
    parts = content.get("parts", [])
    parts = [parts] if isinstance(parts, dict) else parts
    if not isinstance(parts, list):
        raise bad_request("Invalid JSON payload received: parts is a list.")
    return Turn(field(content, "role", str, "user"), tuple(_part(part, find_file) for part in parts))


def _part(part: Any, find_file: FindFile) -> Part:
    if not isinstance(part, dict):
        raise bad_request("Invalid JSON payload received: a part is an object.")
    if (text := part.get("text")) is not None:
        if not isinstance(text, str):
            raise bad_request("Invalid value at 'text' (TYPE_STRING)")
        return Part(text=text)
    if (inline := field(part, "inlineData", dict)) is not None:
        mime = field(inline, "mimeType", str)
        if not mime:
            raise bad_request("* inline_data.mime_type: mime_type is required")
        return Part(mime=mime, data=decode_bytes(field(inline, "data", str, "")))
    if (file := field(part, "fileData", dict)) is not None:
        return find_file(field(file, "fileUri", str, ""), field(file, "mimeType", str))
    # Calls of functions and their answers, code and whatever comes next: a text backend sees that they were there.
    return Part(text="", mime="application/json")


def _no_files(uri: str, mime: str | None) -> Part:
    raise bad_request("Files are not supported in an embedding request.")
