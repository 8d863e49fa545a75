"""What a step returns, and what the engine makes of it for the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from penstock.engine.call import Call
from penstock.engine.model import NewJob

MoveKind = Literal["next", "again", "done", "retry", "fail", "park", "hand back", "checkpoint", "cleaned"]

LONGEST_WAIT_FOR_CALLS = 3600.0
"""Seconds after which a step looks for itself, should the word of its call's end be lost."""


@dataclass(slots=True, frozen=True)
class Again:
    """Run this step again with `payload`, `after` so many seconds. The job holds nothing but its locks meanwhile.

    With `until` (a remote call, or several) the job goes on as soon as one of them has ended; `after` is then how long
    it waits at most, an hour where nothing is said.
    """

    payload: Any
    after: float | None = None
    until: Call | Sequence[Call] = ()

    @property
    def wait(self) -> float:
        if self.after is None:
            return LONGEST_WAIT_FOR_CALLS if self.calls else 0.0
        return self.after

    @property
    def calls(self) -> tuple[Call, ...]:
        """Those that have not ended: one that has would let the job go on at once, and again and again."""
        calls = (self.until,) if isinstance(self.until, Call) else self.until
        return tuple(call for call in calls if not call.ended)


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
    until: tuple[str, ...] = ()
    waits: str | None = None
    logs: tuple[tuple[float, str, str], ...] = ()
