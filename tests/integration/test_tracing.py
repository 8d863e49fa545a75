"""Traces, as a collector gets them: one trace a job, whoever runs its ticks; and never in the way of the work."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from penstock import Context, Penstock, Permanent, Retry, Workflow
from penstock.cli.logs import JsonLines
from penstock.config import Settings
from penstock.engine.errors import InvalidConfiguration
from penstock.engine.tracing import root_span_of, trace_id_of
from penstock.telemetry import starting
from tests.support.cli import Cli
from tests.support.collector import Collector, collecting
from tests.support.shop import Shop, orders

PATIENCE = 30.0
SERVER, CLIENT, CONSUMER = 2, 3, 5
ERROR = 2
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


def flow() -> Workflow:
    workflow = Workflow("steps", payload=int, retry=Retry(attempts=2, base=0.001))

    @workflow.step
    async def first(n: int, ctx: Context) -> int:
        return n

    @workflow.step
    async def second(n: int, ctx: Context) -> int:
        if n < 0:
            raise Permanent("less than nothing")
        return n

    return workflow


def settings(folder: Path, endpoint: str | None) -> Settings:
    return Settings.model_validate(
        {"home": folder, "store": "memory://", "otel": {"endpoint": endpoint, "service_name": "pipes"}}
    )


async def run(app: Penstock, configured: Settings, workflow: str, payload: object) -> str:
    """One job, to its end; then everything is closed, and what is left of the traces is sent."""
    await app.open(settings=configured)
    try:
        async with app.worker():
            job = await app.submit(workflow, payload, tenant="acme")
            await app.wait(job.job_id, timeout=PATIENCE)
            return job.job_id
    finally:
        await app.close()


def test_a_job_is_one_trace_with_a_span_for_each_tick(tmp_path: Path, collector: Collector) -> None:
    job = asyncio.run(run(Penstock(workflows=[flow()]), settings(tmp_path, collector.url), "steps", 1))
    assert collector.paths == {"/v1/traces"}
    assert {span.trace for span in collector.spans} == {trace_id_of(job)}
    assert {span.service for span in collector.spans} == {"pipes"}
    (whole,) = collector.named("steps")
    (first,) = collector.named("steps/first")
    (second,) = collector.named("steps/second")
    assert len(collector.spans) == 3
    assert (whole.id, whole.parent) == (root_span_of(job), "")
    assert first.parent == second.parent == whole.id
    assert whole.attributes["penstock.status"] == "completed"
    assert whole.began <= whole.ended
    assert first.kind == CONSUMER
    worker = first.attributes.pop("penstock.worker")
    assert worker
    assert first.attributes == {
        "penstock.job": job,
        "penstock.workflow": "steps",
        "penstock.step": "first",
        "penstock.attempt": 1,
        "penstock.tenant": "acme",
        "penstock.outcome": "next",
    }
    assert second.attributes["penstock.outcome"] == "done"


def test_a_tick_that_fails_records_its_error(tmp_path: Path, collector: Collector) -> None:
    asyncio.run(run(Penstock(workflows=[flow()]), settings(tmp_path, collector.url), "steps", -1))
    (failed,) = collector.named("steps/second")
    assert (failed.attributes["penstock.outcome"], failed.status) == ("fail", ERROR)
    assert failed.events == ({"exception.type": "Permanent", "exception.message": "less than nothing"},)
    (whole,) = collector.named("steps")
    assert (whole.attributes["penstock.status"], whole.status) == ("failed", ERROR)


def test_remote_calls_are_below_the_tick_that_made_them_and_collected_below_the_job(
    tmp_path: Path, collector: Collector
) -> None:
    app = Penstock(workflows=[orders], remotes=[Shop("shop", "findable")])
    payload = {"remote": "shop", "does": "answer"}
    job = asyncio.run(run(app, settings(tmp_path, collector.url), "orders", payload))
    (sent,) = collector.named("shop submit")
    (home,) = collector.named("shop collect")
    ticks = {span.id for span in collector.spans if span.kind == CONSUMER}
    assert sent.parent in ticks
    assert home.parent == root_span_of(job)
    assert sent.trace == home.trace == trace_id_of(job)
    assert sent.kind == home.kind == CLIENT
    assert sent.attributes["penstock.remote"] == "shop"


def test_log_lines_of_a_step_name_its_span(tmp_path: Path, collector: Collector) -> None:
    said: list[dict[str, object]] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(json.loads(JsonLines().format(record)))

    workflow = Workflow("says", payload=int)

    @workflow.step
    async def say(n: int, ctx: Context) -> int:
        ctx.log.warning("here")
        return n

    handler = Handler()
    logging.getLogger("penstock.step").addHandler(handler)
    try:
        asyncio.run(run(Penstock(workflows=[workflow]), settings(tmp_path, collector.url), "says", 1))
    finally:
        logging.getLogger("penstock.step").removeHandler(handler)
    (line,) = said
    (span,) = collector.named("says/say")
    assert (line["trace_id"], line["span_id"]) == (span.trace, span.id)


def test_two_processes_add_to_one_trace_and_a_request_links_to_it(tmp_path: Path, collector: Collector) -> None:
    cli = Cli(tmp_path)
    cli.environ |= {"PENSTOCK_OTEL__ENDPOINT": collector.url}
    try:
        up = cli.start("up", "--no-worker", "--port", "0", "--json")
        cli.until(lambda: '"url"' in cli.log, "the service")
        (address,) = re.findall(r'"url":\s*"([^"]+)"', cli.log)
        with httpx2.Client(base_url=address, timeout=PATIENCE) as client:
            body = {"workflow": "held", "payload": "mark"}
            job = client.post("/api/v1/jobs", json=body, headers={"traceparent": PARENT}).json()["job"]["id"]
        first = cli.start_worker("--grace", "100ms")
        cli.until_file("mark")
        first.send_signal(signal.SIGTERM)
        assert first.wait(PATIENCE) == 0
        cli.file("go").touch()
        second = cli.start_worker("--stop-when-idle", "100ms")
        assert second.wait(PATIENCE) == 0
        up.send_signal(signal.SIGTERM)
        assert up.wait(PATIENCE) == 0
    finally:
        cli.stop()
    ticks = collector.named("held/hold")
    assert {span.attributes["penstock.outcome"] for span in ticks} == {"cancelled", "done"}
    assert len({span.attributes["penstock.worker"] for span in ticks}) == 2
    assert {(span.trace, span.parent) for span in ticks} == {(trace_id_of(job), root_span_of(job))}
    (whole,) = collector.named("held")
    assert (whole.trace, whole.id) == (trace_id_of(job), root_span_of(job))
    (request,) = collector.named("POST /api/v1/jobs")
    assert request.kind == SERVER
    assert (request.trace, request.parent) == tuple(PARENT.split("-")[1:3])
    assert request.links == ((trace_id_of(job), root_span_of(job)),)
    assert request.attributes["http.response.status_code"] == 201


def test_a_collector_that_is_away_fails_no_job(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{nobody.getsockname()[1]}"

        async def main() -> str:
            app = Penstock(workflows=[flow()])
            await app.open(settings=settings(tmp_path, endpoint))
            try:
                async with app.worker():
                    jobs = [await app.submit("steps", n) for n in range(50)]
                    return "".join({(await app.wait(job.job_id, timeout=PATIENCE)).status for job in jobs})
            finally:
                await app.close()

        assert asyncio.run(main()) == "completed"


def test_what_is_configured_and_not_installed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "NEEDED", ("opentelemetry.no_such_part",))

    async def main() -> None:
        with pytest.raises(InvalidConfiguration, match=r"pip install 'penstock\[otel\]'"):
            await Penstock(workflows=[flow()]).open(settings=settings(tmp_path, "http://127.0.0.1:4318"))

    asyncio.run(main())


def test_nothing_of_opentelemetry_is_imported_unless_it_is_configured(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from penstock import Penstock, Workflow
import penstock.service.app

flow = Workflow("flow", payload=int)

@flow.step
async def step(n, ctx):
    return n

async def main():
    app = Penstock(workflows=[flow], store="memory://")
    async with app, app.worker():
        await app.wait((await app.submit(flow, 1)).job_id, timeout=30)

asyncio.run(main())
# FastAPI looks for the API of OpenTelemetry by itself; what sends spans is ours to leave out.
unwanted = ("opentelemetry.sdk", "opentelemetry.exporter", "penstock.telemetry.otel")
assert not [name for name in sys.modules if name.startswith(unwanted)]
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=60)
