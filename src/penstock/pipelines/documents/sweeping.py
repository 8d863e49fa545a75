"""What processes that died left behind: uploads of which the store never heard, and outputs that never became public.
They are found by their age, once they are a day old, and go when no row knows them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.engine.identity import storable
from penstock.pipelines.documents.ledger import Reads

ORPHANED_AFTER = 86400.0
"""Seconds after which a file that has no row will get none any more."""

FIRST_LOOK = 7 * 86400.0
"""How far back the first sweep looks, beyond that."""

MARGIN = 3600.0
"""By how much two sweeps overlap: the time of a file is the disk's."""

MOST_NAMED = 500
"""Names in one question."""


@dataclass(slots=True, frozen=True)
class _File:
    """`name` is relative to where its kind of files begins."""

    path: Path
    name: str
    changed: float


async def sweep_orphans(reads: Reads, home: Path, *, now: float, since: float | None = None) -> int:
    """Remove what nobody knows of the files that have become a day old since the last sweep; answers how many."""
    ages = ((since or now - FIRST_LOOK) - MARGIN - ORPHANED_AFTER, now - ORPHANED_AFTER)
    uploads = await asyncio.to_thread(_files_of, home / "documents", 2, ages)
    known = await _known(reads, "SELECT tenant, id FROM documents WHERE id", {file.path.name for file in uploads})
    owned = {f"{tenant}/{id[:6]}/{id}" for tenant, id in known}
    orphans = [file for file in uploads if file.name not in owned]
    hidden = [f for f in await asyncio.to_thread(_files_of, home / "outputs", 6, ages) if f.path.name[0] == "."]
    shown = {_shown(file.name) for file in hidden}
    known = await _known(reads, "SELECT version, previous FROM outputs WHERE name", shown)
    versions = {version for row in known for version in row}
    orphans += [file for file in hidden if file.name not in versions]
    return await asyncio.to_thread(_removed, orphans)


async def _known(reads: Reads, question: str, names: Collection[str]) -> list[tuple[Any, ...]]:
    """What the store answers, asked for some names at a time."""
    answers: list[tuple[Any, ...]] = []
    in_order = sorted(names)
    for start in range(0, len(in_order), MOST_NAMED):
        named = {f"n{number}": name for number, name in enumerate(in_order[start : start + MOST_NAMED])}
        answers += await reads.read((f"{question} IN ({', '.join(f':{mark}' for mark in named)})", named))
    return answers


def _shown(version: str) -> str:
    """The public name of a version `.{name}.{job}.{epoch}.{digest}`; of what is no version, nobody's."""
    folder, _, name = version.rpartition("/")
    return f"{folder}/{name[1:].rsplit('.', 3)[0]}"


def _files_of(root: Path, depth: int, ages: tuple[float, float]) -> list[_File]:
    """Those in folders so far below `root` that were last changed in this time. A folder changes with the names in it:
    one that did not since then is not opened."""
    found = []
    for folder in _folders(root, depth):
        with contextlib.suppress(FileNotFoundError):
            if folder.stat().st_mtime < ages[0]:
                continue
            for file in _entries(folder):
                changed = file.stat(follow_symlinks=False).st_mtime
                if ages[0] <= changed < ages[1] and file.is_file(follow_symlinks=False) and storable(file.name):
                    path = Path(file.path)
                    found.append(_File(path, path.relative_to(root).as_posix(), changed))
    return found


def _folders(root: Path | os.DirEntry[str], depth: int) -> Iterator[os.DirEntry[str]]:
    for entry in _entries(root):
        if not entry.is_dir(follow_symlinks=False):
            continue
        if depth == 1:
            yield entry
        else:
            yield from _folders(entry, depth - 1)


def _entries(folder: Path | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def _removed(orphans: Collection[_File]) -> int:
    gone = 0
    for file in orphans:
        with contextlib.suppress(FileNotFoundError):
            # One that was brought again since, under the same name, is no orphan.
            if file.path.lstat().st_mtime == file.changed:
                file.path.unlink()
                gone += 1
    return gone
