"""Money as people see it: what calls have cost, and what may still be spent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from penstock.cli.fitting import fitted, needed, shortened, widths_of
from penstock.cli.output import Output, plain_table
from penstock.engine.budget import dollars
from penstock.shapes import left
from penstock.store.protocol import Budget, Cost

AMOUNTS = ("CALLS", "UNFINISHED", "INPUT", "CACHED", "OUTPUT", "COST", "RESERVED")

LEAST_NAME = 12
"""How much of a name is always shown."""


def spent_text(cost: Cost) -> str:
    """`$0.42 for 3 calls, up to $0.10 more for 1 unfinished`."""
    text = f"{dollars(cost.cost)} for {cost.calls} call{'' if cost.calls == 1 else 's'}"
    return f"{text}, up to {dollars(cost.reserved)} more for {cost.live} unfinished" if cost.reserved else text


def show_costs(out: Output, costs: Sequence[Cost], by: Sequence[str], total: Cost) -> None:
    headings = [*(name.upper() for name in by), *AMOUNTS]
    rows = [[*(name or "-" for name in cost.group), *_amounts(cost, _exact)] for cost in costs]
    last = ["TOTAL", *[""] * (len(by) - 1), *_amounts(total, _exact)]
    if not out.fancy:
        out.result(plain_table(headings, [*rows, last]))
        return
    _show_costs_on_a_terminal(out, costs, by, total)


def _show_costs_on_a_terminal(out: Output, costs: Sequence[Cost], by: Sequence[str], total: Cost) -> None:
    """Where there is little room, tokens are rounded, then left out; names are cut in their middle."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    console = out.console()
    columns = _columns(costs, by, total, _exact)
    if needed(widths_of(columns)) > console.width:
        columns = _columns(costs, by, total, _rounded)
    if needed(widths_of(columns)) > console.width:
        columns.pop("Cached", None)
    widths = widths_of(columns)
    longest_first = sorted((name.capitalize() for name in by), key=lambda name: -widths[name])
    for name in ("Open", "Input", "Output", "Reserved", ""):
        widths = fitted(widths_of(columns), console.width, dict.fromkeys(longest_first, LEAST_NAME))
        if needed(widths) <= console.width:
            break
        columns.pop(name, None)
    table = Table(
        box=box.SIMPLE_HEAD,
        header_style="bold",
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_footer=True,
    )
    for number, (heading, cells) in enumerate(columns.items()):
        style = {"Cost": "green", "Reserved": "yellow"}.get(heading, "")
        footer = Text(cells[-1], style=f"bold {style}")
        justify: Literal["left", "right"] = "left" if number < len(by) else "right"
        table.add_column(heading, footer, justify=justify, no_wrap=True, style=style)
    for row in zip(*(cells[:-1] for cells in columns.values()), strict=True):
        table.add_row(*(Text(shortened(cell, width)) for cell, width in zip(row, widths.values(), strict=True)))
    console.print(table)


def _columns(
    costs: Sequence[Cost], by: Sequence[str], total: Cost, tokens: Callable[[int], str]
) -> dict[str, list[str]]:
    """Heading → cells, the total last; without the amounts of which there are none."""
    columns = {name.capitalize(): [cost.group[n] or "-" for cost in costs] + [""] for n, name in enumerate(by)}
    columns[by[0].capitalize()][-1] = "Total"
    amounts = zip(*(_amounts(cost, tokens) for cost in (*costs, total)), strict=True)
    named = zip(("Calls", "Open", "Input", "Cached", "Output", "Cost", "Reserved"), amounts, strict=True)
    return columns | {heading: list(cells) for heading, cells in named if any(cells)}


def _amounts(cost: Cost, tokens: Callable[[int], str]) -> list[str]:
    return [
        f"{cost.calls:,}",
        f"{cost.live:,}" if cost.live else "",
        tokens(cost.input),
        tokens(cost.cached) if cost.cached else "",
        tokens(cost.output),
        dollars(cost.cost),
        dollars(cost.reserved) if cost.reserved else "",
    ]


def _exact(amount: int) -> str:
    return f"{amount:,}"


def _rounded(amount: int) -> str:
    """`950`, `12k`, `3.4M`."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if amount >= size:
            return f"{amount / size:.1f}{unit}" if amount < 10 * size else f"{amount / size:,.0f}{unit}"
    return str(amount)


def show_budgets(out: Output, budgets: Sequence[Budget]) -> None:
    headings = ["SCOPE", "BUDGET", "SPENT", "RESERVED", "LEFT"]
    rows = [
        [budget.scope, dollars(budget.most), dollars(budget.spent), dollars(budget.reserved), signed(left(budget))]
        for budget in budgets
    ]
    if not out.fancy:
        out.result(plain_table(headings, rows))
        return
    from rich import box
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False)
    for heading in headings:
        table.add_column(heading.capitalize(), justify="left" if heading == "SCOPE" else "right")
    table.add_column("", width=16)
    for budget, row in zip(budgets, rows, strict=True):
        gone = budget.spent + budget.reserved
        style = "red" if gone >= budget.most else "yellow" if gone >= 0.9 * budget.most else "green"
        bar = ProgressBar(total=max(budget.most, 1), completed=gone, width=16, complete_style=style)
        table.add_row(*(Text(cell) for cell in row[:-1]), Text(row[-1], style=style), bar)
    out.console().print(table)


def signed(millionths: int) -> str:
    return f"-{dollars(-millionths)}" if millionths < 0 else dollars(millionths)
