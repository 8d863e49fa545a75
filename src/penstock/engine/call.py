"""What a remote call is, and how it moves: slow or paid work outside, as a row of its own.

    intent ──sent──▶ submitted ──polled──▶ running ──▶ succeeded ──collected──▶ collected
      │  crash, timeout                       │
      ├──found──▶ submitted                   ├──▶ failed · expired · cancelled
      ├──absent (proved)──▶ absent            └──▶ overdue: still running, shown
      └──cannot tell──▶ quarantined ──a person──▶ submitted · absent · discarded

The table `MOVES` is the machine; `move` is its only reader. What is told about a call is accepted whatever became of
its job (rule 5): a fact that does not fit the state any more changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from pydantic_core import from_json

State = Literal[
    "intent", "unsent", "submitted", "running", "overdue", "succeeded", "quarantined",
    "collected", "failed", "expired", "cancelled", "absent", "lost", "discarded",
]  # fmt: skip


@dataclass(slots=True, frozen=True)
class Hold:
    """Part of something scarce that a call keeps while it is unfinished: `name` may be held up to `most` in all; None:
    as the configured limit of that name says."""

    name: str
    amount: int = 1
    most: int | None = None


@dataclass(slots=True, frozen=True)
class Usage:
    """Tokens, as the other side counts them. `output` includes `thinking`; `input` includes `cached`."""

    input: int = 0
    output: int = 0
    cached: int = 0
    thinking: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.thinking + other.thinking,
        )
