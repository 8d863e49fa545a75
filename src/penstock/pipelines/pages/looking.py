"""What somebody who asks the service may see of runs: those of their tenant, and files within the run's own folders."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from penstock.app import Penstock
from penstock.engine.engine import Engine
from penstock.engine.errors import NotFound
from penstock.engine.model import Job
from penstock.pipelines.pages import asking, reading
from penstock.pipelines.pages.model import Run, Task
from penstock.pipelines.pages.prompts.context import PageContext
from penstock.pipelines.pages.reading import PageView
from penstock.service.access.principal import Principal
from penstock.service.roots import within


@dataclass(slots=True, frozen=True)
class Seen:
    """A run that may be seen."""

    job: Job
    task: Task

    @property
    def run(self) -> Run:
        return self.task.run

    @property
    def ledger(self) -> str:
        return self.task.ledger


def task_of(job: Job) -> Task | None:
    """What the run was told; None for a job of another workflow that is called `pages`, too."""
    try:
        return Task.model_validate(job.payload)
    except ValidationError:
        return None


async def seen(penstock: Penstock, principal: Principal, run_id: str) -> Seen:
    """The run, or `NotFound` in the words for one that never was."""
    try:
        job = await asking.run_of(penstock, run_id, tenant=principal.tenant)
    except NotFound:
        raise NotFound(f"there is no run {run_id}") from None
    task = task_of(job)
    if task is None:
        raise NotFound(f"there is no run {run_id}")
    return Seen(job, task)


async def newest(penstock: Penstock, of: Seen) -> Job:
    """The newest run that writes to the same folder."""
    return of.job if not of.job.final else await asking.newest_run(penstock, of.job)


async def page_seen(engine: Engine, of: Seen, key: str) -> PageView:
    """A page, without what a link in the output folder leads to elsewhere."""
    found = await reading.page(engine, of.run, of.ledger, key)
    return await asyncio.to_thread(_guarded, of.run, found)


def _guarded(run: Run, page: PageView) -> PageView:
    folder = run.paths.output_dir / page.page.folder
    if page.output is not None and not within(folder / f"{page.page.spelling}.json", run.paths.output_dir):
        page = replace(page, output=None, provenance=None, context=None)
    elif page.provenance is None and page.state != "in flight" and page.context is not None:
        name = (page.before or "").rpartition(":")[2]
        if not within(folder / f"{name}.json", run.paths.output_dir):
            page = replace(page, context=None)
    if page.image is not None and not within(page.image, run.paths.image_source_dir):
        page = replace(page, image=None)
    told = _whole(page.provenance)
    return replace(
        page,
        output=_whole(page.output),
        provenance=told if isinstance(told, dict) else None,
        context=_whole_context(page.context),
    )


def _whole(value: Any) -> Any:
    """Without halves of characters, which a file can spell and no answer can carry."""
    if value is None:
        return None
    try:
        text = json.dumps(value, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        return json.loads(text.encode(errors="replace"))
    except RecursionError:
        return "nested too deeply to be shown"
    return value


def _whole_context(context: PageContext | None) -> PageContext | None:
    return None if context is None else PageContext.model_validate(_whole(context.model_dump(mode="json")))
