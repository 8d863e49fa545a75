"""Bodies and answers about jobs, batches, schedules and the rest: what the OpenAPI document says of them.

Answers are made by `penstock.shapes`, as the command line's `--json` is; these models describe them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from penstock.engine.identity import storable
from penstock.engine.model import Status

EXAMPLE_ID = "01k3x9q8w7e6r5t4y3z2"
ID = r"^[0-9A-Za-z_-]{1,64}$"
NAME = r"^[A-Za-z0-9_.@:+-]{1,120}$"


def _storable(text: str) -> str:
    if not storable(text):
        raise ValueError("text must be valid Unicode without NUL")
    return text


def storable_or_none(text: str | None) -> str | None:
    return text if text is None else _storable(text)


JobId = Annotated[str, Path(pattern=ID, description="The job's id.", examples=[EXAMPLE_ID])]
BatchId = Annotated[str, Path(pattern=ID, description="The batch's id.", examples=[EXAMPLE_ID])]
CallId = Annotated[str, Path(pattern=ID, description="The call's id.", examples=["9f86d081884c7d659a2feaa0c5"])]

OfTenant = Annotated[
    str | None,
    Query(
        alias="tenant",
        pattern=NAME,
        description="Only what belongs to this tenant. A token that is bound to a tenant may name only its own.",
    ),
]
OfWorkflow = Annotated[str | None, Query(alias="workflow", pattern=NAME, description="Only of this workflow.")]
OfJob = Annotated[str | None, Query(alias="job", pattern=ID, description="Only of this job.")]
OfBatch = Annotated[str | None, Query(alias="batch", pattern=ID, description="Only members of this batch.")]
OfKey = Annotated[
    str | None,
    Query(alias="key", min_length=1, max_length=500, description="Only with this key."),
    AfterValidator(storable_or_none),
]

Moment = Annotated[
    str, Field(json_schema_extra={"format": "date-time"}, description="UTC.", examples=["2026-03-01T13:05:09.123Z"])
]
Name = Annotated[str, Field(pattern=NAME)]
Id = Annotated[str, Field(pattern=ID)]
Key = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_storable)]
Words = Annotated[str, Field(max_length=1000), AfterValidator(_storable)]
Next = Annotated[str | None, Field(description="The `cursor` of the next page; null on the last.")]


class Body(BaseModel):
    """What is sent: an unknown field is a mistake."""

    model_config = ConfigDict(extra="forbid")


class JobProgress(BaseModel):
    """How far a job says it is."""

    done: float | None
    total: float | None
    note: str | None


class JobSummary(BaseModel):
    """A job without its payload and result."""

    id: str = Field(examples=[EXAMPLE_ID])
    workflow: str = Field(examples=["pages"])
    tenant: str = Field(examples=["default"])
    key: str = Field(description="The key it was submitted with, or the id of its first run.")
    run: int = Field(ge=1)
    queue: str
    status: Status
    step: str
    attempt: int = Field(ge=0, description="Tries of this step, the one that runs included.")
    priority: int = Field(ge=0, le=100)
    error: str | None = Field(description="Why the last try failed.")
    reason: str | None = Field(description="Why it rests.")
    halting: Literal["pause", "cancel"] | None = Field(description="What was asked and has not happened yet.")
    progress: JobProgress | None
    counters: dict[str, int | float]
    created: Moment
    started: Moment | None
    due: Moment | None = Field(description="When it goes on, if it waits for a time.")
    finished: Moment | None
    worker: str | None
    parent: str | None
    batch: str | None
    fan_in: str | None = Field(description="The batch whose end it follows.")


class JobDetail(JobSummary):
    """A job with its payload and result."""

    payload: Any = Field(examples=[{"name": "report.pdf"}])
    result: Any = Field(None, description="What its last step returned.")


class JobItem(JobSummary):
    """A job of a list; `payload` and `result` only where `include=payload` asks for them."""

    payload: Any = None
    result: Any = None


class JobPage(BaseModel):
    items: list[JobItem]
    next: Next


class NewJobBody(Body):
    """A job to be started."""

    workflow: Name = Field(description="What is to be done.", examples=["pages"])
    payload: Any = Field(None, description="What it begins with; it must fit the workflow.")
    key: Key | None = Field(None, description="The same key is the same job.", examples=["report-17"])
    again: bool = Field(False, description="Start the key's next run if its last one has ended.")
    after: float = Field(0.0, ge=0, le=1e9, description="Seconds until it may start.")
    priority: int | None = Field(None, ge=0, le=100, description="Higher goes first; the workflow's own unless told.")
    queue: Name | None = Field(None, description="The queue it waits in; the workflow's own unless told.")
    batch: Id | None = Field(None, description="The batch it is to be a member of.")


class SubmitBody(NewJobBody):
    """A job to be started, for a tenant and within a budget."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"workflow": "pages", "payload": {"name": "report.pdf"}, "key": "report-17", "priority": 70}]
        }
    )

    tenant: Name | None = Field(None, description="Whose job it is: the token's tenant, or `default`, unless told.")
    budget: float | None = Field(None, ge=0, le=1e9, description="Dollars that its remote calls may cost in all.")


