"""`penstock demo`: runs the programs of `examples/` on one store, watches it, and leaves a dashboard up on it.

The examples are not told that they are watched: a job is a row, and whoever can read the store can see it move.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from penstock.cli.command import Command, Invocation
from penstock.cli.parameters import WholeNumber

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.cli.demo_run import Example, ExampleRun
    from penstock.cli.output import Output


@click.command(cls=Command)
@click.option("--exit", "ends", is_flag=True, help="End by itself, with a summary and the exit status.")
@click.option("--port", type=WholeNumber(0, 65535), metavar="N", help="The dashboard's; 8800 or the next free one.")
@click.pass_obj
def demo(call: Invocation, ends: bool, port: int | None) -> int:
    """Run the examples, and leave the dashboard up.

    DEMO_EXIT=1 in the environment is the same as --exit.
    """
    import tempfile
    from pathlib import Path

    from penstock.cli import sessions
    from penstock.cli.demo_run import examples
    from penstock.cli.logs import log_beside
    from penstock.gemini_local.launch import LaunchFailed
    from penstock.gemini_local.launch import stop as stop_gemini

    programs = examples()
    wished = call.settings().service.port if port is None else port
    stay = not ends and os.environ.get("DEMO_EXIT", "0") in ("", "0")
    log_beside(call.out, ())
    for name in ("penstock.engine", "penstock.remote", "penstock.delivery"):
        # Jobs fail and calls are quarantined here on purpose, for people to look at.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as home:
        for example in programs:
            Path(home, example.name).mkdir()
        try:
            runs = sessions.run(_demo(call.out, programs, Path(home), wished, stay=stay))
        finally:
            # Whoever asked the dashboard to read something again has started it.
            with contextlib.suppress(LaunchFailed):
                stop_gemini(Path(home))
    return 0 if all(run.fine for run in runs) else 1


async def _demo(out: Output, programs: Sequence[Example], home: Path, port: int, *, stay: bool) -> list[ExampleRun]:
    from penstock.cli.demo_run import ExampleRun, play, store_in
    from penstock.cli.demo_service import dashboard
    from penstock.cli.demo_show import adopt_workflows, furnish
    from penstock.cli.demo_views import view_for

    async with dashboard(home, store_in(home), port) as shown:
        busy = "" if shown.wished else f"Port {port} is in use, so another is taken. "
        out.remark(f"{busy}The dashboard is at {shown.url}/")
        runs = [ExampleRun(example) for example in programs]
        view = view_for(out, f"{shown.url}/")
        try:
            if stay:
                await furnish(shown.app)
            await play(runs, home, shown.app, view)
            view.over(stays=f"{shown.url}/" if stay else None)
            if not out.live or not stay:
                _report(out, runs, shown.url)
            if stay:
                adopt_workflows(shown.app, [example.path for example in programs if example.path is not None])
                if not out.live:
                    out.remark(f"The dashboard stays up at {shown.url}/ until Ctrl-C.")
                await _until_interrupted()
        finally:
            view.stop()
        if stay:
            out.remark("Stopping the dashboard.")
        if out.live and stay:
            _report(out, runs, shown.url)
    return runs


async def _until_interrupted() -> None:
    from penstock.cli.sessions import interrupts

    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
    interrupts.draining = True


def _report(out: Output, runs: list[ExampleRun], url: str) -> None:
    out.data({"ok": all(run.fine for run in runs), "dashboard": url, "examples": [_told(run) for run in runs]})
    _summary(out, runs)


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
