"""Counts that join the commit of what is counted, so that they are stored with it or not at all: no retry and no crash
counts anything twice. They are kept beside the engine's own meters, for `/metrics`.

Many processes commit at once, and would wait for each other at one row; so each count is kept in several parts. A
worker always takes the same one, and they are added up when they are read.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

PARTS = 32


def part_of(worker: str | None) -> int:
    """The part of each count that this worker adds to."""
    return zlib.crc32((worker or "").encode()) % PARTS


def added(amounts: Mapping[tuple[str, str], float]) -> tuple[str, dict[str, Any]]:
    """The statement that adds these, by name and `labels`. In the order of the table's key: two that add to the same
    rows wait for each other, and do not get stuck."""
    rows, values = [], dict[str, Any]()
    for number, (name, told) in enumerate(sorted(amounts)):
        rows.append(f"(:name{number}, :labels{number}, CAST(:value{number} AS DOUBLE PRECISION))")
        values |= {f"name{number}": name, f"labels{number}": told, f"value{number}": amounts[name, told]}
    return (
        f'INSERT INTO meters (name, labels, "value") VALUES {", ".join(rows)} ON CONFLICT (name, labels)'
        ' DO UPDATE SET "value" = meters."value" + excluded."value"',
        values,
    )


def labels(**told: str) -> str:
    return json.dumps(told, sort_keys=True, separators=(",", ":"))
