"""Waiting for jobs. Where no worker is alive the work is done in this process, for as long as somebody waits for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import click

from penstock.app import Penstock
from penstock.builtin import installed_workflows
from penstock.cli.logs import log_beside
from penstock.cli.output import Output
from penstock.cli.sessions import how_to_start, interrupts, lack
from penstock.cli.waiting_views import View, view_for
from penstock.cli.worker_process import stop_ticks
from penstock.config import Settings
from penstock.engine.errors import OverBudget, PenstockError
from penstock.engine.model import Job

LOOK_EVERY = 0.2
COUNT_WORKERS_EVERY = 5
"""Looks between two counts of living workers: the last one may end while we wait."""
MISSED = 2
"""Counts without a worker before we do its work: a process that died is soon replaced by its supervisor."""


def is_installed(workflow: str) -> bool:
    """Whether it comes with Penstock, so that it can be run without an app."""
    return any(known.name == workflow for known in installed_workflows())


class Resting(PenstockError):
    """The jobs rest, and only this process could wake them."""


class Deserted(Exception):
    """Nobody is alive any more who could do the work."""

    def __init__(self, lack: str) -> None:
        super().__init__(lack)
        self.lack = lack


@dataclass(slots=True)
class Waiting:
    """One wait for some jobs. `here`: this process runs them. `interrupted` is said before running steps end."""

    app: Penstock
    out: Output
    settings: Settings
    here: bool
    interrupted: str
    jobs: dict[str, Job] = field(default_factory=dict)
    missed: int = 0

    async def until_final(self, ids: Sequence[str], *, until: float | None) -> list[Job]:
        """The jobs, all final; or `TimeoutError` at `until`, by the loop's clock; or `Resting`; or `Deserted`."""
        for job_id in ids:
            self.jobs[job_id] = await self.app.job(job_id)
        async with self._working(), asyncio.timeout_at(until) as limit:
            try:
                with self._view() as view:
                    await self._watch(view)
            except asyncio.CancelledError:
                if not limit.expired():
                    click.echo(self.interrupted, err=True)
                raise
        return list(self.jobs.values())

    def _view(self) -> View:
        return view_for(self.out, self.jobs)

    @contextlib.asynccontextmanager
    async def _working(self) -> AsyncIterator[None]:
        if not self.here:
            yield
            return
        log_beside(self.out, self.jobs)
        queues = {workflow.queue for workflow in self.app.workflows.values()}
        queues |= {job.queue for job in self.jobs.values()}
        concurrency, grace = self.settings.concurrency, self.settings.grace
        try:
            async with self.app.worker(queues=sorted(queues), concurrency=concurrency, grace=grace):
                interrupts.at_once = lambda: stop_ticks(self.app)
                try:
                    yield
                finally:
                    interrupts.draining = True
        finally:
            interrupts.at_once, interrupts.draining = None, False

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
            # A reason that is an error's says the way out itself; going on without it would end here again.
            parked = job.reason is not None and job.reason.startswith((OverBudget.__name__, "Ambiguous: call "))
            way_out = "" if parked else f": `penstock jobs resume {job.id}` lets it go on"
            why = f" ({job.reason})" if job.reason else ""
            raise Resting(f"job {job.id} is paused{why}, so it will not end{way_out}")

    async def _count_workers(self, view: View) -> None:
        """Without their app we cannot do the work ourselves, and can only say that nobody does."""
        wanted = sorted({(job.workflow, job.queue) for job in self.jobs.values() if not job.final})
        lacks = [words for workflow, queue in wanted if (words := await lack(self.app, workflow, queue))]
        self.missed = self.missed + 1 if lacks else 0
        if self.missed < MISSED:
            view.remark("")
        elif self.settings.app is None and not all(is_installed(workflow) for workflow, _ in wanted):
            view.remark(f"{lacks[0]} any more: `{how_to_start(self.settings)}`")
        else:
            raise Deserted(f"{lacks[0]} any more")
