"""Batches on disk: made within the quotas, moved from state to state, each move at most once."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from pydantic_core import from_json, to_json

from penstock.gemini_local import faults as faulty
from penstock.gemini_local.errors import CANCELLED as CANCELLED_CODE
from penstock.gemini_local.errors import DEADLINE_EXCEEDED, exhausted, not_found
from penstock.gemini_local.faults import Fault
from penstock.gemini_local.files import Files
from penstock.gemini_local.journal import Entry
from penstock.gemini_local.operations import (
    CANCELLED,
    EXPIRED,
    FAILED,
    PENDING,
    RUNNING,
    SUCCEEDED,
    Batch,
    has_output,
    is_found,
    is_listed,
    operation,
)
from penstock.gemini_local.paging import encode_token
from penstock.gemini_local.settings import Settings
from penstock.gemini_local.state import State
from penstock.gemini_local.timepiece import Timepiece
from penstock.gemini_local.wire import Json, new_id

log = logging.getLogger("penstock.gemini")

JSONL = "application/jsonl"


class Batches:
    def __init__(self, state: State, files: Files, settings: Settings, clock: Timepiece, rng: Random) -> None:
        self._state = state
        self._files = files
        self._settings = settings
        self._clock = clock
        self._rng = rng

    def new_id(self) -> str:
        return new_id(self._rng, 36)

    def create(
        self,
        id: str,
        *,
        embeds: bool,
        inline: bool,
        model: str,
        title: str,
        rows: int,
        tokens: int,
        faults: tuple[Fault, ...],
        entry: Entry,
    ) -> Batch:
        """The batch and the journal's line about it, on disk together. Its input is in place already."""
        now = self._clock.now()
        entry.label, entry.status = title, 200
        with self._state.transaction(durable=True) as db:
            self._check_quotas(db, model, tokens)
            db.execute(
                "INSERT INTO batches (id, embeds, inline, model, title, created, updated, state, rows, tokens, faults)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (id, embeds, inline, model, title, now, now, PENDING, rows, tokens, faulty.dump(faults)),
            )
            entry.write(db)
        return self.load(id)

    def load(self, id: str) -> Batch:
        row = self._state.db.execute("SELECT * FROM batches WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise not_found("Requested entity was not found.")
        return _batch(row)

    def get(self, id: str) -> Batch:
        """The batch as a caller may see it."""
        batch = self.load(id)
        if not is_found(batch, self._clock.now()):
            raise not_found("Requested entity was not found.")
        return batch

    def view(self, batch: Batch) -> Json:
        now = self._clock.now()
        rows = None
        if batch.inline and has_output(batch, now) and batch.fault("result_gone") is None:
            rows = list(_rows(self._state.blob(out_blob(batch.id))))
        return operation(batch, now, rows)

    def page(self, before: int, size: int) -> Json:
        now = self._clock.now()
        found: list[Batch] = []
        for row in self._state.db.execute(
            "SELECT * FROM batches WHERE number < ? AND NOT deleted ORDER BY number DESC", (before,)
        ):
            batch = _batch(row)
            if is_listed(batch, now):
                found.append(batch)
            if len(found) > size:
                break
        view: Json = {"operations": [operation(batch, now, listed=True) for batch in found[:size]]} if found else {}
        if len(found) > size:
            view["nextPageToken"] = encode_token(found[size - 1].number)
        return view

    def unfinished(self) -> list[Batch]:
        return [_batch(row) for row in self._state.db.execute("SELECT * FROM batches WHERE ended IS NULL")]

    def is_ended(self, id: str) -> bool:
        row = self._state.db.execute("SELECT ended FROM batches WHERE id = ?", (id,)).fetchone()
        return row is None or row["ended"] is not None

    def expire(self) -> list[str]:
        """End what is too old; returns what was ended."""
        old = self._clock.now() - self._settings.pace.expires_after
        rows = self._state.db.execute("SELECT id FROM batches WHERE ended IS NULL AND created <= ?", (old,)).fetchall()
        return [row["id"] for row in rows if self.end(row["id"], EXPIRED)]

    def begin(self, id: str) -> bool:
        now = self._clock.now()
        moved = self._state.db.execute(
            "UPDATE batches SET state = ?, started = ?, updated = ? WHERE id = ? AND state = ?",
            (RUNNING, now, now, id, PENDING),
        )
        return moved.rowcount == 1

    def count(self, id: str, succeeded: int, failed: int) -> None:
        self._state.db.execute(
            "UPDATE batches SET succeeded = ?, failed = ?, updated = ? WHERE id = ? AND ended IS NULL",
            (succeeded, failed, self._clock.now(), id),
        )

    def end(self, id: str, state: str, error: Json | None = None) -> bool:
        """End it without a result. False: it had ended already."""
        with self._state.transaction(durable=True) as db:
            return self._end(db, id, state, error or _errors.get(state))

    def succeed(self, batch: Batch, *, size: int, sha256: str) -> bool:
        """End it with the result that is in its blob. False: it had ended already, and the result does not count."""
        with self._state.transaction(durable=True) as db:
            ended = self._end(db, batch.id, SUCCEEDED, None)
            if ended and not batch.inline and batch.fault("result_gone") is None:
                self._files.add(
                    db,
                    name=batch.result_name,
                    title=f"Output of {batch.name}",
                    mime=JSONL,
                    size=size,
                    sha256=sha256,
                    blob=out_blob(batch.id),
                    source="GENERATED",
                )
        return ended

    def delete(self, id: str) -> None:
        """Out of sight. What runs goes on."""
        self.get(id)
        self._state.db.execute("UPDATE batches SET deleted = 1 WHERE id = ?", (id,))

    def _end(self, db: sqlite3.Connection, id: str, state: str, error: Json | None) -> bool:
        now = self._clock.now()
        moved = db.execute(
            "UPDATE batches SET state = ?, error = ?, ended = ?, updated = ? WHERE id = ? AND ended IS NULL",
            (state, None if error is None else to_json(error).decode(), now, now, id),
        )
        return moved.rowcount == 1

    def _check_quotas(self, db: sqlite3.Connection, model: str, tokens: int) -> None:
        quotas = self._settings.quotas
        active = db.execute("SELECT count(*) FROM batches WHERE ended IS NULL").fetchone()[0]
        if active >= quotas.active_batches:
            raise exhausted(
                "You exceeded your current quota, please check your plan and billing details: too many batch jobs are "
                "active.",
                "concurrent_batch_jobs",
                quotas.active_batches,
            )
        enqueued = db.execute(
            "SELECT coalesce(sum(tokens), 0) FROM batches WHERE ended IS NULL AND model = ?", (model,)
        ).fetchone()[0]
        if enqueued + tokens > quotas.enqueued(model):
            raise exhausted(
                "You exceeded your current quota, please check your plan and billing details: too many tokens are "
                f"enqueued for {model}.",
                "batch_enqueued_tokens",
                quotas.enqueued(model),
                model=model,
            )


_errors: dict[str, Json] = {
    CANCELLED: {"code": CANCELLED_CODE, "message": "The operation was cancelled."},
    EXPIRED: {"code": DEADLINE_EXCEEDED, "message": "The batch expired before it was finished."},
    FAILED: {"code": 13, "message": "Internal error encountered."},
}


def _rows(path: Path) -> Iterator[Any]:
    """The rows of an inline result; what cannot be read is not there."""
    try:
        with path.open("rb") as lines:
            for line in lines:
                with suppress(ValueError):
                    yield from_json(line)
    except OSError as error:
        log.warning("%s cannot be read: %s", path, error)


def in_blob(id: str) -> str:
    return f"in-{id}"


def rows_blob(id: str) -> str:
    return f"rows-{id}"


def out_blob(id: str) -> str:
    return f"out-{id}"


def _batch(row: sqlite3.Row) -> Batch:
    values = dict(row)
    values["error"] = None if row["error"] is None else from_json(row["error"])
    values["faults"] = faulty.load(row["faults"])
    for name in ("embeds", "inline", "deleted"):
        values[name] = bool(row[name])
    return Batch(**values)
