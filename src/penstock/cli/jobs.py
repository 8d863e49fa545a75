"""`penstock jobs`: submit work, look at it, steer it, wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.command import Group, Invocation
from penstock.cli.parameters import DOLLARS, DURATION, WholeNumber

if TYPE_CHECKING:
    from penstock.app import Penstock
    from penstock.cli.output import Output
    from penstock.config import Settings
    from penstock.engine.model import Job

STATUSES = ("queued", "running", "waiting", "paused", "canceling", "completed", "failed", "canceled")

MOST_CALLS = 100
"""How many of a job's remote calls `show` lists, the newest."""

LAST_LINES = 20
MOST_LINES = 10_000
"""How many of its log lines `show` lists, the newest; and how many `logs` does at most."""


@click.group(cls=Group)
def jobs() -> None:
    """Submit jobs, look at them, steer them, wait for them."""


@jobs.command()
@click.argument("workflow")
@click.option("--payload", metavar="JSON|@FILE|-", help="The payload: JSON, @ and a file with JSON, or - for stdin.")
@click.option("--key", help="The job's key: the same key is the same job.")
@click.option("--tenant", default="default", show_default=True, help="Whose job it is.")
@click.option("--priority", type=WholeNumber(0, 100), metavar="0..100", help="Higher goes first.")
@click.option("--again", is_flag=True, help="Start the key's next run when its last one has ended.")
@click.option("--after", type=DURATION, default=0.0, metavar="DURATION", help="Start after 30s, 5m, 2h, …")
@click.option("--queue", metavar="QUEUE", help="The queue it waits in; the workflow's own unless told.")
@click.option("--budget", type=DOLLARS, metavar="DOLLARS", help="What its remote calls may cost in all.")
@click.option("--wait", is_flag=True, help="Wait until it has ended, and run it here if no worker is alive.")
@click.pass_obj
def submit(
    call: Invocation,
    workflow: str,
    payload: str | None,
    key: str | None,
    tenant: str,
    priority: int | None,
    again: bool,
    after: float,
    queue: str | None,
    budget: float | None,
    wait: bool,
) -> int:
    """Store a job for WORKFLOW; it is durable when this returns."""
    from penstock.cli import sessions
    from penstock.cli.payloads import check_given, read_payload
    from penstock.engine.errors import InvalidRequest

    settings = call.settings()
    value = read_payload(payload)

    async def main() -> int:
        async with sessions.opened(settings, with_app=True) as app:
            if not wait and sessions.store_url(app, settings) == "memory://":
                raise InvalidRequest(
                    "memory:// is gone with this process, so the job would be: add --wait to run it here"
                )
            sessions.check_known(app, settings, workflow)
            check_given(payload, app.engine.workflow(workflow))
            urgency = None
            if priority is not None:
                from dataclasses import replace

                urgency = replace(app.engine.workflow(workflow).priority, base=priority)
            told = await app.submit(
                workflow,
                value,
                key=key,
                tenant=tenant,
                again=again,
                after=after,
                priority=urgency,
                queue=queue,
                budget=budget,
                actor=call.who,
            )
            if budget is not None and not told.created:
                call.out.note(f"Its budget is as it was; set it: `penstock costs budget set job:{told.job_id} DOLLARS`")
            if wait:
                return await _waited(call, settings, app, [told.job_id], created=told.created)
            job = await app.job(told.job_id)
            _show_submitted(call.out, job, created=told.created)
            if not told.created:
                _hint_at_another_run(call.out, job)
            if not job.final and (lack := await sessions.lack(app, workflow, job.queue)):
                start = sessions.how_to_start(settings)
                call.out.note(f"{lack}: start one with `{start}`, or add --wait to run it here.")
            return 0

    return sessions.run(main())


def _hint_at_another_run(out: Output, job: Job) -> None:
    """The same key answers with the same end for ever, which is not what somebody wants who submits it again."""
    if job.status == "failed":
        out.note(f"That was its last run: start it again with --again, or `penstock jobs retry {job.id}`.")
    elif job.status == "canceled":
        out.note("That was its last run: start it again with --again.")


