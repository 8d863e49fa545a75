"""Finding the local Gemini of a home, or starting it: one for all processes of the machine that use that home."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.engine.errors import PenstockError, StoreError
from penstock.gemini_local.server import Running, read_running
from penstock.gemini_local.state import writing

IDLE_STOP = 600.0
TAIL = 20_000
OWN = "penstock: "
"""With this begins a line that was written for people."""


class LaunchFailed(PenstockError):
    """The local Gemini did not start; the message has what it said."""


@dataclass(slots=True, frozen=True)
class LocalServer:
    base_url: str
    pid: int
    instance: str


def ensure_running(
    home: Path,
    *,
    backend: str = "local",
    settings: Mapping[str, Any] | None = None,
    key: str | None = None,
    idle_stop: float = IDLE_STOP,
    timeout: float = 30.0,
) -> LocalServer:
    """The server of `home`, started if there is none. `settings` are flat (`read_settings`) and count, like `backend`,
    only for a server that is started now. Blocking. Raises `LaunchFailed`."""
    folder = home.resolve() / "gemini"
    if (found := find(folder)) is not None:
        return found
    try:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            return _launched(home.resolve(), folder, backend, dict(settings or {}), key, idle_stop, timeout)
    except StoreError as error:
        raise LaunchFailed(f"the local Gemini did not start: {error}") from error


def _launched(
    home: Path, folder: Path, backend: str, settings: dict[str, Any], key: str | None, idle_stop: float, timeout: float
) -> LocalServer:
    deadline = time.monotonic() + timeout
    with _launching(folder, deadline):
        if (found := find(folder)) is not None:
            return found
        last = read_running(folder)
        command = [
            sys.executable, "-m", "penstock.gemini_local", "--home", str(home), "--backend", backend,
            "--port", str(last.port if last is not None else 0), "--port-is-a-wish", "--idle-stop", str(idle_stop),
            "--settings", json.dumps(settings),
        ]  # fmt: skip
        environment = os.environ | ({"PENSTOCK_GEMINI_KEY": key} if key is not None else {})
        return _start(command, environment, folder, deadline)


def find(folder: Path) -> LocalServer | None:
    """The server that works in this folder, if it answers and is the one it says it is."""
    running = read_running(folder)
    if running is None or not is_healthy(running):
        return None
    return LocalServer(running.base_url, running.pid, running.instance)


def is_healthy(running: Running, *, timeout: float = 5.0) -> bool:
    connection = http.client.HTTPConnection(running.host, running.port, timeout=timeout)
    try:
        connection.request("GET", "/_penstock/health", headers={"X-Penstock-Admin": "1"})
        answer = json.loads(connection.getresponse().read())
        return isinstance(answer, dict) and answer.get("instance") == running.instance
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()


def stop(home: Path, *, timeout: float = 10.0) -> bool:
    """Stop the server of `home`. False: there was none. What it was doing goes on when the next one starts."""
    folder = home.resolve() / "gemini"
    running = read_running(folder)
    if running is None or not is_healthy(running):
        return False
    os.kill(running.pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while _is_held(folder / "lock"):
        if time.monotonic() > deadline:
            raise LaunchFailed(f"the local Gemini (process {running.pid}) does not stop")
        time.sleep(0.02)
    return True


def _start(command: list[str], environment: Mapping[str, str], folder: Path, deadline: float) -> LocalServer:
    """Start it, apart from this process, and wait until it says that it is ready or is gone."""
    reading, writing = os.pipe()
    try:
        with (folder / "server.log").open("ab") as log:
            before = log.tell()
            try:
                subprocess.run(
                    [*command, "--detach", "--ready-fd", str(writing)],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(writing,),
                    check=True,
                    timeout=max(1.0, deadline - time.monotonic()),
                )
            except (OSError, subprocess.SubprocessError) as error:
                raise LaunchFailed(f"the local Gemini did not start: {_said(folder, before) or error}") from error
            finally:
                os.close(writing)
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        said = os.read(reading, 4096) if ready else b""
    finally:
        os.close(reading)
    if not said:
        how = "it ended without a word" if ready else "it took too long"
        raise LaunchFailed(f"the local Gemini did not start: {_said(folder, before) or how}")
    running = Running(**json.loads(said))
    return LocalServer(running.base_url, running.pid, running.instance)


@contextmanager
def _launching(folder: Path, deadline: float) -> Iterator[None]:
    """One at a time."""
    lock = os.open(folder / "launch.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise LaunchFailed(
                        f"another process has been starting the local Gemini of {folder} for too long"
                    ) from None
                time.sleep(0.02)
        yield
    finally:
        os.close(lock)


def _is_held(path: Path) -> bool:
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _said(folder: Path, before: int) -> str:
    """What the process that did not start said last, and where all of it is; empty where it said nothing."""
    path = folder / "server.log"
    try:
        with path.open("rb") as log:
            log.seek(max(before, log.seek(0, os.SEEK_END) - TAIL))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    lines = [line.strip() for line in lines if line.strip() and not line.startswith("ERROR:    Application startup")]
    own = [line for line in lines if line.startswith(OWN)]
    return f"{(own or lines)[-1].removeprefix(OWN)[:500]} (all it said is in {path})" if lines else ""
