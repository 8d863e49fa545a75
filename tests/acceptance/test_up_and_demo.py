"""A new user's first minutes: `penstock init`, `penstock up`, a job, a killed worker; and the demo's dashboard."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import yaml

from tests.support.cli import Cli
from tests.support.up import Up

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    cli.file("flow.py").unlink()
    del cli.environ["PENSTOCK_APP"]
    yield cli
    cli.stop()


def test_the_first_minutes(cli: Cli) -> None:
    """Look, submit an example, watch it, kill the worker, see it come back."""
    cli("init")
    up = Up(cli, "--workers", "1")
    assert "<html" in up.get("/").text
    said = cli("jobs", "submit", "hello", "--payload", '"world"', "--wait")
    assert said.out == '"Hello, world!"\n'
    (worker,) = up.workers
    worker.kill()
    cli.until(lambda: [other.pid for other in up.workers] not in ([], [worker.pid]), "another worker")
    job_id = cli.submit("hello", "again")
    cli.until(lambda: up.job(job_id)["status"] == "completed", "the job")
    assert up.stop(signal.SIGINT) == 130


def test_who_submits_without_a_worker_is_told_the_command_that_helps(cli: Cli) -> None:
    cli("init")
    said = cli("jobs", "submit", "hello", "--payload", '"world"')
    told = re.search("start one with `(.*?)`", said.err)
    assert told is not None
    assert told[1] == "penstock up"
    up = Up(cli)
    cli.until(lambda: up.job(said.out.split()[0])["status"] == "completed", "the job")


@pytest.mark.timeout(300)
def test_the_demo_leaves_the_dashboard_up_with_something_to_look_at_and_to_mend(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        demo = cli.start("demo", "--port", str(port))
        cli.until(lambda: "The dashboard is at " in cli.log, "the dashboard")
    told = re.search(r"Port (\d+) is in use, so another is taken\. The dashboard is at (http://[\d.]*:(\d+))/", cli.log)
    assert told is not None, cli.log
    assert int(told[1]) == port != int(told[3])
    cli.until(lambda: "The dashboard stays up at" in cli.log, "the examples", patience=150)
    assert "12 examples, 51 jobs, all as expected." in cli.log
    with httpx2.Client(base_url=told[2], timeout=30) as client:
        assert "<html" in client.get("/").text
        _can_be_looked_at(cli, client)
        _can_be_mended(cli, client)
    demo.send_signal(signal.SIGINT)
    assert demo.wait(60) == 0
    assert "Stopping the dashboard." in cli.log
    assert "Traceback" not in cli.log


def _can_be_looked_at(cli: Cli, client: httpx2.Client) -> None:
    def are(status: str) -> set[str]:
        jobs = client.get("/api/v1/jobs", params={"status": status, "limit": 200}).json()["items"]
        return {job["workflow"] for job in jobs}

    assert {"hello", "sheets", "pages", "documents", "ingestion", "books", "translations"} <= are("completed")
    bases = {base["kb_id"]: base for base in client.get("/kb").json()["items"]}
    assert {name: (base["status"], base["documents"]) for name, base in bases.items()} == {
        "handbook": ("completed", 27),
        "website": ("completed", 24),
    }
    hits = client.get("/kb/website/search", params={"q": "screws of the mounting rail", "top": 1}).json()["hits"]
    assert "9 Nm" in hits[0]["text"]
    assert {"invoices", "sheets"} <= are("failed")
    cli.until(lambda: {"surveys", "posters"} <= are("paused"), "jobs that wait for a person")
    cli.until(lambda: "inspection" in are("running"), "a job that goes on")


def _can_be_mended(cli: Cli, client: httpx2.Client) -> None:
    dead = [job for job in client.get("/api/v1/dead-letters").json()["items"] if job["workflow"] == "invoices"]
    again = client.post(f"/api/v1/jobs/{dead[0]['id']}/retry").json()
    cli.until(lambda: _status(client, again.get("job", again)["id"]) == "completed", "the retry")

    def in_doubt() -> list[dict[str, str]]:
        calls: list[dict[str, str]] = client.get("/api/v1/calls", params={"state": "quarantined"}).json()["items"]
        return calls

    cli.until(in_doubt, "a call in quarantine")
    (call,) = in_doubt()
    assert client.post(f"/api/v1/calls/{call['id']}/resubmit").status_code == 200
    cli.until(lambda: _status(client, call["job"]) == "completed", "the poster")


def _status(client: httpx2.Client, job_id: str) -> str:
    told = client.get(f"/api/v1/jobs/{job_id}").json()
    status: str = told.get("job", told)["status"]
    return status


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_is_sound(tmp_path: Path) -> None:
    unit = (ROOT / "deploy" / "penstock.service").read_text()
    command = Path(sys.executable).with_name("penstock")
    (tmp_path / "penstock.service").write_text(unit.replace("/srv/penstock/.venv/bin/penstock", str(command)))
    checked = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "penstock.service")], capture_output=True, text=True, timeout=60
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_container_asks_for_options_that_exist(cli: Cli) -> None:
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    told = re.search(r"^CMD (.*)$", dockerfile, re.M)
    assert told is not None
    known = cli("up", "--help").out
    for command in (services["penstock"]["command"], yaml.safe_load(told[1])):
        assert command[0] == "up"
        assert all(word in known for word in command if word.startswith("--"))
