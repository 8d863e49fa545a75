"""`penstock worker --delivery prefect`: serves a deployment for every workflow of the app until told to stop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.sessions import load_app
from penstock.config import Settings
from penstock.config.sources import PREFIX
from penstock.delivery.prefect.naming import file_deployment, require_prefect
from penstock.engine.errors import InvalidConfiguration

if TYPE_CHECKING:
    from prefect.deployments.runner import RunnerDeployment

    from penstock.pipelines.pages.model import Run


def serve_prefect(settings: Settings, *, config: str | None, overrides: Mapping[str, Any]) -> int:
    """Runs in this process; each flow run is a process that Prefect's runner starts. Flags reach it through its
    environment: a flow run's parameters are shown to everybody, and a store's address may hold a password."""
    require_prefect()
    runs = runs_of(settings.prefect.pages)
    for key, value in overrides.items():
        if value is not None:
            name = PREFIX + key.upper().replace(".", "__")
            os.environ[name] = ",".join(value) if isinstance(value, list) else str(value)
    asyncio.run(_serve(settings, config, runs))
    return 0


def runs_of(names: Iterable[str]) -> dict[Path, Run]:
    """The runs of pages that files describe: what is wrong with one is told now, and not by every flow run of it."""
    from penstock.pipelines.pages.configuration import load_run
    from penstock.pipelines.pages.prompts.registry import load_prompt

    runs: dict[Path, Run] = {}
    written: dict[Path, str] = {}
    for name in names:
        # With links: the folders in it are found from where it was named.
        file = Path(name).expanduser().absolute()
        if file in runs:
            continue
        try:
            runs[file] = run = load_run(file)
        except InvalidConfiguration as error:
            raise InvalidConfiguration("; ".join(str(error).splitlines())) from error
        try:
            load_prompt(run.prompt)
        except InvalidConfiguration as error:
            raise InvalidConfiguration(f"{file}: {error}") from error
        other = written.setdefault(run.paths.output_dir, name)
        if other != name:
            raise InvalidConfiguration(
                f"{name}: paths.output_dir is that of {other}, too ({run.paths.output_dir}): only one of them could run"
            )
    return runs


def _pages_deployments(runs: Mapping[Path, Run], config: str | None) -> list[RunnerDeployment]:
    from penstock.cli.prefect_run import orchestrate_gemini_batch
    from penstock.delivery.prefect.serving import deployment, every

    return [
        deployment(
            orchestrate_gemini_batch.with_options(name=run.prefect.flow_name),
            file_deployment(file),
            schedule=every(run.prefect.schedule_interval_minutes),
            parameters={"workflow": "pages", "config": config, "run": str(file)},
            description=f"Starts the run of pages that {file} describes, unless it is alive, and drives it.",
        )
        for file, run in runs.items()
    ]


async def _serve(settings: Settings, config: str | None, runs: Mapping[Path, Run]) -> None:
    from penstock.cli.pages_asked import check_pipeline
    from penstock.cli.prefect_run import flow_of
    from penstock.delivery.prefect.serving import check_api, deployments, serve
    from penstock.delivery.prefect.signals import heeding

    stopping = asyncio.Event()
    await check_api()
    app = load_app(settings)
    if runs:
        check_pipeline(app)
    # The worker's own pump starts flow runs, and knows better than a plain hint which are needed.
    quiet = settings.model_copy(update={"delivery": "embedded"})
    await app.open(store=settings.store if settings.source("store") else None, settings=quiet)
    try:
        flows = {workflow: flow_of(workflow) for workflow in sorted(app.workflows)}
        made = deployments(flows, config=config, schedule_minutes=settings.prefect.schedule_minutes)
        made += _pages_deployments(runs, config)
        with heeding(stopping):
            await serve(app.engine, made, runs=settings.prefect.runs, stopping=stopping)
    finally:
        await app.close()
