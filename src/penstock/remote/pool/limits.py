"""What one call may use before it is stopped."""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.engine.errors import InvalidRequest

MB = 2**20


@dataclass(slots=True, frozen=True, kw_only=True)
class PoolLimits:
    """`seconds` of wall clock, from the moment a process has the call. `memory_mb` of memory that is really in use, by
    the process and all that it started. `pages` as counted with `page_done`; None: as many as there are. `answer_mb`
    of blobs that come back."""

    seconds: float = 60.0
    memory_mb: int = 1024
    pages: int | None = None
    answer_mb: int = 64

    def __post_init__(self) -> None:
        if not (0 < self.seconds < math.inf):
            raise InvalidRequest(f"limits: seconds must be positive and finite, not {self.seconds}")
        if self.memory_mb < 1 or self.answer_mb < 0:
            raise InvalidRequest(f"limits: {self.memory_mb} MB of memory, {self.answer_mb} MB of answer cannot be")
        if self.pages is not None and self.pages < 0:
            raise InvalidRequest(f"limits: pages must not be negative: {self.pages}")
