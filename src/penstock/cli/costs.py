"""`penstock costs`: what remote calls have used and cost, and the budgets they draw on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.command import Group, Invocation
from penstock.cli.parameters import DOLLARS, MOMENT
from penstock.store.protocol import COST_GROUPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.app import Penstock
    from penstock.config import Settings
    from penstock.store.protocol import Budget, Cost

USUALLY_BY = ("workflow", "model")


@click.group(cls=Group, invoke_without_command=True)
@click.option("--by", multiple=True, type=click.Choice(COST_GROUPS), help="Add up by this; may be repeated.")
@click.option("--tenant", "-t", help="Only calls of this tenant.")
@click.option("--workflow", "-w", help="Only calls of this workflow's jobs.")
@click.option("--job", "-j", metavar="ID", help="Only calls of this job.")
@click.option("--batch", metavar="ID", help="Only calls of this batch's members.")
@click.option("--since", type=MOMENT, metavar="DATE|DURATION", help="Only calls begun since then: 2026-03-01, 7d, …")
@click.option("--until", type=MOMENT, metavar="DATE|DURATION", help="Only calls begun before then.")
@click.pass_context
def costs(
    context: click.Context,
    by: tuple[str, ...],
    tenant: str | None,
    workflow: str | None,
    job: str | None,
    batch: str | None,
    since: float | None,
    until: float | None,
) -> None:
    """What remote calls have used and cost.

    Budgets say what they may cost: see `penstock costs budget`. Without --by the costs are added up by workflow and
    model. Days are those of UTC. Reserved is the most that unfinished calls may still cost.

    \b
    Examples:
      penstock costs --since 7d --by day
      penstock costs --by tenant --by model --json
      penstock costs --job ID
      penstock costs budget set tenant:acme 25
    """
    given = {"tenant": tenant, "workflow": workflow, "job": job, "batch": batch}
    if context.invoked_subcommand is None:
        _show(context.obj, tuple(dict.fromkeys(by)) or USUALLY_BY, since, until, **given)
    elif by or since is not None or until is not None or any(given.values()):
        raise click.UsageError(f"{context.invoked_subcommand} takes no option of `penstock costs`", context)


def _show(
    call: Invocation,
    by: tuple[str, ...],
    since: float | None,
    until: float | None,
    *,
    tenant: str | None,
    workflow: str | None,
    job: str | None,
    batch: str | None,
) -> None:
    from penstock.builtin import uses_own_gemini
    from penstock.cli import sessions
    from penstock.cli.cost_views import show_costs
    from penstock.shapes import cost_amounts, cost_line, dearest_first, total_of

    settings = call.settings()

    async def main() -> None:
        async with sessions.opened(settings, must_exist=True) as app:

            async def added_up(*names: str) -> list[Cost]:
                return await app.costs(
                    by=names, tenant=tenant, workflow=workflow, job=job, batch=batch, since=since, until=until
                )

            found = dearest_first(await added_up(*by), by)
            total = total_of(found)
            call.out.data({"by": by, "costs": [cost_line(cost, by) for cost in found], "total": cost_amounts(total)})
            if not found:
                call.out.tell("There are no such calls.")
            elif not call.json:
                show_costs(call.out, found, by, total)
            if unpriced := _unpriced(await added_up("model"), settings, await app.engine.store.now()):
                call.out.note(f"No price is known for {', '.join(unpriced)}: its calls are counted as free.")
            by_gemini = [cost for cost in await added_up("remote") if cost.group[0].startswith("gemini.") and cost.cost]
            if by_gemini and uses_own_gemini(settings):
                call.out.note("Gemini is Penstock's own here: its amounts are what Google would charge, not paid.")

    sessions.run(main())


def _unpriced(by_model: Sequence[Cost], settings: Settings, now: float) -> list[str]:
    """Models that used tokens, cost nothing, and are not in the price table."""
    free = [cost.group[0] for cost in by_model if cost.group[0] and not cost.cost and (cost.input or cost.output)]
    if not free:
        return []
    from penstock.remote.prices import load_prices

    prices = load_prices(settings.gemini.prices)
    return [name for name in free if not any(prices.is_priced(name, tier, now) for tier in ("standard", "batch"))]


@costs.group()
def budget() -> None:
    """What tenants, jobs and batches may spend.

    A call is made only if the most it can cost fits into what is left of every budget it draws on: its tenant's, its
    job's and its batch's. If it does not, it waits while other calls hold reservations; where none do, its job is
    parked until the budget is raised.

    \b
    Examples:
      penstock costs budget set tenant:acme 25
      penstock costs budget set job:ID 0.50
      penstock costs budget list
    """


@budget.command("list")
@click.pass_obj
def list_(call: Invocation) -> None:
    """All budgets, and what is left of them."""
    from penstock.cli import sessions
    from penstock.cli.cost_views import show_budgets
    from penstock.shapes import budget_line

    async def main() -> None:
        async with sessions.opened(call.settings(), must_exist=True) as app:
            found = await app.budgets()
            call.out.data({"budgets": [budget_line(one) for one in found]})
            if not found:
                call.out.tell("There are no budgets: set one with `penstock costs budget set SCOPE DOLLARS`.")
            elif not call.json:
                show_budgets(call.out, found)

    sessions.run(main())


@budget.command("set", context_settings={"ignore_unknown_options": True})
@click.argument("scope")
@click.argument("dollars", type=DOLLARS)
@click.pass_obj
def set_(call: Invocation, scope: str, dollars: float) -> None:
    """Let SCOPE spend up to DOLLARS in all.

    SCOPE is tenant:NAME, job:ID or batch:ID. What a job or batch has spent already counts; a tenant's spending counts
    from the moment its budget is first set. Jobs that were parked for want of this budget go on.

    \b
    Examples:
      penstock costs budget set tenant:acme 25
      penstock costs budget set batch:ID 3.50
    """
    _change(call, scope, dollars)


@budget.command()
@click.argument("scope")
@click.pass_obj
def remove(call: Invocation, scope: str) -> None:
    """Let SCOPE spend without a limit again.

    Jobs that were parked for want of its budget go on.
    """
    _change(call, scope, None)


def _change(call: Invocation, scope: str, dollars: float | None) -> None:
    from penstock.cli import sessions
    from penstock.shapes import budget_line, left

    settings = call.settings()

    async def main() -> None:
        async with sessions.opened(settings, must_exist=True) as app:
            await _check(app, scope, removing=dollars is None)
            parked = await _parked_for(app, scope)
            changed = await app.engine.set_budget(scope, dollars, actor=call.who)
            resumed = [job_id for job_id in parked if (await app.job(job_id)).status != "paused"]
            call.out.data({"budget": changed and budget_line(changed), "resumed": resumed})
            call.out.tell(_told(scope, changed))
            if changed and left(changed) <= 0:
                call.out.note("Nothing is left of it: no new call is made until it is raised.")
            for job_id in resumed:
                call.out.tell(f"Job {job_id} goes on.")
            if resumed and not await sessions.alive(app):
                call.out.note(f"No worker is alive: start one with `{sessions.how_to_start(settings)}`.")

    sessions.run(main())


async def _check(app: Penstock, scope: str, *, removing: bool) -> None:
    """A mistyped id would make a budget that nobody draws on."""
    from penstock.engine.budget import checked_scope
    from penstock.engine.errors import NotFound

    kind, _, which = checked_scope(scope).partition(":")
    if removing:
        if not await app.budgets(scope=scope):
            raise NotFound(f"there is no budget {scope}")
    elif kind == "job":
        await app.job(which)
    elif kind == "batch":
        await app.batch(which)


async def _parked_for(app: Penstock, scope: str) -> list[str]:
    """The jobs that rest because this budget was too small."""
    found: list[str] = []
    before: str | None = None
    while page := await app.jobs(status=["paused"], before=before, limit=500):
        before = page[-1].id
        found += [job.id for job in page if f": budget {scope}:" in (job.reason or "")]
    return found


def _told(scope: str, changed: Budget | None) -> str:
    from penstock.cli.cost_views import signed
    from penstock.engine.budget import dollars
    from penstock.shapes import left

    if changed is None:
        return f"{scope} has no budget any more: it may spend without a limit."
    reserved = f", {dollars(changed.reserved)} reserved" if changed.reserved else ""
    spent = f"{dollars(changed.spent)} spent{reserved}, {signed(left(changed))} left"
    return f"{scope} may spend {dollars(changed.most)}: {spent}."
