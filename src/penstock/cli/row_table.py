"""The table of a list on a terminal: one line for a row, and more below it where there is something to tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from penstock.cli.output import harmless

WHOLE = frozenset(
    {"ID", "RUN", "STATUS", "STATE", "TRY", "JOB", "AGE", "NEXT LOOK", "COST", "AT", "WHAT", "TOOK", "BY", "NOTE"}
)
"""Columns that are never cut: the others give way on a narrow terminal."""

RIGHT = frozenset({"RUN", "TRY", "AGE", "NEXT LOOK", "COST", "TOOK"})


class RowTable:
    """`columns`: heading → cells, one for each row. `styles` colour the cells of the column `styled`. Below each row
    stand its `details`, then its reason, cut at the edge unless `folded`."""

    def __init__(
        self,
        columns: Mapping[str, Sequence[str]],
        reasons: Sequence[str],
        *,
        styled: str,
        styles: Sequence[str],
        details: Sequence[str] = (),
        folded: bool = False,
    ) -> None:
        self._columns = {heading: [harmless(cell) for cell in cells] for heading, cells in columns.items()}
        self._reasons = [harmless(reason) for reason in reasons]
        self._styled = styled
        self._styles = styles
        self._details = [harmless(detail) for detail in details] or [""] * len(reasons)
        self._folded = folded

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._table(), options, pad=False)
        head = len(lines) - len(self._reasons)
        for number, line in enumerate(lines):
            yield from line
            yield Segment.line()
            if number < head:
                continue
            if detail := self._details[number - head]:
                yield Text(f"  {detail}", style="bright_black", no_wrap=True, overflow="ellipsis")
            if reason := self._reasons[number - head]:
                yield self._reason(reason)

    def _reason(self, reason: str) -> Text | Padding:
        if not self._folded:
            return Text(f"  ↳ {reason}", style="bright_black", no_wrap=True, overflow="ellipsis")
        return Padding(Text(reason, style="bright_black"), (0, 0, 0, 4))

    def _table(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for heading in self._columns:
            table.add_column(
                heading if heading == "ID" else heading.capitalize(),
                no_wrap=heading in WHOLE,
                justify="right" if heading in RIGHT else "left",
            )
        for style, *row in zip(self._styles, *self._columns.values(), strict=True):
            cells = [Text(cell, no_wrap=True, overflow="ellipsis") for cell in row]
            cells[list(self._columns).index(self._styled)].stylize(style)
            table.add_row(*cells)
        return table
