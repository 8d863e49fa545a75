"""`penstock calls`: the remote calls that steps made, and a person's decision about those nobody knows about."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from penstock.cli.command import Group, Invocation
from penstock.cli.parameters import WholeNumber
from penstock.engine.call import STATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.app import Penstock
    from penstock.cli.output import Output
    from penstock.engine.call import Call

MOST_COUNTED = 1000
MOST_KEYS = 200


@click.group(cls=Group)
def calls() -> None:
    """Look at remote calls, and decide about those in quarantine.

    A remote call is paid or slow work outside, such as a Gemini batch. Where a crash or a lost reply leaves open
    whether it was taken, Penstock looks for it; where that does not tell, the call is quarantined and its job is parked
    until you decide.

    \b
    Examples:
      penstock calls list --state quarantined      what needs a decision
      penstock calls show ID                       all that is known about it
      penstock calls adopt ID batches/abc123       it is there, under this id
      penstock calls resubmit ID                   it is not there: make it again
      penstock calls discard ID                    neither: the step goes on without it
      penstock calls cancel ID                     stop one that is under way
    """


@calls.command("list")
@click.option("--state", "-s", multiple=True, type=click.Choice(STATES), help="Only these; may be repeated.")
@click.option("--job", "-j", metavar="ID", help="Only calls of this job.")
@click.option("--remote", "-r", metavar="NAME", help="Only calls to this remote.")
@click.option("--tenant", "-t", help="Only calls of this tenant.")
@click.option("--limit", "-n", type=WholeNumber(1, 10_000), default=50, show_default=True, help="At most so many.")
@click.option("--before", metavar="ID", help="Go on from the last id of the page before.")
@click.pass_obj
def list_(
    call: Invocation,
    state: tuple[str, ...],
    job: str | None,
    remote: str | None,
    tenant: str | None,
    limit: int,
    before: str | None,
) -> None:
    """Remote calls, newest first.

    \b
    Examples:
      penstock calls list --state running --state overdue
      penstock calls list --job ID
    """
    from penstock.cli import sessions
    from penstock.cli.call_views import show_calls
    from penstock.shapes import call_summary

    async def main() -> None:
        async with sessions.opened(call.settings(), must_exist=True) as app:
            last = None if before is None else await app.call(before)
            found = await app.calls(tenant=tenant, job=job, remote=remote, state=state, before=last, limit=limit)
            following = found[-1].id if len(found) == limit else None
            call.out.data({"calls": [call_summary(one) for one in found], "next": following})
            if found:
                show_calls(call.out, found, await app.engine.store.now(), keys=await _keys(call.out, app, found))
            else:
                call.out.tell("There are no such calls.")
            if following:
                call.out.note(f"There may be more: --before {following}")
            if state == ("quarantined",):
                if found:
                    call.out.note("Look at the other side, then decide: `penstock calls adopt|resubmit|discard ID`.")
            elif not call.quiet:
                doubted = await app.calls(
                    tenant=tenant, job=job, remote=remote, state=["quarantined"], limit=MOST_COUNTED
                )
                _hint(call.out, len(doubted))

    sessions.run(main())


async def _keys(out: Output, app: Penstock, calls: Sequence[Call]) -> dict[str, str]:
    """Job → the key somebody gave it, for the reader at a terminal, who sees no more than so many."""
    from penstock.cli.job_views import given_key
    from penstock.engine.model import view

    jobs = list(dict.fromkeys(call.job for call in calls))[:MOST_KEYS] if out.fancy else []
    rows = [row for job in jobs if (row := await app.engine.store.job(job)) is not None]
    return {row.id: given_key(view(row)) for row in rows}


def _hint(out: Output, amount: int) -> None:
    if amount:
        number = f"{MOST_COUNTED} or more" if amount == MOST_COUNTED else str(amount)
        need = "call needs" if amount == 1 else "calls need"
        out.note(f"{number} {need} a decision: `penstock calls list --state quarantined`")


@calls.command()
@click.argument("call_id", metavar="ID")
@click.pass_obj
def show(call: Invocation, call_id: str) -> None:
    """Everything about one call.

    Where it is, what it used and cost, and its result.
    """
    from penstock.cli import sessions
    from penstock.cli.call_views import show_call
    from penstock.engine.errors import NotFound
    from penstock.shapes import call_detail

    async def main() -> None:
        async with sessions.opened(call.settings(), must_exist=True) as app:
            row = await app.engine.store.call(call_id)
            if row is None:
                raise NotFound(f"there is no call {call_id}")
            call.out.data({"call": call_detail(row)})
            if not call.json:
                show_call(call.out, row, await app.engine.store.now())
            if row.state == "quarantined":
                call.out.note(_choices(row.id, row.remote, row.provider_id))

    sessions.run(main())


def _choices(call_id: str, remote: str, provider_id: str | None) -> str:
    choices = {
        f"adopt {call_id}" + ("" if provider_id else " PROVIDER_ID"): "it is there: it is waited for",
        f"resubmit {call_id}": "it is not there: it is made again",
        f"discard {call_id}": "neither: the step goes on without it",
    }
    width = max(map(len, choices))
    lines = [f"  penstock calls {command.ljust(width)}  {meaning}" for command, meaning in choices.items()]
    return "\n".join([f"Look at {remote}, then decide:", *lines])


@calls.command()
@click.argument("call_id", metavar="ID")
@click.argument("provider_id", metavar="[PROVIDER_ID]", required=False)
@click.pass_obj
def adopt(call: Invocation, call_id: str, provider_id: str | None) -> int:
    """Say under which id a quarantined call exists.

    From then on the call is polled and collected like any other, and its result is what the job gets: make sure that
    the id is that of this very call. PROVIDER_ID may be left out where `penstock calls show` knows it already.

    \b
    Example:
      penstock calls adopt ID batches/abc123
    """
    return _decide(call, "adopt", (call_id,), provider_id=provider_id)


@calls.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask; needed where there is no terminal.")
@click.pass_obj
def resubmit(call: Invocation, ids: tuple[str, ...], yes: bool) -> int:
    """Make quarantined calls again.

    That says that they are not at the other side. Each is made anew as its job's next attempt, and paid for. If the
    work exists after all, it is paid twice; so you are asked first.

    \b
    Example:
      penstock calls resubmit ID ID --yes
    """
    import sys

    doubted = [] if yes else _doubted(call, ids)
    if doubted and not sys.stdin.isatty():
        raise click.UsageError(
            "resubmitting may pay twice, and there is no terminal to ask on: add --yes",
            click.get_current_context(),
        )
    if doubted and not _agreed(doubted):
        call.out.note("Nothing was changed.")
        return 1
    return _decide(call, "resubmit", ids)


@calls.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.pass_obj
def cancel(call: Invocation, ids: tuple[str, ...]) -> int:
    """Stop calls that are under way.

    They are stopped at the other side too, by a worker, and their steps learn that they were cancelled. A call has
    ended when the other side says so. What it did until then may still be charged.

    \b
    Example:
      penstock calls cancel ID                     one that is overdue, say
    """
    return _decide(call, "cancel", ids)


@calls.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.pass_obj
def discard(call: Invocation, ids: tuple[str, ...]) -> int:
    """Give up quarantined calls: their steps go on without a result.

    What they reserved of budgets and limits is free again, and they are not made a second time. An hour later they are
    looked for once more: work that exists after all is stopped, and what it did until then is paid for.

    \b
    Example:
      penstock calls discard ID
    """
    return _decide(call, "discard", ids)


def _decide(call: Invocation, decision: str, ids: tuple[str, ...], *, provider_id: str | None = None) -> int:
    """What is refused for one call does not keep the others from it."""
    from penstock.cli import sessions
    from penstock.engine.errors import InvalidRequest
    from penstock.shapes import call_summary

    settings = call.settings()

    async def main() -> int:
        decided: list[Call] = []
        jobs: dict[str, dict[str, object]] = {}
        refused: list[dict[str, str]] = []
        async with sessions.opened(settings, must_exist=True) as app:
            for call_id in dict.fromkeys(ids):
                try:
                    before = await _status(app, (await app.call(call_id)).job)
                    one = await app.decide_call(call_id, decision, provider_id=provider_id, actor=call.who)
                except InvalidRequest as error:
                    refused.append({"id": call_id, "error": str(error)})
                    call.out.wrong(str(error))
                    continue
                decided.append(one)
                after = await _status(app, one.job)
                jobs[one.job] = {"id": one.job, "status": after, "goes_on": before == "paused" and after != "paused"}
                call.out.tell(f"{call_id}: {decision} → {one.state}; {_fate(one.job, before, after)}")
            if any(job["goes_on"] for job in jobs.values()) and not await sessions.alive(app):
                call.out.note(f"No worker is alive: start one with `{sessions.how_to_start(settings)}`.")
            if decision == "cancel" and (words := await sessions.left_running(app, settings, decided)):
                call.out.note(words)
        call.out.data(
            {"calls": [call_summary(one) for one in decided], "jobs": list(jobs.values()), "refused": refused}
        )
        return 2 if refused else 0

    return sessions.run(main())


def _doubted(call: Invocation, ids: tuple[str, ...]) -> list[Call]:
    """Those about which there is something to ask; the others are refused by name when all are decided."""
    from penstock.cli import sessions
    from penstock.engine.errors import NotFound

    async def look() -> list[Call]:
        async with sessions.opened(call.settings(), must_exist=True) as app:
            found = []
            for call_id in dict.fromkeys(ids):
                with contextlib.suppress(NotFound):
                    found.append(await app.call(call_id))
            return [one for one in found if one.state == "quarantined"]

    return sessions.run(look())


def _agreed(doubted: Sequence[Call]) -> bool:
    """Asked outside of the event loop, where Ctrl-C ends the question at once."""
    from penstock.cli.call_views import called
    from penstock.cli.output import counted
    from penstock.engine.budget import dollars

    for one in doubted:
        told = f"{one.remote} {called(one)} of job {one.job}, at most {dollars(one.estimate)}"
        click.echo(f"  {one.id}  {told}", err=True)
    click.echo("If the work exists at the other side after all, it is paid twice.", err=True)
    return click.confirm(f"Make {counted(len(doubted), 'call')} again?", err=True)


async def _status(app: Penstock, job_id: str) -> str | None:
    """None: the job is gone, by retention."""
    row = await app.engine.store.job(job_id)
    return None if row is None else row.status


def _fate(job: str, before: str | None, after: str | None) -> str:
    if after is None:
        return f"its job {job} is gone"
    if before == "paused" and after != "paused":
        return f"job {job} goes on"
    if after == "paused":
        return f"job {job} stays paused: `penstock jobs show {job}` tells why"
    if after == "failed":
        return f"job {job} is failed: `penstock jobs retry {job}` makes use of it"
    return f"job {job} is {after}"
