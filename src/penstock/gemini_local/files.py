"""Files as the Files API knows them: named, of limited life, with bytes in a blob."""

from __future__ import annotations

import base64
import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from random import Random

from penstock.gemini_local import faults as faulty
from penstock.gemini_local.errors import INTERNAL, ApiError, bad_request, exhausted, no_such_file
from penstock.gemini_local.faults import Fault
from penstock.gemini_local.paging import encode_token
from penstock.gemini_local.settings import Settings
from penstock.gemini_local.state import State
from penstock.gemini_local.timepiece import Timepiece
from penstock.gemini_local.wire import CANONICAL, Json, new_id, rfc3339

LONGEST_ID = 40

_own_name = re.compile(r"files/[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")


@dataclass(slots=True, frozen=True)
class File:
    number: int
    name: str
    title: str | None
    mime: str
    size: int
    sha256: str
    created: float
    expires: float
    source: str
    blob: str
    faults: tuple[Fault, ...]

    def fault(self, kind: str) -> Fault | None:
        return next((fault for fault in self.faults if fault.kind == kind), None)

    def is_there(self, now: float) -> bool:
        gone = self.fault("file_gone")
        return now < self.expires and (gone is None or now < self.created + float(gone.option("seconds")))

    def state(self, now: float) -> str:
        if self.fault("processing_failed") is not None:
            return "FAILED"
        processing = self.fault("processing")
        return "PROCESSING" if processing and now < self.created + float(processing.option("seconds")) else "ACTIVE"

    def view(self, now: float) -> Json:
        uri = CANONICAL + self.name
        view: Json = {
            "name": self.name,
            "mimeType": self.mime,
            "sizeBytes": str(self.size),
            "createTime": rfc3339(self.created),
            "updateTime": rfc3339(self.created),
            "expirationTime": rfc3339(self.expires),
            "sha256Hash": base64.b64encode(self.sha256.encode()).decode(),
            "uri": uri,
            "state": self.state(now),
            "source": self.source,
        }
        if self.title:
            view["displayName"] = self.title
        if view["state"] == "FAILED":
            view["error"] = {"code": INTERNAL, "message": "The file could not be processed."}
        if self.source == "GENERATED":
            view["downloadUri"] = f"{uri}:download?alt=media"
        return view


class Files:
    def __init__(self, state: State, settings: Settings, clock: Timepiece, rng: Random) -> None:
        self._state = state
        self._settings = settings
        self._clock = clock
        self._rng = rng

    def checked_name(self, name: str | None) -> str | None:
        """The name a caller wants for a new file. Raises if it is not one, or is taken."""
        if not name:
            return None
        name = name if name.startswith("files/") else f"files/{name}"
        if _own_name.fullmatch(name) is None:
            raise bad_request(
                "* CreateFileRequest.file.name: File ID may only contain lowercase alphanumeric characters or dashes, "
                "cannot begin or end with a dash, and is at most 40 characters long."
            )
        self._forget_expired(name)
        if self._find(name) is not None:
            raise ApiError(6, f"Requested entity already exists: {name}")
        return name

    def check_room(self, size: int) -> None:
        quotas = self._settings.quotas
        if size > quotas.file_bytes:
            raise bad_request(f"File size {size} is larger than the limit of {quotas.file_bytes} bytes.")
        used = self._state.db.execute(
            "SELECT coalesce(sum(size), 0) FROM files WHERE expires > ?", (self._clock.now(),)
        ).fetchone()[0]
        if used + size > quotas.storage_bytes:
            raise exhausted(
                "You have exceeded the file storage limit for your project. Please delete some files.",
                "file_storage_bytes",
                quotas.storage_bytes,
            )

    def add(
        self,
        db: sqlite3.Connection,
        *,
        name: str | None,
        title: str | None,
        mime: str,
        size: int,
        sha256: str,
        blob: str,
        source: str = "UPLOADED",
        faults: tuple[Fault, ...] = (),
    ) -> str:
        """A new file, within the caller's transaction. Returns its name."""
        now = self._clock.now()
        if name is not None and self._find(name) is not None:
            raise ApiError(6, f"Requested entity already exists: {name}")
        while name is None or (source == "UPLOADED" and self._find(name) is not None):
            name = f"files/{new_id(self._rng, 12)}"
        db.execute(
            "INSERT INTO files (name, title, mime, size, sha256, created, expires, source, blob, faults)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                name,
                title,
                mime,
                size,
                sha256,
                now,
                now + self._settings.pace.files_last,
                source,
                blob,
                faulty.dump(faults),
            ),
        )
        return name

    def get(self, name: str) -> File:
        """Raises as the service does: who may not see a file is not told whether there is one."""
        file = self._find(name)
        if file is None or not file.is_there(self._clock.now()):
            raise no_such_file(name)
        return file

    def usable(self, name: str) -> File:
        """A file that a request may refer to."""
        file = self.get(name)
        if file.state(self._clock.now()) != "ACTIVE":
            bare = name.removeprefix("files/")
            raise ApiError(9, f"The File {bare} is not in an ACTIVE state and usage is not allowed.")
        return file

    def view(self, file: File) -> Json:
        return file.view(self._clock.now())

    def check_id(self, name: str, request: str) -> None:
        """The service's own result files have names that its own checks do not let through."""
        if self._settings.result_name_quirk and len(name.removeprefix("files/")) > LONGEST_ID:
            raise bad_request(
                f"* {request}.name: File ID (name excluding 'files/') cannot be more than 40 characters.\n"
            )

    def path(self, file: File) -> Path:
        return self._state.blob(file.blob)

    def page(self, before: int, size: int) -> Json:
        rows = self._state.db.execute(
            "SELECT * FROM files WHERE number < ? AND expires > ? ORDER BY number DESC LIMIT ?",
            (before, self._clock.now(), size + 1),
        ).fetchall()
        view: Json = {"files": [self.view(_file(row)) for row in rows[:size]]} if rows else {}
        if len(rows) > size:
            view["nextPageToken"] = encode_token(rows[size - 1]["number"])
        return view

    def delete(self, name: str) -> None:
        file = self.get(name)
        self._state.db.execute("DELETE FROM files WHERE number = ?", (file.number,))
        self._state.drop_blob(file.blob)

    def sweep(self) -> None:
        """Give back the space of what has expired."""
        rows = self._state.db.execute("SELECT * FROM files WHERE expires <= ?", (self._clock.now(),)).fetchall()
        for row in rows:
            self._forget_expired(row["name"])

    def _forget_expired(self, name: str) -> None:
        file = self._find(name)
        if file is not None and file.expires <= self._clock.now():
            self._state.db.execute("DELETE FROM files WHERE number = ?", (file.number,))
            self._state.drop_blob(file.blob)

    def _find(self, name: str) -> File | None:
        row = self._state.db.execute("SELECT * FROM files WHERE name = ?", (name,)).fetchone()
        return None if row is None else _file(row)


def _file(row: sqlite3.Row) -> File:
    return File(**{**dict(row), "faults": faulty.load(row["faults"])})
