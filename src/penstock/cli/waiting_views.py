"""What a person sees while jobs are waited for: a table that moves on a terminal, one line for each change in a log."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from penstock.cli.fitting import fitted, needed, widths_of
from penstock.cli.job_views import counters_text, elapsed, progress_text, status_text, why_at_all
from penstock.cli.output import SIGNS, STATUS_STYLES, Output, harmless
from penstock.engine.model import Job
from penstock.times import ago, local

if TYPE_CHECKING:
    from rich.console import RenderableType

MOST_ROWS = 20
BAR = 16


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
        self._why: dict[str, str] = {}

    def show(self, now: float) -> None:
        for job in self.jobs.values():
            seen = (job.status, job.step, job.attempt, job.halting, job.progress)
            if self._told.get(job.id) != seen and not self.out.quiet:
                self._told[job.id] = seen
                known, words = self._why.get(job.id, ""), _why(job)
                self._why[job.id] = words or known
                click.echo(f"{local(now)} {one_line(job, now, known=known)}", err=True)

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
        self._console = console = out.console(stderr=True)
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

        shown = sorted(self.jobs.values(), key=lambda job: job.final)[:MOST_ROWS]
        columns = self._columns(shown)
        widths, bars = shares(columns, [_notes(job, self._now) for job in shown], self._console.width)
        table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for heading, width in widths.items():
            table.add_column(heading, no_wrap=True, overflow="ellipsis", width=width)
        for number, job in enumerate(shown):
            style = STATUS_STYLES[job.status]
            cells: dict[str, RenderableType] = {name: Text(columns[name][number]) for name in widths}
            cells[""] = self._spinner if job.status == "running" else Text(SIGNS[job.status], style=style)
            cells["Status"] = Text(status_text(job), style=style)
            cells["Step"] = Text(columns["Step"][number] + _notes(job, self._now))
            if bars and "Progress" in cells:
                cells["Progress"] = progress_bar(job, BAR)
            table.add_row(*cells.values())
        if len(self.jobs) > MOST_ROWS:
            table.add_row("", f"and {len(self.jobs) - MOST_ROWS} more")
        return Group(table, Text(self._remark, style="yellow")) if self._remark else table

    def _columns(self, jobs: Sequence[Job]) -> dict[str, list[str]]:
        return {
            "": ["·" for _ in jobs],
            "Job": [job.id for job in jobs],
            "Workflow": [job.workflow for job in jobs],
            "Status": [status_text(job) for job in jobs],
            "Step": [f"{job.step} (try {job.attempt})" if job.attempt > 1 else job.step for job in jobs],
            "Progress": [progress_text(job) for job in jobs],
            "Counters": [counters_text(job) for job in jobs],
            "Elapsed": [elapsed(job, self._now) for job in jobs],
        }


def _notes(job: Job, now: float) -> str:
    """What the step waits for."""
    if job.reason and not job.final:
        return f", {job.reason}"
    return f", {ago(job.due, now)}" if job.due is not None else ""


def shares(columns: Mapping[str, Sequence[str]], notes: Sequence[str], room: int) -> tuple[dict[str, int], bool]:
    """The width of each column that is shown, and whether there is room for bars. The counters give way first, the
    step last; what it waits for gets what is left."""
    shown = {name: cells for name, cells in columns.items() if name not in ("Progress", "Counters") or any(cells)}
    widths = widths_of(shown)
    bars = "Progress" in widths and needed(widths) + BAR + 1 <= room
    if bars:
        widths["Progress"] += BAR + 1
    if needed(widths) > room:
        widths.pop("Counters", None)
    widths = fitted(widths, room, {"Workflow": 8, "Progress": 10, "Step": 6})
    wanted = max(len(step + note) for step, note in zip(columns["Step"], notes, strict=True))
    widths["Step"] += min(max(wanted - widths["Step"], 0), max(room - needed(widths), 0))
    return widths, bars


def view_for(out: Output, jobs: Mapping[str, Job]) -> View:
    return LiveView(out, jobs) if out.live else LineView(out, jobs)


def progress_bar(job: Job, width: int = BAR) -> RenderableType:
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


def _why(job: Job) -> str:
    """What a failed job died of is told at the end of the wait; the error of a try before is no news in the next."""
    return (job.reason or "") if job.status in ("running", "failed") else why_at_all(job)


def one_line(job: Job, now: float, *, known: str = "") -> str:
    """One job in one line, for a log. `known`: the words of the line before, which are not said again."""
    parts = [f"job {job.id} {job.workflow}: {status_text(job)}"]
    if not job.final:
        parts.append(f"step {job.step}" + (f", try {job.attempt}" if job.attempt > 1 else ""))
    if job.due is not None and not job.reason:
        parts.append(f"due {ago(job.due, now)}")
    parts += [text for text in (progress_text(job), _why(job)) if text and text != known]
    return ", ".join(parts)


def show_ended(out: Output, job: Job) -> None:
    """How a job ended, and what came of it."""
    took = elapsed(job, job.finished or 0.0)
    head = f"{job.id} {job.status}" + (f" in {took}" if took else "") + (f": {job.error}" if job.error else "")
    colour = {"completed": "green", "failed": "red"}.get(job.status, "yellow")
    out.remark(f"{click.style(SIGNS[job.status], fg=colour)} {harmless(head)}")
    if job.status == "completed" and job.result is not None:
        out.result(json.dumps(job.result, ensure_ascii=False, indent=2))
