"""How a pipeline hangs its own routes and pages on the service: it hands over a `Section`.

A section comes with Penstock, or is found by the entry point `penstock.sections` (a `Section`, or a function that makes
one), or is passed to `create_app` by whoever builds the service.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.engine.errors import InvalidConfiguration

if TYPE_CHECKING:
    from fastapi import APIRouter
    from prometheus_client.core import Metric

    from penstock.engine.engine import Engine
    from penstock.engine.model import Job
    from penstock.engine.workflow import Workflow

    Rows = Sequence[tuple[str, str, float]]

ENTRY_POINT = "penstock.sections"

BUILT_IN_SECTIONS: tuple[str, ...] = (
    "penstock.pipelines.documents.section:section",
    "penstock.pipelines.documents.section:review",
    "penstock.pipelines.ingestion.section:section",
    "penstock.pipelines.pages.section:section",
)
"""Those of the pipelines that come with Penstock, as `module:name`."""


@dataclass(slots=True, frozen=True)
class Need:
    """Something of a section's own that a person should look at, and where. `grave`: work stands still."""

    title: str
    words: str
    path: str
    grave: bool = True
    dead_letters: int = 0
    """How many dead letters it tells of already: the overview does not tell of them once more."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Section:
    """A pipeline's place in the service.

    `api` has its HTTP routes, mounted with the very paths it names; `pages` has its dashboard pages, mounted under
    `/ui/{name}`, with templates of its own in `templates`. The navigation shows `title` where there are pages. Nobody
    uses either who may not read; a route that needs more says so with a guard of its own.
    """

    name: str
    title: str
    api: APIRouter | None = None
    pages: APIRouter | None = None
    templates: Path | None = None
    workflows: tuple[str, ...] = ()
    """Whose jobs the navigation counts for it."""
    starts: tuple[Workflow, ...] = ()
    """Workflows whose payload the section has to check first, such as the folders it names: over HTTP nothing but its
    own routes starts them."""
    needs: Callable[[Engine, str | None], Awaitable[Sequence[Need]]] | None = None
    """What needs a person, for the overview: of a tenant, or of all. It is asked every few seconds where there are jobs
    of its `workflows`, so it must be cheap."""
    metrics: Callable[[Engine, Rows], Awaitable[Sequence[Metric]]] | None = None
    """What it adds to `/metrics`: made from what all processes have counted (name, labels as JSON, amount), and from
    what it reads of the store. It is kept for a second, or for twenty times as long as making it took."""
    quiet: tuple[str, ...] = ()
    """Workflows that work by the clock: webhooks are not told each time that a job of theirs is completed."""
    link_of: Callable[[Job], str | None] | None = None
    """The section's own page about a job, if it has one; the job's page links to it."""


def found_sections() -> tuple[Section, ...]:
    """The sections of the pipelines that come with Penstock and of installed packages, by name."""
    own = [EntryPoint(name=spec, value=spec, group=ENTRY_POINT) for spec in BUILT_IN_SECTIONS]
    sections: dict[str, Section] = {}
    for point in (*own, *entry_points(group=ENTRY_POINT)):
        loaded: Section | Callable[[], Section] = point.load()
        section = loaded if isinstance(loaded, Section) else loaded()
        if section.name in sections:
            raise InvalidConfiguration(f"two installed packages have a section {section.name!r}")
        sections[section.name] = section
    return tuple(sections[name] for name in sorted(sections))
