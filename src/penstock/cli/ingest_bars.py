"""The four phases of a run as they are drawn: load, chunk, embed, index, each with how much has passed it, of about how
much, how fast, and the time it took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.pipelines.ingestion.status import Status
from penstock.times import length

if TYPE_CHECKING:
    from rich.table import Table

WIDEST, NARROWEST = 40, 8
FIXED = 50
"""Columns of everything beside the bar."""


@dataclass(slots=True, frozen=True)
class Phase:
    """One of the four. `total` is what there will be in the end, about; None where nobody can tell."""

    name: str
    done: int
    total: int | None
    noun: str
    rate: float | None
    seconds: float
    active: bool
    complete: bool

    @property
    def amount(self) -> str:
        """`320 of 1,000 documents`; of chunks nobody knows how many are to come."""
        if self.noun == "document" and self.total is not None and not self.complete:
            return f"{self.done:,} of {self.total:,} document{'' if self.total == 1 else 's'}"
        return f"{self.done:,} {self.noun}{'' if self.done == 1 else 's'}"


def phases(status: Status) -> list[Phase]:
    """Of chunks as many are expected as the documents that are left will have, if they are like those before them."""
    seen, total = status.counters["docs_seen"], status.documents_total
    over = status.status == "completed"
    cut = status.counters["chunks_seen"]
    expected = cut if over else None if not total or not seen else max(round(cut * total / seen), cut)
    rates = {"load": status.rates.docs_per_second, "index": status.rates.chunks_per_second}
    return [
        Phase(
            name=phase.name,
            done=phase.done,
            total=(phase.done if over else phase.total) if phase.name == "load" else expected,
            noun="document" if phase.name == "load" else "chunk",
            rate=rates.get(phase.name),
            seconds=phase.seconds,
            active=phase.active,
            complete=over,
        )
        for phase in status.phases
    ]


def drawn(status: Status, room: int) -> Table:
    """For terminals."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    working = status.status == "running"
    width = max(min(WIDEST, room - FIXED), NARROWEST)
    table = Table.grid(padding=(0, 1))
    table.add_column(width=1)
    table.add_column(no_wrap=True)
    table.add_column(width=width)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right", style="cyan")
    table.add_column(no_wrap=True, justify="right", style="bright_black")
    for phase in phases(status):
        if phase.total is None and working:
            bar = ProgressBar(total=None, pulse=phase.active, width=width)
        else:
            done = 1 if phase.complete and not phase.done else phase.done
            bar = ProgressBar(total=max(phase.total or 0, 1), completed=done, width=width)
        sign = "✓" if phase.complete else "▸" if phase.active else " "
        style = "green" if phase.complete else "bold blue" if phase.active else ""
        table.add_row(
            Text(sign, style=style),
            Text(phase.name, style=style),
            bar,
            phase.amount,
            f"{rate_text(phase.rate)}/s" if phase.rate else "",
            length(phase.seconds) if phase.seconds else "",
        )
    return table


def rate_text(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"


def lines(status: Status) -> list[tuple[str, str, str, str]]:
    """For pipes: name, done, rate a second, time."""
    return [
        (
            phase.name,
            phase.amount,
            "" if phase.rate is None else f"{rate_text(phase.rate)}/s",
            length(phase.seconds) if phase.seconds else "",
        )
        for phase in phases(status)
    ]
