"""The embedded delivery as the contract suite sees it: real processes on a real store."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

from penstock import Penstock
from penstock.delivery.contract import contract_workflows

ROOT = Path(__file__).parents[2]


class EmbeddedHarness:
    def __init__(self, store_url: str, *, lease: float = 2.0) -> None:
        self.store_url = store_url
        self._lease = lease
        self._processes: list[subprocess.Popen[str]] = []

    async def start(self, *, workers: int = 1, deaf: bool = False) -> None:
        for _ in range(workers):
            command = [sys.executable, "-m", "tests.support.contract_worker", self.store_url, f"--lease={self._lease}"]
            command += ["--deaf"] if deaf else []
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
            self._processes.append(process)
        for process in self._processes[-workers:]:
            line = await asyncio.to_thread(process.stdout.readline)  # type: ignore[union-attr]
            assert line == "ready\n", "the worker did not start"

    async def drain(self) -> None:
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        await self._end(signal.SIGKILL)

    async def _end(self, how: signal.Signals) -> None:
        for process in self._processes:
            process.send_signal(how)
        for process in self._processes:
            status = await asyncio.to_thread(process.wait, 30)
            assert how == signal.SIGKILL or status == 0, f"the worker ended with {status}"
            process.stdout.close()  # type: ignore[union-attr]
        self._processes = []

    async def hint(self, queue: str, times: int) -> None:
        """For the embedded loop a hint is a commit it notices: sweeps by another process make them without changing a
        job."""
        async with Penstock(workflows=contract_workflows(), store=self.store_url, outputs=".") as app:
            for _ in range(times):
                await app.engine.sweep()

    async def close(self) -> None:
        await self._end(signal.SIGKILL)
