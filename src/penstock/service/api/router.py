"""All routes of the engine's own API, and those of health, for whoever builds the app."""

from __future__ import annotations

from fastapi import APIRouter

from penstock.service.api.audit import router as audit
from penstock.service.api.batches import router as batches
from penstock.service.api.budgets import router as budgets
from penstock.service.api.calls import router as calls
from penstock.service.api.costs import router as costs
from penstock.service.api.counts import router as counts
from penstock.service.api.dead_letters import router as dead_letters
from penstock.service.api.events import router as events
from penstock.service.api.health import router as health
from penstock.service.api.jobs import router as jobs
from penstock.service.api.locks import router as locks
from penstock.service.api.schedules import router as schedules
from penstock.service.api.tokens import router as tokens
from penstock.service.api.workers import router as workers
from penstock.service.api.workflows import router as workflows

IN_ORDER = (
    jobs, batches, calls, dead_letters, schedules, workflows, workers, locks, counts, costs, budgets, audit, tokens,
    events,
)  # fmt: skip


def api_router() -> APIRouter:
    """Everything under `/api/v1`."""
    router = APIRouter(prefix="/api/v1")
    for resource in IN_ORDER:
        router.include_router(resource)
    return router


def health_router() -> APIRouter:
    """`/health/live` and `/health/ready`."""
    return health
