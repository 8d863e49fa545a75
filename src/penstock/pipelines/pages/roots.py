"""Which folders a run that is started over HTTP may name: those within `pages.roots`. Links are followed before it is
decided, and nothing is said about a folder outside, not even whether it is there. Everything here blocks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.engine.errors import InvalidConfiguration
from penstock.engine.model import DEFAULT_TENANT
from penstock.pipelines.pages.configuration import run_from_data
from penstock.pipelines.pages.model import Run
from penstock.service.api.problems import MOST_ERRORS, Problem, forbidden, invalid, wrong_parts

SETTING = "pages.roots"
TENANT = "{tenant}"

PLACES = (
    ("paths", "label_source_dir"),
    ("paths", "image_source_dir"),
    ("paths", "output_dir"),
    ("prompt", "registry_dir"),
)

_SHOWN = re.compile(r" \(is .*\)\Z", re.DOTALL)


def open_to(roots: Sequence[str], tenant: str) -> list[Path]:
    """The folders of a tenant, resolved. A tenant may be called `..`, and that leads nowhere."""
    if tenant in (".", ".."):
        return []
    told = [root.replace(TENANT, tenant) for root in roots if TENANT in root or tenant == DEFAULT_TENANT]
    return [Path(root).expanduser().resolve() for root in told]


def checked_run(data: Any, roots: Sequence[str], tenant: str) -> Run:
    """The run that a request's body describes, its folders within the tenant's own; or a `Problem` that names what is
    wrong. Relative folders are in the first of the roots."""
    folders = open_to(roots, tenant)
    if not folders:
        raise forbidden(f"no folder is open to the tenant {tenant}: {SETTING} needs one with {TENANT} in it")
    if not isinstance(data, Mapping):
        raise invalid("body", "must be an object with keys, of which paths must be there")
    wrong = [
        (f"body.{group}.{name}", problem)
        for group, name in PLACES
        if (problem := _outside(data.get(group), name, folders)) is not None
    ]
    if wrong:
        raise wrong_parts(wrong)
    try:
        return run_from_data(data, base=folders[0])
    except InvalidConfiguration as error:
        raise _told(error) from error


def within(path: Path, folder: Path) -> bool:
    """Whether a file lies in this folder when all links are followed."""
    try:
        return path.resolve(strict=True).is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        return False


def _outside(group: Any, name: str, folders: Sequence[Path]) -> str | None:
    told = group.get(name) if isinstance(group, Mapping) else None
    if not isinstance(told, str) or "\x00" in told:
        return None
    if told.startswith("~"):
        return "must be written out: ~ is the home of whoever runs the service"
    try:
        resolved = (folders[0] / told).resolve()
    except (OSError, RuntimeError, ValueError):
        return "is no folder that can be found"
    if any(resolved.is_relative_to(folder) for folder in folders):
        return None
    return f"must lie in a folder that {SETTING} of the service's configuration opens to this tenant"


def _told(error: InvalidConfiguration) -> Problem:
    """A line for each mistake: `execution.max_retries: must be 0 or more (is -1)`, here without the value."""
    parts = []
    for line in str(error).splitlines()[:MOST_ERRORS]:
        field, colon, message = line.partition(": ")
        parts.append((f"body.{field}", _SHOWN.sub("", message)) if colon else ("body", _SHOWN.sub("", line)))
    return wrong_parts(parts)
