"""What a worker keeps of a run between two ticks: its open source, and the entries that come next. It is a shortcut,
never the truth: where it does not fit what the run says, it is made anew."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

from penstock.engine.context import Context
from penstock.engine.engine import Engine
from penstock.engine.errors import StepError
from penstock.pipelines.ingestion.bases import source_key
from penstock.pipelines.ingestion.filling import Held, held
from penstock.pipelines.ingestion.model import Entry, Known, Loaded
from penstock.pipelines.ingestion.plugins import Source, Tools
from penstock.pipelines.ingestion.sources import make_source
from penstock.pipelines.ingestion.statements import MOST, Reads, listed
from penstock.pipelines.ingestion.work import Work

AHEAD = 500
"""Entries that are looked up at once."""

_MOST_KEPT = 8
"""Open sources of runs between two ticks."""


class FoundAddresses:
    """The frontier of one source of a run, as rows."""

    def __init__(self, reads: Reads, run: str, source: int) -> None:
        self._reads = reads
        self._run = run
        self._source = source

    async def pending(self, after: int) -> AsyncIterator[tuple[int, str]]:
        while True:
            rows = await self._reads.read(
                (
                    "SELECT n, uri FROM kb_frontier WHERE run = :run AND source = :source AND n > :after"
                    " ORDER BY n LIMIT :limit",
                    {"run": self._run, "source": self._source, "after": after, "limit": AHEAD},
                )
            )
            for n, uri in rows:
                yield int(n), uri
            if len(rows) < AHEAD:
                return
            after = int(rows[-1][0])


@dataclass(slots=True)
class Living:
    """An open source, and how far it was read. `next` gives what an edition has of an entry beside it."""

    source: Source
    edition: int
    key: str
    number: int
    cursor: str | None
    entries: AsyncIterator[Entry]
    ahead: deque[tuple[Entry, Held | None]] = field(default_factory=deque)
    elsewhere: set[str] = field(default_factory=set)
    """Documents to which another address than their own has led."""
    read: dict[Entry, Loaded | StepError] = field(default_factory=dict)
    reading: asyncio.Task[None] | None = None
    """What was read before its turn, or is."""
    done: bool = False
    fresh: bool = True
    """Nothing was taken from it yet."""
    at_work: bool = True
    """Whether a tick uses it now."""

    async def next(self, ctx: Context) -> tuple[Entry, Held | None] | None:
        if not self.ahead:
            await self._look_ahead(ctx)
        if not self.ahead:
            return None
        taken = self.ahead.popleft()
        self.cursor = taken[0].cursor
        return taken

    def put_back(self, taken: tuple[Entry, Held | None], cursor: str | None) -> None:
        self.ahead.appendleft(taken)
        self.cursor = cursor

    async def reopen(self, cursor: str | None) -> None:
        """Go on with what was found meanwhile. The source stays: it may remember what it has seen."""
        closing = getattr(self.entries, "aclose", None)
        if closing is not None:
            await closing()
        self.entries, self.cursor = self.source.entries(cursor), cursor
        self.done, self.fresh = False, True

    @property
    def finds_its_way(self) -> bool:
        """Whether what it gives leads on to more: then it is not at its end before it was asked anew."""
        return hasattr(self.source, "seeds")

    @property
    def reads_ahead(self) -> bool:
        """Whether the source can read several at once, also before it is their turn."""
        return hasattr(self.source, "load_several")

    async def load(self, entry: Entry, known: Held | None, several: int) -> Loaded:
        """Read one, and with it those that come next where the source can."""
        if not self.reads_ahead:
            told = None if known is None else Known(known.uri, known.fingerprint, known.content_hash)
            return await self.source.load(entry, told)
        if self.reading is not None:
            reading, self.reading = self.reading, None
            await reading
        if entry not in self.read:
            await self._read([entry, *self._to_read(several - 1)])
        outcome = self.read.pop(entry)
        if isinstance(outcome, StepError):
            raise outcome
        return outcome

    def read_on(self, several: int) -> None:
        """Begin to read what comes next, while what was read is embedded and written."""
        if self.reads_ahead and self.reading is None and not self.read:
            coming = self._to_read(several)
            if coming:
                self.reading = asyncio.create_task(self._read(coming), name="penstock-read-on")

    async def forget_read(self) -> None:
        """What was read before its turn would be out of date by the time it is wanted."""
        reading, self.reading = self.reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        self.read.clear()

    async def _read(self, entries: list[Entry]) -> None:
        self.read = dict(zip(entries, await self.source.load_several(entries), strict=False))  # type: ignore[attr-defined]

    def _to_read(self, most: int) -> list[Entry]:
        return list(islice((entry for entry, known in self.ahead if not is_same(entry, known)), most))

    async def _look_ahead(self, ctx: Context) -> None:
        if self.done:
            return
        coming: list[Entry] = []
        async for entry in self.entries:
            coming.append(entry)
            if len(coming) == AHEAD:
                break
        else:
            self.done = True
        known = {each.uri: each for each in await held(ctx, self.edition, self.key, [entry.uri for entry in coming])}
        self.ahead.extend((entry, known.get(entry.uri)) for entry in coming)

    async def close(self) -> None:
        await self.forget_read()
        closing = getattr(self.entries, "aclose", None)
        if closing is not None:
            await closing()
        await self.source.close()


_kept: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Living]] = WeakKeyDictionary()


def tools_for(engine: Engine, run: str, source: int) -> Tools:
    """What the sources of a run use. They live longer than a tick."""

    async def pool() -> Any:
        return (await engine.calls.ready("pool")).pool

    frontier = FoundAddresses(engine, run, source)
    return Tools(pool=pool, clock=engine.clock, settings=engine.settings, frontier=frontier)


async def living(work: Work, ctx: Context) -> Living:
    """The source that the run reads now, at the place where the run is."""
    kept = _kept.setdefault(asyncio.get_running_loop(), {})
    found = kept.get(work.run)
    if found is not None and (found.number, found.cursor, found.edition) == (work.source, work.cursor, work.edition):
        found.at_work = True
        return found
    await let_go(work.run)
    spec = work.ask.config.sources[work.source]
    source = make_source(spec, tools_for(ctx.engine, work.run, work.source))
    entries = failed_entries(work, ctx.engine) if work.ask.errors_only else source.entries(work.cursor)
    made = Living(source, work.edition, source_key(spec), work.source, work.cursor, entries)
    kept[work.run] = made
    resting = [run for run, each in kept.items() if not each.at_work]
    for run in resting[: max(0, len(kept) - _MOST_KEPT)]:
        await let_go(run)
    return made


def is_same(entry: Entry, known: Held | None) -> bool:
    """Whether an edition has it as it is, by all that can be told without reading it."""
    return known is not None and entry.fingerprint is not None and entry.fingerprint == known.fingerprint


async def at_rest(run: str) -> None:
    """A tick is over, and nobody knows when the next begins."""
    found = _kept.get(asyncio.get_running_loop(), {}).get(run)
    if found is not None:
        found.at_work = False
        await found.forget_read()


async def let_go(run: str) -> None:
    """The run is over, or goes on elsewhere."""
    found = _kept.get(asyncio.get_running_loop(), {}).pop(run, None)
    if found is not None:
        await found.close()


async def unknown_addresses(reads: Reads, run: str, source: int, uris: Sequence[str]) -> tuple[list[str], int]:
    """Those of the addresses that the run has not found yet, and the highest number that an address has."""
    known: set[str] = set()
    of_run = {"run": run, "source": source}
    for start in range(0, len(uris), MOST):
        names, values = listed(uris[start : start + MOST])
        rows = await reads.read(
            (
                f"SELECT uri FROM kb_frontier WHERE run = :run AND source = :source AND uri IN {names}",
                {**of_run, **values},
            )
        )
        known.update(uri for (uri,) in rows)
    ((last,),) = await reads.read(
        ("SELECT COALESCE(MAX(n), 0) FROM kb_frontier WHERE run = :run AND source = :source", of_run)
    )
    return [uri for uri in uris if uri not in known], int(last)


async def addresses_left(reads: Reads, run: str, source: int, cursor: str | None) -> bool:
    """Whether the run has found addresses that it did not visit: a website may be larger than it wants to read."""
    if cursor is not None and not cursor.isdigit():
        return False
    rows = await reads.read(
        (
            "SELECT 1 FROM kb_frontier WHERE run = :run AND source = :source AND n > :after LIMIT 1",
            {"run": run, "source": source, "after": int(cursor or 0)},
        )
    )
    return bool(rows)


async def failed_entries(work: Work, reads: Reads) -> AsyncIterator[Entry]:
    """The documents that an earlier run could not load: what `resume --errors` goes through. The cursor is the error's
    own id."""
    after = work.cursor or ""
    while True:
        rows = await reads.read(
            (
                "SELECT id, uri FROM kb_errors WHERE edition = :edition AND source = :source"
                " AND document IS NULL AND run <> :run AND id > :after ORDER BY id LIMIT :limit",
                {
                    "edition": work.edition, "source": source_key(work.ask.config.sources[work.source]),
                    "run": work.run, "after": after, "limit": AHEAD,
                },
            )
        )  # fmt: skip
        for id, uri in rows:
            yield Entry(uri, id)
        if len(rows) < AHEAD:
            return
        after = rows[-1][0]
