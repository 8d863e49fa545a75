"""The jobs of the bench: `python -m bench.service.flow fill HOME COUNT` stores so many that have ended, and
`python -m bench.service.flow run HOME RATE` runs so many more a second until it is told to stop, and says how many."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from pathlib import Path

from penstock import Context, Penstock, Permanent, Workflow
from penstock.config import Settings

FEW = 20
"""Jobs of the rare workflow, and of the small tenant: the oldest of all."""
FAILS_ONE_IN = 500
AT_A_TIME = 500
PATIENCE = 300
TEXT = "A line of text such as a payload may carry, so that rows have the size of real ones. " * 3

common = Workflow("common", payload=dict)
rare = Workflow("rare", payload=dict)


@common.step
async def read(page: dict[str, object], ctx: Context) -> dict[str, object]:
    if int(str(page["number"])) % FAILS_ONE_IN == 7:
        raise Permanent(f"page {page['number']} is blank")
    return {"words": 57}


@rare.step
async def bind(page: dict[str, object], ctx: Context) -> str:
    return "bound"


def opened(home: Path) -> Penstock:
    return Penstock(workflows=[common, rare], store=f"sqlite:///{home}/penstock.db")


app = Penstock(workflows=[common, rare])
"""For `penstock up`, which brings the store."""


def pages(first: int, count: int) -> list[dict[str, object]]:
    return [{"number": number, "text": TEXT} for number in range(first, first + count)]


async def fill(home: Path, count: int) -> None:
    filling = opened(home)
    await filling.open(settings=Settings(home=home))
    async with filling.worker(concurrency=500):
        await filling.submit_many(rare, pages(0, FEW))
        await filling.submit_many(common, pages(0, FEW), tenant="small")
        for first in range(0, count - 2 * FEW, AT_A_TIME):
            most = min(AT_A_TIME, count - 2 * FEW - first)
            await filling.submit_many(common, pages(first, most), tenant="other" if first % 1000 else "default")
        for _ in range(PATIENCE * 10):
            if not await filling.engine.store.ready_queues() and not filling.engine.ticks:
                break
            await asyncio.sleep(0.1)
    await filling.close()


async def run(home: Path, rate: float) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    running = opened(home)
    await running.open(settings=Settings(home=home))
    ended = submitted = 0
    async with running.worker(concurrency=200) as delivery:
        print("ready", flush=True)
        began = time.monotonic()
        while not stopping.is_set():
            # What is due by now, and never so much that a slow moment is followed by a flood.
            due = min(int((time.monotonic() - began) * rate) - submitted, int(rate / 4))
            if due > 0 and delivery.running < 200:
                await running.submit_many(common, pages(submitted, due))
                submitted += due
            await asyncio.sleep(0.02)
        took = time.monotonic() - began
        ended = submitted - await running.engine.store.backlog(submitted + 1)
    await running.close()
    print(ended / took, flush=True)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    what, where, amount = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    asyncio.run(fill(where, int(amount)) if what == "fill" else run(where, amount))
