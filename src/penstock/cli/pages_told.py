"""What the command line tells of a ledger beyond its overview: batches that were never sent, files that were left out,
dead pages whose label is gone, and why a run does not get on."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, fields
from typing import Any

from penstock.cli.output import harmless
from penstock.engine.engine import Engine
from penstock.engine.errors import Transient
from penstock.engine.model import Job
from penstock.pipelines.pages import reading
from penstock.pipelines.pages.model import Run
from penstock.pipelines.pages.planning import no_such_state
from penstock.pipelines.pages.reading import BookRow, Overview
from penstock.times import ago

SHOWN_LEFT_OUT = 5


@dataclass(slots=True, frozen=True, kw_only=True)
class Told(Overview):
    """An overview in which only what was sent is in flight."""

    unsent_batches: int = 0
    unsent_pages: int = 0
    """Of batches that are put together and wait to be sent."""
    labels_gone: int = 0
    """Dead pages whose label is no longer there; they are not among the others."""

    @property
    def blocked(self) -> int:
        totals = self.totals
        return totals.pages - totals.done - totals.flying - totals.dead - totals.ready - self.unsent_pages


async def overview(engine: Engine, ledger: str, run: Run) -> Told:
    plain = await reading.overview(engine, ledger, run)
    read = reading.ledger_of(engine, ledger).read
    ((batches, pages),) = await read(
        "SELECT COUNT(*), COALESCE(SUM(size), 0) FROM pages_batches WHERE ledger = :ledger AND state = 'planned'"
    )
    ((dead,),) = await read("SELECT COUNT(*) FROM pages_failures WHERE ledger = :ledger AND dead = 1")
    totals = plain.totals
    known: dict[str, Any] = {field.name: getattr(plain, field.name) for field in fields(plain)}
    return Told(
        **known
        | {
            # A page may have lost its label since it was put into its batch.
            "totals": dataclasses.replace(totals, flying=max(totals.flying - int(pages), 0)),
            "batches_active": plain.batches_active - batches,
        },
        unsent_batches=batches,
        unsent_pages=min(int(pages), totals.flying),
        # One with an output that nobody has looked at yet is dead only until somebody does.
        labels_gone=max(dead - totals.dead, 0) if not totals.found else 0,
    )


async def open_books(engine: Engine, ledger: str, most: int) -> list[BookRow]:
    """The first books that are not done; what waits to be sent is not in flight."""
    unsent = dict(
        await reading.ledger_of(engine, ledger).read(
            "SELECT f.book, COUNT(*) FROM pages_flights f JOIN pages_batches b"
            " ON b.ledger = f.ledger AND b.number = f.batch"
            " WHERE f.ledger = :ledger AND b.state = 'planned' GROUP BY f.book"
        )
    )
    found = await reading.books(engine, ledger, only="open", limit=most)
    return [dataclasses.replace(book, flying=max(book.flying - unsent.get(book.book, 0), 0)) for book in found]


async def left_out(engine: Engine, ledger: str) -> list[tuple[str, str]]:
    """(path, reason) of the first files and folders that are no page and no book."""
    rows = await reading.ledger_of(engine, ledger).read(
        f"SELECT path, reason FROM pages_ignored WHERE ledger = :ledger ORDER BY path LIMIT {SHOWN_LEFT_OUT:d}"
    )
    return [(path, reason) for path, reason in rows]


async def not_in_ledger(engine: Engine, ledger: str, detail: dict[str, Any]) -> str | None:
    """What is wrong with a state, a school or a year that no book of the ledger has; None where one has."""
    named = {name: detail[name] for name in ("state", "school", "year") if name in detail}
    if not named or await reading.books(engine, ledger, **named, limit=1):
        return None
    read = reading.ledger_of(engine, ledger).read
    state = str(detail["state"])
    there = [name for (name,) in await read("SELECT DISTINCT state FROM pages_books WHERE ledger = :ledger")]
    if state not in there:
        return no_such_state([state], there, "the ledger of this output folder")
    if len(named) > 1 and not await reading.books(engine, ledger, state=state, school=detail["school"], limit=1):
        return f"no school {detail['school']} of {state} in the ledger of this output folder"
    return f"no year {detail['year']} of {detail['school']}, {state} in the ledger of this output folder"


def trouble(job: Job) -> str:
    """Why the run's step failed and is tried again; empty where it is not."""
    if job.final or job.status == "paused" or not job.error:
        return ""
    return harmless(job.error.removeprefix(f"{Transient.__name__}: "))


def trouble_text(job: Job, now: float) -> str:
    """The same, with when it is tried again."""
    words = trouble(job)
    if not words:
        return ""
    again = f"; the run is tried again {ago(job.due, now)}" if job.due is not None and job.due > now else ""
    return f"{words}{again}"