class Submitted(BaseModel):
    """A job that was asked for: a new one, or the one that held the key."""

    job: JobDetail
    created: bool = Field(description="False: the key existed already.")


class SubmitManyBody(Body):
    """Jobs to be started: all of them, or none."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "jobs": [
                        {"workflow": "pages", "payload": {"name": "a.pdf"}, "key": "a"},
                        {"workflow": "pages", "payload": {"name": "b.pdf"}, "key": "b"},
                    ]
                }
            ]
        }
    )

    jobs: list[NewJobBody] = Field(min_length=1, max_length=10_000)
    tenant: Name | None = Field(None, description="Whose jobs they are.")


class SubmittedOne(BaseModel):
    id: str = Field(examples=[EXAMPLE_ID])
    created: bool
    run: int
    status: Status


class SubmittedMany(BaseModel):
    """What became of each, in the order they were sent."""

    jobs: list[SubmittedOne]
    created: int = Field(description="How many are new.")


class ReasonBody(Body):
    """Why; kept in the job's history."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "the input was wrong"}]})

    reason: Words | None = None


class TimelineEvent(BaseModel):
    """One line of a job's history: a tick, a crash that was noticed, or what a person asked for."""

    at: Moment
    kind: str = Field(examples=["done"])
    step: str
    status: Status
    attempt: int
    took: float | None = Field(description="Seconds.")
    by: str | None = Field(description="The worker that ran the step, or who asked for this.")
    note: str | None


class Timeline(BaseModel):
    """Oldest first."""

    items: list[TimelineEvent]
    next: Next


class LogEntry(BaseModel):
    """What a step said."""

    at: Moment
    step: str
    attempt: int
    level: str = Field(examples=["info"])
    text: str


class Logs(BaseModel):
    """The last thousand lines, oldest first."""

    items: list[LogEntry]
    older: bool = Field(description="Whether there were lines before these.", examples=[False])


class WorkflowSummary(BaseModel):
    """A workflow this service knows."""

    name: str = Field(examples=["pages"])
    queue: str
    priority: int = Field(ge=0, le=100)
    steps: list[str] = Field(description="In their order.")
    cleanup: str | None = Field(description="The step that runs when a job is cancelled.")


class Workflows(BaseModel):
    items: list[WorkflowSummary]


class WorkflowDetail(WorkflowSummary):
    """A workflow, and the JSON Schema of what it takes."""

    payload_schema: dict[str, Any] | None = Field(description="Null where there is none.")


class FollowUpBody(Body):
    """The job that starts, once, when the batch has ended."""

    workflow: Name
    payload: Any = None
    priority: int | None = Field(None, ge=0, le=100)
    queue: Name | None = None


class BatchBody(Body):
    """A batch to be opened."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"key": "march", "limit": 20, "then": {"workflow": "report", "payload": {}}}]}
    )

    key: Key | None = Field(None, description="The same key is the same batch.")
    tenant: Name | None = None
    limit: int | None = Field(None, ge=1, le=1_000_000_000, description="Members at work at once.")
    then: FollowUpBody | None = None
    budget: float | None = Field(None, ge=0, le=1e9, description="Dollars that the calls of all members may cost.")


class BatchSummary(BaseModel):
    """A group of jobs that ends exactly once."""

    id: str = Field(examples=[EXAMPLE_ID])
    tenant: str
    key: str
    generation: int = Field(ge=1)
    state: Literal["open", "sealed", "ended"]
    limit: int | None
    members: int
    completed: int
    failed: int
    canceled: int
    created: Moment
    sealed: Moment | None
    finished: Moment | None
    follow_up: str | None = Field(description="The job that its end has started.")


class BatchPage(BaseModel):
    items: list[BatchSummary]
    next: Next


class MemberItem(BaseModel):
    """A member; it may be a member of other batches too."""

    id: str = Field(description="The job's id.")
    ended: str | None = Field(description="How it ended for this batch.")
    job: JobSummary | None = Field(description="Null: the job is gone, by retention.")


class MemberPage(BaseModel):
    items: list[MemberItem]
    next: Next


class DeadLetterRetryBody(Body):
    """Which dead letters: by their ids, or the newest of a workflow."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": [EXAMPLE_ID]}]})

    ids: list[Id] | None = Field(None, min_length=1, max_length=1000)
    workflow: Name | None = None
    limit: int = Field(100, ge=1, le=1000, description="With `workflow`: at most so many.")
    tenant: Name | None = Field(None, description="With `workflow`: only those of this tenant.")


class DeadLetterRetried(BaseModel):
    """What became of one."""

    id: str = Field(description="The failed job.")
    job: str | None = Field(description="Its next run; null where it was refused.")
    error: str | None = Field(description="Why it was refused.")


class DeadLettersRetried(BaseModel):
    items: list[DeadLetterRetried]
    retried: int
    refused: int
