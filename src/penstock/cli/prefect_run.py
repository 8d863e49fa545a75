"""One flow run, as Prefect starts it: loads the configuration and the app, and advances the jobs of one workflow.

Prefect's runner imports the flows of this module by their names, in a process of its own. A flow may also be called in
a program; then its run is part of that.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import flow
from prefect.flows import Flow
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed

from penstock.app import Penstock
from penstock.cli.logs import OF_JOB, facts_of, start_logging
from penstock.cli.output import harmless, without_password
from penstock.cli.sessions import load_app
from penstock.config import Settings, load
from penstock.delivery.prefect.lines import lines_in_run
from penstock.delivery.prefect.naming import FLOWS, flow_name, require_prefect
from penstock.delivery.prefect.signals import heeding
from penstock.delivery.prefect.stage import PrefectStage
from penstock.delivery.prefect.starting import FlowRuns
from penstock.delivery.prefect.turn import Turn, advance
from penstock.engine.errors import Conflict

log = logging.getLogger("penstock.worker")

MOST_GRACE = 20.0
"""Prefect kills a flow run that has not ended 30 seconds after it was cancelled."""

require_prefect()


@flow(name="penstock", retries=0, persist_result=False, log_prints=False)
async def advance_workflow(workflow: str, config: str | None = None) -> Any:
    """Advance the jobs of a Penstock workflow until there is nothing to do within a minute."""
    return await _run(workflow, config)


@flow(name=FLOWS["pages"], retries=0, persist_result=False, log_prints=False)
async def orchestrate_gemini_batch(workflow: str = "pages", config: str | None = None, run: str | None = None) -> Any:
    """Read pages through Gemini batches: collect those that ended, submit new ones, until nothing is left to do. `run`:
    the file of a run that is to be started first, unless it is alive."""
    return await _run(workflow, config, pages=run)


def flow_of(workflow: str) -> Flow[..., Any]:
    """The flow that advances a workflow, under the name that it has in Prefect."""
    if workflow in FLOWS:
        return orchestrate_gemini_batch
    return advance_workflow.with_options(name=flow_name(workflow))


async def _run(workflow: str, config: str | None, *, pages: str | None = None) -> Any:
    settings = load(config)
    alone = "PREFECT__FLOW_RUN_ID" in os.environ
    if alone:
        start_logging(settings.log)
    level = getattr(logging, settings.log.level.upper())
    async with lines_in_run(UUID(str(flow_run.id)), level=level, formatter=_RunText()):
        turn = await _turn(settings, workflow, alone=alone, pages=pages)
        log.info("the flow run ends: %s", turn.why)
    if turn.stopped:
        return Cancelled(message="Told to stop: what it held was handed back.")
    return Completed(message=f"Ended: {turn.why}.")


async def _turn(settings: Settings, workflow: str, *, alone: bool, pages: str | None) -> Turn:
    stopping = asyncio.Event()
    app = load_app(settings)
    # Work for other workflows is handed on below; work for this one is done here.
    quiet = settings.model_copy(update={"delivery": "embedded"})
    store = settings.store if settings.source("store") else None
    await app.open(store=store, settings=quiet, exit_when_stuck=alone)
    stage = PrefectStage()
    flow_runs = FlowRuns(app.engine, own=workflow)
    try:
        if pages is not None:
            await _start_pages(app, Path(pages))
        with heeding(stopping):
            return await advance(
                app.engine,
                workflow,
                watched_by=stage,
                queues=settings.queues or tuple(sorted({known.queue for known in app.workflows.values()})),
                concurrency=settings.concurrency,
                grace=min(settings.grace, MOST_GRACE),
                stopping=stopping,
            )
    finally:
        await flow_runs.close()
        await stage.close()
        await app.close()


async def _start_pages(app: Penstock, file: Path) -> None:
    from penstock.pipelines.pages.asking import start
    from penstock.pipelines.pages.configuration import load_run

    try:
        told = await start(app, await asyncio.to_thread(load_run, file), actor="prefect")
    except Conflict as error:
        if error.job is None:
            raise
        # The file was changed under a run that is alive: that one goes on, and the next has the new configuration.
        log.warning("%s", error)
        return
    log.info("run %s %s", told.job_id, "was started" if told.created else f"is {told.status}")


class _RunText(logging.Formatter):
    """Time and level are Prefect's own columns."""

    def format(self, record: logging.LogRecord) -> str:
        told = facts_of(record)
        facts = " ".join(f"{name}={told[name]}" for name in OF_JOB if name in told)
        text = harmless(record.getMessage()) + (f" [{facts}]" if facts else "")
        if record.exc_info:
            text += f"\n{harmless(self.formatException(record.exc_info))}"
        return without_password(text)
