"""A page's output file: written under a hidden name before the commit, given its own name after it.

The name is given by moving the hidden file, which can be done only once. So a worker that lost its claim never brings
an old content back, and a crash between commit and move is mended by the next tick. Everything here blocks.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from penstock.engine.errors import Transient
from penstock.outputs.files import sync_folder

SUFFIX = ".part"


def staged_name(name: str, claim: str) -> str:
    return f".{name}.json.{claim}{SUFFIX}"


def written(data: Any, provenance: dict[str, Any]) -> bytes:
    """The same for the same answer: processing a batch twice changes nothing."""
    body = {**data, "_penstock": provenance} if isinstance(data, dict) else {"value": data, "_penstock": provenance}
    return to_json(body, indent=2) + b"\n"


def stage(output_dir: Path, files: Sequence[tuple[str, str, bytes]]) -> None:
    """Write (book, hidden name, content): all of them durable when this returns."""
    folders: set[Path] = set()
    for book, hidden, content in files:
        folder = output_dir / book
        try:
            if folder not in folders:
                folder.mkdir(parents=True, exist_ok=True)
                folders.add(folder)
            with (folder / hidden).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise Transient(f"{folder / hidden} cannot be written: {error.strerror}") from error
    for folder in folders:
        sync_folder(folder)


@dataclass(slots=True)
class Published:
    """Outputs of which no file is left, those whose name is taken by something that is no file, and books whose folder
    cannot be written now, with the reason."""

    lost: list[tuple[str, str]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def publish(output_dir: Path, staged: Iterable[tuple[str, str, str]], claim: tuple[str, int]) -> Published:
    """Give (book, name, hidden name) their own names, for whoever holds this claim."""
    done = Published()
    by_book: dict[str, list[tuple[str, str, str]]] = {}
    for row in staged:
        by_book.setdefault(row[0], []).append(row)
    for book, rows in by_book.items():
        folder = output_dir / book
        lost: list[tuple[str, str]] = []
        refused: list[tuple[str, str]] = []
        try:
            for _, name, hidden in rows:
                public = folder / f"{name}.json"
                try:
                    (folder / hidden).replace(public)
                except FileNotFoundError:
                    # Moved before the crash; or somebody removed both.
                    if not public.exists():
                        lost.append((book, name))
                except IsADirectoryError:
                    (folder / hidden).unlink(missing_ok=True)
                    refused.append((book, name))
            if folder.exists():
                sync_folder(folder)
                _drop_leftovers(folder, {name for _, name, _ in rows}, claim)
        except OSError as error:
            done.failed[book] = f"outputs in {folder} cannot be published: {error.strerror}"
        else:
            done.lost += lost
            done.refused += refused
    return done


def _drop_leftovers(folder: Path, names: set[str], claim: tuple[str, int]) -> None:
    """What was written under earlier claims, whose workers died before their commit. What is newer belongs to somebody
    who has taken over from us."""
    for entry in folder.iterdir():
        hidden = entry.name
        if not hidden.startswith(".") or not hidden.endswith(SUFFIX):
            continue
        name, _, written = hidden[1 : -len(SUFFIX)].partition(".json.")
        job, _, rest = written.partition("-")
        epoch = rest.partition("-")[0]
        if name in names and epoch.isdigit() and (job, int(epoch)) < claim:
            entry.unlink(missing_ok=True)


LARGEST = 50_000_000
"""Bytes of an output that are read; what a page says is a thousandth of that."""


def read(path: Path) -> Any:
    """The JSON of an output file. `ValueError` for what is none, whatever stands there; never waits for a pipe."""
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise NoFile(f"{path.name} is no file")
    if about.st_size > LARGEST:
        raise ValueError(f"{path.name} has {about.st_size} bytes, which is no page")
    return json.loads(path.read_bytes())


class NoFile(ValueError):
    """Something else than a file stands where an output should be."""
