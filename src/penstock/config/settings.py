"""Every key there is, with its type, bounds and default. `docs/reference/configuration.md` says what each is for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    field_validator,
    model_validator,
)

from penstock.config.duration import seconds
from penstock.engine.errors import InvalidRequest
from penstock.engine.identity import checked_name
from penstock.engine.lane import checked_limits
from penstock.engine.model import DEFAULT_QUEUE
from penstock.remote.gemini.settings import GeminiSettings
from penstock.remote.openai.settings import OpenAISettings

SCHEMES = ("sqlite:///", "postgresql://", "postgres://", "memory://")

_APP = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*\Z")


def _number(value: Any) -> Any:
    """YAML's yes, no, on and off are no numbers."""
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


def _days(value: Any) -> Any:
    return None if isinstance(value, str) and value.strip().lower() == "never" else _number(value)


def _listed(value: Any) -> Any:
    """One name, or several with commas, as the environment writes them."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _limits(value: Any) -> Any:
    """`workflow:pages=4, tenant:*=2`, as the environment writes them."""
    if not isinstance(value, str):
        return value
    written = {}
    for part in filter(None, (part.strip() for part in value.split(","))):
        name, equals, most = (piece.strip() for piece in part.rpartition("="))
        if not equals or not most.isdigit():
            raise ValueError(f"must be NAME=NUMBER, with commas between several, not {part!r}")
        written[name] = int(most)
    return written


def _object(value: Any) -> Any:
    """JSON, as the environment writes what has parts of its own."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError('must be JSON, such as {"name": {"url": …, "secret": …}}') from None


Seconds = Annotated[float, BeforeValidator(seconds)]
Days = Annotated[float | None, Field(ge=0, allow_inf_nan=False), BeforeValidator(_days)]


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RetentionSettings(_Group):
    completed_days: Days = 30.0
    failed_days: Days = 90.0
    audit_days: Days = 365.0


