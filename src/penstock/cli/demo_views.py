"""The demo as people see it: one table of all examples' jobs with what happens below it, or plain lines in a log."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from penstock.cli.demo_run import DemoView, ExampleRun
from penstock.cli.fitting import shortened
from penstock.cli.job_views import counters_text, elapsed, given_key, progress_text
from penstock.cli.output import SIGNS, STATUS_STYLES, Output, counted
from penstock.cli.waiting_views import progress_bar
from penstock.engine.model import FINAL, Event, Job
from penstock.times import length

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table
    from rich.text import Text

MOST_ROWS_EACH = 3
LONGEST_KEY = 24
FEWEST_EVENTS = 4
ROOM_FOR_COUNTERS, ROOM_FOR_BARS = 120, 100
"""Columns a terminal must have for them."""
ROOM_FOR_JOBS = 30
"""Lines a terminal must have for a row for each job; with fewer there is one for each workflow."""

KINDS = {
    "submit": "submitted",
    "next": "step done",
    "done": "completed",
    "again": "looks again later",
    "retry": "is tried again",
    "fail": "failed",
    "cleaned": "cleaned up",
    "crash": "lost its worker",
}


def view_for(out: Output, url: str) -> DemoView:
    return LiveDemo(out, url) if out.live else LineDemo(out)


def sentence(job: Job, event: Event) -> str:
    what = KINDS.get(event.kind, event.kind)
    note = f": {event.note}" if event.note else ""
    return f"{_name(job)} {event.step} {what}{note}" if event.kind != "submit" else f"{_name(job)} submitted"


def _name(job: Job) -> str:
    key = shortened(given_key(job), LONGEST_KEY)
    return f"{job.workflow}/{key}" if key else job.workflow


def _title_width(room: int) -> int:
    return 23 if room >= ROOM_FOR_BARS else 14


class LineDemo:
    """For logs."""

    def __init__(self, out: Output) -> None:
        self._out = out

    def start(self, runs: Sequence[ExampleRun]) -> None:
        self._began = time.time()

    def said(self, run: ExampleRun, line: str) -> None:
        self._line(run, f"» {line}")

    def happened(self, run: ExampleRun, job: Job, event: Event) -> None:
        self._line(run, sentence(job, event))

    def over(self, *, stays: str | None) -> None:
        pass

    def stop(self) -> None:
        pass

    def _line(self, run: ExampleRun, text: str) -> None:
        if not self._out.quiet:
            click.echo(f"{time.time() - self._began:5.1f} s  {run.example.title:<24} {text}", err=self._out.json)


class LiveDemo:
    """For terminals."""

    def __init__(self, out: Output, url: str) -> None:
        from rich.live import Live
        from rich.spinner import Spinner

        self._runs: Sequence[ExampleRun] = ()
        self._events: deque[tuple[float, str, str, str]] = deque(maxlen=200)
        self._spinner = Spinner("dots", style=STATUS_STYLES["running"])
        self._foot = f"The dashboard is at {url}. Ctrl-C ends the demo."
        self._began = time.time()
        self._live = Live(self, console=out.console(stderr=True), refresh_per_second=10, transient=False)

    def start(self, runs: Sequence[ExampleRun]) -> None:
        self._runs = runs
        self._live.start()

    def said(self, run: ExampleRun, line: str) -> None:
        self._events.append((time.time() - self._began, run.example.title, f"» {line}", "bold"))

    def happened(self, run: ExampleRun, job: Job, event: Event) -> None:
        style = STATUS_STYLES.get(event.status, "") if event.status in FINAL or event.kind == "retry" else ""
        self._events.append((event.at - self._began, run.example.title, sentence(job, event), style))

    def over(self, *, stays: str | None) -> None:
        wrong = sum(not run.fine for run in self._runs)
        ended = (
            "All examples ended as expected." if not wrong else f"{counted(wrong, 'example')} did not end as expected."
        )
        self._foot = f"{ended} The dashboard stays up at {stays} until Ctrl-C." if stays else ended

    def stop(self) -> None:
        self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.panel import Panel
        from rich.text import Text

        table = self._table(options.max_width, MOST_ROWS_EACH if console.height >= ROOM_FOR_JOBS else 1)
        yield Text(f" Penstock: {len(self._runs)} examples, each in a process of its own, on one store", style="bold")
        yield table
        used = table.row_count + 9
        room = max(FEWEST_EVENTS, min(console.height - used, 14))
        titles = _title_width(options.max_width)
        yield Panel(
            self._happenings(room, titles), title="What happens", title_align="left", border_style="bright_black"
        )
        yield Text(f" {self._foot}", style="bright_black")

    def _happenings(self, room: int, titles: int) -> Text:
        from rich.text import Text

        text = Text(no_wrap=True, overflow="ellipsis")
        # They are read from several stores, one after the other.
        shown = sorted(self._events, key=lambda event: event[0])[-room:]
        for at, title, what, style in shown:
            text.append(f"{max(at, 0.0):5.1f} s  ", style="bright_black")
            text.append(f"{shortened(title, titles):<{titles + 1}}", style="cyan")
            text.append(f"{what}\n", style=style)
        text.append("\n" * (room - len(shown)))
        text.right_crop(1)
        return text

    def _table(self, room: int, most: int) -> Table:
        """What fits: the counters go first, then the bars and the ends of long names."""
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, expand=True, padding=(0, 1, 0, 0))
        titles = _title_width(room)
        widths = {"Example": titles, "": 1, "Job": 21, "Status": 9, "Step": 11, "Progress": 27, "Counters": 9}
        widths["Elapsed"] = 7
        counters = list(widths).index("Counters") if room < ROOM_FOR_COUNTERS else None
        if counters is not None:
            del widths["Counters"]
        if room < ROOM_FOR_BARS:
            widths["Progress"] = 15
        for heading, width in widths.items():
            fixed = heading in ("Example", "", "Status", "Elapsed")
            table.add_column(
                heading,
                no_wrap=True,
                overflow="ellipsis",
                min_width=width if fixed else None,
                ratio=None if fixed else width,
                justify="right" if heading == "Elapsed" else "left",
            )
        for run in self._runs:
            for place, row in enumerate(self._rows(run, most, bars=room >= ROOM_FOR_BARS)):
                cells = [shortened(run.example.title, titles) if place == 0 else "", *row]
                table.add_row(*(cell for number, cell in enumerate(cells) if number != counters))
        return table

    def _rows(self, run: ExampleRun, most: int, *, bars: bool) -> list[list[RenderableType]]:
        from rich.text import Text

        if not run.jobs:
            return [["", Text("starting", style="bright_black"), "", "", "", "", length(run.seconds)]]
        rows: list[list[RenderableType]] = []
        for workflow in dict.fromkeys(job.workflow for job in reversed(run.jobs)):
            jobs = [job for job in reversed(run.jobs) if job.workflow == workflow]
            if len(jobs) <= most:
                rows += [self._row(job, bars=bars) for job in jobs]
            else:
                rows.append(self._many(workflow, jobs, bars=bars))
        return rows

    def _row(self, job: Job, *, bars: bool) -> list[RenderableType]:
        from rich.text import Text

        step = f"{job.step} (try {job.attempt})" if job.attempt > 1 else job.step
        status = Text(job.status, style=STATUS_STYLES[job.status])
        name = Text(_name(job) + (f" (run {job.run})" if job.run > 1 else ""))
        progress = progress_bar(job, 12) if bars else Text(progress_text(job))
        cells = (Text(step), progress, Text(counters_text(job)), elapsed(job, time.time()))
        return [self._sign(job.status), name, status, *cells]

    def _many(self, workflow: str, jobs: list[Job], *, bars: bool) -> list[RenderableType]:
        """A row for all jobs of a workflow, where there are too many for a row each."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        statuses = Counter(job.status for job in jobs)
        ended = sum(job.final for job in jobs)
        bar = Table.grid(padding=(0, 1))
        figures = f"{ended}/{len(jobs)}"
        bar.add_row(*([ProgressBar(total=len(jobs), completed=ended, width=12), figures] if bars else [figures]))
        most = "running" if statuses["running"] else statuses.most_common(1)[0][0]
        status = Text(most if ended < len(jobs) else "ended", style=STATUS_STYLES[most])
        began = min((job.started for job in jobs if job.started), default=time.time())
        last = max((job.finished or 0.0 for job in jobs), default=0.0) if ended == len(jobs) else time.time()
        failed = Text(f"failed={statuses['failed']}" if statuses["failed"] else "")
        steps = Counter(job.step for job in jobs).most_common(1)[0][0]
        return [self._sign(most), Text(f"{workflow} × {len(jobs)}"), status, steps, bar, failed, length(last - began)]

    def _sign(self, status: str) -> RenderableType:
        from rich.text import Text

        return self._spinner if status == "running" else Text(SIGNS[status], style=STATUS_STYLES[status])
