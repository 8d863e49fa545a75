"""What an index is: the tables in which an edition of a knowledge base is searched, in the same database as everything
else, so that a chunk with its vector and its words is there at once or not at all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.pipelines.ingestion.plugins import Vectors
from penstock.pipelines.ingestion.statements import Statement

Row = tuple[int, str, Vectors]
"""A chunk's number, text and vector."""

Hits = list[tuple[int, float]]
"""Numbers of chunks with their scores, the best first, ties by number. Some may be hidden or gone by now."""


@dataclass(slots=True, frozen=True)
class Indexed:
    """The numbers of chunks that have a vector, and of those that full text has."""

    vectors: set[int]
    texts: set[int]


class Index(Protocol):
    """Statements join the caller's transaction; nothing is written here. Where a chunk's vector or text changes, or is
    removed, the edition's generation must rise with it, or searches go on with what they have in memory."""

    optimizes: bool
    """Whether `optimize` can do anything."""

    async def prepare(self) -> None:
        """See to it that the database can hold an index, or say what is missing."""
        ...

    def create(self, edition: int, dimension: int) -> list[Statement]: ...

    def drop(self, edition: int) -> list[Statement]: ...

    def add(self, edition: int, rows: Sequence[Row]) -> list[Statement]:
        """A vector that is there is replaced; a text that is there stays."""
        ...

    def remove(self, edition: int, rows: Sequence[tuple[int, str]]) -> list[Statement]:
        """Chunks by number, with the text that was added."""
        ...

    def mended(self, edition: int, rows: Sequence[tuple[int, str]], lacking_text: Collection[int]) -> list[Statement]:
        """What must be done before these chunks are added again, since the index lacks something of each or has it
        otherwise. After it, their text is as the ledger has it, or missing."""
        ...

    def strays_removed(self, edition: int, vectors: Sequence[int], texts: Sequence[int]) -> list[Statement]:
        """Take out what belongs to no chunk; after the statements that delete those chunks, if there are any."""
        ...

    async def ids(self, edition: int, after: int, last: int | None) -> Indexed:
        """What there is of the numbers after this one, up to `last` or the end."""
        ...

    async def search_vectors(
        self, edition: int, dimension: int, vector: Vectors, limit: int, *, generation: int = 0
    ) -> Hits:
        """By cosine. A question without any meaning (zeros) finds nothing."""
        ...

    async def search_text(self, edition: int, question: str, limit: int, *, generation: int = 0) -> Hits:
        """By BM25."""
        ...

    async def optimize(self, edition: int, dimension: int) -> bool:
        """Make searching a large edition faster, where that takes something; whether anything was done. May take
        minutes; reading and writing go on meanwhile."""
        ...
