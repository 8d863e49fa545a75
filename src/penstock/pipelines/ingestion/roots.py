"""Which sources a request may name: files and folders within `ingestion.roots` alone. What a website may be is for the
source to say. A type that a package brings is the operator's own code: beyond the options that are looked at here, it
must itself refuse what is not for everybody who may start a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.pipelines.ingestion.model import SourceSpec
from penstock.pipelines.ingestion.sources import OTHER_PATHS, PATHS
from penstock.service.api.problems import MOST_ERRORS, wrong_parts
from penstock.service.roots import Refusal, Roots, roots_of

SETTING = "ingestion.roots"

MOST_PATHS = 1000
"""In one source: each is looked at whenever the source is opened. A folder may have any number of files."""

Wrong = list[tuple[str, str]]


def checked_sources(
    sources: Sequence[SourceSpec], roots: Sequence[str], tenant: str, *, location: str = "body.sources"
) -> tuple[SourceSpec, ...]:
    """The same with their paths resolved, relative ones from the first root of the tenant; or a `Problem` that names
    what is wrong. Blocks."""
    named = [any(name in spec.options for name in PATHS.get(spec.type, OTHER_PATHS)) for spec in sources]
    if not any(named):
        return tuple(sources)
    open_here = roots_of(roots, tenant, setting=SETTING)
    wrong: Wrong = []
    checked = [
        _checked(spec, open_here, f"{location}.{number}", wrong) if has_paths else spec
        for number, (spec, has_paths) in enumerate(zip(sources, named, strict=True))
    ]
    if wrong:
        raise wrong_parts(wrong[:MOST_ERRORS])
    return tuple(checked)


def _checked(spec: SourceSpec, roots: Roots, location: str, wrong: Wrong) -> SourceSpec:
    options = spec.options
    for name in PATHS.get(spec.type, OTHER_PATHS):
        if name in options:
            options[name] = _resolved(options[name], roots, f"{location}.{name}", wrong)
    return SourceSpec.model_validate({**options, "type": spec.type, "resolved": True})


def _resolved(told: Any, roots: Roots, location: str, wrong: Wrong) -> Any:
    if isinstance(told, list):
        if len(told) > MOST_PATHS:
            wrong.append((location, f"must have at most {MOST_PATHS:,} paths: name their folder"))
            return told
        return [_one(each, roots, f"{location}.{number}", wrong) for number, each in enumerate(told)]
    return _one(told, roots, location, wrong)


def _one(told: Any, roots: Roots, location: str, wrong: Wrong) -> Any:
    if not isinstance(told, str) or not told.strip():
        wrong.append((location, "must be a path"))
        return told
    found = roots.resolved(told)
    if isinstance(found, Refusal):
        wrong.append((location, found.message))
        return told
    return str(found)
