"""Removes the files of calls that nobody can ask for any more: their rows are gone, or retention has emptied them."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path

from penstock.engine.call import ENDED
from penstock.engine.clock import Clock
from penstock.store.protocol import Store

log = logging.getLogger("penstock.remote")

LOOK_EVERY = 3600.0
AT_LEAST = 24 * 3600.0
"""Seconds a folder is left alone after it was last changed: its call may not be in the store yet."""

MOST = 1000


class Attic:
    """One for each desk. Looks once an hour, at so many folders, and goes on where it stopped."""

    def __init__(self, root: Path, clock: Clock, store: Store) -> None:
        self._root = root
        self._clock = clock
        self._store = store
        self._next = clock.now() + LOOK_EVERY
        self._after = ""

    async def clean(self, *, now: bool = False) -> int:
        """Returns how many folders were removed."""
        if not now and self._clock.now() < self._next:
            return 0
        self._next = self._clock.now() + LOOK_EVERY
        names = await asyncio.to_thread(_old_folders, self._root, self._clock.now() - AT_LEAST, self._after)
        self._after = names[-1] if len(names) == MOST else ""
        removed = 0
        for name in names:
            row = await self._store.call(name)
            if row is None or (row.state in ENDED and row.result is None):
                await asyncio.to_thread(_remove, self._root / name[:2] / name)
                removed += 1
        return removed


def _old_folders(root: Path, before: float, after: str) -> list[str]:
    """The names of folders unchanged since `before`, in order, from the one that follows `after`."""
    found: list[str] = []
    for shelf in sorted(root.glob("??")):
        if shelf.name < after[:2]:
            continue
        names = sorted(entry.name for entry in shelf.iterdir() if entry.is_dir() and entry.stat().st_mtime < before)
        found += [name for name in names if name > after]
        if len(found) >= MOST:
            return found[:MOST]
    return found


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except OSError as error:
        log.warning("files of an old call could not be removed: %s", error)
