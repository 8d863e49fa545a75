"""`penstock tokens`: who may use the service over HTTP, where it is not open to this machine alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from penstock.cli.command import Group, Invocation
from penstock.cli.parameters import DURATION
from penstock.service.access.principal import SCOPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.cli.output import Output
    from penstock.store.protocol import TokenRow


@click.group(cls=Group)
def tokens() -> None:
    """Make and revoke tokens for the HTTP API and the dashboard.

    They are needed where the service can be reached from other machines. Scopes: read sees everything, operate also
    submits, pauses, cancels, retries and decides, review also reviews, and admin may do all of it, and set budgets.

    \b
    Examples:
      penstock tokens create ci --scope operate --tenant acme --expires 90d
      penstock tokens list
      penstock tokens revoke ci
    """


@tokens.command()
@click.argument("name")
@click.option(
    "--scope", "-s", "scopes", multiple=True, type=click.Choice(SCOPES), help="May be repeated; read unless told."
)
@click.option("--tenant", "-t", help="Sees and does things of this tenant alone; of all tenants unless told.")
@click.option("--expires", type=DURATION, metavar="DURATION", help="Good for 12h, 90d, …; until revoked unless told.")
@click.pass_obj
def create(call: Invocation, name: str, scopes: tuple[str, ...], tenant: str | None, expires: float | None) -> None:
    """Make a token called NAME.

    Its secret is written to stdout, once: the store keeps only a hash of it. A name can be used once; that of a revoked
    token, too, stays taken.
    """
    from penstock.cli import sessions
    from penstock.service.access.tokens import create_token

    async def main() -> None:
        async with sessions.opened(call.settings()) as app:
            token, secret = await create_token(
                app.engine, name, scopes=scopes or ("read",), tenant=tenant, expires_in=expires, actor=call.who
            )
            now = await app.engine.store.now()
        call.out.data({"token": token_line(token, now), "secret": secret})
        call.out.remark(f"Made the token {token.name} ({_rights(token)}). This is its secret; it is not shown again:")
        if not call.json:
            # Not by way of `Output`, which hides secrets.
            click.echo(secret)

    sessions.run(main())


@tokens.command("list")
@click.pass_obj
def list_(call: Invocation) -> None:
    """All tokens, the revoked ones too; never their secrets."""
    from penstock.cli import sessions

    async def main() -> None:
        async with sessions.opened(call.settings(), must_exist=True) as app:
            store = app.engine.store
            found, now = await store.tokens(), await store.now()
        call.out.data({"tokens": [token_line(token, now) for token in found]})
        if not found:
            call.out.tell("There are no tokens: make one with `penstock tokens create NAME`.")
        elif not call.json:
            _show(call.out, found, now)

    sessions.run(main())


@tokens.command()
@click.argument("name")
@click.pass_obj
def revoke(call: Invocation, name: str) -> None:
    """Let a token open nothing any more.

    The next request with it is refused, and the browsers that were logged in with it are logged out.
    """
    from penstock.cli import sessions
    from penstock.service.access.tokens import revoke_token

    async def main() -> None:
        async with sessions.opened(call.settings(), must_exist=True) as app:
            token = await revoke_token(app.engine, name, actor=call.who)
            now = await app.engine.store.now()
        call.out.data({"token": token_line(token, now)})
        call.out.tell(f"The token {name} opens nothing any more.")

    sessions.run(main())


def token_line(token: TokenRow, now: float) -> dict[str, Any]:
    """What is told of a token: all but its hash."""
    from penstock.service.access.tokens import standing
    from penstock.times import utc

    return {
        "id": token.id,
        "name": token.name,
        "scopes": token.scopes.split(),
        "tenant": token.tenant,
        "state": standing(token, now),
        "created": utc(token.created),
        "expires": utc(token.expires),
        "used": utc(token.used),
        "revoked": utc(token.revoked),
    }


def _rights(token: TokenRow) -> str:
    whose = "all tenants" if token.tenant is None else f"tenant {token.tenant}"
    return f"{', '.join(token.scopes.split())}; {whose}"


def _show(out: Output, tokens: Sequence[TokenRow], now: float) -> None:
    from penstock.cli.output import plain_table
    from penstock.service.access.tokens import standing
    from penstock.times import ago

    def when(moment: float | None, otherwise: str) -> str:
        return otherwise if moment is None else ago(moment, now)

    headings = ["NAME", "SCOPES", "TENANT", "STATE", "CREATED", "EXPIRES", "USED"]
    rows = [
        [
            token.name,
            token.scopes,
            token.tenant or "all",
            standing(token, now),
            ago(token.created, now),
            when(token.expires, "never"),
            when(token.used, "never"),
        ]
        for token in tokens
    ]
    if not out.fancy:
        out.result(plain_table(headings, rows))
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading.capitalize(), overflow="fold")
    for row in rows:
        style = {"usable": "green", "revoked": "bright_black"}.get(row[3], "yellow")
        table.add_row(*(Text(cell, style=style if number == 3 else "") for number, cell in enumerate(row)))
    out.console().print(table)
