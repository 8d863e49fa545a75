"""A sheet: everything about one thing, a name and a value a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.cli.output import Output, harmless

Facts = Sequence[tuple[str, str]]


def show_sheet(out: Output, title: str, facts: Facts, *, border: str, styles: Mapping[str, str]) -> None:
    """On a terminal a panel, with `styles` for some of the values; in a pipe plain lines."""
    facts = [(name, harmless(value)) for name, value in facts]
    if not out.fancy:
        width = max(len(name) for name, _ in facts)
        out.result("\n".join(f"{name.ljust(width)}  {value}" for name, value in facts))
        return
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    sheet = Table.grid(padding=(0, 2))
    sheet.add_column(style="bright_black")
    sheet.add_column(overflow="fold")
    for name, value in facts:
        sheet.add_row(name, Text(value, style=styles.get(name, "")))
    out.console().print(Panel(sheet, title=title, title_align="left", border_style=border, expand=False))
