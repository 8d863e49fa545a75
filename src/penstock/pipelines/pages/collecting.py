"""What became of a batch, page by page: outputs are staged, failures counted, and whoever waited can run.

Results are joined by key alone. Doing it twice changes nothing: the ledger's rows of this batch go with the commit, and
the files are the same.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.engine.call import Call
from penstock.engine.context import Context
from penstock.engine.errors import Transient
from penstock.gemini import Row, lost_file, rows_in
from penstock.pipelines.pages import outputs, rules
from penstock.pipelines.pages.ledger import LONGEST_KEPT, Ledger
from penstock.pipelines.pages.ledger_rows import BatchRow, Book, Failure, Flight
from penstock.pipelines.pages.model import BatchResult, PageIdentifier, Run
from penstock.pipelines.pages.prompts.registry import LoadedPrompt
from penstock.pipelines.pages.walk import UNKNOWN
from penstock.remote.gemini.lines import decoded

KEPT_WHOLE, KEPT_BRIEF = 200, 2000
"""Of so many failed pages of a batch the answer is kept whole; of the others so many characters."""

WAIT_FOR_RESULTS = 7 * 86_400.0
"""Seconds for which results that are not on this disk may be on another's."""

UNBLAMED = frozenset({"discarded", "absent", "lost"})
"""Ends of a batch's call that say nothing about its pages."""


