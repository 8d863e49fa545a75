"""What is ingested, and into what: documents and their chunks, and how a knowledge base is configured."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Format = Literal["markdown", "plain"]

DEFAULT_SIZE = 800
DEFAULT_OVERLAP = 150
"""Tokens of a chunk, and how many of them the next one repeats. A token is counted as four bytes of UTF-8."""


@dataclass(slots=True, frozen=True)
class Mark:
    """From this character of a document's text on: a page (`{"page": 3}`), a second of a video (`{"start": 12.5}`)."""

    offset: int
    position: Mapping[str, Any]


@dataclass(slots=True, frozen=True)
class Entry:
    """Something a source has, not read yet. `cursor` is where the source goes on after it; `fingerprint` changes when
    the content may have changed (None: only reading it tells)."""

    uri: str
    cursor: str
    fingerprint: str | None = None


@dataclass(slots=True, frozen=True)
class Document:
    """One document as text. `uri` names it within its source for good; `fingerprint` as in `Entry`."""

    uri: str
    title: str
    text: str
    format: Format = "plain"
    marks: tuple[Mark, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str | None = None

    @property
    def content_hash(self) -> str:
        """Of everything that chunks are made of."""
        digest = hashlib.sha256(f"{self.format}\n{self.title}\n".encode("utf-8", "replace"))
        digest.update(self.text.encode("utf-8", "replace"))
        digest.update(repr([(mark.offset, sorted(mark.position.items())) for mark in self.marks]).encode())
        digest.update(repr(sorted(self.metadata.items())).encode("utf-8", "replace"))
        return digest.hexdigest()


@dataclass(slots=True, frozen=True)
class Unchanged:
    """What a source says of an entry that is as it was (a 304, say). `uri` where it differs from the entry's."""

    uri: str
    fingerprint: str | None = None


@dataclass(slots=True, frozen=True)
class Loaded:
    """What came of an entry: a document, or the word that it is unchanged; and other addresses that were found in it.
    None: there is nothing to index here, and that is no error (a page that only leads elsewhere)."""

    document: Document | Unchanged | None
    found: tuple[str, ...] = ()


@dataclass(slots=True, frozen=True)
class Known:
    """What a knowledge base has of an entry: for conditional requests."""

    uri: str
    fingerprint: str | None
    content_hash: str


@dataclass(slots=True, frozen=True)
class Chunk:
    """A piece of a document. `position` says where it stands: `start` and `end` (characters of the document's text),
    `headings` (the path of headings above it), and what the document's marks say (`page`, `pages`, `start_seconds`)."""

    text: str
    position: Mapping[str, Any]

    @property
    def content_hash(self) -> str:
        return hash_of(self.text)


def hash_of(text: str) -> str:
    """The identity of a chunk within its knowledge base: SHA-256 of the text, with runs of white space as one."""
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()


class _Asked(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ChunkerSpec(_Asked):
    """How documents are cut. `markdown`, `sentence`, `fixed`, or one that a package brings."""

    name: str = Field(default="markdown", min_length=1, max_length=100)
    size: int = Field(default=DEFAULT_SIZE, ge=16, le=8000)
    overlap: int = Field(default=DEFAULT_OVERLAP, ge=0)

    @model_validator(mode="after")
    def _overlap_fits(self) -> ChunkerSpec:
        if self.overlap > self.size // 2:
            raise ValueError(f"overlap must be at most half of size ({self.size // 2}), not {self.overlap}")
        return self


class EmbedderSpec(_Asked):
    """What makes vectors. `local`, `gemini`, `openai`, or one that a package brings. Without `model` and `dimension` it
    is the embedder's own default; `batch` sends large jobs through Gemini Batch, at half the price."""

    name: str = Field(default="local", min_length=1, max_length=100)
    model: str | None = Field(default=None, max_length=200)
    dimension: int | None = Field(default=None, ge=1, le=16_000)
    batch: bool = False


class SourceSpec(BaseModel):
    """Where documents come from: `type`, and what that type needs beside it (`path`, `url`, `ids`, …)."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str = Field(min_length=1, max_length=100)
    resolved: bool = Field(default=False, repr=False)
    """Whether its paths were checked with all links followed: then none may come into them later."""

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.__pydantic_extra__ or {})


class Configuration(_Asked):
    """What a knowledge base is made of: kept with it, so that it can be refreshed."""

    sources: tuple[SourceSpec, ...] = Field(min_length=1, max_length=100)
    chunker: ChunkerSpec = ChunkerSpec()
    embedder: EmbedderSpec = EmbedderSpec()
    prune: bool = False

    @field_validator("chunker", "embedder", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        """A name alone will do."""
        return {"name": value} if isinstance(value, str) else value