class LogSettings(_Group):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["plain", "json"] = "plain"

    @field_validator("level", "format", mode="before")
    @classmethod
    def _in_lower_case(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value


class PoolSettings(_Group):
    """The processes that parse foreign files for this process."""

    workers: Annotated[int, Field(ge=1, le=256), BeforeValidator(_number)] = 2


class LocalGeminiSettings(_Group):
    """Penstock's own Gemini: `auto` uses it where no key is set. It ends by itself when it was idle for so long."""

    use: Literal["auto", "always", "never"] = "auto"
    backend: Annotated[str, Field(min_length=1)] = "local"
    idle: Annotated[Seconds, Field(gt=0, allow_inf_nan=False)] = 600.0

    @field_validator("use", mode="before")
    @classmethod
    def _in_lower_case(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value


class ServiceSettings(_Group):
    """What `penstock up` serves, where, and how much it takes at once."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535), BeforeValidator(_number)] = 8800
    public_url: str | None = None
    queue_limit: Annotated[int, Field(ge=1), BeforeValidator(_number)] = 100_000
    body_limit: Annotated[int, Field(ge=1024), BeforeValidator(_number)] = 4 * 1024 * 1024
    upload_limit: Annotated[int, Field(ge=1024), BeforeValidator(_number)] = 1024 * 1024 * 1024
    session: Annotated[Seconds, Field(gt=0, allow_inf_nan=False)] = 12 * 3600.0
    logins_a_minute: Annotated[int, Field(ge=1), BeforeValidator(_number)] = 10
    drain_wait: Annotated[Seconds, Field(ge=0, allow_inf_nan=False)] = 0.0
    trusted_proxies: Annotated[tuple[str, ...] | None, BeforeValidator(_listed)] = None

    @field_validator("public_url")
    @classmethod
    def _an_address(cls, url: str | None) -> str | None:
        if url is not None and not re.match(r"https?://[^\s/]+", url):
            raise ValueError(f"must be an address like https://penstock.example.com, not {url!r}")
        return url and url.rstrip("/")


NOTICES = ("job.completed", "job.failed", "job.canceled", "budget.paused", "call.quarantined", "sla.breached")


class WebhookSettings(_Group):
    """An address that is told of events, with a signature made with `secret`."""

    url: str
    secret: SecretStr
    events: Annotated[tuple[str, ...], BeforeValidator(_listed)] = NOTICES
    workflows: Annotated[tuple[str, ...] | None, BeforeValidator(_listed)] = None
    tenant: str | None = None

    @field_validator("url")
    @classmethod
    def _an_address(cls, url: str) -> str:
        if not re.match(r"https?://[^\s/]+", url):
            raise ValueError("must be an http:// or https:// address")
        return url

    @field_validator("secret")
    @classmethod
    def _not_guessable(cls, secret: SecretStr) -> SecretStr:
        if len(secret.get_secret_value()) < 16:
            raise ValueError("must be at least 16 characters")
        return secret

    @field_validator("events")
    @classmethod
    def _known(cls, events: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [name for name in events if name not in NOTICES]:
            raise ValueError(f"must be of {', '.join(NOTICES)}, not {unknown[0]!r}")
        return events


class OtelSettings(_Group):
    """Where traces go (OTLP over HTTP); nowhere unless told."""

    endpoint: str | None = None
    service_name: Annotated[str, Field(min_length=1)] = "penstock"


def _folder_names(roots: tuple[str, ...]) -> tuple[str, ...]:
    if any(not root.strip() for root in roots):
        raise ValueError("must be names of folders, such as ., /srv/pages or /srv/pages/{tenant}")
    return roots


class PagesSettings(_Group):
    """The folders in which runs of pages that are started over HTTP may read and write."""

    roots: Annotated[tuple[str, ...], BeforeValidator(_listed)] = (".",)

    @field_validator("roots")
    @classmethod
    def _folders(cls, roots: tuple[str, ...]) -> tuple[str, ...]:
        return _folder_names(roots)


class DocumentsSettings(_Group):
    """What is taken in, how many of a batch are worked on at once, how long a review may take, who reviews, and what is
    promised."""

    model: Annotated[str, Field(min_length=1)] | None = None
    largest_mb: Annotated[float, Field(gt=0, le=14), BeforeValidator(_number)] = 14.0
    most_pages: Annotated[int, Field(ge=1, le=200), BeforeValidator(_number)] = 50
    max_concurrent_tasks: Annotated[int, Field(ge=1, le=10_000), BeforeValidator(_number)] = 10
    review_hours: Annotated[float, Field(gt=0, le=8760), BeforeValidator(_number)] = 24.0
    claim: Annotated[Seconds, Field(ge=60, allow_inf_nan=False)] = 1800.0
    reviewers: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    sla_p95: Annotated[Seconds, Field(gt=0, allow_inf_nan=False)] = 30.0
    sla_per_hour: Annotated[float, Field(ge=0), BeforeValidator(_number)] = 4500.0
    sla_error_rate: Annotated[float, Field(ge=0, le=1), BeforeValidator(_number)] = 0.01
    sla_depth: Annotated[int, Field(ge=0), BeforeValidator(_number)] = 500
    sla_breach_rate: Annotated[float, Field(ge=0, le=1), BeforeValidator(_number)] = 0.001

    @property
    def largest_file(self) -> int:
        return int(self.largest_mb * 1_000_000)


class IngestionSettings(_Group):
    """How knowledge bases are filled: documents a tick, chunks between two commits; what sources may reach; and the
    memory that searching takes."""

    batch: Annotated[int, Field(ge=1, le=1000), BeforeValidator(_number)] = 10
    group: Annotated[int, Field(ge=1, le=500), BeforeValidator(_number)] = 64
    roots: Annotated[tuple[str, ...], BeforeValidator(_listed)] = (".",)
    largest_mb: Annotated[float, Field(gt=0, le=2000), BeforeValidator(_number)] = 200.0
    allow_private_addresses: bool = False
    user_agent: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    search_memory_mb: Annotated[int, Field(ge=1), BeforeValidator(_number)] = 256

    @field_validator("roots")
    @classmethod
    def _folders(cls, roots: tuple[str, ...]) -> tuple[str, ...]:
        return _folder_names(roots)


class PrefectSettings(_Group):
    """What Prefect is told: how often its schedule looks for work, how many flow runs one worker runs at once, and the
    files of the runs of pages that it starts by schedules of their own."""

    schedule_minutes: Annotated[int, Field(ge=1, le=59), BeforeValidator(_number)] = 10
    runs: Annotated[int, Field(ge=1, le=1000), BeforeValidator(_number)] = 10
    pages: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()


BROKERS = ("redis://", "rediss://", "redis+socket://", "unix://", "sentinel://", "amqp://", "amqps://", "pyamqp://")


class CelerySettings(_Group):
    """What Celery is told: where the broker is, how many processes a worker has and how many jobs each advances at
    once, how long a step may take, and how often beat has lost hints looked for."""

    broker_url: str | None = None
    result_backend: str | None = None
    processes: Annotated[int, Field(ge=1, le=1000), BeforeValidator(_number)] = 4
    at_once: Annotated[int, Field(ge=1, le=1000), BeforeValidator(_number)] = 20
    soft_limit: Annotated[Seconds, Field(ge=1, allow_inf_nan=False)] = 270.0
    hard_limit: Annotated[Seconds, Field(ge=1, allow_inf_nan=False)] = 300.0
    sweep_every: Annotated[Seconds, Field(ge=0.1, le=60, allow_inf_nan=False)] = 5.0
    beat: bool = True

    @field_validator("broker_url")
    @classmethod
    def _known_broker(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(BROKERS):
            raise ValueError("must be a URL like redis://localhost:6379/0 or amqp://user:password@host//")
        return url

    @model_validator(mode="after")
    def _soft_before_hard(self) -> CelerySettings:
        if self.hard_limit <= self.soft_limit:
            raise ValueError(f"hard_limit must be longer than soft_limit, which is {self.soft_limit:g} s")
        return self


class Settings(_Group):
    """The configuration in force. `source("store")` says where a value came from; None: it is the default."""

    home: Path = Path(".penstock")
    store: str = Field(default_factory=lambda told: f"sqlite:///{told.get('home', '.penstock')}/penstock.db")
    app: str | None = None
    queues: Annotated[tuple[str, ...] | None, BeforeValidator(_listed)] = None
    concurrency: Annotated[int, Field(ge=1), BeforeValidator(_number)] = 100
    lease: Annotated[Seconds, Field(gt=0, allow_inf_nan=False)] = 30.0
    grace: Annotated[Seconds, Field(ge=0, allow_inf_nan=False)] = 30.0
    retention: RetentionSettings = RetentionSettings()
    limits: Annotated[dict[str, int] | None, BeforeValidator(_limits)] = None
    fair_share: Annotated[float, Field(ge=0, lt=1), BeforeValidator(_number)] = 0.0
    delivery: Literal["embedded", "prefect", "celery"] = "embedded"
    log: LogSettings = LogSettings()
    gemini: GeminiSettings = GeminiSettings()
    local_gemini: LocalGeminiSettings = LocalGeminiSettings()
    openai: OpenAISettings = OpenAISettings()
    pool: PoolSettings = PoolSettings()
    service: ServiceSettings = ServiceSettings()
    webhooks: Annotated[dict[str, WebhookSettings], BeforeValidator(_object)] = Field(default_factory=dict)
    otel: OtelSettings = OtelSettings()
    pages: PagesSettings = PagesSettings()
    documents: DocumentsSettings = DocumentsSettings()
    ingestion: IngestionSettings = IngestionSettings()
    prefect: PrefectSettings = PrefectSettings()
    celery: CelerySettings = CelerySettings()

    _sources: dict[str, str] = PrivateAttr(default_factory=dict)

    def source(self, key: str) -> str | None:
        return self._sources.get(key)

    @field_validator("home")
    @classmethod
    def _at_home(cls, home: Path) -> Path:
        return home.expanduser()

    @field_validator("store")
    @classmethod
    def _known_store(cls, store: str) -> str:
        if not store.startswith(SCHEMES):
            raise ValueError(
                "must be a URL like sqlite:///work.db, postgresql://user@host/name or memory://"
                + ("; for an absolute path write four slashes, sqlite:////" if store.startswith("sqlite:") else "")
            )
        return store

    @field_validator("app")
    @classmethod
    def _module_and_object(cls, app: str | None) -> str | None:
        if app is not None and not _APP.match(app):
            raise ValueError(f"must be module:object, such as flow:app, not {app!r}")
        return app

    @field_validator("queues")
    @classmethod
    def _named_queues(cls, queues: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if queues == ():
            raise ValueError(f"must name at least one queue; leave it out for {DEFAULT_QUEUE!r}")
        return queues and tuple(_said(checked_name, "queue", queue) for queue in queues)

    @field_validator("limits")
    @classmethod
    def _sound_limits(cls, limits: dict[str, int] | None) -> dict[str, int] | None:
        return None if limits is None else _said(checked_limits, limits)


def _said(check: Any, *args: Any) -> Any:
    """The engine's own check, in the voice Pydantic listens to."""
    try:
        return check(*args)
    except InvalidRequest as error:
        raise ValueError(str(error)) from error


def keys(group: type[BaseModel] = Settings, prefix: str = "") -> list[str]:
    """Every key, dotted: `home`, …, `retention.completed_days`."""
    found: list[str] = []
    for name, field in group.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found += keys(kind, f"{prefix}{name}.")
        else:
            found.append(prefix + name)
    return found
