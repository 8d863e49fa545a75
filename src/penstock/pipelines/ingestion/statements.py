"""Small helpers for plain SQL that both databases take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
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
    same = shared or {}
    sql, names = _insertion(table, tuple(same), tuple(rows[0]), len(rows), then)
    given = chain.from_iterable([row[name] for name in rows[0]] for row in rows)
    return sql, {**same, **dict(zip(names, given, strict=True))}


@lru_cache(maxsize=500)
def _insertion(
    table: str, shared: tuple[str, ...], own: tuple[str, ...], rows: int, then: str
) -> tuple[str, tuple[str, ...]]:
    """The text of the statement, and the names of what differs, row by row. The same is asked for again and again."""
    quoted = ", ".join(f'"{name}"' for name in (*shared, *own))
    ahead = "".join(f":{name}, " for name in shared)
    lines = [f"({ahead}{', '.join(f':{name}_{place}' for name in own)})" for place in range(rows)]
    names = tuple(f"{name}_{place}" for place in range(rows) for name in own)
    return f"INSERT INTO {table} ({quoted}) VALUES {', '.join(lines)}{then}", names
