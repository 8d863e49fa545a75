"""What people see: documents, the queue by what its priorities are now, one review with all that is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic_core import from_json

from penstock.engine.engine import Engine
from penstock.engine.errors import InvalidRequest, NotFound
from penstock.engine.identity import storable
from penstock.pipelines.documents import ledger, rules
from penstock.pipelines.documents.model import ExtractionResult, InvoiceData
from penstock.pipelines.documents.rules import OPEN, STATUSES, Difference
from penstock.pipelines.documents.standing import turn

MOST = 500
NEWEST = 500
"""Documents that are looked through for a status before its index is asked."""

DocumentStatus = Literal["queued", "processing", "completed", "failed", "canceled", "paused"]

STATUS = (
    "CASE WHEN j.status IN ('queued', 'running', 'waiting', 'canceling') AND d.done = 0 THEN"
    " CASE WHEN j.status = 'queued' AND d.kind IS NULL THEN 'queued' ELSE 'processing' END"
    " WHEN j.status IN ('failed', 'canceled', 'paused') THEN j.status WHEN d.done = 1 AND"
    " (j.status IS NULL OR j.status = 'completed') THEN 'completed'"
    # Only a job that has ended is ever forgotten.
    " WHEN j.status IS NULL THEN 'failed' ELSE 'processing' END"
)
_DOCUMENT = (
    f"d.id, d.tenant, d.filename, d.content_hash, d.size, d.kind, d.pages, {STATUS} AS status, COALESCE(j.id, d.job),"
    " j.error, d.batch, d.created, d.finished, d.folder, d.data, d.confidence, d.review_item, d.review_status, d.twin"
)


@dataclass(slots=True, frozen=True)
class DocumentView:
    """A document as a list shows it. `data` is what counts now."""

    id: str
    tenant: str
    filename: str
    content_hash: str
    size: int
    kind: str | None
    pages: int | None
    status: DocumentStatus
    job: str
    error: str | None
    batch: str | None
    created: float
    finished: float | None
    folder: str | None
    data: InvoiceData | None
    confidence: float | None
    review_item: str | None
    review_status: str | None
    twin: str | None


@dataclass(slots=True, frozen=True)
class Lock:
    field: str
    value: Any
    actor: str
    at: float


@dataclass(slots=True, frozen=True)
class Twin:
    """Another document that looks like the same invoice, in other bytes."""

    id: str
    filename: str
    created: float
    review_item: str | None


@dataclass(slots=True, frozen=True)
class DocumentDetail:
    """A document with all that is known of it."""

    document: DocumentView
    result: ExtractionResult | None
    locks: tuple[Lock, ...]
    differences: tuple[Difference, ...]
    duplicates: tuple[Twin, ...]


@dataclass(slots=True, frozen=True)
class QueueItem:
    """An item of the queue with the priority it has now."""

    id: str
    tenant: str
    document: str
    status: str
    priority: float
    deadline: float
    confidence: float
    line_count: int
    assigned_to: str | None
    claim_until: float | None
    created: float
    claimed: float | None
    decided: float | None
    decided_by: str | None
    reason: str | None
    filename: str
    vendor: str | None
    invoice_number: str | None
    total: str | None
    currency: str | None

    @property
    def band(self) -> str:
        return rules.band(self.priority)


@dataclass(slots=True, frozen=True)
class AuditLine:
    id: str
    item: str
    document: str
    at: float
    actor: str
    action: str
    field: str | None
    before: Any
    after: Any
    reason: str | None


async def documents(
    engine: Engine,
    *,
    tenant: str | None = None,
    status: DocumentStatus | None = None,
    batch: str | None = None,
    before: str | None = None,
    limit: int = 50,
) -> list[DocumentView]:
    """Newest first. Page with `before`, the last id of the page before."""
    limit = _within(limit)
    where, values = ["1 = 1"], dict[str, Any]()
    for name, value, clause in (
        ("tenant", tenant, "d.tenant = :tenant"),
        ("batch", batch, "d.batch = :batch"),
        ("before", before, "d.id < :before"),
    ):
        if value is not None:
            where.append(clause)
            values[name] = value
    if status is None or batch is not None:
        return await _listed(engine, "documents", where, values, status, limit)
    # What is common is among the newest; what is rare is found by where its job stands.
    newest = f"(SELECT * FROM documents d WHERE {' AND '.join(where)} ORDER BY d.id DESC LIMIT {NEWEST})"
    found = await _listed(engine, newest, ["1 = 1"], values, status, limit)
    if len(found) == limit:
        return found
    if status == "completed":
        return await _listed(engine, "documents", [*where, "d.done = 1"], values, status, limit)
    rare = f"(SELECT d.* FROM ({unsettled(tenant)}) AS u CROSS JOIN documents d WHERE d.id = u.id)"
    return await _listed(engine, rare, where, values, status, limit)


async def _listed(
    engine: Engine, source: str, where: list[str], values: Mapping[str, Any], status: str | None, limit: int
) -> list[DocumentView]:
    told = dict(values)
    if status is not None:
        where, told["status"] = [*where, f"{STATUS} = :status"], status
    rows = await engine.read(
        (
            f"SELECT {_DOCUMENT} FROM {source} d {ledger.NEWEST_RUN} WHERE {' AND '.join(where)}"
            # In words, and not as a value: PostgreSQL plans for a tenth of all rows where it does not know.
            f" ORDER BY d.id DESC LIMIT {limit:d}",
            told,
        )
    )
    return [_document(row) for row in rows]


def unsettled(tenant: str | None) -> str:
    """SQL for the ids of all documents that may be anything but completed: those that never were, and those with a job
    that was stopped or is under way. Each part is an index of its own, and SQLite is told to begin with it (`CROSS
    JOIN`); `:tenant` is the asker's to give, and to ask for of the documents."""
    here = "" if tenant is None else " AND d.tenant = :tenant"
    jobs = " UNION ".join(
        "SELECT d.id FROM jobs u CROSS JOIN documents d WHERE d.job = u.key AND d.tenant = u.tenant AND"
        f" u.workflow = 'documents' AND {place}"
        for place in (
            "u.status IN ('failed', 'paused', 'canceling', 'canceled')",
            "u.phase = 'ready'",
            "u.phase = 'held'",
            "u.due IS NOT NULL AND u.phase IN ('timed', 'held')",
        )
    )
    return f"SELECT d.id FROM documents d WHERE d.done = 0{here} UNION {jobs}"


