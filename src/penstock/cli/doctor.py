"""`penstock doctor`: looks at everything Penstock stands on, and says how to mend what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.command import Command, Invocation

if TYPE_CHECKING:
    from penstock.cli.check import Check
    from penstock.cli.output import Output

SIGNS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}


@click.command(cls=Command)
@click.pass_obj
def doctor(call: Invocation) -> int:
    """Check what Penstock stands on.

    Versions, configuration, permissions, disk, store, clock, workers and jobs, and how to mend what is wrong.
    """
    from dataclasses import asdict

    from penstock import __version__
    from penstock.cli import sessions
    from penstock.cli.checks import examine
    from penstock.cli.output import without_password

    checks = sessions.run(examine(call))
    failed = sum(check.status == "fail" for check in checks)
    told = [{name: value and without_password(value) for name, value in asdict(check).items()} for check in checks]
    call.out.data({"version": __version__, "ok": not failed, "checks": told})
    if not call.json:
        _show(call.out, checks)
    warned = sum(check.status == "warn" for check in checks)
    call.out.tell(f"{len(checks) - failed - warned} fine, {warned} to look at, {failed} wrong.")
    return 1 if failed else 0


def _show(out: Output, checks: list[Check]) -> None:
    width = max(len(check.name) for check in checks)
    for check in checks:
        if out.quiet and check.status == "ok":
            continue
        sign, colour = SIGNS[check.status]
        mark = click.style(sign, fg=colour, bold=True) if out.fancy else f"{check.status:<4}"
        out.result(f"{mark} {check.name.ljust(width)}  {check.detail}")
        if check.mend:
            gap = " " * (width + (4 if out.fancy else 7))
            out.result(gap + click.style(f"→ {check.mend}", fg=colour))
