"""Hands the dashboard to the service: all pages, and the files they load."""

from __future__ import annotations

from fastapi import Depends, FastAPI

from penstock.service.dashboard import live
from penstock.service.dashboard.assets import mount_static
from penstock.service.dashboard.pages import (
    audit,
    batches,
    calls,
    costs,
    dead_letters,
    finding,
    job,
    jobs,
    new_job,
    overview,
    schedules,
    tokens,
    workers,
)
from penstock.service.dashboard.survey import counted

__all__ = ["include_pages", "mount_static"]


def include_pages(app: FastAPI) -> None:
    """Every page, under `/` and `/ui/`."""
    app.include_router(live.router, include_in_schema=False)
    for page in (
        overview, jobs, new_job, job, batches, calls, workers, dead_letters, costs, schedules, audit, tokens, finding
    ):  # fmt: skip
        app.include_router(page.router, include_in_schema=False, dependencies=[Depends(counted)])
