"""What people ask about a run: how far it is, its books, one page, its batches, its failures. Reads only, bounded, and
by the ledger, so that every run on the same output folder answers alike."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.engine.engine import Engine
from penstock.engine.errors import InvalidRequest, NotFound
from penstock.pipelines.pages import rules
from penstock.pipelines.pages.images import find_image
from penstock.pipelines.pages.ledger import Ledger
from penstock.pipelines.pages.ledger_rows import Totals
from penstock.pipelines.pages.model import PageIdentifier, Run
from penstock.pipelines.pages.prompts.context import PageContext, context_of, split_provenance
from penstock.pipelines.pages.rules import Numbering

GROUPS = ("type", "state", "school")


class _Reader:
    """An engine, as a ledger is read through it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def read(self, statement: Any) -> list[tuple[Any, ...]]:
        return await self._engine.read(statement)

    def write(self, statement: Any) -> None:
        raise AssertionError("who only reads does not write")


def ledger_of(engine: Engine, ledger: str) -> Ledger:
    return Ledger(ledger, _Reader(engine))


@dataclass(slots=True, frozen=True)
class Overview:
    """How far a ledger is. Money is millionths of a dollar. `pace`: pages done an hour, of late. `slots` batches of
    `batch_size` pages are what the run sends at once, where it is known."""

    totals: Totals
    batches_active: int
    batches_ended: int
    cost: int
    failed_attempts: int
    ignored: int
    wishes: int
    scanned: float | None
    longest_chain: int
    pace: float | None
    batch_seconds: float | None
    """How long a batch took, in the middle of the last ones."""

    batches_planned: int = 0
    """Of those that are active: not sent yet."""

    pages_planned: int = 0
    """Of those in flight: in batches that are not sent yet."""

    pages_left: int = 0
    """In books where something is in flight or can run: what waits behind dead pages alone comes to nothing."""

    slots: int | None = None
    batch_size: int | None = None

    @property
    def blocked(self) -> int:
        """Pages that wait behind a dead one, or for a page in flight or one that can run."""
        told = self.totals
        return told.pages - told.done - told.flying - told.dead - told.ready

    @property
    def seconds_left(self) -> float | None:
        """The larger of two: pages of a chain go one after the other, and no more pages go at once than there are slots
        for; where these are not known, no more than of late."""
        if not self.longest_chain:
            return 0.0
        if self.batch_seconds is None:
            return None
        by_chain = self.longest_chain * self.batch_seconds
        if self.slots and self.batch_size:
            return max(by_chain, math.ceil(self.pages_left / (self.slots * self.batch_size)) * self.batch_seconds)
        return max(by_chain, self.pages_left / self.pace * 3600) if self.pace else by_chain


@dataclass(slots=True, frozen=True)
class BookRow:
    """One book: `states` has a letter for each page (see `rules`), with a blank where a chain ends."""

    book: str
    state: str
    school: str
    year: int
    pages: str
    states: str
    total: int
    done: int
    flying: int
    dead: int
    ready: tuple[int, ...] = ()

    def cells(self) -> list[tuple[int, str, str] | None]:
        """(number, name, state) of each page in order, None for a gap. The state is `ready` where it can run now."""
        numbering = Numbering(self.pages)
        ready = frozenset(self.ready)
        numbers = iter(numbering)
        found: list[tuple[int, str, str] | None] = []
        for letter in self.states:
            if letter == rules.GAP:
                found.append(None)
                continue
            number = next(numbers)
            state = "ready" if number in ready else rules.STATE_NAMES[letter]
            found.append((number, numbering.name(number), state))
        return found


@dataclass(slots=True, frozen=True)
class BatchView:
    number: int
    job: str
    call: str | None
    state: str
    size: int
    ok: int
    failed: int
    cost: int
    created: float
    submitted: float | None
    ended: float | None
    outcome: str | None
    errors: tuple[str, ...]
    model: str
    prompt: str
    version: str
    call_state: str | None
    provider_id: str | None
    call_done: int | None
    call_error: str | None


@dataclass(slots=True, frozen=True)
class Attempt:
    """One failed attempt at a page."""

    id: int
    key: str
    book: str
    number: int
    batch: int
    attempt: int
    counted: bool
    at: float
    type: str
    message: str
    raw: str | None
    parsed: str | None
    model: str | None
    prompt: str | None
    version: str | None
    generation: str | None


@dataclass(slots=True, frozen=True)
class PageView:
    """One page, whole."""

    page: PageIdentifier
    key: str
    book: str
    state: str
    failures: int
    dead: bool
    error: str | None
    batch: int | None
    image: Path | None
    output: Any
    provenance: dict[str, Any] | None
    context: PageContext | None
    before: str | None
    after: str | None
    attempts: tuple[Attempt, ...] = field(default=())


