"""What is timed. The same rows go through Google's bare client, as its documentation shows it, and through Penstock."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

from google import genai
from google.genai import types

from penstock import Again, Context, Penstock, Workflow
from penstock.config import Settings
from penstock.gemini import BatchRequest, generate_request, read_rows
from penstock.remote.gemini.settings import GeminiSettings

MODEL = "gemini-2.5-flash"
POLL = 0.1
PROMPT = "Write the text of this page, line by line, without anything else. " * 8


def client(url: str) -> genai.Client:
    return genai.Client(api_key="bench", http_options=types.HttpOptions(base_url=url, timeout=120_000))


def write_rows(path: Path, count: int) -> None:
    with path.open("w") as lines:
        for n in range(count):
            lines.write(json.dumps({"key": f"row-{n}", "request": generate_request(f"{PROMPT}{n}")}) + "\n")


async def requests_a_second(url: str, count: int, at_once: int) -> float:
    """Single generateContent requests of the SDK, async, so many at once."""
    sdk = client(url).aio
    turns = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with turns:
            await sdk.models.generate_content(model=MODEL, contents=PROMPT)

    await one()
    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(count)))
    took = time.perf_counter() - began
    await sdk.aclose()
    return count / took


def embeddings_a_second(url: str, count: int, at_once: int = 100) -> float:
    """Texts embedded, a hundred in each request."""
    sdk = client(url)
    texts: list[types.ContentUnion] = [types.Content(parts=[types.Part(text=f"{PROMPT}{n}")]) for n in range(at_once)]
    began = time.perf_counter()
    for _ in range(count // at_once):
        sdk.models.embed_content(model="gemini-embedding-001", contents=texts)
    return count / (time.perf_counter() - began)


def batch_by_bare_sdk(url: str, rows: Path) -> float:
    """Upload, create, poll, download, and read every answer: seconds."""
    sdk = client(url)
    began = time.perf_counter()
    uploaded = sdk.files.upload(file=str(rows), config=types.UploadFileConfig(mime_type="application/jsonl"))
    job = sdk.batches.create(model=MODEL, src=uploaded.name, config={"display_name": "bench"})
    while job.state is None or job.state.name not in ("JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_EXPIRED"):
        time.sleep(POLL)
        job = sdk.batches.get(name=job.name or "")
    assert job.dest is not None
    assert job.dest.file_name is not None
    content = sdk.files.download(file=job.dest.file_name)
    answers = {}
    for line in content.decode().split("\n"):
        if line:
            row = json.loads(line)
            answers[row["key"]] = row["response"]["candidates"][0]["content"]["parts"][0]["text"]
    sdk.files.delete(name=uploaded.name or "")
    took = time.perf_counter() - began
    with rows.open() as lines:
        assert len(answers) == sum(1 for _ in lines)
    return took


def batch_by_penstock(url: str, rows: Path, folder: Path) -> float:
    """The same as one durable job on SQLite: seconds, from the submit to the last answer read."""
    flow = Workflow("bench", payload=str)

    @flow.step
    async def ask(path: str, ctx: Context) -> int | Again:
        call = await ctx.call("gemini.batch", "all", BatchRequest(file=Path(path), model=MODEL, mode="file"))
        if not call.ended:
            return Again(path, until=call)
        answers = {row.key: row.text for row in read_rows(ctx.folder_of(call) / call.result["file"])}
        return len(answers)

    gemini = GeminiSettings(base_url=url, poll_every=POLL, poll_at_most=POLL, tier=3)
    settings = Settings(home=folder, gemini=gemini)
    settings._sources["gemini.base_url"] = "the bench"

    async def main() -> float:
        app = Penstock(workflows=[flow], store=f"sqlite:///{folder}/penstock.db")
        await app.open(settings=settings)
        try:
            async with app.worker():
                began = time.perf_counter()
                submitted = await app.submit(flow, str(rows))
                job = await app.wait(submitted.job_id, timeout=600)
                took = time.perf_counter() - began
        finally:
            await app.close()
        with rows.open() as lines:
            assert job.result == sum(1 for _ in lines), (job.status, job.error)
        return took

    return asyncio.run(main())
