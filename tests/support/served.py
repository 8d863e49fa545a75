"""A real `penstock up`, in a process and a folder of its own: started, asked over HTTP, restarted on its port."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from tests.support import warm
from tests.support.cli import PENSTOCK

ROOT = Path(__file__).parents[2]
PATIENCE = 40.0


class Served:
    """The service of a folder, with the app `tests.support.press:app` unless told otherwise."""

    def __init__(self, folder: Path, *arguments: str, app: str = "tests.support.press:app", **environ: str) -> None:
        self.folder = folder
        self.port = _free_port()
        self.arguments = list(arguments)
        self.token: str | None = None
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        self.environ |= {"PENSTOCK_APP": app, "PYTHONPATH": str(ROOT), "PENSTOCK_LOCAL_GEMINI__USE": "never"} | environ
        self._process: subprocess.Popen[bytes] | None = None
        self._beside: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        path = self.folder / "up.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> None:
        """Ready when this returns."""
        self._process = process = self._popen("up", "--port", str(self.port), *self.arguments)

        def ready() -> bool:
            assert process.poll() is None, f"the service ended with {process.returncode}:\n{self.log}"
            return self._status("/health/ready") == 200

        self.until(ready, "the service to be ready")

    def stop(self) -> int:
        """As an operator stops it."""
        return _end(self._process, signal.SIGTERM)

    def beside(self, *command: str) -> subprocess.Popen[bytes]:
        """Another command in the same folder that lasts, such as a worker."""
        process = self._popen(*command)
        self._beside.append(process)
        return process

    def run(self, *command: str) -> Any:
        """Another command in the same folder, to its end; what it says as JSON."""
        done = warm.run([*command, "--json"], cwd=self.folder, env=self.environ, timeout=PATIENCE)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return json.loads(done.stdout)

    def close(self) -> None:
        for process in (*self._beside, self._process):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait(PATIENCE)

    def write(self, name: str, text: object = "") -> None:
        """A file that the app's steps look at; never seen half written."""
        (self.folder / f".{name}").write_text(str(text))
        (self.folder / f".{name}").rename(self.folder / name)

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def post(self, path: str, body: Any = None) -> Any:
        return self.ask("POST", path, {} if body is None else body)

    def submit(self, workflow: str, payload: Any, **more: Any) -> str:
        """A new job, by the API; its id."""
        answer = self.post("/api/v1/jobs", {"workflow": workflow, "payload": payload, **more})
        job_id: str = answer["job"]["id"]
        return job_id

    def job(self, job_id: str) -> dict[str, Any]:
        job: dict[str, Any] = self.get(f"/api/v1/jobs/{job_id}")
        return job

    def items(self, path: str) -> list[dict[str, Any]]:
        """The first page of a list of the API."""
        items: list[dict[str, Any]] = self.get(f"/api/v1/{path}")["items"]
        return items

    def until_job(self, job_id: str, *statuses: str) -> dict[str, Any]:
        self.until(lambda: self.job(job_id)["status"] in statuses, f"job {job_id} to be {' or '.join(statuses)}")
        return self.job(job_id)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        status, content = self._request(method, path, body)
        assert status < 300, f"{method} {path}: {status} {content!r}\n{self.log[-2000:]}"
        return json.loads(content) if content else None

    def until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain for {what}:\n{self.log[-4000:]}"
            time.sleep(0.05)

    def _status(self, path: str) -> int | None:
        with suppress(OSError, HTTPException):
            return self._request("GET", path)[0]
        return None

    def _request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            raw = None if body is None else json.dumps(body)
            connection.request(
                method, path, raw, headers | ({"Content-Type": "application/json"} if raw is not None else {})
            )
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def _popen(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / "up.log").open("ab") as log:
            return subprocess.Popen(
                [str(PENSTOCK), *command], cwd=self.folder, env=self.environ, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip


@contextmanager
def served(
    folder: Path,
    *arguments: str,
    guarded: bool = False,
    environ: Mapping[str, str] | None = None,
    app: str = "tests.support.press:app",
) -> Iterator[Served]:
    """With `guarded`, everybody needs a token, and what the test itself asks is asked with one that may do all."""
    up = Served(folder, *arguments, *(("--host", "0.0.0.0") if guarded else ()), app=app, **(environ or {}))
    try:
        if guarded:
            up.token = up.run("tokens", "create", "root", "--scope", "admin")["secret"]
        up.start()
        yield up
    finally:
        up.close()


def _end(process: subprocess.Popen[bytes] | None, how: signal.Signals) -> int:
    assert process is not None
    process.send_signal(how)
    return process.wait(PATIENCE)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
