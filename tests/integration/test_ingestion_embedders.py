"""Embedders against those who are paid: a Gemini on this machine, and a server that speaks OpenAI's protocol. What is
recorded, what is paid when a tick is repeated, and what each refusal is told as."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock import Again, Context, Embedded, Penstock, Retry, Workflow
from penstock.config import Settings, load
from penstock.engine.clock import SystemClock
from penstock.engine.errors import (
    Ambiguous,
    InvalidConfiguration,
    InvalidRequest,
    PenstockError,
    Permanent,
    RateLimited,
    Transient,
)
from penstock.engine.model import Job
from penstock.pipelines.ingestion.embedders import make_embedder
from penstock.pipelines.ingestion.embedders.gemini import GeminiBatchEmbedder
from penstock.pipelines.ingestion.embedders.local import LocalEmbedder
from penstock.pipelines.ingestion.embedders.remote import REMEMBERED
from penstock.pipelines.ingestion.model import EmbedderSpec
from penstock.remote.contract import Check, checks_for, refused_work_leaves_nothing
from penstock.remote.gemini.results import read_rows
from penstock.remote.openai.embed import EmbedRequest, OpenAIEmbed
from penstock.remote.openai.errors import Refused
from penstock.remote.openai.settings import OpenAISettings
from penstock.remote.protocol import Collected, Order
from tests.support.gemini import Gemini, running_gemini
from tests.support.openai import OpenAIServer, running_openai, vector

PATIENCE = 30.0
RESTS = ("completed", "failed", "canceled", "paused")
TEXTS = ["the gate opens", "water flows", "the turbine turns"]
KEY = "sk-hush"


@pytest.fixture(scope="module")
def cloud() -> Iterator[OpenAIServer]:
    with running_openai(KEY) as server:
        yield server


@pytest.fixture
def openai(cloud: OpenAIServer) -> OpenAIServer:
    cloud.reset()
    return cloud


@pytest.fixture(scope="module")
def server() -> Iterator[Gemini]:
    with running_gemini(backend="local") as gemini:
        yield gemini


@pytest.fixture
def gemini(server: Gemini) -> Gemini:
    server.reset()
    return server


def configured(tmp_path: Path, *, gemini: Gemini | None = None, openai: OpenAIServer | None = None) -> Settings:
    environ = {"PENSTOCK_OPENAI__TIMEOUT": "10s", "PENSTOCK_GEMINI__REQUEST_TIMEOUT": "10s"}
    if gemini is not None:
        environ |= {"PENSTOCK_GEMINI__BASE_URL": gemini.url, "PENSTOCK_GEMINI__POLL_EVERY": "50ms"}
    if openai is not None:
        environ |= {"OPENAI_BASE_URL": openai.url, "OPENAI_API_KEY": KEY}
    return load(cwd=tmp_path, environ=environ)


def embedding(spec: EmbedderSpec, settings: Settings, *, stumbles: int = 0) -> Workflow:
    """One step that embeds texts; having them, it fails so many times, as a crash would have it."""
    embedder = make_embedder(spec, settings)
    left = [stumbles]
    workflow = Workflow("embed", payload=list[str])

    @workflow.step(retry=Retry(attempts=8, base=0.01))
    async def embed(texts: list[str], ctx: Context) -> list[list[float]]:
        vectors = await embedder.embed(texts, ctx, "group-1")
        if left[0]:
            left[0] -= 1
            raise Transient("the worker died before it could commit")
        assert vectors.dtype == np.float32
        return vectors.tolist()

    return workflow


def run(settings: Settings, main: Callable[[Penstock], Awaitable[None]], workflow: Workflow | None = None) -> None:
    async def inside() -> None:
        app = Penstock(workflows=[] if workflow is None else [workflow])
        await app.open(settings=settings)
        try:
            delivery = Embedded(app.engine, sweep_every=0.2)
            await delivery.start()
            try:
                await main(app)
            finally:
                await delivery.stop()
        finally:
            await app.close()

    asyncio.run(inside())


async def ended(app: Penstock, texts: list[str]) -> Job:
    submitted = await app.submit("embed", texts)
    return await app.wait(submitted.job_id, timeout=PATIENCE, until=RESTS)


def unit(texts: list[str], size: int) -> np.ndarray[Any, Any]:
    vectors = np.array([vector(text, size) for text in texts])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


TINY = EmbedderSpec(name="openai", model="tiny", dimension=8)


def test_texts_are_embedded_in_order_and_paid_once_however_often_the_tick_is_repeated(
    openai: OpenAIServer, tmp_path: Path
) -> None:
    settings = configured(tmp_path, openai=openai)

    async def main(app: Penstock) -> None:
        job = await ended(app, TEXTS)
        assert job.status == "completed", job.error
        assert np.allclose(job.result, unit(TEXTS, 8), atol=1e-6)
        (call,) = await app.calls()
        assert (call.remote, call.model, call.state, call.attempt) == ("openai.embed", "tiny", "collected", 1)
        assert call.usage.input == 8, "as the server counted"
        assert call.result == {"file": "rows.jsonl", "rows": {"ok": 3}, "dimensions": 8, "unpriced": True}

    run(settings, main, embedding(TINY, settings, stumbles=3))
    assert openai.paid == 3 and len(openai.asked) == 1
    (asked,) = openai.asked
    assert asked == {
        "path": "/v1/embeddings", "key": f"Bearer {KEY}", "model": "tiny", "input": TEXTS, "encoding_format": "float",
    }  # fmt: skip


def test_a_known_model_is_paid_by_its_price_and_asked_for_fewer_dimensions(
    openai: OpenAIServer, tmp_path: Path
) -> None:
    settings = configured(tmp_path, openai=openai)

    async def main(app: Penstock) -> None:
        job = await ended(app, TEXTS)
        assert np.shape(job.result) == (3, 16)
        (call,) = await app.calls()
        assert (call.cost, call.usage.input) == (1, 8), "$0.02 for a million tokens, never rounded down"

    run(settings, main, embedding(EmbedderSpec(name="openai", dimension=16), settings))
    assert openai.asked[0]["dimensions"] == 16


def test_a_lost_answer_is_asked_for_again_and_counted_as_paid(openai: OpenAIServer, tmp_path: Path) -> None:
    settings = configured(tmp_path, openai=openai)
    openai.drop()

    async def main(app: Penstock) -> None:
        job = await ended(app, TEXTS)
        assert job.status == "completed", job.error
        assert [(call.state, call.attempt) for call in await app.calls()] == [("collected", 2), ("lost", 1)]

    run(settings, main, embedding(TINY, settings))
    assert openai.paid == 6


def test_what_is_refused_for_now_is_sent_again_under_the_same_name(openai: OpenAIServer, tmp_path: Path) -> None:
    settings = configured(tmp_path, openai=openai)
    openai.refuses(429, "slow down", {"Retry-After": "0"})
    openai.refuses(503, "overloaded")

    async def main(app: Penstock) -> None:
        job = await ended(app, TEXTS)
        assert job.status == "completed", job.error
        assert [(call.state, call.attempt) for call in await app.calls()] == [("collected", 1)]

    run(settings, main, embedding(TINY, settings))
    assert openai.paid == 3


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (EmbedderSpec(name="openai", model="other", dimension=8), r"404.*other.*does not exist.*openai\.base_url"),
        (EmbedderSpec(name="openai", model="tiny", dimension=9), "gives vectors of 8 dimensions, not 9"),
    ],
)
def test_what_would_refuse_every_text_fails_the_job_at_once(
    openai: OpenAIServer, tmp_path: Path, spec: EmbedderSpec, says: str
) -> None:
    settings = configured(tmp_path, openai=openai)

    async def main(app: Penstock) -> None:
        job = await ended(app, TEXTS)
        assert job.status == "failed" and "InvalidConfiguration" in job.error
        assert re.search(says, job.error), job.error

    run(settings, main, embedding(spec, settings))
    assert len(openai.asked) == 1


@pytest.mark.parametrize(
    ("texts", "kind", "says"),
    [([*TEXTS, " \n"], "Permanent: ", "text 4 of 4 is empty"), (["too long"], "Refused: ", "at most 512")],
)
def test_a_text_that_is_refused_is_permanent(
    openai: OpenAIServer, tmp_path: Path, texts: list[str], kind: str, says: str
) -> None:
    settings = configured(tmp_path, openai=openai)
    openai.refuses(400, "This model's maximum context length is at most 512 tokens.")

    async def main(app: Penstock) -> None:
        job = await ended(app, texts)
        assert job.status == "failed" and job.error.startswith(kind) and says in job.error, job.error

    run(settings, main, embedding(TINY, settings))


def test_vectors_that_are_gone_from_the_disk_are_missed_and_not_invented(openai: OpenAIServer, tmp_path: Path) -> None:
    settings = configured(tmp_path, openai=openai)
    workflow = Workflow("embed", payload=list[str])
    embedder = make_embedder(TINY, settings)

    @workflow.step
    async def embed(texts: list[str], ctx: Context) -> str:
        await embedder.embed(texts, ctx, "one")
        call = await ctx.known_call("one")
        assert call is not None
        (ctx.folder_of(call) / "rows.jsonl").unlink()
        with pytest.raises(Permanent, match=r"rows\.jsonl cannot be read any more"):
            await embedder.embed(texts, ctx, "one")
        assert (await embedder.embed([], ctx, "none")).shape == (0, 8)
        return "seen"

    async def main(app: Penstock) -> None:
        assert (await ended(app, TEXTS)).result == "seen"

    run(settings, main, workflow)
    assert openai.paid == 3


def test_questions_are_asked_directly_and_remembered(openai: OpenAIServer, tmp_path: Path) -> None:
    settings = configured(tmp_path, openai=openai)
    embedder = make_embedder(EmbedderSpec(name="openai", dimension=16), settings)

    async def main(app: Penstock) -> None:
        first = await embedder.embed_query("where is the gate?", app.engine)
        again = await embedder.embed_query("where is the gate?", app.engine)
        assert first.shape == (1, 16) and np.allclose(first, unit(["where is the gate?"], 16), atol=1e-6)
        assert (first == again).all() and len(openai.asked) == 1
        assert await app.calls() == []
        counted = app.engine.meters.take()
        assert counted is not None
        asked = ("openai.embed", "text-embedding-3-small")
        assert counted.counts["tokens", *asked, "input"] == 5 and counted.counts["cost_microdollars", *asked] == 1
        for number in range(REMEMBERED):
            await embedder.embed_query(f"question {number}", app.engine)
        assert len(openai.asked) == REMEMBERED + 1
        await embedder.embed_query(f"question {REMEMBERED - 1}", app.engine)
        assert len(openai.asked) == REMEMBERED + 1
        await embedder.embed_query("where is the gate?", app.engine)
        assert len(openai.asked) == REMEMBERED + 2, "the oldest is forgotten"
        with pytest.raises(InvalidRequest, match="empty question"):
            await embedder.embed_query(" ", app.engine)
        for fault, kind in (
            (lambda: openai.refuses(429, "slow", {"Retry-After": "3"}), RateLimited),
            (lambda: openai.refuses(401, "no"), InvalidConfiguration),
            (lambda: openai.refuses(400, "no"), Permanent),
            (lambda: openai.will(200, {"data": []}), Permanent),
            (openai.drop, Transient),
        ):
            fault()
            with pytest.raises(kind):
                await embedder.embed_query("anew", app.engine)

    run(settings, main)


class Harness:
    """`slow_request` never ends by itself, since the server does not answer it."""

    def __init__(self, server: OpenAIServer, folder: Path) -> None:
        self.remote = remote_of(server)
        self.folder = folder
        self._server = server

    def good_request(self) -> Any:
        self._server.reset()
        return {"texts": TEXTS, "model": "tiny"}

    def slow_request(self) -> Any:
        request = self.good_request()
        for _ in range(3):
            self._server.hang()
        return request

    def bad_request(self) -> Any:
        return {"texts": ["one", ""], "model": "tiny"}

    async def live(self, label: str) -> int:
        return 0

    async def refuse_next(self) -> None:
        self._server.refuses(429, "slow down")

    async def lose_reply(self) -> None:
        self._server.drop()

    async def finish(self, provider_id: str) -> None:
        raise NotImplementedError

    async def runs(self, label: str) -> int:
        raise NotImplementedError

    def unknown_id(self) -> str:
        return "none"


def remote_of(server: OpenAIServer, *, timeout: float = 10.0, key: str | None = KEY) -> OpenAIEmbed:
    return OpenAIEmbed(OpenAISettings(base_url=server.url, api_key=key, timeout=timeout), clock=SystemClock())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "check", [*checks_for("repeatable"), refused_work_leaves_nothing], ids=lambda check: check.__name__
)
def test_the_remote_keeps_the_contract(check: Check, openai: OpenAIServer, tmp_path: Path) -> None:
    async def main() -> None:
        harness = Harness(openai, tmp_path)
        try:
            await check(harness)
        finally:
            await harness.remote.close()

    asyncio.run(main())


def asked(remote: OpenAIEmbed, tmp_path: Path, **request: Any) -> Collected:
    async def main() -> Collected:
        whole = {"texts": tuple(TEXTS), "model": "tiny", **request}
        order = Order("label", "t", "job", "key", 1, EmbedRequest(**whole), tmp_path / "call")
        try:
            await remote.prepare(order)
            return await remote.submit(order)
        finally:
            await remote.close()

    return asyncio.run(main())


def refusal(remote: OpenAIEmbed, tmp_path: Path) -> PenstockError:
    with pytest.raises(PenstockError) as refused:
        asked(remote, tmp_path)
    assert KEY not in str(refused.value)
    return refused.value


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (400, Refused, "answered 400: not like this"),
        (401, Refused, "OPENAI_API_KEY"),
        (403, Refused, "openai.api_key"),
        (404, Refused, "check openai.base_url"),
        (413, Refused, "413"),
        (302, Refused, "Redirects are not followed"),
        (408, Transient, "408"),
        (409, Transient, "409"),
        (500, Transient, "500"),
        (529, Transient, "529"),
    ],
)
def test_refusals(openai: OpenAIServer, tmp_path: Path, status: int, kind: type[Exception], says: str) -> None:
    openai.refuses(status, "not like this", {"Location": "http://127.0.0.1:1/"})
    error = refusal(remote_of(openai), tmp_path)
    assert type(error) is kind and says in str(error)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Mon, 16 Nov 2026 10:00:30 GMT"}, None),
    ],
)
def test_a_server_that_is_busy_says_when_to_come_back(
    openai: OpenAIServer, tmp_path: Path, headers: dict[str, str], wait: float | None
) -> None:
    openai.refuses(429, "busy", headers)
    error = refusal(remote_of(openai), tmp_path)
    assert isinstance(error, RateLimited)
    if "GMT" not in headers.get("Retry-After", ""):
        assert error.retry_after == wait
    else:
        assert error.retry_after is not None and error.retry_after >= 0


def test_whether_anybody_took_it_decides(openai: OpenAIServer, tmp_path: Path) -> None:
    openai.drop()
    assert isinstance(refusal(remote_of(openai), tmp_path), Ambiguous)
    openai.hang()
    error = refusal(remote_of(openai, timeout=0.2), tmp_path)
    assert isinstance(error, Ambiguous) and "ReadTimeout" in str(error)
    nobody = OpenAIEmbed(OpenAISettings(base_url="http://127.0.0.1:9/v1"), clock=SystemClock())
    error = refusal(nobody, tmp_path)
    assert type(error) is Transient and "nobody answers at http://127.0.0.1:9/v1 (openai.base_url)" in str(error)
    error = refusal(remote_of(openai, key="wrong"), tmp_path)
    assert isinstance(error, Refused) and error.code == 401
    for rubbish in (b"<html>", b"[]", b""):
        openai.will(200, rubbish)
        assert isinstance(refusal(remote_of(openai), tmp_path), Ambiguous), rubbish
    with pytest.raises(InvalidConfiguration, match=r"no key for https://api\.openai\.com/v1; set OPENAI_API_KEY"):
        OpenAIEmbed(OpenAISettings(), clock=SystemClock())


def rows(*vectors: Any, **more: Any) -> dict[str, Any]:
    return {"data": [{"index": place, "embedding": values} for place, values in enumerate(vectors)], **more}


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (rows([1.0], [2.0]), "3 texts gave 2 vectors"),
        ({}, "3 texts gave 0 vectors"),
        ({"data": [{"index": 1, "embedding": [1.0]}] * 3}, "not numbered from 0 to 2"),
        ({"data": [{"index": str(n), "embedding": [1.0]} for n in range(3)]}, "not numbered"),
        (rows([1.0], [2.0, 3.0], [1.0]), "the vectors have 1 to 2 dimensions"),
        (rows([1.0], [2.0], "AAAA"), "vector 2 is no list of numbers"),
        (rows([1.0], [], [1.0]), "vector 1 is no list of numbers"),
        (rows([1.0], [None], [1.0]), "vector 1 is no list of numbers"),
        (rows([1.0], [float("nan")], [1.0]), "vector 1 has a value that is no number"),
        (b'{"data":[{"embedding":[1e999]},{"embedding":[1]},{"embedding":[1]}]}', "no number"),
        (rows([1], [10**400], [1]), "vector 1 has a value that is no number"),
    ],
)
def test_an_answer_that_cannot_be_used_is_paid_and_says_what_is_wrong(
    openai: OpenAIServer, tmp_path: Path, body: Any, wrong: str
) -> None:
    openai.will(200, body)
    got = asked(remote_of(openai), tmp_path)
    assert wrong in got.result["error"] and got.result["outcome"] == "invalid"
    assert got.result["rows"] == {"ok": 0, "invalid": 3} and got.usage.input == 12, "about: four bytes are a token"
    assert [row.outcome for row in read_rows(tmp_path / "call" / "rows.jsonl")] == ["invalid"] * 3


def test_answers_without_places_or_counts_are_taken_in_their_order(openai: OpenAIServer, tmp_path: Path) -> None:
    openai.will(200, {"data": [{"embedding": [n, 0.5]} for n in range(3)], "usage": {"prompt_tokens": -5}})
    got = asked(remote_of(openai), tmp_path)
    assert got.result == {
        "file": "rows.jsonl", "rows": {"ok": 3}, "dimensions": 2, "estimated": True, "unpriced": True,
    }  # fmt: skip
    assert [row.embedding for row in read_rows(tmp_path / "call" / "rows.jsonl")] == [[0, 0.5], [1, 0.5], [2, 0.5]]
    openai.will(200, rows([1.0], [1.0], [1.0]))
    assert "1 dimensions, and 4 were asked for" in asked(remote_of(openai), tmp_path, dimensions=4).result["error"]


def test_geminis_vectors_are_calls_of_the_job_and_paid_once(gemini: Gemini, tmp_path: Path) -> None:
    settings = configured(tmp_path, gemini=gemini)
    spec = EmbedderSpec(name="gemini", dimension=64)
    embedder = make_embedder(spec, settings)

    async def main(app: Penstock) -> None:
        job = await ended(app, TEXTS)
        assert job.status == "completed", job.error
        assert np.allclose(job.result, LocalEmbedder(64).vectors(TEXTS), atol=1e-6)
        (call,) = await app.calls()
        assert (call.remote, call.model, call.state) == ("gemini.embed", "gemini-embedding-001", "collected")
        assert call.cost == 2 and call.usage.input == 12
        question = await embedder.embed_query("what turns?", app.engine)
        assert np.allclose(question, LocalEmbedder(64).vectors(["what turns?"]), atol=1e-6)
        assert (await embedder.embed_query("what turns?", app.engine) == question).all()

    run(settings, main, embedding(spec, settings, stumbles=2))
    assert len(gemini.journal(operation="embed")) == 2, "three ticks and two questions"


@pytest.mark.parametrize(
    ("fault", "state", "says"),
    [
        ({"code": 400, "message": "too strange a text"}, "failed", "Refused: embed: Gemini answered 400"),
        ({"code": 403, "message": "no"}, "failed", "InvalidConfiguration: embed: Gemini answered 403"),
        ({"code": 429, "times": 1, "retry_after": 0}, "completed", ""),
        ({"code": 503, "times": 1}, "completed", ""),
    ],
)
def test_what_gemini_refuses(gemini: Gemini, tmp_path: Path, fault: dict[str, Any], state: str, says: str) -> None:
    settings = configured(tmp_path, gemini=gemini)
    gemini.faults([{"kind": "error", "where": "embed", **fault}])

    async def main(app: Penstock) -> None:
        job = await ended(app, TEXTS)
        assert job.status == state and says in (job.error or ""), job.error

    run(settings, main, embedding(EmbedderSpec(name="gemini"), settings))


def test_a_dimension_that_gemini_does_not_have_fails_the_job_and_names_the_way_out(
    gemini: Gemini, tmp_path: Path
) -> None:
    settings = configured(tmp_path, gemini=gemini)

    async def main(app: Penstock) -> None:
        job = await ended(app, TEXTS)
        assert job.status == "failed" and "1 to 256 dimensions, not 768" in job.error, job.error
        assert job.error.startswith("InvalidConfiguration")

    run(settings, main, embedding(EmbedderSpec(name="gemini", dimension=768), settings))
    assert len(gemini.journal(operation="embed")) == 1


def test_a_batch_is_deferred_and_tells_of_each_text(gemini: Gemini, tmp_path: Path) -> None:
    settings = configured(tmp_path, gemini=gemini)
    embedder = make_embedder(EmbedderSpec(name="gemini", batch=True), settings)
    assert isinstance(embedder, GeminiBatchEmbedder)
    workflow = Workflow("embed", payload=list[str])

    @workflow.step
    async def embed(texts: list[str], ctx: Context) -> dict[str, Any] | Again:
        request = await asyncio.to_thread(embedder.request, [(f"k{n}", text) for n, text in enumerate(texts)])
        call = await ctx.call(embedder.batch_remote, "all", request)
        if not call.ended:
            return Again(texts, until=call)
        found = dict(embedder.vectors_of(ctx.folder_of(call), call.result))
        return {
            key: value.tolist() if isinstance(value, np.ndarray) else f"{type(value).__name__}: {value}"
            for key, value in found.items()
        }

    gemini.faults(
        [
            {"kind": "row_error", "keys": "k1", "code": 3, "message": "bad text"},
            {"kind": "row_error", "keys": "k2", "code": 14, "message": "busy"},
            {"kind": "missing_rows", "keys": "k3"},
            {"kind": "duplicate_rows", "keys": "k0"},
            {"kind": "unknown_rows"},
        ]
    )

    async def main(app: Penstock) -> None:
        job = await ended(app, [*TEXTS, "fourth", "fifth"])
        assert job.status == "completed", job.error
        assert sorted(job.result) == ["k0", "k1", "k2", "k3", "k4"]
        assert np.allclose(job.result["k0"], LocalEmbedder().vectors(TEXTS)[0], atol=1e-6)
        assert np.allclose(job.result["k4"], LocalEmbedder().vectors(["fifth"])[0], atol=1e-6)
        assert job.result["k1"] == "Permanent: gemini-embedding-001: bad text"
        assert job.result["k2"] == "Transient: gemini-embedding-001: busy"
        assert job.result["k3"].startswith("Transient: ")
        (call,) = await app.calls()
        assert (call.remote, call.state) == ("gemini.batch", "collected")

    run(settings, main, workflow)
