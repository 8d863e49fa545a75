"""What stands above a Markdown text between `---` (YAML) or `+++` (TOML), as metadata: plain values and lists of them.
The files are foreign: what is large, deep or repeats itself is refused before it is built."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any

import yaml

LONGEST = 64 * 1024
"""Characters between the marks; more is no front matter."""

DEEPEST = 20
"""The C parser's own recursion has no bound: a few kilobytes of brackets would end the process."""

MOST_KEYS = 100
MOST_ITEMS = 100
LONGEST_VALUE = 2000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CLOSED = {
    "---": re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE),
    "+++": re.compile(r"^\+\+\+[ \t]*$", re.MULTILINE),
}
_KEY = re.compile(r"\s*[A-Za-z_][\w.-]*[ \t]*[:=](?:\s|$)")
_TITLE = re.compile(r"^title[ \t]*[:=][ \t]*(.+)$", re.MULTILINE)


class _Refused(ValueError):
    """What no front matter has."""


def split(text: str) -> tuple[dict[str, Any], str]:
    """The metadata, and the text below them. What only looks like front matter (two rulers, say) is text. Where
    somebody tried and failed (`title: One: two`), the title is all that is taken."""
    mark = text[:3]
    if mark not in _CLOSED:
        return {}, text
    first, _, rest = text[:LONGEST].partition("\n")
    if first.rstrip() != mark:
        return {}, text
    end = _CLOSED[mark].search(rest)
    if end is None:
        return {}, text
    block = rest[: end.start()]
    body = text[len(first) + 1 + end.end() :].removeprefix("\n")
    try:
        told = _yaml(block) if mark == "---" else tomllib.loads(block)
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError):
        # A tag such as !!timestamp on something else fails in the constructor, in as many ways as it has lines.
        if not _KEY.match(block):
            return {}, text
        title = _TITLE.search(block)
        return _plain({"title": title[1].strip().strip("\"'")}) if title else {}, body
    if told is None:
        return {}, body
    return (_plain(told), body) if isinstance(told, dict) else ({}, text)


def _yaml(block: str) -> Any:
    depth = 0
    for event in yaml.parse(block, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise _Refused("an alias may stand for a million values")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise _Refused("nothing that is for reading is nested so deeply")
    return yaml.load(block, Loader=_LOADER)


def _plain(told: Mapping[Any, Any]) -> dict[str, Any]:
    """What can be kept and asked for: names with a value or a list of values; the rest is left out."""
    kept: dict[str, Any] = {}
    for name, value in told.items():
        if not isinstance(name, str) or len(kept) == MOST_KEYS:
            continue
        if isinstance(value, list):
            items = [item for item in map(_scalar, value[:MOST_ITEMS]) if item is not None]
            if items:
                kept[_clean(name)] = items
        elif (scalar := _scalar(value)) is not None:
            kept[_clean(name)] = scalar
    return kept


def _scalar(value: Any) -> Any:
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    return None


def _clean(text: str) -> str:
    """Without what no database takes: escapes can spell zero bytes and halves of characters."""
    return text[:LONGEST_VALUE].replace("\x00", "").encode("utf-8", "replace").decode()
