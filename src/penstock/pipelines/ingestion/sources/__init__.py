"""Where documents come from. Each kind is imported when it is first used."""

from __future__ import annotations

from importlib import import_module

from penstock.pipelines.ingestion.model import SourceSpec
from penstock.pipelines.ingestion.plugins import Source, SourceFactory, Tools, from_packages

SOURCES = {
    "markdown": "penstock.pipelines.ingestion.sources.markdown:markdown",
    "pdf": "penstock.pipelines.ingestion.sources.pdf:pdf",
    "website": "penstock.pipelines.ingestion.sources.website:website",
    "youtube": "penstock.pipelines.ingestion.sources.youtube:youtube",
}
"""Those that come with Penstock, as `module:factory`; others by entry points of the group `penstock.sources`."""


def make_source(spec: SourceSpec, tools: Tools) -> Source:
    """`InvalidRequest` where there is no such type, or its options are wrong."""
    factory: SourceFactory
    if spec.type in SOURCES:
        module, name = SOURCES[spec.type].split(":")
        factory = getattr(import_module(module), name)
    else:
        factory = from_packages("penstock.sources", spec.type, list(SOURCES))
    return factory(spec.options, tools)
