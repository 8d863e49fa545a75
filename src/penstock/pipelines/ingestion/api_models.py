"""Bodies and answers of the ingestion routes, as the OpenAPI document says them. `answers` makes the answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from penstock.pipelines.ingestion.model import ChunkerSpec, EmbedderSpec
from penstock.pipelines.ingestion.searching import LONGEST_QUESTION, MOST_HITS, Mode
from penstock.pipelines.ingestion.verifying import Fault
from penstock.service.api import shapes
from penstock.service.api.shapes import Body, Moment, Next

KB = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
EXAMPLE_KB = "handbook"
PATH = f"/kb/{EXAMPLE_KB}"

RunStatus = Literal["not_started", "running", "paused", "completed", "failed", "canceled"]

Given = AfterValidator(shapes.storable_or_none)

KbId = Annotated[str, Path(pattern=KB, description="The knowledge base's name.", examples=[EXAMPLE_KB])]
_REF = "A run's id, that of a job that works on it, or the knowledge base's name: then its newest run."
RunId = Annotated[str, Path(pattern=KB, description=_REF, examples=[shapes.EXAMPLE_ID])]
RunOf = Annotated[str, Path(pattern=KB, description=_REF, examples=[EXAMPLE_KB])]
VerifyCursor = Annotated[
    str | None, Query(max_length=2000, description="The `cursor` of the answer before; leave it out to begin.")
]
OfRun = Annotated[str | None, Query(pattern=shapes.ID, description="Only those of this run.")]
Question = Annotated[
    str,
    Query(min_length=1, max_length=LONGEST_QUESTION, description="What is asked.", examples=["how to pause"]),
    Given,
]
Top = Annotated[int, Query(ge=1, le=MOST_HITS, description="At most so many hits.")]
OfMode = Annotated[Mode, Query(description="By meaning (`vector`), by words (`text`), or by both.")]
Filters = Annotated[
    list[Annotated[str, Field(max_length=1000), Given]],
    Query(
        max_length=20,
        description="`key:value` of the documents' metadata, also `uri` and `source`; text may end in `*`. May be"
        " repeated: then all must hold.",
        examples=[["language:en", "uri:guides/*"]],
    ),
]


class IngestionSource(BaseModel):
    """Where documents come from: a `type`, and its options beside it."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"examples": [{"type": "markdown", "path": "docs"}]},
    )

    type: str = Field(
        min_length=1,
        max_length=100,
        description="`markdown` (`path`), `pdf` (`path`, `paths` or `urls`), `website` (`url`), `youtube` (`ids`,"
        " `playlists`, `files`), or one that a package brings.",
    )

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.__pydantic_extra__ or {})


_Name = Annotated[str, Field(min_length=1, max_length=100)]


def _named(value: Any) -> Any:
    """A name alone will do."""
    return {"name": value} if isinstance(value, str) else value


class _Configured(Body):
    sources: list[IngestionSource] | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="Where documents come from. What the knowledge base keeps, where it is there, unless told.",
    )
    chunker: Annotated[
        ChunkerSpec | None, BeforeValidator(_named, json_schema_input_type=ChunkerSpec | _Name | None)
    ] = Field(None, description="How they are cut: its name, or name, size and overlap.")
    embedder: Annotated[
        EmbedderSpec | None, BeforeValidator(_named, json_schema_input_type=EmbedderSpec | _Name | None)
    ] = Field(None, description="What makes vectors: its name, or name, model, dimension and batch.")
    prune: bool | None = Field(None, description="Remove documents that the sources do not have any more.")
    rebuild: bool = Field(
        False, description="Fill it from scratch beside what is there, with another chunker or embedder, too."
    )


class StartIngestion(_Configured):
    """What a knowledge base is to be filled from, and how. With nothing it is refreshed as it is configured."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"sources": [{"type": "markdown", "path": "docs"}], "chunker": "markdown", "prune": True}]
        }
    )


class PlanIngestion(_Configured):
    """What would be started."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"kb_id": EXAMPLE_KB, "sources": [{"type": "markdown", "path": "docs"}]}]}
    )

    kb_id: str = Field(pattern=KB, description="The knowledge base's name, which need not be there.")


class ResumeIngestion(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"errors": True}]})

    errors: bool = Field(
        False, description="Start a run over what earlier ones could not load or embed, and nothing else."
    )


class IngestionCheckpoint(BaseModel):
    """How far it is."""

    last_batch_id: int = Field(description="Batches of documents that are done.")
    cursor: str | None = Field(description="Where its source goes on.")
    source: int = Field(description="Which of the sources that is, counted from 0.")


class IngestionCounters(BaseModel):
    """What it has counted."""

    docs_seen: int
    docs_unchanged: int
    docs_replaced: int
    docs_removed: int
    docs_empty: int
    docs_error: int
    chunks_seen: int
    chunks_processed: int = Field(description="Embedded and indexed.")
    chunks_skipped: int = Field(description="There already.")
    chunks_error: int
    tokens: int = Field(description="Of the chunks that were embedded.")


class IngestionRates(BaseModel):
    """By the time in which it was worked on."""

    docs_per_second: float | None
    chunks_per_second: float | None


class IngestionPhase(BaseModel):
    """One of its four phases."""

    name: Literal["load", "chunk", "embed", "index"]
    done: int = Field(description="Documents for `load`, else chunks.")
    total: int | None
    seconds: float
    active: bool


