"""What a step returns, and what the engine makes of it for the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from penstock.engine.model import NewJob

MoveKind = Literal["next", "again", "done", "retry", "fail", "park", "hand back", "checkpoint", "cleaned"]


@dataclass(slots=True, frozen=True)
class Again:
    """Run this step again with `payload`, `after` so many seconds. The job holds nothing but its locks meanwhile."""

    payload: Any
    after: float = 0.0


@dataclass(slots=True, frozen=True)
class Goto:
    """Go on with another step than the next one. `step` is a step function or its name."""

    step: Callable[..., Any] | str
    payload: Any


@dataclass(slots=True)
class Move:
    """What a tick decided, as it joins the store's transaction: everything here is stored, or nothing."""

    job: str
    epoch: int
    number: int
    kind: MoveKind
    step: str
    payload: str
    after: float = 0.0
    keep: bool = False
    resource: str = ""
    result: str | None = None
    error: str | None = None
    throttled: bool = False
    counters: str | None = None
    progress: str | None = None
    took: float = 0.0
    worker: str | None = None
    spawn: tuple[NewJob, ...] = ()
    seal: tuple[str, ...] = ()
    release: tuple[str, ...] = ()
    writes: tuple[Any, ...] = ()
