"""What a run carries from tick to tick: where it is, what it has counted, and how long it took. Everything else is in
the tables."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.pipelines.ingestion.model import Configuration

PHASES = ("load", "chunk", "embed", "index")

Phase = Literal["load", "chunk", "embed", "index"]


class _State(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=False)


class Counters(_State):
    """What people see. A document that is as it was counts as seen, and its chunks are not looked at."""

    docs_seen: int = 0
    docs_unchanged: int = 0
    docs_replaced: int = 0
    docs_removed: int = 0
    docs_empty: int = 0
    docs_error: int = 0
    chunks_seen: int = 0
    chunks_processed: int = 0
    chunks_skipped: int = 0
    chunks_error: int = 0
    tokens: int = 0
    """Of the chunks that were embedded."""

    def add(self, other: Counters, *, times: int = 1) -> None:
        for name, amount in other:
            if amount:
                setattr(self, name, getattr(self, name) + amount * times)

    def amounts(self, *, times: int = 1) -> dict[str, int]:
        """Those that are not 0."""
        return {name: amount * times for name, amount in self if amount}


class Part(_State):
    """The document that the run is in the middle of: so many of its chunks are durable."""

    uri: str
    content_hash: str
    document: int
    chunks: int = 0
    counted: Counters = Field(default_factory=Counters)
    """What it has added to the counters: taken back if the document has changed when the run goes on."""


class Seconds(_State):
    """Time spent in each phase, and in all while the run was worked on."""

    load: float = 0.0
    chunk: float = 0.0
    embed: float = 0.0
    index: float = 0.0
    active: float = 0.0

    def spend(self, phase: Phase, seconds: float) -> None:
        setattr(self, phase, getattr(self, phase) + seconds)


class Staging(_State):
    """Chunks that wait for a batch of embeddings: their numbers, and the batch that was asked for."""

    first: int = 1
    next: int = 1
    began: int = 1
    """The number of the first chunk of the batch under way: `first` moves on while it is indexed."""
    asked: int = 0
    """The number of the first chunk that the batch under way does not have; 0 while none is."""

    since: float = 0.0
    """When it was asked for."""


class Ask(_State):
    """What a run is started with."""

    base: str
    config: Configuration
    rebuild: bool = False
    errors_only: bool = False


class Work(_State):
    """The payload of every step."""

    ask: Ask
    run: str
    holder: str = ""
    """The job that has taken the knowledge base's lock."""
    edition: int = 0
    dimension: int = 0
    source: int = 0
    cursor: str | None = None
    batch: int = 0
    part: Part | None = None
    staging: Staging = Field(default_factory=Staging)
    attempt: int = 0
    """How often the group at hand has been tried."""
    loading: int = 0
    """How often it was tried to load the document that comes next."""
    strikes: int = 0
    """Groups in a row of which nothing could be embedded."""
    unsure: list[int] = Field(default_factory=list)
    """Sources of which something could not be loaded: what they did not show may be there all the same."""
    total: int | None = None
    """About how many documents there are."""
    error: str | None = None
    """The last thing that went wrong with a document or a chunk."""
    phase: Phase = "load"
    counters: Counters = Field(default_factory=Counters)
    seconds: Seconds = Field(default_factory=Seconds)


class Begin(_State):
    """What a new run's job is given."""

    ask: Ask
    run: str | None = None
    """None: the job's own id."""


class Ended(_State):
    """What a run came to."""

    base: str
    edition: int
    counters: Counters
    seconds: Seconds
    cost: int = 0


class Purge(_State):
    """What is removed behind a run: an edition, or what is `hidden` in it."""

    base: str
    edition: int
    hidden: bool = False
    removed: int = 0


class Optimize(_State):
    """A large edition that is to be searched faster."""

    edition: int
    dimension: int


class Forget(_State):
    """A knowledge base that is deleted."""

    base: str


class Repair(_State):
    """A knowledge base whose index is to be mended, and how far that is."""

    base: str
    edition: int = 0
    after: int = 0
    stage: int = 0
    mended: dict[str, int] = Field(default_factory=dict)


class Refresh(_State):
    """A knowledge base that is filled again by a schedule."""

    base: str
