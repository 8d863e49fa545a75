"""What a person sees while documents are extracted: a bar and the documents at hand on a terminal, a line for each that
ended in a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from penstock.cli.documents_states import State, plain_error
from penstock.cli.output import SIGNS, STATUS_STYLES, Output, harmless
from penstock.cli.waiting_views import View
from penstock.engine.model import Job
from penstock.times import ago, length, local

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table
    from rich.text import Text

MOST_AT_HAND, MOST_ENDED = 10, 5
BAR = 40


@dataclass(slots=True)
class Watched:
    """What was read last; somebody else keeps it up to date. `news` are those that have ended since they were shown."""

    states: dict[str, State] = field(default_factory=dict)
    news: list[State] = field(default_factory=list)
    began: float = 0.0

    @property
    def ended(self) -> int:
        return sum(state.ended for state in self.states.values())

    @property
    def failed(self) -> int:
        return Counter(state.status for state in self.states.values())["failed"]


class DocumentsView(View):
    def __init__(self, out: Output, jobs: Mapping[str, Job], watched: Watched) -> None:
        super().__init__(out, jobs)
        self.watched = watched


class LineDocuments(DocumentsView):
    """For logs."""

    def __init__(self, out: Output, jobs: Mapping[str, Job], watched: Watched) -> None:
        super().__init__(out, jobs, watched)
        self._troubles: dict[str, str] = {}
        self._told = 0

    def show(self, now: float) -> None:
        if self.out.quiet:
            return
        for state in self.watched.news:
            self._told += 1
            why = f": {plain_error(state.error)}" if state.error else ""
            self._line(now, f"{self._told}/{len(self.watched.states)} {state.filename} {state.status}{why}")
        for state in self.watched.states.values():
            words = trouble(state, now)
            if words and self._troubles.get(state.id) != state.error:
                self._troubles[state.id] = state.error or ""
                self._line(now, f"{state.filename} {words}")

    def remark(self, text: str) -> None:
        if text and text != self._remark:
            self.out.note(text)
        self._remark = text

    def _line(self, now: float, text: str) -> None:
        click.echo(f"{local(now)[11:19]} {harmless(text)}", err=True)


class LiveDocuments(DocumentsView):
    """For terminals."""

    def __init__(self, out: Output, jobs: Mapping[str, Job], watched: Watched) -> None:
        from rich.live import Live
        from rich.spinner import Spinner

        super().__init__(out, jobs, watched)
        self._now = 0.0
        self._last: list[State] = []
        self._spinner = Spinner("dots", style=STATUS_STYLES["running"])
        self._live = Live(self, console=out.console(stderr=True), refresh_per_second=8, transient=True)

    def __enter__(self) -> View:
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def show(self, now: float) -> None:
        self._now = now
        self._last = [*self._last, *self.watched.news][-MOST_ENDED:]

    def remark(self, text: str) -> None:
        self._remark = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        yield self._head(options.max_width)
        room = max(console.height - 4 - len(self._last), 1)
        at_hand = [state for state in self.watched.states.values() if not state.ended and state.status != "queued"]
        for state in self._last:
            yield self._line(state)
        for state in at_hand[: min(MOST_AT_HAND, room)]:
            yield self._line(state)
        if len(at_hand) > MOST_AT_HAND:
            yield Text(f"  and {len(at_hand) - MOST_AT_HAND} more", style="bright_black")
        if self._remark:
            yield Text(self._remark, style="yellow")

    def _head(self, room: int) -> Table:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        watched = self.watched
        total, ended = len(watched.states), watched.ended
        figures = f"{ended}/{total} {'document' if total == 1 else 'documents'}"
        row = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=total or 1, completed=ended, width=max(min(BAR, room - 50), 8))
        failed = Text(f"{watched.failed} failed" if watched.failed else "", style=STATUS_STYLES["failed"])
        since = Text(length(self._now - watched.began) if watched.began and self._now else "", style="bright_black")
        row.add_row(self._spinner, Text(figures, style="bold"), bar, since, failed)
        return row

    def _line(self, state: State) -> Text:
        from rich.text import Text

        status = state.status if state.ended or state.status == "paused" else "running"
        text = Text("  ", no_wrap=True, overflow="ellipsis")
        text.append(SIGNS[status], style=STATUS_STYLES[status])
        text.append(f" {harmless(state.filename)}")
        if state.ended:
            text.append(f"  {harmless(plain_error(state.error))}" if state.error else "", style="red")
        else:
            text.append(f"  {state.step}", style="bright_black")
            text.append(f"  {harmless(trouble(state, self._now))}", style="yellow")
        return text


def trouble(state: State, now: float) -> str:
    """Why a document does not get on; empty where it does."""
    if state.ended:
        return ""
    if state.status == "paused":
        return f"is paused: {plain_error(state.reason)}" if state.reason else "is paused"
    if not state.error:
        return ""
    again = f"; tried again {ago(state.due, now)}" if state.due is not None and state.due > now else ""
    return f"failed at try {max(state.attempt - 1, 1)}: {plain_error(state.error)}{again}"


def view_for(out: Output, jobs: Mapping[str, Job], watched: Watched) -> DocumentsView:
    return LiveDocuments(out, jobs, watched) if out.live else LineDocuments(out, jobs, watched)
