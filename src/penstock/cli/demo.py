"""`penstock demo`: runs the programs of `examples/`, each on a store of its own, and watches their stores.

The examples are not told that they are watched: a job is a row, and whoever can read the store can see it move.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from penstock.cli.command import Command, Invocation

if TYPE_CHECKING:
    from penstock.cli.demo_run import ExampleRun
    from penstock.cli.output import Output


@click.command(cls=Command)
@click.pass_obj
def demo(call: Invocation) -> int:
    """Run the examples in one live view.

    With DEMO_EXIT=1 in the environment it ends by itself, with a summary and the exit status.
    """
    import tempfile
    from pathlib import Path

    from penstock.cli import sessions
    from penstock.cli.demo_run import examples, play
    from penstock.cli.demo_views import view_for

    programs = examples()
    stay = call.out.live and os.environ.get("DEMO_EXIT", "0") in ("", "0")
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as home:
        for example in programs:
            Path(home, example.name).mkdir()
        runs = sessions.run(play(programs, Path(home), view_for(call.out, programs), stay=stay))
    call.out.data({"ok": all(run.fine for run in runs), "examples": [_told(run) for run in runs]})
    _summary(call.out, runs)
    return 0 if all(run.fine for run in runs) else 1


def _told(run: ExampleRun) -> dict[str, object]:
    return {
        "name": run.example.name,
        "ok": run.fine,
        "seconds": round(run.seconds, 3),
        "jobs": run.statuses,
        "output": run.output,
    }


def _summary(out: Output, runs: list[ExampleRun]) -> None:
    from penstock.cli.output import counted

    for run in runs:
        sign = click.style("✓", fg="green") if run.fine else click.style("✗", fg="red")
        counts = ", ".join(f"{count} {status}" for status, count in run.statuses.items())
        out.tell(f"{sign} {run.example.title:<24} {run.seconds:5.1f} s   {counts}")
        if not run.fine:
            out.wrong(f"{run.example.name}: {run.problem}")
    wrong = sum(not run.fine for run in runs)
    jobs = sum(sum(run.statuses.values()) for run in runs)
    ended = "all as expected" if not wrong else f"{wrong} not as expected"
    out.tell(f"{counted(len(runs), 'example')}, {counted(jobs, 'job')}, {ended}.")
