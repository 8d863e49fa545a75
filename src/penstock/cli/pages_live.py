"""What a person sees while pages are read: bars that move on a terminal, a line for each change in a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from penstock.cli.output import SIGNS, STATUS_STYLES, Output, harmless
from penstock.cli.pages_told import Told, trouble, trouble_text
from penstock.cli.pages_views import BATCH_HEADINGS, batch_cells, big, counts_text, done_text, left_text, strip
from penstock.cli.waiting_views import View
from penstock.engine.model import Job
from penstock.pipelines.pages.reading import BatchView, BookRow
from penstock.store.protocol import LogLine
from penstock.times import length, local

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table
    from rich.text import Text

MOST_BATCHES, MOST_BOOKS, MOST_EVENTS = 6, 6, 5
ROOM_FOR_IDS = 90
"""Columns that a terminal must have for a batch's name at Gemini."""
WIDE = 60
"""Columns that a terminal must have for the pages of a book beside its name."""


@dataclass(slots=True)
class Watched:
    """What was read last; somebody else keeps it up to date."""

    title: str
    local: bool = False
    """The Gemini is this machine's: what batches cost is what they would have cost."""
    overview: Told | None = None
    batches: Sequence[BatchView] = ()
    books: Sequence[BookRow] = ()
    events: Sequence[LogLine] = field(default_factory=tuple)


class PagesView(View):
    """Looks at the run of `watched`."""

    def __init__(self, out: Output, jobs: Mapping[str, Job], watched: Watched) -> None:
        super().__init__(out, jobs)
        self.watched = watched

    @property
    def job(self) -> Job:
        return next(iter(self.jobs.values()))


class LinePages(PagesView):
    """For logs: a line when something changed."""

    _told: object = None
    _trouble = ""

    def show(self, now: float) -> None:
        if (words := trouble(self.job)) != self._trouble:
            self._trouble = words
            # An error is not silenced by --quiet: without it the command would seem to hang.
            if words:
                self.out.wrong(trouble_text(self.job, now))
        told = self.watched.overview
        if told is None or not (told.totals.pages or self.job.final):
            return
        job, totals = self.job, told.totals
        resting = job.status in ("paused", "canceling") or job.final
        seen = (job.status if resting else "", totals.done, totals.dead, told.batches_active, told.batches_ended)
        if seen == self._told or self.out.quiet:
            return
        self._told = seen
        parts = [f"{done_text(told)} done", counts_text(told, local=self.watched.local), left_text(told)]
        if resting:
            parts.insert(0, job.status)
        click.echo(f"{local(now)} {' · '.join(part for part in parts if part)}", err=True)

    def remark(self, text: str) -> None:
        if text and text != self._remark:
            self.out.note(text)
        self._remark = text