def _show_submitted(out: Output, job: Job, *, created: bool) -> None:
    """In a pipe the id alone goes to stdout, for `id=$(penstock jobs submit …)`."""
    from penstock.cli.output import harmless
    from penstock.shapes import detail

    out.data({"job": detail(job), "created": created})
    words = f"Submitted {job.id} ({job.workflow})"
    if not created:
        words = f"{job.id} exists already ({job.workflow}, key {job.key!r}, run {job.run}, {job.status})"
    if out.fancy and not out.quiet:
        out.result(words)
    else:
        out.result(job.id)
        out.remark(harmless(words))


@jobs.command("list")
@click.option("--status", "-s", multiple=True, type=click.Choice(STATUSES), help="Only these; may be repeated.")
@click.option("--workflow", "-w", help="Only jobs of this workflow.")
@click.option("--tenant", "-t", help="Only jobs of this tenant.")
@click.option("--key", "-k", help="Only jobs with this key.")
@click.option("--batch", help="Only members of this batch.")
@click.option("--limit", "-n", type=WholeNumber(1, 10_000), default=50, show_default=True, help="At most so many.")
@click.option("--before", metavar="ID", help="Go on from the last id of the page before.")
@click.pass_obj
def list_(
    call: Invocation,
    status: tuple[str, ...],
    workflow: str | None,
    tenant: str | None,
    key: str | None,
    batch: str | None,
    limit: int,
    before: str | None,
) -> None:
    """Jobs, newest first."""
    from penstock.cli import sessions
    from penstock.cli.job_views import show_list
    from penstock.shapes import summary

    async def main() -> None:
        async with sessions.opened(call.settings(), must_exist=True) as app:
            found = await app.jobs(
                status=status,
                workflow=workflow,
                tenant=tenant,
                key=key,
                batch=batch,
                limit=limit,
                before=before,
                brief=True,
            )
            following = found[-1].id if len(found) == limit else None
            call.out.data({"jobs": [summary(job) for job in found], "next": following})
            if found:
                show_list(call.out, found, await app.engine.store.now())
            else:
                call.out.tell("There are no such jobs.")
            if following:
                call.out.note(f"There may be more: --before {following}")

    sessions.run(main())


@jobs.command()
@click.argument("job_id", metavar="ID")
@click.pass_obj
def show(call: Invocation, job_id: str) -> None:
    """Everything about one job.

    Its history, the last lines that its steps logged, its remote calls and what they cost.
    """
    from penstock.cli import sessions
    from penstock.cli.call_views import show_calls
    from penstock.cli.cost_views import spent_text
    from penstock.cli.job_views import show_job, show_logs
    from penstock.shapes import call_summary, detail, happening, log_line, money, total_of

    async def main() -> None:
        async with sessions.opened(call.settings(), must_exist=True) as app:
            job = await app.job(job_id)
            history = await app.history(job_id)
            lines = await app.logs(job_id, limit=LAST_LINES)
            made = await app.calls(job=job_id, limit=MOST_CALLS)
            total = total_of(await app.costs(job=job_id))
            call.out.data(
                {
                    "job": detail(job),
                    "history": [happening(event) for event in history],
                    "logs": [log_line(line) for line in lines],
                    "calls": [call_summary(one) for one in made],
                    **money("cost", total.cost),
                    **money("reserved", total.reserved),
                }
            )
            if call.json:
                return
            now = await app.engine.store.now()
            show_job(call.out, job, history, now, spent=spent_text(total) if made else None)
            if lines:
                call.out.result("")
                show_logs(call.out, lines)
            if len(lines) == LAST_LINES:
                call.out.note(f"There may be more lines: `penstock jobs logs {job_id}`")
            if made:
                call.out.result("")
                show_calls(call.out, made, now)
            if len(made) == MOST_CALLS:
                call.out.note(f"There may be more calls: `penstock calls list --job {job_id} --before {made[-1].id}`")

    sessions.run(main())


