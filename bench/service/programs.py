"""The processes that are measured: `penstock up` without a worker, and beside it one that runs jobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import psutil

from bench.servers import free_port

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
PENSTOCK = str(Path(sys.executable).with_name("penstock"))


def fill(home: Path, count: int) -> None:
    subprocess.run([sys.executable, "-m", "bench.service.flow", "fill", home, str(count)], cwd=ROOT, check=True)


class Up:
    """A service on loopback, with a token for the tenant `small`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.small = str(self._told("tokens", "create", "small", "--tenant", "small")["secret"])
        with (home / "up.log").open("wb") as log:
            self._process = subprocess.Popen(
                [PENSTOCK, "up", "--port", str(self._port), "--no-worker", "--quiet"],
                cwd=home, env=self._environ(), stdout=log, stderr=log,
            )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the service did not start: {(home / 'up.log').read_text()[-2000:]}")
            time.sleep(0.1)

    def get(self, path: str, headers: dict[str, str] | None = None) -> bytes:
        with urlopen(Request(self.url + path, headers=headers or {}), timeout=PATIENCE) as answer:
            content: bytes = answer.read()
            return content

    @property
    def megabytes(self) -> float:
        return float(psutil.Process(self._process.pid).memory_info().rss) / 2**20

    def stop(self) -> None:
        _end(self._process)

    def _ready(self) -> bool:
        with suppress(URLError, OSError):
            self.get("/health/ready")
            return True
        return False

    def _told(self, *command: str) -> dict[str, object]:
        done = subprocess.run(
            [PENSTOCK, *command, "--json"], cwd=self._home, env=self._environ(), capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"penstock {' '.join(command)}: {done.stderr}")
        told: dict[str, object] = json.loads(done.stdout)
        return told

    def _environ(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        return own | {
            "PENSTOCK_HOME": str(self._home),
            "PENSTOCK_APP": "bench.service.flow:app",
            "PYTHONPATH": str(ROOT),
        }


@contextmanager
def serving(home: Path) -> Iterator[Up]:
    up = Up(home)
    try:
        yield up
    finally:
        up.stop()


class Runner:
    """A process that runs jobs at a rate, from when this was made until `stop`, which says what the rate was."""

    def __init__(self, home: Path, rate: float) -> None:
        command = [sys.executable, "-m", "bench.service.flow", "run", str(home), str(rate)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise SystemExit("the process that runs jobs did not start")

    def stop(self) -> float:
        self._process.send_signal(signal.SIGTERM)
        told, _ = self._process.communicate(timeout=PATIENCE)
        return float(told)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@contextmanager
def running(home: Path, rate: float) -> Iterator[Runner]:
    runner = Runner(home, rate)
    try:
        yield runner
    finally:
        runner.kill()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
