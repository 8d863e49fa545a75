"""Delivery by Prefect as the contract suite sees it: processes that begin the next flow run when one has ended, as
Prefect's runner does, but without its pauses."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

from penstock import Penstock
from penstock.delivery.contract import contract_workflows
from tests.support.prefect import PrefectServer
from tests.support.prefect_fork import Forked

app = Penstock(workflows=contract_workflows())


class PrefectHarness:
    """Whoever submits tells Prefect nothing: a flow run finds the work, so every one is deaf."""

    def __init__(self, server: PrefectServer, folder: Path) -> None:
        self.store_url = f"sqlite:///{folder}/penstock.db"
        self._folder = folder
        self._env = server.environment(
            PENSTOCK_APP="tests.support.prefect_contract:app",
            PENSTOCK_HOME=str(folder),
            PENSTOCK_STORE=self.store_url,
            PENSTOCK_LEASE="2s",
            PENSTOCK_LOG__LEVEL="error",
        )
        self._processes: list[Forked] = []

    async def start(self, *, workers: int = 1, deaf: bool = False) -> None:
        self._processes += [Forked(self._env, self._folder, work) for _ in range(workers)]
        for process in self._processes[-workers:]:
            assert await asyncio.to_thread(process.heard) == "ready"

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
            status = await asyncio.to_thread(process.wait)
            assert how == signal.SIGKILL or status == 0, f"the process ended with {status}"
            process.close()
        self._processes = []


async def work(say: Callable[[str], None]) -> None:
    from penstock.cli.prefect_run import flow_of

    ended = asyncio.Event()
    told = False
    while not ended.is_set():
        for workflow in contract_workflows():
            # Each flow run takes the signal for itself while it lasts.
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
            if not told:
                say("ready")
                told = True
            state = await flow_of(workflow.name)(workflow.name, return_state=True)
            if ended.is_set() or state.is_cancelled():
                ended.set()
                break
    # What Prefect has not sent yet is of no interest, and would take its time.
    os._exit(0)
