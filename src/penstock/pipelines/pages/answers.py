"""What programs read of runs: plain values, as the HTTP API answers them. Times are RFC 3339 in UTC; money is told in
dollars and in whole millionths."""

from __future__ import annotations

import json
from typing import Any

from penstock.engine.model import Job
from penstock.pipelines.pages.model import Task
from penstock.pipelines.pages.reading import Attempt, BatchView, BookRow, Overview, PageView
from penstock.shapes import money, summary
from penstock.times import utc


def run_line(job: Job, task: Task) -> dict[str, Any]:
    return {**summary(job), "output_dir": str(task.run.paths.output_dir)}


def run_detail(job: Job, task: Task, newest: str) -> dict[str, Any]:
    return {
        **run_line(job, task),
        "newest": newest,
        "configuration": task.run.model_dump(mode="json"),
        "result": job.result,
    }


def overview_line(told: Overview) -> dict[str, Any]:
    totals = told.totals
    return {
        "books": totals.books,
        "pages": totals.pages,
        "done": totals.done,
        "found": totals.found,
        "in_flight": totals.flying,
        "ready": totals.ready,
        "waiting": told.blocked,
        "dead": totals.dead,
        "batches_active": told.batches_active,
        "batches_planned": told.batches_planned,
        "batches_ended": told.batches_ended,
        "failed_attempts": told.failed_attempts,
        "ignored": told.ignored,
        "wishes": told.wishes,
        "longest_chain": told.longest_chain,
        "pages_an_hour": told.pace,
        "batch_seconds": told.batch_seconds,
        "seconds_left": told.seconds_left,
        "scanned": utc(told.scanned),
        **money("cost", told.cost),
    }


def book_line(book: BookRow) -> dict[str, Any]:
    return {
        "book": book.book,
        "state": book.state,
        "school": book.school,
        "year": book.year,
        "pages": book.pages,
        "states": book.states,
        "total": book.total,
        "done": book.done,
        "in_flight": book.flying,
        "dead": book.dead,
        "ready": list(book.ready),
    }


def page_line(page: PageView) -> dict[str, Any]:
    named = page.page
    return {
        "key": page.key,
        "state": named.state,
        "school": named.school,
        "year": named.year,
        "page": named.page,
        "name": named.spelling,
        "status": page.state,
        "failures": page.failures,
        "dead": page.dead,
        "error": page.error,
        "batch": page.batch,
        "image": page.image.name if page.image else None,
        "output": page.output,
        "provenance": page.provenance,
        "context": page.context.model_dump(mode="json") if page.context else None,
        "before": page.before,
        "after": page.after,
        "attempts": [attempt_line(attempt) for attempt in page.attempts],
    }


def batch_line(batch: BatchView) -> dict[str, Any]:
    return {
        "number": batch.number,
        "run": batch.job,
        "call": batch.call,
        "batch_id": batch.provider_id,
        "state": batch.state,
        "outcome": batch.outcome,
        "total_records": batch.size,
        "successful_records": batch.ok,
        "failed_records": batch.failed,
        "errors": list(batch.errors),
        "model": batch.model,
        "prompt": batch.prompt,
        "version": batch.version,
        "created": utc(batch.created),
        "submitted": utc(batch.submitted),
        "ended": utc(batch.ended),
        **money("cost", batch.cost),
    }


def attempt_line(attempt: Attempt) -> dict[str, Any]:
    return {
        "key": attempt.key,
        "batch": attempt.batch or None,
        "attempt": attempt.attempt,
        "counted": attempt.counted,
        "at": utc(attempt.at),
        "type": attempt.type,
        "message": attempt.message,
        "raw": attempt.raw,
        "parsed": attempt.parsed,
        "model": attempt.model or None,
        "prompt": attempt.prompt,
        "version": attempt.version,
        "generation_config": settings_of(attempt),
    }


def settings_of(attempt: Attempt) -> Any:
    """The generation settings that the attempt was made with."""
    return json.loads(attempt.generation) if attempt.generation else None
