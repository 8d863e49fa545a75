"""How the local Gemini counts tokens: a quarter of the characters, rounded up; 258 for anything that is not text.

The real service counts otherwise; this is the same every time, and of the same order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.gemini_local.backend import Part, Turn
from penstock.gemini_local.wire import Json, field

PER_ATTACHMENT = 258

_modalities = {"image": "IMAGE", "application": "DOCUMENT", "audio": "AUDIO", "video": "VIDEO"}


def of_text(text: str) -> int:
    return -(-len(text) // 4)


def of_part(part: Part) -> tuple[str, int]:
    """The modality of a part, and its tokens."""
    if part.text is not None:
        return "TEXT", of_text(part.text)
    return _modalities.get((part.mime or "").partition("/")[0], "DOCUMENT"), PER_ATTACHMENT


def of_turns(turns: Iterable[Turn], system: str | None = None) -> dict[str, int]:
    """Tokens by modality, in the order in which they come."""
    counts: dict[str, int] = {}
    if system:
        counts["TEXT"] = of_text(system)
    for turn in turns:
        for part in turn.parts:
            modality, tokens = of_part(part)
            counts[modality] = counts.get(modality, 0) + tokens
    return counts


def details(counts: dict[str, int]) -> list[Json]:
    return [{"modality": modality, "tokenCount": tokens} for modality, tokens in counts.items() if tokens]


def estimate(request: Any) -> int:
    """Tokens of a request in JSON, without looking at its files. What is no request counts nothing."""
    if not isinstance(request, dict):
        return 0
    contents = request.get("contents")
    contents = list(contents) if isinstance(contents, list) else [contents]
    total = 0
    for content in (
        *contents,
        request.get("systemInstruction"),
        request.get("system_instruction"),
        request.get("content"),
    ):
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else [parts]:
            if not isinstance(part, dict):
                continue
            text = part.get("text")
            if isinstance(text, str):
                total += of_text(text)
            elif field(part, "inlineData") is not None or field(part, "fileData") is not None:
                total += PER_ATTACHMENT
    return total
