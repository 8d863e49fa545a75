"""Log lines for programs: what they are about, and what they never hold."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock import Context, Penstock, Permanent, Workflow
from penstock.cli.logs import JsonLines, PlainLines
from penstock.config import Settings
from penstock.engine.tracing import about, root_span_of, trace_id_of
from penstock.service.metrics import Metrics
from penstock.service.server import Ending
from penstock.service.state import Service
from penstock.service.traffic import NOT_ANSWERED, Traffic
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


def plain(message: str, *args: object, error: BaseException | None = None) -> str:
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    return PlainLines().format(logging.LogRecord("test", logging.INFO, __file__, 1, message, args, exc_info))


def test_a_text_with_ends_of_lines_makes_no_plain_line_of_its_own() -> None:
    forged = "a\n2026-01-01 00:00:00 info    all is well\r\nb\rc\x1b[2Kd\x85e\u2028f\u202eg"
    first, *further = plain("noted %s", forged).split("\n")
    assert first.endswith("noted a")
    assert further == [r"    | 2026-01-01 00:00:00 info    all is well", r"    | b\rc\x1b[2Kd\x85e\u2028f\u202eg"]


def test_where_an_error_came_from_keeps_its_lines_below_the_first() -> None:
    try:
        raise ValueError("bad\n2026-01-01 00:00:00 info    all is well\x1b[2K")
    except ValueError as error:
        _, *further = plain("it broke", error=error).split("\n")
    assert further[0] == "    Traceback (most recent call last):"
    assert further[-1] == r"    2026-01-01 00:00:00 info    all is well\x1b[2K"
    assert all(line.startswith("    ") for line in further)


def test_text_in_any_language_is_written_as_it_is() -> None:
    text = "na\u00efve \u65e5\u672c\u8a9e\u3000\u00a0\tx \U0001f469\u200d\U0001f680"
    assert plain("%s", text).endswith(text)


def test_of_one_tick_two_hundred_lines_are_kept_and_one_that_says_where_the_others_are() -> None:
    talkative = Workflow("talkative")

    @talkative.step
    async def talk(amount: int, ctx: Context) -> None:
        for n in range(amount):
            ctx.log.info("line %d", n)

    async def kept(amount: int) -> list[str]:
        app = Penstock(workflows=[talkative], store=MemoryStore())
        async with app:
            job = (await app.submit("talkative", amount)).job_id
            while (await app.job(job)).status != "completed":
                await app.engine.advance_next()
            return [line.text for line in await app.logs(job)]

    whole = [f"line {n}" for n in range(200)]
    assert asyncio.run(kept(200)) == whole
    assert asyncio.run(kept(500)) == [*whole, "further lines of this tick are in the worker's log only"]


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
                "/api/v1/jobs",
                json={"workflow": "hello", "payload": "secret words"},
                headers={"X-Request-ID": "my-request"},
            )
            job = made.json()["job"]["id"]
            refused = client.get(f"/api/v1/jobs/{job}x?q=hidden").status_code
            assert 400 <= refused < 500
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
    assert (shown["status"], shown["level"]) == (refused, "info")
    assert job not in json.dumps(shown), "a path is told by its template"
    step = next(line for line in lines if line["logger"] == "penstock.step")
    assert (step["job"], step["trace_id"]) == (job, trace_id_of(job))
    assert "hidden" not in cli.log
    assert "secret words" not in json.dumps([line for line in lines if line["logger"] != "penstock.step"])


async def _answered(lines: Lines, method: str, path: str, app: Any) -> dict[str, Any]:
    """The line that such a request leaves."""

    async def nothing(*args: Any) -> Any: ...

    scope = {"type": "http", "method": method, "path": path, "headers": []}
    service = Service(penstock=Penstock(), settings=Settings(), feed=None, sections=())  # type: ignore[arg-type]
    await Traffic(app, service, Metrics(service))(scope, nothing, nothing)
    return lines.of("penstock.http")[-1]


@pytest.mark.parametrize(
    ("method", "path", "status", "level"),
    [
        ("GET", "/ui/jobs", 200, "debug"),
        ("HEAD", "/ui/jobs", 200, "debug"),
        ("GET", "/api/v1/jobs", 200, "debug"),
        ("GET", "/ui/jobs/ghost", 404, "debug"),
        ("GET", "/api/v1/jobs/ghost", 404, "info"),
        ("GET", "/api/v1/jobs", 499, "debug"),
        ("GET", "/ui/jobs", 503, "warning"),
        ("POST", "/api/v1/jobs", 201, "info"),
        ("POST", "/ui/jobs/x/cancel", 303, "info"),
    ],
)
def test_what_only_reads_is_told_to_who_looks_for_errors(
    lines: Lines, method: str, path: str, status: int, level: str
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if status != NOT_ANSWERED:
            await send({"type": "http.response.start", "status": status, "headers": []})

    logging.getLogger().setLevel(logging.DEBUG)
    line = asyncio.run(_answered(lines, method, path, app))
    assert (line["status"], line["level"]) == (status, level)


def test_what_a_request_began_and_goes_on_after_it_is_not_about_the_request(lines: Lines) -> None:
    async def main() -> None:
        over = asyncio.Event()
        begun: list[asyncio.Task[None]] = []

        async def going_on() -> None:
            logging.getLogger("test").info("meanwhile")
            await over.wait()
            logging.getLogger("test").info("afterwards")

        async def app(scope: Any, receive: Any, send: Any) -> None:
            begun.append(asyncio.create_task(going_on()))
            await asyncio.sleep(0)

        await _answered(lines, "POST", "/x", app)
        over.set()
        await begun[0]

    asyncio.run(main())
    assert [(line["message"], "request_id" in line) for line in lines.of("test")] == [
        ("meanwhile", True),
        ("afterwards", False),
    ]


def test_what_a_signal_does_is_not_about_the_request_that_it_came_into(lines: Lines) -> None:
    async def main() -> None:
        heeded = asyncio.Event()

        def second() -> None:
            logging.getLogger("test").info("a second signal")
            heeded.set()

        ending = Ending(at_most=PATIENCE, on_second=second)
        with ending.heeding():
            about.set(lambda: {"request_id": "of-a-request"})
            logging.getLogger("test").info("a request")
            for _ in range(2):
                signal.raise_signal(signal.SIGTERM)
            await asyncio.wait_for(heeded.wait(), PATIENCE)
            assert ending.first.is_set()

    asyncio.run(main())
    assert [line.get("request_id") for line in lines.of("test")] == ["of-a-request", None]
