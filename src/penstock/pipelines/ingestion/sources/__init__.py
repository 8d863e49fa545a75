"""Where documents come from. Each kind is imported when it is first used."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module

from penstock.engine.errors import InvalidRequest, PenstockError
from penstock.pipelines.ingestion.model import SourceSpec
from penstock.pipelines.ingestion.plugins import Source, SourceFactory, Tools, from_packages

SOURCES = {
    "markdown": "penstock.pipelines.ingestion.sources.markdown:markdown",
    "pdf": "penstock.pipelines.ingestion.sources.pdf:pdf",
    "website": "penstock.pipelines.ingestion.sources.website:website",
    "youtube": "penstock.pipelines.ingestion.sources.youtube:youtube",
}
"""Those that come with Penstock, as `module:factory`; others by entry points of the group `penstock.sources`."""

PATHS = {"markdown": ("path",), "pdf": ("path", "paths"), "website": (), "youtube": ("files",)}
"""Which options of these name files or folders."""

OTHER_PATHS = ("path", "paths", "files")
"""Those that are taken to do so in the options of any other type."""


def paths_of(spec: SourceSpec) -> Iterator[tuple[str, str]]:
    """The files and folders that a source names, each with the option it stands in."""
    options = spec.options
    for name in PATHS.get(spec.type, OTHER_PATHS):
        told = options.get(name)
        for each in (told,) if isinstance(told, str) else told if isinstance(told, (list, tuple)) else ():
            if isinstance(each, str):
                yield name, each


def make_source(spec: SourceSpec, tools: Tools) -> Source:
    """`InvalidRequest` where there is no such type, or its options are wrong."""
    if spec.resolved:
        _check_links(spec)
    factory: SourceFactory
    if spec.type in SOURCES:
        module, name = SOURCES[spec.type].split(":")
        factory = getattr(import_module(module), name)
    else:
        factory = from_packages("penstock.sources", spec.type, list(SOURCES))
    try:
        return factory(spec.options, replace(tools, resolved=spec.resolved))
    except PenstockError:
        raise
    except Exception as error:
        raise InvalidRequest(f"source {spec.type} cannot be made ({type(error).__name__}: {error})") from error


def _check_links(spec: SourceSpec) -> None:
    """Whoever may write into a folder that is open to the service could lead it elsewhere after it was checked."""
    for name, path in paths_of(spec):
        if os.path.realpath(path) != path:
            raise InvalidRequest(
                f"source {spec.type}: {name}: {path} leads elsewhere by a link that was not there when it was checked:"
                " name the sources again"
            )
