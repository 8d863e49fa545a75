"""Delivery by Prefect as the contract suite sees it: processes that begin the next flow run when one has ended, as
Prefect's runner does, but without its pauses. `python -m tests.support.prefect_contract` is such a process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from penstock import Penstock
from penstock.delivery.contract import contract_workflows
from tests.support.prefect import ROOT, PrefectServer

app = Penstock(workflows=contract_workflows())


class PrefectHarness:
    """Whoever submits tells Prefect nothing: a flow run finds the work, so every one is deaf."""

    def __init__(self, server: PrefectServer, folder: Path) -> None:
        self.store_url = f"sqlite:///{folder}/penstock.db"
        self._env = server.environment(
            PENSTOCK_APP="tests.support.prefect_contract:app",
            PENSTOCK_HOME=str(folder),
            PENSTOCK_STORE=self.store_url,
            PENSTOCK_LEASE="2s",
            PENSTOCK_LOG__LEVEL="error",
        )
        self._processes: list[subprocess.Popen[str]] = []

    async def start(self, *, workers: int = 1, deaf: bool = False) -> None:
        for _ in range(workers):
            command = [sys.executable, "-m", "tests.support.prefect_contract"]
            self._processes.append(
                subprocess.Popen(command, env=self._env, cwd=ROOT, stdout=subprocess.PIPE, text=True)
            )
        for process in self._processes[-workers:]:
            line = await asyncio.to_thread(process.stdout.readline)  # type: ignore[union-attr]
            assert line == "ready\n", "the process did not start"

    async def drain(self) -> None:
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        await self._end(signal.SIGKILL)

    async def hint(self, queue: str, times: int) -> None:
        """A flow run that is under way notices commits: sweeps by another process make them without changing a job."""
        async with Penstock(workflows=contract_workflows(), store=self.store_url, outputs=".") as other:
            for _ in range(times):
                await other.engine.sweep()

    async def close(self) -> None:
        await self.kill()

    async def _end(self, how: signal.Signals) -> None:
        for process in self._processes:
            process.send_signal(how)
        for process in self._processes:
            status = await asyncio.to_thread(process.wait, 30)
            assert how == signal.SIGKILL or status == 0, f"the process ended with {status}"
            process.stdout.close()  # type: ignore[union-attr]
        self._processes = []


async def main() -> None:
    from penstock.cli.prefect_run import flow_of

    ended = asyncio.Event()
    told = False
    while not ended.is_set():
        for workflow in app.workflows:
            if workflow.startswith("contract"):
                # Each flow run takes the signal for itself while it lasts.
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
                if not told:
                    print("ready", flush=True)
                    told = True
                state = await flow_of(workflow)(workflow, return_state=True)
                if ended.is_set() or state.is_cancelled():
                    ended.set()
                    break


if __name__ == "__main__":
    asyncio.run(main())
    # What Prefect has not sent yet is of no interest, and would take its time.
    os._exit(0)