async def overview(engine: Engine, ledger: str, run: Run | None = None) -> Overview:
    """`run`: with it, how long the rest may take is told by what the run sends at once."""
    told = ledger_of(engine, ledger)
    totals = await told.totals()
    ((active, planned, pages_planned, ended, cost),) = await told.read(
        "SELECT COALESCE(SUM(CASE WHEN state <> 'ended' THEN 1 ELSE 0 END), 0),"
        " COALESCE(SUM(CASE WHEN state = 'planned' THEN 1 ELSE 0 END), 0),"
        " COALESCE(SUM(CASE WHEN state = 'planned' THEN size ELSE 0 END), 0),"
        " COALESCE(SUM(CASE WHEN state = 'ended' THEN 1 ELSE 0 END), 0), COALESCE(SUM(cost), 0)"
        " FROM pages_batches WHERE ledger = :ledger"
    )
    ((attempts,),) = await told.read("SELECT COUNT(*) FROM pages_attempts WHERE ledger = :ledger")
    ((ignored,),) = await told.read("SELECT COUNT(*) FROM pages_ignored WHERE ledger = :ledger")
    ((wishes,),) = await told.read("SELECT COUNT(*) FROM pages_wishes WHERE ledger = :ledger")
    scanned = await told.read("SELECT scanned FROM pages_ledgers WHERE id = :ledger")
    ((longest,),) = await told.read("SELECT COALESCE(MAX(remaining), 0) FROM pages_ready WHERE ledger = :ledger")
    ((left,),) = await told.read(
        "SELECT COALESCE(SUM(b.total - b.done - b.dead), 0) FROM pages_books b WHERE b.ledger = :ledger AND"
        " (b.flying > 0 OR EXISTS (SELECT 1 FROM pages_ready r WHERE r.ledger = b.ledger AND r.book = b.book))"
    )
    flying = await _longest_flying(told) if totals.flying else 0
    last = await told.read(
        "SELECT submitted, ended, ok FROM pages_batches WHERE ledger = :ledger AND state = 'ended'"
        " AND submitted IS NOT NULL ORDER BY number DESC LIMIT 50"
    )
    took = sorted(ended - submitted for submitted, ended, _ in last)
    return Overview(
        totals=totals,
        batches_active=int(active),
        batches_ended=int(ended),
        cost=int(cost),
        failed_attempts=attempts,
        ignored=ignored,
        wishes=wishes,
        scanned=scanned[0][0] if scanned else None,
        longest_chain=max(int(longest), flying),
        pace=_pace(last),
        batch_seconds=took[len(took) // 2] if took else None,
        batches_planned=int(planned),
        pages_planned=min(int(pages_planned), totals.flying),
        pages_left=int(left),
        slots=run.execution.max_concurrent_batches if run else None,
        batch_size=run.execution.batch_size_limit if run else None,
    )


@dataclass(slots=True, frozen=True)
class DeadPages:
    """An output folder with dead pages. `job`: the last run on it, if that is still known; `blocks`: pages behind them
    wait."""

    output_dir: Path
    job: str | None
    blocks: bool
    count: int


async def dead_folders(engine: Engine, tenant: str | None = None, *, limit: int = 100) -> list[DeadPages]:
    """Every output folder of a tenant, or of all, that has dead pages, most first."""
    whose = "" if tenant is None else " AND l.tenant = :tenant"
    rows = await engine.read(
        (
            "SELECT l.output_dir, j.id, l.on_dead, SUM(b.dead) FROM pages_books b JOIN pages_ledgers l ON"
            f" l.id = b.ledger LEFT JOIN jobs j ON j.id = l.job WHERE b.dead > 0{whose}"
            f" GROUP BY l.output_dir, j.id, l.on_dead ORDER BY SUM(b.dead) DESC, l.output_dir LIMIT {limit:d}",
            {} if tenant is None else {"tenant": tenant},
        )
    )
    return [DeadPages(Path(folder), job, on_dead == "block", int(count)) for folder, job, on_dead, count in rows]


def _pace(last: Sequence[tuple[float, float, int]]) -> float | None:
    if len(last) < 2:
        return None
    hours = (max(row[1] for row in last) - min(row[0] for row in last)) / 3600
    return sum(row[2] for row in last) / hours if hours > 0 else None


async def _longest_flying(told: Ledger) -> int:
    """What is left of chains whose next page is in flight; the longest few books tell."""
    rows = await told.read(
        "SELECT states FROM pages_books WHERE ledger = :ledger AND flying > 0 ORDER BY total - done DESC LIMIT 50"
    )
    return max((len(run) for (states,) in rows for run in _runs(states)), default=0)


def _runs(states: str) -> list[str]:
    chains = states.replace(rules.DONE, rules.GAP).replace(rules.FOUND, rules.GAP).replace(rules.DEAD, rules.GAP)
    return [run for run in chains.split(rules.GAP) if run]


async def books(
    engine: Engine,
    ledger: str,
    *,
    state: str | None = None,
    school: str | None = None,
    year: int | None = None,
    only: str | None = None,
    after: str | None = None,
    limit: int = 50,
) -> list[BookRow]:
    """Books in the order of their paths, after the one named `after`. `only`: those with pages that are `dead`,
    `flying`, or `open` (not all done)."""
    told = ledger_of(engine, ledger)
    where, named = ["ledger = :ledger"], dict[str, Any]()
    for column, value in (("state", state), ("school", school), ("year", year)):
        if value is not None:
            where.append(f"{column} = :{column}")
            named[column] = value
    if only is not None:
        conditions = {"dead": "dead > 0", "flying": "flying > 0", "open": "done < total"}
        if only not in conditions:
            raise InvalidRequest(f"only {only!r}: use {', '.join(conditions)}")
        where.append(conditions[only])
    if after is not None:
        where.append("book > :after")
        named["after"] = after
    rows = await told.read(
        "SELECT book, state, school, year, pages, states, total, done, flying, dead FROM pages_books"
        f" WHERE {' AND '.join(where)} ORDER BY book LIMIT {limit:d}",
        **named,
    )
    ready: dict[str, list[int]] = {}
    for book, number in await told.read_among(
        "SELECT book, number FROM pages_ready WHERE ledger = :ledger AND book IN ({})", [row[0] for row in rows]
    ):
        ready.setdefault(book, []).append(number)
    return [BookRow(*row, tuple(ready.get(row[0], ()))) for row in rows]  # type: ignore[call-arg]


async def page(engine: Engine, run: Run, ledger: str, key: str) -> PageView:
    """One page, with its output, its context and every failed attempt; `NotFound` where the ledger has no such page."""
    try:
        named = PageIdentifier.parse(key)
    except ValueError as error:
        raise NotFound(str(error)) from error
    book = f"{named.state}/{named.school}/{named.year}"
    told = ledger_of(engine, ledger)
    found = (await told.books([book])).get(book)
    if found is None or found.numbering.place(named.page) is None:
        raise NotFound(f"there is no page {key} in this ledger")
    exact = found.page(named.page)
    ready = await told.read(
        "SELECT 1 FROM pages_ready WHERE ledger = :ledger AND book = :book AND number = :number",
        book=book,
        number=named.page,
    )
    letter = rules.state_of(found.numbering, found.states, named.page) or rules.WORK
    failed = await told.read(
        "SELECT failures, dead, message FROM pages_failures"
        " WHERE ledger = :ledger AND book = :book AND number = :number",
        book=book,
        number=named.page,
    )
    flight = await told.read(
        "SELECT batch, context FROM pages_flights WHERE ledger = :ledger AND book = :book AND number = :number",
        book=book,
        number=named.page,
    )
    output, provenance, context, image = await asyncio.to_thread(_on_disk, run, exact, found.numbering)
    if flight and flight[0][1]:
        context = PageContext.model_validate_json(flight[0][1])
    return PageView(
        page=exact,
        key=exact.id_string,
        book=book,
        state="ready" if ready else rules.STATE_NAMES[letter],
        failures=failed[0][0] if failed else 0,
        dead=bool(failed and failed[0][1]),
        error=failed[0][2] if failed else None,
        batch=flight[0][0] if flight else (provenance or {}).get("batch"),
        image=image,
        output=output,
        provenance=provenance,
        context=context,
        before=_neighbour(found.numbering, exact, -1),
        after=_neighbour(found.numbering, exact, 1),
        attempts=tuple(await attempts(engine, ledger, book=book, number=named.page, whole=True)),
    )


def _on_disk(
    run: Run, page: PageIdentifier, numbering: Numbering
) -> tuple[Any, dict[str, Any] | None, PageContext | None, Path | None]:
    folder = run.paths.output_dir / page.folder
    output, provenance = _read(folder / f"{page.spelling}.json")
    context = None
    if provenance is not None and provenance.get("context"):
        try:
            context = PageContext.model_validate(provenance["context"])
        except ValueError:
            context = None
    elif provenance is None and numbering.place(page.page - 1) is not None:
        context = context_of(_read(folder / f"{numbering.name(page.page - 1)}.json")[0])
    return output, provenance, context, find_image(run.paths.image_source_dir, page)


def _read(path: Path) -> tuple[Any, dict[str, Any] | None]:
    try:
        return split_provenance(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return None, None


def _neighbour(numbering: Numbering, page: PageIdentifier, step: int) -> str | None:
    number = page.page + step
    if numbering.place(number) is None:
        return None
    told = page.model_copy(update={"page": number, "name": numbering.name(number)})
    return told.id_string


async def batches(
    engine: Engine, ledger: str, *, active: bool | None = None, before: int | None = None, limit: int = 50
) -> list[BatchView]:
    """Newest first; `before` is the number of the last one of the page before."""
    where, named = ["b.ledger = :ledger"], dict[str, Any]()
    if active is not None:
        where.append("b.state <> 'ended'" if active else "b.state = 'ended'")
    if before is not None:
        where.append("b.number < :before")
        named["before"] = before
    rows = await ledger_of(engine, ledger).read(
        "SELECT b.number, b.job, b.call, b.state, b.size, b.ok, b.failed, b.cost, b.created, b.submitted, b.ended,"
        " b.outcome, b.errors, b.model, b.prompt, b.version, c.state, c.provider_id, c.done, c.error, c.model"
        " FROM pages_batches b LEFT JOIN calls c ON c.id = b.call"
        f" WHERE {' AND '.join(where)} ORDER BY b.number DESC LIMIT {limit:d}",
        **named,
    )
    return [
        BatchView(*row[:12], tuple(json.loads(row[12] or "[]")), row[13] or row[20] or "", *row[14:20])  # type: ignore[call-arg]
        for row in rows
    ]


async def attempts(
    engine: Engine,
    ledger: str,
    *,
    book: str | None = None,
    number: int | None = None,
    type: str | None = None,
    state: str | None = None,
    before: int | None = None,
    limit: int = 100,
    whole: bool = False,
) -> list[Attempt]:
    """Failed attempts, newest first; `whole`: with what Gemini answered."""
    where, named = ["a.ledger = :ledger"], dict[str, Any]()
    for column, value in (("book", book), ("number", number), ("type", type)):
        if value is not None:
            where.append(f"a.{column} = :{column}")
            named[column] = value
    if state is not None:
        where.append("substr(a.book, 1, :long) = :below")
        named |= {"below": f"{state}/", "long": len(state) + 1}
    if before is not None:
        where.append("a.id < :before")
        named["before"] = before
    answer = "a.raw, a.parsed" if whole else "NULL, NULL"
    rows = await ledger_of(engine, ledger).read(
        "SELECT a.id, a.key, a.book, a.number, a.batch, a.attempt, a.counted, a.at, a.type, a.message,"
        f" {answer}, b.model, b.prompt, b.version, b.generation FROM pages_attempts a"
        " LEFT JOIN pages_batches b ON b.ledger = a.ledger AND b.number = a.batch"
        f" WHERE {' AND '.join(where)} ORDER BY a.id DESC LIMIT {limit:d}",
        **named,
    )
    return [Attempt(*row[:6], bool(row[6]), *row[7:]) for row in rows]  # type: ignore[call-arg]


async def failure_groups(engine: Engine, ledger: str, by: str) -> list[tuple[str, int, int]]:
    """(group, failed attempts, pages) by `type`, `state` or `school`, most first."""
    if by not in GROUPS:
        raise InvalidRequest(f"by {by!r}: use {', '.join(GROUPS)}")
    if by == "type":
        rows = await ledger_of(engine, ledger).read(
            "SELECT type, COUNT(*), COUNT(DISTINCT key) FROM pages_attempts WHERE ledger = :ledger GROUP BY type"
        )
        counted = [(str(group), int(many), int(pages)) for group, many, pages in rows]
    else:
        rows = await ledger_of(engine, ledger).read(
            "SELECT book, COUNT(*), COUNT(DISTINCT key) FROM pages_attempts WHERE ledger = :ledger GROUP BY book"
        )
        sums: dict[str, list[int]] = {}
        for book, many, pages in rows:
            group = "/".join(book.split("/")[: 1 if by == "state" else 2])
            sums.setdefault(group, [0, 0])
            sums[group][0] += many
            sums[group][1] += pages
        counted = [(group, many, pages) for group, (many, pages) in sums.items()]
    return sorted(counted, key=lambda row: (-row[1], row[0]))


async def dead(engine: Engine, ledger: str, *, limit: int = 1000) -> list[tuple[str, int, str, str]]:
    """(key, failures, type, message) of the dead pages, by book and number."""
    rows = await ledger_of(engine, ledger).read(
        "SELECT key, failures, type, message FROM pages_failures WHERE ledger = :ledger AND dead = 1"
        f" ORDER BY book, number LIMIT {limit:d}"
    )
    return [(key, failures, kind, message) for key, failures, kind, message in rows]
