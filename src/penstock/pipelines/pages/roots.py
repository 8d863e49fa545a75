"""Which folders a run that is started over HTTP may name: those within `pages.roots`. Everything here blocks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.engine.errors import InvalidConfiguration
from penstock.pipelines.pages.configuration import run_from_data
from penstock.pipelines.pages.model import Run
from penstock.service.api.problems import MOST_ERRORS, Problem, invalid, wrong_parts
from penstock.service.roots import Refusal, Roots, roots_of

SETTING = "pages.roots"

PLACES = (
    ("paths", "label_source_dir"),
    ("paths", "image_source_dir"),
    ("paths", "output_dir"),
    ("prompt", "registry_dir"),
)

_SHOWN = re.compile(r" \(is .*\)\Z", re.DOTALL)


def checked_run(data: Any, roots: Sequence[str], tenant: str) -> Run:
    """The run that a request's body describes, its folders within the tenant's own; or a `Problem` that names what is
    wrong. Relative folders are in the first of the roots."""
    open_here = roots_of(roots, tenant, setting=SETTING)
    if not isinstance(data, Mapping):
        raise invalid("body", "must be an object with keys, of which paths must be there")
    wrong = [
        (f"body.{group}.{name}", problem)
        for group, name in PLACES
        if (problem := _outside(data.get(group), name, open_here)) is not None
    ]
    if wrong:
        raise wrong_parts(wrong)
    try:
        return run_from_data(data, base=open_here.folders[0])
    except InvalidConfiguration as error:
        raise _told(error) from error


def _outside(group: Any, name: str, roots: Roots) -> str | None:
    told = group.get(name) if isinstance(group, Mapping) else None
    if not isinstance(told, str) or "\x00" in told:
        return None
    found = roots.resolved(told)
    return found.message if isinstance(found, Refusal) else None


def _told(error: InvalidConfiguration) -> Problem:
    """A line for each mistake: `execution.max_retries: must be 0 or more (is -1)`, here without the value."""
    parts = []
    for line in str(error).splitlines()[:MOST_ERRORS]:
        field, colon, message = line.partition(": ")
        parts.append((f"body.{field}", _SHOWN.sub("", message)) if colon else ("body", _SHOWN.sub("", line)))
    return wrong_parts(parts)
