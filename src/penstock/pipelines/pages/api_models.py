"""Bodies and answers of `/pages/runs`, as the OpenAPI document says them. `answers` makes the answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Body as InBody
from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from penstock.pipelines.pages.model import Run
from penstock.service.api import shapes
from penstock.service.api.shapes import Body, JobSummary, Moment, Next

PATH = f"/pages/runs/{shapes.EXAMPLE_ID}"
EXAMPLE_KEY = "Alabama:Howard College:1849:0014"

EXAMPLE_RUN: dict[str, Any] = {
    "paths": {
        "label_source_dir": "catalogues/labels",
        "image_source_dir": "catalogues/images",
        "output_dir": "catalogues/outputs",
    },
    "filters": {"target_states": ["Alabama"], "target_years": {"start": 1840, "end": 1870}},
    "prompt": {"name": "course_catalogue", "version": "1"},
    "budget": {"max_usd": 25.0},
}

Name = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(shapes.storable_or_none)]
Given = AfterValidator(shapes.storable_or_none)

RunId = Annotated[str, Path(pattern=shapes.ID, description="The run's id, which is that of its job.",
                            examples=[shapes.EXAMPLE_ID])]  # fmt: skip
Key = Annotated[
    str,
    Path(
        min_length=1,
        max_length=1000,
        description="`state:school:year:page`; a `:` within a name is written `%3A`, a `%` is `%25`.",
        examples=[EXAMPLE_KEY],
    ),
    Given,
]
OfState = Annotated[str | None, Query(max_length=255, description="Only books of this state."), Given]
OfSchool = Annotated[str | None, Query(max_length=255, description="Only books of this school."), Given]
OfYear = Annotated[int | None, Query(ge=0, le=999_999_999, description="Only books of this year.")]
Only = Annotated[
    Literal["open", "flying", "dead"] | None,
    Query(description="`open`: only books that are not done; `flying`, `dead`: those with such pages."),
]


class _AsRun:
    """The body of a run is taken as it was sent, and described as what it must be: `configuration` checks it, and says
    what is wrong in the same words as for a file."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(Run.__pydantic_core_schema__)


RunBody = Annotated[Any, _AsRun(), InBody()]


class RunSummary(JobSummary):
    """A run: the job that does it, and where it writes."""

    output_dir: str


class RunPage(BaseModel):
    items: list[RunSummary]
    next: Next


class RunDetail(RunSummary):
    newest: str = Field(description="The newest run that writes to the same folder.", examples=[shapes.EXAMPLE_ID])
    configuration: dict[str, Any] = Field(description="What it was started with, folders resolved.")
    result: Any = Field(None, description="What it came to.")


class RunOverview(BaseModel):
    """How far the output folder is. Every run that writes to it answers alike."""

    books: int
    pages: int
    done: int = Field(description="Pages with an output; `found` ones are among them.")
    found: int = Field(description="Outputs that were there already and have not been looked at.")
    in_flight: int
    ready: int = Field(description="Pages that can be submitted now.")
    waiting: int = Field(description="Pages that wait for the page before them.")
    dead: int
    batches_active: int
    batches_planned: int = Field(description="Of the active ones: not sent yet.")
    batches_ended: int
    failed_attempts: int
    ignored: int = Field(description="Files and folders in the trees that are no pages.")
    wishes: int = Field(description="Retries and rescans that the run has not come to yet.")
    longest_chain: int = Field(description="Pages that have to be read one after the other, at most.")
    pages_an_hour: float | None
    batch_seconds: float | None = Field(description="How long a batch took, in the middle of the last ones.")
    seconds_left: float | None = Field(
        description="By how long batches took: the larger of what the longest chain needs, and of what all pages that"
        " can still be read need with the run's `max_concurrent_batches` and `batch_size_limit`."
    )
    scanned: Moment | None
    cost_usd: float
    cost_microdollars: int


class RunShown(BaseModel):
    run: RunDetail
    overview: RunOverview


class RunStarted(BaseModel):
    run: RunSummary
    created: bool = Field(description="False: the folder has a run with this very configuration already.")


