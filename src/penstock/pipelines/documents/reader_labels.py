"""Labels on the page. A longer one wins over a shorter one inside it: `Total tax` is no total, `Invoice due date` no
invoice date."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from penstock.paper.page import Box
from penstock.pipelines.documents.reader_layout import Cell, Sheet
from penstock.pipelines.documents.reader_lexicon import LABELS, Kind

_BOUND = r"(?<!\w)(?<!\w-)"
_COMPILED = tuple((kind, strength, re.compile(_BOUND + f"(?:{pattern})", re.I)) for kind, strength, pattern in LABELS)
_COLUMNS: frozenset[Kind] = frozenset({"item", "quantity", "unit_price", "line_total"})


@dataclass(frozen=True)
class Mention:
    """A label in a text, from `start` to `end`."""

    kind: Kind
    strength: int
    start: int
    end: int


@dataclass(frozen=True)
class Label:
    """A label on the page: the cell that holds it, and the text up to the next label in the same cell."""

    kind: Kind
    strength: int
    cell: Cell
    place: int
    start: int
    end: int
    rest: str
    box: Box


@lru_cache(maxsize=4096)
def mentions(text: str, *, columns: bool = False) -> tuple[Mention, ...]:
    """The labels in a text that do not overlap: of two that do, the longer one, then the stronger. Names of columns
    are common words, and are looked for only where a table may begin."""
    found = [
        Mention(kind, strength, *match.span())
        for kind, strength, pattern in _COMPILED
        if columns or kind not in _COLUMNS
        for match in pattern.finditer(text[:2000])
        if match[0].strip()
    ]
    found.sort(key=lambda one: (one.start - one.end, -one.strength))
    kept: list[Mention] = []
    for one in found:
        if not any(one.start < other.end and other.start < one.end for other in kept):
            kept.append(one)
    return tuple(sorted(kept, key=lambda one: one.start))


def labels(sheet: Sheet) -> Iterator[Label]:
    """Every label on the sheet, in reading order."""
    for row in sheet.rows:
        for place, cell in enumerate(row.cells):
            found = mentions(cell.text)
            for at, one in enumerate(found):
                until = found[at + 1].start if at + 1 < len(found) else len(cell.text)
                rest = cell.text[one.end : until]
                box = cell.part(one.start, one.end)
                yield Label(one.kind, one.strength, cell, place, one.start, one.end, rest, box)
