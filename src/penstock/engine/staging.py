"""How a delivery that shows work to people learns what a step does inside, and what the step wants seen.

A delivery that can show it (Prefect: task runs and artifacts) sets `stage` where its ticks run. Everywhere else there
is none, and a step's parts are plain awaits. A stage only watches: it may not fail the work, repeat it or hold it up.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from penstock.engine.errors import InvalidRequest

T = TypeVar("T")

_KEY = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


@dataclass(slots=True, frozen=True, kw_only=True)
class Report:
    """What a step shows to people: `text` is Markdown, `table` rows with the same columns, `progress` from 0 to 100.
    A later report with the same `key` (lower-case letters, digits and dashes) takes the place of the one before."""

    key: str
    title: str
    text: str = ""
    table: Sequence[dict[str, Any]] | None = None
    progress: float | None = None

    def __post_init__(self) -> None:
        if not _KEY.match(self.key):
            raise InvalidRequest(f"a report's key must be lower-case letters, digits and dashes, not {self.key!r}")
        if self.progress is not None and not 0 <= self.progress <= 100:
            raise InvalidRequest(f"a report's progress must be from 0 to 100, not {self.progress!r}")


class Stage(Protocol):
    async def part(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        """Call `work` once, whatever goes wrong with showing it; what it returns or raises is passed on as it is."""
        ...

    async def show(self, report: Report) -> None:
        """Never raises because of what shows it."""
        ...


stage: ContextVar[Stage | None] = ContextVar("penstock_stage", default=None)
"""Who watches the code that runs here; None: nobody."""
