"""What the steps of the documents workflow do. Each is safe to run again: what it decides is stored in one commit, and
what it paid for is found by the call's key."""

from __future__ import annotations

import asyncio
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

from penstock.engine.context import Context
from penstock.engine.errors import Permanent
from penstock.engine.outcome import Again, Goto
from penstock.paper.unreadable import Unreadable
from penstock.pipelines.documents import ledger, metrics, rules
from penstock.pipelines.documents.contents import content_path, digest_of
from penstock.pipelines.documents.extracting import MOST_TRIES, Useless, from_einvoice, from_model
from penstock.pipelines.documents.files import Record, as_json, as_parquet, folder_of, json_name, parquet_name
from penstock.pipelines.documents.model import (
    SCHEMA_VERSION,
    BatchResult,
    Export,
    Extracted,
    ExtractionResult,
    Fingerprinted,
    Reviewed,
    Saved,
    Upload,
    Usage,
)
from penstock.pipelines.documents.parsing import Parser
from penstock.pipelines.documents.prompt import PROMPT_VERSION
from penstock.store.protocol import Expect

LONGEST_WAIT = 10.0
"""Seconds between two looks at whether the twin that came first is done."""

CREDIT_NOTE = "This is a credit note: its e-invoice gives the amount that is paid back without a minus sign."

FILES_AT_ONCE = 50
MOST_FAILURES_TOLD = 50


async def fingerprint(upload: Upload, ctx: Context) -> Fingerprinted | Again | Goto:
    if upload.began is None:
        upload = upload.model_copy(update={"began": ctx.now()})
    tenant = ctx.job.tenant
    path = _path(ctx, upload.document_id)
    if await asyncio.to_thread(digest_of, path) != upload.content_hash:
        raise Unreadable("The document's file is not what was uploaded any more: upload it again.")
    key = rules.cache_key(
        upload.content_hash, place=upload.place, model=upload.model, prompt=PROMPT_VERSION, schema=SCHEMA_VERSION
    )
    flies = await ctx.lock(_flight(key))
    # After the lock: whoever held it until now may have brought the answer.
    if not upload.fresh and (hit := await _hit(upload, key, ctx)) is not None:
        if flies:
            ctx.release(_flight(key))
        return hit
    if not flies:
        ctx.progress(0, None, "waits for the same content, which another job is reading")
        waited = upload.model_copy(update={"waits": upload.waits + 1})
        return Again(waited, after=min(0.25 * 1.5**upload.waits, LONGEST_WAIT))
    found = await (await _parser(ctx, upload)).inspect(path)
    told, refused = (None, {}) if found.invoice is None else (found.invoice.data, dict(found.invoice.refused))
    trouble = found.trouble
    if found.invoice is not None and found.invoice.credit_note and (found.invoice.data.total or 0) > 0:
        trouble = CREDIT_NOTE
    ctx.write(
        (
            "UPDATE documents SET kind = :kind, pages = :pages WHERE id = :id AND tenant = :tenant",
            {"kind": found.kind, "pages": found.pages, "id": upload.document_id, "tenant": tenant},
        )
    )
    return Fingerprinted(
        upload=upload,
        cache_key=key,
        kind=found.kind,
        pages=found.pages,
        told=told,
        refused=refused,
        trouble=trouble,
    )


async def extract(doc: Fingerprinted, ctx: Context) -> Extracted | Again | Goto:
    if ctx.job.run > 1:
        # A retry begins here, without the lock that the run before let go of; a twin may have brought the answer.
        if not await ctx.lock(_flight(doc.cache_key)):
            return Again(doc, after=1.0)
        if not doc.upload.fresh and (hit := await _hit(doc.upload, doc.cache_key, ctx)) is not None:
            ctx.release(_flight(doc.cache_key))
            return hit
    path = _path(ctx, doc.upload.document_id)
    parser = await _parser(ctx, doc.upload)
    pages = await parser.read(path)
    if doc.told is not None:
        result = await from_einvoice(doc, pages, parser, ctx)
    else:
        try:
            result = await from_model(doc, path, pages, parser, ctx)
        except Useless as error:
            if doc.tries + 1 >= MOST_TRIES * ctx.job.run:
                raise Permanent(f"{error} (tried {doc.tries + 1} times)") from error
            ctx.log.warning("%s: %s; asking again", doc.upload.filename, error)
            after = 2.0 ** (doc.tries % MOST_TRIES + 1)
            return Again(doc.model_copy(update={"tries": doc.tries + 1}), after=after)
    if result.findings:
        ctx.log.warning("%s: %s", doc.upload.filename, "; ".join(result.findings))
    return Extracted(upload=doc.upload, cache_key=doc.cache_key, kind=doc.kind, pages=doc.pages, result=result)


