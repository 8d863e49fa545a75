"""Payloads as the command line writes them: JSON, `@file`, or `-` for stdin."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from penstock.engine.errors import InvalidPayload


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
