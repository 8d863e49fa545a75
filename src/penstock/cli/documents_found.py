"""Which files `penstock documents add` takes: those that are named, and those that are found in folders. What a file
is, its first bytes tell; a wrong one that was named is an error, one that was found is left out and told."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.pipelines.documents.kinds import HEAD, kind_of, refusal, too_large

HIDDEN = "hidden"
TRUTH, MARK = "truth.jsonl", ".samples.json"
"""What lies beside invoices that were made by `documents samples`."""


@dataclass(slots=True, frozen=True)
class Refused:
    """A path that is not taken, and why."""

    path: str
    reason: str


@dataclass(slots=True)
class FoundFiles:
    """In the order in which they were named, each file once. `wrong` were named, `left_out` were found."""

    files: list[Path] = field(default_factory=list)
    wrong: list[Refused] = field(default_factory=list)
    left_out: list[Refused] = field(default_factory=list)


def find(paths: Sequence[str], *, largest: int, home: Path) -> FoundFiles:
    """Folders are walked, in the order of their names. `home` is left alone: what is in there came from us."""
    found = FoundFiles()
    seen: set[tuple[int, int]] = set()
    ours = home.resolve()
    for name in paths:
        path = Path(name)
        if path.is_dir():
            for each, trouble in _walked(path, ours):
                reason = trouble or _trouble(each, largest)
                if reason is not None:
                    found.left_out.append(Refused(str(each), reason))
                elif _is_new(each, seen):
                    found.files.append(each)
        elif (reason := _trouble(path, largest)) is not None:
            found.wrong.append(Refused(name, reason))
        elif _is_new(path, seen):
            found.files.append(path)
    return found


def _walked(folder: Path, ours: Path) -> Iterator[tuple[Path, str | None]]:
    """Every file below, and what cannot be looked into. Links to folders are not followed: they may lead around."""
    troubles: list[OSError] = []
    for place, folders, files in os.walk(folder, onerror=troubles.append):
        here = Path(place)
        for each in sorted(name for name in folders if name.startswith(".") or (here / name).is_symlink()):
            yield here / each, f"a {HIDDEN} folder" if each.startswith(".") else "a link to a folder"
        folders[:] = sorted(
            name for name in folders
            if not name.startswith(".") and not (here / name).is_symlink() and (here / name).resolve() != ours
        )  # fmt: skip
        for each in sorted(files):
            yield here / each, f"a {HIDDEN} file" if each.startswith(".") else None
        while troubles:
            error = troubles.pop()
            yield Path(error.filename), _cannot_be_read(error)
    for error in troubles:
        yield Path(error.filename), _cannot_be_read(error)


def _trouble(path: Path, largest: int) -> str | None:
    """Why the file is of no use; None where it is."""
    try:
        told = path.stat()
        if not stat.S_ISREG(told.st_mode):
            # A pipe would keep us for ever.
            return "This is no file, but a device or a pipe: copy it into a file first."
        if told.st_size > largest:
            return too_large(told.st_size, largest)
        with path.open("rb") as file:
            head = file.read(HEAD)
    except FileNotFoundError:
        return "There is no such file."
    except (OSError, ValueError) as error:
        return _cannot_be_read(error)
    return None if kind_of(head) is not None else refusal(head)


def _is_new(path: Path, seen: set[tuple[int, int]]) -> bool:
    """A file that is named beside its folder, or has two names, is one file."""
    told = path.stat()
    key = (told.st_dev, told.st_ino)
    if key in seen:
        return False
    seen.add(key)
    return True


def _cannot_be_read(error: Exception) -> str:
    words = getattr(error, "strerror", None) or str(error)
    return f"It cannot be read: {words.lower()}."
