"""`penstock migrate`: make the store's tables, or bring them up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.command import Command, Invocation

if TYPE_CHECKING:
    from penstock.cli.schema_state import SchemaState


@click.command(cls=Command)
@click.option("--check", is_flag=True, help="Only say what would be done.")
@click.pass_obj
def migrate(call: Invocation, check: bool) -> None:
    """Make the store's tables, or update them.

    In one transaction; tables that a newer Penstock made are refused.
    """
    from penstock.cli import sessions
    from penstock.cli.output import without_password
    from penstock.cli.schema_state import schema_state
    from penstock.store import migrations
    from penstock.store.connect import store_from_url

    url = call.settings().store

    async def main() -> None:
        state = await schema_state(url)
        needed = migrations.check(state.revision, without_password(url))
        if needed and not check:
            store = store_from_url(url)
            mover = getattr(store, "migrate", None)
            if mover is not None:
                await mover()
            else:
                await store.open()
            await store.close()
        call.out.data(
            {
                "store": without_password(url),
                "from": state.revision,
                "to": migrations.HEAD,
                "needed": needed,
                "done": needed and not check,
            }
        )
        call.out.tell(_sentence(url, state, migrations.HEAD, needed=needed, check=check))

    sessions.run(main())


def _sentence(url: str, state: SchemaState, head: str, *, needed: bool, check: bool) -> str:
    if not needed:
        return f"{url} is up to date (schema {head})."
    if state.revision is None:
        return f"{'Migrating would make' if check else 'Made'} the tables of {url} (schema {head})."
    return f"{'Migrating would move' if check else 'Moved'} {url} from schema {state.revision} to {head}."
