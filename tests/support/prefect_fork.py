"""Processes that begin with Prefect imported, which takes it seconds: one process imports it, and the others are forked
from that one. Each has its own environment, folder and end, and may be killed."""

from __future__ import annotations

import asyncio
import atexit
import multiprocessing
import os
from collections.abc import Callable, Coroutine, Mapping
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.support.prefect import PATIENCE

_IMPORTED = [
    "penstock.cli.prefect_run", "penstock.pipelines.pages.ticking", "penstock.remote.gemini.client",
    "prefect.deployments.runner", "prefect.flow_engine", "prefect.task_engine",
]  # fmt: skip

Main = Callable[..., Coroutine[Any, Any, Any]]


class Forked:
    """One process: `main(say, *args)` in it may `say` things, and what it returns is its last word."""

    def __init__(self, environment: Mapping[str, str], folder: Path, main: Main, *args: Any) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_IMPORTED)
        with patch.dict(os.environ, environment):
            forkserver.ensure_running()
        self._hearing, saying = context.Pipe(duplex=False)
        self._process = context.Process(target=_live, args=(dict(environment), folder, saying, main, args))
        self._process.start()
        saying.close()

    def heard(self) -> Any:
        """The next thing that it says."""
        assert self._hearing.poll(PATIENCE), "the process said nothing"
        return self._hearing.recv()

    def send_signal(self, number: int) -> None:
        if self._process.is_alive():
            assert self._process.pid is not None
            os.kill(self._process.pid, number)

    def wait(self) -> int:
        self._process.join(PATIENCE)
        assert self._process.exitcode is not None, "the process did not end"
        return self._process.exitcode

    def close(self) -> None:
        self._process.kill()
        self.wait()
        self._process.close()
        self._hearing.close()


def _live(environment: dict[str, str], folder: Path, say: Connection, main: Main, args: tuple[Any, ...]) -> None:
    os.environ |= environment
    os.chdir(folder)
    say.send(asyncio.run(main(say.send, *args)))
    # Prefect sends its last events when Python ends, and a forked process does not come to that.
    atexit._run_exitfuncs()
