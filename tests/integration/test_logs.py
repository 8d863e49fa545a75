"""Log lines for programs: what they are about, and what they never hold."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock import Context, Penstock, Permanent, Workflow
from penstock.cli.logs import JsonLines, PlainLines
from penstock.engine.tracing import root_span_of, trace_id_of
from penstock.store.memory import MemoryStore
from tests.support.cli import Cli

PATIENCE = 30.0


class Lines(logging.Handler):
    """What would have been written, line by line; read where it is written, as a real handler does."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.json: list[dict[str, Any]] = []
        self.plain: list[str] = []
        self.setFormatter(JsonLines())

    def emit(self, record: logging.LogRecord) -> None:
        self.json.append(json.loads(self.format(record)))
        self.plain.append(PlainLines().format(record))

    def of(self, logger: str) -> list[dict[str, Any]]:
        return [line for line in self.json if line["logger"] == logger]


@pytest.fixture
def lines() -> Iterator[Lines]:
    lines = Lines()
    root = logging.getLogger()
    level = root.level
    root.addHandler(lines)
    root.setLevel(logging.INFO)
    yield lines
    root.removeHandler(lines)
    root.setLevel(level)


def flow() -> Workflow:
    workflow = Workflow("talk", payload=str)

    @workflow.step
    async def first(word: str, ctx: Context) -> str:
        ctx.log.info("by the step")
        logging.getLogger("some.library").warning("by a library")
        return word

    @workflow.step
    def second(word: str, ctx: Context) -> str:
        logging.getLogger("some.library").warning("from a thread")
        if word == "break":
            raise Permanent("it broke")
        return word

    return workflow


def run(*words: str) -> list[str]:
    """Run jobs to their end; their ids."""

    async def main() -> list[str]:
        app = Penstock(workflows=[flow()], store=MemoryStore())
        async with app, app.worker():
            ids = [(await app.submit("talk", word, tenant="acme")).job_id for word in words]
            for job_id in ids:
                await app.wait(job_id, timeout=PATIENCE)
            return ids

    return asyncio.run(main())


def test_every_line_written_while_a_step_runs_says_which(lines: Lines) -> None:
    (job,) = run("break")
    told = {line["message"].partition(":")[0]: line for line in lines.json if "job" in line}
    assert {"by the step", "by a library", "from a thread", f"job {job} failed in step 'second'"} <= set(told)
    for line in told.values():
        assert (line["job"], line["workflow"], line["tenant"], line["attempt"]) == (job, "talk", "acme", 1)
        assert line["trace_id"] == trace_id_of(job)
        assert line["worker"]
        assert "span_id" not in line, "nobody asked for traces"
    assert told["by the step"]["step"] == told["by a library"]["step"] == "first"
    assert told["from a thread"]["step"] == "second"


def test_a_line_has_the_time_the_level_and_the_logger(lines: Lines) -> None:
    run("x")
    line = next(line for line in lines.json if line["message"] == "by the step")
    assert (line["level"], line["logger"]) == ("info", "penstock.step")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
    assert isinstance(line["process"], int)


def test_plain_lines_name_the_job_and_leave_out_what_only_programs_need(lines: Lines) -> None:
    (job,) = run("x")
    line = next(line for line in lines.plain if "by the step" in line)
    assert line.endswith(f"by the step [job={job} workflow=talk step=first attempt=1 tenant=acme]")


def test_what_runs_between_ticks_is_about_no_job(lines: Lines) -> None:
    async def main() -> None:
        app = Penstock(workflows=[flow()], store=MemoryStore())
        async with app:
            job = await app.submit("talk", "x")
            while (await app.job(job.job_id)).status != "completed":
                await app.engine.advance_next()
            logging.getLogger("test").warning("after it")

    asyncio.run(main())
    (line,) = lines.of("test")
    assert "job" not in line


def test_a_line_that_names_another_job_has_that_jobs_trace() -> None:
    record = logging.LogRecord("x", logging.INFO, __file__, 1, "about another", (), None)
    record.job = "another"
    assert json.loads(JsonLines().format(record))["trace_id"] == trace_id_of("another")


def test_a_jobs_trace_is_the_same_everywhere_and_no_other_jobs() -> None:
    assert trace_id_of("01abc") == trace_id_of("01abc") == "18accdae71af098af232c9fc8879b236"
    assert root_span_of("01abc") == "77300c56554c645d"
    assert trace_id_of("01abc") != trace_id_of("01abd")


def test_a_request_leaves_one_line_without_its_query(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    try:
        cli.start("up", "--port", "0", "--json", "--log-format", "json")
        cli.until(lambda: '"url"' in cli.log, "the service")
        (address,) = re.findall(r'"url":\s*"([^"]+)"', cli.log)
        with httpx2.Client(base_url=address, timeout=PATIENCE) as client:
            made = client.post(
                "/api/v1/jobs?token=hidden",
                json={"workflow": "hello", "payload": "secret words"},
                headers={"X-Request-ID": "my-request"},
            )
            job = made.json()["job"]["id"]
            client.get(f"/api/v1/jobs/{job}?q=hidden")
            deadline = time.monotonic() + PATIENCE
            while client.get(f"/api/v1/jobs/{job}").json()["status"] != "completed":
                assert time.monotonic() < deadline
        cli.until(lambda: "greeting" in cli.log, "the step's line")
        lines = [json.loads(line) for line in cli.log.splitlines() if line.startswith('{"time"')]
    finally:
        cli.stop()
    (line,) = [line for line in lines if line.get("request_id") == "my-request"]
    assert (line["method"], line["route"], line["status"]) == ("POST", "/api/v1/jobs", 201)
    assert line["duration"] > 0
    shown = next(line for line in lines if line.get("route") == "/api/v1/jobs/{job_id}")
    assert shown["status"] == 200
    assert job not in json.dumps(shown), "a path is told by its template"
    step = next(line for line in lines if line["logger"] == "penstock.step")
    assert (step["job"], step["trace_id"]) == (job, trace_id_of(job))
    assert "hidden" not in cli.log
    assert "secret words" not in json.dumps([line for line in lines if line["logger"] != "penstock.step"])
