"""What a page is told of the page before it: the end of its text and its last courses. It is taken from the output
file as it lies there, which may be of a user's own schema, so nothing is expected and nothing strange is an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

LONGEST_TEXT = 500
LONGEST_FIELD = 200
MOST_COURSES = 3

PROVENANCE = "_penstock"
"""The key that an output file has beside what the model answered."""

_NOT_OF_THE_TEXT = frozenset({"running_head", "page_number"})
_LONGEST_WORD = 60


class ContextCourse(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    department: str | None = None
    level: str | None = None
    term: str | None = None


class PageContext(BaseModel):
    """The last 500 characters of the page before, and its last 3 courses in the order of the page."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = ""
    courses: tuple[ContextCourse, ...] = ()


def split_provenance(data: Any) -> tuple[Any, dict[str, Any] | None]:
    """What the model answered, and what we wrote about it, of the parsed JSON of an output file."""
    if not isinstance(data, dict) or PROVENANCE not in data:
        return data, None
    provenance = data[PROVENANCE]
    answered = {name: value for name, value in data.items() if name != PROVENANCE}
    return answered, provenance if isinstance(provenance, dict) else None


def context_of(output: Any) -> PageContext | None:
    """The context that a page's output gives to the next one, or None where it has nothing to tell."""
    if not isinstance(output, Mapping):
        return None
    context = PageContext(text=_end(_from_the_end(output)), courses=tuple(_courses(output.get("courses"))))
    return context if context.text or context.courses else None


def _from_the_end(output: Mapping[str, Any]) -> Iterator[str]:
    blocks = output.get("text_blocks")
    if not isinstance(blocks, list):
        blocks = [output.get("text")]
    for block in reversed(blocks):
        told = block
        if isinstance(block, Mapping):
            kind = block.get("kind")
            told = None if isinstance(kind, str) and kind in _NOT_OF_THE_TEXT else block.get("text")
        if isinstance(told, str) and (text := _whole(told).strip()):
            yield text


def _end(texts: Iterator[str]) -> str:
    parts: list[str] = []
    length = 0
    for text in texts:
        parts.insert(0, text)
        length += len(text) + 1
        if length > LONGEST_TEXT + 1:
            break
    whole = "\n".join(parts)
    end = whole[-LONGEST_TEXT:]
    if len(whole) > len(end) and not whole[-LONGEST_TEXT - 1].isspace():
        # Half a word would be taken for a word. What has no spaces (Chinese, a table's rule) is cut where it is.
        words = end.split(maxsplit=1)
        end = words[1] if len(words) == 2 and len(words[0]) <= _LONGEST_WORD else end
    return end.strip()


def _courses(courses: Any) -> list[ContextCourse]:
    found: list[ContextCourse] = []
    for course in reversed(courses if isinstance(courses, list) else []):
        told = course if isinstance(course, Mapping) else {"name": course}
        if (name := _field(told.get("name"))) is not None:
            rest = {field: _field(told.get(field)) for field in ("department", "level", "term")}
            found.insert(0, ContextCourse(name=name, **rest))
            if len(found) == MOST_COURSES:
                break
    return found


def _field(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = value if isinstance(value, str) else f"{value:.15g}"
    return " ".join(_whole(text[: 2 * LONGEST_FIELD]).split())[:LONGEST_FIELD] or None


def _whole(text: str) -> str:
    """Without halves of characters, which JSON can spell and no request can carry."""
    return text.encode(errors="replace").decode()
