"""Hands all routes of the engine's own API, and those of health, to the app.

Each router is included in the app itself: FastAPI works out anew what stands in a router within a router.
"""

from __future__ import annotations

from fastapi import FastAPI

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


def include_api(app: FastAPI) -> None:
    """`/health/live` and `/health/ready`, and everything under `/api/v1`."""
    app.include_router(health)
    for resource in IN_ORDER:
        app.include_router(resource, prefix="/api/v1")
