"""The request journal: what was asked, what became of it, and which fault was in the way."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from penstock.gemini_local.state import State

PRUNE_EVERY = 1000


@dataclass(slots=True)
class Entry:
    """One request. `status` is None where no answer was sent. `number` is set once it is stored."""

    at: float
    method: str
    path: str
    operation: str
    status: int | None = None
    label: str | None = None
    size: int = 0
    fault: str | None = None
    number: int | None = None

    def add_fault(self, kind: str) -> None:
        self.fault = kind if self.fault is None else f"{self.fault}+{kind}"

    def write(self, db: sqlite3.Connection) -> None:
        """Store it, or what has changed since it was stored."""
        if self.number is None:
            self.number = db.execute(
                "INSERT INTO journal (at, method, path, operation, status, label, size, fault)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (self.at, self.method, self.path, self.operation, self.status, self.label, self.size, self.fault),
            ).lastrowid
        else:
            db.execute(
                "UPDATE journal SET status = ?, label = ?, size = ?, fault = ? WHERE number = ?",
                (self.status, self.label, self.size, self.fault, self.number),
            )


class Journal:
    def __init__(self, state: State, keep: int) -> None:
        self._state = state
        self._keep = keep

    def write(self, entry: Entry) -> None:
        entry.write(self._state.db)
        if entry.number is not None and entry.number % PRUNE_EVERY == 0:
            self._state.db.execute("DELETE FROM journal WHERE number <= ?", (entry.number - self._keep,))

    def read(
        self, *, method: str = "", path: str = "", operation: str = "", after: int = 0, limit: int = 10_000
    ) -> list[dict[str, Any]]:
        """Oldest first. `path` is a part of it, `after` the number of the last one known."""
        rows = self._state.db.execute(
            "SELECT * FROM journal WHERE number > ? AND (? = '' OR method = ?) AND instr(path, ?) > 0"
            " AND (? = '' OR operation = ?) ORDER BY number LIMIT ?",
            (after, method, method, path, operation, operation, limit),
        )
        return [dict(row) for row in rows]
