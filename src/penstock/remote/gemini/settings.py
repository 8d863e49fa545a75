"""Every setting of the Gemini remote, with its type, bounds and default. One flat group: `gemini:` in the file,
`PENSTOCK_GEMINI__MODEL` in the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, field_validator, model_validator

from penstock.remote.address import checked_key, checked_url, on_loopback

GOOGLE = "https://generativelanguage.googleapis.com"
KEY_VARIABLES = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
BASE_URL_VARIABLE = "GOOGLE_GEMINI_BASE_URL"

_MIB = 1024 * 1024


def _caps(value: Any) -> Any:
    """`gemini-3.8-flash=3000000, …`, as the environment writes them."""
    if not isinstance(value, str):
        return value
    written: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in value.split(","))):
        name, equals, most = (piece.strip() for piece in part.rpartition("="))
        if not equals or not most.replace("_", "").isdigit():
            raise ValueError(f"must be MODEL=NUMBER, with commas between several, not {part!r}")
        written[name] = int(most)
    return written


def _digit(value: Any) -> Any:
    """The environment has only text."""
    return int(value) if isinstance(value, str) and value.strip().isdigit() else value


def _seconds(value: Any) -> float:
    """Here, not above: the configuration is made of these settings."""
    from penstock.config.duration import seconds

    return seconds(value)


Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0, allow_inf_nan=False)]
Caps = Annotated[dict[str, Annotated[int, Field(ge=1)]], BeforeValidator(_caps)]


MOST_PARALLEL = 64

Attempts = Annotated[int, Field(ge=1, le=20)]
Parallel = Annotated[int, Field(ge=1, le=MOST_PARALLEL)]


class Transfers(BaseModel):
    """How one batch's files are uploaded, where it is to be done otherwise than the settings say: how often each
    request is tried, the seconds before it is tried again (doubled every time), and how many files go at once. A file
    that was uploaded more than `max_age` seconds before the batch is prepared (again) is uploaded anew."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempts: Attempts | None = None
    backoff: Seconds | None = None
    parallel: Parallel | None = None
    max_age: Seconds | None = None


class GeminiSettings(BaseModel):
    """`tier` is the billing tier of the project; it and `enqueued_tokens` (by model) say how much may be enqueued."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    api_key: SecretStr | None = None
    base_url: str = GOOGLE
    api_version: Annotated[str, Field(pattern=r"^v\d+[a-z0-9]*$")] = "v1beta"
    vertex_project: str | None = None
    vertex_location: str | None = None

    model: Annotated[str, Field(min_length=1)] = "gemini-3.8-flash"
    embedding_model: Annotated[str, Field(min_length=1)] = "gemini-embedding-001"
    max_output_tokens: Annotated[int, Field(ge=1)] = 65_536
    prices: Path | None = None

    tier: Annotated[
        Literal[1, 2, 3], BeforeValidator(lambda value: int(value) if isinstance(value, str) else value)
    ] = 1
    enqueued_tokens: Caps = Field(default_factory=dict)
    batch_jobs: Annotated[int, Field(ge=1)] = 100
    inline_rows: Annotated[int, Field(ge=0, le=10_000)] = 100
    inline_bytes: Annotated[int, Field(ge=0, le=15_000_000)] = 4_000_000
    count_sample: Annotated[int, Field(ge=0, le=100)] = 0

    connect_timeout: Seconds = 10.0
    request_timeout: Seconds = 60.0
    create_timeout: Seconds = 120.0
    generate_timeout: Seconds = 300.0
    chunk_timeout: Seconds = 300.0
    transfer_timeout: Seconds = 3600.0

    attempts: Attempts = 5
    retry_base: Seconds = 0.5
    upload_parallel: Parallel = 8
    upload_chunk: Annotated[int, Field(ge=256 * 1024, le=64 * _MIB, multiple_of=256 * 1024)] = 8 * _MIB
    files_live_for: Annotated[Seconds, Field(le=47.5 * 3600)] = 40 * 3600.0

    listing_margin: Seconds = 300.0
    poll_every: Seconds = 15.0
    poll_at_most: Seconds = 600.0
    overdue_after: Seconds = 24 * 3600.0

    @field_validator("api_key")
    @classmethod
    def _fits_a_header(cls, key: SecretStr | None) -> SecretStr | None:
        return checked_key(key)

    @field_validator("base_url")
    @classmethod
    def _sound_url(cls, url: str) -> str:
        return checked_url(url, setting="gemini.api_key", example="https://host or http://127.0.0.1:8801")

    @model_validator(mode="after")
    def _whole_vertex(self) -> GeminiSettings:
        if (self.vertex_project is None) != (self.vertex_location is None):
            raise ValueError("vertex_project and vertex_location go together")
        if self.poll_at_most < self.poll_every:
            raise ValueError("poll_at_most must not be less than poll_every")
        return self

    @property
    def vertex(self) -> bool:
        return self.vertex_project is not None

    @property
    def identity(self) -> str:
        """Which Gemini it is, without anything secret."""
        if self.vertex:
            return f"vertex:{self.vertex_project}/{self.vertex_location}"
        scheme, _, rest = self.base_url.partition("://")
        host, slash, path = rest.partition("/")
        return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"

    @property
    def on_loopback(self) -> bool:
        return on_loopback(self.base_url)


def from_environment(environ: Mapping[str, str] | None = None, **told: Any) -> GeminiSettings:
    """Settings as told, with the key (and the address) from the variables that Google's own client reads."""
    environ = os.environ if environ is None else environ
    if told.get("api_key") is None:
        told["api_key"] = next((environ[name] for name in KEY_VARIABLES if environ.get(name, "").strip()), None)
    if "base_url" not in told and environ.get(BASE_URL_VARIABLE, "").strip():
        told["base_url"] = environ[BASE_URL_VARIABLE].strip()
    return GeminiSettings(**told)
