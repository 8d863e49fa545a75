"""The ledger of one output folder: what a tick reads of it, and the statements that its commit carries out.

Reads see what is stored, so whoever has written something reads again only after a checkpoint. Every statement is plain
SQL that both databases take.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from pydantic_core import from_json, to_json

from penstock.engine.identity import made_storable
from penstock.pipelines.pages import rules
from penstock.pipelines.pages.ledger_rows import BatchRow, Book, Failure, Flight, Totals
from penstock.pipelines.pages.model import OnDeadPage
from penstock.pipelines.pages.rules import Head, Numbering, Strikes
from penstock.pipelines.pages.walk import UNKNOWN, Known, Sighting

MOST_NAMED = 500
"""Values in one `IN (…)`."""

MOST_AT_ONCE = 64
"""Rows in one `INSERT`."""


class Desk(Protocol):
    """Where the ledger is read and written: a step's context."""

    async def read(self, statement: Any) -> list[tuple[Any, ...]]: ...

    def write(self, statement: Any) -> None: ...


def ledger_id(output_dir: Path) -> str:
    """The same for the same folder, whoever asks."""
    return hashlib.sha256(str(output_dir).encode("utf-8", "surrogateescape")).hexdigest()[:20]


def called(number: int) -> str:
    """The key of a batch's remote call."""
    return f"batch-{number:06d}"


