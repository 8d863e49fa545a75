"""What the command line asks of a bench."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    quick: bool
    """One short round: shows that everything runs; its figures are rough."""
    rounds: int
    peers: frozenset[str] | None
    """Names or beginnings of names of contestants to run; None runs all of them."""
    tree: Path | None = None
    """Where the pages bench keeps its trees of files for the next run; None makes them and removes them."""

    large: bool = False
    """Whether the ingestion bench also takes in a corpus of 1 GB."""

    def wants(self, contestant: str) -> bool:
        return self.peers is None or any(contestant.startswith(name) for name in self.peers)
