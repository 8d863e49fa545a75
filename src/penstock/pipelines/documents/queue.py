"""What reviewers do: claim, release, decide, correct, unlock. State and owner are checked by the very statement that
changes them, so of two people who do the same one is told so (`Conflict`), and nothing is lost.

What is written is written with its audit line. Where the answer of a commit was lost and it is carried out again, that
line tells that it was done already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from penstock.engine.audit import Actor, entry, name_of
from penstock.engine.engine import Engine
from penstock.engine.errors import Conflict, InvalidRequest, NotFound
from penstock.engine.identity import made_storable, storable
from penstock.engine.model import NewJob
from penstock.pipelines.documents import ledger, metrics, rules
from penstock.pipelines.documents.model import Export, InvoiceData
from penstock.pipelines.documents.rules import Action
from penstock.pipelines.documents.standing import STANDS, restood, turn
from penstock.pipelines.documents.workflow import export
from penstock.store.protocol import Expect

CLAIM = 30 * 60.0
"""Seconds for which a claim holds unless it is renewed."""

MOST_AT_ONCE = 500
LONGEST_REASON = 2000

Statements = list[Any]


@dataclass(slots=True, frozen=True)
class Item:
    """An item of the queue, as far as deciding about it needs."""

    id: str
    tenant: str
    document: str
    content_hash: str
    status: str
    assigned_to: str | None
    claim_until: float | None
    claimed: float | None = None


async def item(engine: Engine, item_id: str, *, tenant: str | None = None) -> Item:
    """An item of this tenant (None: of any), or `NotFound`."""
    rows = []
    if storable(item_id):
        rows = await engine.read(
            (
                "SELECT id, tenant, document, content_hash, status, assigned_to, claim_until, claimed"
                " FROM review_items WHERE id = :id",
                {"id": item_id},
            )
        )
    if not rows or tenant not in (None, rows[0][1]):
        raise NotFound(f"there is no review item {item_id[:80]}")
    return Item(*rows[0])


async def claim(
    engine: Engine,
    item_id: str,
    *,
    actor: Actor | str,
    tenant: str | None = None,
    holds: float = CLAIM,
    reopen: bool = False,
) -> Item:
    """Take an item, or keep it for longer. `reopen` takes one that was decided, to decide anew. `Conflict` where it is
    somebody else's, or decided."""
    await turn(engine)
    found, who, now = await item(engine, item_id, tenant=tenant), who_is(actor), engine.clock.now()
    decided = found.status not in rules.OPEN
    if decided and not reopen:
        raise Conflict(f"review item {item_id} is {found.status} already: reopen it to decide anew")
    renewed = found.status == "in_review" and found.assigned_to == who
    states = "status IN ('approved', 'corrected', 'rejected')" if decided else "status IN ('pending', 'in_review')"
    change = Expect(
        (
            f"UPDATE review_items SET status = 'in_review', assigned_to = :who, claim_until = :until, claimed ="
            f" CASE WHEN status = 'in_review' THEN claimed ELSE :now END, decided = NULL, decided_by = NULL"
            f" WHERE id = :id AND {states} AND (assigned_to = :who OR (status <> 'in_review' AND ("
            f" assigned_to IS NULL OR status <> 'pending')))",
            {"id": item_id, "who": who, "until": now + holds, "now": now},
        ),
        f"review item {item_id} is {_whose(found)}",
    )
    if renewed:
        await engine.write(change)
    else:
        action = "reopened" if decided else "claimed"
        again = _reopening(found, now) if decided else []
        jobs = [export_of(engine, found)] if decided else []
        await carry_out(engine, found, actor, action, [change, *again], now=now, jobs=jobs)
    return await item(engine, item_id)


def _reopening(found: Item, now: float) -> Statements:
    """The new revision tells a second reading of the document, which may be about to be put before a reviewer, that
    its review is open."""
    current = Expect(
        (
            "UPDATE documents SET revision = revision + 1, review_status = 'pending'"
            " WHERE id = :document AND review_item = :id",
            {"document": found.document, "id": found.id},
        ),
        f"document {found.document} was read again since, and has a newer review than {found.id}",
    )
    return [(f"{STANDS} WHERE id = :id", {"id": found.id, "now": now}), current]


async def release(engine: Engine, item_id: str, *, actor: Actor | str, tenant: str | None = None) -> Item:
    """Give an item back to the queue: one's own, or that of somebody who is away."""
    found, now = await item(engine, item_id, tenant=tenant), engine.clock.now()
    change = Expect(
        (
            "UPDATE review_items SET status = 'pending', assigned_to = NULL, claim_until = NULL WHERE id = :id"
            " AND status IN ('pending', 'in_review') AND assigned_to = :seen",
            {"id": item_id, "seen": found.assigned_to or ""},
        ),
        f"review item {item_id} is {found.status} and nobody's: there is nothing to release"
        if found.assigned_to is None
        else f"review item {item_id} is not {found.assigned_to}'s any more",
    )
    await carry_out(engine, found, actor, "released", [change], now=now, reason=found.assigned_to)
    return await item(engine, item_id)


