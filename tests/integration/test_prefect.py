"""Delivery by Prefect, against a real Prefect server: what is seen there, and that nothing is lost or done twice."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import InvalidConfiguration, InvalidRequest, Job, Penstock, Report
from penstock.delivery.contract import CHECKS, Harness
from penstock.delivery.prefect.naming import flow_name, require_prefect
from tests.support.cli import PENSTOCK
from tests.support.prefect import PATIENCE, ROOT, Missing, PrefectServer
from tests.support.prefect_contract import PrefectHarness
from tests.support.prefect_shop import workflows


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
        self._started: list[subprocess.Popen[str]] = []

    @property
    def store(self) -> str:
        return f"sqlite:///{self.folder}/penstock.db"

    def start(self, *command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(command, env=self._env, cwd=self.folder, stdout=subprocess.PIPE, text=True)
        self._started.append(process)
        return process

    def program(self, *args: str) -> subprocess.Popen[str]:
        return self.start(sys.executable, "-m", "tests.support.prefect_shop", *args)

    def flow_run(self, workflow: str) -> dict[str, Any]:
        return self.ended(self.program("run", workflow))

    def ended(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        out, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        told: dict[str, Any] = json.loads(out.splitlines()[-1])
        return told

    def penstock(self, *args: str) -> str:
        done = self.start(str(PENSTOCK), *args)
        out, _ = done.communicate(timeout=PATIENCE)
        assert done.returncode == 0, out
        return out

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
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()


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
    assert shop.flow_run("press") == {"state": "COMPLETED", "message": "Ended: nothing to do."}
    done = shop.job(job)
    assert (done.status, done.result, done.attempt) == ("completed", "4 sheets", 2)

    server = shop.server
    run = server.flow_runs("penstock-press")[-1]
    of_run = {"flow_runs": {"id": {"any_": [run["id"]]}}}
    until(lambda: len(server.ask("task_runs", **of_run)) == 2, "the task runs")
    parts = {part["name"]: part["state_type"] for part in server.ask("task_runs", **of_run)}
    assert parts == {"count_sheets": "COMPLETED", "mix_ink": "FAILED"}

    shown = {artifact["key"]: artifact for artifact in server.ask("artifacts", **of_run)}
    assert shown["press-run"]["data"] == "# Two sheets"
    assert json.loads(shown["press-run-table"]["data"])[1] == {"sheet": 2, "ink": "red"}
    assert shown["press-run-progress"]["data"] == 100

    until(lambda: len(_lines(server, run, "penstock.worker")) > 0, "the last log line")
    (line,) = _lines(server, run, "penstock.step")
    assert line["message"].startswith(f"counting to 3 [job={job} workflow=press step=plan")
    assert line["task_run_id"] is not None


def _lines(server: PrefectServer, run: dict[str, Any], logger: str) -> list[dict[str, Any]]:
    lines = server.ask("logs", logs={"flow_run_id": {"any_": [run["id"]]}})
    return [line for line in lines if line["name"] == logger]


def test_a_submit_starts_one_flow_run_however_often_it_comes(shop: Shop) -> None:
    shop.program("register").wait(PATIENCE)
    before = len(shop.server.flow_runs("penstock-binding"))
    job = shop.penstock("jobs", "submit", "binding", "--payload", "1", "--key", "one", "--quiet").strip()
    shop.penstock("jobs", "submit", "binding", "--payload", "1", "--key", "one")
    (run,) = shop.server.flow_runs("penstock-binding")[before:]
    assert run["idempotency_key"].startswith(f"penstock:{job}:")
    assert run["state_type"] == "SCHEDULED"
    shop.server.api.delete(f"/flow_runs/{run['id']}")


def test_every_workflow_has_a_deployment_with_a_schedule_and_no_limit(shop: Shop) -> None:
    shop.program("register").wait(PATIENCE)
    for workflow in workflows():
        deployment = shop.server.deployment(flow_name(workflow.name))
        assert [each["schedule"]["cron"] for each in deployment["schedules"]] == ["*/10 * * * *"]
        assert deployment["global_concurrency_limit"] is None
        assert deployment["parameters"] == {"workflow": workflow.name, "config": None}


def test_two_flow_runs_at_once_share_the_work_and_do_nothing_twice(shop: Shop) -> None:
    jobs = shop.submit("chain", [0] * 30)
    both = [shop.program("run", "chain") for _ in range(2)]
    assert [shop.ended(each)["state"] for each in both] == ["COMPLETED", "COMPLETED"]
    for job in map(shop.job, jobs):
        assert (job.status, job.result, job.counters) == ("completed", 5, {"ticks": 6})


def test_what_a_killed_flow_run_held_goes_on_in_the_next(shop: Shop) -> None:
    (job,) = shop.submit("held", [str(shop.folder)])
    killed = shop.program("run", "held")
    until((shop.folder / "started").exists, "the step")
    killed.send_signal(signal.SIGKILL)
    killed.wait(PATIENCE)
    assert shop.job(job).status == "running"
    (shop.folder / "go").touch()
    assert shop.flow_run("held")["state"] == "COMPLETED"
    done = shop.job(job)
    assert (done.status, done.result) == ("completed", "held")
    assert "crash" in shop.kinds_of_events(job)


def test_a_flow_run_that_is_told_to_stop_hands_its_job_back(shop: Shop) -> None:
    (job,) = shop.submit("held", [str(shop.folder)])
    running = shop.program("run", "held")
    until((shop.folder / "started").exists, "the step")
    running.send_signal(signal.SIGTERM)
    told = shop.ended(running)
    assert told["state"] == "CANCELLED"
    assert "handed back" in told["message"]
    back = shop.job(job)
    assert (back.status, back.worker, back.attempt) == ("queued", None, 0)


def test_a_worker_has_prefect_run_what_others_submit(shop: Shop) -> None:
    log = (shop.folder / "log").open("w")
    worker = subprocess.Popen(
        [PENSTOCK, "worker", "--delivery", "prefect"], env=shop._env, cwd=shop.folder, stderr=log, stdout=log
    )
    try:
        until(lambda: "deployment penstock-press/penstock is served" in (shop.folder / "log").read_text(), "the worker")
        job = shop.penstock("jobs", "submit", "press", "--payload", "3", "--quiet").strip()
        until(lambda: shop.job(job).final, "the job")
        assert shop.job(job).result == "4 sheets"
        run = shop.server.flow_runs("penstock-press")[-1]
        assert run["idempotency_key"].startswith(f"penstock:{job}:")
        until(lambda: shop.server.flow_runs("penstock-press")[-1]["state_type"] == "COMPLETED", "the flow run's end")
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(PATIENCE)
        log.close()
    assert worker.returncode == 0, (shop.folder / "log").read_text()


def test_work_is_done_once_where_prefect_cannot_be_reached(shop: Shop) -> None:
    shop._env["PREFECT_API_URL"] = "http://127.0.0.1:9/api"
    told = shop.ended(shop.program("stage"))
    assert told == {"value": 7, "calls": ["work", "fail"], "same error": True}


@pytest.mark.parametrize(
    ("address", "said"), [("", "needs the address of Prefect's API"), ("http://127.0.0.1:9/api", "does not answer")]
)
def test_a_worker_says_where_prefect_is_missing(shop: Shop, address: str, said: str) -> None:
    shop._env["PREFECT_API_URL"] = address
    done = subprocess.run(
        [PENSTOCK, "worker", "--delivery", "prefect"],
        env=shop._env,
        cwd=shop.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
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
