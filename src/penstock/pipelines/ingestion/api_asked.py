"""What a request asks of a knowledge base, with what the knowledge base keeps; and what stands in its way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.engine.errors import Conflict, NotFound
from penstock.pipelines.ingestion import bases
from penstock.pipelines.ingestion.api_models import IngestionSource, PlanIngestion, StartIngestion
from penstock.pipelines.ingestion.control import newest_job, sources_of
from penstock.pipelines.ingestion.model import Configuration, SourceSpec
from penstock.pipelines.ingestion.roots import checked_sources
from penstock.pipelines.ingestion.status import word_of
from penstock.service.api.problems import Problem, conflict, invalid
from penstock.service.state import Service


async def configuration_asked(
    service: Service, tenant: str, base: str, asked: StartIngestion | PlanIngestion
) -> Configuration:
    """What the body says, else what the knowledge base keeps; its sources checked against `ingestion.roots`. Sources
    that are kept were checked when they were named, or named by somebody on this machine."""
    sources = None
    if asked.sources is not None:
        sources = await asyncio.to_thread(
            checked_sources, _specs(asked.sources), service.settings.ingestion.roots, tenant
        )
    found = await bases.find_base(service.penstock.engine, tenant, base)
    if found is not None:
        kept = found.config if asked.rebuild else sources_of(found)
    elif sources is None:
        raise NotFound(f"there is no knowledge base {base!r}: name a source to make one")
    else:
        kept = Configuration(sources=sources)
    return Configuration(
        sources=sources or kept.sources,
        chunker=asked.chunker or kept.chunker,
        embedder=asked.embedder or kept.embedder,
        prune=kept.prune if asked.prune is None else asked.prune,
    )


def _specs(sources: Sequence[IngestionSource]) -> list[SourceSpec]:
    for number, source in enumerate(sources):
        if "resolved" in source.options:
            raise invalid(f"body.sources.{number}.resolved", "is for the service to say")
    return [SourceSpec.model_validate({**source.options, "type": source.type}) for source in sources]


async def in_the_way(service: Service, error: Conflict, tenant: str, base: str, *, run: str | None = None) -> Problem:
    """The run that does not let it happen, and how it stands now."""
    penstock = service.penstock
    found = await bases.find_base(penstock.engine, tenant, base)
    id = error.job or run or (None if found is None else found.run)
    there = None if id is None else await bases.find_run(penstock.engine, id, tenant=tenant)
    if there is None:
        return conflict(error, id=None, state=None)
    return conflict(error, id=there.id, state=word_of(there, await newest_job(penstock, there.id)))