async def save(doc: Extracted, ctx: Context) -> Saved | Again:
    upload, tenant = doc.upload, ctx.job.tenant
    if not await ctx.lock(_filing(upload.content_hash)):
        return Again(doc, after=0.5)
    # In this order: a correction that comes in between makes a new revision, and this commit is refused.
    rows = await ctx.read(("SELECT folder, revision FROM documents WHERE id = :id", {"id": upload.document_id}))
    if not rows:
        raise Permanent(f"document {upload.document_id} was deleted while it was worked on")
    locked = await ledger.locks(ctx, tenant, upload.content_hash)
    folder, revision = rows[0][0] or folder_of(ctx.now()), rows[0][1]
    # A review always follows, so nothing that was decided about an earlier extraction stands.
    record = rules.record(doc.result, locked, "pending")
    await _write(record, folder, ctx)
    ctx.write(ledger.store_result(doc, record, folder=folder, revision=revision, now=ctx.now()))
    if not doc.cached:
        ctx.write(ledger.remember_extraction(doc, tenant=tenant, now=ctx.now()))
        ctx.release(_flight(doc.cache_key))
    ctx.release(_filing(upload.content_hash))
    return Saved(upload=upload, confidence=record.result.overall_confidence, cached=doc.cached)


async def review(doc: Saved, ctx: Context) -> Reviewed:
    """A document that is extracted anew while its review is open keeps its item, with what is known now."""
    upload, now = doc.upload, ctx.now()
    rows = await ctx.read(
        (
            "SELECT d.extraction, i.id, i.deadline, d.revision, d.review_status FROM documents d"
            " LEFT JOIN review_items i ON i.id = d.review_item AND i.status IN ('pending', 'in_review')"
            " WHERE d.id = :id",
            {"id": upload.document_id},
        )
    )
    if not rows:
        raise Permanent(f"document {upload.document_id} was deleted while it was worked on")
    extraction, known, due, revision, status = rows[0]
    locked = await ledger.locks(ctx, ctx.job.tenant, upload.content_hash)
    seen = rules.seen(rules.record(ledger.parsed(extraction), locked, "pending"))
    item, deadline = known or ctx.job.id, due or now + upload.review_hours * 3600
    stands = rules.standing(seen.weight, deadline=deadline, now=now)
    ctx.write(
        (
            "INSERT INTO review_items (id, tenant, document, content_hash, status, rising, rank, turns, weight,"
            " deadline, confidence, line_count, total, approvable, created) VALUES (:id, :tenant, :document, :content,"
            " 'pending', :rising, :rank, :turns, :weight, :deadline, :confidence, :lines, :total, :approvable, :now)"
            " ON CONFLICT (id) DO UPDATE SET rising = excluded.rising, rank = excluded.rank, turns = excluded.turns,"
            " weight = excluded.weight, confidence = excluded.confidence, line_count = excluded.line_count,"
            " total = excluded.total, approvable = excluded.approvable,"
            # Whoever has it in hand saw what was read before: it has to be claimed again.
            " status = 'pending', claim_until = NULL WHERE review_items.status IN ('pending', 'in_review')",
            {
                "id": item, "tenant": ctx.job.tenant, "document": upload.document_id, "content": upload.content_hash,
                "rising": stands.rising, "rank": stands.rank, "turns": stands.turns, "weight": seen.weight,
                "deadline": deadline, "confidence": seen.confidence, "lines": seen.lines,
                "total": seen.total, "approvable": int(seen.approvable), "now": now,
            },
        )
    )  # fmt: skip
    decided = status != "pending"
    ctx.write(
        Expect(
            (
                "UPDATE documents SET review_item = :item, review_status = 'pending', revision = revision + :more"
                " WHERE id = :id AND revision = :revision",
                {"item": item, "more": int(decided), "id": upload.document_id, "revision": revision},
            ),
            f"document {upload.document_id} was decided about, or deleted, at this moment",
        )
    )
    if decided:
        # Somebody was quicker, between this step and the last: the files say so, and it does not stand.
        ctx.spawn("documents.export", Export(content_hash=upload.content_hash))
    ctx.write(
        ledger.audited(
            f"{ctx.job.id}-{ctx.epoch}",
            "penstock",
            "extracted" if known is None else "re-extracted",
            tenant=ctx.job.tenant,
            item=item,
            document=upload.document_id,
            now=now,
        )
    )
    seconds = now - (ctx.job.started or now)
    ctx.write(
        metrics.observed(
            {metrics.SECONDS: seconds, metrics.CONFIDENCE: seen.confidence},
            part=metrics.part_of(ctx.job.worker),
        )
    )
    return Reviewed(document_id=upload.document_id, review_item_id=item, confidence=doc.confidence, cached=doc.cached)