async def submit(
    engine: Engine,
    item_id: str,
    action: Action,
    *,
    actor: Actor | str,
    tenant: str | None = None,
    corrections: Mapping[str, Any] | None = None,
    reason: str | None = None,
) -> Item:
    """Decide about an item that is one's own. What is corrected is locked for this content, and the files of every
    document of this content are written anew."""
    found, who, now = await item(engine, item_id, tenant=tenant), who_is(actor), engine.clock.now()
    reason = _reason(action, reason)
    if corrections and action != "correct":
        raise InvalidRequest(f"corrections go with the action 'correct', not with {action!r}")
    data = await _data(engine, found.document)
    changed = rules.corrected(data, corrections or {}) if action == "correct" else {}
    after = rules.effective(data, changed)
    if action != "reject" and (lacking := rules.missing(after)):
        raise InvalidRequest(f"{', '.join(lacking)}: required, and without a value; correct it, or reject the document")
    status = rules.DECIDES[action]
    decide = Expect(
        (
            "UPDATE review_items SET status = :status, decided = :now, decided_by = :who, reason = :reason,"
            " claim_until = NULL, turns = NULL, rank = rank + CAST(:gained AS DOUBLE PRECISION) * rising, rising = 0"
            " WHERE id = :id AND status = 'in_review' AND assigned_to = :who AND claim_until > :now",
            {
                "id": item_id,
                "status": status,
                "now": now,
                "who": who,
                "reason": reason,
                "gained": rules.SLOPE * now,
            },
        ),
        _not_yours(found, who, now),
    )
    statements: Statements = [decide]
    statements += _corrections(engine, found, actor, data, changed, now, reason)
    statements += await spread(engine, found, changed, decided=(found.document, status))
    if found.claimed is not None:
        statements.append(metrics.observed({metrics.REVIEW: now - found.claimed}))
    await carry_out(engine, found, actor, status, statements, now=now, reason=reason, jobs=[export_of(engine, found)])
    return await item(engine, item_id)


async def unlock(engine: Engine, document: str, field: str, *, actor: Actor | str, tenant: str | None = None) -> None:
    """A locked field is what was extracted again, for every document of this content."""
    rows = await engine.read(
        (
            "SELECT d.tenant, d.content_hash, l.value, COALESCE(d.review_item, '') FROM documents d LEFT JOIN"
            " document_locks l ON l.tenant = d.tenant AND l.content_hash = d.content_hash AND l.field = :field"
            " WHERE d.id = :id",
            {"id": document if storable(document) else "", "field": field if storable(field) else ""},
        )
    )
    if not rows or tenant not in (None, rows[0][0]):
        raise NotFound(f"there is no document {document[:80]}")
    owner, content, value, item_id = rows[0]
    if value is None:
        raise Conflict(f"field {field[:80]!r} of document {document} is not locked")
    found = Item(item_id, owner, document, content, "", None, None)
    drop = Expect(
        (
            "DELETE FROM document_locks WHERE tenant = :tenant AND content_hash = :content AND field = :field",
            {"tenant": owner, "content": content, "field": field},
        ),
        f"field {field!r} of document {document} is not locked any more",
    )
    now = engine.clock.now()
    others = await spread(engine, found, {}, without=field)
    # What was decided was decided about the value that goes: the document is put before a reviewer again.
    reopen = "status IN ('approved', 'corrected', 'rejected')"
    others += [
        (
            f"UPDATE documents SET review_status = 'pending' WHERE id = :document AND EXISTS"
            f" (SELECT 1 FROM review_items WHERE id = :id AND {reopen})",
            {"document": document, "id": item_id},
        ),
        (f"{STANDS} WHERE id = :id AND {reopen}", {"id": item_id, "now": now}),
        (
            "UPDATE review_items SET status = 'pending', assigned_to = NULL, decided = NULL, decided_by = NULL"
            f" WHERE id = :id AND {reopen}",
            {"id": item_id},
        ),
    ]
    await carry_out(
        engine,
        found,
        actor,
        "unlocked",
        [drop, *others],
        now=now,
        field=field,
        before=value,
        jobs=[export_of(engine, found)],
    )


async def carry_out(
    engine: Engine,
    found: Item,
    actor: Actor | str,
    action: str,
    statements: Statements,
    *,
    now: float,
    reason: str | None = None,
    field: str | None = None,
    before: Any = None,
    jobs: Sequence[NewJob] = (),
) -> None:
    """Carry out what was decided with its lines in both audits: the reviewers', and the service's."""
    line = engine.new_id()
    told = ledger.audited(
        line, actor, action, tenant=found.tenant, item=found.id, document=found.document, now=now, reason=reason,
        field=field, before=before,
    )  # fmt: skip
    target = f"review:{found.id}" if found.id else f"document:{found.document}"
    audit = entry(actor, f"review.{action}", target, tenant=found.tenant, detail=field)
    try:
        await engine.write(*statements, told, jobs=jobs, audit=audit)
    except Conflict:
        if not await engine.read(("SELECT 1 FROM review_audit WHERE id = :id", {"id": line})):
            raise


