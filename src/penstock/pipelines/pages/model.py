"""What a page is, what a run is told, and what a batch came to.

A `Run` is everything the configuration file says, checked and with its paths resolved. It is the payload of the run's
job, so a run goes on with what it was started with, wherever its file has gone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from penstock.pipelines.pages.generation import in_rests_words, wrong_settings

OnDeadPage = Literal["block", "skip"]

Seconds = Annotated[float, Field(gt=0, le=30 * 86_400)]


def _one_folder(name: str) -> str:
    if name in ("", ".", "..") or "/" in name or "\x00" in name:
        raise ValueError(f"{name!r} is no name of a folder")
    return name


FolderName = Annotated[str, AfterValidator(_one_folder)]


class PageIdentifier(BaseModel):
    """One page of one book. `name` is how its files spell the number: `0014` is page 14."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: FolderName
    school: FolderName
    year: Annotated[int, Field(ge=0, le=9999)]
    page: Annotated[int, Field(ge=0, le=999_999_999)]
    name: str = ""

    @model_validator(mode="after")
    def _spelled(self) -> PageIdentifier:
        if self.name and (not self.name.isascii() or not self.name.isdigit() or int(self.name) != self.page):
            raise ValueError(f"name {self.name!r} is no spelling of page {self.page}")
        return self

    @property
    def spelling(self) -> str:
        return self.name or str(self.page)

    @property
    def id_string(self) -> str:
        """`state:school:year:page`, with a `:` or `%` within a name escaped so that it can be read back."""
        return f"{escaped(self.state)}:{escaped(self.school)}:{self.year}:{self.spelling}"

    @classmethod
    def parse(cls, key: str) -> PageIdentifier:
        """The page that `id_string` names, or `ValueError`."""
        parts = key.split(":")
        if len(parts) != 4 or not (parts[2].isascii() and parts[2].isdigit()):
            raise ValueError(f"{key!r} is no page: it must read state:school:year:page")
        name = parts[3]
        if not (name.isascii() and name.isdigit()):
            raise ValueError(f"{key!r} is no page: {name!r} is no number")
        return cls(state=_plain(parts[0]), school=_plain(parts[1]), year=int(parts[2]), page=int(name), name=name)

    @property
    def folder(self) -> Path:
        """Where it is in each of the three trees."""
        return Path(self.state) / self.school / str(self.year)


def escaped(name: str) -> str:
    """A name as it stands in a key."""
    return name.replace("%", "%25").replace(":", "%3A")


def _plain(name: str) -> str:
    return re.sub("%(25|3A)", lambda found: "%" if found[1] == "25" else ":", name)


class BatchResult(BaseModel):
    """What one batch came to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    batch_id: str
    total_records: int
    successful_records: int
    failed_records: int
    errors: list[str] = Field(default_factory=list)


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class Paths(_Group):
    label_source_dir: Path
    image_source_dir: Path
    output_dir: Path


class Years(_Group):
    """Inclusive."""

    start: int | None = None
    end: int | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Years:
        if self.start is not None and self.end is not None and self.start > self.end:
            raise ValueError(f"start ({self.start}) must not be after end ({self.end})")
        return self


class Filters(_Group):
    """Which books are worked on; what is left out is not filtered."""

    target_states: tuple[str, ...] | None = None
    target_years: Years = Years()

    def admits(self, state: str, year: int) -> bool:
        years = self.target_years
        return (
            (self.target_states is None or state in self.target_states)
            and (years.start is None or year >= years.start)
            and (years.end is None or year <= years.end)
        )


class Execution(_Group):
    max_retries: Annotated[int, Field(ge=0, le=1000)] = 3
    batch_size_limit: Annotated[int, Field(ge=1, le=10_000)] = 100
    max_concurrent_batches: Annotated[int, Field(ge=1, le=100)] = 10
    batch_failures_free: Annotated[int, Field(ge=0, le=100)] = 1
    on_dead_page: OnDeadPage = "block"
    dry_run: bool = False

    @property
    def most_failures(self) -> int:
        """A page with so many failures is dead: one try, and the retries."""
        return self.max_retries + 1


class Model(_Group):
    """`generation_config` is Gemini's own, in either spelling (`maxOutputTokens`, `max_output_tokens`)."""

    name: str | None = None
    generation_config: dict[str, Any] = Field(default_factory=dict)

    @field_validator("generation_config")
    @classmethod
    def _known_settings(cls, config: dict[str, Any]) -> dict[str, Any]:
        if wrong := wrong_settings(config):
            raise ValueError("; ".join(f"{'.'.join(place)}: {message}" for place, message in wrong))
        return in_rests_words(config)


class Batch(_Group):
    poll_interval_seconds: Seconds = 20.0
    poll_timeout_seconds: Seconds = 86_400.0
    """After so long a batch that still runs is shown as overdue; it is kept."""
    display_name_prefix: Annotated[str, Field(max_length=60, pattern=r"^[A-Za-z0-9 ._-]*$")] = ""


class Files(_Group):
    upload_retry_attempts: Annotated[int, Field(ge=1, le=20)] = 3
    upload_retry_backoff_seconds: Seconds = 2.0
    upload_concurrency: Annotated[int, Field(ge=1, le=64)] = 4
    max_age_minutes: Annotated[float, Field(gt=0, le=40 * 60)] = 60.0


class Prompt(_Group):
    registry_dir: Path | None = None
    name: str = "course_catalogue"
    version: str = "1"

    @field_validator("version", mode="before")
    @classmethod
    def _as_text(cls, version: Any) -> Any:
        """`version: 2` in YAML is a number."""
        return str(version) if isinstance(version, int | float) and not isinstance(version, bool) else version


class Budget(_Group):
    max_usd: Annotated[float, Field(gt=0, le=10_000_000, allow_inf_nan=False)] | None = None


class Prefect(_Group):
    flow_name: Annotated[str, Field(max_length=200, pattern=r"^[^/%&<>\x00-\x1f]+$")] = "orchestrate_gemini_batch"
    schedule_interval_minutes: Annotated[int, Field(ge=1, le=1440)] = 10


class Run(_Group):
    """One run's configuration, whole."""

    paths: Paths
    filters: Filters = Filters()
    execution: Execution = Execution()
    model: Model = Model()
    batch: Batch = Batch()
    files: Files = Files()
    prompt: Prompt = Prompt()
    budget: Budget = Budget()
    prefect: Prefect = Prefect()


class Task(_Group):
    """What the job carries: the run's configuration, and since when it is being canceled."""

    run: Run
    ledger: str
    canceled: float | None = None
