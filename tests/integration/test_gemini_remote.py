"""Our Gemini remote and Google's own SDK against the local Gemini: every call we make, and everything that can go
wrong with it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel

from penstock.engine.call import Usage, call_id
from penstock.engine.clock import SystemClock
from penstock.engine.errors import Ambiguous, InvalidRequest, Permanent, RateLimited, StepError, Transient
from penstock.gemini_local.app import create_app, inline_call
from penstock.gemini_local.backends.script import ScriptBackend
from penstock.gemini_local.faults import Fault
from penstock.gemini_local.settings import Pace, Settings
from penstock.remote.gemini.batch import GeminiBatch
from penstock.remote.gemini.caching import GeminiCache, delete_cache, ensure_cache
from penstock.remote.gemini.client import GeminiClient
from penstock.remote.gemini.requests import embed_request, file, generate_request, json_schema
from penstock.remote.gemini.results import read_rows
from penstock.remote.gemini.rows import OUTCOMES, Row
from penstock.remote.gemini.settings import GeminiSettings
from penstock.remote.gemini.single import GeminiEmbed, GeminiGenerate, generate
from penstock.remote.protocol import Accepted, Collected, Found, Order, Polled, ResultGone
from penstock.simulation.clock import SimClock
from penstock.simulation.loop import VirtualLoop
from tests.support.gemini import Gemini, running_gemini

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000154a24f5f"
    "0000000049454e44ae426082"
)


class Total(BaseModel):
    total: int


@pytest.fixture(scope="module")
def server() -> Iterator[Gemini]:
    with running_gemini() as gemini:
        yield gemini


@pytest.fixture
def gemini(server: Gemini) -> Gemini:
    server.reset()
    server.script([])
    return server


class Desk:
    """What the engine does with a remote, in short."""

    def __init__(self, gemini: Gemini, client: GeminiClient, folder: Path) -> None:
        self.gemini = gemini
        self.client = client
        self.remote = GeminiBatch(client)
        self.folder = folder

    async def prepared(self, request: Any, label: str = "label-1") -> Order:
        order = Order(label, "acme", "job", "key", 1, request, self.folder / label)
        plan = await self.remote.prepare(order)
        return replace(order, prepared=json.loads(json.dumps(dict(plan.prepared))), request=None)

    async def ended(self, order: Order, provider_id: str) -> Polled:
        while (polled := await self.remote.poll(order, provider_id)).state in ("running", "unknown"):
            await asyncio.sleep(0.02)
        return polled

    async def home(self, request: Any) -> tuple[Order, Collected, list[Row]]:
        order = await self.prepared(request)
        sent = await self.remote.submit(order)
        polled = await self.ended(order, sent.provider_id)
        assert polled.state == "succeeded", polled
        collected = await self.remote.collect(order, sent.provider_id)
        await self.remote.tidy(order, sent.provider_id)
        return order, collected, list(read_rows(order.folder / "rows.jsonl"))


@asynccontextmanager
async def desk(gemini: Gemini, folder: Path, **settings: Any) -> AsyncIterator[Desk]:
    told = {"base_url": gemini.url, "request_timeout": 10, "create_timeout": 10, "retry_base": 0.01, **settings}
    client = GeminiClient(GeminiSettings(**told), clock=SystemClock())
    try:
        yield Desk(gemini, client, folder)
    finally:
        await client.close()


def with_desk(gemini: Gemini, folder: Path, work: Callable[[Desk], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def main() -> None:
        async with desk(gemini, folder, **settings) as ours:
            await work(ours)

    asyncio.run(main())


def rows(count: int = 4, **options: Any) -> list[dict[str, Any]]:
    return [{"key": f"r{number}", "request": generate_request(f"page {number}", **options)} for number in range(count)]


def operations(gemini: Gemini) -> list[str]:
    return [entry["operation"] for entry in gemini.journal()]


@pytest.mark.parametrize("mode", ["file", "inline"])
def test_a_batch_there_and_back(gemini: Gemini, tmp_path: Path, mode: str) -> None:
    async def work(ours: Desk) -> None:
        order, collected, got = await ours.home({"mode": mode, "model": "gemini-2.5-flash", "requests": rows()})
        assert {row.key: row.text for row in got} == {f"r{number}": f"page {number}" for number in range(4)}
        assert collected.result["rows"] == {**dict.fromkeys(OUTCOMES, 0), "ok": 4}
        assert collected.result["file"] == "rows.jsonl"
        assert collected.usage.input > 0 and collected.usage.output > 0
        assert collected.cost > 0
        assert "unpriced" not in collected.result
        done = operations(gemini)
        assert done.count("create") == 1
        assert ("upload_start" in done) == (mode == "file")
        assert done.count("file_delete") == (2 if mode == "file" else 0), "the input, and an attempt at the result"
        assert (order.folder / "result.jsonl").stat().st_size == collected.result["size"]

    with_desk(gemini, tmp_path, work)


@pytest.mark.parametrize("mode", ["file", "inline"])
def test_embeddings_in_a_batch(gemini: Gemini, tmp_path: Path, mode: str) -> None:
    asked = [{"key": f"e{number}", "request": embed_request(f"text {number}", dimensions=8)} for number in range(3)]

    async def work(ours: Desk) -> None:
        gemini.faults([{"kind": "shuffle"}])
        _, collected, got = await ours.home({"mode": mode, "kind": "embed", "requests": asked})
        assert {row.key: len(row.embedding or ()) for row in got} == {"e0": 8, "e1": 8, "e2": 8}
        assert len({tuple(row.embedding or ()) for row in got}) == 3
        assert collected.usage.input > 0 and collected.usage.output == 0

    with_desk(gemini, tmp_path, work)


def test_pictures_are_uploaded_named_in_the_rows_and_deleted(gemini: Gemini, tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    for number in range(5):
        (tmp_path / "pages" / f"{number}.png").write_bytes(PNG + bytes([number]))
    (tmp_path / "rows.jsonl").write_text(
        "\n".join(
            json.dumps({"key": f"{number}", "request": generate_request([f"page {number}", file(f"{number}.png")])})
            for number in range(5)
        )
    )
    request = {"file": str(tmp_path / "rows.jsonl"), "uploads_folder": str(tmp_path / "pages"), "mode": "file"}

    async def work(ours: Desk) -> None:
        _, collected, _ = await ours.home(request)
        assert collected.result["rows"]["ok"] == 5
        status, left = gemini.http("GET", "/v1beta/files?key=x")
        assert status == 200
        assert [file["source"] for file in left.get("files", ())] == ["GENERATED"], "the result cannot be deleted"

    with_desk(gemini, tmp_path, work)


def test_tokens_are_counted_by_gemini_where_asked(gemini: Gemini, tmp_path: Path) -> None:
    async def work(ours: Desk) -> None:
        order = Order("l", "acme", "job", "key", 1, {"requests": rows(5)}, tmp_path / "l")
        plan = await ours.remote.prepare(order)
        assert operations(gemini).count("count_tokens") == 2
        assert plan.usage.input > 0
        assert plan.estimate > 0
        assert [hold.name for hold in plan.holds] == ["gemini.batch-jobs", "gemini.batch-tokens:gemini-3.8-flash"]
        assert plan.holds[0].most == 100
        assert plan.holds[1].amount == plan.usage.input

    with_desk(gemini, tmp_path, work, count_sample=2)


def test_more_tokens_than_may_be_enqueued_are_refused(gemini: Gemini, tmp_path: Path) -> None:
    async def work(ours: Desk) -> None:
        with pytest.raises(InvalidRequest, match="split the batch"):
            await ours.prepared({"requests": rows()})
        assert operations(gemini) == []

    with_desk(gemini, tmp_path, work, enqueued_tokens={"gemini-3.8-flash": 5})


SCHEMA = json_schema(Total)

FAULTS: list[tuple[dict[str, Any], dict[str, int]]] = [
    ({"kind": "shuffle"}, {"ok": 6}),
    ({"kind": "missing_rows", "count": 2}, {"ok": 4, "missing": 2}),
    ({"kind": "duplicate_rows", "count": 2}, {"ok": 6, "duplicate": 2}),
    ({"kind": "unknown_rows", "count": 2}, {"ok": 6, "unknown": 2}),
    ({"kind": "keyless_rows", "count": 1}, {"ok": 5, "unknown": 1, "missing": 1}),
    ({"kind": "row_error", "code": 13, "count": 2}, {"ok": 4, "api_error": 2}),
    ({"kind": "row_error", "code": 1, "count": 1, "under": "status"}, {"ok": 5, "api_error": 1}),
    ({"kind": "row_error", "count": 1, "details": [{"@type": "x", "y": {"z": 1}}]}, {"ok": 5, "api_error": 1}),
    ({"kind": "truncate", "count": 2}, {"ok": 4, "truncated": 2}),
    ({"kind": "block", "count": 2}, {"ok": 4, "blocked": 2}),
    ({"kind": "invalid_json", "count": 2}, {"ok": 4, "invalid": 2}),
    ({"kind": "empty_answer", "count": 2}, {"ok": 4, "invalid": 2}),
    ({"kind": "partially_succeeded"}, {"ok": 6}),
    ({"kind": "succeeded_before_output", "seconds": 0.2}, {"ok": 6}),
    ({"kind": "half_download", "times": 2}, {"ok": 6}),
    ({"kind": "chunk_without_status", "times": 1}, {"ok": 6}),
    ({"kind": "chunk_without_status", "times": 1, "stored": True}, {"ok": 6}),
    ({"kind": "error", "where": ["upload_start", "upload_chunk", "get", "download"], "times": 4}, {"ok": 6}),
    ({"kind": "drop_after", "where": ["upload_chunk", "get", "download"], "times": 3}, {"ok": 6}),
    ({"kind": "drop_before", "where": ["upload_start", "get", "download"], "times": 3}, {"ok": 6}),
]


@pytest.mark.parametrize(("fault", "expected"), FAULTS, ids=lambda value: value.get("kind") if "kind" in value else "")
def test_whatever_happens_every_row_is_accounted_for(
    gemini: Gemini, tmp_path: Path, fault: dict[str, Any], expected: dict[str, int]
) -> None:
    async def work(ours: Desk) -> None:
        gemini.script([], default={"json": {"total": 12}})
        gemini.faults([fault])
        request = {"mode": "file", "requests": rows(6, schema=Total), "json_schema": SCHEMA}
        _, collected, got = await ours.home(request)
        assert collected.result["rows"] == {**dict.fromkeys(OUTCOMES, 0), **expected}
        assert {row.key for row in got if row.outcome != "unknown"} == {f"r{number}" for number in range(6)}
        assert all(row.parsed == {"total": 12} for row in got if row.outcome == "ok")
        assert operations(gemini).count("create") == 1
        hit = [entry["fault"] for entry in gemini.journal() if entry["fault"]]
        assert hit == [fault["kind"]] * fault.get("times", 1) or "times" not in fault, hit

    with_desk(gemini, tmp_path, work)


@pytest.mark.parametrize("kind", ["row_error", "missing_rows", "keyless_rows"])
def test_inline_rows_are_accounted_for_too(gemini: Gemini, tmp_path: Path, kind: str) -> None:
    async def work(ours: Desk) -> None:
        details = {"details": [{"@type": "x", "y": {"z": 1}}]} if kind == "row_error" else {}
        gemini.faults([{"kind": kind, "count": 1, **details}])
        _, collected, _ = await ours.home({"mode": "inline", "requests": rows()})
        assert collected.result["rows"]["ok"] == 3
        assert sum(collected.result["rows"].values()) >= 4

    with_desk(gemini, tmp_path, work)


def test_a_result_that_was_cut_short_misses_rows(gemini: Gemini, tmp_path: Path) -> None:
    async def work(ours: Desk) -> None:
        gemini.faults([{"kind": "cut_result"}])
        _, collected, _ = await ours.home({"mode": "file", "requests": rows(20)})
        tally = collected.result["rows"]
        assert tally["ok"] + tally["missing"] == 20
        assert tally["missing"] > 0

    with_desk(gemini, tmp_path, work)


@pytest.mark.parametrize(
    ("fault", "states"),
    [
        ({"kind": "fail", "code": 13, "message": "broke"}, {"failed"}),
        ({"kind": "expire"}, {"expired"}),
        ({"kind": "unknown_state", "state": "BATCH_STATE_RESTING"}, {"running", "unknown"}),
        ({"kind": "get_404_for", "seconds": 1000}, {"gone"}),
        ({"kind": "stuck_pending"}, {"running"}),
        ({"kind": "succeeded_before_output", "seconds": 1000}, {"running"}),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_what_a_poll_says(gemini: Gemini, tmp_path: Path, fault: dict[str, Any], states: set[str]) -> None:
    async def work(ours: Desk) -> None:
        gemini.faults([fault])
        order = await ours.prepared({"requests": rows()})
        sent = await ours.remote.submit(order)
        for _ in range(100 if states.isdisjoint({"running", "unknown"}) else 5):
            polled = await ours.remote.poll(order, sent.provider_id)
            if polled.state in states and polled.state != "running":
                break
            await asyncio.sleep(0.01)
        assert polled.state in states
        if polled.state == "failed":
            assert "broke" in (polled.error or "")
        with pytest.raises(ResultGone if polled.state in ("failed", "expired") else Transient):
            await ours.remote.collect(order, sent.provider_id)

    with_desk(gemini, tmp_path, work)


def test_a_result_that_is_not_given_is_told_and_is_no_end(gemini: Gemini, tmp_path: Path) -> None:
    """A 404 may be a mistake; what was paid is not given up for it."""

    async def work(ours: Desk) -> None:
        gemini.faults([{"kind": "result_gone"}])
        with pytest.raises(Transient, match=r"files/.*may not be there any more"):
            await ours.home({"mode": "file", "requests": rows()})

    with_desk(gemini, tmp_path, work)


def test_a_result_brought_home_is_not_fetched_again(gemini: Gemini, tmp_path: Path) -> None:
    """Google forgets results; the disk does not."""

    async def work(ours: Desk) -> None:
        order = await ours.prepared({"mode": "file", "requests": rows()})
        sent = await ours.remote.submit(order)
        await ours.ended(order, sent.provider_id)
        first = await ours.remote.collect(order, sent.provider_id)
        (order.folder / "rows.jsonl").unlink()
        gemini.reset()
        assert await ours.remote.collect(order, sent.provider_id) == first
        assert len(list(read_rows(order.folder / "rows.jsonl"))) == 4

    with_desk(gemini, tmp_path, work)


@pytest.mark.parametrize(
    ("fault", "error", "made"),
    [
        ({"kind": "drop_after"}, Ambiguous, 1),
        ({"kind": "drop_before"}, Ambiguous, 0),
        ({"kind": "not_json", "done": True}, Ambiguous, 1),
        ({"kind": "error", "code": 503, "done": True}, Ambiguous, 1),
        ({"kind": "error", "code": 503}, Ambiguous, 0),
        ({"kind": "hang", "done": True, "seconds": 5}, Ambiguous, 1),
        ({"kind": "error", "code": 429, "retry": 13}, RateLimited, 0),
        ({"kind": "error", "code": 400}, Permanent, 0),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("mode", ["file", "inline"])
def test_a_create_that_fails_is_sent_once_and_found_if_it_was_taken(
    gemini: Gemini, tmp_path: Path, fault: dict[str, Any], error: type[StepError], made: int, mode: str
) -> None:
    async def work(ours: Desk) -> None:
        order = await ours.prepared({"mode": mode, "requests": rows()})
        gemini.faults([{**fault, "where": "create", "times": 1}])
        with pytest.raises(error) as caught:
            await ours.remote.submit(order)
        assert type(caught.value).__name__ in (error.__name__, "Refused")
        assert operations(gemini).count("create") == 1
        found = await ours.remote.find(order)
        assert (len(found.provider_ids), found.complete) == (made, True)
        if isinstance(caught.value, RateLimited):
            assert caught.value.retry_after == 13

    with_desk(gemini, tmp_path, work, create_timeout=0.5)


def test_a_search_walks_every_page(gemini: Gemini, tmp_path: Path) -> None:
    async def work(ours: Desk) -> None:
        order = await ours.prepared({"requests": rows(1)}, label="wanted")
        sent = [await ours.remote.submit(replace(order, label=f"label-{number}")) for number in range(3)]
        wanted = await ours.remote.submit(order)
        assert isinstance(wanted, Accepted) and len(sent) == 3
        gemini.faults([{"kind": "empty_list_page_with_token", "where": "list", "times": 1}])
        assert await ours.remote.find(order) == Found((wanted.provider_id,), complete=True)
        gemini.faults([{"kind": "error", "where": "list", "code": 503, "times": 1}])
        assert await ours.remote.find(order) == Found((wanted.provider_id,), complete=True)
        gemini.faults([{"kind": "error", "where": "list", "code": 503}])
        with pytest.raises(Transient):
            await ours.remote.find(order)

    with_desk(gemini, tmp_path, work)


def test_nothing_is_sent_where_nobody_listens(gemini: Gemini, tmp_path: Path) -> None:
    async def work(ours: Desk) -> None:
        order = await ours.prepared({"mode": "inline", "requests": rows(1)})
        async with desk(gemini, tmp_path, base_url="http://127.0.0.1:9") as elsewhere:
            with pytest.raises(Transient, match="ConnectError"):
                await elsewhere.remote.submit(order)

    with_desk(gemini, tmp_path, work)


def test_a_wrong_key_says_what_to_set(tmp_path: Path) -> None:
    with running_gemini(tmp_path, key="right") as locked:

        async def work(ours: Desk) -> None:
            order = await ours.prepared({"mode": "inline", "requests": rows(1)})
            with pytest.raises(Permanent, match="GEMINI_API_KEY") as caught:
                await ours.remote.submit(order)
            assert "wrong-key" not in str(caught.value)

        with_desk(locked, tmp_path, work, api_key="wrong-key")


def single_order(folder: Path, request: Any) -> Order:
    return Order("label", "acme", "job", "key", 1, request, folder)


def test_a_single_call_with_a_schema(gemini: Gemini, tmp_path: Path) -> None:
    request = {
        "model": "gemini-2.5-flash",
        "request": generate_request("sum", schema=Total, system="be exact"),
        "json_schema": SCHEMA,
    }

    async def work(ours: Desk) -> None:
        remote = GeminiGenerate(ours.client)
        order = single_order(tmp_path, request)
        plan = await remote.prepare(order)
        gemini.script([], default={"json": {"total": 3}, "thought_tokens": 4})
        collected = await remote.submit(order)
        assert collected.result["outcome"] == "ok"
        assert collected.result["parsed"] == {"total": 3}
        assert collected.usage.thinking == 4
        assert 0 < collected.cost < plan.estimate
        for fault, outcome in (("truncate", "truncated"), ("block", "blocked"), ("invalid_json", "invalid")):
            gemini.faults([{"kind": fault, "where": "generate"}])
            collected = await remote.submit(order)
            assert collected.result["outcome"] == outcome, fault
            assert "parsed" not in collected.result
            assert collected.result["error"]
        gemini.faults([{"kind": "error", "where": "generate", "code": 503, "times": 1}])
        with pytest.raises(Transient):
            await remote.submit(order)
        gemini.faults([{"kind": "drop_after", "where": "generate", "times": 1}])
        with pytest.raises(Ambiguous):
            await remote.submit(order)

    with_desk(gemini, tmp_path, work)


@pytest.mark.parametrize("model", ["gemini-embedding-001", "gemini-embedding-2"])
def test_embeddings_one_for_each_text(gemini: Gemini, tmp_path: Path, model: str) -> None:
    async def work(ours: Desk) -> None:
        remote = GeminiEmbed(ours.client)
        texts = [f"text {number}" for number in range(203)]
        order = single_order(tmp_path, {"model": model, "texts": texts, "dimensions": 8})
        await remote.prepare(order)
        collected = await remote.submit(order)
        assert collected.result["rows"] == {"ok": 203}
        assert collected.result["dimensions"] == 8
        got = list(read_rows(tmp_path / "rows.jsonl"))
        assert [row.key for row in got] == [str(number) for number in range(203)]
        assert len({tuple(row.embedding or ()) for row in got}) == 203
        assert operations(gemini).count("embed") == 3
        assert collected.cost > 0

    with_desk(gemini, tmp_path, work)


def test_a_context_is_cached_once_and_kept_alive(gemini: Gemini, tmp_path: Path) -> None:
    contents = [{"role": "user", "parts": [{"text": "a long text " * 1000}]}]

    async def work(ours: Desk) -> None:
        first = await ensure_cache(ours.client, contents, model="gemini-2.5-flash", ttl=600, system="be brief")
        again = await ensure_cache(ours.client, contents, model="gemini-2.5-flash", ttl=300, system="be brief")
        assert again.name == first.name
        longer = await ensure_cache(ours.client, contents, model="gemini-2.5-flash", ttl=6000, system="be brief")
        assert longer.name == first.name
        assert longer.expires > first.expires + 5000
        other = await ensure_cache(ours.client, contents, model="gemini-2.5-flash", ttl=300, tenant="other")
        assert other.name != first.name
        row = await generate(ours.client, "gemini-2.5-flash", generate_request("so?", cached=first.name))
        assert row.outcome == "ok"
        assert row.usage.cached > 0
        for _ in range(2):
            await delete_cache(ours.client, first.name)
        done = operations(gemini)
        assert done.count("cache_create") == 2
        gemini.faults([{"kind": "drop_after", "where": "cache_create", "times": 1}])
        await ensure_cache(ours.client, contents, model="gemini-2.5-pro", ttl=300)
        assert operations(gemini).count("cache_create") == 3, "a lost answer is looked for first"

    with_desk(gemini, tmp_path, work)


def test_a_call_caches_a_context_once_and_counts_it(gemini: Gemini, tmp_path: Path) -> None:
    contents = generate_request("a long text " * 1000)["contents"]

    async def work(ours: Desk) -> None:
        remote = GeminiCache(ours.client)
        order = single_order(tmp_path, {"contents": contents, "model": "gemini-2.5-flash", "ttl": 600})
        plan = await remote.prepare(order)
        gemini.faults([{"kind": "drop_before", "where": "cache_create", "times": 1}])
        with pytest.raises(Ambiguous):
            await remote.submit(order)
        assert operations(gemini).count("cache_create") == 1, "not made again here: it may be there, unseen"
        gemini.faults([{"kind": "drop_after", "where": "cache_create", "times": 1}])
        made = await remote.submit(order)
        assert operations(gemini).count("cache_create") == 2
        assert made.result["made"] and made.result["tokens"] == made.usage.input > 1000
        assert made.cost > 0 and plan.estimate > 0 and "estimated" not in made.result
        found = await remote.submit(replace(order, request={**order.request, "ttl": 300}))
        assert found.result == {**made.result, "made": False}
        assert (found.cost, found.usage) == (0, Usage())
        generating = GeminiGenerate(ours.client)
        request = generate_request("so?", cached=made.result["name"])
        answer = await generating.submit(single_order(tmp_path, {"model": "gemini-2.5-flash", "request": request}))
        assert answer.usage.cached > 0
        unseen = {"kind": "error", "where": "cache_list", "code": 403, "after": 1}
        gemini.faults([{"kind": "error", "code": 503, "where": "cache_create"}, unseen])
        with pytest.raises(Ambiguous):
            await remote.submit(single_order(tmp_path, {"contents": contents, "model": "gemini-2.5-pro"}))
        with pytest.raises(InvalidRequest, match="uploads no files"):
            await remote.prepare(single_order(tmp_path, {"contents": generate_request([file("a.png")])["contents"]}))

    with_desk(gemini, tmp_path, work)


def test_embeddings_go_on_where_they_stopped(gemini: Gemini, tmp_path: Path) -> None:
    """What was answered is paid: it is told as perhaps taken, and not asked for again."""
    request = {"texts": [f"text {number}" for number in range(250)], "dimensions": 8}

    def order(attempt: int) -> Order:
        call = call_id("job", "key", attempt)
        return Order(call, "acme", "job", "key", attempt, request, tmp_path / call[:2] / call)

    async def work(ours: Desk) -> None:
        remote = GeminiEmbed(ours.client)
        plan = await remote.prepare(order(1))
        gemini.faults([{"kind": "error", "where": "embed", "code": 400}])
        with pytest.raises(Permanent):
            await remote.submit(order(1))
        gemini.faults([{"kind": "error", "where": "embed", "code": 400, "after": 1}])
        with pytest.raises(Ambiguous, match="100 of 250 texts were answered"):
            await remote.submit(order(1))
        gemini.faults([{"kind": "error", "where": "embed", "code": 429, "after": 1, "times": 1}])
        before = operations(gemini).count("embed")
        second = await remote.submit(order(2))
        assert operations(gemini).count("embed") == before + 3, "two that were missing, one of them refused once"
        assert second.result["rows"] == {"ok": 250}
        assert 0 < second.usage.input < plan.usage.input, "what the first attempt paid was counted as lost"
        got = list(read_rows(order(2).folder / "rows.jsonl"))
        assert len({tuple(row.embedding or ()) for row in got}) == 250
        assert [path.name for path in order(2).folder.iterdir()] == ["rows.jsonl"]
        before = operations(gemini).count("embed")
        again = await remote.submit(order(1))
        assert operations(gemini).count("embed") == before + 2
        assert again.usage == plan.usage, "all of it was paid by this attempt"

    with_desk(gemini, tmp_path, work)


def test_it_runs_in_virtual_time_without_threads_or_sockets(tmp_path: Path) -> None:
    """As a simulation runs it: two hours of a batch in a moment, twice the same."""

    def run(folder: Path) -> list[Any]:
        loop = VirtualLoop(1_800_000_000.0)
        clock = SimClock(loop)
        seen: list[Any] = []

        async def main() -> None:
            app = create_app(
                folder / "gemini",
                ScriptBackend(),
                clock=clock,
                rng=Random(1),
                settings=Settings(pace=Pace(pending_for=3600, running_for=7200)),
                in_thread=inline_call,
            )
            await app.start()
            faults = (
                {"kind": "chunk_without_status", "times": 1},
                {"kind": "hang", "where": "create", "done": True, "times": 1},
                {"kind": "error", "where": ["get", "list"], "times": 2},
            )
            app.services.faults.replace([Fault.parse(fault) for fault in faults])
            client = GeminiClient(
                GeminiSettings(base_url="http://127.0.0.1:1"),
                clock=clock,
                transport=httpx2.ASGITransport(app),
                rng=Random(1),
                in_thread=inline_call,
            )
            remote = GeminiBatch(client)
            order = Order("l", "acme", "job", "key", 1, {"mode": "file", "requests": rows()}, folder / "call")
            order = replace(order, prepared=(await remote.prepare(order)).prepared)
            with pytest.raises(Ambiguous, match="within 120 s"):
                await remote.submit(order)
            seen.append(await remote.find(order))
            [provider_id] = seen[-1].provider_ids
            while (await remote.poll(order, provider_id)).state == "running":
                await clock.sleep(600)
            seen.append(loop.time())
            seen.append((await remote.collect(order, provider_id)).result["rows"]["ok"])
            await remote.tidy(order, provider_id)
            await remote.close()
            await app.stop()

        loop.run_until_complete(loop.create_task(main()))
        loop.close()
        return seen

    first = run(tmp_path / "one")
    assert first[1] > 1_800_000_000.0 + 2 * 3600
    assert first[2] == 4
    assert run(tmp_path / "two") == first


LARGE = """
import asyncio, json, resource, sys
from pathlib import Path
import httpx2
from penstock.engine.clock import SystemClock
from penstock.remote.gemini.batch import GeminiBatch
from penstock.remote.gemini.client import GeminiClient
from penstock.remote.gemini.lines import encoded
from penstock.remote.gemini.results import read_rows
from penstock.remote.gemini.settings import GeminiSettings
from penstock.remote.protocol import Order

