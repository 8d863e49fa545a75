"""A run as a pipe of four pieces, and its figures beside what was planned. Pure.

A piece is full to the part of all documents that has come through it, so the water stands lower from piece to piece
while the run is at work, and everywhere at the top when it is complete. Where nobody knows how many documents there
are, as on a website, a piece that has something in it flows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.pipelines.ingestion.status import PhaseProgress, Status
from penstock.service.dashboard.charts import Part, percent, stacked
from penstock.service.dashboard.wording import dollars, figure
from penstock.times import length

TITLES = {"load": "Load", "chunk": "Chunk", "embed": "Embed", "index": "Index"}
OF = {"load": "document", "chunk": "chunk", "embed": "chunk", "index": "chunk"}
"""What is counted in a phase."""


@dataclass(slots=True, frozen=True)
class Piece:
    """One phase. `full` is per cent of the piece, as an attribute; `flows` where only the movement is known."""

    name: str
    title: str
    thing: str
    done: int
    total: int | None
    full: str
    flows: bool
    active: bool
    seconds: float
    share: float
    """Of the time spent in all four."""


@dataclass(slots=True, frozen=True)
class Pipe:
    pieces: tuple[Piece, ...]
    times: tuple[Part, ...]
    """The same shares as one bar."""
    seconds: float
    done: float | None
    """Of all documents, from 0 to 1; None where nobody knows."""


def pipe(status: Status) -> Pipe:
    phases = {phase.name: phase for phase in status.phases}
    spent = sum(phase.seconds for phase in status.phases)
    whole = status.status == "completed"
    done = 1.0 if whole else _part(phases["load"])
    pieces = tuple(_piece(phase, done, spent, whole) for phase in status.phases)
    times = stacked([(f"c{place}", piece.seconds) for place, piece in enumerate(pieces)]) if spent > 0 else []
    return Pipe(pieces, tuple(times), spent, done)


def _part(phase: PhaseProgress) -> float | None:
    return min(phase.done / phase.total, 1.0) if phase.total else None


def _piece(phase: PhaseProgress, done: float | None, spent: float, whole: bool) -> Piece:
    """How full: of what came in at the front, what has come as far as here."""
    some = float(whole or phase.done > 0)
    level = some
    if done is not None and not whole:
        behind = min(phase.done / phase.total, 1.0) if phase.total else some
        level = done if phase.name == "load" else done * behind
    return Piece(
        phase.name,
        TITLES[phase.name],
        OF[phase.name],
        phase.done,
        phase.total,
        percent(100 * level),
        done is None and phase.done > 0,
        phase.active,
        phase.seconds,
        phase.seconds / spent if spent > 0 else 0.0,
    )


@dataclass(slots=True, frozen=True)
class Beside:
    """A figure of the plan, and what the run came to, or has come to so far."""

    name: str
    planned: str
    real: str


def beside(plan: Mapping[str, Any], status: Status, cost: int) -> list[Beside]:
    """What was planned was kept as JSON: a figure that is missing is not shown."""
    have = status.counters
    spent = sum(phase.seconds for phase in status.phases)
    rows = [
        ("Documents", _number(plan.get("documents")), figure(have["docs_seen"])),
        ("Unchanged", _number(plan.get("unchanged")), figure(have["docs_unchanged"])),
        ("Chunks", _number(plan.get("chunks")), figure(have["chunks_seen"])),
        ("Known chunks", _number(plan.get("known_chunks")), figure(have["chunks_skipped"])),
        ("Tokens embedded", _number(plan.get("tokens")), figure(have["tokens"])),
        ("Cost", "" if (said := plan.get("cost")) is None else dollars(float(said)), dollars(cost)),
        ("Time", "" if (said := plan.get("seconds")) is None else length(float(said)), length(spent)),
        ("Unreadable", _number(plan.get("unreadable")), figure(have["docs_error"])),
    ]
    return [Beside(*row) for row in rows if row[1]]


def _number(said: Any) -> str:
    return figure(said) if isinstance(said, (int, float)) else ""


COUNTED = {
    "docs_seen": "documents seen",
    "docs_unchanged": "unchanged",
    "docs_replaced": "replaced",
    "docs_removed": "removed",
    "docs_empty": "empty",
    "docs_error": "not loaded",
    "chunks_seen": "chunks seen",
    "chunks_processed": "embedded and indexed",
    "chunks_skipped": "known already",
    "chunks_error": "not embedded",
    "tokens": "tokens embedded",
}
"""What the counters are called."""
