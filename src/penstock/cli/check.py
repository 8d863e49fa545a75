"""What one examination of the doctor answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(slots=True, frozen=True)
class Check:
    """What was found; `mend` is what to do about it."""

    name: str
    status: Literal["ok", "warn", "fail"]
    detail: str
    mend: str | None = None
