"""What a person sees while a knowledge base is filled: its four phases as bars on a terminal, in a log a line for each
tenth of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from penstock.cli.ingest_bars import drawn, rate_text
from penstock.cli.output import SIGNS, STATUS_STYLES, Output, harmless
from penstock.cli.waiting_views import View
from penstock.engine.model import Job
from penstock.pipelines.ingestion.status import Status
from penstock.times import ago, length, local

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table

QUIET_FOR = 10.0
"""Seconds after which a log gets a line though little has changed."""


@dataclass(slots=True)
class Watched:
    """What was read last; somebody else keeps it up to date."""

    status: Status | None = None


class IngestView(View):
    """Looks at the run of `watched`."""

    def __init__(self, out: Output, jobs: Mapping[str, Job], watched: Watched) -> None:
        super().__init__(out, jobs)
        self.watched = watched

    @property
    def job(self) -> Job | None:
        return next(iter(self.jobs.values()), None)


class LineIngest(IngestView):
    """For logs."""

    _told: object = None
    _at = 0.0
    _trouble = ""

    def show(self, now: float) -> None:
        status = self.watched.status
        if status is None:
            return
        if (words := trouble(self.job)) != self._trouble:
            self._trouble = words
            # An error is not silenced by --quiet: without it the command would seem to hang.
            if words:
                self.out.wrong(harmless(f"{words}{_again(self.job, now)}"))
        share = 10 * status.counters["docs_seen"] // status.documents_total if status.documents_total else 0
        seen = (status.status, share, status.errors, status.stalled)
        if self.out.quiet or not _has_begun(status) or (seen == self._told and now - self._at < QUIET_FOR):
            return
        self._told, self._at = seen, now
        click.echo(f"{local(now)[11:19]} {line(status)}", err=True)

    def remark(self, text: str) -> None:
        if text and text != self._remark:
            self.out.note(text)
        self._remark = text


class LiveIngest(IngestView):
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
        from rich.padding import Padding
        from rich.text import Text

        status = self.watched.status
        if status is None:
            return
        yield self._head(status)
        yield Padding(drawn(status, options.max_width - 2), (0, 0, 0, 2))
        if facts := " · ".join(beside(status)):
            yield Text(f"  {facts}", style="bright_black", no_wrap=True, overflow="ellipsis")
        if words := trouble(self.job):
            yield Text(f"  {harmless(words)}{_again(self.job, self._now)}", style="red")
        elif status.last_error and status.errors:
            text = " ".join(harmless(status.last_error).split())
            yield Text(f"  last error: {text}", style="yellow", no_wrap=True, overflow="ellipsis")
        if self._remark:
            yield Text(f"  {self._remark}", style="yellow")

    def _head(self, status: Status) -> Table:
        from rich.table import Table
        from rich.text import Text

        sign: RenderableType = self._spinner
        if status.status != "running":
            sign = Text(SIGNS.get(status.status, "·"), style=STATUS_STYLES.get(status.status, "bright_black"))
        words = Text.assemble((harmless(status.kb_id), "bold"), (f"  run {status.id}", "bright_black"))
        if self._now:
            words.append(f"  {length(self._now - status.started_at)}", style="bright_black")
        if left := left_text(status):
            words.append(f"  {left}", style="cyan")
        if status.status != "running":
            words.append(f"  {status_words(status)}", style="yellow")
        elif status.stalled:
            words.append(f"  no heartbeat for {length(status.heartbeat_age or 0.0)}", style="yellow")
        elif self.job is not None and self.job.halting:
            words.append(f"  is to {self.job.halting}", style="yellow")
        row = Table.grid(padding=(0, 1))
        row.add_column()
        row.add_column(no_wrap=True, overflow="ellipsis")
        row.add_row(sign, words)
        return row


def status_words(status: Status) -> str:
    """A cancelled run is reset when its clean-up has ended; until then it is being cancelled."""
    return "being canceled" if status.status == "canceled" else status.status.replace("_", " ")


def left_text(status: Status) -> str:
    """How long it may still take, where that is known."""
    return f"about {length(status.eta_seconds)} left" if status.eta_seconds else ""


def beside(status: Status) -> list[str]:
    """What is counted beside the phases."""
    counted = status.counters
    parts = (
        (counted["docs_unchanged"], "unchanged"),
        (counted["docs_replaced"], "replaced"),
        (counted["docs_empty"], "empty"),
        (counted["chunks_skipped"], f"chunk{'' if counted['chunks_skipped'] == 1 else 's'} known already"),
    )
    told = [f"{amount:,} {what}" for amount, what in parts if amount]
    return [*told, f"{status.errors:,} error{'' if status.errors == 1 else 's'}"] if status.errors else told


def _has_begun(status: Status) -> bool:
    return bool(status.counters["docs_seen"]) or status.status != "running"


def line(status: Status) -> str:
    """One line of a log."""
    counted, total = status.counters, status.documents_total
    seen = counted["docs_seen"]
    share = f" ({100 * min(seen, total) // total} %)" if total else ""
    of = f"{seen:,}/{total:,}" if total else f"{seen:,}"
    indexed = counted["chunks_processed"]
    documents, chunks = ("document" if (total or seen) == 1 else "documents"), "chunk" if indexed == 1 else "chunks"
    parts = [f"{of} {documents}{share}, {indexed:,} {chunks} indexed", *beside(status)]
    if status.status != "running":
        parts.insert(0, status_words(status))
    elif status.stalled:
        parts.insert(0, f"no heartbeat for {length(status.heartbeat_age or 0.0)}")
    if status.rates.docs_per_second and status.status == "running":
        parts.append(f"{rate_text(status.rates.docs_per_second)} documents/s")
    if left := left_text(status):
        parts.append(left)
    return " · ".join(parts)


def trouble(job: Job | None) -> str:
    """Why the run's step failed and is tried again; empty where it is not."""
    if job is None or job.final or job.status in ("paused", "canceling") or not job.error:
        return ""
    return plain(job.error)


def plain(error: str) -> str:
    """What went wrong, without the name of the error, which is for programs."""
    kind, colon, words = error.partition(": ")
    return words if colon and kind.isidentifier() else error


def _again(job: Job | None, now: float) -> str:
    return f"; tried again {ago(job.due, now)}" if job is not None and job.due is not None and job.due > now else ""


def view_for(out: Output, jobs: Mapping[str, Job], watched: Watched) -> IngestView:
    return LiveIngest(out, jobs, watched) if out.live else LineIngest(out, jobs, watched)


@contextlib.contextmanager
def working(out: Output, words: str) -> Iterator[None]:
    """A line on a terminal that moves while something is done."""
    if not out.live:
        yield
        return
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    with Live(Spinner("dots", Text(words)), console=out.console(stderr=True), refresh_per_second=8, transient=True):
        yield
