"""What a source, a chunker and an embedder are, and where those come from that other packages bring."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.engine.clock import Clock
from penstock.engine.errors import InvalidConfiguration, InvalidRequest
from penstock.pipelines.ingestion.model import Chunk, ChunkerSpec, Document, EmbedderSpec, Entry, Known, Loaded

if TYPE_CHECKING:
    from penstock.config import Settings
    from penstock.engine.context import Context
    from penstock.engine.engine import Engine
    from penstock.remote.pool import ProcessPool

Vectors = NDArray[np.float32]
"""One row for each text, of unit length."""


class Frontier(Protocol):
    """Addresses that a run has found and not visited, for sources that find their way (websites)."""

    def pending(self, after: int) -> AsyncIterator[tuple[int, str]]:
        """Number and address, in the order in which they were found, from after that number on."""
        ...


@dataclass(slots=True, frozen=True)
class Tools:
    """What a source may use. Dangerous or heavy parsing belongs in the pool."""

    pool: Callable[[], Awaitable[ProcessPool]]
    clock: Clock
    settings: Settings
    frontier: Frontier
    resolved: bool = False
    """Paths were checked with all links followed, so that a link which is found in one now leads astray."""


class Source(Protocol):
    """Where documents come from. Errors while loading are `Transient` or `RateLimited` (tried again) or `Permanent`
    (listed with the run's errors; the run goes on).

    One whose entries lead to no others may also have `async def load_several(entries) -> list[Loaded | StepError]`:
    the first of these entries, at least one, also before it is their turn."""

    def entries(self, cursor: str | None) -> AsyncIterator[Entry]:
        """What there is after `cursor`, in an order that is the same after a restart. Cheap: nothing is read yet."""
        ...

    async def load(self, entry: Entry, known: Known | None) -> Loaded:
        """Read one. `known` is what the knowledge base has of it already."""
        ...

    async def count(self) -> int | None:
        """About how many entries there are; None where only walking tells."""
        ...

    async def close(self) -> None: ...


class Embedder(Protocol):
    """Texts to vectors. `model` and `dimension` are pinned by the knowledge base."""

    name: str
    model: str
    dimension: int
    at_once: int
    """Texts in one call."""

    async def embed(self, texts: Sequence[str], ctx: Context, key: str) -> Vectors:
        """For documents, within a job's step. `key` names the call for good: asked again after a crash, an answer that
        is already there is not paid for twice. A text it refuses is a `Permanent` error for all of them: the caller
        asks again with fewer."""
        ...

    async def embed_query(self, text: str, engine: Engine) -> Vectors:
        """For a question, outside of any job: one row."""
        ...

    def price(self, tokens: int) -> int | None:
        """What so many tokens cost, in millionths of a dollar; 0 for nothing, None where no price is known."""
        ...


Chunker = Callable[[Document, ChunkerSpec], Sequence[Chunk]]
"""Pure: the same document gives the same chunks."""

SourceFactory = Callable[[Mapping[str, Any], Tools], Source]
"""Given the options of a `SourceSpec`. Wrong options are `InvalidRequest`."""

EmbedderFactory = Callable[[EmbedderSpec, "Settings"], Embedder]


def from_packages(group: str, name: str, known: Sequence[str]) -> Any:
    """What an installed package brings under this name, or an error that says which names there are."""
    found = {point.name: point for point in entry_points(group=group)}
    if name not in found:
        kind = group.removeprefix("penstock.").removesuffix("s")
        names = ", ".join(sorted({*known, *found}))
        raise InvalidRequest(f"there is no {kind} {name!r}; there are: {names}")
    try:
        return found[name].load()
    except Exception as error:
        raise InvalidConfiguration(f"{group} {name!r} ({found[name].value}) cannot be loaded: {error}") from error
