"""Knowledge bases for programs of one's own: fill them, ask them, steer what fills them; and what sources, chunkers and
embedders of one's own are made of. An app that runs the work is made with `PIPELINE`. Where a run is meant, the name of
its knowledge base means the newest."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from penstock.app import Penstock
from penstock.engine.audit import Actor
from penstock.engine.errors import InvalidRequest
from penstock.engine.model import DEFAULT_TENANT
from penstock.pipelines.ingestion import control, planning, reading, searching, verifying
from penstock.pipelines.ingestion.bases import base_of, find_run
from penstock.pipelines.ingestion.index import index_for
from penstock.pipelines.ingestion.model import (
    Chunk,
    ChunkerSpec,
    Configuration,
    Document,
    EmbedderSpec,
    Entry,
    Known,
    Loaded,
    Mark,
    SourceSpec,
    Unchanged,
)
from penstock.pipelines.ingestion.planning import Plan
from penstock.pipelines.ingestion.plugins import Chunker, Embedder, Source, Tools, Vectors
from penstock.pipelines.ingestion.reading import BaseLine, DocumentLine, ErrorLine
from penstock.pipelines.ingestion.samples import Question, SamplePdf, Site, make_pdfs, make_site
from penstock.pipelines.ingestion.searching import Hit, Mode
from penstock.pipelines.ingestion.sources import PATHS
from penstock.pipelines.ingestion.status import Status, status_of
from penstock.pipelines.ingestion.verifying import Verified
from penstock.pipelines.ingestion.workflow import ALL

__all__ = [
    "PIPELINE",
    "BaseLine",
    "Chunk",
    "Chunker",
    "ChunkerSpec",
    "Configuration",
    "Document",
    "DocumentLine",
    "Embedder",
    "EmbedderSpec",
    "Entry",
    "ErrorLine",
    "Hit",
    "Known",
    "Loaded",
    "Mark",
    "Plan",
    "Question",
    "SamplePdf",
    "Site",
    "Source",
    "SourceSpec",
    "Status",
    "Tools",
    "Unchanged",
    "Vectors",
    "Verified",
    "bases",
    "cancel",
    "documents",
    "errors",
    "forget",
    "make_pdfs",
    "make_site",
    "pause",
    "plan",
    "refresh_every",
    "repair",
    "resume",
    "retry_errors",
    "search",
    "start",
    "status",
    "verify",
    "wait",
]

PIPELINE = ALL
"""The workflows: a run, and what removes, mends and refreshes behind it."""

Told = Configuration | Mapping[str, Any]
"""A configuration, or a mapping that says the same."""

_NAMES = frozenset(workflow.name for workflow in PIPELINE)
_MOST_BEHIND = 100


async def start(
    app: Penstock,
    kb: str,
    config: Told | None = None,
    *,
    rebuild: bool = False,
    tenant: str = DEFAULT_TENANT,
    actor: Actor | str | None = None,
) -> Status:
    """Fill a knowledge base, or refresh it: without `config` from what it keeps. `Conflict` while a run is active."""
    told = None if config is None else _configuration(config)
    begun = await control.start(app, kb, told, rebuild=rebuild, tenant=tenant, actor=actor)
    return await status(app, begun.job_id, tenant=tenant)


async def retry_errors(
    app: Penstock, kb: str, *, tenant: str = DEFAULT_TENANT, actor: Actor | str | None = None
) -> Status:
    """A run over what could not be loaded or embedded, and nothing else."""
    run = await control.run_meant(app, kb, tenant=tenant)
    begun = await control.retry_errors(app, run, actor=actor)
    return await status(app, begun.job_id, tenant=tenant)


async def pause(app: Penstock, name: str, *, tenant: str = DEFAULT_TENANT, actor: Actor | str | None = None) -> Status:
    """Stop before the next group of chunks, until `resume`."""
    run = await control.run_meant(app, name, tenant=tenant)
    await control.pause(app, run, actor=actor)
    return await status(app, run.id, tenant=tenant)


async def resume(app: Penstock, name: str, *, tenant: str = DEFAULT_TENANT, actor: Actor | str | None = None) -> Status:
    """Go on at the next group of chunks: after a pause, or where a run that failed was."""
    run = await control.run_meant(app, name, tenant=tenant)
    await control.resume(app, run, actor=actor)
    return await status(app, run.id, tenant=tenant)


async def cancel(app: Penstock, name: str, *, tenant: str = DEFAULT_TENANT, actor: Actor | str | None = None) -> Status:
    """Stop, and take out all that the run wrote; what it replaced comes back. `wait` for it to be done."""
    run = await control.run_meant(app, name, tenant=tenant)
    await control.cancel(app, run, actor=actor)
    return await status(app, run.id, tenant=tenant)


async def status(app: Penstock, name: str, *, tenant: str = DEFAULT_TENANT) -> Status:
    return await status_of(app, await control.run_meant(app, name, tenant=tenant))


async def wait(app: Penstock, name: str, *, tenant: str = DEFAULT_TENANT, timeout: float | None = None) -> Status:
    """Wait until the run has ended, also with what it replaced removed, or is paused. Somebody must do the work
    meanwhile: `app.worker()`, or another process. `TimeoutError` after `timeout` seconds; the run goes on."""
    run = await control.run_meant(app, name, tenant=tenant)
    job = await control.newest_job(app, run.id)
    async with asyncio.timeout(timeout):
        if job is not None:
            job = await app.wait(job.id, until=("paused",))
            for each in await app.jobs(parent=job.id, limit=_MOST_BEHIND, brief=True) if job.final else ():
                if each.workflow in _NAMES:
                    await app.wait(each.id)
    return await status_of(app, await find_run(app.engine, run.id) or run)


async def errors(
    app: Penstock, kb: str, *, tenant: str = DEFAULT_TENANT, before: str | None = None, limit: int = 100
) -> list[ErrorLine]:
    """What could not be loaded or embedded, the newest first; `before` is the last id of the page before."""
    await base_of(app.engine, tenant, kb)
    return await reading.errors(app.engine, tenant, kb, before=before, limit=limit)


async def search(
    app: Penstock,
    kb: str,
    question: str,
    *,
    tenant: str = DEFAULT_TENANT,
    top: int = 10,
    mode: Mode = "hybrid",
    filter: Mapping[str, Any] | None = None,
) -> list[Hit]:
    """The best hits first. Needs no worker."""
    return await searching.search(app.engine, kb, question, tenant=tenant, top=top, mode=mode, filter=filter)


async def plan(
    app: Penstock, kb: str, config: Told | None = None, *, rebuild: bool = False, tenant: str = DEFAULT_TENANT
) -> Plan:
    """What `start` with the same arguments would come to. Nothing is stored or paid."""
    if config is None:
        found = await base_of(app.engine, tenant, kb)
        told = found.config if rebuild else control.sources_of(found)
    else:
        told = _configuration(config)
    return await planning.plan(app, kb, told, rebuild=rebuild, tenant=tenant)


async def verify(app: Penstock, kb: str, *, tenant: str = DEFAULT_TENANT) -> Verified:
    """Whether ledger and index say the same. Safe while a run is at work."""
    found = await base_of(app.engine, tenant, kb)
    if found.edition is None:
        return Verified()
    return await verifying.verify(app.engine, index_for(app.engine), found.edition)


async def repair(app: Penstock, kb: str, *, tenant: str = DEFAULT_TENANT, actor: Actor | str | None = None) -> str:
    """Make the index say what the ledger says: the id of the job that does it, whose result counts what was mended."""
    return (await control.start_repair(app, kb, tenant=tenant, actor=actor)).job_id


async def forget(app: Penstock, kb: str, *, tenant: str = DEFAULT_TENANT, actor: Actor | str | None = None) -> str:
    """Delete a knowledge base: nobody finds it from now on. Answers the id of the job that removes its rows."""
    return await control.forget(app, kb, tenant=tenant, actor=actor)


async def refresh_every(
    app: Penstock, kb: str, seconds: float, *, tenant: str = DEFAULT_TENANT, actor: Actor | str | None = None
) -> str:
    """Let it be refreshed by itself, from what it keeps: a part of an hour or of a day, a day, or a week. Answers the
    cron expression; `app.unschedule(f"ingestion:{kb}")` ends it."""
    return await control.refresh_every(app, kb, seconds, tenant=tenant, actor=actor)


async def bases(
    app: Penstock, *, tenant: str | None = DEFAULT_TENANT, after: BaseLine | None = None, limit: int = 100
) -> list[BaseLine]:
    """Knowledge bases by name; of all tenants where `tenant` is None. `after` is the last of the page before."""
    place = None if after is None else (after.id, after.tenant)
    return await reading.base_lines(app.engine, tenant, after=place, limit=limit)


async def documents(
    app: Penstock, kb: str, *, tenant: str = DEFAULT_TENANT, after: int = 0, limit: int = 100
) -> list[DocumentLine]:
    """Those that can be searched, in the order in which they came; `after` is the last `n` of the page before."""
    found = await base_of(app.engine, tenant, kb)
    if found.edition is None:
        return []
    return await reading.documents(app.engine, found.edition, after=after, limit=limit)


def _configuration(told: Told) -> Configuration:
    """With absolute paths: a worker may stand elsewhere."""
    try:
        config = told if isinstance(told, Configuration) else Configuration.model_validate(told)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "config"
        raise InvalidRequest(f"{where}: {first['msg'].removeprefix('Value error, ')}") from None
    return config.model_copy(update={"sources": tuple(map(_absolute, config.sources))})


def _absolute(spec: SourceSpec) -> SourceSpec:
    options = spec.options
    for name in PATHS.get(spec.type, ()):
        value = options.get(name)
        if isinstance(value, (str, Path)):
            options[name] = _path(value)
        elif isinstance(value, Sequence):
            options[name] = [_path(each) if isinstance(each, (str, Path)) else each for each in value]
    return SourceSpec.model_validate({**options, "type": spec.type, "resolved": spec.resolved})


def _path(path: str | Path) -> str:
    # A link keeps its name: what it leads to may be another folder tomorrow. What is no path the source refuses.
    return os.path.normpath(Path(path).absolute()) if str(path).strip() else str(path)
