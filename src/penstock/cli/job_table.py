"""The table of `penstock jobs list` on a terminal: one line for a job, and one more where there is a reason to tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from penstock.cli.output import STATUS_STYLES

WHOLE = ("ID", "RUN", "STATUS", "TRY", "AGE")
"""Columns that are never cut: the others give way on a narrow terminal."""


class JobTable:
    """`columns`: heading → cells, one for each job."""

    def __init__(self, columns: Mapping[str, Sequence[str]], statuses: Sequence[str], reasons: Sequence[str]) -> None:
        self._columns = columns
        self._statuses = statuses
        self._reasons = reasons

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._table(), options, pad=False)
        head = len(lines) - len(self._reasons)
        for number, line in enumerate(lines):
            yield from line
            yield Segment.line()
            if number >= head and (reason := self._reasons[number - head]):
                yield Text(f"  ↳ {reason}", style="bright_black", no_wrap=True, overflow="ellipsis")

    def _table(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for heading in self._columns:
            table.add_column(
                heading if heading == "ID" else heading.capitalize(),
                no_wrap=heading in WHOLE,
                justify="right" if heading in ("RUN", "TRY", "AGE") else "left",
            )
        for status, *row in zip(self._statuses, *self._columns.values(), strict=True):
            cells = [Text(cell, no_wrap=True, overflow="ellipsis") for cell in row]
            cells[list(self._columns).index("STATUS")].stylize(STATUS_STYLES[status])
            table.add_row(*cells)
        return table
