"""`penstock worker` and waiting for it: how they end, and who takes over when a process does not get to say goodbye."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from penstock.cli.waiting_views import shares
from penstock.delivery.upkeep import LONGEST_PAUSE, Verdict, judge
from penstock.engine.watch import EXIT_STUCK
from tests.support.cli import PENSTOCK, Cli


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    yield cli
    cli.stop()


def children(process: int) -> list[psutil.Process]:
    return psutil.Process(process).children()


def nothing_is_held(cli: Cli) -> bool:
    database = sqlite3.connect(cli.file(".penstock/penstock.db"))
    held = database.execute("SELECT count(*) FROM jobs WHERE phase = 'held'").fetchone()
    database.close()
    return held == (0,)


def test_a_worker_runs_what_there_is_and_ends_when_idle(cli: Cli) -> None:
    ids = [cli.submit("hello", name) for name in "ab"]
    worker = cli.start("worker", "--stop-when-idle", "300ms", "--processes", "2", "--log-format", "json")
    assert worker.wait(30) == 0
    assert all(job["status"] == "completed" for job in cli("jobs", "list", "--json").json["jobs"])
    lines = [json.loads(line) for line in cli.log.splitlines()]
    told = {line["job"]: line for line in lines if line["logger"] == "penstock.step"}
    assert set(told) == set(ids)
    assert (told[ids[0]]["step"], told[ids[0]]["attempt"], told[ids[0]]["tenant"]) == ("greet", 1, "default")


def test_sigterm_lets_running_steps_finish(cli: Cli) -> None:
    job_id = cli.submit("held", "mark")
    worker = cli.start_worker()
    cli.until_file("mark")
    worker.send_signal(signal.SIGTERM)
    cli.until(lambda: "1 step is running" in cli.log, "the worker to drain")
    queued = cli.submit("hello", "too late")
    cli.file("go").touch()
    assert worker.wait(30) == 0
    assert cli.job(job_id)["status"] == "completed"
    assert cli.job(queued)["status"] == "queued"
    assert cli.file("mark").read_text() == "started\n"


def test_sigterm_hands_back_what_does_not_finish_within_the_grace(cli: Cli) -> None:
    job_id = cli.submit("held", "mark")
    worker = cli.start_worker("--grace", "200ms")
    cli.until_file("mark")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    job = cli.job(job_id)
    assert (job["status"], job["attempt"], job["worker"]) == ("queued", 0, None)
    assert nothing_is_held(cli)


def test_a_signal_that_is_ignored_stays_so(cli: Cli) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        worker = cli.start_worker("--grace", "1h")
    finally:
        signal.signal(signal.SIGHUP, before)
    job_id = cli.submit("held", "mark")
    cli.until_file("mark")
    worker.send_signal(signal.SIGHUP)
    worker.send_signal(signal.SIGTERM)
    cli.until(lambda: "1 step is running" in cli.log, "the worker to drain")
    assert "SIGHUP" not in cli.log
    cli.file("go").touch()
    assert worker.wait(30) == 0
    assert cli.job(job_id)["status"] == "completed"


def test_a_second_sigterm_ends_at_once(cli: Cli) -> None:
    job_id = cli.submit("held", "mark")
    worker = cli.start_worker("--grace", "1h")
    cli.until_file("mark")
    worker.send_signal(signal.SIGTERM)
    cli.until(lambda: "1 step is running" in cli.log, "the worker to drain")
    asked = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    assert time.monotonic() - asked < 10
    assert (cli.job(job_id)["status"], cli.job(job_id)["attempt"]) == ("queued", 0)


def test_ctrl_c_ends_a_worker_with_130(cli: Cli) -> None:
    worker = cli.start_worker()
    worker.send_signal(signal.SIGINT)
    assert worker.wait(30) == 130


def test_a_killed_process_is_replaced_and_its_job_is_done(cli: Cli) -> None:
    cli.environ["PENSTOCK_LEASE"] = "500ms"
    job_id = cli.submit("held", "mark")
    worker = cli.start_worker()
    cli.until_file("mark")
    killed = children(worker.pid)[0]
    killed.kill()
    cli.until(lambda: "was ended by SIGKILL" in cli.log, "the supervisor to notice")
    cli.file("go").touch()
    assert cli("jobs", "wait", job_id, "--timeout", "30s").out == '"held"\n'
    assert [child.pid for child in children(worker.pid)] != [killed.pid]
    assert cli.file("mark").read_text() == "started\n" * 2


def test_a_stuck_process_is_replaced_at_once(cli: Cli) -> None:
    worker = cli.start_worker()
    job_id = cli.submit("stuck", "mark")
    assert cli("jobs", "wait", job_id, "--timeout", "30s").out == '"freed"\n'
    assert "was stuck and ended itself; starting another in 0.0 s" in cli.log
    assert worker.poll() is None


def test_processes_end_with_their_supervisor(cli: Cli) -> None:
    job_id = cli.submit("held", "mark")
    worker = cli.start_worker("--grace", "200ms")
    cli.until_file("mark")
    orphans = children(worker.pid)
    worker.kill()
    gone, alive = psutil.wait_procs(orphans, timeout=20)
    assert (len(gone), alive) == (1, [])
    assert cli.job(job_id)["status"] == "queued"


def test_a_worker_whose_app_is_wrong_is_not_started_again(cli: Cli) -> None:
    worker = cli.start("worker", "--app", "flow:ap")
    assert worker.wait(30) == 2
    assert cli.log.count("app: 'flow' has no 'ap'; did you mean flow:app? (from --app)") == 1


def test_waiting_for_a_worker_and_ctrl_c(cli: Cli) -> None:
    """The worker has the job, so whoever waits for it can leave."""
    cli.start_worker()
    job_id = cli.submit("held", "mark")
    waiting = cli.start("jobs", "wait", job_id)
    cli.until(lambda: f"job {job_id} held: running" in cli.log, "the wait to begin")
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(30) == 130
    assert f"Interrupted: {job_id} goes on without us" in cli.log
    assert "not ended after 0.3 s; it goes on without us" in cli("jobs", "wait", job_id, "--timeout", "0.3", code=1).err
    cli.file("go").touch()
    assert cli("jobs", "wait", job_id, "--timeout", "30").out == '"held"\n'


def test_ctrl_c_while_this_process_does_the_work_hands_it_back(cli: Cli) -> None:
    cli.environ["PENSTOCK_GRACE"] = "100ms"
    waiting = cli.start("jobs", "submit", "held", "--payload", '"mark"', "--wait")
    cli.until_file("mark")
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(30) == 130
    assert "goes on when a worker runs, `penstock up --app flow:app`" in cli.log
    (job,) = cli("jobs", "list", "--json").json["jobs"]
    assert (job["status"], job["attempt"]) == ("queued", 0)
    assert "Traceback" not in cli.log


def test_a_second_ctrl_c_stops_what_runs_in_this_process_at_once(cli: Cli) -> None:
    cli.environ["PENSTOCK_GRACE"] = "1h"
    waiting = cli.start("jobs", "submit", "held", "--payload", '"mark"', "--wait")
    cli.until_file("mark")
    waiting.send_signal(signal.SIGINT)
    cli.until(lambda: "have up to 3600 s to finish; a second Ctrl-C stops them at once" in cli.log, "the first answer")
    assert waiting.poll() is None
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(10) == 130
    (job,) = cli("jobs", "list", "--json").json["jobs"]
    assert (job["status"], job["attempt"]) == ("queued", 0)
    assert f"{job['id']} is queued and goes on when a worker runs" in cli.log
    assert "Traceback" not in cli.log


def test_a_step_that_ends_within_the_grace_of_ctrl_c_is_done(cli: Cli) -> None:
    waiting = cli.start("jobs", "submit", "held", "--payload", '"mark"', "--wait")
    cli.until_file("mark")
    waiting.send_signal(signal.SIGINT)
    cli.until(lambda: "have up to 30 s to finish" in cli.log, "the first answer")
    cli.file("go").touch()
    assert waiting.wait(30) == 130
    (job,) = cli("jobs", "list", "--json").json["jobs"]
    assert job["status"] == "completed"
    assert f"{job['id']} is completed." in cli.log


@pytest.mark.parametrize("code", ["time.sleep(600)", "await asyncio.to_thread(time.sleep, 600)"])
def test_no_step_can_withstand_a_second_ctrl_c(cli: Cli, code: str) -> None:
    source = cli.file("flow.py").read_text()
    cli.file("flow.py").write_text(source.replace("    while not Path", f"    {code}\n    while not Path"))
    waiting = cli.start("jobs", "submit", "held", "--payload", '"mark"', "--wait")
    cli.until_file("mark")
    time.sleep(0.3)
    waiting.send_signal(signal.SIGINT)
    time.sleep(0.3)
    for _ in range(30):
        waiting.send_signal(signal.SIGINT)
    assert waiting.wait(15) == 130


def test_who_waits_does_the_work_when_the_last_worker_dies(cli: Cli) -> None:
    """Its lease is good for another minute, and nobody has to wait for that."""
    cli.environ["PENSTOCK_LEASE"] = "60s"
    worker = cli.start_worker()
    job_id = cli.submit("held", "mark")
    cli.until_file("mark")
    waiting = cli.start("jobs", "wait", job_id)
    cli.until(lambda: f"job {job_id} held: running" in cli.log, "the wait to begin")
    dying = children(worker.pid)
    worker.kill()
    for process in dying:
        process.kill()
    psutil.wait_procs(dying, timeout=10)
    cli.file("go").touch()
    assert waiting.wait(30) == 0
    assert "No worker is alive: running the work in this process." in cli.log


def test_a_worker_that_died_is_not_alive(cli: Cli) -> None:
    cli.environ["PENSTOCK_LEASE"] = "60s"
    worker = cli.start_worker()
    job_id = cli.submit("held", "mark")
    cli.until_file("mark")
    dying = children(worker.pid)
    worker.kill()
    for process in dying:
        process.kill()
    psutil.wait_procs(dying, timeout=10)
    checks = {check["name"]: check["detail"] for check in cli("doctor", "--json").json["checks"]}
    assert checks["workers"] == "none alive, 1 dead, 1 unfinished job"
    assert checks["stuck jobs"] == "1 held by 1 dead worker"
    cli.file("go").touch()
    assert cli("jobs", "wait", job_id, "--timeout", "30s").out == '"held"\n'


def test_the_doctor_counts_failed_jobs_that_nobody_has_retried(cli: Cli) -> None:
    def told() -> str:
        checks = {check["name"]: check["detail"] for check in cli("doctor", "--json").json["checks"]}
        return str(checks["failed jobs"])

    job_id = cli("jobs", "submit", "bad", "--payload", "1", "--wait", "--json", code=1).json["job"]["id"]
    assert told() == "1 that nobody has retried"
    cli("jobs", "retry", job_id)
    assert told() == "none"


def test_a_worker_counts_only_for_the_queues_it_serves(cli: Cli) -> None:
    cli.start_worker("--queue", "elsewhere")
    assert "no workflow uses the queue 'elsewhere'" in cli.log
    said = cli("jobs", "submit", "hello", "--payload", '"a"', "--wait")
    assert "No worker that serves the queue 'default' is alive: running the work in this process." in said.err


def test_a_failed_job_is_exit_code_1(cli: Cli) -> None:
    said = cli("jobs", "submit", "bad", "--payload", "1", "--wait", code=1)
    assert "failed" in said.err
    *before, last = [line for line in said.err.splitlines() if "ValueError: it cannot be done" in line]
    assert last.startswith("✗ ")
    assert all(": waiting, " in line for line in before), "only the first try's failure is told before the end"


def test_the_live_view_gives_way_where_it_hurts_least() -> None:
    columns = {
        "": ["·"],
        "Job": ["j" * 20],
        "Workflow": ["extract-invoices"],
        "Status": ["running"],
        "Step": ["recognise_pages"],
        "Progress": ["7/8 pages"],
        "Counters": ["pages=7 tokens=1234"],
        "Elapsed": ["12 s"],
    }
    wide, bars = shares(columns, [", waits for gemini.batch"], 200)
    assert (bars, wide["Step"]) == (True, len("recognise_pages, waits for gemini.batch"))
    narrow, bars = shares(columns, [", waits for gemini.batch"], 80)
    assert (bars, narrow["Status"], narrow["Elapsed"], narrow["Step"]) == (False, 7, 7, 15)
    assert "Counters" not in narrow
    assert sum(narrow.values()) + 2 * (len(narrow) - 1) <= 80
    empty, _ = shares(columns | {"Progress": [""], "Counters": [""]}, [""], 80)
    assert list(empty) == ["", "Job", "Workflow", "Status", "Step", "Elapsed"]


def test_only_those_that_have_not_ended_are_named(cli: Cli) -> None:
    cli.start_worker()
    ended, *late = cli.submit("hello", "a"), cli.submit("held", "mark"), cli.submit("held", "mark")
    cli("jobs", "wait", ended, "--timeout", "30s")
    told = cli("jobs", "wait", ended, late[0], "--timeout", "0.3", code=1).err.splitlines()[-1]
    assert told == f"Error: {late[0]}: not ended after 0.3 s; it goes on without us"
    told = cli("jobs", "wait", ended, *late, "--timeout", "0.3", code=1).err.splitlines()[-1]
    assert told == f"Error: {', '.join(late)}: not ended after 0.3 s; they go on without us"


@pytest.mark.skipif(
    not (os.getuid() == 0 and shutil.which("setpriv")), reason="needs root and setpriv, to lose a right"
)
def test_a_worker_that_cannot_write_its_store_gives_up_at_once(cli: Cli) -> None:
    cli.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    cli.folder.chmod(0o555)
    ended = subprocess.run(
        ["setpriv", "--bounding-set=-dac_override,-dac_read_search", str(PENSTOCK), "worker"],
        cwd=cli.folder, env=cli.environ, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    cli.folder.chmod(0o755)
    assert ended.returncode == 2
    assert ended.stderr.count("permission denied (.penstock)") == 1
    assert "starting another" not in ended.stderr


@pytest.mark.parametrize(("level", "heard"), [("info", False), ("debug", True)])
def test_libraries_that_tell_every_request_are_heard_only_when_debugging(cli: Cli, level: str, heard: bool) -> None:
    source = cli.file("flow.py").read_text()
    said = "    import logging\n    logging.getLogger('httpx').info('HTTP Request: GET')\n    ctx.count(names=1)"
    cli.file("flow.py").write_text(source.replace("    ctx.count(names=1)", said))
    cli.submit("hello", "a")
    assert cli.start("worker", "--stop-when-idle", "100ms", "--log-level", level).wait(30) == 0
    assert ("HTTP Request" in cli.log) is heard


def test_waiting_here_for_a_paused_job_would_never_end(cli: Cli) -> None:
    job_id = cli.submit("hello", "a")
    cli("jobs", "pause", job_id, "--reason", "lunch")
    said = cli("jobs", "wait", job_id, code=1)
    assert f"Error: job {job_id} is paused (lunch), so it will not end" in said.err


def test_without_an_app_and_a_worker_nobody_could_do_the_work(cli: Cli) -> None:
    job_id = cli.submit("hello", "a")
    del cli.environ["PENSTOCK_APP"]
    assert "no app is named" in cli("jobs", "wait", job_id, code=2).sentence


@pytest.mark.parametrize(
    ("code", "lived", "failures", "verdict"),
    [
        (0, 1.0, 0, Verdict(None)),
        (2, 1.0, 0, Verdict(None, 2)),
        (EXIT_STUCK, 1.0, 5, Verdict(0.0)),
        (-9, 1.0, 0, Verdict(0.5)),
        (1, 1.0, 2, Verdict(2.0)),
        (1, 1.0, 50, Verdict(LONGEST_PAUSE)),
        (-9, 3600.0, 3, Verdict(0.0)),
    ],
)
def test_when_a_process_is_replaced(code: int, lived: float, failures: int, verdict: Verdict) -> None:
    assert judge(code, lived=lived, failures=failures) == verdict


def test_no_process_is_left_behind(cli: Cli) -> None:
    worker = cli.start_worker("--processes", "2")
    ours = children(worker.pid)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    assert len(ours) == 2
    assert not any(child.is_running() for child in ours)


def test_a_disk_that_is_full_at_the_start_does_not_stop_the_fleet(cli: Cli) -> None:
    source = cli.file("flow.py").read_text()
    cli.file("flow.py").write_text(f"""{source}
from penstock.engine.errors import StoreFull

async def open(**told):
    if not Path("mended").exists():
        Path("mended").touch()
        raise StoreFull("the disk is full")
    return await Penstock.open(app, **told)

app.open = open
""")
    worker = cli.start_worker()
    assert "the disk is full" in cli.log
    assert "ended with exit code 1; starting another in 0.5 s" in cli.log
    assert worker.poll() is None


def test_an_app_that_ends_the_process_is_wrong(cli: Cli) -> None:
    cli.file("flow.py").write_text("import sys; sys.exit(0)")
    worker = cli.start("worker")
    assert worker.wait(30) == 2
    assert "app: 'flow' cannot be imported, SystemExit: 0" in cli.log
