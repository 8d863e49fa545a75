"""The documents workflow: four steps from an upload to a review item, the one that writes files anew after a
correction, and the one that adds up a batch. What the steps do is imported when they first run."""

from __future__ import annotations

from penstock.engine.context import Context
from penstock.engine.outcome import Again, Goto
from penstock.engine.retry import Retry
from penstock.engine.workflow import Workflow
from penstock.pipelines.documents.model import (
    BatchResult,
    Export,
    Extracted,
    Fingerprinted,
    Many,
    Reviewed,
    Saved,
    Upload,
)

RETRY = Retry(attempts=4, base=10.0, factor=2.0, jitter=0.1)
"""10, 20 and 40 s, then it has failed."""

SOFT, HARD = 270.0, 300.0

documents = Workflow("documents", payload=Upload, retry=RETRY, timeout=SOFT)
export = Workflow("documents.export", payload=Export, retry=Retry(attempts=8, base=10.0, cap=600.0), timeout=SOFT)
many = Workflow("documents.batch", payload=Many, retry=RETRY, timeout=SOFT)


@documents.step(hard_timeout=HARD)
async def fingerprint(upload: Upload, ctx: Context) -> Fingerprinted | Again | Goto:
    """What the file is, and whether its content is known already."""
    from penstock.pipelines.documents import working

    return await working.fingerprint(upload, ctx)


@documents.step(hard_timeout=HARD)
async def extract(doc: Fingerprinted, ctx: Context) -> Extracted | Again | Goto:
    """Its own e-invoice, or a model, with confidence from checks."""
    from penstock.pipelines.documents import working

    return await working.extract(doc, ctx)


@documents.step(hard_timeout=HARD)
async def save(doc: Extracted, ctx: Context) -> Saved | Again:
    """JSON, Parquet, and the cache, in one commit."""
    from penstock.pipelines.documents import working

    return await working.save(doc, ctx)


@documents.step(hard_timeout=HARD)
async def review(doc: Saved, ctx: Context) -> Reviewed:
    """Every upload is put before a reviewer."""
    from penstock.pipelines.documents import working

    return await working.review(doc, ctx)


@export.step
async def write_files(what: Export, ctx: Context) -> dict[str, int] | Again:
    """The files of a content's documents, after somebody decided about one of them."""
    from penstock.pipelines.documents import working

    return await working.write_files(what, ctx)


@many.step
async def add_up(_: Many, ctx: Context) -> BatchResult:
    """One result for all documents of a batch."""
    from penstock.pipelines.documents import working

    return await working.add_up(ctx)
