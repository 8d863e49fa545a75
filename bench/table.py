"""Plain text tables: names to the left, figures to the right, as many digits as mean something."""

from __future__ import annotations


def figure(value: float | None) -> str:
    """Three significant digits, thousands grouped; a dash where there is no value."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.3f}"


def table(headings: list[str], lines: list[list[str]]) -> str:
    """Lines of text in columns; the first column is flush left, the others flush right."""
    widths = [max(len(line[column]) for line in [headings, *lines]) for column in range(len(headings))]

    def laid_out(cells: list[str]) -> str:
        first, *others = (
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join([first, *others]).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([laid_out(headings), rule, *map(laid_out, lines)])