class IngestionPlan(BaseModel):
    """What a run comes to, about."""

    documents: int
    unchanged: int = Field(description="Of these: as they were, so that they are not read.")
    chunks: int
    known_chunks: int = Field(description="Of these: there already, so that they are not embedded.")
    tokens: int = Field(description="Of the chunks that are to be embedded.")
    cost_usd: float | None = Field(description="Null where no price is known.")
    cost_microdollars: int | None
    seconds: float | None = Field(description="Null where there is nothing to do.")
    unreadable: int
    exact: bool = Field(description="Whether everything was read; else it is told from a part.")


class IngestionStatus(BaseModel):
    """A run, and how far it is. `not_started`: it was cancelled, and everything it wrote is gone."""

    id: str = Field(examples=[shapes.EXAMPLE_ID])
    kb_id: str = Field(examples=[EXAMPLE_KB])
    tenant: str = Field(examples=["default"])
    job_id: str = Field(description="The job that works on it now: another one after it has failed and was resumed.")
    status: RunStatus
    started_at: Moment
    finished_at: Moment | None
    last_error: str | None
    reason: str | None = Field(description="Why it rests.")
    checkpoint: IngestionCheckpoint | None
    counters: IngestionCounters
    rates: IngestionRates
    phases: list[IngestionPhase]
    documents_total: int | None = Field(description="About how many there are; null where only reading tells.")
    eta_seconds: float | None = Field(description="Until it is done, about; null where that cannot be told.")
    heartbeat_age: float | None = Field(description="Seconds since its worker was last heard of; null: it has none.")
    stalled: bool = Field(description="Whether three heartbeats are missing.")
    errors: int = Field(description="Documents and chunks that it could not take in, and that were not retried since.")
    plan: IngestionPlan | None = Field(description="What it was planned to come to.")


class KnowledgeBase(BaseModel):
    """A knowledge base of a list."""

    kb_id: str = Field(examples=[EXAMPLE_KB])
    tenant: str = Field(examples=["default"])
    status: RunStatus = Field(description="Of its newest run.")
    run: str | None = Field(description="The id of its newest run.")
    documents: int
    chunks: int
    errors: int = Field(description="Documents and chunks that could not be taken in.")
    chunker: dict[str, Any] | None = Field(description="What it is pinned to; null before its first run.")
    embedder: dict[str, Any] | None = Field(
        description="The same.", examples=[{"name": "local", "model": "l2_supercat", "dimension": 256}]
    )
    created_at: Moment
    updated_at: Moment = Field(description="When its newest run was started.")


class KnowledgeBasePage(BaseModel):
    """By name."""

    items: list[KnowledgeBase]
    next: Next


class RefreshSchedule(BaseModel):
    """When it is refreshed."""

    cron: str
    next_due: Moment | None


class KnowledgeBaseDetail(KnowledgeBase):
    """A knowledge base."""

    config: dict[str, Any] = Field(description="What its next run is made of, unless told otherwise.")
    last_run: IngestionStatus | None
    plan: IngestionPlan | None = Field(description="The last plan that was made for it.")
    schedule: RefreshSchedule | None


class KbJob(BaseModel):
    """Work that goes on behind a knowledge base."""

    kb_id: str = Field(examples=[EXAMPLE_KB])
    job_id: str = Field(description="`/api/v1/jobs/{job_id}` tells how it goes.", examples=[shapes.EXAMPLE_ID])


class SearchHit(BaseModel):
    """A chunk that was found."""

    score: float
    text: str
    source: str = Field(description="The address or the path of its document.")
    title: str
    position: dict[str, Any] = Field(description="Where it stands: characters, headings, a page, a second.")
    metadata: dict[str, Any]
    also_in: list[str] = Field(description="Other documents that have the same chunk.")


class SearchAnswer(BaseModel):
    """The best first."""

    kb_id: str = Field(examples=[EXAMPLE_KB])
    mode: Mode
    hits: list[SearchHit]


class KbDocument(BaseModel):
    """A document that can be searched."""

    uri: str
    title: str
    source: str = Field(description="The source that it comes from.", examples=["markdown:/srv/docs"])
    chunks: int
    metadata: dict[str, Any]
    content_hash: str
    run: str = Field(description="The run that wrote it.")
    indexed_at: Moment


class KbDocumentPage(BaseModel):
    """In the order in which they came."""

    items: list[KbDocument]
    next: Next


class KbError(BaseModel):
    """A document that could not be loaded, or a chunk that could not be embedded."""

    id: str
    run: str
    source: str = Field(description="The address or the path of the document.")
    chunk: int | None = Field(description="Which of its chunks, counted from 0; null: all of the document.")
    position: dict[str, Any] | None
    text: str | None = Field(description="The beginning of the chunk.")
    error: str
    attempts: int
    at: Moment


class KbErrorPage(BaseModel):
    """Newest first."""

    items: list[KbError]
    next: Next


class IngestionRun(BaseModel):
    """A run of a list."""

    id: str = Field(examples=[shapes.EXAMPLE_ID])
    kb_id: str = Field(examples=[EXAMPLE_KB])
    status: RunStatus
    started_at: Moment
    finished_at: Moment | None
    last_error: str | None
    counters: IngestionCounters | None = Field(description="Null before it has completed; its status has them.")


class IngestionRunPage(BaseModel):
    """Newest first."""

    items: list[IngestionRun]
    next: Next


class VerificationFault(BaseModel):
    """One way in which ledger and index differ."""

    fault: Fault
    meaning: str
    count: int
    numbers: list[int] = Field(description="Of some of the chunks, or of documents for `incomplete`.")


class Verification(BaseModel):
    """What was compared, and what differs."""

    kb_id: str = Field(examples=[EXAMPLE_KB])
    sound: bool
    documents: int
    chunks: int
    faults: list[VerificationFault]
    cursor: str | None = Field(description="The `cursor` to go on with; null: all of it was compared.")
