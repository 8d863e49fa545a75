"""What a check of the promises does: everything it finds is one commit, and of two checks at once only one goes on."""

from __future__ import annotations

from penstock.engine.context import Context
from penstock.pipelines.documents import measuring, metrics, sla, standing
from penstock.pipelines.documents.model import Export
from penstock.pipelines.documents.sla import Bounds, Breach, Episode
from penstock.pipelines.documents.watching import Told
from penstock.store.protocol import Expect

LOCK = "documents.watch"

_STALE = (
    "SELECT DISTINCT tenant, content_hash FROM documents WHERE done = 1 AND exported < revision"
    " ORDER BY tenant, content_hash LIMIT 100"
)
"""Contents whose files do not show what is stored."""


async def check(bounds: Bounds, ctx: Context) -> Told:
    if not await ctx.lock(LOCK):
        ctx.log.info("another check is under way")
        return Told()
    now = ctx.now()
    if await standing.due(ctx, now):
        for statement in standing.turning(now):
            ctx.write(statement)
    for tenant, content in await ctx.read(_STALE):
        # An export that failed for good, on a disk that was full for an hour, say, is asked for again.
        ctx.spawn("documents.export", Export(content_hash=content), key=f"stale-{content}", again=True, tenant=tenant)
    found = sla.breaches(await measuring.measure(ctx, bounds, now), bounds)
    verdict = sla.judged(await measuring.episodes(ctx), found)
    for breach in verdict.begins:
        ctx.write(_begun(breach, f"{ctx.job.id}-{breach.rule}", now))
    for breach in (*verdict.begins, *verdict.graver):
        ctx.write(metrics.breached(breach.severity))
    for episode, breach in verdict.goes_on:
        ctx.write(_went_on(episode, breach))
    for episode in verdict.ends:
        ctx.write(("UPDATE document_breaches SET ended = :now WHERE id = :id", {"id": episode.id, "now": now}))
        ctx.log.info("kept again: %s", episode.rule)
    return Told(
        breached=tuple(breach.rule for breach in found),
        news=tuple(
            f"{breach.rule} ({breach.severity}): {sla.words(breach.rule, breach.value, breach.bound)}"
            for breach in verdict.begins
        ),
    )


def _begun(breach: Breach, id: str, now: float) -> Expect:
    return Expect(
        (
            "INSERT INTO document_breaches (id, rule, severity, bound, value, worst, began)"
            " VALUES (:id, :rule, :severity, :bound, :value, :value, :now) ON CONFLICT DO NOTHING",
            {
                "id": id, "rule": breach.rule, "severity": breach.severity, "bound": breach.bound,
                "value": breach.value, "now": now,
            },
        ),
        f"the breach of {breach.rule} is known already",
    )  # fmt: skip


def _went_on(episode: Episode, breach: Breach) -> tuple[str, dict[str, object]]:
    """What was critical once stays so until it ends."""
    severity = "critical" if "critical" in (episode.severity, breach.severity) else "warning"
    return (
        "UPDATE document_breaches SET severity = :severity, bound = :bound, value = :value, worst = :worst"
        " WHERE id = :id",
        {
            "id": episode.id, "severity": severity, "bound": breach.bound, "value": breach.value,
            "worst": sla.worse(breach.rule, episode.worst, breach.value),
        },
    )  # fmt: skip
