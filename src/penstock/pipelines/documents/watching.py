"""What looks after the pipeline by the clock: `documents.watch` holds it against what is promised and brings the review
queue up to date, `documents.snapshot` writes down each hour and removes what died with its process. Both are jobs that
schedules start.

The schedules come with the first document, so that whoever has none is not bothered; and one that a person switched off
or removed stays so.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from weakref import WeakSet

from pydantic import BaseModel, ConfigDict

from penstock.app import Penstock
from penstock.config import Settings
from penstock.engine.context import Context
from penstock.engine.engine import Engine
from penstock.engine.model import DEFAULT_TENANT
from penstock.engine.priority import Priority
from penstock.engine.retry import Retry
from penstock.engine.workflow import Workflow
from penstock.pipelines.documents.sla import Bounds
from penstock.store.protocol import SetCursor

FIRST = Priority(base=95, ageing=None)
"""Where many documents wait, whoever tells of it must not wait behind them."""

RETRY = Retry(attempts=3, base=5.0, factor=2.0)

watch = Workflow("documents.watch", payload=Bounds, retry=RETRY, priority=FIRST, timeout=120.0)


class Told(BaseModel):
    """What a check found: the rules that are broken, and in words what is to be told of."""

    model_config = ConfigDict(frozen=True)

    breached: tuple[str, ...] = ()
    news: tuple[str, ...] = ()


@watch.step
async def check(bounds: Bounds, ctx: Context) -> Told:
    """Hold what was measured against what is promised; give up lapsed claims and let priorities turn."""
    from penstock.pipelines.documents import checking

    return await checking.check(bounds, ctx)


@watch.step
async def tell(told: Told, ctx: Context) -> dict[str, list[str]]:
    """Once, however often this is run: the line in the job's history is there or not. It is a step of its own so that
    nothing is told of that was not stored, and nothing stored that is never told of."""
    if told.news:
        await ctx.sla_breached("; ".join(told.news))
    return {"breached": list(told.breached)}


class Hours(BaseModel):
    """Nothing needs to be said: the hours that lack their file are found by what there is."""

    model_config = ConfigDict(frozen=True)


snapshot = Workflow("documents.snapshot", payload=Hours, retry=RETRY, priority=FIRST, timeout=120.0)


@snapshot.step
async def write_hours(_: Hours, ctx: Context) -> dict[str, list[str]]:
    """A file for each full hour that has none."""
    from penstock.pipelines.documents import snapshots

    return await snapshots.write_hours(ctx)


@snapshot.step
async def tidy(written: dict[str, list[str]], ctx: Context) -> dict[str, list[str]]:
    """A step of its own: a folder that cannot be read does not keep the hours from being written down."""
    from penstock.pipelines.documents.sweeping import sweep_orphans

    last = await ctx.read(
        (
            "SELECT MAX(finished) FROM jobs WHERE workflow = :workflow AND lane <> '' AND status = 'completed'",
            {"workflow": ctx.job.workflow},
        )
    )
    if removed := await sweep_orphans(ctx, ctx.home, now=ctx.now(), since=last[0][0]):
        ctx.log.warning("removed %d files that processes which died had left behind", removed)
    return written


_ensured: WeakSet[Engine] = WeakSet()
"""Engines whose store was looked at: once for each time it is opened is enough."""


def made_at(workflow: str) -> str:
    """The cursor that says when its schedule was made: one that is missing since was removed by a person."""
    return f"schedule:{workflow}"


async def ensure(app: Penstock, settings: Settings) -> None:
    """Let there be the schedules, with the bounds that are configured now. Of those that exist, only the bounds change:
    when they fire, and whether, is up to people. An app that was not given the workflows has none."""
    engine = app.engine
    if engine in _ensured:
        return
    there = {each.name: each for each in await app.schedules(tenant=DEFAULT_TENANT)}
    for workflow, cron, payload in _wanted(settings, engine.clock.now()):
        if app.workflows.get(workflow.name) is not workflow:
            continue
        known, made = there.get(workflow.name), made_at(workflow.name)
        if known is None:
            if await engine.store.cursor(made) is None:
                await app.schedule(workflow.name, cron, workflow, payload)
                await engine.group.do(SetCursor(made, f"{engine.clock.now():.3f}"))
        elif known.workflow == workflow.name and known.payload != payload.model_dump(mode="json"):
            await app.schedule(
                known.name, known.cron, workflow, payload, timezone=known.timezone, enabled=known.enabled
            )
    _ensured.add(engine)


def _wanted(settings: Settings, now: float) -> Iterator[tuple[Workflow, str, Any]]:
    """Counted from the minute of the first document, not from the full hour: not every installation looks at the same
    moment, and the first look comes when there is something to see."""
    minute = datetime.fromtimestamp(now, UTC).minute
    yield watch, f"{minute % 5}-59/5 * * * *", Bounds.of(settings.documents)
    yield snapshot, f"{minute % 30} * * * *", Hours()
