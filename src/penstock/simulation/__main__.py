"""`python -m penstock.simulation`: run seeds of the built-in scenario, or one of them again with its trace."""

from __future__ import annotations

import sys

import click

from penstock.simulation.many import Sum, run_many, run_seed, store_of
from penstock.simulation.world import Violation

FAILURES_SHOWN = 3


@click.command()
@click.option("--seeds", type=click.IntRange(1), default=1000, show_default=True, help="How many seeds to run.")
@click.option("--first", type=click.IntRange(0), default=0, help="The seed to begin with.")
@click.option("--seed", type=click.IntRange(0), help="Run this one seed.")
@click.option("--trace", is_flag=True, help="With --seed: print everything that happened.")
@click.option(
    "--minutes", type=click.FloatRange(0, min_open=True), help="Run for so long instead of a number of seeds."
)
@click.option("--jobs", "processes", type=click.IntRange(1), help="Processes; one for each core if not given.")
@click.option(
    "--store", type=click.Choice(["memory", "sqlite"]), help="Run on this store; otherwise one seed in 20 is on SQLite."
)
def main(
    seeds: int,
    first: int,
    seed: int | None,
    trace: bool,
    minutes: float | None,
    processes: int | None,
    store: str | None,
) -> None:
    """Simulate workers, crashes and lost answers in virtual time, and check the rules after every transaction."""
    if seed is not None:
        sys.exit(_one(seed, store, trace=trace))
    total = run_many(
        seeds=None if minutes else seeds,
        first=first,
        store=store,
        processes=processes,
        seconds=minutes * 60 if minutes else None,
        stop_at_failure=minutes is not None,
    )
    click.echo(summary(total))
    for failure in total.failures[:FAILURES_SHOWN]:
        click.echo(f"\n{failure.text}\n" + "\n".join(failure.trace[-40:]))
    sys.exit(1 if total.failures else 0)


def _one(seed: int, store: str | None, *, trace: bool) -> int:
    try:
        report = run_seed(seed, store, trace=True)
    except Violation as broken:
        click.echo("\n".join(broken.whole_trace if trace else broken.trace))
        click.echo(str(broken))
        return 1
    if trace:
        click.echo("\n".join(report.trace))
    click.echo(
        f"seed {seed} on {store_of(seed, store)}: {report.jobs} jobs, {report.transactions} transactions, "
        f"{report.seconds:.0f} virtual seconds; trace {report.digest}"
    )
    return 0


def summary(total: Sum) -> str:
    """What was run, in a few lines."""
    rate = total.seeds / total.wall if total.wall else 0.0
    lines = [
        f"{total.seeds:,} seeds, {len(total.failures):,} failed; {rate:.0f} seeds/s,"
        f" {total.cpu / max(1, total.seeds) * 1000:.1f} ms of CPU each",
        f"{total.jobs:,} jobs, {total.transactions:,} transactions, {total.virtual / 3600:,.0f} virtual hours",
        "stores: " + _counts(total.stores),
        "jobs ended: " + _counts(total.statuses),
        "faults: " + _counts(total.faults),
        "effects: " + _counts(total.effects),
    ]
    if total.failures:
        lines.append("failed seeds: " + ", ".join(str(failure.seed) for failure in total.failures[:20]))
    return "\n".join(lines)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())) or "none"


if __name__ == "__main__":
    main()
