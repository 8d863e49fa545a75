"""Many items at once: approved by their confidence, or given to reviewers. Each is decided by a statement of its own,
so one that somebody takes meanwhile is theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.engine.audit import Actor
from penstock.engine.engine import Engine
from penstock.engine.errors import Conflict, InvalidRequest
from penstock.engine.identity import storable
from penstock.pipelines.documents import rules
from penstock.pipelines.documents.queue import MOST_AT_ONCE, Item, carry_out, export_of, spread, who_is
from penstock.pipelines.documents.standing import turn
from penstock.store.protocol import Expect

TOGETHER = 50


async def batch_approve(
    engine: Engine, *, actor: Actor | str, min_confidence: float, tenant: str | None = None, limit: int = MOST_AT_ONCE
) -> list[str]:
    """Approve what nobody has claimed, is at least so sure, has all required fields and nothing that speaks against
    it. Answers their ids."""
    await turn(engine)
    limit = min(limit, MOST_AT_ONCE)
    rows = await engine.read(
        (
            "SELECT i.id, i.tenant, i.document, i.content_hash, i.status, i.assigned_to, i.claim_until"
            " FROM review_items i JOIN documents d ON d.id = i.document"
            " WHERE i.status = 'pending' AND i.approvable = 1 AND i.confidence >= :least AND NOT EXISTS"
            # The same invoice in other bytes: somebody should look which of them counts.
            " (SELECT 1 FROM documents o WHERE o.tenant = d.tenant AND o.twin = d.twin"
            " AND o.content_hash <> d.content_hash)"
            f"{'' if tenant is None else ' AND i.tenant = :tenant'} ORDER BY i.id LIMIT :limit",
            {"least": min_confidence, "tenant": tenant, "limit": limit} if tenant is not None
            else {"least": min_confidence, "limit": limit},
        )
    )  # fmt: skip
    items, approved = [Item(*row) for row in rows], []
    for start in range(0, len(items), TOGETHER):
        # Those that are asked for together are stored together.
        some = items[start : start + TOGETHER]
        done = await asyncio.gather(*(_approve(engine, found, actor, min_confidence) for found in some))
        approved += [found.id for found, is_done in zip(some, done, strict=True) if is_done]
    return approved


async def auto_assign(
    engine: Engine, reviewers: Sequence[str], *, actor: Actor | str, tenant: str | None = None, limit: int = 50
) -> dict[str, str]:
    """Give the most urgent items that are nobody's to the reviewers with the least to do, in turn. Answers item →
    reviewer."""
    names = list(dict.fromkeys(name.strip() for name in reviewers if name.strip() and storable(name)))
    if not names:
        raise InvalidRequest("there is nobody to assign to: name reviewers, or set documents.reviewers")
    await turn(engine)
    loads = dict.fromkeys(names, 0) | await _loads(engine, names, tenant)
    given: dict[str, str] = {}
    for found in await _unassigned(engine, tenant, min(limit, MOST_AT_ONCE)):
        who = min(names, key=lambda name: (loads[name], names.index(name)))
        change = Expect(
            (
                "UPDATE review_items SET assigned_to = :who WHERE id = :id AND status = 'pending'"
                " AND assigned_to IS NULL",
                {"id": found.id, "who": who},
            ),
            f"review item {found.id} was taken meanwhile",
        )
        try:
            await carry_out(engine, found, actor, "assigned", [change], now=engine.clock.now(), reason=who)
        except Conflict:
            continue
        given[found.id] = who
        loads[who] += 1
    return given


async def _approve(engine: Engine, found: Item, actor: Actor | str, least: float) -> bool:
    now = engine.clock.now()
    change = Expect(
        (
            "UPDATE review_items SET status = 'approved', decided = :now, decided_by = :who, turns = NULL,"
            " rank = rank + CAST(:gained AS DOUBLE PRECISION) * rising, rising = 0"
            " WHERE id = :id AND status = 'pending' AND approvable = 1 AND confidence >= :least",
            {"id": found.id, "now": now, "who": who_is(actor), "least": least, "gained": rules.SLOPE * now},
        ),
        f"review item {found.id} was taken meanwhile",
    )
    others = await spread(engine, found, {}, decided=(found.document, "approved"))
    jobs = [export_of(engine, found)]
    try:
        await carry_out(engine, found, actor, "approved", [change, *others], now=now, reason="by confidence", jobs=jobs)
    except Conflict:
        return False
    return True


async def _loads(engine: Engine, names: Sequence[str], tenant: str | None) -> dict[str, int]:
    """How many open items each has. Other people's do not count."""
    where = "" if tenant is None else " AND tenant = :tenant"
    rows = await engine.read(
        (
            "SELECT assigned_to, COUNT(*) FROM review_items WHERE status IN ('pending', 'in_review')"
            f" AND assigned_to IS NOT NULL{where} GROUP BY assigned_to",
            {} if tenant is None else {"tenant": tenant},
        )
    )
    return {name: int(count) for name, count in rows if name in names}


async def _unassigned(engine: Engine, tenant: str | None, limit: int) -> list[Item]:
    """The most urgent pending items that are nobody's."""
    where = "" if tenant is None else " AND tenant = :tenant"
    branches = " UNION ALL ".join(
        "SELECT * FROM (SELECT id, tenant, document, content_hash, status, assigned_to, claim_until,"
        " rank + CAST(:gained AS DOUBLE PRECISION) * rising AS urgency FROM review_items WHERE status = 'pending'"
        f" AND rising = {rising}{where} AND assigned_to IS NULL ORDER BY rank DESC, id LIMIT :limit) AS part{rising}"
        for rising in (0, 1)
    )
    values = {"gained": rules.SLOPE * engine.clock.now(), "limit": limit} | (
        {} if tenant is None else {"tenant": tenant}
    )
    rows = await engine.read((f"{branches} ORDER BY urgency DESC, id LIMIT :limit", values))
    return [Item(*row[:7]) for row in rows]