@dataclass(slots=True)
class _Landing:
    """One batch on its way into the ledger."""

    ctx: Context
    ledger: Ledger
    run: Run
    batch: BatchRow
    call: Call
    flights: dict[str, Flight]
    books: dict[str, Book]
    strikes: dict[tuple[str, int], rules.Strikes]
    changes: dict[str, dict[int, str]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    ok: int = 0
    failed: int = 0
    dead: int = 0

    def spelling(self, flight: Flight) -> str:
        """How the page's files spell it now; its label may have been renamed while it was in flight."""
        book = self.books.get(flight.book)
        if book is not None and book.numbering.place(flight.number) is not None:
            return book.numbering.name(flight.number)
        return PageIdentifier.parse(flight.key).spelling

    def succeed(self, flight: Flight, hidden: str) -> None:
        self.ledger.stage(flight.book, self.spelling(flight), hidden)
        self.ledger.clear(flight.book, flight.number)
        self.changes.setdefault(flight.book, {})[flight.number] = rules.DONE
        self.ok += 1

    def fail(self, flight: Flight, kind: rules.FailureType, message: str, row: Row | None = None) -> None:
        execution = self.run.execution
        place = (flight.book, flight.number)
        judged = rules.judge(
            self.strikes.get(place, rules.Strikes()),
            kind,
            most_failures=execution.most_failures,
            batch_failures_free=execution.batch_failures_free,
        )
        page = PageIdentifier.parse(flight.key)
        raw = parsed = None
        if row is not None:
            most = LONGEST_KEPT if self.failed < KEPT_WHOLE else KEPT_BRIEF
            raw = None if row.text is None else row.text[:most]
            parsed = None if row.parsed is None else json.dumps(row.parsed, ensure_ascii=False)[:most]
        failure = Failure(page, flight.book, self.batch.number, kind, message, raw, parsed)
        self.ledger.strike(failure, judged, self.ctx.now())
        self.changes.setdefault(flight.book, {})[flight.number] = rules.DEAD if judged.dead else rules.WORK
        self.failed += 1
        self.dead += judged.dead
        self.kinds[kind] += 1
        self.errors.append(f"{flight.key}: {kind}: {message}")

    def free(self, flight: Flight, why: str) -> None:
        """Work again, and nothing is held against it."""
        self.changes.setdefault(flight.book, {})[flight.number] = rules.WORK
        self.failed += 1
        self.errors.append(f"{flight.key}: free again: {why}")

    def land(self) -> BatchResult:
        for name, letters in self.changes.items():
            book = self.books.get(name)
            if book is not None:
                book.change(letters)
                if rules.WORK in letters.values() or rules.DEAD in letters.values():
                    # Somebody may have put an output there while the page was in flight.
                    book.output_seen = UNKNOWN
                self.ledger.put(book)
        self.ledger.end_batch(
            self.batch.number,
            self.ctx.now(),
            outcome=self.call.state,
            ok=self.ok,
            failed=self.failed,
            cost=self.call.cost,
            errors=self.errors,
        )
        self.ctx.count(pages_done=self.ok, attempts_failed=sum(self.kinds.values()), pages_dead=self.dead, batches=1)
        return BatchResult(
            batch_id=self.call.provider_id or self.call.id,
            total_records=len(self.flights),
            successful_records=self.ok,
            failed_records=self.failed,
            errors=self.errors,
        )


class Damaged(Exception):
    """The rows of a batch that were fetched cannot be read any more."""


async def collect(
    ctx: Context,
    ledger: Ledger,
    run: Run,
    prompt: LoadedPrompt,
    batch: BatchRow,
    call: Call,
    *,
    damage: str | None = None,
) -> BatchResult:
    """Take a batch that has ended into the ledger, as part of the next commit. `Damaged` where what was fetched cannot
    be read: nothing that was written so far counts then, and the batch is to be taken in with that `damage`."""
    rows = await ledger.flights(batch.number)
    names = list({flight.book for flight in rows})
    landing = _Landing(
        ctx,
        ledger,
        run,
        batch,
        call,
        {flight.key: flight for flight in rows},
        await ledger.books(names),
        await ledger.strikes(names),
    )
    if damage is not None:
        for flight in rows:
            landing.fail(flight, "batch", damage)
    elif call.ok:
        await _answers(landing, prompt)
    elif call.state in UNBLAMED or call.unwanted:
        for flight in rows:
            landing.free(flight, f"the batch was {call.state}")
    else:
        for flight in rows:
            landing.fail(flight, "batch", f"the whole batch {call.state}: {call.error or 'Gemini gave no reason'}")
    return landing.land()


async def _answers(landing: _Landing, prompt: LoadedPrompt) -> None:
    call = landing.call
    path = landing.ctx.folder_of(call) / call.result["file"]
    if not await asyncio.to_thread(path.exists):
        _without_results(landing, path)
        return
    contested = await _contested(path) if call.result.get("conflicts") else frozenset[str]()
    left = dict(landing.flights)
    finished: list[tuple[Flight, str, bytes]] = []
    async for row in _rows(path):
        if row.outcome == "duplicate":
            continue
        flight = left.pop(row.key, None) if row.key is not None and row.outcome != "unknown" else None
        if flight is None:
            landing.errors.append(f"{row.key or 'a line without a key'}: {row.error or 'nobody asked for it'}")
            continue
        if row.key in contested:
            landing.fail(flight, "duplicate", "the batch has two answers for this page that differ", row)
            continue
        data, kind, message = judged_answer(row, prompt)
        if kind is None:
            # The schema may be another one now than the one it was asked with.
            wrong = prompt.validate(data)
            kind, message = ("schema", wrong) if wrong is not None else (None, "")
        if kind is not None:
            landing.fail(flight, kind, message, row)
            continue
        hidden = outputs.staged_name(landing.spelling(flight), _claim(landing))
        finished.append((flight, hidden, outputs.written(data, _provenance(landing, flight, prompt))))
        if len(finished) >= 200:
            await _stage(landing, finished)
    await _stage(landing, finished)
    for flight in left.values():
        landing.fail(flight, "missing", "asked, and not in the batch's result")


def _without_results(landing: _Landing, path: Path) -> None:
    """Paid for, and gone from the disk. In another home they may still be, so it is waited for a while."""
    since = landing.call.finished or landing.batch.created
    if not path.parent.exists() and landing.ctx.now() - since < WAIT_FOR_RESULTS:
        raise Transient(
            f"the results of {landing.call.key} are not in {path.parent}: were they fetched in another home?"
        )
    for flight in landing.flights.values():
        landing.fail(flight, "batch", f"the results of the batch are gone from {path.parent}")


def judged_answer(row: Row, prompt: LoadedPrompt) -> tuple[Any, rules.FailureType | None, str]:
    """The answer, or why it is none."""
    if row.outcome == "ok":
        return row.parsed, None, ""
    message = row.error or row.outcome
    if row.outcome == "api_error":
        return None, "file_lost" if lost_file(row) else "api_error", message
    if row.outcome == "invalid":
        return _mended(row, prompt, message)
    if row.outcome in ("blocked", "truncated", "missing"):
        return None, row.outcome, message
    return None, "unknown", message


def _mended(row: Row, prompt: LoadedPrompt, message: str) -> tuple[Any, rules.FailureType | None, str]:
    """Models like to put a fence around their JSON, and a word or two before it."""
    fenced = _fenced(row.text or "")
    data, damage = decoded((row.text or "" if fenced is None else fenced).encode("utf-8", "replace"))
    if damage is not None:
        return None, "invalid_json", message
    wrong = prompt.validate(data)
    return (data, None, "") if wrong is None and fenced is not None else (None, "schema", wrong or message)


def _fenced(text: str) -> str | None:
    """What stands between the only two fences. No line within JSON begins with one: line breaks are escaped there."""
    lines = text.split("\n")
    fences = [place for place, line in enumerate(lines) if line.lstrip().startswith("```")]
    return "\n".join(lines[fences[0] + 1 : fences[1]]) if len(fences) == 2 else None


async def _rows(path: Path) -> AsyncIterator[Row]:
    try:
        async for row in rows_in(path):
            yield row
    except ValueError as error:
        raise Damaged(f"the results of the batch cannot be read: {error}") from error
    except OSError as error:
        raise Transient(f"{path} cannot be read: {error.strerror}") from error


async def _contested(path: Path) -> frozenset[str]:
    return frozenset([row.key async for row in _rows(path) if row.conflict and row.key is not None])


async def _stage(landing: _Landing, finished: list[tuple[Flight, str, bytes]]) -> None:
    files = [(flight.book, hidden, content) for flight, hidden, content in finished]
    await asyncio.to_thread(outputs.stage, landing.run.paths.output_dir, files)
    for flight, hidden, _ in finished:
        landing.succeed(flight, hidden)
    finished.clear()


def _claim(landing: _Landing) -> str:
    return f"{landing.ctx.job.id}-{landing.ctx.epoch}-{landing.batch.number}"


def _provenance(landing: _Landing, flight: Flight, prompt: LoadedPrompt) -> dict[str, Any]:
    call, batch = landing.call, landing.batch
    told: dict[str, Any] = {
        "key": flight.key,
        "batch": batch.number,
        "batch_id": call.provider_id,
        "model": call.model,
        "prompt": {"name": batch.prompt, "version": batch.version},
        "context": None if flight.context is None else json.loads(flight.context),
        "finished": None if call.finished is None else datetime.fromtimestamp(call.finished, UTC).isoformat(),
    }
    if flight.without is not None:
        told["without_context"] = flight.without
    return told


def summary(result: BatchResult, number: int) -> str:
    """For people, in Markdown."""
    lines = [
        f"## Batch {number}",
        f"`{result.batch_id}`: {result.successful_records} of {result.total_records} pages done,"
        f" {result.failed_records} failed.",
    ]
    if result.errors:
        lines += ["", *(f"- {_one_line(error)}" for error in result.errors[:20])]
        if len(result.errors) > 20:
            lines.append(f"- and {len(result.errors) - 20} more")
    return "\n".join(lines)


def rows_of(result: BatchResult, flights: Sequence[Flight]) -> list[dict[str, Any]]:
    """A table of the pages and what became of each."""
    failed = {error.partition(": ")[0]: error.partition(": ")[2] for error in result.errors}
    return [{"page": flight.key, "outcome": _one_line(failed.get(flight.key, "done"))} for flight in flights]


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]
