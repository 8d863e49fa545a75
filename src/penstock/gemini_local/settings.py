"""What a local Gemini can be told: limits, the pace of its batches, who may reach it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from penstock.engine.errors import InvalidConfiguration

HOUR = 3600.0
MIB = 1024 * 1024
GIB = 1024 * MIB


@dataclass(slots=True, frozen=True)
class Quotas:
    """The limits of the real service. `enqueued_tokens` is for each model, over all its unfinished batches;
    `requests_per_minute` of 0 is no limit."""

    active_batches: int = 100
    enqueued_tokens: int = 1_000_000_000
    enqueued_tokens_of: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    storage_bytes: int = 20 * GIB
    file_bytes: int = 2 * GIB
    inline_bytes: int = 20 * MIB
    body_bytes: int = 100 * MIB
    line_bytes: int = 64 * MIB
    requests_per_minute: int = 0

    def enqueued(self, model: str) -> int:
        return self.enqueued_tokens_of.get(model, self.enqueued_tokens)


@dataclass(slots=True, frozen=True)
class Pace:
    """How long things take and last, in seconds. A batch is at least `pending_for` pending and `running_for` running,
    whatever its backend needs; `row_delay` is added to each of its rows."""

    pending_for: float = 0.0
    running_for: float = 0.0
    row_delay: float = 0.0
    expires_after: float = 48 * HOUR
    files_last: float = 48 * HOUR
    caches_last: float = 1 * HOUR


@dataclass(slots=True, frozen=True)
class Settings:
    """`key` is the only API key that is let in; None: any that is not empty. `hosts` are names by which the server may
    be called besides those of loopback ("*": any)."""

    quotas: Quotas = field(default_factory=Quotas)
    pace: Pace = field(default_factory=Pace)
    key: str | None = None
    hosts: tuple[str, ...] = ()
    any_model: bool = False
    result_name_quirk: bool = True
    concurrency: int = 16
    journal_rows: int = 200_000


def read_settings(flat: Mapping[str, Any]) -> Settings:
    """Settings from one flat mapping: `{"pending_for": 1, "active_batches": 5, "any_model": true}`."""
    parts: dict[str, dict[str, Any]] = {"pace": {}, "quotas": {}, "": {}}
    for name, value in flat.items():
        for part, kind in (("pace", Pace), ("quotas", Quotas), ("", Settings)):
            if name in kind.__dataclass_fields__ and name not in ("pace", "quotas"):
                parts[part][name] = tuple(value) if name == "hosts" else value
                break
        else:
            raise InvalidConfiguration(f"the local Gemini has no setting {name!r}")
    return Settings(pace=Pace(**parts["pace"]), quotas=Quotas(**parts["quotas"]), **parts[""])
