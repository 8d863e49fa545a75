"""What the bench asks of a script: how much to do, where to keep it, which servers to use.

It travels in the environment, so that worker processes started by a script know the same.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

VARIABLE = "BENCH_ASSIGNMENT"


@dataclass(frozen=True)
class Assignment:
    mode: str
    jobs: int
    workflows: int
    latencies: int
    waiting: int
    depths: list[int]
    scratch: str
    """A folder of its own."""
    postgres_url: str
    """An empty database of its own, or nothing where none was asked for."""
    redis_url: str

    @property
    def folder(self) -> Path:
        return Path(self.scratch)

    @classmethod
    def given(cls) -> Assignment:
        return cls(**json.loads(os.environ[VARIABLE]))

    def as_environment(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(asdict(self))}
