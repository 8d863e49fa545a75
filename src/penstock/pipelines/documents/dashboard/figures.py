"""What the queue comes to: what is late, who has how much to do, what a batch approval would approve."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.engine import Engine

SOON = 2 * 3600.0
"""Seconds before its deadline in which a review is shown as urgent."""

DAY = 86400.0
LEAST, MOST = 50, 100
"""Percent between which a batch approval's confidence is chosen."""


@dataclass(slots=True, frozen=True)
class Load:
    """One reviewer: what is open, and what was decided in the last day. `mean` is seconds from claim to decision."""

    name: str
    open: int = 0
    claimed: int = 0
    decided: int = 0
    mean: float | None = None


@dataclass(slots=True, frozen=True)
class Figures:
    overdue: int
    soon: int
    decided: int
    mean: float | None
    loads: tuple[Load, ...]
    approvable: tuple[int, ...]
    """How many would be approved at each percent from `LEAST` to `MOST`."""


async def figures(engine: Engine, *, tenant: str | None, reviewers: tuple[str, ...] = ()) -> Figures:
    now = engine.clock.now()
    of = "" if tenant is None else " AND tenant = :tenant"
    who = {} if tenant is None else {"tenant": tenant}
    late = await engine.read(
        (
            "SELECT COUNT(*), COALESCE(SUM(CASE WHEN deadline <= :now THEN 1 ELSE 0 END), 0) FROM review_items"
            f" WHERE status IN ('pending', 'in_review') AND deadline <= :soon{of}",
            {"now": now, "soon": now + SOON, **who},
        )
    )
    held = await engine.read(
        (
            "SELECT assigned_to, COUNT(*), SUM(CASE WHEN status = 'in_review' THEN 1 ELSE 0 END) FROM review_items"
            f" WHERE status IN ('pending', 'in_review') AND assigned_to IS NOT NULL{of} GROUP BY assigned_to",
            who,
        )
    )
    done = await engine.read(
        (
            "SELECT decided_by, COUNT(*), SUM(decided - claimed), COUNT(claimed) FROM review_items"
            f" WHERE decided >= :since{of} GROUP BY decided_by",
            {"since": now - DAY, **who},
        )
    )
    sure = await engine.read(
        (
            # Without what may be a duplicate, as the approval itself leaves it out.
            "SELECT i.confidence, COUNT(*) FROM review_items i JOIN documents d ON d.id = i.document"
            " WHERE i.status = 'pending' AND i.approvable = 1 AND NOT EXISTS (SELECT 1 FROM documents o WHERE"
            " o.tenant = d.tenant AND o.twin = d.twin AND o.content_hash <> d.content_hash)"
            f"{of.replace('tenant', 'i.tenant', 1)} GROUP BY i.confidence",
            who,
        )
    )
    overdue = int(late[0][1])
    seconds = sum(float(spent) for _, _, spent, timed in done if timed)
    timed = sum(int(count) for _, _, _, count in done)
    return Figures(
        overdue=overdue,
        soon=int(late[0][0]) - overdue,
        decided=sum(int(count) for _, count, _, _ in done),
        mean=seconds / timed if timed else None,
        loads=_loads(held, done, reviewers),
        approvable=tuple(
            sum(int(count) for confidence, count in sure if confidence >= percent / 100)
            for percent in range(LEAST, MOST + 1)
        ),
    )


def _loads(
    held: list[tuple[object, ...]], done: list[tuple[object, ...]], reviewers: tuple[str, ...]
) -> tuple[Load, ...]:
    open_of = {str(name): (int(str(count)), int(str(claimed))) for name, count, claimed in held}
    done_of = {
        str(name or "somebody"): (int(str(count)), float(str(spent)) / int(str(timed)) if timed else None)
        for name, count, spent, timed in done
    }
    names = dict.fromkeys((*reviewers, *sorted({*open_of, *done_of})))
    loads = [Load(name, *open_of.get(name, (0, 0)), *done_of.get(name, (0, None))) for name in names]
    return tuple(sorted(loads, key=lambda load: (-load.open, -load.decided, load.name)))
