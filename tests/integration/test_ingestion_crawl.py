"""A run whose source finds its own way: it is at its end when nothing that was found is left, and not before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.pipelines.ingestion import control, loading, sources
from penstock.pipelines.ingestion.model import Configuration, Document, Entry, Known, Loaded
from penstock.pipelines.ingestion.plugins import Tools
from tests.support.ingestion_library import opened

PAGES = 21


class Web:
    """A front page that leads to ten, the last of which leads to ten more."""

    def __init__(self, options: Mapping[str, Any], tools: Tools) -> None:
        self._frontier = tools.frontier
        self._most = int(options.get("most", 1000))

    async def seeds(self) -> list[str]:
        return ["page-0"]

    async def entries(self, cursor: str | None) -> AsyncIterator[Entry]:
        async for number, uri in self._frontier.pending(int(cursor or 0)):
            if number > self._most:
                return
            yield Entry(uri, str(number))

    async def load(self, entry: Entry, known: Known | None) -> Loaded:
        number = int(entry.uri.split("-")[1])
        found = {0: range(1, 11), 10: range(10, 21)}.get(number, range(0))
        document = Document(entry.uri, entry.uri, f"This is page {number}, and no other.")
        return Loaded(document, tuple(f"page-{each}" for each in found))

    async def count(self) -> int | None:
        return None

    async def close(self) -> None: ...


@pytest.fixture(autouse=True)
def _web(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sources.SOURCES, "web", f"{__name__}:Web")


@pytest.mark.parametrize("seconds", [60.0, 0.0], ids=["quick", "one a batch"])
def test_every_page_that_is_found_is_visited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(loading, "LOAD_SECONDS", seconds + 1e-9)
    assert seen(tmp_path, {}) == (PAGES, PAGES)


def test_a_site_that_is_larger_than_wanted_is_cut_off_there(tmp_path: Path) -> None:
    assert seen(tmp_path, {"most": 5}) == (5, 5)


def seen(folder: Path, options: dict[str, Any]) -> tuple[int, int]:
    """How many documents a run saw, and how many there are after another that finds them all unchanged."""
    config = Configuration.model_validate({"sources": [{"type": "web", "url": "x", **options}], "embedder": "hashing"})

    async def main() -> tuple[int, int]:
        async with opened(f"sqlite:///{folder}/web.db", folder) as app, app.worker():
            first = await app.wait((await control.start(app, "web", config)).job_id, timeout=60)
            assert first.error is None
            again = await app.wait((await control.start(app, "web", config)).job_id, timeout=60)
            return first.counters["docs_seen"], again.counters["docs_unchanged"]

    return asyncio.run(main())
