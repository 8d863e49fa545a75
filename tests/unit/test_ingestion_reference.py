"""The reference page of ingestion has everything there is, and says the defaults that hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from penstock.pipelines.ingestion import tables
from penstock.pipelines.ingestion.chunking import CHUNKERS
from penstock.pipelines.ingestion.embedders import EMBEDDERS
from penstock.pipelines.ingestion.model import ChunkerSpec, Configuration, EmbedderSpec
from penstock.pipelines.ingestion.sources import SOURCES
from penstock.pipelines.ingestion.sources.folders import FolderOptions
from penstock.pipelines.ingestion.sources.pdf import PdfOptions
from penstock.pipelines.ingestion.sources.website import WebsiteOptions
from penstock.pipelines.ingestion.sources.youtube import YouTubeOptions
from penstock.pipelines.ingestion.status import word
from penstock.pipelines.ingestion.verifying import FAULTS
from penstock.pipelines.ingestion.work import Counters
from penstock.pipelines.ingestion.workflow import ALL

PAGE = Path(__file__).parents[2] / "docs/reference/ingestion.md"
OPTIONS: dict[str, type[BaseModel]] = {
    "markdown": FolderOptions,
    "pdf": PdfOptions,
    "website": WebsiteOptions,
    "youtube": YouTubeOptions,
}


def rows(heading: str) -> dict[str, list[str]]:
    """The tables under a heading: what stands in backquotes in a first cell → the cells after it."""
    text = PAGE.read_text().partition(f"\n{heading}\n")[2]
    text = re.split(r"^#", text, maxsplit=1, flags=re.MULTILINE)[0]
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("| `"):
            first, *rest = (cell.strip() for cell in line.strip("|").split("|"))
            found |= dict.fromkeys(re.findall(r"`([^`]+)`", first), rest)
    return found


def test_counters_faults_and_parts_are_all_there() -> None:
    assert set(Counters.model_fields) <= set(rows("## Status"))
    assert set(rows("## Faults")) == set(FAULTS)
    assert set(rows("## Chunkers")) == set(CHUNKERS)
    assert set(rows("## Embedders")) == set(EMBEDDERS)
    assert set(rows("## Workflows")) == {workflow.name for workflow in ALL}
    assert {name for name in rows("## Rows") if name.startswith("kb_")} == {
        table.name for table in tables.metadata.tables.values() if table.name.startswith("kb_")
    }


def test_the_statuses_are_those_that_jobs_come_to() -> None:
    jobs = ("queued", "running", "waiting", "paused", "canceling", "completed", "failed", "canceled")
    assert set(rows("## Statuses")) == {word(None, job) for job in jobs}


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_has_these_options(name: str) -> None:
    assert set(rows(f"### `{name}`")) - {".pdf"} == set(OPTIONS[name].model_fields)


def test_defaults() -> None:
    told = rows("### `website`")
    site = WebsiteOptions(url="https://example.org/")
    assert told["max_pages"][0] == str(site.max_pages) and told["delay"][0] == f"{site.delay:g}"
    assert told["prefix"][0] == f"`{site.prefix}`" and told["sitemap"][0] == f"`{str(site.sitemap).lower()}`"
    told, chunker = rows("## Configuration"), ChunkerSpec()
    assert (told["chunker.size"][0], told["chunker.overlap"][0]) == (str(chunker.size), str(chunker.overlap))
    assert (told["chunker"][0], told["embedder"][0]) == (f"`{chunker.name}`", f"`{EmbedderSpec().name}`")
    assert {name.partition(".")[0] for name in told} == set(Configuration.model_fields)
