"""What a bench found: for each measure our value and the peers', and the file that keeps them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Row:
    """One measure; a value is None where it was not measured."""

    measure: str
    unit: str
    higher_is_better: bool
    ours: float | None
    peers: dict[str, float | None]


def write_results(name: str, rows: list[Row], text: str) -> Path:
    """Keep the rows as `results/NAME.json`, and the printed tables beside them for the documentation."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    path.with_suffix(".txt").write_text(text + "\n")
    return path
