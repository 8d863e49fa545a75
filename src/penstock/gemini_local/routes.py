"""What can be asked: method and path, and the name of the operation, which faults and the journal use too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Match:
    operation: str
    version: str
    id: str = ""
    verb: str = ""


_version = r"/(?P<version>v1|v1beta|v1alpha)"
_id = r"(?P<id>[^/:]{1,200})"

_routes = [
    (method, re.compile(pattern), operation)
    for method, pattern, operation in (
        ("POST", rf"{_version}/models/{_id}:(?P<verb>generateContent)", "generate"),
        ("GET", rf"{_version}/batches/{_id}", "get"),
        ("POST", rf"{_version}/models/{_id}:(?P<verb>streamGenerateContent)", "stream"),
        ("POST", rf"{_version}/models/{_id}:(?P<verb>embedContent|batchEmbedContents)", "embed"),
        ("POST", rf"{_version}/models/{_id}:(?P<verb>batchGenerateContent|asyncBatchEmbedContent)", "create"),
        ("POST", rf"{_version}/models/{_id}:(?P<verb>countTokens)", "count_tokens"),
        ("GET", rf"{_version}/batches", "list"),
        ("POST", rf"{_version}/batches/{_id}:cancel", "cancel"),
        ("DELETE", rf"{_version}/batches/{_id}", "delete"),
        ("POST", rf"{_version}/batches/{_id}:delete", "delete"),
        ("GET", rf"(?:/download)?{_version}/files/{_id}:download", "download"),
        ("GET", rf"/download{_version}/files/{_id}", "download"),
        ("GET", rf"{_version}/files", "file_list"),
        ("GET", rf"{_version}/files/{_id}", "file_get"),
        ("DELETE", rf"{_version}/files/{_id}", "file_delete"),
        ("GET", rf"{_version}/models", "model_list"),
        ("GET", rf"{_version}/models/{_id}", "model_get"),
        ("POST", rf"{_version}/cachedContents", "cache_create"),
        ("GET", rf"{_version}/cachedContents", "cache_list"),
        ("GET", rf"{_version}/cachedContents/{_id}", "cache_get"),
        ("PATCH", rf"{_version}/cachedContents/{_id}", "cache_update"),
        ("DELETE", rf"{_version}/cachedContents/{_id}", "cache_delete"),
    )
]
_upload = re.compile(rf"/upload{_version}/files")

OPERATIONS = {operation for _, _, operation in _routes} | {
    "upload_start", "upload_chunk", "upload_query", "upload_cancel",
}  # fmt: skip

WITH_BODY = {
    "generate", "stream", "embed", "create", "count_tokens", "cache_create", "cache_update", "upload_start",
}  # fmt: skip
"""Operations whose body is JSON."""


def match(method: str, path: str, headers: Mapping[str, str], query: Mapping[str, str]) -> Match | None:
    if (found := _upload.fullmatch(path)) is not None:
        return _match_upload(method, found["version"], headers, query)
    for wanted, pattern, operation in _routes:
        if wanted == method and (found := pattern.fullmatch(path)) is not None:
            parts = found.groupdict()
            if operation == "file_get" and query.get("alt") == "media":
                operation = "download"
            return Match(operation, parts["version"], parts.get("id") or "", parts.get("verb") or "")
    return None


def _match_upload(method: str, version: str, headers: Mapping[str, str], query: Mapping[str, str]) -> Match | None:
    if method not in ("POST", "PUT"):
        return None
    commands = {word.strip().lower() for word in headers.get("x-goog-upload-command", "").split(",")}
    if not (id := query.get("upload_id", "")):
        return Match("upload_start", version)
    if "query" in commands:
        return Match("upload_query", version, id)
    if "cancel" in commands:
        return Match("upload_cancel", version, id)
    return Match("upload_chunk", version, id, "finalize" if "finalize" in commands else "")
