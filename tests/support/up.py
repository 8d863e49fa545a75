"""`penstock up` as a test holds it: a real process on a port of its own."""

from __future__ import annotations

import json
import signal
from typing import Any

import httpx2
import psutil

from tests.support.cli import Cli


class Up:
    """A service that is ready when this is made. Its log goes to the folder's `log`."""

    def __init__(self, cli: Cli, *args: str) -> None:
        self.cli = cli
        before = len(cli.log)
        self.process = cli.start("up", "--port", "0", "--json", *args)
        cli.until(lambda: '"url"' in cli.log[before:] or self.process.poll() is not None, "the service to be ready")
        assert self.process.poll() is None, cli.log
        line = next(line for line in cli.log[before:].splitlines() if line.startswith('{"url"'))
        self.facts: dict[str, Any] = json.loads(line)
        self.url: str = self.facts["url"]

    def get(self, path: str, **params: Any) -> httpx2.Response:
        return httpx2.get(f"{self.url}{path}", params=params, timeout=20)

    def submit(self, workflow: str, payload: Any, **more: Any) -> httpx2.Response:
        body = {"workflow": workflow, "payload": payload, **more}
        return httpx2.post(f"{self.url}/api/v1/jobs", json=body, timeout=20)

    def job(self, job_id: str) -> dict[str, Any]:
        told: dict[str, Any] = self.get(f"/api/v1/jobs/{job_id}").json()
        return told.get("job", told)

    @property
    def ready(self) -> int:
        return self.get("/health/ready").status_code

    @property
    def workers(self) -> list[psutil.Process]:
        """Its child processes."""
        return [child for child in psutil.Process(self.process.pid).children() if child.status() != "zombie"]

    def ask_to_stop(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.ask_to_stop(number)
        return self.process.wait(60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)
