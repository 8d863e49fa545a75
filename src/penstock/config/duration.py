"""Lengths of time as people write them: `30`, `1.5s`, `500ms`, `5m`, `2h`, `7d`."""

from __future__ import annotations

import re

_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_WRITTEN = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|m|h|d|)\s*\Z")


def seconds(written: object) -> float:
    """The length in seconds, or `ValueError`."""
    if isinstance(written, (int, float)) and not isinstance(written, bool):
        return float(written)
    found = _WRITTEN.match(written) if isinstance(written, str) else None
    if found is None:
        raise ValueError("must be a length of time: seconds, or a number with ms, s, m, h or d")
    return float(found[1]) * _UNITS[found[2]]
