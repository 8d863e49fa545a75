"""How moments, lengths, amounts and payloads are written on a page. Pure; the templates' filters."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from penstock.engine.model import Job, JobRow, Progress
from penstock.times import ago, length

__all__ = [
    "ago",
    "clock",
    "coded",
    "compact",
    "dollars",
    "figure",
    "given_key",
    "iso",
    "length",
    "many",
    "plain",
    "pretty",
    "shape_of",
    "told",
]

_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_ID = re.compile(r"[0-9a-hjkmnp-tv-z]{20}")
_NUMBERS = re.compile(r"\b(?:0x)?[0-9a-f]{8,}\b|\d+(?:[.,:]\d+)*", re.IGNORECASE)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")


def iso(moment: float) -> str:
    """`2026-03-01T13:05:09.123Z`: what `<time datetime>` holds."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock(moment: float) -> str:
    """`1 Mar 13:05:09 UTC`: what stands there until the browser writes it in its own zone."""
    at = datetime.fromtimestamp(moment, UTC)
    return f"{at.day} {at:%b %H:%M:%S} UTC"


def dollars(millionths: float) -> str:
    """Two digits, and for less than ten cents as many as say something."""
    amount = millionths / 1_000_000
    if amount == 0 or abs(amount) >= 0.1:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if abs(amount) >= 0.001 else f"${amount:.6f}"


def figure(amount: float) -> str:
    """`12,345`."""
    return f"{int(amount):,}" if amount == int(amount) else f"{amount:,.1f}"


def compact(amount: float) -> str:
    """`950`, `12.3k`, `4.1M`."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(amount) >= size:
            return f"{amount / size:.1f}".removesuffix(".0") + unit
    return figure(round(amount, 1))


def many(amount: int, thing: str) -> str:
    """`1 call`, `12 calls`."""
    return f"{amount:,} {thing}{'' if amount == 1 else 's'}"


def told(progress: Progress) -> str:
    """`12/40 pages`."""
    done = figure(progress.done)
    amount = done if progress.total is None else f"{done}/{figure(progress.total)}"
    return f"{amount} {progress.note}" if progress.note else amount


def plain(value: Any) -> Any:
    """Text as it is shown: a character that would turn around what stands behind it is written as its number."""
    if isinstance(value, str) and not isinstance(value, Markup) and _TURNS.search(value):
        return _TURNS.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
    return value


def given_key(job: Job | JobRow) -> str:
    """The key somebody gave the job; without one the key is the id of its first run."""
    return "" if _ID.fullmatch(job.key) else job.key


def pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=False, default=str)


def coded(text: str) -> Markup:
    """What stands between backticks as code; everything escaped."""
    parts = text.split("`")
    return Markup("").join(Markup("<code>{}</code>").format(part) if n % 2 else part for n, part in enumerate(parts))


def shape_of(error: str | None) -> str:
    """The first line of an error without what differs from case to case, so that like failures stand together."""
    first = (error or "no error was kept").strip().splitlines()[0] if (error or "").strip() else "no error was kept"
    return _NUMBERS.sub("…", _QUOTED.sub("…", first))[:200]
