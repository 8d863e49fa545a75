"""A worker process for the tests: serves the contract's workflows on a store until SIGTERM; `deaf` ones get no
hints."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal

from penstock import Penstock
from penstock.delivery.contract import contract_workflows
from tests.support.crash_flow import crash_workflows


async def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("store")
    options.add_argument("--deaf", action="store_true")
    options.add_argument("--lease", type=float, default=2.0)
    given = options.parse_args()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    app = Penstock(
        workflows=[*contract_workflows(), *crash_workflows()], store=given.store, lease=given.lease, outputs="."
    )
    async with app, app.worker(concurrency=50, grace=10.0) as delivery:
        if given.deaf:
            stop_listening_to_the_store = delivery._unhook.pop()
            stop_listening_to_the_store()
        print("ready", flush=True)
        while not ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await ended.wait()


if __name__ == "__main__":
    asyncio.run(main())
