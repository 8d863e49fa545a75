"""What is known about the local Gemini of a home: from its state, which can be read whether it runs or not, and from
its administration, which only a running one has."""

from __future__ import annotations

import http.client
import json
import re
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from penstock.cli.output import Output, plain_table
from penstock.engine.errors import InvalidRequest, NotFound, PenstockError
from penstock.gemini_local.server import Running, read_running
from penstock.times import local, utc

TIMEOUT = 10.0
GAP = 2
NARROWEST = 8
COLUMNS = ("AT", "OPERATION", "STATUS", "BYTES", "PATH", "LABEL", "FAULT")
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


def faults_in_force(folder: Path) -> int:
    """How many there are that have not been done as often as they may."""
    return sum(fault["times"] is None or fault["applied"] < fault["times"] for fault in _faults(folder) or ())


def list_faults(folder: Path) -> list[dict[str, Any]]:
    """The faults of a folder, whether its server runs or not: it stores each count as it is made."""
    faults = _faults(folder)
    if faults is None:
        raise NotFound(_never(folder))
    return faults


def replace_faults(folder: Path, specs: list[Any]) -> list[dict[str, Any]]:
    """By the server, if one runs; otherwise in its place, under its lock."""
    running, _ = health(folder)
    if running is not None:
        found: list[dict[str, Any]] = _asked(running, "POST", "faults", {"faults": specs})["faults"]
        return found
    if not (folder / "state.db").exists():
        raise NotFound(_never(folder))
    from random import Random

    from penstock.gemini_local.faults import BadFault, Fault, Faults
    from penstock.gemini_local.state import FolderTaken, State

    try:
        new = [Fault.parse(spec) for spec in specs]
        state = State(folder)
    except BadFault as error:
        raise InvalidRequest(str(error)) from error
    except FolderTaken as error:
        raise NoAnswer(f"a local Gemini works in {folder} and does not answer: try again") from error
    try:
        faults = Faults(state, Random())
        faults.replace(new)
        return faults.view()
    finally:
        state.close()


def _faults(folder: Path) -> list[dict[str, Any]] | None:
    with _state(folder) as state:
        if state is None:
            return None
        rows = state.execute("SELECT * FROM faults ORDER BY position").fetchall()
    return [{**json.loads(row["spec"]), "seen": row["seen"], "applied": row["applied"]} for row in rows]


def _never(folder: Path) -> str:
    return f"no local Gemini was ever started for this home ({folder}): start one with `penstock gemini serve`"


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

    columns = list(COLUMNS)
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
    rows = [[row[0][11:19], *row[1:]] for row in rows]
    styles = [{2: "green" if entry["status"] == 200 else "red", 6: "yellow"} for entry in entries]
    _show_table(out, columns, rows, styles, gives_way=("PATH", "LABEL"), left_out=("BYTES",))


def _show_table(
    out: Output,
    columns: list[str],
    rows: list[list[str]],
    styles: Sequence[Mapping[int, str]],
    *,
    gives_way: tuple[str, ...],
    left_out: tuple[str, ...],
) -> None:
    """On a terminal: where it is narrow, some columns are left out and others are cut in the middle."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    console = out.console()
    widths = {name: max(len(name), *(len(row[place]) for row in rows)) for place, name in enumerate(columns)}
    shown = [name for name in columns if widths[name] > len(name) or any(row[columns.index(name)] for row in rows)]
    if _needs(widths, shown) > console.width:
        shown = [name for name in shown if name not in left_out]
    for name in sorted((name for name in gives_way if name in shown), key=lambda name: widths[name]):
        # The shortest first: what it does not need is for the others.
        others = [other for other in gives_way if other in shown and widths[other] >= widths[name]]
        fixed = [other for other in shown if other not in others]
        room = console.width - _needs(widths, fixed) - GAP * len(others)
        widths[name] = min(widths[name], max(NARROWEST, room // len(others)))
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name in shown:
        table.add_column(name.capitalize(), no_wrap=True)
    for row, style in zip(rows, styles, strict=True):
        places = [columns.index(name) for name in shown]
        table.add_row(
            *(Text(_in_middle(row[place], widths[columns[place]]), style=style.get(place, "")) for place in places)
        )
    console.print(table)


def _needs(widths: Mapping[str, int], names: Sequence[str]) -> int:
    return sum(widths[name] + GAP for name in names)


def _in_middle(text: str, width: int) -> str:
    """Cut in the middle: the ends of paths and labels tell them apart."""
    if len(text) <= width:
        return text
    kept = width - 1
    return f"{text[: (kept + 1) // 2]}…{text[len(text) - kept // 2 :]}"


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
    columns = ["KIND", "WHERE", "TIMES", "AFTER", "RATE", "MATCH", "OPTIONS", "SEEN", "DONE"]
    if not out.fancy:
        out.result(plain_table(columns, rows))
        return
    styles: list[dict[int, str]] = [
        {0: "bright_black" if fault["times"] is not None and fault["applied"] >= fault["times"] else "yellow"}
        for fault in faults
    ]
    _show_table(out, columns, rows, styles, gives_way=("WHERE", "MATCH", "OPTIONS"), left_out=())