@jobs.command()
@click.argument("job_id", metavar="ID")
@click.option("--limit", "-n", type=WholeNumber(1, MOST_LINES), default=1000, show_default=True, help="The last ones.")
@click.pass_obj
def logs(call: Invocation, job_id: str, limit: int) -> None:
    """What a job's steps logged, and where they failed.

    Oldest first.
    """
    from penstock.cli import sessions
    from penstock.cli.job_views import show_logs
    from penstock.shapes import log_line

    async def main() -> None:
        async with sessions.opened(call.settings(), must_exist=True) as app:
            await app.job(job_id)
            lines = await app.logs(job_id, limit=limit)
            call.out.data({"logs": [log_line(line) for line in lines]})
            show_logs(call.out, lines)
            if not lines:
                call.out.tell(f"Job {job_id} has logged nothing.")
            if len(lines) == limit < MOST_LINES:
                call.out.note(f"There may be older lines: --limit {min(limit * 10, MOST_LINES)}")

    sessions.run(main())


@jobs.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--reason", help="Why; shown with the job.")
@click.pass_obj
def pause(call: Invocation, ids: tuple[str, ...], reason: str | None) -> int:
    """Stop jobs at their next gate.

    A step that is running commits first.
    """
    return _steer(call, "pause", ids, reason=reason)


@jobs.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.pass_obj
def resume(call: Invocation, ids: tuple[str, ...]) -> int:
    """Let paused jobs go on where they stopped."""
    return _steer(call, "resume", ids)


@jobs.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--reason", help="Why; kept in the history.")
@click.pass_obj
def cancel(call: Invocation, ids: tuple[str, ...], reason: str | None) -> int:
    """Stop jobs for good; their clean-up step runs."""
    return _steer(call, "cancel", ids, reason=reason)


@jobs.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.pass_obj
def retry(call: Invocation, ids: tuple[str, ...]) -> int:
    """Run failed jobs again, and let parked ones go on.

    A failed job begins with the step that failed, as its next run with an id of its own.
    """
    return _steer(call, "retry", ids)


def _steer(call: Invocation, action: str, ids: tuple[str, ...], *, reason: str | None = None) -> int:
    """What is refused for one job does not keep the others from it."""
    from penstock.cli import sessions
    from penstock.cli.job_views import status_text
    from penstock.engine.call import UNDER_WAY
    from penstock.engine.errors import InvalidRequest
    from penstock.shapes import summary

    settings = call.settings()
    under_way = sorted(UNDER_WAY)

    async def main() -> int:
        changed: list[Job] = []
        refused: list[dict[str, str]] = []
        async with sessions.opened(settings, must_exist=True) as app:
            for job_id in ids:
                try:
                    job = await app.engine.control(job_id, action, reason=reason, actor=call.who)
                except InvalidRequest as error:
                    refused.append({"id": job_id, "error": str(error)})
                    call.out.wrong(str(error))
                    continue
                changed.append(job)
                as_run = f" as {job.id}, run {job.run}" if job.id != job_id else ""
                call.out.tell(f"{job_id}: {action} → {status_text(job)}{as_run}")
            moving = [job for job in changed if job.status in ("queued", "canceling")]
            if moving and not await sessions.alive(app):
                call.out.note(f"No worker is alive: start one with `{sessions.how_to_start(settings)}`.")
            if action == "cancel":
                made = [one for job in changed for one in await app.calls(job=job.id, state=under_way, limit=1000)]
                if words := await sessions.left_running(app, settings, made):
                    call.out.note(words)
        call.out.data({"jobs": [summary(job) for job in changed], "refused": refused})
        return 2 if refused else 0

    return sessions.run(main())


