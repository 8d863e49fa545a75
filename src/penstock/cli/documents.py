"""`penstock documents`: take invoices in, have them extracted, look at them, export them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from penstock.cli.command import Group, Invocation
from penstock.cli.parameters import WholeNumber

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.app import Penstock

STATUSES = ("queued", "processing", "completed", "failed", "canceled", "paused")
KINDS = "pdf, facturx, facturx_conflict, scan, tiff or hostile"
"""Of samples; here in words, for what makes them takes long to load."""
REVIEWS = ("pending", "in_review", "approved", "corrected", "rejected")


@click.group(cls=Group)
def documents() -> None:
    """Extract invoices, and look at what was found."""


@documents.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--wait", is_flag=True, help="Wait until they are extracted, and do the work here if no worker is alive.")
@click.option("--tenant", "-t", default="default", show_default=True, help="Whose documents they are.")
@click.pass_obj
def add(call: Invocation, paths: tuple[str, ...], wait: bool, tenant: str) -> int:
    """Take invoices in: files, or folders of them.

    PDF, PNG, JPEG, WebP, GIF, TIFF or BMP, told by their first bytes. In a folder, hidden files and files of another
    kind are left out. All files are taken, or none; they are safe when this returns.

    \b
    Examples:
      penstock documents add invoice.pdf
      penstock documents add inbox --wait
      penstock documents add inbox --wait --json   one line of JSON for each document
    """
    from penstock.cli import documents_add, sessions
    from penstock.cli.documents_asked import acting
    from penstock.cli.documents_wait import waited
    from penstock.engine.errors import InvalidRequest
    from penstock.engine.identity import checked_name

    settings = call.settings()
    checked_name("tenant", tenant)
    found = documents_add.found_files(call.out, settings, paths)
    if found is None:
        return 2

    async def main() -> int:
        async with acting(settings, must_exist=False) as app:
            if not wait and sessions.store_url(app, settings) == "memory://":
                raise InvalidRequest("memory:// is gone with this process: add --wait to do the work here")
            told = await documents_add.added(call, settings, app, found.files, tenant)
            if not wait:
                await documents_add.show_added(call, settings, app, told, found)
                return 0
            ids = [each.document_id for each in told.documents]
            return await waited(call, settings, app, ids, [each.job_id for each in told.documents], told.batch_id)

    return sessions.run(main())


@documents.command("list")
@click.option("--status", "-s", type=click.Choice(STATUSES), help="Only these.")
@click.option("--batch", metavar="ID", help="Only documents that were added together.")
@click.option("--tenant", "-t", help="Only documents of this tenant.")
@click.option("--limit", "-n", type=WholeNumber(1, 500), default=50, show_default=True, help="At most so many.")
@click.option("--before", metavar="ID", help="Go on from the last id of the page before.")
@click.pass_obj
def list_(call: Invocation, status: Any, batch: str | None, tenant: str | None, limit: int, before: str | None) -> None:
    """Documents, newest first."""
    from penstock.cli import sessions
    from penstock.cli.documents_views import show_documents
    from penstock.pipelines.documents import reading
    from penstock.pipelines.documents.answers import document_line

    async def main() -> None:
        async with sessions.opened(call.settings(), must_exist=True) as app:
            found = await reading.documents(
                app.engine, tenant=tenant, status=status, batch=batch, before=before, limit=limit
            )
            following = found[-1].id if len(found) == limit else None
            call.out.data({"documents": [document_line(each) for each in found], "next": following})
            if found and not call.json:
                show_documents(call.out, found, await app.engine.store.now())
            elif not found:
                call.out.tell("There are no such documents.")
            if following:
                call.out.note(f"There may be more: --before {following}")

    sessions.run(main())


@documents.command()
@click.argument("document_id", metavar="ID")
@click.pass_obj
def show(call: Invocation, document_id: str) -> None:
    """Everything about one document.

    Its fields with how sure each is, where it stands and what was checked; findings, possible duplicates, locked
    fields, and where the newest extraction disagrees with them.
    """
    from penstock.cli import sessions
    from penstock.cli.documents_asked import command
    from penstock.cli.documents_views import show_document
    from penstock.pipelines.documents import reading
    from penstock.pipelines.documents.answers import document_detail

    settings = call.settings()

    async def main() -> None:
        async with sessions.opened(settings, must_exist=True) as app:
            found = await reading.document(app.engine, document_id)
            call.out.data(document_detail(found))
            if call.json:
                return
            show_document(call.out, found, await app.engine.store.now())
            if found.document.status == "failed":
                call.out.remark(f"Try again: {command(call, settings, f'documents retry {document_id}')}")
            elif found.document.review_status in ("pending", "in_review"):
                item = found.document.review_item
                call.out.remark(f"Decide: {command(call, settings, f'review approve {item}')}, or correct, or reject")

    sessions.run(main())


@documents.command()
@click.option("--format", "kind", type=click.Choice(["csv", "parquet"]), required=True, help="What to write.")
@click.option("--output", "-o", metavar="FILE", help="Where to; CSV goes to stdout unless told.")
@click.option("--review", "-r", multiple=True, type=click.Choice(REVIEWS), help="Only with this review; repeatable.")
@click.option("--excel", is_flag=True, help="Begin a CSV with the mark (BOM) that Excel knows UTF-8 by.")
@click.option("--batch", metavar="ID", help="Only documents that were added together.")
@click.option("--tenant", "-t", help="Only documents of this tenant.")
@click.pass_obj
def export(
    call: Invocation,
    kind: Any,
    output: str | None,
    review: tuple[str, ...],
    excel: bool,
    batch: str | None,
    tenant: str | None,
) -> None:
    """Documents as one table, a row each.

    What was extracted, with what people corrected; oldest first. Without --review all of them, also those that nobody
    has decided about yet, and those that were rejected.

    \b
    Examples:
      penstock documents export --format csv --review approved --review corrected > invoices.csv
      penstock documents export --format parquet -o all.parquet
    """
    from penstock.cli import documents_export, sessions

    if output is None and kind == "parquet":
        raise click.UsageError("Parquet is no text: name a file with --output")
    if output is None and call.json:
        raise click.UsageError("the table itself goes to stdout: name a file with --output")
    if excel and kind != "csv":
        raise click.UsageError("--excel is for --format csv")
    place = None if output is None else documents_export.destination(output)

    async def main() -> None:
        async with sessions.opened(call.settings(), must_exist=True) as app:
            await documents_export.export(
                call.out, app.engine, kind, place, review_status=review, excel=excel, batch=batch, tenant=tenant
            )

    sessions.run(main())


@documents.command("re-extract")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--wait", is_flag=True, help="Wait until it is done, and do the work here if no worker is alive.")
@click.pass_obj
def re_extract(call: Invocation, ids: tuple[str, ...], wait: bool) -> int:
    """Read documents once more, and pay once more.

    Locked fields stay as they are; where the new reading disagrees with one, both are shown.
    """
    from penstock.pipelines.documents import asking

    settings = call.settings()

    async def again(app: Penstock, document_id: str) -> tuple[str, str]:
        told = await asking.extract_again(app, settings, document_id, actor=call.who)
        return told.job_id, told.filename

    return _once_more(call, ids, again, wait=wait)


@documents.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--wait", is_flag=True, help="Wait until it is done, and do the work here if no worker is alive.")
@click.pass_obj
def retry(call: Invocation, ids: tuple[str, ...], wait: bool) -> int:
    """Have another try at failed documents.

    From the step that failed.
    """
    from penstock.engine.errors import Conflict
    from penstock.pipelines.documents import reading

    async def again(app: Penstock, document_id: str) -> tuple[str, str]:
        found = (await reading.document(app.engine, document_id)).document
        if found.status != "failed":
            raise Conflict(f"document {document_id} is {found.status}: only what has failed is tried again")
        return (await app.retry(found.job, actor=call.who)).id, found.filename

    return _once_more(call, ids, again, wait=wait)


def _once_more(
    call: Invocation,
    ids: tuple[str, ...],
    again: Callable[[Penstock, str], Awaitable[tuple[str, str]]],
    *,
    wait: bool,
) -> int:
    """What is refused for one document does not keep the others from it."""
    from penstock.cli import sessions
    from penstock.cli.documents_asked import acting, nobody_there, worker
    from penstock.cli.documents_wait import waited
    from penstock.cli.output import harmless
    from penstock.engine.errors import InvalidRequest

    settings = call.settings()

    async def main() -> int:
        begun: list[dict[str, str]] = []
        refused: list[dict[str, str]] = []
        async with acting(settings) as app:
            for document_id in dict.fromkeys(ids):
                try:
                    job, filename = await again(app, document_id)
                except InvalidRequest as error:
                    refused.append({"id": document_id, "error": str(error)})
                    call.out.wrong(str(error))
                    continue
                begun.append({"document_id": document_id, "job_id": job, "filename": filename, "status": "queued"})
                call.out.remark(harmless(f"{document_id} ({filename}) is read again, by job {job}."))
            if wait and begun:
                told = [each["document_id"] for each in begun]
                code = await waited(call, settings, app, told, [each["job_id"] for each in begun], None)
                return 2 if refused else code
            if begun and (lack := await nobody_there(app)):
                call.out.note(f"{lack}: start one with `{worker(settings)}`, or add --wait to do the work here.")
        if not wait:
            call.out.data({"documents": begun, "refused": refused})
        return 2 if refused else 0

    return sessions.run(main())


@documents.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask; needed where there is no terminal.")
@click.pass_obj
def delete(call: Invocation, ids: tuple[str, ...], yes: bool) -> int:
    """Delete documents and everything stored of them.

    The file, what was extracted, its review, its outputs. That it was deleted, by whom and when, is kept.
    """
    import sys

    from penstock.cli import sessions
    from penstock.cli.documents_asked import acting
    from penstock.cli.output import counted
    from penstock.engine.errors import InvalidRequest
    from penstock.pipelines.documents import asking, reading

    unique = list(dict.fromkeys(ids))
    settings = call.settings()
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("deleting cannot be undone, and there is no terminal to ask on: add --yes")
        if not click.confirm(f"Delete {counted(len(unique), 'document')} and everything stored of it?", err=True):
            call.out.note("Nothing was changed.")
            return 1

    async def main() -> int:
        deleted: list[str] = []
        refused: list[dict[str, str]] = []
        async with acting(settings) as app:
            for document_id in unique:
                try:
                    filename = (await reading.document(app.engine, document_id)).document.filename
                    await asking.forget(app, document_id, actor=call.who)
                except InvalidRequest as error:
                    refused.append({"id": document_id, "error": str(error)})
                    call.out.wrong(str(error))
                    continue
                deleted.append(document_id)
                call.out.tell(f"Deleted {document_id} ({filename}).")
        call.out.data({"deleted": deleted, "refused": refused})
        return 2 if refused else 0

    return sessions.run(main())


@documents.command()
@click.argument("folder")
@click.option("--count", type=WholeNumber(1, 10_000), default=10, show_default=True, help="How many.")
@click.option("--seed", type=WholeNumber(0, 2**31), default=1, show_default=True, help="Another one: other invoices.")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help=f"Only {KINDS}; repeatable.")
@click.pass_obj
def samples(call: Invocation, folder: str, count: int, seed: int, kinds: tuple[str, ...]) -> None:
    """Make invented invoices to try things with.

    FOLDER gets text PDFs, scans, faxes and e-invoices in three languages, and truth.jsonl, which says what is printed
    on each. Of facturx_conflict the page says otherwise than its data; of hostile most must be refused.
    """
    import shlex
    from pathlib import Path

    from penstock.cli.output import counted
    from penstock.engine.errors import StoreReadOnly
    from penstock.pipelines.documents.samples import KINDS as KNOWN
    from penstock.pipelines.documents.samples import TRUTH, make_samples

    if unknown := [kind for kind in kinds if kind not in KNOWN]:
        raise click.UsageError(f"--kind: there is no kind {unknown[0]}; there are {', '.join(KNOWN)}")
    place = Path(folder)
    try:
        made = make_samples(place, count=count, seed=seed, kinds=kinds or None)
    except OSError as error:
        raise StoreReadOnly(f"{folder} cannot be written: {(error.strerror or str(error)).lower()}") from error
    told = [{"path": str(one.path), "kind": one.kind, "language": one.language, "pages": one.pages} for one in made]
    call.out.data({"folder": folder, "truth": str(place / TRUTH), "documents": told})
    call.out.tell(f"Made {counted(len(made), 'invoice')} in {folder}; {TRUTH} says what is printed on each.")
    call.out.tell(f"Now try: penstock documents add {shlex.quote(folder)} --wait")