class Book(BaseModel):
    book: str = Field(examples=["Alabama/Howard College/1849"])
    state: str
    school: str
    year: int
    pages: str = Field(description="The page numbers: `0001-0003 0007`; a blank where numbers are missing.")
    states: str = Field(
        description="A letter for each page in the same order: `w` to be done, `f` in flight, `d` done, `?` found,"
        " `x` dead.",
        examples=["ddf x"],
    )
    total: int
    done: int
    in_flight: int
    dead: int
    ready: list[int] = Field(description="Numbers of pages that can be submitted now.")


class BookPage(BaseModel):
    items: list[Book]
    next: Next


class ContextCourse(BaseModel):
    name: str
    department: str | None
    level: str | None
    term: str | None


class Context(BaseModel):
    """What a page is told of the page before it."""

    text: str
    courses: list[ContextCourse]


class FailedAttempt(BaseModel):
    key: str = Field(examples=[EXAMPLE_KEY])
    batch: int | None = Field(description="Null where it never came into one.")
    attempt: int
    counted: bool = Field(description="Whether it was counted against the page.")
    at: Moment
    type: str = Field(examples=["schema"])
    message: str
    raw: str | None = Field(description="What Gemini answered.")
    parsed: str | None
    model: str | None
    prompt: str | None
    version: str | None
    generation_config: Any = None


class PageShown(BaseModel):
    key: str = Field(examples=[EXAMPLE_KEY])
    state: str
    school: str
    year: int
    page: int
    name: str = Field(description="How its files spell the number.", examples=["0014"])
    status: str = Field(description="`waiting`, `ready`, `in flight`, `done`, `found` or `dead`.", examples=["done"])
    failures: int = Field(description="Failed attempts that were counted against it.")
    dead: bool
    error: str | None
    batch: int | None
    image: str | None = Field(description="The name of its image; null where there is none.")
    output: Any = Field(None, description="What was read from it.")
    provenance: dict[str, Any] | None
    context: Context | None
    before: str | None = Field(description="The key of the page before it in its chain.")
    after: str | None
    attempts: list[FailedAttempt]


class Batch(BaseModel):
    """A Gemini batch."""

    number: int
    run: str = Field(examples=[shapes.EXAMPLE_ID])
    call: str | None = Field(description="Its remote call.")
    batch_id: str | None = Field(description="Gemini's name for it.")
    state: str
    outcome: str | None
    total_records: int
    successful_records: int
    failed_records: int
    errors: list[str]
    model: str
    prompt: str
    version: str
    created: Moment
    submitted: Moment | None
    ended: Moment | None
    cost_usd: float
    cost_microdollars: int


class BatchPage(BaseModel):
    items: list[Batch]
    next: Next


class FailureGroup(BaseModel):
    group: str = Field(examples=["schema"])
    attempts: int
    pages: int


class FailurePage(BaseModel):
    items: list[FailedAttempt]
    groups: list[FailureGroup] | None = Field(description="With `by`: how many of each, most first; then no items.")
    next: Next


class _OfBooks(Body):
    state: Name | None = Field(None, description="Only of this state.")
    school: Name | None = Field(None, description="Only of this school of the state.")
    year: int | None = Field(None, ge=0, le=999_999_999, description="Only of this year of the school.")

    @model_validator(mode="after")
    def _from_the_top(self) -> _OfBooks:
        """A school without its state would be taken for everything."""
        if self.school is not None and self.state is None:
            raise ValueError("school needs its state")
        if self.year is not None and self.school is None:
            raise ValueError("year needs its school")
        return self


class RetryBody(_OfBooks):
    """Which dead pages are to be tried again: one by its `key`, or those of a state, school or year; all of them where
    nothing is said."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"state": "Alabama"}]})

    key: Annotated[str, Field(min_length=1, max_length=1000), Given] | None = None
    dry_run: bool = Field(False, description="Only say how many there are.")

    @model_validator(mode="after")
    def _one_way(self) -> RetryBody:
        if self.key is not None and self.state is not None:
            raise ValueError("name either a key or a state")
        return self


class RescanBody(_OfBooks):
    """Which part of the trees is to be read again; all of it where nothing is said."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"state": "Alabama"}]})


class Retried(BaseModel):
    pages: int = Field(description="Dead pages that this is about.")
    run: RunSummary = Field(description="The run that tries them; a new one where the last had ended.")


class Rescanned(BaseModel):
    run: RunSummary
