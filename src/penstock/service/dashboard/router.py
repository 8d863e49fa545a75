"""Hands the dashboard to the service: all pages as one router, and the files they load."""

from __future__ import annotations

from fastapi import APIRouter, Depends

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

__all__ = ["mount_static", "pages_router"]


def pages_router() -> APIRouter:
    """Every page, under `/` and `/ui/`."""
    router = APIRouter(include_in_schema=False)
    router.include_router(live.router)
    for page in (
        overview, jobs, new_job, job, batches, calls, workers, dead_letters, costs, schedules, audit, tokens, finding
    ):  # fmt: skip
        router.include_router(page.router, dependencies=[Depends(counted)])
    return router
