"""YAML as plain data, with the line of every key. Aliases are followed only so far, so that a small file cannot become
a large one; and what is written twice is a mistake, not a choice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

LARGEST = 1_000_000
MOST_VALUES = 10_000
DEEPEST = 32

Place = tuple[str, ...]
Problem = tuple[Place, str]
"""Where, and what is wrong there."""

_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"


def read_lines(path: Path) -> tuple[dict[str, Any] | None, dict[Place, int], list[Problem]]:
    """The file's data, or None with what is wrong; the line of each place; and what is wrong within it."""
    lines: dict[Place, int] = {}

    def nothing(message: str, line: int = 0) -> tuple[None, dict[Place, int], list[Problem]]:
        return None, {(): line}, [((), message)]

    try:
        if not path.exists():
            return nothing("there is no such file")
        if not path.is_file():
            return nothing("is no file")
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        return nothing(f"cannot be read: {error.strerror or error}")
    if len(content) > LARGEST:
        return nothing("is larger than 1 MB, which no configuration of a run is")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return nothing("is not UTF-8 text", content[: error.start].count(b"\n") + 1)
    try:
        document = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return nothing(_not_yaml(error, text, mark), mark.line + 1 if mark else 0)
    except yaml.reader.ReaderError as error:
        return nothing(f"is not YAML: {error.reason}", text[: error.position].count("\n") + 1)
    except RecursionError:
        return nothing("is nested too deeply")
    if document is None or document.tag == _NULL:
        return nothing("is empty: it must at least say paths, with label_source_dir, image_source_dir and output_dir")
    if not isinstance(document, yaml.MappingNode):
        return nothing("must hold keys with values, such as `paths:`", document.start_mark.line + 1)
    reading = _Reading(lines)
    try:
        data = reading.value(document, ())
    except _TooMuch as error:
        return nothing(str(error))
    return data, lines, reading.problems


class _TooMuch(Exception):
    """There is more in the file than a configuration can have."""


class _Reading:
    def __init__(self, lines: dict[Place, int]) -> None:
        self.problems: list[Problem] = []
        self._lines = lines
        self._values = 0
        self._maker = yaml.SafeLoader("")

    def value(self, node: yaml.Node, place: Place) -> Any:
        self._values += 1
        if self._values > MOST_VALUES or len(place) > DEEPEST:
            raise _TooMuch("holds more than a configuration can, once its aliases are written out")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self._item(item, (*place, str(number))) for number, item in enumerate(node.value)]
        try:
            return self._maker.construct_object(node)
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            reason = error.problem if isinstance(error, yaml.MarkedYAMLError) else error
            self.problems.append((place, f"cannot be understood: {' '.join(str(reason).split())}"))
            return None

    def _item(self, node: yaml.Node, place: Place) -> Any:
        self._lines[place] = node.start_mark.line + 1
        return self.value(node, place)

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, held in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self.problems.append((place, f"line {line} has a key that is no plain word"))
                continue
            name = str(key.value)
            here = (*place, name)
            if key.tag == _MERGE:
                self._lines.setdefault(here, line)
                self.problems.append((here, "keys cannot be merged in: write them out"))
            elif name in data:
                self.problems.append((here, f"is written twice, and again in line {line}"))
            else:
                self._lines.setdefault(here, line)
                data[name] = self.value(held, here)
        return data


def _not_yaml(error: yaml.MarkedYAMLError, text: str, mark: yaml.Mark | None) -> str:
    line = text.splitlines()[mark.line : mark.line + 1] if mark else []
    if "\\t" in str(error.problem) or any(each[: len(each) - len(each.lstrip())].count("\t") for each in line):
        return "is indented with a tab: use spaces"
    return f"is not YAML: {', '.join(part for part in (error.context, error.problem) if part)}"