class LivePages(PagesView):
    """For terminals."""

    def __init__(self, out: Output, jobs: Mapping[str, Job], watched: Watched) -> None:
        from rich.live import Live
        from rich.spinner import Spinner

        super().__init__(out, jobs, watched)
        self._now = 0.0
        self._spinner = Spinner("dots", style=STATUS_STYLES["running"])
        self._live = Live(self, console=out.console(stderr=True), refresh_per_second=8, transient=True)

    def __enter__(self) -> View:
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def show(self, now: float) -> None:
        self._now = now

    def remark(self, text: str) -> None:
        self._remark = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        yield self._head()
        if words := trouble_text(self.job, self._now):
            yield Text(f"  {words}", style="red")
        told = self.watched.overview
        if told is None:
            return
        yield self._bar(told, options.max_width)
        yield Text(
            f"  {counts_text(told, local=self.watched.local)}", style="bright_black", no_wrap=True, overflow="ellipsis"
        )
        room = console.height - 6
        books = self.watched.books[: min(MOST_BOOKS, max(room // 3, 0))]
        batches = self.watched.batches[: min(MOST_BATCHES, max(room // 3, 0))]
        if books:
            yield Text("")
            yield self._shelf(books, options.max_width)
        if batches:
            yield Text("")
            yield self._batches(batches, options.max_width)
            more = len(self.watched.batches) - len(batches)
            if more > 0:
                yield Text(f"  and {more} more", style="bright_black")
        events = self.watched.events[-min(MOST_EVENTS, max(room // 4, 1)) :]
        if events:
            yield Text("")
            yield self._happened(events)
        if self._remark:
            yield Text(self._remark, style="yellow")

    def _head(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        job = self.job
        status = job.status if job.status not in ("queued", "waiting") else "running"
        sign: RenderableType = self._spinner
        if status != "running":
            sign = Text(SIGNS[job.status], style=STATUS_STYLES[job.status])
        words = Text.assemble(
            (harmless(self.watched.title), "bold"), ("  run ", "bright_black"), (job.id, "bright_black")
        )
        # That it waits for its batches is shown below.
        reason = "" if job.reason is None or job.reason.startswith("waits for ") else f": {harmless(job.reason)}"
        if status != "running" or reason:
            words.append(f"  {status}{reason}", style="yellow")
        row = Table.grid(padding=(0, 1))
        row.add_column()
        row.add_column(no_wrap=True, overflow="ellipsis")
        row.add_row(sign, words)
        return row

    def _bar(self, told: Told, room: int) -> Table:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        totals = told.totals
        share = f"{100 * totals.done / totals.pages:.0f} %" if totals.pages else "looking at the folders"
        figures = f"{big(totals.done)}/{big(totals.pages)} pages  {share}"
        left = left_text(told)
        row = Table.grid(padding=(0, 2))
        cells: list[RenderableType] = [Text("")]
        width = min(room - len(figures) - len(left) - 10, WIDE)
        if width > 10 and totals.pages:
            cells.append(ProgressBar(total=totals.pages, completed=totals.done, width=width))
        row.add_row(*cells, Text(figures, style="bold"), Text(left, style="cyan"))
        return row

    def _shelf(self, books: Sequence[BookRow], room: int) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        table.add_column(width=0)
        table.add_column(no_wrap=True, overflow="ellipsis", max_width=max(room // 2, 20))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, justify="right", style="bright_black")
        for book in books:
            drawn = strip(book.states, min(40, max(room // 3, 8))) if room >= WIDE else Text("")
            table.add_row("", Text(harmless(book.book)), drawn, f"{book.done}/{book.total}")
        return table

    def _batches(self, batches: Sequence[BatchView], room: int) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        table.add_column(width=0)
        for heading in BATCH_HEADINGS if room >= ROOM_FOR_IDS else BATCH_HEADINGS[:-1]:
            table.add_column(no_wrap=True, overflow="ellipsis", justify="right" if heading == "PAGES" else "left")
        for batch in batches:
            number, state, pages, _, where = batch_cells(batch, self._now)
            since = length(self._now - (batch.submitted or batch.created))
            shown = [
                Text(f"batch {number}"),
                Text(state, style="magenta"),
                Text(f"{pages} {'page' if batch.size == 1 else 'pages'}"),
                Text(since),
            ]
            table.add_row("", *shown, *([Text(where, style="bright_black")] if room >= ROOM_FOR_IDS else []))
        return table

    def _happened(self, events: Sequence[LogLine]) -> Text:
        from rich.text import Text

        text = Text(no_wrap=True, overflow="ellipsis")
        for place, event in enumerate(events):
            since = f"{length(max(self._now - event.at, 0.0))} ago"
            style = "yellow" if event.level in ("warning", "error") else ""
            text.append(f"{'' if place == 0 else chr(10)}  {since:>10}  ", style="bright_black")
            text.append(harmless(event.text).replace("\n", " "), style=style)
        return text


def view_for(out: Output, jobs: Mapping[str, Job], watched: Watched) -> PagesView:
    return LivePages(out, jobs, watched) if out.live else LinePages(out, jobs, watched)
