"""What of the pipeline needs a person: dead pages, which nothing but a retry brings back."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.engine import Engine
from penstock.engine.model import Job
from penstock.pipelines.pages.dashboard.places import HOME, called, run_path
from penstock.pipelines.pages.looking import task_of
from penstock.pipelines.pages.reading import dead_folders
from penstock.pipelines.pages.workflow import pages
from penstock.service.dashboard.wording import many
from penstock.service.sections import Need

SHOWN = 4
"""Folders that are named; the others are told together."""

WAITING = "What stands behind them in their chains waits until somebody retries them."
SKIPPED = "The pages behind them went on without their context; they are read only if somebody retries them."


async def needs(engine: Engine, tenant: str | None) -> Sequence[Need]:
    found = await dead_folders(engine, tenant)
    told = [
        Need(
            f"{_dead(one.count)} in {called(one.output_dir)}",
            WAITING if one.blocks else SKIPPED,
            run_path(one.job, "failures") if one.job else HOME,
        )
        for one in found[:SHOWN]
    ]
    if rest := found[SHOWN:]:
        folders = many(len(rest), "further folder")
        told.append(Need(f"{_dead(sum(one.count for one in rest))} in {folders}", "Each has its own run.", HOME))
    return told


def _dead(count: int) -> str:
    return f"{many(count, 'page')} {'is' if count == 1 else 'are'} dead"


def link_of(job: Job) -> str | None:
    """The run that a job is; a user's own workflow may be called `pages`, too."""
    return run_path(job.id) if job.workflow == pages.name and task_of(job) is not None else None