async def write_files(what: Export, ctx: Context) -> dict[str, int] | Again:
    tenant = ctx.job.tenant
    if not await ctx.lock(_filing(what.content_hash)):
        return Again(what, after=0.5)
    before = await ledger.locks(ctx, tenant, what.content_hash)
    rows = await ctx.read(
        (
            "SELECT id, folder, extraction, data, review_status, revision, exported FROM documents WHERE"
            " tenant = :tenant AND content_hash = :content AND done = 1 AND id > :after"
            f" ORDER BY id LIMIT {FILES_AT_ONCE}",
            {"tenant": tenant, "content": what.content_hash, "after": what.after},
        )
    )
    locked = await ledger.locks(ctx, tenant, what.content_hash)
    if locked != before:
        return Again(what, after=0.0)
    written = 0
    for document, folder, extraction, data, status, revision, exported in rows:
        result = ledger.parsed(extraction)
        counts = rules.effective(result.invoice_data, locked)
        # A document of this content that was being saved while the lock was made does not know of it.
        behind = counts != ledger.parsed_data(data)
        if exported >= revision and not behind:
            continue
        await _write(rules.record(result, locked, status or "pending"), folder, ctx)
        ctx.write(ledger.exported(document, counts, revision=revision, behind=behind))
        written += 1
    ctx.count(documents_exported=written)
    if len(rows) == FILES_AT_ONCE:
        return Again(what.model_copy(update={"after": rows[-1][0]}), after=0.0)
    return {"documents": ctx.job.counters.get("documents_exported", 0) + written}


async def add_up(ctx: Context) -> BatchResult:
    ended: Counter[str] = Counter()
    failures: list[str] = []
    cached, confidences, ids = 0, 0.0, []
    async for job in ctx.members():
        ended[job.status] += 1
        if job.status == "completed" and isinstance(job.result, dict):
            cached += bool(job.result.get("cached"))
            confidences += float(job.result.get("confidence") or 0)
            ids.append(str(job.result.get("document_id")))
        elif job.status == "failed" and len(failures) < MOST_FAILURES_TOLD:
            # By its id: a name would outlive the document.
            told = job.payload if isinstance(job.payload, dict) else {}
            document = told.get("document_id") or told.get("upload", {}).get("document_id") or job.id
            failures.append(f"{document}: {job.error or 'deleted'}")
    return BatchResult(
        documents=ended.total(),
        completed=ended["completed"],
        failed=ended["failed"],
        canceled=ended["canceled"],
        cached=cached,
        mean_confidence=round(confidences / len(ids), 4) if ids else None,
        totals=await _totals(ids, ctx),
        failures=tuple(failures),
    )


async def _totals(ids: list[str], ctx: Context) -> dict[str, Decimal]:
    totals: dict[str, Decimal] = {}
    for start in range(0, len(ids), 500):
        named = {f"d{number}": each for number, each in enumerate(ids[start : start + 500])}
        rows = await ctx.read(
            (f"SELECT data FROM documents WHERE id IN ({', '.join(f':{name}' for name in named)})", named)
        )
        for (text,) in rows:
            data = ledger.parsed_data(text)
            if data.total is not None and data.currency is not None:
                totals[data.currency] = totals.get(data.currency, Decimal(0)) + data.total
    return totals


async def _hit(upload: Upload, key: str, ctx: Context) -> Goto | None:
    """A content that is known goes straight on, rebuilt for this document; its files are its own."""
    known = await ledger.known_extraction(ctx, ctx.job.tenant, key)
    if known is None:
        return None
    kind, pages, result = known
    rebuilt = _rebuilt(result, upload, ctx)
    return Goto("save", Extracted(upload=upload, cache_key=key, kind=kind, pages=pages, result=rebuilt, cached=True))


def _rebuilt(result: ExtractionResult, upload: Upload, ctx: Context) -> ExtractionResult:
    taken = round(ctx.now() - (upload.began or ctx.now()), 3)
    return result.model_copy(
        update={
            "document_id": upload.document_id,
            "filename": upload.filename,
            "processing_time_seconds": taken,
            "usage": Usage(),
        }
    )


async def _write(record: Record, folder: str, ctx: Context) -> None:
    document = record.result.document_id

    def contents() -> dict[str, bytes]:
        return {json_name(folder, document): as_json(record), parquet_name(folder, document): as_parquet([record])}

    await ctx.outputs(contents)


async def _parser(ctx: Context, upload: Upload) -> Parser:
    remote: Any = await ctx.remote("pool")
    return Parser(remote.pool, most_pages=upload.most_pages)


def _path(ctx: Context, document_id: str) -> Path:
    return content_path(ctx.home, ctx.job.tenant, document_id)


def _flight(key: str) -> str:
    return f"document:{key}"


def _filing(content_hash: str) -> str:
    return f"files:{content_hash}"
