"""Knowledge bases as programs use them: `penstock.ingestion`, and a source that a package brings. That the whole works
is shown by `examples/ingestion.py`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock import Conflict, InvalidRequest, NotFound, Penstock, ingestion
from penstock.config import Settings
from tests.acceptance.test_docs import ROOT, blocks_of

PAGE = ROOT / "docs/how-to/ingestion.md"


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are relative to the working folder."""
    monkeypatch.chdir(tmp_path)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Penstock]:
    app = Penstock(workflows=ingestion.PIPELINE)
    await app.open(store=f"sqlite:///{folder}/penstock.db", settings=Settings(home=folder / "home"))
    try:
        yield app
    finally:
        await app.close()


def source_of(folder: str, **texts: str) -> dict[str, Any]:
    Path(folder).mkdir()
    for name, text in texts.items():
        Path(folder, f"{name}.md").write_text(text)
    return {"type": "markdown", "path": Path(folder)}


async def ended(app: Penstock) -> ingestion.Status:
    async with app.worker():
        return await ingestion.wait(app, "kb", timeout=60)


@pytest.mark.anyio
async def test_a_run_that_was_cancelled_leaves_the_sources_as_they_were(tmp_path: Path) -> None:
    docs = source_of("docs", pump="# Pump\n\nIt drips.")
    notes = source_of("notes", lunch="# Lunch\n\nSoup.", pump="# Pump\n\nIt drips.")
    async with opened(tmp_path) as app:
        await ingestion.start(app, "kb", {"sources": [docs]})
        assert (await ended(app)).counters["chunks_processed"] == 1
        await ingestion.start(app, "kb", {"sources": [notes]})
        with pytest.raises(Conflict, match="is running: wait for it"):
            await ingestion.start(app, "kb")
        assert (await ingestion.pause(app, "kb")).status == "paused"
        assert (await ingestion.wait(app, "kb")).status == "paused"
        await ingestion.resume(app, "kb")
        assert (await ingestion.cancel(app, "kb")).status == "canceled"
        assert (await ended(app)).status == "not_started"
        planned = await ingestion.plan(app, "kb")
        assert (planned.documents, planned.tokens, planned.cost) == (1, 0, 0)
        refreshed = await ingestion.start(app, "kb")
        told = await ended(app)
        assert (told.id, told.status, told.counters["docs_seen"]) == (refreshed.id, "completed", 1)
        assert [each.uri for each in await ingestion.documents(app, "kb")] == ["pump.md"]
        (hit,) = await ingestion.search(app, "kb", "what drips?")
        assert (hit.source, hit.title, hit.text) == ("pump.md", "Pump", "# Pump\n\nIt drips.")


@pytest.mark.anyio
async def test_a_knowledge_base_is_refreshed_by_itself_until_it_is_forgotten(tmp_path: Path) -> None:
    async with opened(tmp_path) as app:
        await ingestion.start(app, "kb", {"sources": [source_of("docs", pump="# Pump")]})
        await ended(app)
        assert await ingestion.refresh_every(app, "kb", 900) == "*/15 * * * *"
        await app.unschedule("ingestion:kb")
        await ingestion.refresh_every(app, "kb", 900)
        assert (await ingestion.verify(app, "kb")).sound
        async with app.worker():
            assert (await app.wait(await ingestion.repair(app, "kb"))).result == {}
            assert (await app.wait(await ingestion.forget(app, "kb", actor="anna"))).status == "completed"
        assert await app.schedules() == []
        assert await ingestion.bases(app) == []


@pytest.mark.anyio
async def test_what_is_not_there_or_makes_no_sense_is_refused(tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, r"^sources: Field required"),
        ({"sources": []}, r"^sources: "),
        ({"sources": [{"type": "markdown", "path": ""}]}, r"path: "),
        ({"sources": [{"type": "markdown", "path": "gone"}]}, rf"{tmp_path}/gone cannot be read"),
        ({"sources": [{"type": "gopher"}]}, "no source 'gopher'; there are: markdown, pdf"),
        ({"sources": [{"type": "pdf", "path": "."}], "chunker": {"overlap": 700}}, "overlap must be at most half"),
    ]
    async with opened(tmp_path) as app:
        for config, why in wrong:
            with pytest.raises(InvalidRequest, match=why):
                await ingestion.start(app, "kb", config)
        for asked in (ingestion.status, ingestion.plan, ingestion.verify, ingestion.documents, ingestion.errors):
            with pytest.raises(NotFound, match="'kb'"):
                await asked(app, "kb")  # type: ignore[operator]
        assert await ingestion.bases(app) == []


@pytest.mark.anyio
async def test_the_source_of_the_how_to_page_works_once_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = (block for block in blocks_of(PAGE, "python") if block.title == "tickets.py")
    (toml,) = (block for block in blocks_of(PAGE, "toml") if block.title == "pyproject.toml")
    group, _, line = toml.text.partition("[project.entry-points.")[2].partition("\n")
    installed = tmp_path / "site-packages"
    info = installed / "penstock_tickets-1.dist-info"
    info.mkdir(parents=True)
    (installed / "tickets.py").write_text(block.text)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: penstock-tickets\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{group.strip(']').strip(chr(34))}]\n" + line.replace('"', ""))
    monkeypatch.syspath_prepend(installed)
    path = tmp_path / "tickets.jsonl"
    desk = [{"id": n, "title": f"Ticket {n}", "text": f"The valve {n} sticks.", "status": "open"} for n in range(12)]
    desk[3]["text"] = ""
    desk[7] |= {"text": "The boiler howls at night.", "status": "closed"}

    def written() -> None:
        path.write_text("".join(f"{json.dumps(each)}\n" for each in desk))

    written()
    async with opened(tmp_path) as app:
        await ingestion.start(app, "kb", {"sources": [{"type": "tickets", "path": str(path)}], "prune": True})
        told = await ended(app)
        assert (told.status, told.counters["docs_seen"], told.errors) == ("completed", 12, 1)
        assert [(each.uri, each.error) for each in await ingestion.errors(app, "kb")] == [
            ("ticket:3", "ticket:3 has no text")
        ]
        hits = await ingestion.search(app, "kb", "what howls?", filter={"status": "closed"})
        assert [(hit.source, hit.metadata) for hit in hits] == [("ticket:7", {"status": "closed"})]
        desk[3]["text"], desk[5]["text"] = "The pump is loud.", "The valve 5 is new."
        written()
        await ingestion.retry_errors(app, "kb")
        assert (await ended(app)).counters["chunks_processed"] == 1
        del desk[0]
        written()
        await ingestion.start(app, "kb")
        seen = (await ended(app)).counters
        assert (seen["docs_unchanged"], seen["docs_replaced"], seen["docs_removed"]) == (10, 1, 1)
        (kb,) = await ingestion.bases(app)
        assert (kb.documents, kb.chunks, kb.errors) == (11, 11, 0)
    with pytest.raises(InvalidRequest, match="source tickets: path must be a file"):
        async with opened(tmp_path) as app:
            await ingestion.start(app, "other", {"sources": [{"type": "tickets", "path": "nowhere"}]})
