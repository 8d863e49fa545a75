"""`penstock worker --delivery prefect`: serves a deployment for every workflow of the app until told to stop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from penstock.cli.sessions import load_app
from penstock.config import Settings
from penstock.config.sources import PREFIX
from penstock.delivery.prefect.naming import require_prefect


def serve_prefect(settings: Settings, *, config: str | None, overrides: Mapping[str, Any]) -> int:
    """Runs in this process; each flow run is a process that Prefect's runner starts. Flags reach it through its
    environment: a flow run's parameters are shown to everybody, and a store's address may hold a password."""
    require_prefect()
    for key, value in overrides.items():
        if value is not None:
            name = PREFIX + key.upper().replace(".", "__")
            os.environ[name] = ",".join(value) if isinstance(value, list) else str(value)
    asyncio.run(_serve(settings, config))
    return 0


async def _serve(settings: Settings, config: str | None) -> None:
    from penstock.cli.prefect_run import flow_of
    from penstock.delivery.prefect.serving import check_api, deployments, serve
    from penstock.delivery.prefect.signals import heeding

    stopping = asyncio.Event()
    await check_api()
    app = load_app(settings)
    # The worker's own pump starts flow runs, and knows better than a plain hint which are needed.
    quiet = settings.model_copy(update={"delivery": "embedded"})
    await app.open(store=settings.store if settings.source("store") else None, settings=quiet)
    try:
        flows = {workflow: flow_of(workflow) for workflow in sorted(app.workflows)}
        made = deployments(flows, config=config, schedule_minutes=settings.prefect.schedule_minutes)
        with heeding(stopping):
            await serve(app.engine, made, runs=settings.prefect.runs, stopping=stopping)
    finally:
        await app.close()
