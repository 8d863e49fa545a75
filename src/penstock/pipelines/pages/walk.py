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

from penstock.engine.errors import Conflict, Transient
from penstock.outputs.files import atomic_write
from penstock.pipelines.pages.model import escaped

JUST_NOW = 2_000_000_000
"""Nanoseconds within which a folder's time says nothing about what comes next. Covers file systems that keep whole
seconds."""

MISSING = -1
"""What is noted for a folder that is not there."""

UNKNOWN = -2
"""What is noted for a folder that must be read whatever its time is. 0 would not do: archives leave folders of 1970."""

LONGEST_NAMES = 450
"""Characters of a state and a school, as they are written in a page's key: Gemini's results are joined by that."""

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
    _before: dict[str, int] = field(default_factory=dict)
    _books: deque[str] | None = None
    _now: int = 0

    @property
    def folders_changed(self) -> bool:
        return self.folders != self._before

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
                if book in known:
                    self.gone.append(book)
                self._doubt(book)
                continue
            except OSError as error:
                self._unreadable(book, error)
                continue
            try:
                output_seen = stat(f"{outputs}/{book}").st_mtime_ns
            except FileNotFoundError:
                output_seen = MISSING
            except OSError as error:
                self._unreadable(book, error, f"{outputs}/{book}")
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
            # A page that is new may have its output already.
            if labels is not None or output_seen != before.output_seen:
                outputs = [] if output_seen == MISSING else _stems(f"{self.outputs}/{book}")
        except OSError as error:
            # Also one that was removed this very moment: the next pass sees what is left.
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
        self._before, self.folders = self.folders, {}
        books: list[str] = []
        for state in self._below("", children):
            if not self.admits(state, None):
                continue
            # The same years come again and again, and each need be asked for once.
            asked: dict[str, bool] = {}
            for school in self._below(state, children):
                if len(state) + len(school) > 150 and len(escaped(state)) + len(escaped(school)) > LONGEST_NAMES:
                    self._ignore(f"{state}/{school}", "the names are too long to name a page by")
                    continue
                for year in self._below(f"{state}/{school}", children):
                    if year not in asked:
                        if not _is_year(year):
                            self._ignore(f"{state}/{school}/{year}", "the folder's name is no year")
                            continue
                        asked[year] = self.admits(state, int(year))
                    if asked[year]:
                        books.append(f"{state}/{school}/{year}")
        there = frozenset(books)
        self.gone = [book for book in self.known if book not in there]
        return books

    def _below(self, path: str, children: dict[str, list[str]]) -> list[str]:
        """The names of the folders in a folder."""
        full = f"{self.labels}/{path}" if path else str(self.labels)
        try:
            seen = os.stat(full).st_mtime_ns  # noqa: PTH116
            if self._before.get(path) == seen:
                self.folders[path] = seen
                return children.get(path, [])
            self.folders[path] = self._noted(seen)
            with os.scandir(full) as entries:
                found = [entry.name for entry in entries if self._is_folder(entry, path)]
        except OSError as error:
            if not path:
                raise Transient(
                    f"paths.label_source_dir: {self.labels} cannot be read ({error.strerror}): is a disk not mounted?"
                ) from error
            self._unreadable(path, error)
            if isinstance(error, FileNotFoundError):
                self.folders.pop(path, None)
                return []
            # What cannot be read is not gone.
            self.folders[path] = UNKNOWN
            return children.get(path, [])
        if not path and not found and self.known:
            raise Transient(
                f"paths.label_source_dir: {self.labels} is empty, though {len(self.known)} books were there: is a disk"
                " not mounted? If they were removed on purpose, leave any folder in it"
            )
        return found

    def _is_folder(self, entry: os.DirEntry[str], path: str) -> bool:
        if entry.name.startswith("."):
            return False
        try:
            entry.name.encode()
        except UnicodeEncodeError:
            self._ignore(ascii(f"{path}/{entry.name}"), "the name is not UTF-8")
            return False
        try:
            if entry.is_dir():
                return True
        except OSError:
            # Whoever goes there finds out why.
            return True
        if entry.is_symlink():
            self.folders[path] = UNKNOWN
        return False

    def _doubt(self, path: str) -> None:
        """Read the folder that this one is in again at the next pass. What a link leads to, or a permission, comes
        back without changing its time."""
        self.folders[path.rpartition("/")[0]] = UNKNOWN

    def _unreadable(self, path: str, error: OSError, named: str = "") -> None:
        self._doubt(path)
        if not isinstance(error, FileNotFoundError):
            self._ignore(named or path, f"cannot be read: {error.strerror}")

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


def mark(output_dir: Path, ours: str, *, anew: bool = False) -> None:
    """Leave our mark in the output folder, by which it is known again; `anew`: also in the place of another."""
    if anew or not mark_of(output_dir):
        atomic_write(output_dir / MARK, f"{ours}\n".encode())


def check_mark(output_dir: Path, ours: str, done: int) -> None:
    """An output folder that lost its mark is another folder (a disk that is not mounted, say): everything that is done
    would seem to be gone, and be paid for again. One with a strange mark belongs to another store, which may have
    batches for it under way."""
    found = mark_of(output_dir)
    if found and found != ours:
        raise Conflict(
            f"paths.output_dir: {output_dir} belongs to a run of another store, which may have paid for pages of it"
            f" already: run it from there (the same folder, --home or --store). If that store is gone for good, remove"
            f" {output_dir / MARK}; the outputs that are there are adopted"
        )
    if done and not found:
        raise Transient(
            f"paths.output_dir: {output_dir} has no mark ({MARK}), though {done} pages were done there: is a disk not"
            f" mounted? If the outputs were removed on purpose, write {ours} into {output_dir / MARK}"
        )


def mark_of(output_dir: Path) -> str:
    """Whose the folder is; empty where nobody has left a mark."""
    try:
        return (output_dir / MARK).read_text(errors="replace").strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Transient(f"paths.output_dir: {output_dir} cannot be read: {error.strerror}") from error


MARK = ".penstock-pages"