class Apart:
    """What is written here joins a commit only when it is complete."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._written: list[Any] = []

    async def read(self, statement: Any) -> list[tuple[Any, ...]]:
        return await self._desk.read(statement)

    def write(self, statement: Any) -> None:
        self._written.append(statement)

    def hand_over(self) -> None:
        for statement in self._written:
            self._desk.write(statement)


@dataclass(slots=True)
class Ledger:
    id: str
    desk: Desk
    on_dead: OnDeadPage = "block"

    def write(self, sql: str, **values: Any) -> None:
        self.desk.write((sql, {**values, "ledger": self.id}))

    async def read(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        return await self.desk.read((sql, {**values, "ledger": self.id}))

    async def read_among(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """`sql` with `{}` in the place of a list of values, which may be long."""
        rows: list[tuple[Any, ...]] = []
        for start in range(0, len(values), MOST_NAMED):
            some = values[start : start + MOST_NAMED]
            named = {f"v{number}": value for number, value in enumerate(some)}
            rows += await self.read(sql.replace("{}", ", ".join(f":{name}" for name in named)), **named)
        return rows

    async def totals(self) -> Totals:
        ((books, pages, done, flying, dead, found),) = await self.read(
            "SELECT COUNT(*), COALESCE(SUM(total), 0), COALESCE(SUM(done), 0), COALESCE(SUM(flying), 0),"
            " COALESCE(SUM(dead), 0), COALESCE(SUM(found), 0) FROM pages_books WHERE ledger = :ledger"
        )
        ((ready,),) = await self.read("SELECT COUNT(*) FROM pages_ready WHERE ledger = :ledger")
        return Totals(books, int(pages), int(done), int(flying), int(dead), int(found), ready)

    # What was noted of folders.

    async def known(self) -> dict[str, Known]:
        rows = await self.read("SELECT book, label_seen, output_seen FROM pages_books WHERE ledger = :ledger")
        return {book: Known(label, output) for book, label, output in rows}

    async def folders(self) -> dict[str, int]:
        return dict(await self.read("SELECT path, seen FROM pages_folders WHERE ledger = :ledger"))

    def note_folders(self, before: dict[str, int], after: dict[str, int]) -> None:
        for path in before.keys() - after.keys():
            self.write("DELETE FROM pages_folders WHERE ledger = :ledger AND path = :path", path=path)
        for path, seen in after.items():
            if before.get(path) != seen:
                self.write(
                    "INSERT INTO pages_folders (ledger, path, seen) VALUES (:ledger, :path, :seen)"
                    " ON CONFLICT (ledger, path) DO UPDATE SET seen = excluded.seen",
                    path=path,
                    seen=seen,
                )

    def forget_folders(self, prefix: str = "") -> None:
        """Everything is looked at again; of the trees below `prefix` only, where one is given."""
        below = f"{prefix}/"
        where = "" if not prefix else " AND (path = :prefix OR substr(path, 1, :long) = :below)"
        named = {} if not prefix else {"prefix": prefix, "below": below, "long": len(below)}
        self.write(f"UPDATE pages_folders SET seen = {UNKNOWN} WHERE ledger = :ledger{where}", **named)
        self.write(f"DELETE FROM pages_ignored WHERE ledger = :ledger{where}", **named)
        where = where.replace("path", "book")
        self.write(
            f"UPDATE pages_books SET label_seen = {UNKNOWN}, output_seen = {UNKNOWN} WHERE ledger = :ledger{where}",
            **named,
        )

    def note_ignored(self, ignored: dict[str, str]) -> None:
        for path, reason in ignored.items():
            self.write(
                "INSERT INTO pages_ignored (ledger, path, reason) VALUES (:ledger, :path, :reason)"
                " ON CONFLICT (ledger, path) DO UPDATE SET reason = excluded.reason",
                path=made_storable(path),
                reason=reason,
            )

    def _forget_ignored(self, book: str) -> None:
        below = f"{book}/"
        self.write(
            "DELETE FROM pages_ignored WHERE ledger = :ledger AND substr(path, 1, :long) = :below",
            below=below,
            long=len(below),
        )

    # Books.

    async def books(self, names: Sequence[str]) -> dict[str, Book]:
        rows = await self.read_among(
            "SELECT book, state, school, year, pages, states, served, label_seen, output_seen FROM pages_books"
            " WHERE ledger = :ledger AND book IN ({})",
            list(dict.fromkeys(names)),
        )
        return {row[0]: _book(row) for row in rows}

    def doubt_outputs(self, prefix: str = "") -> None:
        """Outputs that count as done are to be held against the schema again."""
        below = f"{prefix}/"
        where = "" if not prefix else " AND (book = :prefix OR substr(book, 1, :long) = :below)"
        named = {} if not prefix else {"prefix": prefix, "below": below, "long": len(below)}
        self.write(
            "UPDATE pages_books SET states = replace(states, 'd', '?'), found = done"
            f" WHERE ledger = :ledger AND done > 0{where}",
            **named,
        )

    async def books_with(self, column: str, most: int) -> list[Book]:
        """Some books of which some pages are `dead`, `found` or `flying`."""
        assert column in ("dead", "found", "flying")
        rows = await self.read(
            "SELECT book, state, school, year, pages, states, served, label_seen, output_seen FROM pages_books"
            f" WHERE ledger = :ledger AND {column} > 0 ORDER BY book LIMIT {most:d}"
        )
        return [_book(row) for row in rows]

    def put(self, book: Book) -> None:
        """Store the book as it is now, and with it who can run."""
        counted = rules.tally(book.states)
        values = {
            "book": book.book,
            "state": book.state,
            "school": book.school,
            "year": book.year,
            "pages": book.numbering.text,
            "states": book.states,
            "total": counted.total,
            "done": counted.done,
            "flying": counted.flying,
            "dead": counted.dead,
            "found": counted.found,
            "served": book.served,
            "label_seen": book.label_seen,
            "output_seen": book.output_seen,
        }
        self.write(_PUT_BOOK, **values)
        if not book.new:
            self.write("DELETE FROM pages_ready WHERE ledger = :ledger AND book = :book", book=book.book)
        self._put_ready(book, rules.heads(book.numbering, book.states, self.on_dead))
        book.new = False

    def _put_ready(self, book: Book, heads: Sequence[Head]) -> None:
        # A book with many gaps has many of them. Sizes are powers of two, so that there are few statements to prepare.
        start = 0
        while start < len(heads):
            count = min(MOST_AT_ONCE, 1 << (len(heads) - start).bit_length() - 1)
            values: dict[str, Any] = {"book": book.book, "served": book.served}
            for at, head in enumerate(heads[start : start + count]):
                values[f"n{at}"], values[f"r{at}"] = head.number, head.remaining
            self.write(_put_ready(count), **values)
            start += count

    async def change(self, pages: Sequence[Sequence[Any]], letter: str, *, only: str | None = None) -> None:
        """The same new state for (book, number), wherever they are; with `only`, for those that are in this state.
        Their outputs are looked for again: one may have been put there while nobody looked."""
        numbers: dict[str, list[int]] = {}
        for book, number in pages:
            numbers.setdefault(book, []).append(number)
        for name, known in (await self.books(list(numbers))).items():
            now = {number: rules.state_of(known.numbering, known.states, number) for number in numbers[name]}
            known.change({number: letter for number, state in now.items() if only in (None, state)})
            known.output_seen = UNKNOWN
            self.put(known)

    def drop_books(self, books: Iterable[str]) -> None:
        for book in books:
            self.write("DELETE FROM pages_books WHERE ledger = :ledger AND book = :book", book=book)
            self.write("DELETE FROM pages_ready WHERE ledger = :ledger AND book = :book", book=book)

    async def take_in(self, sightings: Sequence[Sighting]) -> None:
        """What a walk saw becomes what is known. Of pages that come back it is remembered which fly or died."""
        names = [sighting.book for sighting in sightings]
        known = await self.books(names)
        history = await self._history([sighting.book for sighting in sightings if sighting.labels is not None])
        waiting = await self._unpublished(names)
        for sighting in sightings:
            book = known.get(sighting.book)
            if book is None:
                book = Book(sighting.book, sighting.state, sighting.school, sighting.year, Numbering(""), "", new=True)
            if sighting.labels is not None:
                written, left_out = rules.numbered(sighting.labels)
                if not book.new:
                    self._forget_ignored(sighting.book)
                if left_out:
                    self.note_ignored(_left_out(sighting.book, left_out))
                new = Numbering(written)
                book.states = rules.all_to_do(written) if book.new else rules.moved(book.numbering, book.states, new)
                before, book.numbering = book.numbering, new
                past = history.get(sighting.book, {})
                book.change({number: letter for number, letter in past.items() if before.place(number) is None})
            if sighting.outputs is not None and (sighting.outputs or not book.new):
                unpublished = waiting.get(sighting.book, frozenset())
                book.states = rules.seen(book.numbering, book.states, sighting.outputs, unpublished)
            book.label_seen, book.output_seen = sighting.label_seen, sighting.output_seen
            self.put(book)

    async def _history(self, books: Sequence[str]) -> dict[str, dict[int, str]]:
        found: dict[str, dict[int, str]] = {}
        if not books:
            return found
        ((any_dead,),) = await self.read("SELECT COUNT(*) FROM pages_failures WHERE ledger = :ledger AND dead = 1")
        ((any_flying,),) = await self.read("SELECT COUNT(*) FROM pages_flights WHERE ledger = :ledger")
        if any_dead:
            for book, number in await self.dead_among(books):
                found.setdefault(book, {})[number] = rules.DEAD
        if any_flying:
            for book, number in await self.read_among(
                "SELECT book, number FROM pages_flights WHERE ledger = :ledger AND book IN ({})", books
            ):
                found.setdefault(book, {})[number] = rules.FLYING
        return found

    async def dead_among(self, books: Sequence[str]) -> frozenset[tuple[str, int]]:
        """(book, number) of the pages of these books that died, whatever their letters say now."""
        rows = await self.read_among(
            "SELECT book, number FROM pages_failures WHERE ledger = :ledger AND dead = 1 AND book IN ({})", books
        )
        return frozenset((book, number) for book, number in rows)

    async def _unpublished(self, books: Sequence[str]) -> dict[str, frozenset[str]]:
        """Outputs whose row is stored and whose file has not its own name yet."""
        found: dict[str, set[str]] = {}
        for book, name, _ in await self.staged():
            found.setdefault(book, set()).add(name)
        return {book: frozenset(names) for book, names in found.items()}

    # Batches and what is in flight.

    async def active(self) -> list[BatchRow]:
        rows = await self.read(
            "SELECT number, job, call, state, size, created, model, prompt, version, generation FROM pages_batches"
            " WHERE ledger = :ledger AND state <> 'ended' ORDER BY number"
        )
        return [BatchRow(*row) for row in rows]

    async def flights(self, batch: int) -> list[Flight]:
        rows = await self.read(
            "SELECT book, number, key, batch, image, context, without FROM pages_flights"
            " WHERE ledger = :ledger AND batch = :batch ORDER BY book, number",
            batch=batch,
        )
        return [Flight(*row) for row in rows]

    async def next_pages(self, most: int) -> list[tuple[str, int]]:
        """Longest remaining chain first, then the book that was served longest ago."""
        rows = await self.read(
            "SELECT book, number FROM pages_ready WHERE ledger = :ledger"
            f" ORDER BY remaining DESC, served, book, number LIMIT {most:d}"
        )
        return [(book, number) for book, number in rows]

    def open_batch(self, number: int, job: str, now: float, *, size: int, told: dict[str, str]) -> None:
        self.write(
            "INSERT INTO pages_batches (ledger, number, job, state, size, ok, failed, cost, created, model, prompt,"
            " version, generation) VALUES (:ledger, :number, :job, 'planned', :size, 0, 0, 0, :now, :model, :prompt,"
            " :version, :generation)",
            number=number,
            job=job,
            size=size,
            now=now,
            **told,
        )
        self.write("UPDATE pages_ledgers SET batches = :number WHERE id = :ledger", number=number)

    def take_off(self, flight: Flight) -> None:
        self.write(
            "INSERT INTO pages_flights (ledger, book, number, key, batch, image, context, without)"
            " VALUES (:ledger, :book, :number, :key, :batch, :image, :context, :without)",
            book=flight.book,
            number=flight.number,
            key=flight.key,
            batch=flight.batch,
            image=flight.image,
            context=flight.context,
            without=flight.without,
        )

    def submitted(self, number: int, call: str, now: float) -> None:
        self.write(
            "UPDATE pages_batches SET state = 'submitted', call = :call, submitted = :now"
            " WHERE ledger = :ledger AND number = :number",
            number=number,
            call=call,
            now=now,
        )

    def end_batch(
        self, number: int, now: float, *, outcome: str, ok: int, failed: int, cost: int, errors: list[str]
    ) -> None:
        self.write("DELETE FROM pages_flights WHERE ledger = :ledger AND batch = :number", number=number)
        self.write(
            "UPDATE pages_batches SET state = 'ended', ended = :now, outcome = :outcome, ok = :ok, failed = :failed,"
            " cost = :cost, errors = :errors WHERE ledger = :ledger AND number = :number",
            number=number,
            now=now,
            outcome=outcome,
            ok=ok,
            failed=failed,
            cost=cost,
            errors=to_json(errors[:20]).decode(),
        )

    def drop_batch(self, number: int) -> None:
        """A batch that was never made."""
        self.write("DELETE FROM pages_flights WHERE ledger = :ledger AND batch = :number", number=number)
        self.write("DELETE FROM pages_batches WHERE ledger = :ledger AND number = :number", number=number)

    # Failures.

    async def strikes(self, books: Sequence[str]) -> dict[tuple[str, int], Strikes]:
        rows = await self.read_among(
            "SELECT book, number, failures, batch_failures, file_failures FROM pages_failures"
            " WHERE ledger = :ledger AND book IN ({})",
            list(dict.fromkeys(books)),
        )
        return {(book, number): Strikes(*counts) for book, number, *counts in rows}

    def strike(self, failure: Failure, judged: rules.Judged, now: float) -> None:
        """Keep the attempt, and what stands against the page now."""
        page = failure.page
        self.write(
            "INSERT INTO pages_attempts (ledger, book, number, key, batch, attempt, counted, at, type, message, raw,"
            " parsed) VALUES (:ledger, :book, :number, :key, :batch, (SELECT COUNT(*) + 1 FROM pages_attempts"
            " WHERE ledger = :ledger AND book = :book AND number = :number), :counted, :now, :type, :message, :raw,"
            " :parsed)",
            book=failure.book,
            number=page.page,
            key=page.id_string,
            batch=failure.batch,
            counted=int(judged.counted),
            now=now,
            type=failure.kind,
            message=_kept(failure.message, 2000),
            raw=_kept(failure.raw),
            parsed=_kept(failure.parsed),
        )
        self.write(
            "INSERT INTO pages_failures (ledger, book, number, key, failures, batch_failures, file_failures, dead,"
            " type, message, at) VALUES (:ledger, :book, :number, :key, :failures, :batches, :files, :dead, :type,"
            " :message, :now) ON CONFLICT (ledger, book, number) DO UPDATE SET key = excluded.key,"
            " failures = excluded.failures, batch_failures = excluded.batch_failures,"
            " file_failures = excluded.file_failures, dead = excluded.dead,"
            " type = excluded.type, message = excluded.message, at = excluded.at",
            book=failure.book,
            number=page.page,
            key=page.id_string,
            failures=judged.strikes.failures,
            batches=judged.strikes.batch_failures,
            files=judged.strikes.file_failures,
            dead=int(judged.dead),
            type=failure.kind,
            message=_kept(failure.message, 2000),
            now=now,
        )

    def clear(self, book: str, number: int) -> None:
        """A success wipes the slate; the log of attempts stays."""
        self.write(
            "DELETE FROM pages_failures WHERE ledger = :ledger AND book = :book AND number = :number",
            book=book,
            number=number,
        )

    # Outputs on their way to their names.

    async def staged(self) -> list[tuple[str, str, str]]:
        """(book, name, file) of every output that has not its own name yet."""
        rows = await self.read("SELECT book, name, file FROM pages_staged WHERE ledger = :ledger ORDER BY book, name")
        return [(book, name, file) for book, name, file in rows]

    def stage(self, book: str, name: str, file: str) -> None:
        self.write(
            "INSERT INTO pages_staged (ledger, book, name, file) VALUES (:ledger, :book, :name, :file)"
            " ON CONFLICT (ledger, book, name) DO UPDATE SET file = excluded.file",
            book=book,
            name=name,
            file=file,
        )

    def unstage(self, book: str, name: str) -> None:
        self.write(
            "DELETE FROM pages_staged WHERE ledger = :ledger AND book = :book AND name = :name", book=book, name=name
        )

    # Wishes.

    async def wishes(self) -> list[tuple[str, str, dict[str, Any], str]]:
        rows = await self.read(
            "SELECT id, kind, detail, actor FROM pages_wishes WHERE ledger = :ledger ORDER BY at, id LIMIT 100"
        )
        return [(id, kind, from_json(detail), actor) for id, kind, detail, actor in rows]

    def granted(self, wish: str) -> None:
        self.write("DELETE FROM pages_wishes WHERE ledger = :ledger AND id = :wish", wish=wish)


_PUT_BOOK = (
    "INSERT INTO pages_books (ledger, book, state, school, year, pages, states, total, done, flying, dead, found,"
    " served, label_seen, output_seen) VALUES (:ledger, :book, :state, :school, :year, :pages, :states, :total, :done,"
    " :flying, :dead, :found, :served, :label_seen, :output_seen) ON CONFLICT (ledger, book) DO UPDATE SET"
    " pages = excluded.pages, states = excluded.states, total = excluded.total, done = excluded.done,"
    " flying = excluded.flying, dead = excluded.dead, found = excluded.found, served = excluded.served,"
    " label_seen = excluded.label_seen, output_seen = excluded.output_seen"
)


@cache
def _put_ready(count: int) -> str:
    rows = ", ".join(f"(:ledger, :book, :n{at}, :r{at}, :served)" for at in range(count))
    return f"INSERT INTO pages_ready (ledger, book, number, remaining, served) VALUES {rows}"


def _book(row: tuple[Any, ...]) -> Book:
    book, state, school, year, pages, states, served, label_seen, output_seen = row
    return Book(book, state, school, year, Numbering(pages), states, served, label_seen, output_seen)


LONGEST_KEPT = 65_536
"""Characters of an answer that are kept with a failed attempt."""


def _kept(text: str | None, most: int = LONGEST_KEPT) -> str | None:
    """No database may refuse a row for what a model said."""
    return None if text is None else text[:most].encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def _left_out(book: str, names: Iterable[str]) -> dict[str, str]:
    some = islice(names, MOST_LEFT_OUT)
    return {f"{book}/{name}.json": "no page number, or a number that is there already" for name in some}


MOST_LEFT_OUT = 100
"""Files of one book that are named as left out."""
