"""The workflow: one job for each run, ticked until no batch is active and nothing can run. What its steps do is in
`ticking`, which is imported when a step first runs: every worker knows this workflow, and few need Google's library."""

from __future__ import annotations

from typing import Any

from penstock.engine.context import Context
from penstock.engine.outcome import Again
from penstock.engine.retry import Retry
from penstock.engine.workflow import Workflow
from penstock.pipelines.pages.model import Task

pages = Workflow("pages", payload=Task, deadline=None, retry=Retry(attempts=200, base=5, factor=2, cap=300))
"""A network that is away for half a day fails no run; what a page may fail is counted with the page."""


@pages.step
async def begin(task: Task, ctx: Context) -> Task | Again:
    from penstock.pipelines.pages import ticking

    return await ticking.begin(task, ctx)


@pages.step
async def tick(task: Task, ctx: Context) -> Again | dict[str, Any]:
    from penstock.pipelines.pages import ticking

    return await ticking.tick(task, ctx)


@pages.cleanup(retry=Retry(attempts=50, base=5, factor=2, cap=300))
async def stop(task: Task, ctx: Context) -> Again | None:
    from penstock.pipelines.pages import ticking

    return await ticking.stop(task, ctx)
