"""The tree that is indexed: empty label files in books of 200 pages, and outputs for the first half of every book."""

from __future__ import annotations

import os
import time
from pathlib import Path

from penstock.pipelines.pages.walk import JUST_NOW

PAGES = 200


def make(folder: Path, books: int) -> None:
    """`labels` and `outputs` below `folder`, each unless it is there."""
    labels, outputs = folder / "labels", folder / "outputs"
    # Under other names until they are whole: a tree that was broken off would be taken for a small one.
    if not labels.is_dir():
        whole = folder / "labels.part"
        for book in range(books):
            made = whole / f"State{book % 50:02d}" / f"School {book % 1250:04d}" / str(1800 + book // 1250 * 10)
            _fill(made, [f"{page:04d}.json" for page in range(1, PAGES + 1)])
        whole.rename(labels)
    if not outputs.is_dir():
        whole = folder / "outputs.part"
        for at, below, names in os.walk(labels):
            if not below:
                _fill(whole / Path(at).relative_to(labels), sorted(names)[: len(names) // 2])
        whole.rename(outputs)


def _fill(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        os.close(os.open(f"{folder}/{name}", os.O_CREAT | os.O_WRONLY, 0o644))


def settle(folder: Path) -> None:
    """Wait until no folder has changed just now: one that has is read again by the next pass, as it must be."""
    newest = max(Path(at).stat().st_mtime_ns for at, _, _ in os.walk(folder))
    time.sleep(max(0.0, (newest + JUST_NOW - time.time_ns()) / 1e9 + 0.1))
