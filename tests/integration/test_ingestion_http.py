"""The routes of ingestion on a real service: a knowledge base that clients fill, steer, search, verify and delete; what
files of the machine they may name; and what they are told when they ask for what cannot be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock.engine.errors import Permanent, Transient
from penstock.pipelines.ingestion import api_bases, bases, embedders, sources
from penstock.pipelines.ingestion.index import index_for
from penstock.pipelines.ingestion.model import Entry
from penstock.pipelines.ingestion.sources.folders import NamedFiles
from penstock.pipelines.ingestion.workflow import ALL
from penstock.service.sections import found_sections
from tests.support.api import PATIENCE, Api, serving
from tests.support.house import in_a_loop
from tests.support.ingestion_library import Hashing

NOTES = {
    "bees.md": "---\nlanguage: en\n---\n# Bees\n\nA swarm of bees gives no honey in winter.\n",
    "roses.md": "---\nlanguage: en\n---\n# Roses\n\nRoses are cut back before the first frost.\n",
    "guides/wells.md": "---\nlanguage: de\n---\n# Brunnen\n\nDer Brunnen hinter dem Haus ist zwölf Meter tief.\n",
}
SOURCE = {"type": "markdown", "path": "notes"}
BODY: dict[str, Any] = {"sources": [SOURCE], "chunker": "markdown", "embedder": "hashing"}


class Mute(Hashing):
    """An embedder that takes documents, and has nobody to answer questions."""

    name = "mute"

    async def embed_query(self, text: str, engine: Any) -> Any:
        raise Transient("nobody is there")


class Endless:
    """A source that says when it is asked for its entries, and then waits."""

    asked: asyncio.Event
    go_on: asyncio.Event

    def __init__(self, options: Mapping[str, Any], tools: Any) -> None:
        self.options = options

    async def entries(self, cursor: str | None) -> AsyncIterator[Entry]:
        Endless.asked.set()
        await Endless.go_on.wait()
        for each in ():
            yield each

    async def close(self) -> None: ...


@pytest.fixture(autouse=True)
def _kinds() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as mine:
        mine.setitem(embedders.EMBEDDERS, "mute", f"{__name__}:Mute")
        mine.setitem(embedders.EMBEDDERS, "hashing", "tests.support.ingestion_library:Hashing")
        mine.setitem(sources.SOURCES, "endless", f"{__name__}:Endless")
        yield


def written(folder: Path, notes: Mapping[str, str] = NOTES) -> Path:
    for name, text in notes.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@asynccontextmanager
async def library(folder: Path, *, roots: list[str] | None = None, open_access: bool = True, store: str | None = None
                  ) -> AsyncIterator[tuple[Api, httpx2.AsyncClient]]:  # fmt: skip
    """A service to which `folder/shelf` is open, and somebody who asks it."""
    (home := folder / "home").mkdir(exist_ok=True)
    also: dict[str, Any] = {"ingestion": {"roots": [str(folder / "shelf")] if roots is None else roots}}
    if store is not None:
        also["store"] = store
    async with serving(home, open_access=open_access, more=list(ALL), sections=found_sections(), also=also) as api:
        secret = None if open_access else await api.secret(f"boss-{roots is None}", "admin")
        async with api.client(secret) as client:
            yield api, client


async def filled(api: Api, client: httpx2.AsyncClient, body: dict[str, Any] = BODY, name: str = "garden") -> str:
    run: str = (await client.post(f"/jobs/{name}/start", json=body)).json()["id"]
    await api.run(run)
    return run


def test_a_knowledge_base_from_its_first_run_to_its_end(tmp_path: Path) -> None:
    in_a_loop(from_first_to_last)(tmp_path)


def test_the_same_on_postgresql(tmp_path: Path, pgvector_url: str) -> None:
    in_a_loop(from_first_to_last)(tmp_path, pgvector_url)


async def from_first_to_last(folder: Path, store: str | None = None) -> None:
    written(folder / "shelf" / "notes")
    async with library(folder, store=store) as (api, client):
        planned = (await client.post("/kb/plan", json={"kb_id": "garden", **BODY})).json()
        assert (planned["documents"], planned["chunks"], planned["exact"], planned["cost_usd"]) == (3, 3, True, 0)
        assert (await client.get("/kb")).json()["items"] == []
        assert (await client.get("/kb/garden")).json()["plan"] == planned
        started = await client.post("/jobs/garden/start", json=BODY)
        run = started.json()["id"]
        assert (started.status_code, started.headers["location"]) == (202, f"/jobs/{run}/status")
        assert (started.json()["status"], started.json()["kb_id"], started.json()["checkpoint"]) == (
            "running", "garden", None
        )  # fmt: skip
        await steered(client, run)
        await api.run(run)

        for name in (f"/jobs/{run}", "/jobs/garden", "/ingestion/jobs/garden", f"/ingestion/jobs/{run}"):
            told = (await client.get(f"{name}/status")).json()
            assert (told["id"], told["status"], told["errors"], told["stalled"]) == (run, "completed", 0, False)
        assert told["counters"] | {"docs_seen": 3, "chunks_processed": 3} == told["counters"]
        assert told["checkpoint"]["last_batch_id"] == 1 and told["finished_at"].endswith("Z")
        assert told["plan"] == planned
        assert [phase["name"] for phase in told["phases"]] == ["load", "chunk", "embed", "index"]
        await looked_into(client, run)

        again = await filled(api, client, {})
        told = (await client.get(f"/jobs/{again}/status")).json()
        assert told["counters"]["docs_unchanged"] == 3 and told["counters"]["chunks_processed"] == 0
        runs = (await client.get("/kb/garden/runs?limit=1")).json()
        assert [one["id"] for one in runs["items"]] == [again]
        runs = (await client.get(f"/kb/garden/runs?cursor={runs['next']}")).json()
        assert [(one["id"], one["counters"]["chunks_processed"]) for one in runs["items"]] == [(run, 3)]

        gone = await client.delete("/kb/garden")
        assert gone.status_code == 202 and gone.headers["location"].endswith(gone.json()["job_id"])
        for path in ("/kb/garden", "/kb/garden/search?q=bees", "/jobs/garden/status"):
            assert (await client.get(path)).status_code == 404, path
        await api.run(gone.json()["job_id"])
        assert (await client.get("/kb")).json() == {"items": [], "next": None}
        assert (await client.get(f"/jobs/{run}/status")).status_code == 404
        actions = [one["action"] for one in (await client.get("/api/v1/audit")).json()["items"]]
        assert actions[0] == "ingestion.forget" and actions.count("ingestion.start") == 2


async def steered(client: httpx2.AsyncClient, run: str) -> None:
    """While one run is active no other begins, and each step is allowed once."""
    for path, state in (("/jobs/garden", "running"), ("/ingestion/jobs/garden", "paused")):
        refused = await client.post(f"{path}/start", json=BODY)
        assert (refused.status_code, refused.json()["id"], refused.json()["state"]) == (409, run, state)
        if state == "running":
            assert (await client.post(f"/jobs/{run}/pause")).json()["status"] == "paused"
    refused = await client.post("/ingestion/jobs/garden/pause")
    assert (refused.status_code, refused.json()["id"], refused.json()["state"]) == (409, run, "paused")
    refused = await client.delete("/kb/garden")
    assert (refused.status_code, refused.json()["id"], refused.json()["state"]) == (409, run, "paused")
    assert (await client.get(f"/jobs/{run}/status")).json()["status"] == "paused"
    assert (await client.post("/ingestion/jobs/garden/resume")).json()["status"] == "running"
    refused = await client.post(f"/jobs/{run}/resume")
    assert (refused.status_code, refused.json()["state"]) == (409, "running")


async def looked_into(client: httpx2.AsyncClient, run: str) -> None:
    (line,) = (await client.get("/kb")).json()["items"]
    assert (line["kb_id"], line["status"], line["run"], line["documents"], line["chunks"]) == (
        "garden", "completed", run, 3, 3
    )  # fmt: skip
    assert line["embedder"] == {"name": "hashing", "model": "sha-256", "dimension": 16}
    shown = (await client.get("/kb/garden")).json()
    assert shown["last_run"]["id"] == run and shown["config"]["sources"][0]["path"].endswith("/shelf/notes")
    assert shown["schedule"] is None and "resolved" not in shown["config"]["sources"][0]

    first = (await client.get("/kb/garden/documents?limit=2")).json()
    rest = (await client.get(f"/kb/garden/documents?limit=2&cursor={first['next']}")).json()
    assert [one["uri"] for one in first["items"] + rest["items"]] == sorted(NOTES) and rest["next"] is None
    assert rest["items"][0]["metadata"] == {"language": "en"} and rest["items"][0]["run"] == run

    for query, wanted in (
        ("q=frost&mode=text", ["roses.md"]),
        ("q=honey&mode=text&filter=language:de", []),
        ("q=honey&mode=text&filter=language:en&filter=uri:bee*", ["bees.md"]),
        ("q=well&mode=vector&top=3&filter=uri:guides/*", ["guides/wells.md"]),
    ):
        told = (await client.get(f"/kb/garden/search?{query}")).json()
        assert [hit["source"] for hit in told["hits"]] == wanted, query
    hits = (await client.get("/kb/garden/search?q=bees+in+winter")).json()["hits"]
    assert len(hits) == 3 and {hit["title"] for hit in hits} == {"Bees", "Roses", "Brunnen"}
    text = (await client.get("/metrics")).text
    for words in ('chunks_total{outcome="processed"} 3.0', "knowledge_bases 1.0", "indexed_documents 3.0",
                  'documents_total{outcome="loaded"} 3.0', 'runs{status="running"} 0.0',
                  'search_seconds_count{mode="text"} 3.0'):  # fmt: skip
        assert f"penstock_ingestion_{words}" in text, words


@in_a_loop
async def test_a_cancelled_run_leaves_nothing_and_says_so(tmp_path: Path) -> None:
    written(tmp_path / "shelf" / "notes")
    async with library(tmp_path) as (api, client):
        run = (await client.post("/jobs/garden/start", json=BODY)).json()["id"]
        assert (await client.post(f"/ingestion/jobs/{run}/cancel")).json()["status"] in ("canceled", "not_started")
        await api.run(run)
        told = (await client.get("/jobs/garden/status")).json()
        assert (told["status"], told["last_error"], told["checkpoint"]) == ("not_started", "Canceled by user", None)
        refused = await client.post("/jobs/garden/cancel")
        assert (refused.status_code, refused.json()["state"]) == (409, "not_started")
        assert (await client.get("/kb/garden/documents")).json()["items"] == []
        assert (await client.get("/kb/garden/verify")).json()["sound"] is True
        # What was asked for is kept: it can be started without another word.
        await filled(api, client, {})
        assert (await client.get("/kb/garden")).json()["documents"] == 3


@in_a_loop
async def test_chunker_and_embedder_stay_unless_it_is_rebuilt(tmp_path: Path) -> None:
    written(tmp_path / "shelf" / "notes")
    async with library(tmp_path) as (api, client):
        run = await filled(api, client)
        for other in ({"chunker": "sentence"}, {"embedder": {"dimension": 8}}, {"embedder": "local"}):
            refused = await client.post("/jobs/garden/start", json=other)
            assert (refused.status_code, refused.json()["id"], refused.json()["state"]) == (409, run, "completed")
            assert (await client.post("/kb/plan", json={"kb_id": "garden", **other})).status_code == 409
        rebuilt = {"chunker": {"name": "sentence", "size": 100, "overlap": 10}, "rebuild": True}
        canceled = (await client.post("/jobs/garden/start", json=rebuilt)).json()["id"]
        await client.post(f"/jobs/{canceled}/cancel")
        await api.run(canceled)
        # A rebuild that came to nothing has changed nothing.
        written(tmp_path / "shelf" / "notes", {"new.md": "# New\n\nA new page.\n"})
        await filled(api, client, {"prune": True})
        shown = (await client.get("/kb/garden")).json()
        assert (shown["documents"], shown["chunker"]["name"]) == (4, "markdown") and shown["config"]["prune"] is True
        await filled(api, client, rebuilt)
        shown = (await client.get("/kb/garden")).json()
        assert (shown["chunker"], shown["documents"]) == ({"name": "sentence", "size": 100, "overlap": 10}, 4)


@in_a_loop
async def test_what_could_not_be_read_is_listed_and_tried_again(tmp_path: Path) -> None:
    notes = written(tmp_path / "shelf" / "notes")
    for name in ("broken.md", "torn.md"):
        (notes / name).write_bytes(b"# Broken\n\n\x00\x00\n")
    async with library(tmp_path) as (api, client):
        run = await filled(api, client)
        told = (await client.get(f"/jobs/{run}/status")).json()
        assert (told["status"], told["errors"], told["counters"]["docs_error"]) == ("completed", 2, 2)
        newest = (await client.get("/kb/garden/errors?limit=1")).json()
        older = (await client.get(f"/kb/garden/errors?cursor={newest['next']}")).json()
        errors = newest["items"] + older["items"]
        assert {one["source"] for one in errors} == {"broken.md", "torn.md"} and errors[0]["chunk"] is None
        assert "no text" in errors[0]["error"] and (await client.get("/kb")).json()["items"][0]["errors"] == 2
        assert (await client.get("/kb/garden/errors?run=0nobody")).json()["items"] == []
        for name in ("broken.md", "torn.md"):
            (notes / name).write_text("# Mended\n\nIt can be read.\n")
        retried = await client.post("/jobs/garden/resume", json={"errors": True})
        assert retried.status_code == 200 and retried.json()["id"] != run
        await api.run(retried.json()["id"])
        shown = (await client.get("/kb/garden")).json()
        assert (shown["errors"], shown["documents"]) == (0, 5)
        refused = await client.post("/jobs/garden/resume", json={"errors": True})
        assert (refused.status_code, refused.json()["state"]) == (409, "completed")


@in_a_loop
async def test_an_index_that_differs_is_told_and_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "shelf" / "notes")
    async with library(tmp_path) as (api, client):
        await filled(api, client)
        engine = api.penstock.engine
        edition = (await bases.base_of(engine, "default", "garden")).edition
        assert edition is not None
        ((n, text),) = await engine.read("SELECT n, text FROM kb_chunks WHERE n = 1")
        await engine.write(*index_for(engine).remove(edition, [(n, text)]))
        told = (await client.get("/kb/garden/verify")).json()
        assert told["sound"] is False and {one["fault"] for one in told["faults"]} == {"no_vector", "no_text"}
        assert told["faults"][0]["numbers"] == [1] and told["cursor"] is None
        # Where there is no time for all of it, the next request goes on.
        monkeypatch.setattr(api_bases, "VERIFY_SECONDS", -1.0)
        first = (await client.get("/kb/garden/verify")).json()
        assert (first["chunks"], first["documents"], first["sound"]) == (3, 0, False) and first["cursor"]
        rest = (await client.get(f"/kb/garden/verify?cursor={first['cursor']}")).json()
        assert (rest["chunks"], rest["documents"], rest["sound"], rest["cursor"]) == (0, 3, True, None)
        monkeypatch.undo()
        repair = await client.post("/kb/garden/repair")
        assert repair.status_code == 202
        assert (await client.post("/kb/garden/repair")).json() == repair.json()
        await api.run(repair.json()["job_id"])
        assert (await client.get("/kb/garden/verify")).json()["sound"] is True


@in_a_loop
async def test_no_file_outside_of_the_roots_can_be_named(tmp_path: Path) -> None:
    written(tmp_path / "shelf" / "notes")
    written(tmp_path / "secret")
    (tmp_path / "shelf" / "way-out").symlink_to(tmp_path / "secret")
    (tmp_path / "shelf-too").mkdir()
    outside = (str(tmp_path / "secret"), "../secret", "way-out", "way-out/bees.md", "/", "/nonesuch", "..", "~",
               "~root/x", str(tmp_path / "shelf-too"), "notes/../../secret", "x\u0000", 7, {"a": 1}, "")  # fmt: skip
    async with library(tmp_path) as (api, client):
        for option, kind in (("path", "markdown"), ("path", "pdf"), ("paths", "pdf"), ("files", "youtube"),
                             ("path", "of-a-package"), ("files", "of-a-package")):  # fmt: skip
            for path in outside:
                told = path if option == "path" else ["notes/a.pdf", path]
                for target, body in (("/jobs/garden/start", {}), ("/kb/plan", {"kb_id": "garden"})):
                    sent = {**body, "sources": [SOURCE, {"type": kind, option: told}]}
                    answer = await client.post(target, json=sent)
                    where = f"body.sources.1.{option}{'' if option == 'path' else '.1'}"
                    assert answer.status_code == 422, (kind, option, path)
                    if path != "x\u0000":
                        assert [one["location"] for one in answer.json()["errors"]] == [where], answer.text
                    assert str(tmp_path) not in answer.text and "No such" not in answer.text
        many = {"type": "pdf", "paths": ["notes/a.pdf"] * 1001}
        assert "name their folder" in (await client.post("/jobs/garden/start", json={"sources": [many]})).text
        sent = {"sources": [{**SOURCE, "resolved": False}]}
        assert "for the service to say" in (await client.post("/jobs/garden/start", json=sent)).text
        private = {"sources": [{"type": "website", "url": "http://127.0.0.1:9/"}]}
        assert "private" in (await client.post("/jobs/garden/start", json=private)).text
        assert (await client.get("/kb")).json()["items"] == []

        # A folder or a file that becomes a link after it was checked is not followed, however late that is.
        named = NamedFiles({"bees.md": tmp_path.resolve() / "shelf" / "notes" / "bees.md"}, resolved=True)
        assert named.find("bees.md") is not None
        run = (await client.post("/jobs/garden/start", json=BODY)).json()["id"]
        (tmp_path / "shelf" / "notes").rename(tmp_path / "shelf" / "old")
        (tmp_path / "shelf" / "notes").symlink_to(tmp_path / "secret")
        with pytest.raises(Permanent, match="by a link"):
            named.find("bees.md")
        assert "by a link" in (await client.post("/kb/plan", json={"kb_id": "garden"})).text
        await client.post(f"/jobs/{run}/cancel")
        await api.run(run)
        refused = await client.post("/jobs/garden/start")
        assert refused.status_code == 422 and "by a link" in refused.json()["detail"]


@in_a_loop
async def test_each_tenant_has_files_of_its_own(tmp_path: Path) -> None:
    for name in ("acme", "bolt", "shelf"):
        written(tmp_path / name / "notes")
    roots = [str(tmp_path / "shelf"), str(tmp_path / "{tenant}")]
    async with library(tmp_path, roots=roots, open_access=False) as (api, boss):
        async with api.client(await api.secret("acme", "operate", tenant="acme")) as acme:
            own = (await acme.post("/jobs/garden/start", json=BODY)).json()
            assert own["tenant"] == "acme"
            for path in ("../bolt/notes", str(tmp_path / "shelf" / "notes")):
                sent = {"sources": [{"type": "markdown", "path": path}]}
                assert (await acme.post("/jobs/other/start", json=sent)).status_code == 422
        # The same name is another knowledge base for each, and runs are found by their ids alone.
        for tenant in ("default", "bolt"):
            started = await boss.post(f"/jobs/garden/start?tenant={tenant}", json=BODY)
            assert (started.status_code, started.json()["tenant"]) == (202, tenant)
        first = (await boss.get("/kb?limit=2")).json()
        rest = (await boss.get(f"/kb?limit=2&cursor={first['next']}")).json()
        assert [one["tenant"] for one in first["items"] + rest["items"]] == ["acme", "bolt", "default"]
        assert (await boss.get(f"/jobs/{own['id']}/status")).json()["tenant"] == "acme"
        assert (await boss.get("/kb/garden?tenant=acme")).json()["last_run"]["id"] == own["id"]
        assert (await boss.get("/kb/garden")).json()["tenant"] == "default"
        refused = await boss.post("/jobs/garden/start?tenant=..", json=BODY)
        assert refused.status_code == 403 and "ingestion.roots" in refused.json()["detail"]
    async with library(tmp_path, open_access=False) as (_, boss):
        refused = await boss.post("/jobs/garden/start?tenant=zen", json=BODY)
        assert refused.status_code == 403 and "ingestion.roots" in refused.json()["detail"]


@in_a_loop
async def test_a_run_is_started_by_its_own_routes_alone_and_once(tmp_path: Path) -> None:
    written(tmp_path / "shelf" / "notes")
    async with library(tmp_path) as (_, client):
        for workflow in ALL:
            job = {"workflow": workflow.name, "payload": {"ask": {"base": "x", "config": BODY}, "base": "x"}}
            for method, path, sent in (
                ("POST", "/api/v1/jobs", job),
                ("POST", "/api/v1/batches", {"then": job}),
                ("PUT", "/api/v1/schedules/nightly", {**job, "cron": "0 6 * * *"}),
            ):
                refused = await client.request(method, path, json=sent)
                assert refused.status_code == 403 and "routes of knowledge" in refused.json()["detail"], path
        key = {"Idempotency-Key": "first-17"}
        first = await client.post("/jobs/garden/start", json=BODY, headers=key)
        again = await client.post("/jobs/garden/start", json=BODY, headers=key)
        assert (first.status_code, again.status_code) == (202, 202) and first.json() == again.json()
        other = await client.post("/jobs/garden/start", json={**BODY, "prune": True}, headers=key)
        assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency-key-reused")
        assert len((await client.get("/kb/garden/runs")).json()["items"]) == 1


@in_a_loop
async def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    written(tmp_path / "shelf" / "notes")
    async with library(tmp_path) as (api, client):
        for method, path in (
            ("POST", "/jobs/nobody/start"), ("POST", "/jobs/nobody/pause"), ("POST", "/jobs/nobody/resume"),
            ("POST", "/ingestion/jobs/nobody/cancel"), ("GET", "/jobs/nobody/status"), ("GET", "/kb/nobody"),
            ("DELETE", "/kb/nobody"), ("GET", "/kb/nobody/search?q=x"), ("GET", "/kb/nobody/documents"),
            ("GET", "/kb/nobody/errors"), ("GET", "/kb/nobody/runs"), ("GET", "/kb/nobody/verify"),
            ("POST", "/kb/nobody/repair"),
        ):  # fmt: skip
            answer = await client.request(method, path)
            assert (answer.status_code, "'nobody'" in answer.json()["detail"]) == (404, True), path
        assert (await client.post("/kb/plan", json={"kb_id": "nobody"})).status_code == 404
        for sent, location in (
            ({"sources": []}, "body.sources"),
            ({"sources": [{"path": "notes"}]}, "body.sources.0.type"),
            ({**BODY, "chunker": {"size": 5}}, "body.chunker.size"),
            ({**BODY, "chunker": {"size": 100, "overlap": 90}}, "body.chunker"),
            ({**BODY, "chunks": 3}, "body.chunks"),
            ({**BODY, "chunker": "nonesuch"}, "request"),
            ({**BODY, "embedder": "nonesuch"}, "request"),
            ({"sources": [{"type": "nonesuch"}]}, "request"),
            ({"sources": [{"type": "markdown", "path": "notes", "deep": 1}]}, "request"),
            ({"sources": [{"type": "markdown", "path": "notes/missing"}]}, "request"),
        ):
            answer = await client.post("/jobs/garden/start", json=sent)
            assert (answer.status_code, answer.json()["errors"][0]["location"]) == (422, location), answer.text
        assert (await client.post("/jobs/a:b/start", json=BODY)).status_code == 422
        assert (await client.get("/kb")).json()["items"] == []
        await filled(api, client, {**BODY, "embedder": "mute"})
        for query in ("search", "search?q=%20", "search?q=x&top=0", "search?q=x&mode=loud", "search?q=x&filter=a",
                      "search?q=x&filter=a:b&filter=a:c", "documents?cursor=x", "errors?cursor=WzFd",
                      "verify?cursor=WzFd", "verify?cursor=WyJ4IiwgMV0", "runs?before=1"):  # fmt: skip
            assert (await client.get(f"/kb/garden/{query}")).status_code == 422, query
        away = await client.get("/kb/garden/search?q=bees")
        assert away.status_code == 503 and away.headers["retry-after"] and "nobody is there" in away.json()["detail"]
        assert (await client.get("/kb/garden/search?q=bees&mode=text")).json()["hits"][0]["source"] == "bees.md"


@in_a_loop
async def test_plans_are_made_a_few_at_a_time_and_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "shelf" / "notes")
    Endless.asked, Endless.go_on = asyncio.Event(), asyncio.Event()
    sent = {"kb_id": "garden", "sources": [{"type": "endless"}]}
    async with library(tmp_path) as (_, client):
        plans = []
        for _ in range(api_bases.PLANS_AT_ONCE):
            Endless.asked.clear()
            plans.append(asyncio.create_task(client.post("/kb/plan", json=sent)))
            async with asyncio.timeout(PATIENCE):
                await Endless.asked.wait()
        refused = await client.post("/kb/plan", json=sent)
        assert refused.status_code == 429 and refused.headers["retry-after"]
        Endless.go_on.set()
        assert [(await plan).json()["documents"] for plan in plans] == [0] * len(plans)
        # What is not read within the time is taken to be like the rest; and in the end nobody waits any more.
        monkeypatch.setattr(api_bases, "PLAN_READING", -1.0)
        told = (await client.post("/kb/plan", json={"kb_id": "garden", **BODY})).json()
        assert (told["documents"], told["exact"]) == (3, False)
        Endless.go_on.clear()
        monkeypatch.setattr(api_bases, "PLAN_SECONDS", 0.0)
        given_up = await client.post("/kb/plan", json=sent)
        assert given_up.status_code == 503 and "penstock ingest plan" in given_up.json()["detail"]
