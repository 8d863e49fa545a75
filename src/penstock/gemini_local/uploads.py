"""Resumable uploads: bytes go to the blob as they come, and a chunk that comes twice changes nothing."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from penstock.gemini_local.errors import ApiError, bad_request, not_found
from penstock.gemini_local.faults import Faults
from penstock.gemini_local.files import File, Files
from penstock.gemini_local.settings import Settings
from penstock.gemini_local.state import State
from penstock.gemini_local.timepiece import Timepiece
from penstock.gemini_local.wire import Json, field, new_id, whole_number

GRANULARITY = 262_144
LAST = 48 * 3600.0

InThread = Callable[..., Awaitable[Any]]


@dataclass(slots=True, frozen=True)
class Upload:
    id: str
    name: str | None
    title: str | None
    mime: str
    declared: int | None
    created: float
    file: str | None


class Uploads:
    """Uploads under way. One chunk at a time is written to each."""

    def __init__(
        self,
        state: State,
        files: Files,
        faults: Faults,
        settings: Settings,
        clock: Timepiece,
        rng: Random,
        in_thread: InThread,
    ) -> None:
        self._state = state
        self._files = files
        self._faults = faults
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._in_thread = in_thread
        self._writing: dict[str, asyncio.Lock] = {}

    def start(self, body: Json, *, length: int | None, mime: str | None) -> Upload:
        self.sweep()
        about = field(body, "file", dict, {})
        declared = length if length is not None else whole_number(about, "sizeBytes")
        if declared is not None and declared < 0:
            raise bad_request("Upload has an invalid content length.")
        self._files.check_room(declared or 0)
        upload = Upload(
            id=new_id(self._rng, 32),
            name=self._files.checked_name(field(about, "name", str)),
            title=field(about, "displayName", str),
            mime=mime or field(about, "mimeType", str) or "application/octet-stream",
            declared=declared,
            created=self._clock.now(),
            file=None,
        )
        self._state.blob(upload.id).touch()
        self._state.db.execute(
            "INSERT INTO uploads (id, name, title, mime, declared, created) VALUES (?, ?, ?, ?, ?, ?)",
            (upload.id, upload.name, upload.title, upload.mime, upload.declared, upload.created),
        )
        return upload

    def get(self, id: str) -> Upload:
        row = self._state.db.execute("SELECT * FROM uploads WHERE id = ?", (id,)).fetchone()
        if row is None or (row["file"] is None and row["created"] + LAST <= self._clock.now()):
            raise not_found("Upload has already been terminated.")
        return Upload(**dict(row))

    def received(self, upload: Upload) -> int:
        if upload.file is not None:
            return upload.declared or 0
        return self._state.blob(upload.id).stat().st_size

    async def write(self, upload: Upload, offset: int, stream: AsyncIterator[bytes]) -> int:
        """Store a chunk; returns how many bytes the upload has then. What arrived before a connection broke is kept."""
        most = upload.declared if upload.declared is not None else self._settings.quotas.file_bytes
        async with self._writing.setdefault(upload.id, asyncio.Lock()):
            path = self._state.blob(upload.id)
            if offset > path.stat().st_size:
                raise bad_request(f"Upload offset {offset} is beyond the {path.stat().st_size} bytes received.")
            with path.open("r+b") as blob:
                blob.seek(offset)
                async for piece in stream:
                    if blob.tell() + len(piece) > most:
                        raise bad_request(f"Upload is longer than the {most} bytes that were declared or are allowed.")
                    blob.write(piece)
            return path.stat().st_size

    async def finish(self, upload: Upload) -> File:
        """Make a file of the bytes received. Asked again it gives the same file."""
        async with self._writing.setdefault(upload.id, asyncio.Lock()):
            upload = self.get(upload.id)
            if upload.file is None:
                path = self._state.blob(upload.id)
                size = path.stat().st_size
                if upload.declared is not None and size != upload.declared:
                    raise bad_request(f"Upload has {size} bytes, {upload.declared} were declared.")
                sha256 = await self._in_thread(_digest, path)
                with self._state.transaction(durable=True) as db:
                    upload = self._land(db, upload, size, sha256)
        self._writing.pop(upload.id, None)
        return self._files.get(upload.file or "")

    def cancel(self, upload: Upload) -> None:
        if upload.file is None:
            self._state.db.execute("DELETE FROM uploads WHERE id = ?", (upload.id,))
            self._state.drop_blob(upload.id)
            self._writing.pop(upload.id, None)

    def sweep(self) -> None:
        """Forget uploads nobody finished, and those that were long ago."""
        old = self._clock.now() - LAST
        for row in self._state.db.execute("SELECT id, file FROM uploads WHERE created <= ?", (old,)).fetchall():
            self._state.db.execute("DELETE FROM uploads WHERE id = ?", (row["id"],))
            self._writing.pop(row["id"], None)
            if row["file"] is None:
                self._state.drop_blob(row["id"])
        self._files.sweep()

    def _land(self, db: sqlite3.Connection, upload: Upload, size: int, sha256: str) -> Upload:
        try:
            name = self._files.add(
                db,
                name=upload.name,
                title=upload.title,
                mime=upload.mime,
                size=size,
                sha256=sha256,
                blob=upload.id,
                faults=self._faults.take("upload_chunk", upload.title or "", ("file",)),
            )
        except sqlite3.IntegrityError:
            raise ApiError(6, "Requested entity already exists") from None
        db.execute("UPDATE uploads SET file = ?, declared = ? WHERE id = ?", (name, size, upload.id))
        return Upload(upload.id, upload.name, upload.title, upload.mime, size, upload.created, name)


def _digest(path: Path) -> str:
    """The SHA-256 of a blob that is on disk."""
    with path.open("rb") as blob:
        os.fsync(blob.fileno())
        return hashlib.file_digest(blob, "sha256").hexdigest()
