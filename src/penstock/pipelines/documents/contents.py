"""The bytes of documents as they came: one file for each document, in the home that all workers share. A file is there,
whole and synced, before anybody is told of its document."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import BinaryIO, Self

from penstock.engine.engine import Engine
from penstock.engine.errors import Conflict, Transient
from penstock.engine.identity import checked_name, made_storable
from penstock.outputs.files import sync_folder
from penstock.paper.unreadable import Unreadable
from penstock.pipelines.documents.kinds import too_large

PART = 1 << 20
LONGEST_NAME = 200


@dataclass(slots=True, frozen=True)
class Kept:
    """A file that has come in. `content_hash` is its SHA-256."""

    document_id: str
    filename: str
    path: Path
    size: int
    content_hash: str


def content_path(home: Path, tenant: str, document_id: str) -> Path:
    """Where the bytes of a document are."""
    return home / "documents" / tenant / document_id[:6] / document_id


def display_name(filename: str | None) -> str:
    """The name that people know a file by: without folders, and such that it can be stored and shown."""
    bare = PurePath((filename or "").replace("\\", "/")).name
    plain = "".join(letter if letter.isprintable() else " " for letter in made_storable(bare) or "").strip()
    return plain[:LONGEST_NAME] if plain.strip(".") else "document"


class Receiving:
    """A file on its way in: written beside its place, and there when `keep` returns. Left without that, it is gone."""

    def __init__(self, path: Path, *, document_id: str, filename: str | None, largest: int) -> None:
        self._path = path
        self._part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        self._document_id = document_id
        self._filename = display_name(filename)
        self._largest = largest
        self._digest = hashlib.sha256()
        self._size = 0
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        with _disk(self._filename):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._part.open("xb")
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._part.unlink(missing_ok=True)

    def write(self, some: bytes) -> None:
        assert self._file is not None
        self._size += len(some)
        if self._size > self._largest:
            raise Unreadable(too_large(self._size, self._largest))
        self._digest.update(some)
        with _disk(self._filename):
            self._file.write(some)

    def keep(self) -> Kept:
        assert self._file is not None
        if self._size == 0:
            raise Unreadable("The file is empty.")
        with _disk(self._filename):
            self._file.flush()
            os.fsync(self._file.fileno())
            try:
                # Not over what is there: an id that somebody chose may come twice.
                os.link(self._part, self._path)
            except FileExistsError:
                if digest_of(self._path) != self._digest.hexdigest():
                    raise Conflict(f"document {self._document_id} is there already, with another content") from None
            sync_folder(self._path.parent)
        return Kept(self._document_id, self._filename, self._path, self._size, self._digest.hexdigest())


def receive(
    engine: Engine, tenant: str, filename: str | None, *, largest: int, document_id: str | None = None
) -> Receiving:
    """A place for a new document of this tenant; who knows an id for it may give it."""
    document_id = engine.new_id() if document_id is None else checked_name("document id", document_id)
    path = content_path(engine.home, tenant, document_id)
    return Receiving(path, document_id=document_id, filename=filename, largest=largest)


def copy_in(engine: Engine, tenant: str, source: Path, *, largest: int, document_id: str | None = None) -> Kept:
    """A file of this machine as a new document: its bytes as they are now, whatever becomes of it."""
    try:
        if not stat.S_ISREG(source.stat().st_mode):
            raise Unreadable(f"{source} is no file")
        file = source.open("rb")
    except (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError) as error:
        raise Unreadable(f"{source} cannot be read: {(error.strerror or str(error)).lower()}") from error
    with file, receive(engine, tenant, source.name, largest=largest, document_id=document_id) as incoming:
        while some := file.read(PART):
            incoming.write(some)
        return incoming.keep()


def digest_of(path: Path) -> str:
    """What is on the disk now."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError as error:
        raise Unreadable("The document's file is gone: upload it again.") from error


@contextlib.contextmanager
def _disk(filename: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise Transient(f"no space left for {filename}: free some; nothing partial was left behind") from error
        raise
