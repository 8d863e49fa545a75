"""The documents pipeline for programs of one's own: take invoices in, look at what was extracted, decide about it,
export it. An app that runs the work is made with `PIPELINE`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

from penstock.app import Penstock
from penstock.config import Settings, load
from penstock.engine.audit import Actor
from penstock.engine.errors import CommitUnknown, NotFound, StoreError
from penstock.engine.model import DEFAULT_TENANT
from penstock.pipelines.documents.asking import Added, AddedMany, add
from penstock.pipelines.documents.contents import Kept, copy_in
from penstock.pipelines.documents.exporting import exported, records
from penstock.pipelines.documents.model import ExtractionResult, InvoiceData, LineItem
from penstock.pipelines.documents.queue import claim, release, submit, unlock
from penstock.pipelines.documents.reading import DocumentDetail, DocumentView, QueueItem, document, documents, queue
from penstock.pipelines.documents.samples import make_samples
from penstock.pipelines.documents.workflow import documents as _documents
from penstock.pipelines.documents.workflow import export as _export
from penstock.pipelines.documents.workflow import many as _many

__all__ = [
    "PIPELINE",
    "Added",
    "AddedMany",
    "DocumentDetail",
    "DocumentView",
    "ExtractionResult",
    "InvoiceData",
    "LineItem",
    "QueueItem",
    "add_files",
    "claim",
    "document",
    "documents",
    "exported",
    "make_samples",
    "queue",
    "records",
    "release",
    "submit",
    "unlock",
]

PIPELINE = (_documents, _export, _many)
"""The workflows: a document's four steps, the writing of files after a decision, and the sum of a batch."""


async def add_files(
    app: Penstock,
    paths: Sequence[Path | str],
    *,
    tenant: str = DEFAULT_TENANT,
    actor: Actor | str | None = None,
    settings: Settings | None = None,
) -> AddedMany:
    """Take files of this machine in, all of them or none; they are copied, and durable when this returns. What is of no
    use fails in its job, with a reason. `settings`: the configuration of the working folder unless told."""
    settings = settings or load()
    largest = settings.documents.largest_file
    kept: list[Kept] = []
    try:
        for path in paths:
            copied = await asyncio.to_thread(copy_in, app.engine, tenant, Path(path), largest=largest)
            kept.append(copied)
        return await add(app, settings, kept, tenant=tenant, actor=actor)
    except CommitUnknown:
        raise
    except Exception:
        with contextlib.suppress(StoreError):
            await _forget(app, kept)
        raise


async def _forget(app: Penstock, kept: Sequence[Kept]) -> None:
    """Copies that no document belongs to; a copy too many costs less than a document without its file."""
    if not kept:
        return
    try:
        await document(app.engine, kept[0].document_id)
    except NotFound:
        await asyncio.to_thread(_remove, kept)


def _remove(kept: Sequence[Kept]) -> None:
    for each in kept:
        each.path.unlink(missing_ok=True)
