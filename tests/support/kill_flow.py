"""A worker that dies at a chosen point of a Gemini batch call: `python -m tests.support.kill_flow FOLDER URL POINT`.

Points: `before sending`, `after accepting` (Gemini has the batch, we have not written that down), `while collecting`,
or `never`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from penstock import Again, Context, Penstock, Workflow
from penstock.engine.clock import SystemClock
from penstock.gemini import BatchRequest, BatchRow, generate_request, read_rows
from penstock.remote.gemini.batch import GeminiBatch
from penstock.remote.gemini.client import GeminiClient
from penstock.remote.gemini.settings import GeminiSettings
from penstock.remote.protocol import Accepted, Collected, Order

ROWS = 5

flow = Workflow("batch", payload=int)


@flow.step
async def ask(rows: int, ctx: Context) -> dict[str, str | None] | Again:
    asked = tuple(BatchRow(key=f"row-{n}", request=generate_request(f"say {n}")) for n in range(rows))
    call = await ctx.call("gemini.batch", "all", BatchRequest(requests=asked, model="gemini-2.5-flash"))
    if not call.ended:
        return Again(rows, until=call)
    return {str(row.key): row.text for row in read_rows(ctx.folder_of(call) / call.result["file"])}


class Mortal(GeminiBatch):
    """The real remote, until the chosen point."""

    def __init__(self, client: GeminiClient, point: str) -> None:
        super().__init__(client)
        self._point = point

    async def submit(self, order: Order) -> Accepted:
        self._die("before sending")
        accepted = await super().submit(order)
        self._die("after accepting")
        return accepted

    async def collect(self, order: Order, provider_id: str) -> Collected:
        collected = await super().collect(order, provider_id)
        self._die("while collecting")
        return collected

    def _die(self, here: str) -> None:
        if here == self._point:
            os.kill(os.getpid(), signal.SIGKILL)


def app(folder: Path, url: str, point: str = "never") -> Penstock:
    settings = GeminiSettings(base_url=url, listing_margin=1, poll_every=0.1, poll_at_most=1, create_timeout=5)
    remote = Mortal(GeminiClient(settings, clock=SystemClock()), point)
    return Penstock(workflows=[flow], store=f"sqlite:///{folder}/penstock.db", remotes=[remote])


async def work(folder: Path, url: str, point: str) -> Any:
    """Run until the job has ended, or this process has."""
    worker = app(folder, url, point)
    async with worker, worker.worker():
        submitted = await worker.submit(flow, ROWS, key="the one")
        job = await worker.wait(submitted.job_id, timeout=120, until=("completed", "failed", "paused"))
        return job.status, job.result, job.error, job.reason


if __name__ == "__main__":
    print(asyncio.run(work(Path(sys.argv[1]), sys.argv[2], sys.argv[3])))