@jobs.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--timeout", type=DURATION, metavar="DURATION", help="Give up waiting after 30s, 5m, …; the jobs go on.")
@click.pass_obj
def wait(call: Invocation, ids: tuple[str, ...], timeout: float | None) -> int:
    """Wait until jobs have ended.

    If no worker is alive, they are run here.
    """
    import asyncio
    import contextlib

    from penstock.cli import sessions
    from penstock.cli.waiting import Deserted

    settings = call.settings()

    async def main() -> int:
        until = None if timeout is None else asyncio.get_running_loop().time() + timeout
        async with sessions.opened(settings, must_exist=True) as app:
            found = [await app.job(job_id) for job_id in dict.fromkeys(ids)]
            if all([job.final or await sessions.alive(app, job.workflow, job.queue) for job in found]):
                with contextlib.suppress(Deserted):
                    return await _waited(call, settings, app, ids, until=until, timeout=timeout)
        async with sessions.opened(settings, with_app=True) as app:
            for job in [await app.job(job_id) for job_id in dict.fromkeys(ids)]:
                if not job.final:
                    sessions.check_known(app, settings, job.workflow)
            return await _waited(call, settings, app, ids, until=until, timeout=timeout)

    return sessions.run(main())


def _of(amount: int, of_one: str) -> str:
    """`goes on without us`, or for several `go on without us`."""
    if amount == 1:
        return of_one
    verb, _, rest = of_one.partition(" ")
    return f"{'are' if verb == 'is' else 'go'} {rest}"


async def _waited(
    call: Invocation,
    settings: Settings,
    app: Penstock,
    ids: list[str] | tuple[str, ...],
    *,
    until: float | None = None,
    timeout: float | None = None,
    created: bool | None = None,
) -> int:
    """Raises `Deserted` where nobody is alive any more and this process does not know the workflows."""
    import asyncio

    from penstock.cli import sessions
    from penstock.cli.waiting import Deserted, Waiting
    from penstock.cli.waiting_views import show_ended
    from penstock.shapes import detail

    unique = list(dict.fromkeys(ids))
    open_ones = [job for job in [await app.job(job_id) for job_id in unique] if not job.final]
    lacks = [words for job in open_ones if (words := await sessions.lack(app, job.workflow, job.queue))]
    lack = lacks[0] if lacks else None
    while True:
        goes_on = "goes on without us"
        names = unique[0] if len(unique) == 1 else f"{len(unique)} jobs"
        interrupted = f"{names} {_of(len(unique), goes_on)}; `penstock jobs show {unique[0]}` tells how far it is"
        if lack:
            call.out.note(f"{lack}: running the work in this process.")
            goes_on = f"goes on when a worker runs, `{sessions.how_to_start(settings)}`"
            if sessions.store_url(app, settings) == "memory://":
                goes_on = "is gone with this process"
            interrupted = (
                f"steps that are running have up to {settings.grace:g} s to finish; "
                f"a second Ctrl-C stops them at once and hands them back"
            )
        waiting = Waiting(app, call.out, settings, lack is not None, f"Interrupted: {interrupted}.")
        try:
            ended = await waiting.until_final(unique, until=until)
            break
        except Deserted as error:
            if not app.workflows:
                raise
            lack = error.lack
        except TimeoutError:
            late = [job_id for job_id in unique if not (await app.job(job_id)).final] or unique
            it = "it" if len(late) == 1 else "they"
            call.out.wrong(f"{', '.join(late)}: not ended after {timeout:g} s; {it} {_of(len(late), goes_on)}")
            return 1
        except asyncio.CancelledError:
            for job_id in unique if lack else ():
                job = await app.job(job_id)
                fate = "." if job.final else f" and {goes_on}; `penstock jobs show {job_id}` tells how far it is."
                click.echo(f"{job_id} is {job.status}{fate}", err=True)
            raise
    found = [detail(job) for job in ended]
    call.out.data({"jobs": found} if created is None else {"job": found[0], "created": created})
    for job in ended:
        show_ended(call.out, job)
    if created is False:
        _hint_at_another_run(call.out, ended[0])
    return 0 if all(job.status == "completed" for job in ended) else 1
