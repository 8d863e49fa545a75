"""What the commands of `penstock pages` write as JSON."""

from __future__ import annotations

from typing import Any

from penstock.cli.pages_told import Told
from penstock.pipelines.pages.answers import overview_line
from penstock.pipelines.pages.planning import Estimate, Rounds, Survey
from penstock.pipelines.pages.reading import Attempt, BatchView, BookRow
from penstock.shapes import money
from penstock.times import utc

HOUR, DAY = 3600.0, 86_400.0


def overview_shape(told: Told) -> dict[str, Any]:
    """As over HTTP, but for pages that wait to be sent, which are told apart here."""
    shape = overview_line(told)
    return {name: shape[name] for name in shape if name not in ("found", "batches_planned")} | {
        "unsent": told.unsent_pages
    }


def book_shape(book: BookRow) -> dict[str, Any]:
    return {
        "book": book.book,
        "state": book.state,
        "school": book.school,
        "year": book.year,
        "pages": book.total,
        "done": book.done,
        "in_flight": book.flying,
        "dead": book.dead,
    }


def batch_shape(batch: BatchView) -> dict[str, Any]:
    return {
        "number": batch.number,
        "state": batch.state,
        "call": batch.call,
        "call_state": batch.call_state,
        "provider_id": batch.provider_id,
        "pages": batch.size,
        "done": batch.call_done,
        "model": batch.model,
        "created": utc(batch.created),
        "submitted": utc(batch.submitted),
        "error": batch.call_error,
    }


def attempt_shape(attempt: Attempt) -> dict[str, Any]:
    """Without what Gemini answered, which may be long: that is in `--csv`."""
    return {
        "id": attempt.id,
        "key": attempt.key,
        "batch": attempt.batch or None,
        "attempt": attempt.attempt,
        "counted": attempt.counted,
        "at": utc(attempt.at),
        "type": attempt.type,
        "message": attempt.message,
        "model": attempt.model or None,
        "prompt": attempt.prompt,
        "version": attempt.version,
    }


def plan_shape(survey: Survey, depth: Rounds, cost: Estimate, *, batch_seconds: float | None) -> dict[str, Any]:
    return {
        "books": survey.books,
        "pages": survey.pages,
        "chains": survey.runs_of_pages,
        "longest_chain": survey.longest_book_chain,
        "done": survey.done,
        "dead": survey.dead,
        "in_flight": survey.flying,
        "without_image": survey.without_image,
        "blocked": survey.blocked,
        "to_do": survey.to_do,
        "ready": survey.ready,
        "ignored": survey.ignored,
        "longest_chain_left": survey.longest_chain,
        "batches": depth.batches,
        "rounds": depth.rounds,
        "model": cost.model,
        "input_tokens": cost.input_tokens,
        "output_tokens": cost.output_tokens,
        **_amount("cost", cost.cost),
        **_amount("most", cost.most),
        "batch_seconds": batch_seconds,
        "seconds": None if batch_seconds is None else depth.rounds * batch_seconds,
        "seconds_if_1_hour": depth.rounds * HOUR,
        "seconds_if_24_hours": depth.rounds * DAY,
        "assumed": {
            "image_tokens": cost.image,
            "prompt_tokens": cost.words,
            "answer_tokens": cost.answer,
            "longest_answer_tokens": cost.longest_answer,
            "measured": cost.measured,
            "prices_read": None if cost.price is None or cost.price.read is None else cost.price.read.isoformat(),
        },
    }


def _amount(name: str, millionths: int | None) -> dict[str, Any]:
    return money(name, millionths) if millionths is not None else {f"{name}_usd": None, f"{name}_microdollars": None}
