"""The addresses of the pages, and the words and colours that they share."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from penstock.engine.model import DEFAULT_TENANT, Job
from penstock.pipelines.ingestion.model import SourceSpec
from penstock.pipelines.ingestion.workflow import ALL
from penstock.service.access.principal import Principal
from penstock.service.dashboard.rendering import link

HOME = "/ui/knowledge"

WORDS = {"not_started": "not started", "canceled": "canceled, cleaning up"}
"""Of a run's status, where it is written otherwise."""

COLOURS = {"not_started": "canceled", "canceled": "canceling"}
"""Of a run's status, by the job's status that has its colour."""

SOURCES = {
    "markdown": "Markdown files",
    "pdf": "PDF files",
    "website": "Website",
    "youtube": "YouTube",
}

_PLACES = ("path", "url", "urls", "paths", "ids", "playlists", "files")
MOST_NAMED = 3


class Paths:
    """The addresses below one knowledge base. Whoever sees several tenants has the tenant in them."""

    def __init__(self, base: str, tenant: str, principal: Principal | None = None) -> None:
        self._base = base
        bound = principal is not None and principal.tenant is not None
        self._tenant = "" if bound or tenant == DEFAULT_TENANT else tenant

    def __call__(self, *parts: object, **query: Any) -> str:
        path = "/".join((f"{HOME}/bases/{quote(self._base, safe='')}", *(quote(str(part), safe="") for part in parts)))
        return link(path, tenant=self._tenant, **query)


def word(status: str) -> str:
    return WORDS.get(status, status)


def colour(status: str) -> str:
    return COLOURS.get(status, status)


def kind_of(spec: SourceSpec) -> str:
    """What a source is, in words: one of subtitle files alone has nothing to do with YouTube."""
    options = spec.options
    if spec.type == "youtube" and options.get("files") and not options.get("ids") and not options.get("playlists"):
        return "Subtitles"
    return SOURCES.get(spec.type, spec.type)


def plain(error: str) -> str:
    """What went wrong, without the name of the error's class, which is for programs."""
    kind, colon, words = error.partition(": ")
    return words if colon and kind.isidentifier() else error


def place_of(spec: SourceSpec) -> str:
    """Where a source's documents are: its folder, its address, or the first of many."""
    options = spec.options
    for name in _PLACES:
        said = options.get(name)
        if isinstance(said, str) and said:
            return said
        if isinstance(said, (list, tuple)) and said:
            named = ", ".join(str(each) for each in said[:MOST_NAMED])
            return f"{named} and {len(said) - MOST_NAMED:,} more" if len(said) > MOST_NAMED else named
    return ""


def settings_of(spec: SourceSpec) -> list[tuple[str, str]]:
    """What else a source was told."""
    told = {name: value for name, value in spec.options.items() if value not in (None, "", [], ())}
    shown = next((name for name in _PLACES if name in told), "")
    return [(name.replace("_", " "), _said(value)) for name, value in told.items() if name != shown]


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(str(each) for each in value) if isinstance(value, (list, tuple)) else str(value)


_NAMES = {workflow.name for workflow in ALL}


def link_of(job: Job) -> str | None:
    """The knowledge base that a job works on; a user's own workflow may have the same name."""
    if job.workflow not in _NAMES or not isinstance(job.payload, dict):
        return None
    ask = job.payload.get("ask", job.payload)
    base = ask.get("base") if isinstance(ask, dict) else None
    return Paths(base, job.tenant)() if isinstance(base, str) and base else None
