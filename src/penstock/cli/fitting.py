"""How the columns of a table share a terminal that is too narrow for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

GAP = 2
"""Blanks between two columns."""


def widths_of(columns: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """What each column needs for its heading and its cells."""
    return {name: max(map(len, (name, *cells))) for name, cells in columns.items()}


def needed(widths: Mapping[str, int]) -> int:
    """What they need together."""
    return sum(widths.values()) + GAP * (len(widths) - 1)


def fitted(widths: Mapping[str, int], room: int, least: Mapping[str, int]) -> dict[str, int]:
    """The widths, cut until they fit: the columns in `least` give way in its order, each down to its least."""
    given = dict(widths)
    for name, least_width in least.items():
        excess = needed(given) - room
        if excess > 0 and name in given:
            given[name] = max(given[name] - excess, min(least_width, given[name]))
    return given


def shortened(text: str, most: int) -> str:
    """Cut in the middle: how a key begins and how it ends tells it from the others."""
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"


def cut(text: str, most: int) -> str:
    """Cut at the end, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
