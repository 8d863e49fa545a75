"""Waiting for jobs. Where no worker is alive the work is done in this process, for as long as somebody waits for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.app import Penstock
from penstock.cli.output import Output
from penstock.cli.sessions import alive, how_to_start
from penstock.cli.waiting_views import View, view_for
from penstock.config import Settings
from penstock.engine.errors import Conflict
from penstock.engine.model import Job

LOOK_EVERY = 0.2
COUNT_WORKERS_EVERY = 25
"""Looks between two counts of living workers: somebody may stop the last one while we wait."""


@dataclass(slots=True)
class Waiting:
    """One wait for some jobs. `here`: this process runs them. `on_interrupt` is told before running steps end."""

    app: Penstock
    out: Output
    settings: Settings
    here: bool
    on_interrupt: Callable[[], None]
    jobs: dict[str, Job] = field(default_factory=dict)

    async def until_final(self, ids: Sequence[str], *, timeout: float | None) -> list[Job]:
        """The jobs, all final; or `TimeoutError`; or `Conflict` if they rest and only this process could wake them."""
        for job_id in ids:
            self.jobs[job_id] = await self.app.job(job_id)
        async with self._working(), asyncio.timeout(timeout) as limit:
            try:
                with view_for(self.out, self.jobs) as view:
                    await self._watch(view)
            except asyncio.CancelledError:
                if not limit.expired():
                    self.on_interrupt()
                raise
        return list(self.jobs.values())

    def _working(self) -> contextlib.AbstractAsyncContextManager[Any]:
        if not self.here:
            return contextlib.nullcontext()
        queues = {workflow.queue for workflow in self.app.workflows.values()}
        queues |= {job.queue for job in self.jobs.values()}
        return self.app.worker(queues=sorted(queues), concurrency=self.settings.concurrency, grace=self.settings.grace)

    async def _watch(self, view: View) -> None:
        ends = [asyncio.ensure_future(self.app.wait(job.id)) for job in self.jobs.values() if not job.final]
        try:
            looks = 0
            while True:
                view.show(await self._look())
                if all(job.final for job in self.jobs.values()):
                    return
                self._check_rest()
                if not self.here and looks % COUNT_WORKERS_EVERY == 0:
                    await self._count_workers(view)
                looks += 1
                running = [end for end in ends if not end.done()]
                if running:
                    await asyncio.wait(running, timeout=LOOK_EVERY, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
            await asyncio.gather(*ends, return_exceptions=True)

    async def _look(self) -> float:
        for job_id, job in self.jobs.items():
            if not job.final:
                self.jobs[job_id] = await self.app.job(job_id)
        return await self.app.engine.store.now()

    def _check_rest(self) -> None:
        resting = [job for job in self.jobs.values() if job.status == "paused"]
        if self.here and resting and all(job.final or job.status == "paused" for job in self.jobs.values()):
            job = resting[0]
            raise Conflict(
                f"job {job.id} is paused{f' ({job.reason})' if job.reason else ''}, so it will not end: "
                f"`penstock jobs resume {job.id}` lets it go on"
            )

    async def _count_workers(self, view: View) -> None:
        wanted = {job.workflow for job in self.jobs.values() if not job.final}
        missing = [workflow for workflow in sorted(wanted) if not await alive(self.app, workflow)]
        start = how_to_start(self.settings)
        view.remark(f"No worker that knows {missing[0]!r} is alive any more: `{start}`" if missing else "")
