"""Prefect with its own server on SQLite. A job is a flow run with a persisted result, a workflow a flow of five tasks.

Flows are asynchronous, which is several times faster here than the synchronous kind, and run one after another and
eight at once; the better counts. The memory is the server's and this process's together.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable

from bench.engine.script.assignment import Assignment
from bench.engine.script.memory import resident_mb
from bench.engine.script.report import report
from bench.engine.script.timing import Stopwatch, report_latencies, wait_until
from bench.engine.script.workers import workers

QUIET = {
    "DO_NOT_TRACK": "1",
    "NO_COLOR": "1",
    "PREFECT_CLI_PROMPT": "false",
    "PREFECT_LOGGING_LEVEL": "ERROR",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_ENABLED": "false",
}
AT_ONCE = 8


def speed(assignment: Assignment) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    os.environ |= QUIET | {"PREFECT_HOME": str(assignment.folder / "home")}
    with workers(assignment, "prefect", "server", "start", "--host", "127.0.0.1", "--port", port):
        os.environ["PREFECT_API_URL"] = f"http://127.0.0.1:{port}/api"
        wait_until(_is_healthy, every=0.1)
        asyncio.run(_measure(assignment))


def _is_healthy() -> bool:
    try:
        with urllib.request.urlopen(f"{os.environ['PREFECT_API_URL']}/health", timeout=1) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


async def _measure(assignment: Assignment) -> None:
    # A cold start includes the import, which is most of it; the server is already there.
    cold = Stopwatch()
    from prefect import flow, task

    started: dict[int, float] = {}

    @flow(persist_result=True)
    async def noop(i: int) -> int:
        started[i] = time.perf_counter()
        return i

    @task(persist_result=True)
    async def increment(i: int) -> int:
        return i + 1

    @flow(persist_result=True)
    async def five(i: int) -> int:
        for _ in range(5):
            i = await increment(i)
        return i

    await noop(-1)
    report("cold_start", cold.seconds)

    async def best(run: Callable[[int], Awaitable[int]], count: int) -> float:
        return max([await _rate(run, count, at_once) for at_once in (1, AT_ONCE)])

    report("jobs", await best(noop, assignment.jobs))
    report("workflows", await best(five, assignment.workflows))
    latencies = []
    for i in range(10**6, 10**6 + assignment.latencies):
        submitted = time.perf_counter()
        await noop(i)
        latencies.append(started[i] - submitted)
        await asyncio.sleep(0.02)
    report_latencies(latencies)
    report("memory", resident_mb(os.getpid()))  # the server is a child of this process


async def _rate(run: Callable[[int], Awaitable[int]], count: int, at_once: int) -> float:
    places = asyncio.Semaphore(at_once)

    async def one(i: int) -> None:
        async with places:
            await run(i)

    watch = Stopwatch()
    await asyncio.gather(*(one(i) for i in range(count)))
    return count / watch.seconds