async def document(engine: Engine, document_id: str, *, tenant: str | None = None) -> DocumentDetail:
    """One document, or `NotFound`."""
    rows = []
    if storable(document_id):
        rows = await engine.read(
            (
                f"SELECT {_DOCUMENT}, d.extraction FROM documents d {ledger.NEWEST_RUN} WHERE d.id = :id",
                {"id": document_id},
            )
        )
    if not rows or tenant not in (None, rows[0][1]):
        raise NotFound(f"there is no document {document_id[:80]}")
    found = _document(rows[0][:-1])
    result = None if rows[0][-1] is None else ledger.parsed(rows[0][-1])
    locked = await engine.read(
        (
            "SELECT field, value, actor, at FROM document_locks WHERE tenant = :tenant AND content_hash = :content"
            " ORDER BY field",
            {"tenant": found.tenant, "content": found.content_hash},
        )
    )
    locks = tuple(Lock(field, from_json(value), actor, at) for field, value, actor, at in locked)
    values = {lock.field: lock.value for lock in locks}
    differing = [] if result is None else rules.differences(result.invoice_data, values)
    result = None if result is None else rules.certified(result, values)
    return DocumentDetail(found, result, locks, tuple(differing), tuple(await _twins(engine, found)))


async def queue(
    engine: Engine,
    *,
    tenant: str | None = None,
    status: Sequence[str] = OPEN,
    assigned_to: str | None = None,
    priority_min: float = 0.0,
    sort: str = "priority",
    limit: int = 50,
    offset: int = 0,
) -> list[QueueItem]:
    """The queue in the order of what priorities are now. Each status and movement is read from the index in its own
    order, and only as far as the page reaches."""
    if unknown := [each for each in status if each not in STATUSES]:
        raise InvalidRequest(f"unknown status {unknown[0]!r}: use {', '.join(STATUSES)}")
    if sort not in _ORDERS:
        raise InvalidRequest(f"unknown sort {sort!r}: use {', '.join(_ORDERS)}")
    limit = _within(limit)
    await turn(engine)
    gained = rules.SLOPE * engine.clock.now()
    where = ["status = {status}", "rising = {rising}"]
    values: dict[str, Any] = {"gained": gained, "limit": limit, "offset": offset, "reach": limit + offset}
    for name, value in (("tenant", tenant), ("assigned_to", assigned_to)):
        if value is not None:
            where.append(f"{name} = :{name}")
            values[name] = value
    if priority_min > 0:
        where.append("rank >= CAST(:least{rising} AS DOUBLE PRECISION)")
        values |= {"least0": priority_min, "least1": priority_min - gained}
    inner, outer = _ORDERS[sort]
    branches = " UNION ALL ".join(
        "SELECT * FROM (SELECT id, rank + CAST(:gained AS DOUBLE PRECISION) * rising AS priority, deadline, created"
        f" FROM review_items WHERE {' AND '.join(where).format(status=_quoted(each), rising=rising)}"
        f" ORDER BY {inner} LIMIT :reach) AS part_{each}_{rising}"
        for each in dict.fromkeys(status)
        for rising in ((0, 1) if each in OPEN else (0,))
    )
    rows = await engine.read(
        (
            f"SELECT i.id, i.tenant, i.document, i.status, p.priority, i.deadline, i.confidence, i.line_count,"
            f" i.assigned_to, i.claim_until, i.created, i.claimed, i.decided, i.decided_by, i.reason, d.filename,"
            f" d.data"
            f" FROM (SELECT * FROM ({branches}) AS every ORDER BY {outer} LIMIT :limit OFFSET :offset) AS p"
            f" JOIN review_items i ON i.id = p.id JOIN documents d ON d.id = i.document"
            f" ORDER BY {', '.join(f'p.{column}' for column in outer.split(', '))}",
            values,
        )
    )
    return [_item(row) for row in rows]