ROWS, folder = 2000, Path(sys.argv[1])
text = "x" * 100_000

async def result():
    for number in reversed(range(ROWS)):
        answer = {"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]}
        yield encoded({"key": f"k{number}", "response": answer})

async def gemini(request):
    if request.url.path.endswith(":download"):
        return httpx2.Response(200, content=result())
    output = {"responsesFile": "files/batch-x"}
    metadata = {"state": "BATCH_STATE_SUCCEEDED", "output": output}
    return httpx2.Response(200, json={"name": "batches/x", "metadata": metadata})

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

async def main():
    settings = GeminiSettings(base_url="http://127.0.0.1:1")
    client = GeminiClient(settings, clock=SystemClock(), transport=httpx2.MockTransport(gemini))
    folder.mkdir()
    (folder / "keys.jsonl").write_bytes(b"".join(encoded(f"k{number}") for number in range(ROWS + 1)))
    prepared = {"kind": "generate", "model": "gemini-3.8-flash", "tokens": 1}
    order = Order("l", "t", "j", "k", 1, None, folder, prepared)
    before = peak()
    collected = await GeminiBatch(client).collect(order, "batches/x")
    read = sum(len(row.text or "") for row in read_rows(folder / "rows.jsonl"))
    print(json.dumps({"result": collected.result, "read": read, "grown": peak() - before}))

asyncio.run(main())
"""


def test_a_large_result_does_not_fill_memory(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LARGE, str(tmp_path / "call")], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["result"]["size"] > 200_000_000
    assert told["result"]["rows"]["ok"] == 2000
    assert told["result"]["rows"]["missing"] == 1
    assert told["read"] == 200_000_000
    assert told["grown"] < 64_000_000, f"{told['grown']} bytes more for a result of {told['result']['size']}"
