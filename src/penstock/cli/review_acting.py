"""What reviewers do from the command line. Deciding claims an item that is free; a decision that cannot be gives the
claim back, so that a command that was refused has changed nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import click
from pydantic_core import from_json

from penstock.app import Penstock
from penstock.cli import sessions
from penstock.cli.command import Invocation
from penstock.cli.documents_asked import PIPELINE, acting, command, document_of, item_of, nobody_there, worker
from penstock.cli.documents_views import value_text
from penstock.cli.output import counted, harmless
from penstock.cli.waiting import Waiting
from penstock.config import Settings
from penstock.engine.errors import Conflict, InvalidRequest, NotFound
from penstock.engine.model import Job
from penstock.pipelines.documents import queue, reading, sharing
from penstock.pipelines.documents.answers import document_detail, queue_line
from penstock.pipelines.documents.model import Export
from penstock.pipelines.documents.rules import OPEN, Action
from penstock.pipelines.documents.workflow import export

Deed = Callable[[Penstock, Settings, str], Awaitable[object]]


def corrections(changes: Sequence[str]) -> dict[str, Any]:
    """`total=12.50` as field and value; an empty value is none. What a field takes, the queue knows."""
    told: dict[str, Any] = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{change!r} is no correction: write FIELD=VALUE, such as total=12.50")
        if (name := name.strip()) in told:
            raise click.UsageError(f"{name} is given twice")
        told[name] = _lines(value) if name == "line_items" else value.strip() or None
    return told


def _lines(value: str) -> Any:
    if not value.strip():
        return []
    try:
        return from_json(value)
    except ValueError as error:
        example = '[{"item": "Rope", "quantity": "2", "unit_price": "4.50", "total": "9.00"}]'
        raise click.UsageError(f"line_items is no JSON ({error}): write it as {example}") from error


def claimed(call: Invocation, *, reopen: bool) -> Deed:
    async def deed(app: Penstock, settings: Settings, item: str) -> None:
        await queue.claim(app.engine, item, actor=call.who, holds=settings.documents.claim, reopen=reopen)

    return deed


def released(call: Invocation) -> Deed:
    async def deed(app: Penstock, settings: Settings, item: str) -> None:
        await queue.release(app.engine, item, actor=call.who)

    return deed


def decided(
    call: Invocation, action: Action, *, changes: Mapping[str, Any] | None = None, reason: str | None = None
) -> Deed:
    async def deed(app: Penstock, settings: Settings, item: str) -> None:
        engine = app.engine
        before = await queue.item(engine, item)
        await queue.claim(engine, item, actor=call.who, holds=settings.documents.claim)
        try:
            await queue.submit(engine, item, action, actor=call.who, corrections=changes, reason=reason)
        except InvalidRequest:
            if before.assigned_to is None:
                with contextlib.suppress(Conflict):
                    await queue.release(engine, item, actor=call.who)
            raise

    return deed


def act(call: Invocation, ids: Sequence[str], deed: Deed, *, words: str, wait: bool = False) -> int:
    """What is refused for one item does not keep the others from it."""
    settings = call.settings()

    async def main() -> int:
        done: list[str] = []
        refused: list[dict[str, str]] = []
        async with acting(settings) as app:
            for given in dict.fromkeys(ids):
                try:
                    item = await item_of(app, given)
                    await deed(app, settings, item)
                except InvalidRequest as error:
                    refused.append({"id": given, "error": str(error)})
                    call.out.wrong(harmless(str(error)))
                    await _way_out(call, settings, app, given, error)
                    continue
                done.append(item)
            items = [await reading.queue_item(app.engine, each) for each in done]
            for item_now in items:
                call.out.tell(harmless(f"{item_now.id} ({item_now.filename}) {words}."))
            code = await _exported(call, settings, app, done, wait=wait) if items else 0
        call.out.data({"items": [queue_line(each) for each in items], "refused": refused})
        return 2 if refused else code

    return sessions.run(main())


async def _way_out(call: Invocation, settings: Settings, app: Penstock, given: str, error: InvalidRequest) -> None:
    if not isinstance(error, Conflict):
        return
    with contextlib.suppress(NotFound):
        item = await queue.item(app.engine, await item_of(app, given))
        if item.status not in OPEN:
            call.out.remark(f"  {command(call, settings, f'review claim {item.id} --reopen')}")
        elif item.assigned_to is not None and item.assigned_to != call.who.name:
            words = f"review release {item.id}"
            call.out.remark(f"  Where {harmless(item.assigned_to)} is away: {command(call, settings, words)}")


def approve_above(call: Invocation, above: float, *, tenant: str | None, limit: int, wait: bool) -> int:
    settings = call.settings()

    async def main() -> int:
        async with acting(settings) as app:
            approved = await sharing.batch_approve(
                app.engine, actor=call.who, min_confidence=above, tenant=tenant, limit=limit
            )
            items = [await reading.queue_item(app.engine, each) for each in approved]
            for item in items:
                call.out.tell(harmless(f"{item.id} ({item.filename}) is approved, {item.confidence:.2f} sure."))
            call.out.tell(f"{counted(len(items), 'item')} approved." if items else "There is nothing that sure.")
            code = await _exported(call, settings, app, approved, wait=wait) if items else 0
        call.out.data({"items": [queue_line(each) for each in items], "refused": []})
        if len(items) == limit:
            call.out.note("There may be more: the same command goes on with them.")
        return code

    return sessions.run(main())


def unlock_field(call: Invocation, given: str, field: str, *, wait: bool) -> int:
    settings = call.settings()

    async def main() -> int:
        async with acting(settings) as app:
            document_id = await document_of(app, given)
            await queue.unlock(app.engine, document_id, field, actor=call.who)
            found = await reading.document(app.engine, document_id)
            now = None if found.document.data is None else found.document.data.model_dump(mode="json").get(field)
            words = "it has no value" if now in (None, []) else value_text(field, now)
            call.out.tell(harmless(f"{field} of {document_id} is what was extracted again: {words}"))
            code = await _files(call, settings, app, {found.document.content_hash}, wait=wait)
        call.out.data(document_detail(found))
        return code

    return sessions.run(main())


async def _exported(call: Invocation, settings: Settings, app: Penstock, items: Sequence[str], *, wait: bool) -> int:
    contents = {(await queue.item(app.engine, item)).content_hash for item in items}
    return await _files(call, settings, app, contents, wait=wait)


async def _files(call: Invocation, settings: Settings, app: Penstock, contents: set[str], *, wait: bool) -> int:
    """The files of what was decided are written anew by jobs: say who does them, or see to it here."""
    jobs = await _open_exports(app, contents)
    if not jobs:
        return 0
    lack = await nobody_there(app)
    if not wait:
        if lack is not None:
            how = f"`{worker(settings)}`"
            call.out.note(f"{lack}: the files (JSON, Parquet) are written anew when one runs, {how}, or with --wait.")
        return 0
    if lack is not None:
        app.engine.claim_only(*(workflow.name for workflow in PIPELINE))
    waiting = Waiting(
        app, call.out, settings, lack is not None,
        "Interrupted: what was decided is stored; the files are written anew when a worker runs.",
    )  # fmt: skip
    ended = await waiting.until_final([job.id for job in jobs], until=None)
    for job in ended:
        if job.status != "completed":
            call.out.wrong(harmless(f"the files could not be written anew (job {job.id} {job.status}): {job.error}"))
    return 0 if all(job.status == "completed" for job in ended) else 1


async def _open_exports(app: Penstock, contents: set[str]) -> list[Job]:
    found = await app.jobs(workflow=export.name, status=("queued", "running", "waiting"), limit=1000)
    return [job for job in found if Export.model_validate(job.payload).content_hash in contents]
