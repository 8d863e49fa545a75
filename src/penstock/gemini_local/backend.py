"""What the local Gemini asks of whoever answers for it: text and vectors for a request whose files are at hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(slots=True, frozen=True)
class Part:
    """A piece of a request: text, or bytes of some type (`data`, or a `file` where they are large)."""

    text: str | None = None
    mime: str | None = None
    data: bytes | None = None
    file: Path | None = None

    def read(self) -> bytes:
        """The bytes, wherever they are. Blocking: not for the event loop."""
        if self.data is not None:
            return self.data
        if self.file is not None:
            return self.file.read_bytes()
        return (self.text or "").encode()


@dataclass(slots=True, frozen=True)
class Turn:
    role: str
    parts: tuple[Part, ...]


@dataclass(slots=True, frozen=True)
class Prompt:
    """One `generateContent` request, in plain terms. `schema` is the response schema as JSON Schema or OpenAPI subset,
    `raw` the request as it came, `key` that of the row where it is one of a batch."""

    model: str
    turns: tuple[Turn, ...]
    system: str | None = None
    schema: dict[str, Any] | None = None
    config: dict[str, Any] = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict)
    key: str = ""

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(part for turn in self.turns for part in turn.parts)

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if part.text is not None)


@dataclass(slots=True, frozen=True)
class Answer:
    """`finish` is Gemini's finish reason; with `blocked` (a block reason) there is no text. Tokens that are None are
    counted by the server."""

    text: str
    finish: str = "STOP"
    blocked: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    thought_tokens: int = 0


class CannotAnswer(Exception):
    """The backend has no honest answer. `code` is a google.rpc code (3 invalid, 12 unimplemented, 13 internal, 14 try
    again); the message names the way out."""

    def __init__(self, message: str, *, code: int = 3) -> None:
        super().__init__(message)
        self.code = code


class Backend(Protocol):
    """Answers for the local Gemini. Nothing here may block the event loop: heavy work goes to another process or
    thread."""

    name: str

    async def generate(self, prompt: Prompt) -> Answer: ...

    async def embed(
        self, model: str, texts: list[str], *, dimensions: int | None, task: str | None
    ) -> list[list[float]]:
        """One vector for each text, of unit length where `dimensions` cuts them."""
        ...

    async def close(self) -> None: ...
