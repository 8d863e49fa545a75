"""What listeners are told: the shapes of live items, who wants which, and the place a listener can go on from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pydantic_core import from_json, to_json

from penstock.engine.errors import InvalidRequest
from penstock.engine.model import JobRow
from penstock.store.protocol import BatchRow, Change
from penstock.times import utc

NOTE_LENGTH = 200

MOST_ONE_BY_ONE = 200
"""Jobs that a listener is told of one by one; when more have changed at once, it is told how many."""

_POSITION = re.compile(r"1-([0-9]{1,18})-([0-9a-hjkmnp-tv-z]{10})\Z")


@dataclass(frozen=True)
class Told:
    """One item. `id` is the place to go on from after it; `kind` is job, jobs, call, batch, worker, ready or reset.
    Listeners that are told the same share it."""

    id: str
    kind: str
    data: dict[str, Any]

    @cached_property
    def frame(self) -> bytes:
        """As server-sent events have it, made once however many are told. The data is one line: line ends inside of
        texts are escaped."""
        return f"id: {self.id}\nevent: {self.kind}\ndata: ".encode() + to_json(self.data, inf_nan_mode="null") + b"\n\n"


@dataclass(slots=True, frozen=True, kw_only=True)
class Wanted:
    """What a listener wants to hear of; None: all. Workers are told to those who want everything."""

    tenant: str | None = None
    job: str | None = None
    workflow: str | None = None
    batch: str | None = None

    def takes(self, item: Item) -> bool:
        return (
            self.tenant in (None, item.tenant)
            and self.job in (None, item.job)
            and self.workflow in (None, item.workflow)
            and self.batch in (None, item.batch)
        )


@dataclass(slots=True, frozen=True)
class Item:
    """Something that happened, and whose it is. No tenant: it belongs to the installation. `line`: the number of the
    line of history that it is."""

    kind: str
    data: dict[str, Any]
    tenant: str | None = None
    job: str | None = None
    workflow: str | None = None
    batch: str | None = None
    line: int = 0


@dataclass(slots=True, frozen=True)
class Position:
    """The number up to which all lines were told, and the beginning of the ids that may not have been told as new."""

    line: int
    job: str

    def __str__(self) -> str:
        return f"1-{self.line}-{self.job}"


def placed(items: Sequence[Item], before: Position, position: Position) -> list[Told]:
    """What is told, and the place that is reached with each item; with the last it is `position`. A line says that all
    lines up to it were told (of each job the last), but for those that are missing yet."""
    told = []
    for item in items:
        if item.line > before.line:
            before = Position(min(item.line, position.line), before.job)
        told.append(Told(str(before), item.kind, item.data))
    if told:
        told[-1] = replace(told[-1], id=str(position))
    return told


def parse_position(text: str) -> Position:
    """The place a listener was told (`Told.id`, Last-Event-ID), or `InvalidRequest`."""
    found = _POSITION.match(text)
    if found is None:
        raise InvalidRequest(f"{text[:60]!r} is no place in the live changes: send the id of an event as it was told")
    return Position(int(found[1]), found[2])


def last_lines(changes: Iterable[Change]) -> list[Item]:
    """The last line of each job and of its calls, in order, and the batches they belong to."""
    last: dict[tuple[str, bool], Change] = {}
    for change in changes:
        place = change.event.job, change.event.kind.startswith("call ")
        # Taken out first, so that what happened last comes last.
        last.pop(place, None)
        last[place] = change
    items = [_line(change) for change in last.values()]
    batches = {change.batch: change.tenant for change in last.values() if change.batch is not None}
    items += [Item("batch", {"id": batch, "tenant": tenant}, tenant, batch=batch) for batch, tenant in batches.items()]
    return items


def _line(change: Change) -> Item:
    event = change.event
    data = {
        "id": event.job,
        "workflow": change.workflow,
        "key": change.key,
        "run": change.run,
        "tenant": change.tenant,
        "status": event.status,
        "step": event.step,
        "event": event.kind,
        "at": utc(event.at),
        "batch": change.batch,
        "note": shortened(event.note),
    }
    kind = "call" if event.kind.startswith("call ") else "job"
    return Item(kind, data, change.tenant, event.job, change.workflow, change.batch, change.id)


def new_job(row: JobRow) -> Item:
    return _row(row, "submitted", row.created)


def seen_job(row: JobRow, at: float) -> Item:
    """The row of a job that somebody watches, with what no line of history tells."""
    item = _row(row, "seen", at)
    item.data.update(
        attempt=row.attempt,
        progress=_progress(row.progress),
        due=utc(row.due) if row.phase == "timed" else None,
        started=utc(row.started),
        finished=utc(row.finished),
        halting=row.gate or None,
        worker=row.worker,
    )
    return item


def _row(row: JobRow, event: str, at: float) -> Item:
    data = {
        "id": row.id,
        "workflow": row.workflow,
        "key": row.key,
        "run": row.run,
        "tenant": row.tenant,
        "status": row.status,
        "step": row.step,
        "event": event,
        "at": utc(at),
        "batch": row.batch,
        "note": shortened(row.error or row.reason),
    }
    return Item("job", data, row.tenant, row.id, row.workflow, row.batch)


def _progress(text: str | None) -> dict[str, Any] | None:
    return dict(zip(("done", "total", "note"), from_json(text), strict=False)) if text else None


def seen_batch(row: BatchRow) -> Item:
    data = {
        "id": row.id,
        "tenant": row.tenant,
        "key": row.key,
        "generation": row.generation,
        "members": row.members,
        "completed": row.completed,
        "failed": row.failed,
        "canceled": row.canceled,
        "sealed": utc(row.sealed),
        "finished": utc(row.finished),
        "follow_up": row.follow_up,
    }
    return Item("batch", data, row.tenant, batch=row.id)


def worker_item(worker: str, change: str) -> Item:
    return Item("worker", {"id": worker, "change": change})


def summed_up(items: Sequence[Item]) -> list[Item]:
    """Few items as they are; of many, how many jobs have changed to which status."""
    jobs = [item for item in items if item.kind == "job"]
    if len(jobs) <= MOST_ONE_BY_ONE:
        return list(items)
    statuses = Counter(item.data["status"] for item in jobs)
    rest = [item for item in items if item.kind != "job"][-MOST_ONE_BY_ONE:]
    return [Item("jobs", {"changed": len(jobs), "statuses": dict(statuses)}), *rest]


def shortened(note: str | None) -> str | None:
    return note if note is None or len(note) <= NOTE_LENGTH else note[: NOTE_LENGTH - 1] + "…"
