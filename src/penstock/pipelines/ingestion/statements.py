"""Small helpers for plain SQL that both databases take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Statement = tuple[str, dict[str, Any]]

MOST = 500
"""Values in one list."""


class Reads(Protocol):
    """Who answers questions: a step's context, or the engine."""

    async def read(self, statement: Any) -> list[tuple[Any, ...]]: ...


def listed(values: Sequence[Any], prefix: str = "v") -> tuple[str, dict[str, Any]]:
    """`(:v0, :v1, …)` and what these are."""
    names = [f"{prefix}{place}" for place in range(len(values))]
    return f"({', '.join(f':{name}' for name in names)})", dict(zip(names, values, strict=True))


def inserted(
    table: str, rows: Sequence[Mapping[str, Any]], *, shared: Mapping[str, Any] | None = None, then: str = ""
) -> Statement:
    """One statement for all rows, which have the same columns; `shared` values are the same in each."""
    same = dict(shared or {})
    columns = (*same, *rows[0])
    values: dict[str, Any] = dict(same)
    lines = []
    ahead = "".join(f":{name}, " for name in same)
    for place, row in enumerate(rows):
        lines.append(f"({ahead}{', '.join(f':{name}_{place}' for name in row)})")
        for name, value in row.items():
            values[f"{name}_{place}"] = value
    quoted = ", ".join(f'"{name}"' for name in columns)
    return f"INSERT INTO {table} ({quoted}) VALUES {', '.join(lines)}{then}", values
