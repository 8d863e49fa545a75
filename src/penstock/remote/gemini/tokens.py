"""How many tokens a request will be, counted here and for nothing: enough for limits and estimates, not for bills.

Text is a token for every four bytes of UTF-8, which holds for English and overstates little else. Pictures are counted
by model family, as documented; what has pages or a duration, by its size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.remote.prices import plain_name

IMAGE_TOKENS_2 = 258
"""Gemini 2.x, for each tile of 768 pixels; small pictures are one tile."""

IMAGE_TOKENS_3 = 1120
"""Gemini 3 and later, at the highest resolution, whatever the picture's size."""

_TILES = 4
"""A scanned page in 2.x: larger than one tile."""

_BYTES_PER_TOKEN = {"audio": 500, "video": 800}
"""32 tokens a second at 128 kbit/s; about 300 a second at 2 Mbit/s."""

_PDF_PAGE = 50_000


def input_tokens(request: Mapping[str, Any], model: str, sizes: Mapping[str, int] | None = None) -> int:
    """The input of one request in REST form. `sizes` knows the bytes of files that are named by their address."""
    return max(1, _counted(request, image_tokens(model), sizes or {}))


def output_tokens(request: Mapping[str, Any], most: int) -> int:
    """The most output one request can have, thinking included; `most` where it does not say."""
    config = request.get("generationConfig") or request.get("generation_config") or {}
    told = config.get("maxOutputTokens", config.get("max_output_tokens"))
    candidates = config.get("candidateCount", config.get("candidate_count")) or 1
    limit = told if isinstance(told, int) and told > 0 else most
    return limit * (candidates if isinstance(candidates, int) and candidates > 0 else 1)


def text_tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // 4)


def image_tokens(model: str) -> int:
    name = plain_name(model)
    return IMAGE_TOKENS_2 * _TILES if name.startswith(("gemini-1", "gemini-2")) else IMAGE_TOKENS_3


def _counted(value: Any, image: int, sizes: Mapping[str, int]) -> int:
    if isinstance(value, str):
        return text_tokens(value)
    if isinstance(value, Mapping):
        total = 0
        for name, item in value.items():
            if name in ("inlineData", "inline_data") and isinstance(item, Mapping):
                total += _media(_mime(item), len(str(item.get("data", ""))) * 3 // 4, image)
            elif name in ("fileData", "file_data") and isinstance(item, Mapping):
                uri = str(item.get("fileUri", item.get("file_uri", "")))
                total += _media(_mime(item), sizes.get(uri, 0), image)
            else:
                # The names matter in a schema, which is part of the prompt.
                total += text_tokens(str(name)) + _counted(item, image, sizes)
        return total
    if isinstance(value, list):
        return sum(_counted(item, image, sizes) for item in value)
    return 1


def _mime(part: Mapping[str, Any]) -> str:
    return str(part.get("mimeType", part.get("mime_type", "")))


def _media(mime: str, size: int, image: int) -> int:
    kind = mime.partition("/")[0]
    if kind in _BYTES_PER_TOKEN:
        return max(1, size // _BYTES_PER_TOKEN[kind])
    if mime == "application/pdf":
        return image * max(1, -(-size // _PDF_PAGE))
    if kind == "text" or mime.endswith("json"):
        return max(1, -(-size // 4))
    return image
