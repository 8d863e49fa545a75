"""The local Gemini without a server, inside a loop of virtual time: no sockets, no threads, and the same every time."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai import errors, types

from penstock.gemini_local.app import LocalGemini, create_app, inline_call
from penstock.gemini_local.backends.script import ScriptBackend
from penstock.gemini_local.faults import Fault
from penstock.gemini_local.settings import Pace, Quotas, Settings
from penstock.simulation.clock import SimClock
from penstock.simulation.loop import VirtualLoop

HOUR = 3600.0
FLASH = "gemini-2.5-flash"

Scenario = Callable[[Any, LocalGemini], Awaitable[Any]]


def opened(
    folder: Path, clock: SimClock, seed: int = 7, pace: Pace | None = None, quotas: Quotas | None = None
) -> LocalGemini:
    return create_app(
        folder,
        ScriptBackend(sleep=clock.sleep),
        clock=clock,
        rng=Random(seed),
        settings=Settings(pace=pace or Pace(), quotas=quotas or Quotas()),
        in_thread=inline_call,
    )


def client_of(app: LocalGemini) -> genai.Client:
    inside = httpx2.AsyncClient(transport=httpx2.ASGITransport(app))
    options = types.HttpOptions(base_url="http://127.0.0.1", httpx_async_client=inside)
    return genai.Client(api_key="k", http_options=options)


def simulated(
    folder: Path,
    scenario: Scenario,
    pace: Pace | None = None,
    faults: list[dict[str, Any]] | None = None,
    quotas: Quotas | None = None,
) -> Any:
    loop = VirtualLoop(1_800_000_000.0)

    async def run() -> Any:
        app = opened(folder, SimClock(loop), pace=pace, quotas=quotas)
        await app.start()
        app.services.faults.replace([Fault.parse(spec) for spec in faults or []])
        answer = await scenario(client_of(app).aio, app)
        await app.stop()
        return answer

    try:
        return loop.run_until_complete(run())
    finally:
        loop.close()


async def created(api: Any, rows: int = 20) -> Any:
    lines = [{"key": f"k{n}", "request": {"contents": [{"parts": [{"text": f"row {n}"}]}]}} for n in range(rows)]
    content = io.BytesIO("\n".join(json.dumps(line) for line in lines).encode())
    file = await api.files.upload(file=content, config={"mime_type": "application/jsonl"})
    return await api.batches.create(model=FLASH, src=file.name, config={"display_name": "job"})


async def collected(api: Any, job: Any, every: float = 60.0) -> bytes:
    while not job.done:
        await asyncio.sleep(every)
        job = await api.batches.get(name=job.name)
    assert job.dest is not None, job
    content: bytes = await api.files.download(file=job.dest.file_name)
    return content


def test_hours_of_waiting_pass_at_once_and_always_alike(tmp_path: Path) -> None:
    async def scenario(api: Any, app: LocalGemini) -> tuple[str, bytes, float]:
        job = await created(api)
        content = await collected(api, job)
        return job.name, content, asyncio.get_running_loop().time()

    pace = Pace(pending_for=5 * HOUR, running_for=3 * HOUR, row_delay=60)
    runs = [simulated(tmp_path / str(n), scenario, pace, [{"kind": "shuffle"}]) for n in range(2)]
    assert runs[0] == runs[1]
    assert len(runs[0][1].split(b"\n")) == 21
    assert runs[0][2] >= 1_800_000_000 + 8 * HOUR


def test_a_dropped_connection_is_the_clients_transport_error(tmp_path: Path) -> None:
    async def scenario(api: Any, app: LocalGemini) -> None:
        with pytest.raises(httpx2.RemoteProtocolError):
            await created(api)
        [job] = [job async for job in await api.batches.list()]
        assert job.display_name == "job"
        with pytest.raises(httpx2.RemoteProtocolError):
            await collected(api, job)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(api.models.generate_content(model=FLASH, contents="x"), 1000)

    faults = [
        {"kind": "drop_after", "where": "create", "times": 1},
        {"kind": "half_download"},
        {"kind": "hang", "where": "generate"},
    ]
    simulated(tmp_path, scenario, faults=faults)


def test_a_job_that_is_stuck_expires_after_two_days(tmp_path: Path) -> None:
    async def scenario(api: Any, app: LocalGemini) -> types.BatchJob:
        job = await created(api)
        while not job.done:
            await asyncio.sleep(HOUR)
            job = await api.batches.get(name=job.name)
        return job

    job = simulated(tmp_path, scenario, faults=[{"kind": "stuck_running"}])
    assert job.state == types.JobState.JOB_STATE_EXPIRED


def test_a_process_that_died_is_followed_by_one_that_goes_on(tmp_path: Path) -> None:
    loop = VirtualLoop(1_800_000_000.0)

    async def run() -> None:
        clock = SimClock(loop)
        first = opened(tmp_path, clock, pace=Pace(row_delay=10))
        await first.start()
        job = await created(client_of(first).aio, rows=100)
        await asyncio.sleep(35)
        asked = first.services.backend.asked  # type: ignore[attr-defined]
        first.services.backend.follow([{"match": "slow", "delay": 100}])  # type: ignore[attr-defined]
        assert 0 < asked < 100
        asking = asyncio.create_task(client_of(first).aio.models.generate_content(model=FLASH, contents="slow"))
        await asyncio.sleep(1)
        first.abandon()
        for call in (asking, client_of(first).aio.batches.get(name=job.name)):
            with pytest.raises(httpx2.RemoteProtocolError):
                await call
        second = opened(tmp_path, clock, seed=8)
        await second.start()
        content = await collected(client_of(second).aio, job)
        assert len(content.split(b"\n")) == 101
        assert second.services.backend.asked == 100 - asked  # type: ignore[attr-defined]
        await second.stop()

    loop.run_until_complete(run())
    loop.close()


def test_quotas_of_requests_are_told_by_the_virtual_clock(tmp_path: Path) -> None:
    async def scenario(api: Any, app: LocalGemini) -> None:
        await api.models.generate_content(model=FLASH, contents="x")
        with pytest.raises(errors.ClientError):
            await api.models.generate_content(model=FLASH, contents="x")
        await asyncio.sleep(61)
        assert (await api.models.generate_content(model=FLASH, contents="x")).text == "x"

    simulated(tmp_path, scenario, quotas=Quotas(requests_per_minute=1))
