"""What a step does inside, as Prefect shows it: its parts are task runs, its reports are artifacts.

Prefect only watches. A part's work is called once, here, and its result stays here: Prefect stores, caches and retries
nothing. Reports are sent in the background, so that an API which is away holds up no step.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextvars import Context, copy_context
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
        self._waiting: dict[str, tuple[Report, Context]] = {}
        self._sending: asyncio.Task[None] | None = None

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
        """What waits is overtaken by what is newer: an API that is slow falls behind by one of each key."""
        before = self._waiting.pop(report.key, None)
        if before is None and len(self._waiting) >= MOST_WAITING:
            log.warning("Prefect does not keep up: the report %r is left out", report.key)
            return
        # An artifact belongs to the task run within which it was shown.
        self._waiting[report.key] = (report if before is None else _together(before[0], report), copy_context())
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send(), name="penstock-reports")

    async def close(self) -> None:
        """Wait for what is on its way, within reason."""
        if self._sending is None:
            return
        await asyncio.wait([self._sending], timeout=LAST_WAIT)
        if not self._sending.done():
            self._sending.cancel()
            log.warning("%d reports did not reach Prefect in time", len(self._waiting) + 1)

    async def _send(self) -> None:
        while self._waiting:
            report, context = self._waiting.pop(next(iter(self._waiting)))
            await asyncio.create_task(self._put_all(report), context=context)

    async def _put_all(self, report: Report) -> None:
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


def _together(before: Report, after: Report) -> Report:
    """What the later one does not say, the earlier one does."""
    return Report(
        key=after.key,
        title=after.title,
        text=after.text or before.text,
        table=before.table if after.table is None else after.table,
        progress=before.progress if after.progress is None else after.progress,
    )


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
