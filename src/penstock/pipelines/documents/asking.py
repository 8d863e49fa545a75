"""What people ask about documents: to take them in, to extract them anew, to forget them. The command line, the service
and Celery's tasks ask through here."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from penstock.app import FollowUp, Penstock
from penstock.builtin import gemini_place
from penstock.config import Settings
from penstock.engine.audit import Actor, entry
from penstock.engine.errors import Conflict, InvalidRequest, KeyReused, NotFound
from penstock.engine.identity import storable
from penstock.engine.model import DEFAULT_TENANT, FINAL, NewJob
from penstock.pipelines.documents import ledger, watching
from penstock.pipelines.documents.contents import Kept, content_path, copy_in
from penstock.pipelines.documents.files import json_name, parquet_name
from penstock.pipelines.documents.model import Many, Upload
from penstock.pipelines.documents.workflow import documents, many
from penstock.store.protocol import Expect, Once

MOST_AT_ONCE = 10_000


@dataclass(slots=True, frozen=True)
class Added:
    """A document that was taken in, and the job that works on it."""

    document_id: str
    job_id: str
    filename: str


@dataclass(slots=True, frozen=True)
class AddedMany:
    """`repeated`: they were taken in when the same was asked before, and the files that came now are of no use."""

    documents: tuple[Added, ...]
    batch_id: str | None
    repeated: bool = False


async def add(
    app: Penstock,
    settings: Settings,
    kept: Sequence[Kept],
    *,
    tenant: str = DEFAULT_TENANT,
    actor: Actor | str | None = None,
    once: Once | None = None,
) -> AddedMany:
    """Start work on files that have come in: each is a job, several are a batch that works on a few at once. All of
    them, or none; durable when this returns. `once`: asked again under this key, it answers with what it made."""
    if not kept:
        raise InvalidRequest("there is no document to add")
    if len(kept) > MOST_AT_ONCE:
        raise InvalidRequest(f"{len(kept)} documents at once are too many: add at most {MOST_AT_ONCE}")
    await watching.ensure(app, settings)
    engine, batch = app.engine, None
    if len(kept) > 1:
        batch = await _opened(app, settings.documents.max_concurrent_tasks, tenant=tenant, once=once)
    jobs = [_job(app, settings, each, tenant=tenant, batch=batch) for each in kept]
    rows = [
        Expect(
            ledger.new_document(each, tenant=tenant, job=job.id, batch=batch, now=engine.clock.now()),
            f"document {each.document_id} is there already",
        )
        for each, job in zip(kept, jobs, strict=True)
    ]
    audit = None
    if actor is not None:
        target = f"document:{kept[0].document_id}" if batch is None else f"batch:{batch}"
        audit = entry(actor, "document.add", target, tenant=tenant, detail=_told(kept))
    try:
        made = await _started(app, engine.write(*rows, jobs=jobs, audit=audit, once=once), batch)
    except KeyReused:
        raise
    except Conflict:
        # Where the answer of the commit was lost, it was carried out twice.
        known = await _known(app, [kept[0].document_id])
        if not known or known[kept[0].document_id].job != jobs[0].id:
            raise
        made = [job.id for job in jobs]
    if made[0] != jobs[0].id:
        return AddedMany(tuple(await _of_jobs(app, made)), batch, repeated=True)
    added = [Added(each.document_id, job.id, each.filename) for each, job in zip(kept, jobs, strict=True)]
    return AddedMany(tuple(added), batch)


async def _opened(app: Penstock, limit: int, *, tenant: str, once: Once | None) -> str:
    """A batch for documents; asked again, the same one, unless it could not be filled and was sealed empty."""
    for number in count(1):
        same = once and replace(once, scope=f"{once.scope}/batch/{number}")
        then = FollowUp(workflow=many, payload=Many())
        batch = await app.open_batch(tenant=tenant, limit=limit, then=then, once=same)
        if batch.sealed is None or batch.members:
            return batch.id
    raise AssertionError("unreachable")


async def _started(app: Penstock, writing: Coroutine[Any, Any, list[str]], batch: str | None) -> list[str]:
    """The batch is sealed in the same transaction: one that a crash left open would never end. It is sealed too where
    nothing was written, since nobody adds to it any more."""
    if batch is None:
        return await writing
    made, sealed = await asyncio.gather(writing, app.seal_batch(batch), return_exceptions=True)
    for refused in (made, sealed):
        if isinstance(refused, BaseException):
            raise refused
    assert isinstance(made, list)
    return made


async def process_file(
    app: Penstock, settings: Settings, document_id: str, file_path: str, *, actor: Actor | str = "celery"
) -> Added:
    """Take in a file under an id that the asker chose, once: asked again, it answers with the document that is
    there."""
    known = await _known(app, [document_id])
    if known:
        return Added(document_id, known[document_id].run, known[document_id].filename)
    largest = settings.documents.largest_file
    kept = await asyncio.to_thread(
        copy_in, app.engine, DEFAULT_TENANT, Path(file_path), largest=largest, document_id=document_id
    )
    try:
        return (await add(app, settings, [kept], actor=actor)).documents[0]
    except Conflict:
        # The same was asked twice at this moment, and the other was quicker.
        known = await _known(app, [document_id])
        if not known:
            raise
        return Added(document_id, known[document_id].run, known[document_id].filename)


async def process_again(app: Penstock, document_ids: Sequence[str], *, actor: Actor | str = "celery") -> dict[str, str]:
    """Have another try at documents that failed. Answers document → what its job is doing; an unknown one is
    `NotFound`, and nothing is done."""
    known = await _known(app, document_ids)
    if unknown := [each for each in document_ids if each not in known]:
        raise NotFound(f"there is no document {unknown[0][:80]}")
    answers: dict[str, str] = {}
    for document_id, row in known.items():
        answers[document_id] = row.status
        if row.status == "failed":
            answers[document_id] = (await app.retry(row.run, actor=actor)).status
    return answers


async def extract_again(
    app: Penstock,
    settings: Settings,
    document_id: str,
    *,
    tenant: str | None = None,
    actor: Actor | str | None = None,
) -> Added:
    """Read a document once more, and pay for it once more. Locked fields stay as they are; where the new reading
    disagrees with one, the reviewer is shown both."""
    row = await _row(app, document_id, tenant)
    if row.status not in (*FINAL, ""):
        raise Conflict(f"document {document_id} is still being worked on (job {row.job})", job=row.job)
    kept = Kept(
        document_id, row.filename, content_path(app.engine.home, row.tenant, document_id), row.size, row.content
    )
    job = _job(app, settings, kept, tenant=row.tenant, batch=None, fresh=True)
    change = Expect(
        ("UPDATE documents SET job = :job, earlier = earlier || ' ' || job WHERE id = :id AND job = :before", {
            "job": job.id, "id": document_id, "before": row.job,
        }),
        f"document {document_id} is being worked on already",
    )  # fmt: skip
    audit = None
    if actor is not None:
        audit = entry(actor, "document.re-extract", f"document:{document_id}", tenant=row.tenant)
    await app.engine.write(change, jobs=[job], audit=audit)
    return Added(document_id, job.id, row.filename)


async def forget(app: Penstock, document_id: str, *, tenant: str | None = None, actor: Actor | str) -> None:
    """Delete a document and everything that is stored of it. What is known of its content (the extraction, locked
    fields) goes with the last document of that content. Only that it was deleted, by whom and when, is kept."""
    engine = app.engine
    row = await _row(app, document_id, tenant)
    if row.status not in (*FINAL, ""):
        await app.cancel(row.run, reason="its document is deleted", actor=actor)
        try:
            await app.wait(row.run, timeout=60.0)
        except TimeoutError as error:
            words = f"document {document_id} is still being worked on: try again in a moment"
            raise Conflict(words, job=row.job) from error
    last = (
        "NOT EXISTS (SELECT 1 FROM documents d WHERE d.tenant = :tenant AND d.content_hash = :content AND d.id <> :id)"
    )
    content = {"tenant": row.tenant, "content": row.content, "id": document_id}
    names = [] if row.folder is None else [json_name(row.folder, document_id), parquet_name(row.folder, document_id)]
    keys = [row.job, *row.earlier.split()]
    named = {f"k{number}": key for number, key in enumerate(keys)}
    which = f"tenant = :tenant AND workflow = 'documents' AND key IN ({', '.join(f':{name}' for name in named)})"
    jobs, told = f"(SELECT id FROM jobs WHERE {which})", {"tenant": row.tenant, **named}
    statements = [
        (f"DELETE FROM {table} WHERE tenant = :tenant AND content_hash = :content AND {last}", content)
        for table in ("document_extractions", "document_locks")
    ]
    await engine.write(
        *statements,
        ("DELETE FROM review_items WHERE document = :id", {"id": document_id}),
        ("DELETE FROM review_audit WHERE document = :id", {"id": document_id}),
        # What its jobs were told and what they learned.
        (f"UPDATE calls SET result = NULL, error = NULL WHERE job IN {jobs}", told),
        (f"DELETE FROM logs WHERE job IN {jobs}", told),
        (f"UPDATE history SET note = NULL WHERE job IN {jobs}", told),
        (f"UPDATE jobs SET payload = 'null', result = NULL, error = NULL, reason = NULL WHERE {which}", told),
        *(("DELETE FROM outputs WHERE name = :name", {"name": f"{row.tenant}/{name}"}) for name in names),
        Expect(
            ("DELETE FROM documents WHERE id = :id AND job = :job", {"id": document_id, "job": row.job}),
            f"document {document_id} is being worked on anew: try again in a moment",
        ),
        audit=entry(actor, "document.delete", f"document:{document_id}", tenant=row.tenant),
    )
    await asyncio.to_thread(_remove_files, app, row.tenant, document_id, names)


@dataclass(slots=True, frozen=True)
class _Row:
    tenant: str
    filename: str
    content: str
    size: int
    job: str
    earlier: str
    run: str
    status: str
    folder: str | None


async def _row(app: Penstock, document_id: str, tenant: str | None) -> _Row:
    found = (await _known(app, [document_id])).get(document_id)
    if found is None or tenant not in (None, found.tenant):
        raise NotFound(f"there is no document {document_id[:80]}")
    return found


async def _of_jobs(app: Penstock, jobs: Sequence[str]) -> list[Added]:
    named = {f"j{number}": each for number, each in enumerate(jobs)}
    which = f"SELECT id, job, filename FROM documents WHERE job IN ({', '.join(f':{name}' for name in named)})"
    found = {row[1]: Added(*row) for row in await app.engine.read((which, named))}
    if len(found) < len(jobs):
        raise NotFound("what was uploaded under this key was deleted, or is being extracted anew, since")
    return [found[job] for job in jobs]


async def _known(app: Penstock, document_ids: Sequence[str]) -> dict[str, _Row]:
    named = {f"d{number}": each for number, each in enumerate(document_ids) if storable(each)}
    if not named:
        return {}
    rows = await app.engine.read(
        (
            "SELECT d.id, d.tenant, d.filename, d.content_hash, d.size, d.job, d.earlier, COALESCE(j.id, ''),"
            f" COALESCE(j.status, ''), d.folder FROM documents d {ledger.NEWEST_RUN}"
            f" WHERE d.id IN ({', '.join(f':{name}' for name in named)})",
            named,
        )
    )
    return {row[0]: _Row(*row[1:]) for row in rows}


def _job(
    app: Penstock, settings: Settings, kept: Kept, *, tenant: str, batch: str | None, fresh: bool = False
) -> NewJob:
    told = settings.documents
    upload = Upload(
        document_id=kept.document_id,
        filename=kept.filename,
        content_hash=kept.content_hash,
        size=kept.size,
        place=gemini_place(settings),
        model=told.model or settings.gemini.model,
        fresh=fresh,
        most_pages=told.most_pages,
        review_hours=told.review_hours,
    )
    return app.engine.new_job(documents, upload, tenant=tenant, batch=batch)


def _told(kept: Sequence[Kept]) -> str:
    """Without names, which would outlive what they name."""
    return "1 document" if len(kept) == 1 else f"{len(kept)} documents"


def _remove_files(app: Penstock, tenant: str, document_id: str, names: Sequence[str]) -> None:
    """Every version of them: a file that a crash left behind must not outlive its document."""
    content_path(app.engine.home, tenant, document_id).unlink(missing_ok=True)
    for name in names:
        public = app.outputs.path(name, tenant=tenant)
        for version in (public, *public.parent.glob(f".{public.name}.*")):
            version.unlink(missing_ok=True)
