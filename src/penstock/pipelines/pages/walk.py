"""The trees of label and output files, walked once and then only where something changed.

A folder is read again when its time of change is another than the one that was noted. A time within the last moments
is not noted: another change in the same moment would leave no trace. Everything here blocks: it is called in slices
from a thread.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from penstock.engine.errors import Transient

JUST_NOW = 2_000_000_000
"""Nanoseconds within which a folder's time says nothing about what comes next. Covers file systems that keep whole
seconds."""

MISSING = -1
"""What is noted for a folder that is not there."""

UNKNOWN = -2
"""What is noted for a folder that must be read whatever its time is. 0 would not do: archives leave folders of 1970."""

MOST_IGNORED = 1000
"""Things that are left out are named up to this many; a tree of something else entirely need not fill a database."""


class Known(NamedTuple):
    """What was noted of a book's two folders."""

    label_seen: int
    output_seen: int


@dataclass(slots=True, frozen=True)
class Sighting:
    """A book of which something changed. `labels` and `outputs` are the stems of its files; None: as they were."""

    book: str
    state: str
    school: str
    year: int
    label_seen: int
    output_seen: int
    labels: list[str] | None
    outputs: list[str] | None


@dataclass(slots=True)
class Walk:
    """One pass. `known` and `folders` are what earlier passes noted, by path; `admits` is asked for each.

    Call `step` until it gives nothing; then `gone`, `folders` and `ignored` are complete.
    """

    labels: Path
    outputs: Path
    known: dict[str, Known]
    folders: dict[str, int]
    admits: Callable[[str, int | None], bool]
    gone: list[str] = field(default_factory=list)
    ignored: dict[str, str] = field(default_factory=dict)
    folders_changed: bool = False
    _books: deque[str] | None = None
    _now: int = 0

    def step(self, most: int) -> list[Sighting]:
        """Up to `most` books that changed since they were noted; empty when the pass is over."""
        if self._books is None:
            self._now = time.time_ns()
            self._books = deque(self._all_books())
        labels, outputs = str(self.labels), str(self.outputs)
        found: list[Sighting] = []
        books, known, stat = self._books, self.known, os.stat
        while books and len(found) < most:
            book = books.popleft()
            before = known.get(book, _NOTHING)
            try:
                label_seen = stat(f"{labels}/{book}").st_mtime_ns
            except FileNotFoundError:
                # A link to a folder that went away does not change the folder that it is in.
                if book in known:
                    self.gone.append(book)
                continue
            except OSError as error:
                self._unreadable(book, error)
                continue
            try:
                output_seen = stat(f"{outputs}/{book}").st_mtime_ns
            except FileNotFoundError:
                output_seen = MISSING
            except OSError as error:
                self._unreadable(f"{outputs}/{book}", error)
                continue
            if label_seen != before.label_seen or output_seen != before.output_seen:
                sighting = self._look(book, before, label_seen, output_seen)
                if sighting is not None:
                    found.append(sighting)
        return found

    def _look(self, book: str, before: Known, label_seen: int, output_seen: int) -> Sighting | None:
        labels = outputs = None
        try:
            if label_seen != before.label_seen:
                labels = _stems(f"{self.labels}/{book}")
            if output_seen != before.output_seen:
                outputs = [] if output_seen == MISSING else _stems(f"{self.outputs}/{book}")
        except FileNotFoundError:
            # Removed this very moment: the next pass sees what is left.
            return None
        except OSError as error:
            self._unreadable(book, error)
            return None
        state, school, year = book.split("/")
        return Sighting(
            book, state, school, int(year), self._noted(label_seen), self._noted(output_seen), labels, outputs
        )

    def _noted(self, seen: int) -> int:
        return UNKNOWN if seen != MISSING and self._now - seen < JUST_NOW else seen

    def _all_books(self) -> list[str]:
        """The paths of all books that are admitted: from the folders that changed, and from what was noted of the
        others."""
        children: dict[str, list[str]] = {}
        for path in (*self.folders, *self.known):
            if path:
                parent, _, name = path.rpartition("/")
                children.setdefault(parent, []).append(name)
        noted: dict[str, int] = {}
        books: list[str] = []
        for state in self._below("", children, noted):
            if not self.admits(state, None):
                continue
            # The same years come again and again, and each need be asked for once.
            asked: dict[str, bool] = {}
            for school in self._below(state, children, noted):
                for year in self._below(f"{state}/{school}", children, noted):
                    if year not in asked:
                        if not _is_year(year):
                            self._ignore(f"{state}/{school}/{year}", "the folder's name is no year")
                            continue
                        asked[year] = self.admits(state, int(year))
                    if asked[year]:
                        books.append(f"{state}/{school}/{year}")
        there = frozenset(books)
        self.gone = [book for book in self.known if book not in there]
        self.folders_changed = noted != self.folders
        self.folders = noted
        return books

    def _below(self, path: str, children: dict[str, list[str]], noted: dict[str, int]) -> list[str]:
        """The names of the folders in a folder."""
        full = f"{self.labels}/{path}" if path else str(self.labels)
        try:
            seen = os.stat(full).st_mtime_ns  # noqa: PTH116
            if self.folders.get(path) == seen:
                noted[path] = seen
                return children.get(path, [])
            with os.scandir(full) as entries:
                found = [entry.name for entry in entries if self._is_folder(entry, path)]
            noted[path] = self._noted(seen)
            return found
        except OSError as error:
            if not path:
                raise Transient(
                    f"paths.label_source_dir: {self.labels} cannot be read ({error.strerror}): is a disk not mounted?"
                ) from error
            self._unreadable(path, error)
            if isinstance(error, FileNotFoundError):
                return []
            # What cannot be read is not gone: a permission or a network comes back, and changes no time.
            noted[path] = UNKNOWN
            return children.get(path, [])

    def _is_folder(self, entry: os.DirEntry[str], path: str) -> bool:
        if entry.name.startswith("."):
            return False
        try:
            entry.name.encode()
        except UnicodeEncodeError:
            self._ignore(ascii(f"{path}/{entry.name}"), "the name is not UTF-8")
            return False
        try:
            return entry.is_dir()
        except OSError as error:
            self._unreadable(f"{path}/{entry.name}".lstrip("/"), error)
            return False

    def _unreadable(self, path: str, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            self._ignore(path, f"cannot be read: {error.strerror}")

    def _ignore(self, path: str, reason: str) -> None:
        if len(self.ignored) < MOST_IGNORED:
            self.ignored[path] = reason


_NOTHING = Known(UNKNOWN, UNKNOWN)


def _is_year(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) <= 4 and str(int(name)) == name


def _stems(folder: str) -> list[str]:
    # Names only, a million of them: pathlib would make an object of each. And where all of them are pages, as is usual,
    # they are cut in one go: no name has a slash in it.
    names = os.listdir(folder)  # noqa: PTH208
    together = "/".join(names) + "/"
    stems = together.split(".json/")
    if len(stems) == len(names) + 1 and together[0] != "." and "/." not in together:
        stems.pop()
        return stems
    return [name[:-5] for name in names if name[-5:] == ".json" and name[0] != "."]


def mark(output_dir: Path, ledger: str) -> None:
    """Leave our mark in the output folder, by which it is known again."""
    output_dir.mkdir(parents=True, exist_ok=True)
    path = output_dir / MARK
    if not path.exists():
        path.write_text(f"{ledger}\n")


def check_mark(output_dir: Path, ledger: str, done: int) -> None:
    """An output folder that lost its mark is another folder (a disk that is not mounted, say): everything that is done
    would seem to be gone, and be paid for again."""
    try:
        written = (output_dir / MARK).read_text().strip()
    except FileNotFoundError:
        written = ""
    except OSError as error:
        raise Transient(f"paths.output_dir: {output_dir} cannot be read: {error.strerror}") from error
    if done and written != ledger:
        raise Transient(
            f"paths.output_dir: {output_dir} has no mark ({MARK}), though {done} pages were done there: is a disk not"
            f" mounted? If the outputs were removed on purpose, write {ledger} into {output_dir / MARK}"
        )


MARK = ".penstock-pages"
