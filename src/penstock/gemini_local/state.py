"""What the local Gemini remembers: one SQLite database and a folder of blobs, both under one lock.

Every statement runs on the event loop: each touches few rows, and commits do not wait for the disk unless what they
store has been promised (`durable`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.engine.errors import PenstockError, SchemaMismatch, StoreFull, StoreReadOnly

VERSION = 1
"""Of the schema. A folder that another version made is left alone."""

SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE uploads (
    id TEXT PRIMARY KEY, name TEXT, title TEXT, mime TEXT NOT NULL, declared INTEGER, created REAL NOT NULL,
    file TEXT
) WITHOUT ROWID;
CREATE TABLE files (
    number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, title TEXT, mime TEXT NOT NULL,
    size INTEGER NOT NULL, sha256 TEXT NOT NULL, created REAL NOT NULL, expires REAL NOT NULL, source TEXT NOT NULL,
    blob TEXT NOT NULL, faults TEXT NOT NULL DEFAULT '[]'
);
CREATE TABLE batches (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, embeds INTEGER NOT NULL, inline INTEGER NOT NULL,
    model TEXT NOT NULL, title TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, started REAL, ended REAL,
    state TEXT NOT NULL, rows INTEGER NOT NULL, succeeded INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL, error TEXT, faults TEXT NOT NULL DEFAULT '[]',
    deleted INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX unfinished ON batches (number) WHERE ended IS NULL;
CREATE TABLE caches (
    number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, title TEXT, model TEXT NOT NULL,
    created REAL NOT NULL, updated REAL NOT NULL, expires REAL NOT NULL, tokens INTEGER NOT NULL, content TEXT NOT NULL
);
CREATE TABLE faults (
    position INTEGER PRIMARY KEY, spec TEXT NOT NULL, seen INTEGER NOT NULL DEFAULT 0,
    applied INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE journal (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL,
    operation TEXT NOT NULL, status INTEGER, label TEXT, size INTEGER NOT NULL, fault TEXT
);
"""

STARTS = "starts"
"""The fact that counts the processes that have worked here."""


class FolderTaken(PenstockError):
    """Another server works in this folder."""


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """What the system says about a folder that cannot be written, in words."""
    try:
        yield
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(f"{folder}: no space left on the disk; free some and try again") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR):
            raise StoreReadOnly(
                f"{folder} cannot be written: {why} ({error.filename}): choose a place that can be (--home)"
            ) from error
        raise
    except sqlite3.Error as error:
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            raise StoreFull(f"{folder}: the disk is full; free some space and try again") from error
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            raise StoreReadOnly(
                f"{folder / 'state.db'} cannot be written ({error}): check the permissions of the file and its folder"
            ) from error
        raise


class State:
    """The only owner of a state folder, until `close`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blobs = folder / "blobs"
        with writing(folder):
            self._open(folder)

    def _open(self, folder: Path) -> None:
        self.blobs.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise FolderTaken(
                f"another local Gemini works in {folder}: stop it, or give this one another folder"
            ) from None
        try:
            self.db = sqlite3.connect(folder / "state.db", isolation_level=None, check_same_thread=False, timeout=10)
        except BaseException:
            os.close(self._lock)
            raise
        self.db.row_factory = sqlite3.Row
        try:
            self.db.execute("PRAGMA journal_mode=WAL")
            self.db.execute("PRAGMA synchronous=NORMAL")
            self._make_schema()
        except BaseException:
            self.close()
            raise

    def _make_schema(self) -> None:
        found = self.db.execute("PRAGMA user_version").fetchone()[0]
        if found == VERSION:
            # Whether it can be written is learnt now, not by the first request.
            self.db.executescript("BEGIN IMMEDIATE; ROLLBACK;")
            return
        if found or self.db.execute("SELECT 1 FROM sqlite_master").fetchone() is not None:
            raise SchemaMismatch(
                f"{self.folder} was made by another version of the local Gemini: remove the folder, or use another"
            )
        self.db.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """All of it or nothing. `durable`: on disk, with everything before it, when the block is left."""
        db = self.db
        if durable:
            db.execute("PRAGMA synchronous=FULL")
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
        except BaseException:
            db.execute("ROLLBACK")
            raise
        else:
            db.execute("COMMIT")
        finally:
            if durable:
                db.execute("PRAGMA synchronous=NORMAL")

    def fact(self, name: str, default: Any = None) -> Any:
        row = self.db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return default if row is None else row["value"]

    def set_fact(self, name: str, value: float | str) -> None:
        self.db.execute("INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)", (name, value))

    def blob(self, name: str) -> Path:
        return self.blobs / name

    def drop_blob(self, name: str) -> None:
        self.blob(name).unlink(missing_ok=True)

    def drop_orphans(self) -> None:
        """Delete blobs that nothing refers to: what a crash left behind."""
        kept = {
            row[0]
            for row in self.db.execute(
                "SELECT blob FROM files UNION SELECT id FROM uploads WHERE file IS NULL"
                " UNION SELECT 'in-' || id FROM batches WHERE ended IS NULL"
                " UNION SELECT 'rows-' || id FROM batches WHERE ended IS NULL"
                " UNION SELECT 'out-' || id FROM batches WHERE inline AND NOT deleted AND state = 'SUCCEEDED'"
            )
        }
        for path in self.blobs.iterdir():
            if path.name not in kept:
                path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget everything."""
        with self.transaction() as db:
            db.execute("DELETE FROM facts WHERE name != ?", (STARTS,))
            for table in ("uploads", "files", "batches", "caches", "faults", "journal"):
                db.execute(f"DELETE FROM {table}")
        for path in self.blobs.iterdir():
            path.unlink(missing_ok=True)

    def close(self) -> None:
        self.db.close()
        os.close(self._lock)
