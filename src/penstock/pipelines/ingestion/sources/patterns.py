"""Which files of a folder are wanted, by the end of their names or by patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

from penstock.engine.errors import InvalidRequest


def ending(endings: Collection[str]) -> Callable[[str], bool]:
    those = tuple(endings)
    return lambda path: path.lower().endswith(those)


def matching(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Whether a relative path fits one of the patterns: `*` and `?` stay within a name, `**` is any folders."""
    expressions = [_compiled(pattern) for pattern in patterns]
    return lambda path: any(expression.fullmatch(path) for expression in expressions)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(_expression(pattern), re.DOTALL)
    except re.error as error:
        raise InvalidRequest(f"pattern: {pattern!r} is no pattern: {error.msg}") from None


def _expression(pattern: str) -> str:
    parts = pattern.removeprefix("./").split("/")
    if "" in parts or ".." in parts:
        raise InvalidRequest(f"pattern: {pattern!r} must be relative to the folder, such as guides/**/*.md")
    parts = ["**", *parts] if len(parts) == 1 else parts
    told = ""
    for place, part in enumerate(parts):
        last = place == len(parts) - 1
        if part == "**":
            told += ".*" if last else "" if parts[place + 1] == "**" else "(?:[^/]+/)*"
        else:
            told += _name_expression(part) + ("" if last else "/")
    return told


def _name_expression(part: str) -> str:
    told = ""
    for piece in re.findall(r"\*+|\?|\[!?\]?[^\]]*\]|.", part, re.DOTALL):
        if piece[0] == "*":
            told += "[^/]*"
        elif piece == "?":
            told += "[^/]"
        elif len(piece) > 1 and piece[1:-1].strip("!"):
            inside = re.sub(r"[\\\[\]&~|^]", r"\\\g<0>", piece[1:-1])
            told += f"[^/{inside[1:]}]" if inside[0] == "!" else f"[{inside}]"
        else:
            told += re.escape(piece)
    return told