_ORDERS = {
    "priority": ("rank DESC, id", "priority DESC, id"),
    "deadline": ("deadline, id", "deadline, id"),
    "oldest": ("created, id", "created, id"),
    "newest": ("created DESC, id", "created DESC, id"),
}


async def queue_item(engine: Engine, item_id: str, *, tenant: str | None = None) -> QueueItem:
    """One item, or `NotFound`."""
    await turn(engine)
    rows = []
    if storable(item_id):
        rows = await engine.read(
            (
                "SELECT i.id, i.tenant, i.document, i.status, i.rank + CAST(:gained AS DOUBLE PRECISION) * i.rising,"
                " i.deadline, i.confidence, i.line_count, i.assigned_to, i.claim_until, i.created, i.claimed,"
                " i.decided, i.decided_by, i.reason, d.filename, d.data FROM review_items i"
                " JOIN documents d ON d.id = i.document WHERE i.id = :id",
                {"id": item_id, "gained": rules.SLOPE * engine.clock.now()},
            )
        )
    if not rows or tenant not in (None, rows[0][1]):
        raise NotFound(f"there is no review item {item_id[:80]}")
    return _item(rows[0])


async def depths(engine: Engine, *, tenant: str | None = None) -> dict[str, int]:
    """Status → how many items have it."""
    where = "" if tenant is None else " WHERE tenant = :tenant"
    rows = await engine.read(
        (
            f"SELECT status, COUNT(*) FROM review_items{where} GROUP BY status",
            {} if tenant is None else {"tenant": tenant},
        )
    )
    return dict.fromkeys(STATUSES, 0) | {status: int(count) for status, count in rows}


async def audit(
    engine: Engine, *, item: str | None = None, document: str | None = None, limit: int = MOST
) -> list[AuditLine]:
    """What was done about an item or a document, oldest first."""
    column, value = ("item", item) if item is not None else ("document", document or "")
    rows = await engine.read(
        (
            'SELECT id, item, document, at, actor, action, field, "before", after, reason FROM review_audit'
            f" WHERE {column} = :value ORDER BY at, id LIMIT :limit",
            {"value": value, "limit": _within(limit)},
        )
    )
    return [AuditLine(*(*row[:7], _value(row[7]), _value(row[8]), row[9])) for row in rows]


async def _twins(engine: Engine, found: DocumentView) -> list[Twin]:
    if found.twin is None:
        return []
    rows = await engine.read(
        (
            "SELECT id, filename, created, review_item FROM documents WHERE tenant = :tenant AND twin = :twin"
            " AND content_hash <> :content ORDER BY id LIMIT 20",
            {"tenant": found.tenant, "twin": found.twin, "content": found.content_hash},
        )
    )
    return [Twin(*row) for row in rows]


def _document(row: Sequence[Any]) -> DocumentView:
    data = None if row[14] is None else ledger.parsed_data(row[14])
    return DocumentView(*(*row[:14], data, *row[15:]))


def _item(row: Sequence[Any]) -> QueueItem:
    # What is stored was checked when it was written; to check all of it again would take longer than to find it.
    data = from_json(row[16])
    return QueueItem(*(*row[:16], data["vendor"], data["invoice_number"], data["total"], data["currency"]))


def _value(text: str | None) -> Any:
    return None if text is None else from_json(text)


def _within(limit: int) -> int:
    if not 1 <= limit <= MOST:
        raise InvalidRequest(f"limit must be from 1 to {MOST}, not {limit}")
    return limit


def _quoted(status: str) -> str:
    assert status in STATUSES
    return f"'{status}'"
