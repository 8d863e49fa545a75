"""What a person sees while jobs are waited for: a table that moves on a terminal, one line for each change in a log."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from penstock.cli.job_views import counters_text, elapsed, progress_text, status_text
from penstock.cli.output import SIGNS, STATUS_STYLES, Output
from penstock.cli.times import ago, local
from penstock.engine.model import Job

if TYPE_CHECKING:
    from rich.console import RenderableType

MOST_ROWS = 20


class View(contextlib.AbstractContextManager["View"]):
    """Looks at `jobs`, which somebody else keeps up to date."""

    def __init__(self, out: Output, jobs: Mapping[str, Job]) -> None:
        self.out = out
        self.jobs = jobs
        self._remark = ""

    def show(self, now: float) -> None:
        """The jobs were read anew."""

    def remark(self, text: str) -> None:
        """Something beside the jobs is worth knowing; an empty text: no longer."""

    def __exit__(self, *exc: object) -> None:
        return None


class LineView(View):
    """For logs."""

    def __init__(self, out: Output, jobs: Mapping[str, Job]) -> None:
        super().__init__(out, jobs)
        self._told: dict[str, tuple[object, ...]] = {}

    def show(self, now: float) -> None:
        for job in self.jobs.values():
            seen = (job.status, job.step, job.attempt, job.halting, job.progress)
            if self._told.get(job.id) != seen and not self.out.quiet:
                self._told[job.id] = seen
                click.echo(f"{local(now)} {one_line(job, now)}", err=True)

    def remark(self, text: str) -> None:
        if text and text != self._remark:
            self.out.note(text)
        self._remark = text


class LiveView(View):
    """For terminals."""

    def __init__(self, out: Output, jobs: Mapping[str, Job]) -> None:
        from rich.live import Live
        from rich.spinner import Spinner

        super().__init__(out, jobs)
        self._now = 0.0
        console = out.console(stderr=True)
        self._spinner = Spinner("dots", style=STATUS_STYLES["running"])
        self._live = Live(console=console, refresh_per_second=8, get_renderable=self._drawn, transient=True)

    def __enter__(self) -> View:
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def show(self, now: float) -> None:
        self._now = now

    def remark(self, text: str) -> None:
        self._remark = text

    def _drawn(self) -> RenderableType:
        from rich import box
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
        for heading in ("", "Job", "Workflow", "Status", "Step", "Progress", "Counters", "Elapsed"):
            table.add_column(heading, no_wrap=True, overflow="ellipsis")
        unfinished_first = sorted(self.jobs.values(), key=lambda job: job.final)
        for job in unfinished_first[:MOST_ROWS]:
            style = STATUS_STYLES[job.status]
            sign = self._spinner if job.status == "running" else Text(SIGNS[job.status], style=style)
            step = f"{job.step} (try {job.attempt})" if job.attempt > 1 else job.step
            if job.reason and not job.final:
                step += f", {job.reason}"
            elif job.due is not None:
                step += f", {ago(job.due, self._now)}"
            status = Text(status_text(job), style=style)
            cells = (step, progress_bar(job), counters_text(job), elapsed(job, self._now))
            table.add_row(sign, job.id, job.workflow, status, *cells)
        if len(self.jobs) > MOST_ROWS:
            table.add_row("", f"and {len(self.jobs) - MOST_ROWS} more")
        return Group(table, Text(self._remark, style="yellow")) if self._remark else table


def view_for(out: Output, jobs: Mapping[str, Job]) -> View:
    return LiveView(out, jobs) if out.live else LineView(out, jobs)


def progress_bar(job: Job, width: int = 16) -> RenderableType:
    """The job's progress, as a bar where it is known how much there is to do."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    text = Text(progress_text(job), no_wrap=True, overflow="ellipsis")
    if job.progress is None or not job.progress.total:
        return text
    row = Table.grid(padding=(0, 1))
    row.add_column(width=width)
    row.add_column(no_wrap=True, overflow="ellipsis")
    row.add_row(ProgressBar(total=job.progress.total, completed=job.progress.done, width=width), text)
    return row


def one_line(job: Job, now: float) -> str:
    """One job in one line, for a log."""
    parts = [f"job {job.id} {job.workflow}: {status_text(job)}"]
    if not job.final:
        parts.append(f"step {job.step}" + (f", try {job.attempt}" if job.attempt > 1 else ""))
    if job.due is not None and not job.reason:
        parts.append(f"due {ago(job.due, now)}")
    parts += [text for text in (progress_text(job), job.error or job.reason) if text]
    return ", ".join(parts)


def show_ended(out: Output, job: Job) -> None:
    """How a job ended, and what came of it."""
    took = elapsed(job, job.finished or 0.0)
    head = f"{job.id} {job.status}" + (f" in {took}" if took else "") + (f": {job.error}" if job.error else "")
    colour = {"completed": "green", "failed": "red"}.get(job.status, "yellow")
    out.remark(f"{click.style(SIGNS[job.status], fg=colour)} {head}")
    if job.status == "completed" and job.result is not None:
        out.result(json.dumps(job.result, ensure_ascii=False, indent=2))
