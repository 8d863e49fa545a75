"""How items stand in the queue: what a moment does to their priorities and claims. An index has them in the order of
`rules.Standing`, so time only touches those that turn."""

from __future__ import annotations

from typing import Any

from penstock.engine.engine import Engine
from penstock.pipelines.documents import ledger, rules

Statements = list[Any]

MOST_TURNING = 2000
"""Items whose priority turns in one transaction; what is left over turns with the next look."""

STANDS = (
    "UPDATE review_items SET rising = CASE WHEN deadline > :now AND deadline - 86400.0 <= :now THEN 1 ELSE 0 END,"
    f" rank = CASE WHEN deadline - 86400.0 > :now THEN weight WHEN deadline > :now THEN weight + {rules.URGENT!r}"
    f" - {rules.SLOPE!r} * deadline ELSE weight + {rules.URGENT!r} END,"
    " turns = CASE WHEN deadline - 86400.0 > :now THEN deadline - 86400.0 WHEN deadline > :now THEN deadline END"
)
"""`rules.standing` as SQL: a test holds the two together."""


async def turn(engine: Engine) -> bool:
    """Bring the order up to date: items whose day has come begin to rise, those whose deadline has passed have risen,
    and claims that have lapsed are given up. Answers whether there was anything; mostly two looks at an index say
    no."""
    now = engine.clock.now()
    if not await due(engine, now):
        return False
    await engine.write(*turning(now))
    return True


async def due(reads: ledger.Reads, now: float) -> bool:
    """Whether there is anything to bring up to date."""
    # The first of each index, compared here: of a question whether any is due yet PostgreSQL expects that many are, and
    # reads the whole table for it.
    (next_turn, next_lapse) = (
        await reads.read(
            "SELECT (SELECT MIN(turns) FROM review_items WHERE turns IS NOT NULL),"
            " (SELECT MIN(claim_until) FROM review_items WHERE status = 'in_review')"
        )
    )[0]
    return any(moment is not None and moment <= now for moment in (next_turn, next_lapse))


def turning(now: float) -> Statements:
    """What brings it up to date: to be carried out together."""
    lapsed = "status = 'in_review' AND claim_until <= :now"
    return [
        (
            f"{STANDS} WHERE id IN (SELECT id FROM review_items WHERE turns <= :now ORDER BY turns"
            f" LIMIT {MOST_TURNING})",
            {"now": now},
        ),
        (
            "INSERT INTO review_audit (id, tenant, item, document, at, actor, action, reason)"
            " SELECT id || '-lapsed-' || CAST(CAST(claim_until * 1000 AS BIGINT) AS TEXT), tenant, id, document, :at,"
            f" 'penstock', 'claim lapsed', assigned_to FROM review_items WHERE {lapsed} ON CONFLICT (id) DO NOTHING",
            {"now": now, "at": now},
        ),
        (
            f"UPDATE review_items SET status = 'pending', assigned_to = NULL, claim_until = NULL WHERE {lapsed}",
            {"now": now},
        ),
    ]


def restood(document: str, seen: rules.Seen, now: float) -> Statements:
    """An open review stands in the queue as what is known now makes it. One that was decided keeps its rank, and knows
    the same: it may come back to the queue."""
    which = "document = :document AND status IN ('pending', 'in_review')"
    return [
        (
            "UPDATE review_items SET weight = :weight, confidence = :sure, line_count = :lines, total = :total,"
            f" approvable = :approvable WHERE ({which})"
            " OR id = (SELECT review_item FROM documents WHERE id = :document)",
            {
                "document": document, "weight": seen.weight, "sure": seen.confidence, "lines": seen.lines,
                "total": seen.total, "approvable": int(seen.approvable),
            },
        ),
        (f"{STANDS} WHERE {which}", {"document": document, "now": now}),
    ]  # fmt: skip
