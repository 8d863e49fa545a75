"""Moments and lengths of time, as people and as programs read them."""

from __future__ import annotations

from datetime import UTC, datetime

_STEPS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"))


def local(moment: float) -> str:
    """`2026-03-01T14:05:09+01:00`, in the reader's time zone."""
    return datetime.fromtimestamp(moment).astimezone().isoformat(timespec="seconds")


def utc(moment: float | None) -> str | None:
    """`2026-03-01T13:05:09.123Z`: what `--json` and the HTTP API write."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def length(seconds: float) -> str:
    """`40 ms`, `3.2 s`, `12 s`, `5 min`, `3 h`, `2 d`."""
    seconds = max(seconds, 0.0)
    for size, unit in _STEPS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def ago(moment: float, now: float) -> str:
    """`3 s ago`, `in 5 min`, `now`."""
    distance = now - moment
    if abs(distance) < 0.5:
        return "now"
    return f"{length(distance)} ago" if distance > 0 else f"in {length(-distance)}"


def local_and_ago(moment: float, now: float) -> str:
    return f"{local(moment)} ({ago(moment, now)})"
