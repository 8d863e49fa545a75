"""Files as entries: folders walked in one order that a cursor can go on with, and files that are named one by one.
Everything that touches the disk runs in a thread, some entries at a time."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import stat
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar
from urllib.parse import quote, unquote_to_bytes

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from penstock.engine.errors import InvalidRequest, Permanent, StepError, Transient
from penstock.pipelines.ingestion.model import Entry
from penstock.pipelines.ingestion.sources.patterns import ending, matching

log = logging.getLogger("penstock.ingestion")

JUST_NOW = 2.0
"""Seconds within which a file's time says nothing about what is written to it next."""

FIRST, NEXT = 64, 512
"""Entries looked at in one go. The first go is short: many who ask want to know only what comes next."""

MOST_NAMED = 20
"""Links that are named in the log in one walk."""

_GONE = frozenset((errno.ENOENT, errno.ENOTDIR))
_REFUSED = frozenset((errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG, errno.EISDIR, errno.ENXIO))

_Options = TypeVar("_Options", bound=BaseModel)


def _several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Patterns = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=300)], ...],
    Field(min_length=1, max_length=50),
    BeforeValidator(_several),
]


class FolderOptions(BaseModel):
    """`pattern` chooses files by their path within the folder, or by their name where it has no slash."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str = Field(min_length=1, max_length=4096)
    pattern: Patterns | None = None
    recursive: bool = True

    @field_validator("path")
    @classmethod
    def _a_path(cls, path: str) -> str:
        return checked_path(path)


def checked_path(path: str) -> str:
    if "\x00" in path or not path.strip():
        raise ValueError(f"is no path: {path[:80]!r}")
    return path


def checked_options(kind: str, model: type[_Options], options: Mapping[str, Any]) -> _Options:
    """What a source was given, or `InvalidRequest` with what is wrong and what there is."""
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "options"
        said = first["msg"].removeprefix("Value error, ")
        takes = ", ".join(model.model_fields)
        raise InvalidRequest(f"source {kind}: {where}: {said} (it takes {takes})") from None


@dataclass(slots=True, frozen=True)
class Place:
    """A file that is about to be read: the real path behind its name, and what it was like when it was looked at."""

    uri: str
    path: Path
    size: int
    changed: int

    @property
    def fingerprint(self) -> str:
        return f"{self.size}:{self.changed}"

    def settled(self, now: float) -> str | None:
        """The fingerprint, if another change could not hide behind it: two changes in one moment leave one time."""
        return self.fingerprint if now - self.changed / 1e9 >= JUST_NOW else None


class Files(Protocol):
    """Where the files of a source are found."""

    def entries(self, cursor: str | None) -> AsyncIterator[Entry]: ...

    async def count(self) -> int: ...

    def find(self, uri: str) -> Place | None:
        """The file behind an entry; None where it is gone since. Blocks."""
        ...


def files_at(kind: str, options: FolderOptions, endings: Collection[str], *, resolved: bool = False) -> Files:
    """The files of a folder that end so (or fit the pattern), or the one file that the path names."""
    path = Path(options.path)
    try:
        found = path.stat()
    except OSError as error:
        raise InvalidRequest(
            f"source {kind}: path: {options.path} cannot be read: {error.strerror}; it must be a folder or a file on"
            " the machine that does the work"
        ) from error
    if stat.S_ISDIR(found.st_mode):
        wanted = matching(options.pattern) if options.pattern else ending(endings)
        return Folder(path, wanted, recursive=options.recursive)
    if options.pattern:
        raise InvalidRequest(f"source {kind}: pattern: {options.path} is a file; a pattern chooses files of a folder")
    return NamedFiles({storable(path.name): path}, resolved=resolved)


def storable(path: str) -> str:
    """A relative path as it is kept and shown. A name that is not UTF-8 is written with escapes behind a slash, which
    no relative path begins with."""
    if path.isascii():
        return path
    try:
        path.encode()
    except UnicodeEncodeError:
        return "/" + quote(os.fsencode(path))
    return path


def refused(uri: str, error: OSError) -> StepError:
    """A file that may not be read is the file's trouble; all else is the machine's, and may pass."""
    if error.errno in _REFUSED:
        return Permanent(f"{uri} cannot be read: {error.strerror}; let the user that does the work read it")
    return Transient(f"{uri} cannot be read: {error.strerror or error}")


class _Closed(Exception):
    """A folder that may not be read."""


@dataclass(slots=True, frozen=True)
class _LeftOut:
    """A link that is not followed, named when the walk comes past it: once in a run, also if that is many walks."""

    path: str


@dataclass(slots=True)
class _Level:
    """A folder in which the walk is: the names that are left, last one first."""

    prefix: str
    names: list[str]
    folders: set[str]
    links: set[str]
    after: tuple[str, ...]


class Folder:
    """A folder and all below it, without what is hidden, no file, or behind a link that leads out. Links to folders
    within are not followed: what they lead to is found where it is. A folder that may not be read is an entry of its
    own, which ends in a slash, and fails when it is loaded."""

    def __init__(self, root: Path, wanted: Callable[[str], bool], *, recursive: bool = True) -> None:
        self.root = root
        self._real = os.path.realpath(root)
        self._wanted = wanted
        self._recursive = recursive

    async def entries(self, cursor: str | None) -> AsyncIterator[Entry]:
        walk = self.walk(cursor)
        most, named = FIRST, 0
        while found := await asyncio.to_thread(list, islice(walk, most)):
            for each in found:
                if isinstance(each, Entry):
                    yield each
                elif named < MOST_NAMED:
                    named += 1
                    log.warning("%s is a link that leads out of %s, and is not followed", each.path, self.root)
            most = NEXT

    async def count(self) -> int:
        return await asyncio.to_thread(self._count)

    def find(self, uri: str) -> Place | None:
        if uri.startswith("/"):
            raise Permanent(f"a file's name is not UTF-8: {uri[1:]!r}: rename it")
        if uri.endswith("/"):
            self._check_open(uri)
            return None
        if any(part in ("", ".", "..") for part in uri.split("/")):
            raise Permanent(f"{uri[:200]!r} is no path within {self.root}")
        real = os.path.realpath(f"{self._real}/{uri}")
        if not self._within(real):
            raise Permanent(f"{uri} leads out of {self.root}, and is not followed")
        return look(uri, Path(real))

    def _check_open(self, uri: str) -> None:
        """What is in a folder that can be read by now comes with the next walk."""
        try:
            self._scanned(uri)
        except _Closed as error:
            raise Permanent(f"the folder {uri} may not be read: let the user that does the work read it") from error

    def walk(self, cursor: str | None) -> Iterator[Entry | _LeftOut]:
        """What comes after the cursor, sorted by the parts of the path. Blocks, and looks only at folders that may
        hold something after it."""
        levels = [self._level("", _parts(cursor))]
        while levels:
            here = levels[-1]
            if not here.names:
                levels.pop()
                continue
            name = here.names.pop()
            path = here.prefix + name
            if name in here.folders:
                after = here.after[1:] if here.after and here.after[0] == name else ()
                try:
                    levels.append(self._level(f"{path}/", after))
                except _Closed:
                    if after != ("",):
                        yield Entry(storable(f"{path}/"), storable(f"{path}/"))
            elif name in here.links:
                yield from self._behind(path)
            else:
                yield from self._entry(path)

    def _level(self, prefix: str, after: tuple[str, ...]) -> _Level:
        here = _Level(prefix, [], set(), set(), after)
        first = after[0] if after else ""
        for entry in self._scanned(prefix):
            name = entry.name
            if name < first or name.startswith("."):
                continue
            if entry.is_symlink():
                here.links.add(name)
            elif entry.is_dir(follow_symlinks=False):
                if not self._recursive:
                    continue
                here.folders.add(name)
            elif not entry.is_file(follow_symlinks=False) or not self._wanted(prefix + name):
                continue
            if name == first and name not in here.folders:
                continue
            here.names.append(name)
        here.names.sort(reverse=True)
        return here

    def _scanned(self, prefix: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(f"{self._real}/{prefix}") as entries:
                return list(entries)
        except OSError as error:
            if not prefix:
                raise Transient(f"{self.root} cannot be read: {error.strerror}: is a disk not mounted?") from error
            if error.errno in _GONE:
                return []
            if error.errno in _REFUSED:
                raise _Closed from error
            raise Transient(f"{self.root}/{prefix} cannot be read: {error.strerror}") from error

    def _entry(self, path: str) -> Iterator[Entry]:
        try:
            found = os.stat(f"{self._real}/{path}")  # noqa: PTH116
        except OSError as error:
            if error.errno in _GONE or error.errno == errno.ELOOP:
                return
            found = None
        if found is None:
            # Whoever loads it finds out why.
            yield Entry(storable(path), storable(path))
        elif stat.S_ISREG(found.st_mode):
            uri = storable(path)
            yield Entry(uri, uri, f"{found.st_size}:{found.st_mtime_ns}")

    def _behind(self, path: str) -> Iterator[Entry | _LeftOut]:
        full = f"{self._real}/{path}"
        if self._within(os.path.realpath(full)):
            if self._wanted(path):
                yield from self._entry(path)
        elif self._wanted(path) or os.path.isdir(full):  # noqa: PTH112
            yield _LeftOut(storable(path))

    def _within(self, real: str) -> bool:
        return real.startswith(self._real.rstrip("/") + "/")

    def _count(self) -> int:
        found, folders = 0, [""]
        while folders:
            prefix = folders.pop()
            try:
                entries = self._scanned(prefix)
            except _Closed:
                continue
            for entry in entries:
                name = entry.name
                if name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders += [f"{prefix}{name}/"] if self._recursive else []
                elif self._wanted(prefix + name):
                    found += 1
        return found


class NamedFiles:
    """Files that somebody has named; their names are as they were given. One that is missing is an error, and so is a
    link in a path that was `resolved`."""

    def __init__(self, files: Mapping[str, Path], *, resolved: bool = False) -> None:
        self._files = dict(sorted(files.items()))
        self._resolved = resolved

    async def entries(self, cursor: str | None) -> AsyncIterator[Entry]:
        left = [uri for uri in self._files if cursor is None or uri > cursor]
        for start in range(0, len(left), NEXT):
            for each in await asyncio.to_thread(list, map(self._entry, left[start : start + NEXT])):
                yield each

    async def count(self) -> int:
        return len(self._files)

    def find(self, uri: str) -> Place | None:
        if uri not in self._files:
            raise Permanent(f"{uri[:200]!r} is none of the files of this source")
        real = os.path.realpath(self._files[uri])
        if self._resolved and real != str(self._files[uri]):
            raise Permanent(f"{self._files[uri]} leads elsewhere by a link that was not there when it was checked")
        place = look(uri, Path(real))
        if place is None:
            raise Permanent(f"there is no file {self._files[uri]}")
        return place

    def _entry(self, uri: str) -> Entry:
        try:
            place = look(uri, self._files[uri])
        except StepError:
            # Whoever loads it finds out why.
            place = None
        return Entry(uri, uri, place.fingerprint if place else None)


def look(uri: str, path: Path) -> Place | None:
    """What is there now; None: nothing."""
    try:
        found = path.stat()
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise refused(uri, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise Permanent(f"{uri} is no file")
    return Place(uri, path, found.st_size, found.st_mtime_ns)


def read(place: Place) -> bytes:
    """The bytes, no more than there were when it was looked at. Blocks, but not for a pipe that took the file's
    place."""
    try:
        descriptor = os.open(place.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Permanent(f"{place.uri} is no file")
            return file.read(place.size)
    except FileNotFoundError as error:
        raise Transient(f"{place.uri} was taken away while it was read") from error
    except OSError as error:
        raise refused(place.uri, error) from error


def unchanged(place: Place) -> bool:
    """Whether the file still is what it was when it was looked at."""
    try:
        return look(place.uri, place.path) == place
    except StepError:
        return False


def _parts(cursor: str | None) -> tuple[str, ...]:
    if cursor is None:
        return ()
    if cursor.startswith("/"):
        cursor = os.fsdecode(unquote_to_bytes(cursor[1:]))
    return tuple(cursor.split("/"))
