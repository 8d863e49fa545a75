"""All routes of the engine's own API, and those of health, for whoever builds the app."""

from __future__ import annotations

from fastapi import APIRouter

from penstock.service.api import (
    audit,
    batches,
    budgets,
    calls,
    costs,
    counts,
    dead_letters,
    events,
    health,
    jobs,
    locks,
    schedules,
    tokens,
    workers,
    workflows,
)

ROOMS = (
    jobs, batches, calls, dead_letters, schedules, workflows, workers, locks, counts, costs, budgets, audit, tokens,
    events,
)  # fmt: skip


def api_router() -> APIRouter:
    """Everything under `/api/v1`."""
    router = APIRouter(prefix="/api/v1")
    for room in ROOMS:
        router.include_router(room.router)
    return router


def health_router() -> APIRouter:
    """`/health/live` and `/health/ready`."""
    return health.router
