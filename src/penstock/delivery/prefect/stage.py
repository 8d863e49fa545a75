"""What a step does inside, as Prefect shows it: its parts are task runs, its reports are artifacts.

Prefect only watches. A part's work is called once, here, and its result stays here: Prefect stores, caches and retries
nothing. Reports are sent in the background, so that an API which is away holds up no step.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar
from uuid import UUID

from prefect import task
from prefect.artifacts import Artifact, MarkdownArtifact, ProgressArtifact, TableArtifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate

from penstock.engine.staging import Report

log = logging.getLogger("penstock.delivery")

T = TypeVar("T")

MOST_WAITING = 100
"""Reports on their way to Prefect; what a step shows beyond that is left out, and said so."""
LAST_WAIT = 10.0
"""Seconds that the last reports have to arrive when the flow run ends."""


class PrefectStage:
    """Watches the ticks of one flow run."""

    def __init__(self) -> None:
        self._made: dict[str, UUID] = {}
        self._sending: list[asyncio.Task[None]] = []

    async def part(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        done: list[T] = []
        failed: list[BaseException] = []
        called = False

        async def body() -> None:
            nonlocal called
            called = True
            try:
                done.append(await work())
            except BaseException as error:
                failed.append(error)
                raise

        try:
            await _task_run(name, body)
        except BaseException as error:
            if not failed and not isinstance(error, Exception):
                raise
            if not failed:
                log.warning("Prefect could not show the part %r: %s: %s", name, type(error).__name__, error)
        if failed:
            raise failed[0]
        return done[0] if called else await work()

    async def show(self, report: Report) -> None:
        self._sending = [task for task in self._sending if not task.done()]
        if len(self._sending) >= MOST_WAITING:
            log.warning("Prefect does not keep up: the report %r is left out", report.key)
            return
        before = self._sending[-1] if self._sending else None
        self._sending.append(asyncio.create_task(self._send(report, before), name=f"penstock-report-{report.key}"))

    async def close(self) -> None:
        """Wait for what is on its way, within reason."""
        if not self._sending:
            return
        _, late = await asyncio.wait(self._sending, timeout=LAST_WAIT)
        for sending in late:
            sending.cancel()
        if late:
            log.warning("%d reports did not reach Prefect in time", len(late))

    async def _send(self, report: Report, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        try:
            for artifact in _artifacts_of(report):
                await self._put(artifact)
        except Exception as error:
            log.warning("Prefect did not take the report %r: %s: %s", report.key, type(error).__name__, error)

    async def _put(self, artifact: Artifact) -> None:
        """A later one takes the place of that of the same key in this flow run: a run of days would leave thousands."""
        key = str(artifact.key)
        async with get_client() as client:
            if key in self._made:
                update = ArtifactUpdate(description=artifact.description, data=await artifact.aformat())
                await client.update_artifact(self._made[key], update)
            else:
                self._made[key] = (await artifact.acreate(client)).id


def _artifacts_of(report: Report) -> Iterator[Artifact]:
    if report.text:
        yield MarkdownArtifact(key=report.key, description=report.title, markdown=report.text)
    if report.table is not None:
        rows = [dict(row) for row in report.table]
        yield TableArtifact(key=f"{report.key}-table", description=report.title, table=rows)
    if report.progress is not None:
        yield ProgressArtifact(key=f"{report.key}-progress", description=report.title, progress=report.progress)


async def _task_run(name: str, body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    watched = task(
        name=name,
        task_run_name=lambda: name,
        retries=0,
        cache_policy=NO_CACHE,
        persist_result=False,
        log_prints=False,
    )
    await watched(body)()
