"""`penstock audit`: who did what, by which way, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from penstock.cli.command import Command, Invocation
from penstock.cli.parameters import WholeNumber

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.cli.output import Output
    from penstock.engine.audit import AuditRow


@click.command(cls=Command)
@click.option("--actor", "by", metavar="NAME", help="Only what this token or person did.")
@click.option("--action", metavar="ACTION", help="Only this action: job.pause, login.refused, …")
@click.option("--target", metavar="TARGET", help="Only what was done to this: job:ID, token:NAME, …")
@click.option("--tenant", "-t", help="Only entries of this tenant.")
@click.option("--limit", "-n", type=WholeNumber(1, 10_000), default=50, show_default=True, help="At most so many.")
@click.option("--before", metavar="ID", help="Go on from the last id of the page before.")
@click.pass_obj
def audit(
    call: Invocation,
    by: str | None,
    action: str | None,
    target: str | None,
    tenant: str | None,
    limit: int,
    before: str | None,
) -> None:
    """Who did what, newest first.

    The entry of an action is written in the same transaction as the action itself.

    \b
    Examples:
      penstock audit --actor ci
      penstock audit --action login.refused --limit 10
      penstock audit --target job:ID --json
    """
    from penstock.cli import sessions
    from penstock.store.protocol import AuditFilter

    where = AuditFilter(tenant=tenant, actor=by, action=action, target=target, before=before, limit=limit)

    async def main() -> None:
        async with sessions.opened(call.settings(), must_exist=True) as app:
            found = await app.engine.store.audit(where)
        following = found[-1].id if len(found) == limit else None
        call.out.data({"entries": [audit_line(row) for row in found], "next": following})
        if not found:
            call.out.tell("There are no such entries.")
        elif not call.json:
            _show(call.out, found)
        if following:
            call.out.note(f"There may be more: --before {following}")

    sessions.run(main())


def audit_line(row: AuditRow) -> dict[str, Any]:
    from penstock.times import utc

    return {
        "id": row.id,
        "at": utc(row.at),
        "actor": row.actor,
        "action": row.action,
        "target": row.target,
        "tenant": row.tenant or None,
        "via": row.via,
        "address": row.address,
        "detail": row.detail,
    }


def _show(out: Output, rows: Sequence[AuditRow]) -> None:
    from penstock.cli.output import plain_table
    from penstock.times import local

    headings = ["AT", "ACTOR", "VIA", "ACTION", "TARGET", "TENANT", "DETAIL"]
    cells = [
        [
            local(row.at),
            row.actor,
            f"{row.via} {row.address}" if row.address else row.via,
            row.action,
            row.target,
            row.tenant or "-",
            " ".join((row.detail or "").split()),
        ]
        for row in rows
    ]
    if not out.fancy:
        out.result(plain_table(headings, cells))
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading.capitalize(), overflow="fold", no_wrap=heading == "AT")
    for line in cells:
        table.add_row(*(Text(cell, style="red" if ".refused" in line[3] else "") for cell in line))
    out.console().print(table)
