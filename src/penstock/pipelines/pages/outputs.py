"""A page's output file: written under a hidden name before the commit, given its own name after it.

The name is given by moving the hidden file, which can be done only once. So a worker that lost its claim never brings
an old content back, and a crash between commit and move is mended by the next tick. Everything here blocks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
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


def publish(output_dir: Path, staged: Iterable[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """Give (book, name, hidden name) their own names. Answers with those of which neither file is there."""
    lost: list[tuple[str, str]] = []
    by_folder: dict[Path, list[tuple[str, str, str]]] = {}
    for row in staged:
        by_folder.setdefault(output_dir / row[0], []).append(row)
    for folder, rows in by_folder.items():
        try:
            for book, name, hidden in rows:
                public = folder / f"{name}.json"
                try:
                    (folder / hidden).replace(public)
                except FileNotFoundError:
                    # Moved before the crash; or somebody removed both.
                    if not public.exists():
                        lost.append((book, name))
            if folder.exists():
                sync_folder(folder)
                _drop_leftovers(folder, {name for _, name, _ in rows})
        except OSError as error:
            raise Transient(f"outputs in {folder} cannot be published: {error.strerror}") from error
    return lost


def _drop_leftovers(folder: Path, names: set[str]) -> None:
    """What workers wrote that died before their commit."""
    for entry in folder.iterdir():
        hidden = entry.name
        if hidden.endswith(SUFFIX) and hidden.startswith(".") and hidden[1:].split(".json.", 1)[0] in names:
            entry.unlink(missing_ok=True)
