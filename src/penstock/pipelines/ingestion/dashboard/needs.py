"""What of the knowledge bases needs a person: runs that failed, and what could not be taken in."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.engine import Engine
from penstock.pipelines.ingestion.dashboard.places import HOME, Paths
from penstock.pipelines.ingestion.workflow import ingestion
from penstock.service.dashboard.wording import many
from penstock.service.sections import Need

SHOWN = 3
"""Knowledge bases that are named; the others are told together."""

MOST = 200


async def needs(engine: Engine, tenant: str | None) -> Sequence[Need]:
    mine, who = ("", {}) if tenant is None else (" AND b.tenant = :tenant", {"tenant": tenant})
    failed = await engine.read(
        (
            "SELECT b.id, b.tenant FROM kb_bases b JOIN jobs j ON j.tenant = b.tenant"
            f" AND j.workflow = '{ingestion.name}' AND j.\"key\" = b.run WHERE b.leaving IS NULL{mine}"
            " AND j.status = 'failed' AND NOT EXISTS (SELECT 1 FROM jobs n WHERE n.tenant = j.tenant"
            ' AND n.workflow = j.workflow AND n."key" = j."key" AND n.run > j.run)'
            " ORDER BY b.id, b.tenant LIMIT :most",
            {"most": MOST, **who},
        )
    )
    errors = await engine.read(
        (
            "SELECT b.id, b.tenant, COUNT(*) FROM kb_bases b JOIN kb_errors e ON e.edition = b.edition"
            f" WHERE b.leaving IS NULL{mine} GROUP BY b.id, b.tenant ORDER BY b.id, b.tenant LIMIT :most",
            {"most": MOST, **who},
        )
    )
    return [*_failed([(id, owner) for id, owner in failed]), *_errors([(i, o, int(n)) for i, o, n in errors])]


def _failed(found: Sequence[tuple[str, str]]) -> list[Need]:
    told = [
        Need(
            f"The ingestion of {id} failed",
            "Its page says why. Resume goes on from where it was.",
            Paths(id, owner)(),
            dead_letters=1,
        )
        for id, owner in found[:SHOWN]
    ]
    if rest := found[SHOWN:]:
        title = f"{many(len(rest), 'further ingestion')} failed"
        told.append(Need(title, "Each knowledge base says why.", HOME, dead_letters=len(rest)))
    return told


def _errors(found: Sequence[tuple[str, str, int]]) -> list[Need]:
    told = [
        Need(
            f"{many(count, 'error')} in {id}",
            "Documents or chunks that could not be taken in: see why, then retry them.",
            Paths(id, owner)("errors"),
            grave=False,
        )
        for id, owner, count in found[:SHOWN]
    ]
    if rest := found[SHOWN:]:
        count, among = sum(each[2] for each in rest), many(len(rest), "further knowledge base")
        told.append(Need(f"{many(count, 'error')} in {among}", "Each has its own list.", HOME, grave=False))
    return told
