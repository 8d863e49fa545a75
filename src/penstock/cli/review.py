"""`penstock review`: the queue of extracted documents, and what reviewers decide about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.command import Group, Invocation
from penstock.cli.parameters import WholeNumber
from penstock.pipelines.documents import sharing

if TYPE_CHECKING:
    from collections.abc import Sequence

REVIEWS = ("pending", "in_review", "approved", "corrected", "rejected")
SORTS = ("priority", "deadline", "oldest", "newest")
MOST = 500

WAIT = "Wait until its files are written anew, here if no worker is alive."


@click.group(cls=Group)
def review() -> None:
    """Decide about what was extracted.

    An ID is that of a review item, or of its document. Who reviews is `--as NAME`, your user name unless told.
    """


@review.command("list")
@click.option("--status", "-s", multiple=True, type=click.Choice(REVIEWS), help="Only these; open ones unless told.")
@click.option("--assigned-to", metavar="NAME", help="Only what this reviewer has.")
@click.option("--min-priority", type=click.FloatRange(0, 100), default=0.0, metavar="N", help="Only from 0 to 100 on.")
@click.option("--sort", type=click.Choice(SORTS), default="priority", show_default=True, help="What comes first.")
@click.option("--tenant", "-t", help="Only items of this tenant.")
@click.option("--limit", "-n", type=WholeNumber(1, MOST), default=50, show_default=True, help="At most so many.")
@click.option("--offset", type=WholeNumber(0, 1_000_000), default=0, metavar="N", help="Leave out the first so many.")
@click.pass_obj
def list_(
    call: Invocation,
    status: tuple[str, ...],
    assigned_to: str | None,
    min_priority: float,
    sort: str,
    tenant: str | None,
    limit: int,
    offset: int,
) -> None:
    """The queue, by what is most urgent now."""
    from penstock.cli import sessions
    from penstock.cli.review_views import depths_text, show_queue
    from penstock.pipelines.documents import reading
    from penstock.pipelines.documents.answers import queue_line
    from penstock.pipelines.documents.rules import OPEN

    async def main() -> None:
        async with sessions.opened(call.settings(), must_exist=True) as app:
            items = await reading.queue(
                app.engine,
                tenant=tenant,
                status=status or OPEN,
                assigned_to=assigned_to,
                priority_min=min_priority,
                sort=sort,
                limit=limit,
                offset=offset,
            )
            depths = await reading.depths(app.engine, tenant=tenant)
            following = offset + limit if len(items) == limit else None
            call.out.data({"items": [queue_line(each) for each in items], "next": following, "depths": depths})
            if not items:
                call.out.tell("There is nothing to review." if not status else "There are no such items.")
            elif not call.json:
                show_queue(call.out, items, await app.engine.store.now())
            call.out.remark(depths_text(depths))
            if following:
                call.out.note(f"There may be more: --offset {following}")

    sessions.run(main())


@review.command()
@click.argument("given", metavar="ID")
@click.pass_obj
def show(call: Invocation, given: str) -> None:
    """One review with its document.

    Fields with value, confidence, page and checks; findings, possible duplicates, locks and differences. Looking claims
    nothing.
    """
    from penstock.cli import sessions
    from penstock.cli.documents_asked import command, item_of
    from penstock.cli.review_views import show_review
    from penstock.pipelines.documents import reading
    from penstock.pipelines.documents.answers import document_detail, queue_line
    from penstock.pipelines.documents.rules import OPEN

    settings = call.settings()

    async def main() -> None:
        async with sessions.opened(settings, must_exist=True) as app:
            item = await reading.queue_item(app.engine, await item_of(app, given))
            found = await reading.document(app.engine, item.document)
            call.out.data({"item": queue_line(item), **document_detail(found)})
            if call.json:
                return
            show_review(call.out, item, found, await app.engine.store.now())
            words = f"review approve {item.id}" if item.status in OPEN else f"review claim {item.id} --reopen"
            call.out.remark(f"{'Approve' if item.status in OPEN else 'Decide anew'}: {command(call, settings, words)}")
            if item.status in OPEN:
                call.out.remark(f"Correct: {command(call, settings, f'review correct {item.id} FIELD=VALUE')}")

    sessions.run(main())


@review.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--reopen", is_flag=True, help="Take one that was decided, to decide anew.")
@click.pass_obj
def claim(call: Invocation, ids: tuple[str, ...], reopen: bool) -> int:
    """Take items, or keep them for longer.

    Deciding claims an item that is free by itself: this is for whoever looks at it first.
    """
    from penstock.cli.review_acting import act, claimed

    return act(call, ids, claimed(call, reopen=reopen), words="is yours")


@review.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.pass_obj
def release(call: Invocation, ids: tuple[str, ...]) -> int:
    """Give items back to the queue.

    Your own, or those of somebody who is away.
    """
    from penstock.cli.review_acting import act, released

    return act(call, ids, released(call), words="is nobody's")


@review.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--above", type=click.FloatRange(0, 1), metavar="CONFIDENCE", help="All that are so sure; such as 0.95.")
@click.option("--tenant", "-t", help="With --above: only items of this tenant.")
@click.option("--limit", "-n", type=WholeNumber(1, MOST), default=MOST, show_default=True, help="With --above.")
@click.option("--reason", help="Why; kept with the decision.")
@click.option("--wait", is_flag=True, help=WAIT)
@click.pass_obj
def approve(
    call: Invocation,
    ids: tuple[str, ...],
    above: float | None,
    tenant: str | None,
    limit: int,
    reason: str | None,
    wait: bool,
) -> int:
    """Say that documents are right as they are.

    By their IDs; or, with --above, all that nobody has claimed, that are at least so sure, have all required fields and
    nothing that speaks against them.

    \b
    Examples:
      penstock review approve ID ID
      penstock review approve --above 0.95
    """
    from penstock.cli.review_acting import act, approve_above, decided

    if (above is None) == (not ids):
        raise click.UsageError("name items by their IDs, or all that are sure enough with --above, and not both")
    if above is None:
        return act(call, ids, decided(call, "approve", reason=reason), words="is approved", wait=wait)
    if reason is not None:
        raise click.UsageError("--reason goes with IDs: what is approved by --above says so itself")
    return approve_above(call, above, tenant=tenant, limit=limit, wait=wait)


@review.command()
@click.argument("given", metavar="ID")
@click.argument("changes", metavar="FIELD=VALUE...", nargs=-1, required=True)
@click.option("--reason", help="Why; kept with the decision.")
@click.option("--wait", is_flag=True, help=WAIT)
@click.pass_obj
def correct(call: Invocation, given: str, changes: tuple[str, ...], reason: str | None, wait: bool) -> int:
    """Say what is right, field by field.

    Corrected fields are locked: no extraction changes them, also where the same file is added again. Nothing after the
    `=` clears a field; line_items takes JSON.

    \b
    Examples:
      penstock review correct ID total=1.234,56 currency=EUR
      penstock review correct ID due_date= --reason "there is none"
    """
    from penstock.cli.review_acting import act, corrections, decided

    told = corrections(changes)
    return act(call, (given,), decided(call, "correct", changes=told, reason=reason), words="is corrected", wait=wait)


@review.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--reason", required=True, help="Why; kept with the decision.")
@click.option("--wait", is_flag=True, help=WAIT)
@click.pass_obj
def reject(call: Invocation, ids: tuple[str, ...], reason: str, wait: bool) -> int:
    """Say that documents are of no use."""
    from penstock.cli.review_acting import act, decided

    return act(call, ids, decided(call, "reject", reason=reason), words="is rejected", wait=wait)


@review.command()
@click.argument("given", metavar="ID")
@click.argument("field")
@click.option("--wait", is_flag=True, help=WAIT)
@click.pass_obj
def unlock(call: Invocation, given: str, field: str, wait: bool) -> int:
    """Let a corrected field be what is extracted.

    For every document of the same content.
    """
    from penstock.cli.review_acting import unlock_field

    return unlock_field(call, given, field, wait=wait)


@review.command()
@click.option("--reviewers", metavar="NAME,NAME", help="To whom; documents.reviewers of the configuration unless told.")
@click.option("--tenant", "-t", help="Only items of this tenant.")
@click.option("--limit", "-n", type=WholeNumber(1, MOST), default=50, show_default=True, help="At most so many.")
@click.pass_obj
def assign(call: Invocation, reviewers: str | None, tenant: str | None, limit: int) -> None:
    """Share out the most urgent items that are nobody's.

    Each goes to the reviewer with the least to do, in turn.
    """
    from penstock.cli import sessions
    from penstock.cli.output import counted

    settings = call.settings()
    names: Sequence[str] = settings.documents.reviewers if reviewers is None else reviewers.split(",")

    async def main() -> None:
        async with sessions.opened(settings, must_exist=True) as app:
            given = await sharing.auto_assign(app.engine, names, actor=call.who, tenant=tenant, limit=limit)
        call.out.data({"assigned": [{"review_item_id": item, "reviewer": who} for item, who in given.items()]})
        for who in dict.fromkeys(given.values()):
            call.out.tell(f"{who}: {counted(list(given.values()).count(who), 'item')}")
        if not given:
            call.out.tell("There is nothing that is nobody's.")

    sessions.run(main())


@review.command()
@click.argument("given", metavar="ID")
@click.pass_obj
def audit(call: Invocation, given: str) -> None:
    """What was done about an item, oldest first."""
    from penstock.cli import sessions
    from penstock.cli.documents_asked import item_of
    from penstock.cli.review_views import show_audit
    from penstock.pipelines.documents import reading
    from penstock.pipelines.documents.answers import audit_line

    async def main() -> None:
        async with sessions.opened(call.settings(), must_exist=True) as app:
            lines = await reading.audit(app.engine, item=await item_of(app, given))
        call.out.data({"entries": [audit_line(line) for line in lines]})
        if not call.json:
            show_audit(call.out, lines)

    sessions.run(main())
