"""Delivery by Prefect, against a real Prefect server: what is seen there, and that nothing is lost or done twice."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from penstock import InvalidConfiguration, InvalidRequest, Job, Penstock, Report
from penstock.cli.prefect_worker import runs_of
from penstock.delivery.contract import CHECKS, Harness
from penstock.delivery.prefect.naming import file_deployment, flow_name, require_prefect
from tests.support.cli import PENSTOCK, Cli
from tests.support.gemini import Gemini, running_gemini
from tests.support.pages import SCRIPT, Library, said
from tests.support.prefect import PATIENCE, ROOT, Missing, PrefectServer
from tests.support.prefect_contract import PrefectHarness
from tests.support.prefect_fork import Forked, Main
from tests.support.prefect_shop import register, run, run_pages, workflows

A, B = "Alabama/Howard College/1849", "Ohio/Oberlin/1850"
TASKS = {"wait_for_batch_completion", "process_batch_results", "scan_runnable_pages", "submit_new_batch"}


@pytest.fixture(scope="module")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer | Missing]:
    try:
        server = PrefectServer(tmp_path_factory.getbasetemp().parent / "prefect")
    except Missing as why:
        yield why
        return
    yield server
    server.stop()


@pytest.fixture
def server(_server: PrefectServer | Missing) -> PrefectServer:
    if isinstance(_server, Missing):
        pytest.skip(f"needs Prefect: {_server}")
    return _server


class Shop:
    """A store of its own, and processes that work on it by Prefect's orders."""

    def __init__(self, server: PrefectServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self._env = server.environment(
            PENSTOCK_APP="tests.support.prefect_shop:app",
            PENSTOCK_HOME=str(folder),
            PENSTOCK_STORE=self.store,
            PENSTOCK_DELIVERY="prefect",
            PENSTOCK_GRACE="100ms",
            PYTHONPATH=str(ROOT),
        )
        self._started: list[Forked] = []

    @property
    def store(self) -> str:
        return f"sqlite:///{self.folder}/penstock.db"

    def start(self, main: Main, *args: Any) -> Forked:
        process = Forked(self._env, self.folder, main, *args)
        self._started.append(process)
        return process

    def ended(self, process: Forked) -> Any:
        """Its last word."""
        last = process.heard()
        assert process.wait() == 0
        return last

    def flow_run(self, workflow: str) -> dict[str, Any]:
        return cast(dict[str, Any], self.ended(self.start(run, workflow)))

    def command(self, *args: str) -> subprocess.CompletedProcess[str]:
        """In a process that starts from nothing."""
        return subprocess.run(
            args, env=self._env, cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    def penstock(self, *args: str) -> str:
        done = self.command(str(PENSTOCK), *args)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit(self, workflow: str, payloads: list[Any]) -> list[str]:
        """Without telling Prefect."""

        async def main() -> list[str]:
            async with self._app() as app:
                return [told.job_id for told in await app.submit_many(workflow, payloads)]

        return asyncio.run(main())

    def job(self, job_id: str) -> Job:
        async def main() -> Job:
            async with self._app() as app:
                return await app.job(job_id)

        return asyncio.run(main())

    def kinds_of_events(self, job_id: str) -> list[str]:
        async def main() -> list[str]:
            async with self._app() as app:
                return [event.kind for event in await app.history(job_id)]

        return asyncio.run(main())

    def _app(self) -> Penstock:
        return Penstock(workflows=workflows(), store=self.store, outputs=self.folder)

    def close(self) -> None:
        for process in self._started:
            process.close()


class Shelf:
    """Books, a Gemini that answers from a script, and files that describe runs."""

    def __init__(self, folder: Path, gemini: Gemini) -> None:
        self.folder = folder
        self.gemini = gemini
        self.library = Library(folder, {A: [1, 2, 3], B: [7]})

    def write(self, name: str, **groups: Mapping[str, Any]) -> Path:
        told = self.library.run(batch={"poll_interval_seconds": 0.1}, **groups)
        (self.folder / name).write_text(yaml.safe_dump(told.model_dump(mode="json")))
        return self.folder / name


@pytest.fixture(scope="module")
def one_gemini() -> Iterator[Gemini]:
    with running_gemini() as gemini:
        yield gemini


@pytest.fixture
def shelf(shop: Shop, one_gemini: Gemini) -> Shelf:
    one_gemini.reset()
    one_gemini.script(SCRIPT)
    shop._env |= {
        "PENSTOCK_GEMINI__BASE_URL": one_gemini.url,
        "PENSTOCK_GEMINI__API_KEY": "key",
        # So long it takes until a batch is known not to have been created, where somebody was killed over it.
        "PENSTOCK_GEMINI__CREATE_TIMEOUT": "2s",
        "PENSTOCK_GEMINI__LISTING_MARGIN": "500ms",
    }
    return Shelf(shop.folder, one_gemini)


@pytest.fixture
def shop(server: PrefectServer, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(server, tmp_path)
    yield shop
    shop.close()


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)


def test_a_flow_run_brings_a_job_to_its_end_and_prefect_shows_how(shop: Shop) -> None:
    (job,) = shop.submit("press", [3])
    told = shop.flow_run("press")
    assert (told["state"], told["message"]) == ("COMPLETED", "Ended: nothing to do.")
    done = shop.job(job)
    assert (done.status, done.result, done.attempt) == ("completed", "4 sheets", 2)

    shown_by = Shown(shop.server, told["flow run"])
    until(lambda: len(shown_by.task_runs()) == 2, "the task runs")
    assert sorted(shown_by.task_runs()) == [("count_sheets", "COMPLETED"), ("mix_ink", "FAILED")]

    shown = shown_by.artifacts()
    assert shown["press-run"]["data"] == "# Two sheets"
    assert json.loads(shown["press-run-table"]["data"])[1] == {"sheet": 2, "ink": "red"}
    assert shown["press-run-progress"]["data"] == 100

    until(lambda: len(shown_by.lines("penstock.worker")) > 0, "the last log line")
    (line,) = shown_by.lines("penstock.step")
    assert line["message"].startswith(f"counting to 3 [job={job} workflow=press step=plan")
    assert line["task_run_id"] is not None


class Shown:
    """What Prefect shows of one flow run."""

    def __init__(self, server: PrefectServer, flow_run: str) -> None:
        self._server = server
        self._id = flow_run

    def task_runs(self) -> list[tuple[str, str]]:
        found = self._server.ask("task_runs", flow_runs={"id": {"any_": [self._id]}})
        return [(part["name"], part["state_type"]) for part in found]

    def artifacts(self) -> dict[str, dict[str, Any]]:
        found = self._server.ask("artifacts", flow_runs={"id": {"any_": [self._id]}})
        assert len({artifact["key"] for artifact in found}) == len(found), "a key is there twice"
        return {artifact["key"]: artifact for artifact in found}

    def lines(self, logger: str) -> list[dict[str, Any]]:
        found = self._server.ask("logs", logs={"flow_run_id": {"any_": [self._id]}})
        return [line for line in found if line["name"] == logger]


def test_a_submit_starts_one_flow_run_however_often_it_comes(shop: Shop) -> None:
    # Without a schedule: a run of its own that is due would do for this job, too.
    shop.ended(shop.start(partial(register, paused=True), "binding"))
    job = shop.penstock("jobs", "submit", "binding", "--payload", "1", "--key", "one", "--quiet").strip()
    shop.penstock("jobs", "submit", "binding", "--payload", "1", "--key", "one")
    (started,) = shop.server.flow_runs("penstock-binding")
    assert started["idempotency_key"].startswith(f"penstock:{job}:")
    assert started["state_type"] == "SCHEDULED"


def test_the_server_plans_the_flow_runs_of_a_schedule(shop: Shop) -> None:
    shop.ended(shop.start(register, "press", "held"))
    for workflow in ("press", "held"):
        deployment = shop.server.deployment(flow_name(workflow))
        assert [each["schedule"]["cron"] for each in deployment["schedules"]] == ["*/10 * * * *"]
        assert deployment["global_concurrency_limit"] is None
        assert deployment["parameters"] == {"workflow": workflow, "config": None}
        until(lambda: len(shop.server.planned(deployment["id"])) > 1, "the planned runs")  # noqa: B023
        first, second, *_ = shop.server.planned(deployment["id"])
        assert second - first == timedelta(minutes=10)


def test_two_flow_runs_at_once_share_the_work_and_do_nothing_twice(shop: Shop) -> None:
    jobs = shop.submit("chain", [0] * 30)
    both = [shop.start(run, "chain") for _ in range(2)]
    assert [shop.ended(each)["state"] for each in both] == ["COMPLETED", "COMPLETED"]
    for job in map(shop.job, jobs):
        assert (job.status, job.result, job.counters) == ("completed", 5, {"ticks": 6})


def test_what_a_killed_flow_run_held_goes_on_in_the_next(shop: Shop) -> None:
    (job,) = shop.submit("held", [str(shop.folder)])
    killed = shop.start(run, "held")
    until((shop.folder / "started").exists, "the step")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert shop.job(job).status == "running"
    (shop.folder / "go").touch()
    assert shop.flow_run("held")["state"] == "COMPLETED"
    done = shop.job(job)
    assert (done.status, done.result) == ("completed", "held")
    assert "crash" in shop.kinds_of_events(job)


def test_a_flow_run_that_is_told_to_stop_hands_its_job_back(shop: Shop) -> None:
    (job,) = shop.submit("held", [str(shop.folder)])
    running = shop.start(run, "held")
    until((shop.folder / "started").exists, "the step")
    running.send_signal(signal.SIGTERM)
    told = shop.ended(running)
    assert told["state"] == "CANCELLED"
    assert "handed back" in told["message"]
    back = shop.job(job)
    assert (back.status, back.worker, back.attempt) == ("queued", None, 0)


def test_a_worker_has_prefect_run_what_others_submit_and_what_files_describe(shop: Shop, shelf: Shelf) -> None:
    shop._env["PENSTOCK_APP"] = "tests.support.prefect_shop:served"
    file = shelf.write("shelf.yaml", prefect={"flow_name": "read the shelf", "schedule_interval_minutes": 45})
    log = (shop.folder / "log").open("w")
    command = [PENSTOCK, "worker", "--delivery", "prefect", "--pages", "shelf.yaml"]
    worker = subprocess.Popen(command, env=shop._env, cwd=shop.folder, stderr=log, stdout=log)
    try:
        until(lambda: "deployment read the shelf/shelf-" in (shop.folder / "log").read_text(), "the worker")
        job = shop.penstock("jobs", "submit", "chain", "--payload", "0", "--quiet").strip()
        deployment = shop.server.deployment("read the shelf", file_deployment(file))
        assert deployment["parameters"] == {"workflow": "pages", "config": None, "run": str(file)}
        assert [each["schedule"]["interval"] for each in deployment["schedules"]] == [45 * 60]
        shop.server.start(deployment["id"])
        assert shop.server.deployment("orchestrate_gemini_batch")["parameters"]["workflow"] == "pages"
        until(lambda: shop.job(job).final, "the job")
        assert shop.job(job).result == 5
        for flow in ("penstock-chain", "read the shelf"):
            until(lambda: shop.server.completed(flow), f"the end of a flow run of {flow}")  # noqa: B023
        assert shelf.library.done() == shelf.library.books
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(PATIENCE)
        log.close()
    assert worker.returncode == 0, (shop.folder / "log").read_text()


def test_the_pages_of_a_shelf_are_read_and_prefect_shows_how(shop: Shop, shelf: Shelf) -> None:
    told = shop.ended(shop.start(run_pages, str(shelf.write("pages.yaml"))))
    assert (told["state"], told["message"]) == ("COMPLETED", "Ended: nothing to do.")
    assert shelf.library.done() == shelf.library.books
    assert shelf.library.text(A, 3) == said(A, 3, 2)

    shown = Shown(shop.server, told["flow run"])
    until(lambda: {name for name, _ in shown.task_runs()} == TASKS, "the task runs")
    until(lambda: all(state == "COMPLETED" for _, state in shown.task_runs()), "the ends of the task runs")
    artifacts = shown.artifacts()
    batches = [f"pages-batch-{number:06d}" for number in (1, 2, 3)]
    tables = [f"{batch}-table" for batch in batches]
    assert sorted(artifacts) == sorted(["pages", "pages-progress", *batches, *tables])
    assert artifacts["pages-progress"]["data"] == 100
    assert artifacts["pages"]["data"].startswith("4 of 4 pages done")
    firsts = [shelf.library.key(A, 1), shelf.library.key(B, 7)]
    assert sorted(row["page"] for row in json.loads(artifacts[tables[0]]["data"])) == firsts
    until(lambda: len(shown.lines("penstock.worker")) > 1, "the last log lines")
    assert "batch 1: 2 of 2 pages done, 0 failed" in " ".join(line["message"] for line in shown.lines("penstock.step"))


def test_two_flow_runs_at_once_go_on_with_the_pages_of_one_that_was_killed(shop: Shop, shelf: Shelf) -> None:
    file = str(shelf.write("pages.yaml"))
    killed = shop.start(run_pages, file)
    until(shelf.library.output(A, 1).exists, "the first page")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert shelf.library.done() != shelf.library.books
    changed = str(shelf.write("pages.yaml", execution={"max_retries": 5}))
    both = [shop.start(run_pages, changed) for _ in range(2)]
    told = [shop.ended(each) for each in both]
    assert [each["state"] for each in told] == ["COMPLETED", "COMPLETED"]
    assert shelf.library.done() == shelf.library.books

    def lines() -> str:
        shown = [Shown(shop.server, each["flow run"]).lines("penstock.worker") for each in told]
        return " ".join(line["message"] for each in shown for line in each)

    until(lambda: "with another configuration (execution.max_retries differ)" in lines(), "the words for it")
    sent = shelf.gemini.journal(operation="create")
    assert len(sent) == 3, "a batch for each page of the longest chain"


def test_a_file_that_describes_no_run_is_named_at_the_start(tmp_path: Path) -> None:
    library = Library(tmp_path, {A: [1]})
    told = library.run().model_dump(mode="json")
    one, other, broken = (tmp_path / f"{name}.yaml" for name in ("one", "other", "broken"))
    for file in (one, other):
        file.write_text(yaml.safe_dump(told))
    assert list(runs_of([str(one), str(one)])) == [one]
    with pytest.raises(InvalidConfiguration, match=r"other.yaml: paths.output_dir is that of .*one.yaml"):
        runs_of([str(one), str(other)])
    told["prefect"]["flow_name"] = "a/b"
    broken.write_text(yaml.safe_dump(told))
    with pytest.raises(InvalidConfiguration, match=r"broken.yaml:\d+: prefect.flow_name"):
        runs_of([str(broken)])
    with pytest.raises(InvalidConfiguration, match=r"prompt"):
        one.write_text(yaml.safe_dump(told | {"prefect": {}, "prompt": {"name": "nobody's"}}))
        runs_of([str(one)])
    refused = Cli(tmp_path).inside("worker", "--pages", str(other), code=2)
    assert "--pages is for --delivery prefect" in refused.err


def test_files_of_one_name_in_two_folders_have_two_deployments() -> None:
    one, other = file_deployment(Path("/a/my shelf.yaml")), file_deployment(Path("/b/my shelf.yaml"))
    assert one.startswith("my-shelf-") and other.startswith("my-shelf-") and one != other


def test_work_is_done_once_where_prefect_cannot_be_reached(shop: Shop) -> None:
    shop._env["PREFECT_API_URL"] = "http://127.0.0.1:9/api"
    done = shop.command(sys.executable, "-m", "tests.support.prefect_shop")
    assert json.loads(done.stdout) == {"value": 7, "calls": ["work", "fail"], "same error": True}


@pytest.mark.parametrize(
    ("address", "said"), [("", "needs the address of Prefect's API"), ("http://127.0.0.1:9/api", "does not answer")]
)
def test_a_worker_says_where_prefect_is_missing(shop: Shop, address: str, said: str) -> None:
    shop._env["PREFECT_API_URL"] = address
    done = shop.command(str(PENSTOCK), "worker", "--delivery", "prefect")
    assert done.returncode == 2
    assert said in done.stderr and "prefect server start" in done.stderr


def test_without_prefect_the_parts_of_a_step_are_plain_awaits(tmp_path: Path) -> None:
    done = Penstock(workflows=workflows(), store="memory://", outputs=tmp_path).run("press", 3)
    assert (done.result, done.attempt, done.counters) == ("4 sheets", 2, {"parts": 1})


@pytest.mark.parametrize("wrong", [{"key": "Two Words"}, {"key": "one", "progress": 101}])
def test_a_report_that_nobody_could_show_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        Report(title="It", **wrong)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prefect", None)
    with pytest.raises(InvalidConfiguration, match=r"pip install 'penstock\[prefect\]'"):
        require_prefect()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_flow_runs_keep_the_contract_of_every_delivery(
    check: Callable[[Harness], Awaitable[None]], server: PrefectServer, tmp_path: Path
) -> None:
    async def main() -> None:
        harness = PrefectHarness(server, tmp_path)
        try:
            await check(harness)
        finally:
            await harness.close()

    asyncio.run(main())
