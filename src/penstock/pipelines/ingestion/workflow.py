"""The workflows of ingestion: the run itself, and what goes on behind it. What the steps do is imported when they
first run."""

from __future__ import annotations

from typing import Any

from penstock.engine.context import Context
from penstock.engine.outcome import Again, Goto
from penstock.engine.retry import Retry
from penstock.engine.workflow import Workflow
from penstock.pipelines.ingestion.work import Begin, Ended, Forget, Optimize, Purge, Refresh, Repair, Work

RETRY = Retry(attempts=3, base=4.0, factor=2.0, cap=60.0)
"""4 and 8 s, then it has failed."""

PATIENT = Retry(attempts=12, base=4.0, factor=2.0, cap=600.0)
"""For what must be done in the end."""

ingestion = Workflow("ingestion", payload=Begin, retry=RETRY)
purge = Workflow("ingestion.purge", payload=Purge, retry=PATIENT)
forget = Workflow("ingestion.forget", payload=Forget, retry=PATIENT)
repair = Workflow("ingestion.repair", payload=Repair, retry=RETRY)
optimize = Workflow("ingestion.optimize", payload=Optimize, retry=RETRY)
refresh = Workflow("ingestion.refresh", payload=Refresh, retry=RETRY)


@ingestion.step
async def prepare(begin: Begin, ctx: Context) -> Work | Again | Goto:
    """Take the knowledge base, open an edition, ask the sources where they begin."""
    from penstock.pipelines.ingestion import running

    return await running.prepare(begin, ctx)


@ingestion.step
async def retry_chunks(work: Work, ctx: Context) -> Work | Again:
    """The chunks that an earlier run could not embed, where that is what was asked for."""
    from penstock.pipelines.ingestion import retrying

    return await retrying.retry_chunks(work, ctx)


@ingestion.step
async def ingest(work: Work, ctx: Context) -> Again | Goto:
    """Load, chunk, embed and index one batch of documents."""
    from penstock.pipelines.ingestion import running

    return await running.ingest(work, ctx)


@ingestion.step
async def collect(work: Work, ctx: Context) -> Again | Goto:
    """Wait for a batch of embeddings, and index it."""
    from penstock.pipelines.ingestion import collecting

    return await collecting.collect(work, ctx)


@ingestion.step
async def finish(work: Work, ctx: Context) -> Ended | Again | Goto:
    """Hide what has vanished, and say what the run came to."""
    from penstock.pipelines.ingestion import finishing

    return await finishing.finish(work, ctx)


@ingestion.cleanup(retry=PATIENT)
async def clean_up(work: Work | Begin, ctx: Context) -> Any:
    """Take out what a cancelled run wrote, and bring back what it hid."""
    from penstock.pipelines.ingestion import undoing

    return await undoing.clean_up(work, ctx)


@purge.step
async def remove_hidden(what: Purge, ctx: Context) -> dict[str, int] | Again:
    """What a completed run replaced, or an edition that nothing is searched in any more."""
    from penstock.pipelines.ingestion import finishing

    return await finishing.remove_hidden(what, ctx)


@forget.step
async def remove_base(what: Forget, ctx: Context) -> dict[str, int] | Again:
    """A whole knowledge base."""
    from penstock.pipelines.ingestion import finishing

    return await finishing.remove_base(what, ctx)


@repair.step
async def mend(what: Repair, ctx: Context) -> dict[str, Any] | Again:
    """Make the index say what the ledger says."""
    from penstock.pipelines.ingestion import repairing

    return await repairing.mend(what, ctx)


@refresh.step
async def start_again(what: Refresh, ctx: Context) -> dict[str, Any]:
    """A run from the knowledge base's kept configuration, unless one is under way."""
    from penstock.pipelines.ingestion import control

    return await control.start_again(what, ctx)


@optimize.step
async def build(what: Optimize, ctx: Context) -> dict[str, Any]:
    """Make searching a large edition faster, where the store can."""
    from penstock.pipelines.ingestion.index import index_for

    return {"edition": what.edition, "built": await index_for(ctx.engine).optimize(what.edition, what.dimension)}


ALL = (ingestion, purge, forget, repair, refresh, optimize)
