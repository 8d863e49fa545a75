"""Every call of the real SDK against the local Gemini, sync and async alike."""

from __future__ import annotations

import asyncio
import io
import json
import warnings
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.genai import errors, types
from pydantic import BaseModel

from tests.support.gemini import Gemini, running_gemini

FLASH = "gemini-2.5-flash"
EMBEDDING = "gemini-embedding-001"


class Sync:
    """The SDK's blocking half, called like its other one."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._thing, name)
        if not callable(found):
            return Sync(found)

        async def call(*args: Any, **options: Any) -> Any:
            return found(*args, **options)

        return call


async def listed(pager: Any) -> list[Any]:
    return [thing async for thing in pager] if hasattr(pager, "__aiter__") else list(pager)


Scenario = Callable[[Any], Awaitable[None]]
Run = Callable[[Scenario], None]


@pytest.fixture(scope="module")
def server() -> Iterator[Gemini]:
    with running_gemini() as gemini:
        yield gemini


@pytest.fixture
def gemini(server: Gemini) -> Gemini:
    server.reset()
    return server


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest, gemini: Gemini) -> Run:
    def run(scenario: Scenario) -> None:
        async def both() -> None:
            client = gemini.client()
            if request.param == "sync":
                await scenario(Sync(client))
                client.close()
            else:
                async with client.aio as api:
                    await scenario(api)

        asyncio.run(both())

    return run


def jsonl(*rows: Any) -> io.BytesIO:
    return io.BytesIO(b"".join(json.dumps(row).encode() + b"\n" for row in rows))


def asking(key: str, text: str) -> dict[str, Any]:
    return {"key": key, "request": {"contents": [{"parts": [{"text": text}]}]}}


async def put(api: Any, *rows: Any) -> Any:
    return await api.files.upload(file=jsonl(*rows), config={"mime_type": "application/jsonl"})


async def ended(api: Any, job: Any) -> Any:
    for _ in range(500):
        if job.done:
            return job
        await asyncio.sleep(0.01)
        job = await api.batches.get(name=job.name)
    raise AssertionError(job)


def test_a_file_goes_up_and_can_be_found_and_deleted(run: Run, tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    picture.write_bytes(b"\x89PNG" + bytes(range(73)))

    async def scenario(api: Any) -> None:
        file = await api.files.upload(file=picture, config={"display_name": "img a"})
        assert (file.display_name, file.mime_type, file.size_bytes) == ("img a", "image/png", 77)
        assert file.state == types.FileState.ACTIVE
        assert file.uri == f"https://generativelanguage.googleapis.com/v1beta/{file.name}"
        assert (await api.files.get(name=file.name)).sha256_hash == file.sha256_hash
        assert (await api.files.get(name=file.uri)).name == file.name
        await api.files.delete(name=file.name)
        with pytest.raises(errors.ClientError) as gone:
            await api.files.get(name=file.name)
        assert gone.value.code == 403

    run(scenario)


def test_large_and_empty_files_go_up(run: Run) -> None:
    async def scenario(api: Any) -> None:
        large = await api.files.upload(file=io.BytesIO(b"x" * 20_000_000), config={"mime_type": "text/plain"})
        empty = await api.files.upload(file=io.BytesIO(b""), config={"mime_type": "text/plain"})
        assert (large.size_bytes, empty.size_bytes) == (20_000_000, 0)

    run(scenario)


def test_a_file_can_be_named_but_not_twice(run: Run) -> None:
    async def scenario(api: Any) -> None:
        config = {"mime_type": "text/plain", "name": "my-own"}
        assert (await api.files.upload(file=io.BytesIO(b"a"), config=config)).name == "files/my-own"
        with pytest.raises(errors.ClientError) as taken:
            await api.files.upload(file=io.BytesIO(b"a"), config=config)
        assert taken.value.code == 409

    run(scenario)


def test_files_are_listed_in_pages_newest_first(run: Run) -> None:
    async def scenario(api: Any) -> None:
        names = [
            (await api.files.upload(file=io.BytesIO(b"a"), config={"mime_type": "text/plain"})).name for _ in range(5)
        ]
        pager = await api.files.list(config={"page_size": 2})
        assert len(pager) == 2
        assert [file.name for file in await listed(pager)] == names[::-1]

    run(scenario)


def test_a_file_batch_runs_to_its_result(run: Run) -> None:
    async def scenario(api: Any) -> None:
        file = await put(api, asking("a", "one"), asking("b", "two"))
        job = await api.batches.create(model=FLASH, src=file.name, config={"display_name": "job-1"})
        assert job.display_name == "job-1"
        job = await ended(api, job)
        assert job.state == types.JobState.JOB_STATE_SUCCEEDED
        assert job.dest.file_name == f"files/batch-{job.name.removeprefix('batches/')}"
        rows = [json.loads(line) for line in (await api.files.download(file=job.dest.file_name)).split(b"\n") if line]
        replies = {row["key"]: types.GenerateContentResponse.model_validate(row["response"]).text for row in rows}
        assert replies == {"a": "one", "b": "two"}

    run(scenario)


def test_a_result_can_be_downloaded_but_not_looked_up(run: Run) -> None:
    async def scenario(api: Any) -> None:
        job = await ended(api, await api.batches.create(model=FLASH, src=(await put(api, asking("a", "x"))).name))
        for call in (api.files.get, api.files.delete):
            with pytest.raises(errors.ClientError, match="cannot be more than 40 characters"):
                await call(name=job.dest.file_name)

    run(scenario)


def test_an_inline_batch_gives_back_its_metadata(run: Run) -> None:
    async def scenario(api: Any) -> None:
        requests = [
            types.InlinedRequest(contents=[types.Content(parts=[types.Part(text=text)])], metadata={"key": key})
            for key, text in (("r1", "one"), ("r2", "two"))
        ]
        job = await ended(api, await api.batches.create(model=FLASH, src=requests))
        answers = {answer.metadata["key"]: answer.response.text for answer in job.dest.inlined_responses}
        assert answers == {"r1": "one", "r2": "two"}

    run(scenario)


@pytest.mark.parametrize("inline", [True, False])
def test_embeddings_come_in_batches(run: Run, inline: bool) -> None:
    async def scenario(api: Any) -> None:
        source: dict[str, Any] = {
            "inlined_requests": {"contents": [{"parts": [{"text": "hi"}]}], "config": {"output_dimensionality": 4}}
        }
        if not inline:
            row = {"key": "e0", "request": {"content": {"parts": [{"text": "hi"}]}, "outputDimensionality": 4}}
            source = {"file_name": (await put(api, row)).name}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            job = await api.batches.create_embeddings(model=EMBEDDING, src=source)
        job = await ended(api, job)
        assert job.state == types.JobState.JOB_STATE_SUCCEEDED
        if inline:
            [answer] = job.dest.inlined_embed_content_responses
            assert len(answer.response.embedding.values) == 4
        else:
            row = json.loads(await api.files.download(file=job.dest.file_name))
            assert (row["key"], len(row["response"]["embedding"]["values"])) == ("e0", 4)

    run(scenario)


def test_batches_are_listed_cancelled_and_deleted(run: Run, gemini: Gemini) -> None:
    gemini.faults([{"kind": "stuck_running"}])

    async def scenario(api: Any) -> None:
        file = await put(api, asking("a", "x"))
        names = [(await api.batches.create(model=FLASH, src=file.name)).name for _ in range(5)]
        assert [job.name for job in await listed(await api.batches.list(config={"page_size": 2}))] == names[::-1]
        await api.batches.cancel(name=names[0])
        assert (await api.batches.get(name=names[0])).state == types.JobState.JOB_STATE_CANCELLED
        await api.batches.delete(name=names[0])
        assert [job.name for job in await listed(await api.batches.list())] == names[:0:-1]
        with pytest.raises(errors.ClientError) as gone:
            await api.batches.get(name=names[0])
        assert gone.value.code == 404

    run(scenario)


class Page(BaseModel):
    title: str
    pages: int


def test_single_answers_with_bytes_files_and_a_schema(run: Run, gemini: Gemini) -> None:
    gemini.script([{"match": "describe", "json": {"title": "A {page}", "pages": 2}}])

    async def scenario(api: Any) -> None:
        file = await api.files.upload(file=io.BytesIO(b"%PDF"), config={"mime_type": "application/pdf"})
        answer = await api.models.generate_content(
            model=FLASH,
            contents=[types.Part.from_bytes(data=bytes([251, 255, 190]), mime_type="image/png"), file, "describe"],
            config=types.GenerateContentConfig(
                system_instruction="briefly", response_mime_type="application/json", response_schema=Page
            ),
        )
        assert answer.parsed == Page(title="A {page}", pages=2)
        assert answer.candidates[0].finish_reason == types.FinishReason.STOP
        # Two attachments, "describe" and "briefly".
        assert answer.usage_metadata.prompt_token_count == 258 + 258 + 2 + 2
        assert answer.usage_metadata.total_token_count > 520

    run(scenario)


def test_an_answer_stops_at_the_tokens_asked_for(run: Run) -> None:
    async def scenario(api: Any) -> None:
        answer = await api.models.generate_content(
            model=FLASH, contents="x" * 100, config=types.GenerateContentConfig(max_output_tokens=5)
        )
        assert (answer.text, answer.candidates[0].finish_reason) == ("x" * 20, types.FinishReason.MAX_TOKENS)

    run(scenario)


def test_answers_can_be_streamed(run: Run) -> None:
    text = "word " * 100

    async def scenario(api: Any) -> None:
        pieces = await listed(await api.models.generate_content_stream(model=FLASH, contents=text))
        assert len(pieces) > 1
        assert "".join(piece.text for piece in pieces) == text
        assert pieces[-1].usage_metadata.total_token_count == 250

    run(scenario)


def test_texts_are_embedded_and_counted(run: Run) -> None:
    async def scenario(api: Any) -> None:
        config = types.EmbedContentConfig(output_dimensionality=8, task_type="RETRIEVAL_DOCUMENT")
        answer = await api.models.embed_content(model=EMBEDDING, contents=["hi", "ho"], config=config)
        assert [len(vector.values) for vector in answer.embeddings] == [8, 8]
        assert (await api.models.count_tokens(model=FLASH, contents="x" * 57)).total_tokens == 15

    run(scenario)


def test_models_are_listed_and_unknown_ones_refused(run: Run) -> None:
    async def scenario(api: Any) -> None:
        models = await listed(await api.models.list(config={"page_size": 5}))
        assert {"models/gemini-2.5-flash", "models/gemini-3.8-flash", "models/gemini-embedding-2"} <= {
            model.name for model in models
        }
        assert "batchGenerateContent" in (await api.models.get(model=FLASH)).supported_actions
        with pytest.raises(errors.ClientError) as unknown:
            await api.models.generate_content(model="gemini-0", contents="x")
        assert unknown.value.code == 404

    run(scenario)


def test_cached_contents_are_kept_used_and_expire(run: Run, gemini: Gemini) -> None:
    async def scenario(api: Any) -> None:
        cache = await api.caches.create(
            model=FLASH,
            config=types.CreateCachedContentConfig(contents=["the whole book"], ttl="600s", display_name="book"),
        )
        assert cache.usage_metadata.total_token_count == 4
        assert [found.name for found in await listed(await api.caches.list())] == [cache.name]
        answer = await api.models.generate_content(
            model=FLASH, contents="?", config=types.GenerateContentConfig(cached_content=cache.name)
        )
        assert answer.text == "the whole book\n?"
        assert answer.usage_metadata.cached_content_token_count == 4
        longer = await api.caches.update(name=cache.name, config=types.UpdateCachedContentConfig(ttl="1200s"))
        assert longer.expire_time > cache.expire_time
        gemini.advance(1300)
        with pytest.raises(errors.ClientError) as expired:
            await api.models.generate_content(
                model=FLASH, contents="?", config=types.GenerateContentConfig(cached_content=cache.name)
            )
        assert expired.value.code == 403
        other = await api.caches.create(model=FLASH, config=types.CreateCachedContentConfig(contents=["x"]))
        await api.caches.delete(name=other.name)
        assert await listed(await api.caches.list()) == []

    run(scenario)


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
def test_all_versions_are_spoken(gemini: Gemini, version: str) -> None:
    client = gemini.client(api_version=version)
    assert client.models.generate_content(model=FLASH, contents="hi").text == "hi"
    assert client.files.upload(file=io.BytesIO(b"a"), config={"mime_type": "text/plain"}).size_bytes == 1
    client.close()
