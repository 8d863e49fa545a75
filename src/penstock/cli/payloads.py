"""Payloads as the command line writes them: JSON, `@file`, or `-` for stdin."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import PydanticUserError

from penstock.engine.errors import InvalidPayload

if TYPE_CHECKING:
    from penstock.engine.workflow import Workflow


def check_given(written: str | None, workflow: Workflow) -> None:
    """A payload that was left out is null; where that does not do, say what is wanted."""
    if written is not None:
        return
    try:
        workflow.checked_payload(None)
    except InvalidPayload as error:
        try:
            shape = example(workflow.first.adapter.json_schema())
        except PydanticUserError:  # a type that has no JSON schema
            shape = "…"
        raise InvalidPayload(f"workflow {workflow.name!r} needs a payload: --payload '{shape}'") from error


def example(schema: dict[str, Any]) -> str:
    """What a payload of this schema looks like: `{"path": string, "pages": integer (optional)}`."""
    return _shape(schema, schema.get("$defs", {}), 0)


def _shape(part: dict[str, Any], named: dict[str, Any], depth: int) -> str:
    if "$ref" in part:
        part = named.get(str(part["$ref"]).rpartition("/")[2], {})
    if "anyOf" in part:
        return " or ".join(_shape(one, named, depth) for one in part["anyOf"])
    if "const" in part or "enum" in part:
        return " or ".join(json.dumps(value) for value in part.get("enum", [part.get("const")]))
    kind = part.get("type", "anything")
    if kind == "array":
        return f"[{_shape(part.get('items', {}), named, depth + 1)}, …]"
    if kind == "object" and part.get("properties") and depth < 3:
        needed = part.get("required", ())
        fields = (
            f"{json.dumps(name)}: {_shape(field, named, depth + 1)}{'' if name in needed else ' (optional)'}"
            for name, field in part["properties"].items()
        )
        return f"{{{', '.join(fields)}}}"
    if kind == "object":
        return "{…}"
    return f'"{part.get("format", "text")}"' if kind == "string" else str(kind)


def read_payload(written: str | None) -> Any:
    """The value, or `InvalidPayload` that says where the text stops being JSON. None where nothing was given."""
    if written is None:
        return None
    text, where = written, "--payload"
    try:
        if written == "-":
            text, where = sys.stdin.read(), "stdin"
        elif written.startswith("@"):
            text, where = Path(written[1:]).read_text(encoding="utf-8"), written[1:]
    except OSError as error:
        raise InvalidPayload(f"{written[1:]} cannot be read: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise InvalidPayload(f"{where if written == '-' else written[1:]} is not UTF-8 text") from error
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        quoted = "" if where != "--payload" else "; text needs quotes of its own, '\"like this\"'"
        raise InvalidPayload(f"{where} is not JSON: {error.msg.lower()} at {place}{quoted}") from error
    except RecursionError as error:
        raise InvalidPayload(f"{where} is nested too deeply") from error
