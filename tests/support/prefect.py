"""A real Prefect server for the tests, one for all test processes of a run: the first that needs it starts it, the last
that used it stops it. Its API is asked over plain HTTP, so no test process imports Prefect."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2

from penstock.delivery.prefect.naming import QUIET
from tests.support.postgres import _place

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
ALONE = {"PREFECT_LOGGING_LEVEL": "WARNING", "PREFECT_SERVER_UI_ENABLED": "false", **QUIET}
SCHEDULER = {
    "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "10",
    "PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "2",
}
"""Its usual pauses are a minute and 5 seconds."""

LAUNCH = """
import subprocess, sys
with open(sys.argv[1], "ab") as log:
    started = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
print(started.pid)
"""


class Missing(Exception):
    """There is no Prefect to start; says why."""


class PrefectServer:
    """`folder` is shared by the test processes that share the server."""

    def __init__(self, folder: Path) -> None:
        if importlib.util.find_spec("prefect") is None:
            raise Missing("Prefect is not installed: pip install '.[prefect]'")
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._in_use = (folder / "in-use").open("a")
        with (folder / "starting").open("a") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            fcntl.flock(self._in_use, fcntl.LOCK_SH)
            if not (folder / "url").exists():
                self._start()
        self.url = (folder / "url").read_text()
        self.api = httpx2.Client(base_url=self.url, timeout=PATIENCE)

    def environment(self, **more: str) -> dict[str, str]:
        """For a process that talks to this server."""
        return {**os.environ, **ALONE, "PREFECT_API_URL": self.url, "PREFECT_HOME": str(self._folder / "home"), **more}

    def ask(self, what: str, **conditions: Any) -> list[dict[str, Any]]:
        """`flow_runs`, `task_runs`, `artifacts` or `logs`, as the API filters them."""
        answer = self.api.post(f"/{what}/filter", json=conditions)
        answer.raise_for_status()
        found: list[dict[str, Any]] = answer.json()
        return found

    def deployment(self, flow: str, name: str = "penstock") -> dict[str, Any]:
        answer = self.api.get(f"/deployments/name/{flow}/{name}")
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def flow_runs(self, flow: str) -> list[dict[str, Any]]:
        """Those that have begun or are to begin now, in the order of their creation; without those that the schedule
        holds ready."""
        found = self.ask("flow_runs", flows={"name": {"any_": [flow]}})
        return sorted((run for run in found if not run["auto_scheduled"]), key=lambda run: str(run["created"]))

    def planned(self, deployment: str) -> list[datetime]:
        """When the schedule of a deployment has flow runs."""
        of_schedule = {"id": {"any_": [deployment]}}
        found = self.ask("flow_runs", deployments=of_schedule, flow_runs={"state": {"type": {"any_": ["SCHEDULED"]}}})
        return sorted(datetime.fromisoformat(run["expected_start_time"]) for run in found if run["auto_scheduled"])

    def completed(self, flow: str) -> list[dict[str, Any]]:
        """Flow runs that have come to a good end, whoever started them."""
        ended = {"state": {"type": {"any_": ["COMPLETED"]}}}
        return self.ask("flow_runs", flows={"name": {"any_": [flow]}}, flow_runs=ended)

    def start(self, deployment: str) -> None:
        """As somebody does who presses the button."""
        answer = self.api.post(f"/deployments/{deployment}/create_flow_run", json={"state": {"type": "SCHEDULED"}})
        answer.raise_for_status()

    def stop(self) -> None:
        self.api.close()
        with (self._folder / "starting").open("a") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            try:
                fcntl.flock(self._in_use, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            finally:
                self._in_use.close()
            pid, home = (self._folder / "server").read_text().split("\n")
            os.killpg(int(pid), signal.SIGKILL)
            for folder in (home, self._folder):
                shutil.rmtree(folder, ignore_errors=True)

    def _start(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/api"
        log = self._folder / "server.log"
        command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
        # Nobody's child: it may outlive the test process that started it.
        told = [sys.executable, "-c", LAUNCH, str(log), *command]
        # In memory where there is room: a slow disk makes its SQLite say that it is locked.
        home = tempfile.mkdtemp(prefix="prefect-", dir=_place())
        environment = self.environment(PREFECT_HOME=home, **SCHEDULER)
        pid = int(subprocess.run(told, env=environment, capture_output=True, check=True).stdout)
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if time.monotonic() > deadline:
                os.killpg(pid, signal.SIGKILL)
                shutil.rmtree(home, ignore_errors=True)
                raise Missing(f"the Prefect server did not start: {log.read_text()[-500:]}")
            time.sleep(0.1)
        (self._folder / "server").write_text(f"{pid}\n{home}")
        (self._folder / "url").write_text(self.url)

    def _answers(self) -> bool:
        try:
            return httpx2.get(f"{self.url}/health").status_code == 200
        except httpx2.TransportError:
            return False