async def _data(engine: Engine, document: str) -> InvoiceData:
    rows = await engine.read(("SELECT data FROM documents WHERE id = :id", {"id": document}))
    if not rows or rows[0][0] is None:
        raise NotFound(f"there is no document {document} any more")
    return ledger.parsed_data(rows[0][0])


def _corrections(
    engine: Engine,
    found: Item,
    actor: Actor | str,
    data: InvoiceData,
    changed: Mapping[str, Any],
    now: float,
    reason: str | None,
) -> Statements:
    before = data.model_dump(mode="json")
    statements: Statements = []
    for name, value in changed.items():
        statements.append(
            (
                "INSERT INTO document_locks (tenant, content_hash, field, value, actor, at)"
                " VALUES (:tenant, :content, :field, :value, :actor, :at) ON CONFLICT (tenant, content_hash, field)"
                " DO UPDATE SET value = excluded.value, actor = excluded.actor, at = excluded.at",
                {
                    "tenant": found.tenant, "content": found.content_hash, "field": name,
                    "value": to_json(value).decode(), "actor": who_is(actor), "at": now,
                },
            )
        )  # fmt: skip
        statements.append(
            ledger.audited(
                engine.new_id(), actor, "corrected field", tenant=found.tenant, item=found.id, document=found.document,
                now=now, field=name, before=before[name], after=value, reason=reason,
            )
        )  # fmt: skip
    return statements


async def spread(
    engine: Engine,
    found: Item,
    changed: Mapping[str, Any],
    *,
    without: str | None = None,
    decided: tuple[str, str] | None = None,
) -> Statements:
    """What becomes of the documents of this content: their data with the locks as they will be, each guarded by the
    revision it was worked out from."""
    only = not changed and without is None
    rows = await engine.read(
        (
            "SELECT id, extraction, revision FROM documents WHERE tenant = :tenant AND content_hash = :content"
            f" AND done = 1{' AND id = :id' if only else ''}",
            {"tenant": found.tenant, "content": found.content_hash, **({"id": found.document} if only else {})},
        )
    )
    locked = {**await ledger.locks(engine, found.tenant, found.content_hash), **changed}
    locked.pop(without or "", None)
    statements: Statements = []
    for document, extraction, revision in rows:
        record = rules.record(ledger.parsed(extraction), locked, "")
        data, seen = record.data, rules.seen(record)
        status = decided[1] if decided is not None and decided[0] == document else None
        statements.append(
            Expect(
                (
                    "UPDATE documents SET data = :data, twin = :twin, confidence = :sure, revision = revision + 1,"
                    " review_status = COALESCE(:status, review_status) WHERE id = :id AND revision = :revision",
                    {
                        "data": data.model_dump_json(), "twin": rules.twin_key(data), "status": status,
                        "sure": seen.confidence, "id": document, "revision": revision,
                    },
                ),
                f"document {document} was changed by somebody else at this moment: look again",
            )
        )  # fmt: skip
        if not only:
            statements += restood(document, seen, engine.clock.now())
    return statements


def export_of(engine: Engine, found: Item) -> NewJob:
    return engine.new_job(export, Export(content_hash=found.content_hash), tenant=found.tenant)


def who_is(actor: Actor | str) -> str:
    return name_of(actor) or "somebody"


def _whose(found: Item) -> str:
    if found.status == "in_review":
        return f"in review by {found.assigned_to}"
    if found.assigned_to is not None and found.status == "pending":
        return f"assigned to {found.assigned_to}"
    return f"{found.status} already"


def _not_yours(found: Item, who: str, now: float) -> str:
    if found.status == "in_review" and found.assigned_to == who and (found.claim_until or 0) <= now:
        return f"your claim on review item {found.id} has lapsed: claim it again"
    if found.status in rules.OPEN:
        mine = "" if found.status == "in_review" else ": claim it first"
        return f"review item {found.id} is {_whose(found) if found.assigned_to else found.status}{mine}"
    return f"review item {found.id} is {found.status} already"


def _reason(action: Action, reason: str | None) -> str | None:
    if action not in rules.DECIDES:
        raise InvalidRequest(f"unknown action {action!r}: use {', '.join(rules.DECIDES)}")
    told = (made_storable(reason) or "").strip()
    if len(told) > LONGEST_REASON:
        raise InvalidRequest(f"the reason has {len(told)} characters; at most {LONGEST_REASON} are kept")
    rules.check_reason(action, told)
    return told or None
