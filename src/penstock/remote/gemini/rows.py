"""What became of each request of a batch, decided from its line alone: pure functions over decoded JSON.

ok          an answer, whole, and of the schema where one was asked
api_error   Google says that this request failed
blocked     refused for its content: no answer, or one that was stopped
truncated   the answer was cut off
invalid     an answer that is empty, cannot be read or does not fit the schema
missing     asked, and not in the result
duplicate   a second line for a key; the first one counts
unknown     a line with no key, or with one that was not asked
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from penstock.engine.call import Usage
from penstock.remote.gemini.lines import decoded
from penstock.remote.gemini.schema import Schema, misfit

Outcome = Literal["ok", "api_error", "blocked", "truncated", "invalid", "missing", "duplicate", "unknown"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

Kind = Literal["generate", "embed"]

NOTHING = Usage()

NO_KEY = "the line has no key"
"""Said of what is a line of a result otherwise."""

_BLOCKS = frozenset({
    "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR",
    "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
})  # fmt: skip
_CUTS = frozenset({"MAX_TOKENS", "CONTINUATION"})
_LOST_CODES = frozenset({3, 5, 7, 400, 403, 404, 410})
"""INVALID_ARGUMENT, NOT_FOUND and PERMISSION_DENIED, as google.rpc and as HTTP say them: who may not see a file is not
told whether there is one."""

_A_FILE = re.compile(r"\bfiles?\b", re.IGNORECASE)
_KEY = re.compile(r"\bAPI[ _-]?key\b", re.IGNORECASE)
_LOST = re.compile(
    r"permission to access the file\b|\b(may|does|do|did)(n't| not| no longer) exist|\bno longer (exists?|available)"
    r"|\bnot found\b|\b(has|have|is|was|were|been) (expired|deleted)\b",
    re.IGNORECASE,
)
_UNSAID = ("", "FINISH_REASON_UNSPECIFIED")


@dataclass(slots=True, frozen=True)
class Row:
    """One line of `rows.jsonl`. `code` is a google.rpc code; `conflict` marks a duplicate that says something else
    than the line that counts."""

    key: str | None
    outcome: Outcome
    text: str | None = None
    parsed: Any = None
    embedding: list[float] | None = None
    error: str | None = None
    code: int | None = None
    finish: str | None = None
    usage: Usage = NOTHING
    conflict: bool = False

    def as_json(self) -> dict[str, Any]:
        """What is there, without what is not."""
        written: dict[str, Any] = {"key": self.key, "outcome": self.outcome}
        for name in ("text", "parsed", "embedding", "error", "code", "finish"):
            value = getattr(self, name)
            if value is not None:
                written[name] = value
        if self.conflict:
            written["conflict"] = True
        if self.usage != NOTHING:
            written["usage"] = {
                "input": self.usage.input,
                "output": self.usage.output,
                "cached": self.usage.cached,
                "thinking": self.usage.thinking,
            }
        return written

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Row:
        return cls(**{**written, "usage": Usage(**written.get("usage", {}))})


def read_row(line: bytes | None, kind: Kind, schema: Schema | None = None) -> Row:
    """The row of one line of a result; None is a line too long to be read."""
    if line is None:
        return Row(None, "unknown", error="the line is too long to be read")
    value, damage = decoded(line)
    if not isinstance(value, dict):
        return Row(None, "unknown", error=damage or "the line is no JSON object")
    row = classify(value, kind, schema)
    if damage and row.outcome != "unknown":
        return replace(row, outcome="invalid", error=damage)
    return row


def classify(value: Mapping[str, Any], kind: Kind, schema: Schema | None = None) -> Row:
    """A decoded line, or an inlined response in the same form. Never by its place."""
    key = key_of(value)
    response = value.get("response")
    error = value.get("error") or (value.get("status") if response is None else None)
    if key is None:
        return Row(None, "unknown", error=NO_KEY)
    if isinstance(error, Mapping):
        code = error.get("code")
        message = str(error.get("message") or "Gemini gave no reason")[:2000]
        return Row(key, "api_error", error=message, code=code if isinstance(code, int) else None)
    if not isinstance(response, Mapping):
        return Row(key, "invalid", error="the line has neither a response nor an error")
    return embedded(key, response) if kind == "embed" else answered(key, response, schema)


def lost_file(row: Row) -> bool:
    """Whether it failed because Gemini has not, or no longer, a file that the request names: with the file uploaded
    anew it may work. A refusal of the key, the model or the project is none."""
    told = row.error or ""
    if row.outcome != "api_error" or (row.code is not None and row.code not in _LOST_CODES):
        return False
    return bool(_A_FILE.search(told) and _LOST.search(told) and not _KEY.search(told))


def key_of(value: Mapping[str, Any]) -> str | None:
    """`key` in files, `metadata.key` in inlined responses."""
    key = value.get("key")
    if key is None and isinstance(value.get("metadata"), Mapping):
        key = value["metadata"].get("key")
    return key if isinstance(key, str) and key else None


def answered(key: str, response: Mapping[str, Any], schema: Schema | None = None) -> Row:
    """A GenerateContentResponse: an answer is only one that ended by itself."""
    usage = usage_of(response.get("usageMetadata"))
    feedback = response.get("promptFeedback")
    candidates = response.get("candidates")
    candidate = candidates[0] if isinstance(candidates, list) and candidates else None
    if not isinstance(candidate, Mapping):
        reason = feedback.get("blockReason") if isinstance(feedback, Mapping) else None
        if reason:
            return Row(key, "blocked", error=f"the prompt was blocked: {reason}", finish=str(reason), usage=usage)
        return Row(key, "invalid", error="the response is empty", usage=usage)
    finish = str(candidate.get("finishReason") or "")
    text = text_of(candidate)
    row = Row(key, "ok", text=text, finish=finish or None, usage=usage)
    if finish in _BLOCKS:
        told = candidate.get("finishMessage") or finish
        return replace(row, outcome="blocked", error=f"the answer was blocked: {told}")
    if finish in _CUTS or finish in _UNSAID:
        return replace(row, outcome="truncated", error=f"the answer is not whole: {finish or 'no finish reason'}")
    if finish != "STOP":
        return replace(row, outcome="invalid", error=f"the answer ended with {finish}")
    if not text.strip() and (schema is not None or not _has_other_parts(candidate)):
        return replace(row, outcome="invalid", error="the answer is empty")
    return row if schema is None else fitted(row, schema)


def fitted(row: Row, schema: Schema) -> Row:
    """An answer in JSON, held against its schema."""
    parsed, damage = decoded((row.text or "").encode("utf-8", "replace"))
    wrong = damage or misfit(parsed, schema)
    if wrong:
        return replace(row, outcome="invalid", error=f"the answer does not fit the schema: {wrong}"[:2000])
    return replace(row, parsed=parsed)


def embedded(key: str, response: Mapping[str, Any]) -> Row:
    embedding = response.get("embedding")
    values = embedding.get("values") if isinstance(embedding, Mapping) else None
    usage = Usage(input=_count(response.get("tokenCount"))) + usage_of(response.get("usageMetadata"))
    numbers = isinstance(values, list) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values
    )
    if not values or not numbers:
        return Row(key, "invalid", error="the response has no embedding", usage=usage)
    return Row(key, "ok", embedding=[float(value) for value in values], usage=usage)


def text_of(candidate: Mapping[str, Any]) -> str:
    """The answer itself: thoughts are left out."""
    return "".join(
        part["text"] for part in _parts(candidate) if isinstance(part.get("text"), str) and not part.get("thought")
    )


def usage_of(metadata: Any) -> Usage:
    """Google counts thinking beside the candidates, and what came from a cache within the prompt."""
    if not isinstance(metadata, Mapping):
        return Usage()
    thinking = _count(metadata.get("thoughtsTokenCount"))
    return Usage(
        input=_count(metadata.get("promptTokenCount")) + _count(metadata.get("toolUsePromptTokenCount")),
        output=_count(metadata.get("candidatesTokenCount")) + thinking,
        cached=_count(metadata.get("cachedContentTokenCount")),
        thinking=thinking,
    )


def _parts(candidate: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = candidate.get("content")
    parts = content.get("parts") if isinstance(content, Mapping) else None
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []


def _has_other_parts(candidate: Mapping[str, Any]) -> bool:
    return any("text" not in part for part in _parts(candidate))


def _count(value: Any) -> int:
    """An int64 comes as a string, a small number as a number."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
