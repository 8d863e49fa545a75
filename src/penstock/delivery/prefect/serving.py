"""The long-lived side: registers a deployment for every workflow, has Prefect's runner carry out their flow runs, and
looks every few seconds for work that no run was started for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.deployments.runner import RunnerDeployment
from prefect.flows import Flow
from prefect.runner import Runner
from prefect.schedules import Cron, Interval, Schedule
from prefect.types.entrypoint import EntrypointType

from penstock.delivery.prefect.naming import DEPLOYMENT, api_url
from penstock.delivery.prefect.starting import FlowRuns
from penstock.delivery.prefect.waiting import any_is_planned, drop_missed
from penstock.engine.engine import Engine
from penstock.engine.errors import InvalidConfiguration, StoreError

log = logging.getLogger("penstock.worker")

LOOK_FOR_RUNS_EVERY = 2
SWEEP_EVERY = 5.0
MISSED = 60.0
SCHEDULER_TAKES = 180.0
"""Seconds after which the server's scheduler must have made the first runs of a deployment."""


def deployments(
    flows: Mapping[str, Flow[Any, Any]], *, config: str | None, schedule_minutes: int
) -> list[RunnerDeployment]:
    """One for each workflow."""
    return [
        deployment(
            flow,
            DEPLOYMENT,
            schedule=Cron(f"*/{schedule_minutes} * * * *"),
            parameters={"workflow": workflow, "config": config},
            description=f"Advances the jobs of the Penstock workflow {workflow!r}.",
        )
        for workflow, flow in flows.items()
    ]


def deployment(
    flow: Flow[Any, Any], name: str, *, schedule: Schedule, parameters: dict[str, Any], description: str
) -> RunnerDeployment:
    """Prefect limits nothing: what runs at once is the engine's to say."""
    return RunnerDeployment.from_flow(
        flow,
        name,
        schedule=schedule,
        parameters=parameters,
        description=description,
        tags=["penstock"],
        entrypoint_type=EntrypointType.MODULE_PATH,
    )


def every(minutes: int) -> Schedule:
    """At the same moments whenever it is registered: a worker that is often started anew must not put them off."""
    if 60 % minutes == 0:
        return Cron(f"*/{minutes} * * * *" if minutes < 60 else "0 * * * *")
    return Interval(timedelta(minutes=minutes), anchor_date=datetime(2020, 1, 1, tzinfo=UTC))


async def check_api() -> None:
    """A clear word where there is no Prefect to talk to."""
    url = api_url()
    async with get_client() as client:
        problem = await client.api_healthcheck()
    if problem is not None:
        raise InvalidConfiguration(
            f"Prefect's API at {url} does not answer ({problem}): start it with `prefect server start`, "
            "or set PREFECT_API_URL to where it is"
        )


async def serve(engine: Engine, made: Sequence[RunnerDeployment], *, runs: int, stopping: asyncio.Event) -> None:
    """Until `stopping` is set; flow runs that are under way then are asked to hand back what they hold."""
    runner = _Runner(stopping, name=DEPLOYMENT, limit=runs, query_seconds=LOOK_FOR_RUNS_EVERY, pause_on_shutdown=False)
    ids = [await runner.aadd_deployment(deployment) for deployment in made]
    async with get_client() as client:
        for deployment_id in ids:
            await drop_missed(client, deployment_id, older_than=MISSED)
    serving = asyncio.create_task(runner.start(), name="penstock-prefect-runner")
    pumping = asyncio.create_task(_pump(engine), name="penstock-prefect-pump")
    looking = asyncio.create_task(_look_at_scheduler(engine, ids[:1]), name="penstock-prefect-scheduler")
    told = asyncio.create_task(stopping.wait())
    for deployment in made:
        log.info("deployment %s/%s is served", deployment.flow_name, deployment.name)
    try:
        await asyncio.wait([serving, told], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (pumping, looking, told):
            task.cancel()
        if not serving.done() and runner.started:
            log.info("stopping: flow runs hand back what they hold")
            await runner.astop()
        serving.cancel()
        await asyncio.gather(pumping, looking, told, return_exceptions=True)
        with contextlib.suppress(asyncio.CancelledError):
            await serving


class _Runner(Runner):
    """Prefect's own, but that SIGTERM is for us to heed."""

    def __init__(self, stopping: asyncio.Event, **options: Any) -> None:
        super().__init__(**options)
        self._loop_of_ours = asyncio.get_running_loop()
        self._told_to_stop = stopping

    def handle_sigterm(self, *args: Any, **kwargs: Any) -> None:
        self._loop_of_ours.call_soon_threadsafe(self._told_to_stop.set)


async def _pump(engine: Engine) -> None:
    """Schedules, dead workers, work that fell due: each gets a flow run, where none takes care of it. People see that
    somebody is there: a worker without a queue, which takes no job itself."""
    await engine.enlist()
    flow_runs = FlowRuns(engine, only_idle=True)
    try:
        while True:
            try:
                await engine.sweep()
            except StoreError as error:
                log.warning("sweep: %s", error)
            await engine.clock.sleep(SWEEP_EVERY)
    finally:
        await flow_runs.close()


async def _look_at_scheduler(engine: Engine, deployments: Sequence[UUID]) -> None:
    """A server whose scheduler fails says so in its own log only."""
    await engine.clock.sleep(SCHEDULER_TAKES)
    for deployment in deployments:
        try:
            async with get_client() as client:
                fine = await any_is_planned(client, deployment)
        except Exception as error:
            log.warning("Prefect could not be asked for its schedule: %s", error)
            continue
        if not fine:
            log.warning(
                "Prefect's server plans no flow runs although the deployments have a schedule: see its log. "
                "With SQLAlchemy 2.1 its scheduler fails: in its environment, pip install 'sqlalchemy<2.1'. "
                "While this worker runs it looks for work by itself"
            )
