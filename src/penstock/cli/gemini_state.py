"""What is known about the local Gemini of a home: from its state, which can be read whether it runs or not, and from
its administration, which only a running one has."""

from __future__ import annotations

import http.client
import json
import re
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from penstock.cli.output import Output, plain_table
from penstock.cli.times import local, utc
from penstock.engine.errors import InvalidRequest, NotFound, PenstockError
from penstock.gemini_local.server import Running, read_running

TIMEOUT = 10.0
COMMON = ("kind", "where", "times", "after", "rate", "match", "seen", "applied")


class NoAnswer(PenstockError):
    """The local Gemini runs and does not answer as it should."""


def health(folder: Path) -> tuple[Running | None, dict[str, Any]]:
    """The server that works in this folder, with what it says of itself; None where none does."""
    running = read_running(folder)
    if running is None:
        return None, {}
    try:
        told = _asked(running, "GET", "health")
    except PenstockError:
        return None, {}
    return (running, told) if told.get("instance") == running.instance else (None, {})


def ask(folder: Path, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """What the administration of the running server answers."""
    running, _ = health(folder)
    if running is None:
        raise NotFound(f"no local Gemini runs for this home ({folder}): start one with `penstock gemini serve`")
    return _asked(running, method, path, body)


def _asked(running: Running, method: str, path: str, body: Any = None) -> dict[str, Any]:
    connection = http.client.HTTPConnection(running.host, running.port, timeout=TIMEOUT)
    try:
        connection.request(
            method,
            f"/_penstock/{path}",
            body=None if body is None else json.dumps(body),
            headers={"X-Penstock-Admin": "1", "Content-Type": "application/json"},
        )
        reply = connection.getresponse()
        answer = json.loads(reply.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NoAnswer(f"the local Gemini at {running.base_url} does not answer: {error}") from error
    finally:
        connection.close()
    if reply.status == 400:
        raise InvalidRequest(str(answer["error"]["message"]))
    if reply.status != 200 or not isinstance(answer, dict):
        raise NoAnswer(f"the local Gemini at {running.base_url} answered with {reply.status}")
    return answer


@contextmanager
def _state(folder: Path) -> Iterator[sqlite3.Connection | None]:
    """Its database, for reading; None where there is none yet."""
    path = folder / "state.db"
    if not path.exists():
        yield None
        return
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5)) as connection:
            connection.row_factory = sqlite3.Row
            yield connection
    except sqlite3.Error as error:
        raise NoAnswer(f"{path} cannot be read: {error}") from error


def batches_by_state(folder: Path) -> dict[str, int]:
    with _state(folder) as state:
        if state is None:
            return {}
        found = state.execute("SELECT state, count(*) FROM batches WHERE NOT deleted GROUP BY state ORDER BY state")
        return dict(map(tuple, found))


def read_journal(folder: Path, *, limit: int, pattern: str | None) -> list[dict[str, Any]]:
    """The last requests that fit, oldest first."""
    try:
        wanted = re.compile(pattern or "", re.IGNORECASE)
    except re.error as error:
        raise InvalidRequest(f"--grep: {pattern!r} is not a regular expression: {error}") from error
    with _state(folder) as state:
        if state is None:
            raise NotFound(f"there is no journal in {folder} yet: no local Gemini was ever started there")
        state.create_function("fits", -1, lambda *texts: any(wanted.search(text or "") for text in texts))
        rows = state.execute(
            "SELECT * FROM journal WHERE fits(operation, method, path, label, fault) ORDER BY number DESC LIMIT ?",
            (limit,),
        ).fetchall()
    return [
        {
            "number": row["number"],
            "at": utc(row["at"]),
            "operation": row["operation"],
            "method": row["method"],
            "path": row["path"],
            "status": row["status"],
            "label": row["label"],
            "bytes": row["size"],
            "fault": row["fault"],
        }
        for row in reversed(rows)
    ]


def show_journal(out: Output, entries: Sequence[dict[str, Any]]) -> None:
    from datetime import datetime

    columns = ["AT", "OPERATION", "STATUS", "BYTES", "PATH", "LABEL", "FAULT"]
    rows = [
        [
            local(datetime.fromisoformat(entry["at"]).timestamp()),
            entry["operation"],
            str(entry["status"] or "none"),
            str(entry["bytes"] or ""),
            f"{entry['method']} {entry['path']}",
            entry["label"] or "",
            entry["fault"] or "",
        ]
        for entry in entries
    ]
    if not out.fancy:
        out.result(plain_table(columns, rows))
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in columns:
        whole = heading in ("STATUS", "BYTES", "OPERATION")
        table.add_column(heading.capitalize(), no_wrap=True, min_width=6 if whole else None)
    for entry, row in zip(entries, rows, strict=True):
        cells = [Text(cell, no_wrap=True, overflow="ellipsis") for cell in (row[0][11:19], *row[1:])]
        cells[2].stylize("green" if entry["status"] == 200 else "red")
        cells[6].stylize("yellow")
        table.add_row(*cells)
    out.console().print(table)


def read_faults(file: str) -> list[Any]:
    """A list of faults, from a file or from stdin."""
    import yaml

    name = "stdin" if file == "-" else file
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        found = yaml.safe_load(text)
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read: {(error.strerror or str(error)).lower()}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidRequest(f"{name} is neither JSON nor YAML: {' '.join(str(error).split())}") from error
    faults = found.get("faults") if isinstance(found, dict) else found
    if not isinstance(faults, list):
        raise InvalidRequest(f"{name} must hold a list of faults")
    return faults


def show_faults(out: Output, faults: Sequence[dict[str, Any]]) -> None:
    rows = [
        [
            fault["kind"],
            ",".join(fault["where"]),
            "for ever" if fault["times"] is None else str(fault["times"]),
            str(fault["after"] or ""),
            "" if fault["rate"] == 1 else f"{fault['rate']:g}",
            fault["match"] or "",
            " ".join(f"{name}={value}" for name, value in fault.items() if name not in COMMON and value is not None),
            str(fault["seen"]),
            str(fault["applied"]),
        ]
        for fault in faults
    ]
    table = plain_table(["KIND", "WHERE", "TIMES", "AFTER", "RATE", "MATCH", "OPTIONS", "SEEN", "DONE"], rows)
    head, _, body = table.partition("\n")
    out.result(f"{click.style(head, bold=True) if out.fancy else head}\n{body}")
