"""Lists of knowledge bases and of what is in them, a page at a time, each by one question to the store. Configurations,
which may name many files, are not read for lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from penstock.pipelines.ingestion.model import ChunkerSpec, EmbedderSpec
from penstock.pipelines.ingestion.statements import Reads
from penstock.pipelines.ingestion.status import word
from penstock.pipelines.ingestion.work import Counters

SHOWN = 500
"""Characters of a chunk that could not be embedded."""


def _newest(tenant: str, run: str) -> str:
    """Joins `j`, the newest job that works on a run, or did."""
    return (
        f" LEFT JOIN jobs j ON j.tenant = {tenant} AND j.workflow = 'ingestion' AND j.\"key\" = {run} AND NOT EXISTS"
        ' (SELECT 1 FROM jobs n WHERE n.tenant = j.tenant AND n.workflow = j.workflow AND n."key" = j."key"'
        " AND n.run > j.run)"
    )


@dataclass(slots=True, frozen=True)
class BaseLine:
    """A knowledge base in a list. Without an edition nothing was ever indexed in it."""

    tenant: str
    id: str
    run: str | None
    status: str
    created: float
    updated: float
    documents: int
    chunks: int
    errors: int
    chunker: ChunkerSpec | None
    embedder: EmbedderSpec | None


async def base_lines(
    reads: Reads,
    tenant: str | None,
    *,
    named: str | None = None,
    after: tuple[str, str] | None = None,
    limit: int = 100,
) -> list[BaseLine]:
    """By name, and by tenant where none is named; from after this name and tenant on, or only of this name."""
    # One that was only planned is there for who names it.
    where = ["b.leaving IS NULL", *(["b.run IS NOT NULL"] if named is None else [])]
    values = dict[str, Any](limit=limit)
    for column, name, value in (("tenant", "tenant", tenant), ("id", "named", named)):
        if value is not None:
            where.append(f"b.{column} = :{name}")
            values[name] = value
    if after is not None:
        where.append("(b.id > :id OR (b.id = :id AND b.tenant > :of))")
        values |= {"id": after[0], "of": after[1]}
    rows = await reads.read((f"{_LINES} WHERE {' AND '.join(where)} ORDER BY b.id, b.tenant LIMIT :limit", values))
    return [_line(row) for row in rows]


_LINES = (
    "SELECT b.tenant, b.id, b.run, b.created, b.updated, e.documents, e.chunks, e.chunker, e.embedder, e.model,"
    " e.dimension, r.state, (SELECT COUNT(*) FROM kb_errors x WHERE x.edition = b.edition), j.status FROM kb_bases b"
    " LEFT JOIN kb_editions e ON e.number = b.edition AND e.gone = 0"
    f" LEFT JOIN kb_runs r ON r.id = b.run{_newest('b.tenant', 'b.run')}"
)


def _line(row: tuple[Any, ...]) -> BaseLine:
    tenant, id, run, created, updated, documents, chunks, chunker, *made_by, state, errors, job = row
    name, model, dimension = made_by
    return BaseLine(
        tenant=tenant,
        id=id,
        run=run,
        status="not_started" if run is None else word(state, job),
        created=created,
        updated=updated,
        documents=documents or 0,
        chunks=chunks or 0,
        errors=int(errors),
        chunker=None if chunker is None else ChunkerSpec.model_validate_json(chunker),
        embedder=None if name is None else EmbedderSpec(name=name, model=model, dimension=dimension),
    )


@dataclass(slots=True, frozen=True)
class DocumentLine:
    """A document that can be searched."""

    n: int
    uri: str
    title: str
    source: str
    chunks: int
    metadata: dict[str, Any]
    content_hash: str
    run: str
    indexed_at: float


async def documents(reads: Reads, edition: int, *, after: int = 0, limit: int = 100) -> list[DocumentLine]:
    """In the order in which they came."""
    rows = await reads.read(
        (
            "SELECT n, uri, title, source, chunks, metadata, content_hash, run, indexed_at FROM kb_documents"
            " WHERE edition = :edition AND n > :after AND state = 'current' ORDER BY n LIMIT :limit",
            {"edition": edition, "after": after, "limit": limit},
        )
    )
    return [_document(*row) for row in rows]


def _document(
    n: int, uri: str, title: str, source: str, chunks: int, metadata: str, content_hash: str, run: str, at: float
) -> DocumentLine:
    return DocumentLine(n, uri, title, source, chunks, from_json(metadata), content_hash, run, at)


@dataclass(slots=True, frozen=True)
class ErrorLine:
    """A document that could not be loaded, or a chunk that could not be embedded: then `chunk` is its place."""

    id: str
    run: str
    uri: str
    chunk: int | None
    position: dict[str, Any] | None
    text: str | None
    error: str
    attempts: int
    at: float


async def errors(
    reads: Reads, tenant: str, base: str, *, run: str | None = None, before: str | None = None, limit: int = 100
) -> list[ErrorLine]:
    """The newest first: of all editions that there are, so that a rebuild which is under way tells its own, too."""
    where = ["edition IN (SELECT number FROM kb_editions WHERE tenant = :tenant AND base = :base AND gone = 0)"]
    values = {"tenant": tenant, "base": base, "limit": limit}
    for clause, name, value in (("run = :run", "run", run), ("id < :before", "before", before)):
        if value is not None:
            where.append(clause)
            values[name] = value
    rows = await reads.read(
        (
            f"SELECT id, run, uri, seq, position, SUBSTR(text, 1, {SHOWN}), error, attempts, at FROM kb_errors"
            f" WHERE {' AND '.join(where)} ORDER BY id DESC LIMIT :limit",
            values,
        )
    )
    return [_error(*row) for row in rows]


def _error(
    id: str,
    run: str,
    uri: str,
    chunk: int | None,
    position: str | None,
    text: str | None,
    error: str,
    attempts: int,
    at: float,
) -> ErrorLine:
    return ErrorLine(id, run, uri, chunk, from_json(position) if position else None, text, error, attempts, at)


@dataclass(slots=True, frozen=True)
class RunLine:
    """A run in a list. What it counted is known when it has ended."""

    id: str
    status: str
    began: float
    finished: float | None
    last_error: str | None
    counters: Counters | None


async def run_lines(
    reads: Reads, tenant: str, base: str, *, before: str | None = None, limit: int = 100
) -> list[RunLine]:
    """The newest first."""
    rows = await reads.read(
        (
            "SELECT r.id, r.state, r.began, r.finished, r.last_error, r.outcome, j.status, j.finished, j.error"
            f" FROM kb_runs r{_newest('r.tenant', 'r.id')} WHERE r.tenant = :tenant AND r.base = :base"
            f"{'' if before is None else ' AND r.id < :before'} ORDER BY r.id DESC LIMIT :limit",
            {"tenant": tenant, "base": base, "limit": limit} | ({} if before is None else {"before": before}),
        )
    )
    return [_run_line(row) for row in rows]


def _run_line(row: tuple[Any, ...]) -> RunLine:
    id, state, began, finished, last_error, outcome, job, job_finished, job_error = row
    status = word(state, job)
    counters = None if outcome is None else Counters.model_validate(from_json(outcome)["counters"])
    error = job_error if status == "failed" else last_error
    return RunLine(id, status, began, finished or job_finished, error, counters)


@dataclass(slots=True, frozen=True)
class Stock:
    """What there is in all."""

    bases: int
    documents: int
    chunks: int


async def stock(reads: Reads) -> Stock:
    ((count, of_documents, of_chunks),) = await reads.read(
        "SELECT COUNT(*), SUM(e.documents), SUM(e.chunks) FROM kb_bases b"
        " LEFT JOIN kb_editions e ON e.number = b.edition AND e.gone = 0 WHERE b.leaving IS NULL AND b.run IS NOT NULL"
    )
    return Stock(int(count), int(of_documents or 0), int(of_chunks or 0))


async def active_runs(reads: Reads) -> dict[str, int]:
    """How many runs have not ended, by status."""
    rows = await reads.read(
        "SELECT j.status, COUNT(*) FROM kb_bases b JOIN jobs j ON j.tenant = b.tenant AND j.workflow = 'ingestion'"
        " AND j.\"key\" = b.run WHERE j.status NOT IN ('completed', 'failed', 'canceled') GROUP BY j.status"
    )
    found: dict[str, int] = {}
    for status, count in rows:
        said = word(None, status)
        found[said] = found.get(said, 0) + int(count)
    return found
