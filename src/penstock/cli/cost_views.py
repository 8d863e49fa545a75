"""Money as people see it: what calls have cost, and what may still be spent."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cli.call_shapes import left
from penstock.cli.output import Output, plain_table
from penstock.engine.budget import dollars
from penstock.store.protocol import Budget, Cost

AMOUNTS = ("CALLS", "UNFINISHED", "INPUT", "CACHED", "OUTPUT", "COST", "RESERVED")


def total_of(costs: Sequence[Cost]) -> Cost:
    """All of them as one."""
    return Cost(
        (),
        sum(cost.calls for cost in costs),
        sum(cost.live for cost in costs),
        sum(cost.input for cost in costs),
        sum(cost.output for cost in costs),
        sum(cost.cached for cost in costs),
        sum(cost.cost for cost in costs),
        sum(cost.reserved for cost in costs),
    )


def dearest_first(costs: Sequence[Cost], by: Sequence[str]) -> list[Cost]:
    """Days stay in their order."""
    days = [n for n, name in enumerate(by) if name == "day"]
    return sorted(costs, key=lambda cost: ([cost.group[n] for n in days], -cost.cost, cost.group))


def spent_text(cost: Cost) -> str:
    """`$0.42 for 3 calls, up to $0.10 more for 1 unfinished`."""
    text = f"{dollars(cost.cost)} for {cost.calls} call{'' if cost.calls == 1 else 's'}"
    return f"{text}, up to {dollars(cost.reserved)} more for {cost.live} unfinished" if cost.reserved else text


def show_costs(out: Output, costs: Sequence[Cost], by: Sequence[str], total: Cost) -> None:
    headings = [*(name.upper() for name in by), *AMOUNTS]
    rows = [[*(name or "-" for name in cost.group), *_amounts(cost)] for cost in costs]
    last = ["TOTAL", *[""] * (len(by) - 1), *_amounts(total)]
    if not out.fancy:
        out.result(plain_table(headings, [*rows, last]))
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, show_footer=True)
    for heading, foot in zip(headings, last, strict=True):
        right = heading in AMOUNTS
        style = "green" if heading == "COST" else "yellow" if heading == "RESERVED" else ""
        footer = Text(foot.capitalize(), style=f"bold {style}")
        table.add_column(heading.capitalize(), footer, justify="right" if right else "left", no_wrap=right, style=style)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    out.console().print(table)


def _amounts(cost: Cost) -> list[str]:
    return [
        f"{cost.calls:,}",
        f"{cost.live:,}" if cost.live else "",
        f"{cost.input:,}",
        f"{cost.cached:,}" if cost.cached else "",
        f"{cost.output:,}",
        dollars(cost.cost),
        dollars(cost.reserved) if cost.reserved else "",
    ]


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
