"""The real `penstock` command, run as a user runs it: a process of its own in a folder of its own. A command that lasts
is started from nothing; one that is run to its end has Penstock imported already."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from penstock.builtin import installed_workflows
from tests.support import warm

PENSTOCK = Path(sys.executable).with_name("penstock")
PATIENCE = 30.0
PIPELINES = tuple(workflow.name for workflow in installed_workflows())
"""The workflows that are known without an app."""

FLOW = '''
import asyncio, ctypes, signal, time
from pathlib import Path
from penstock import Again, Context, Penstock, Retry, Workflow

hello = Workflow("hello")

@hello.step
async def greet(name: str, ctx: Context) -> str:
    ctx.count(names=1)
    ctx.progress(1, 1, "names")
    ctx.log.info("greeting %s", name)
    return f"Hello, {name}!"

bad = Workflow("bad", retry=Retry(attempts=2, base=0.01))

@bad.step
async def fall(number: int, ctx: Context) -> None:
    raise ValueError("it cannot be done")

held = Workflow("held")

@held.step
async def hold(name: str, ctx: Context) -> str:
    """Runs until the file `go` is there."""
    with Path(name).open("a") as file:
        file.write("started\\n")
    while not Path("go").exists():
        await asyncio.sleep(0.02)
    return "held"

stuck = Workflow("stuck", retry=Retry(attempts=5, base=0.01))

@stuck.step(timeout=0.3, hard_timeout=0.4)
async def block(name: str, ctx: Context) -> str:
    """The first time it blocks the whole process, where no signal reaches it."""
    if not Path(name).exists():
        Path(name).touch()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
        time.sleep(60)
    return "freed"

app = Penstock(workflows=[hello, bad, held, stuck])
not_an_app = 5
'''


@dataclass(slots=True, frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """The one line of a refusal."""
        lines = self.err.splitlines()
        assert len(lines) == 1, f"one sentence was expected:\n{self.err}"
        assert lines[0].startswith("Error: "), lines[0]
        return lines[0].removeprefix("Error: ")


class Cli:
    """Commands in one folder, on one store."""

    def __init__(self, folder: Path, store: str | None = None) -> None:
        self.folder = folder
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        self.environ |= {"PENSTOCK_APP": "flow:app", "COLUMNS": "200"}
        if store is not None:
            self.environ["PENSTOCK_STORE"] = store
        self._started: list[subprocess.Popen[str]] = []
        (folder / "flow.py").write_text(FLOW)

    def __call__(self, *args: str, code: int = 0, text: str | None = None, as_user: int | None = None) -> Said:
        """Run a command to its end and check how it ended."""
        if as_user is None:
            ended = warm.run(args, cwd=self.folder, env=self.environ, text=text or "")
        else:
            command = ["setpriv", f"--reuid={as_user}", f"--regid={as_user}", "--clear-groups", str(PENSTOCK), *args]
            ended = subprocess.run(
                command, cwd=self.folder, env=self.environ, input=text or "", capture_output=True, text=True, timeout=60
            )
        said = Said(ended.returncode, ended.stdout, ended.stderr)
        assert said.code == code, f"{args} ended with {said.code}:\n{said.out}\n{said.err}"
        assert "Traceback" not in said.err or "PENSTOCK_DEBUG" in self.environ, said.err
        return said

    def inside(self, *args: str, code: int = 0) -> Said:
        """The same in this process, which is quicker: for commands that load no app and start nothing."""
        from penstock.cli.main import run

        out, err = StringIO(), StringIO()
        environ = patch.dict(os.environ, self.environ, clear=True)
        with environ, chdir(self.folder), redirect_stdout(out), redirect_stderr(err):
            said = Said(run(list(args)), out.getvalue(), err.getvalue())
        assert said.code == code, f"{args} ended with {said.code}:\n{said.out}\n{said.err}"
        return said

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Start a command that lasts; its output goes to the file `log`."""
        with (self.folder / "log").open("a") as log:
            process = subprocess.Popen(
                [str(PENSTOCK), *args], cwd=self.folder, env=self.environ, stdout=log, stderr=log, text=True
            )
        self._started.append(process)
        return process

    def start_worker(self, *args: str) -> subprocess.Popen[str]:
        """A worker that is ready when this returns."""
        ready = self.log.count("is ready")
        process = self.start("worker", *args)
        self.until(lambda: self.log.count("is ready") > ready, "the worker to be ready")
        return process

    def submit(self, workflow: str, payload: Any, *args: str) -> str:
        said = self("jobs", "submit", workflow, "--payload", json.dumps(payload), "--json", *args)
        job_id: str = said.json["job"]["id"]
        return job_id

    def job(self, job_id: str) -> dict[str, Any]:
        job: dict[str, Any] = self("jobs", "show", job_id, "--json").json["job"]
        return job

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def until(self, condition: Callable[[], object], what: str, *, patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain for {what}:\n{self.log}"
            time.sleep(0.02)

    def file(self, name: str) -> Path:
        return self.folder / name

    def until_file(self, name: str) -> None:
        self.until(self.file(name).exists, name)

    def stop(self) -> None:
        deadline = time.monotonic() + 10
        while alive := [process for process in self._started if process.poll() is None]:
            late = time.monotonic() > deadline
            for process in alive:
                # The second one ends it at once; but two that come at the same moment are one.
                process.send_signal(signal.SIGKILL if late else signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                alive[0].wait(0.2)
