"""Worker processes that belong to the service: one that dies is replaced, and the service goes on answering meanwhile.

They go by the rules of `penstock worker`, except that there is always another: the service stays, whatever becomes of
them. They end with the service, also where it is killed (`worker_process.end_with_parent`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import subprocess
import time
from typing import Any

from penstock.delivery.upkeep import AT_ONCE, COMMAND, HURRY, MARGIN, Place, cause, told

log = logging.getLogger("penstock.service")


class WorkerFleet:
    """`wanted` processes that work by `orders` (see `worker_process.py`)."""

    def __init__(self, orders: dict[str, Any], *, wanted: int, grace: float) -> None:
        self.wanted = wanted
        self._orders = orders
        self._grace = grace
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._hurried = asyncio.Event()

    @property
    def alive(self) -> int:
        return sum(process.returncode is None for process in self._processes.values())

    async def start(self) -> None:
        """Start them all; a program that cannot be started at all is told at once."""
        places = [Place(number + 1) for number in range(self.wanted)]
        for place in places:
            await self._begin(place)
        loop = asyncio.get_running_loop()
        self._keepers = [loop.create_task(self._keep(place), name=f"penstock-place-{place.number}") for place in places]

    async def stop(self) -> None:
        """Ask them to end; who takes longer than the grace allows is killed, and its lease runs out."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        self._ask()
        ended = asyncio.ensure_future(self._all_ended())
        hurried = asyncio.ensure_future(self._hurried.wait())
        try:
            await asyncio.wait([ended, hurried], timeout=self._grace + MARGIN, return_when=asyncio.FIRST_COMPLETED)
            if self._hurried.is_set():
                await asyncio.wait([ended], timeout=AT_ONCE)
            for number, process in self._processes.items():
                if process.returncode is None:
                    log.warning("worker process %d did not end in time and is killed; its lease runs out", number)
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()
            await ended
        finally:
            hurried.cancel()

    def hurry(self) -> None:
        self._ask(HURRY)
        self._hurried.set()

    def _ask(self, number: int = signal.SIGTERM) -> None:
        for process in self._processes.values():
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(number)

    async def _all_ended(self) -> None:
        for process in list(self._processes.values()):
            await process.wait()

    async def _keep(self, place: Place) -> None:
        while True:
            code = await self._processes[place.number].wait()
            while True:
                after = place.ended(code, time.monotonic(), for_ever=True).after or 0.0
                log.warning("worker process %d %s; starting another in %.1f s", place.number, cause(code), after)
                await asyncio.sleep(after)
                try:
                    await self._begin(place)
                    break
                except OSError as error:
                    # No memory or no process number left: the service itself lives on, and tries again.
                    log.error("worker process %d cannot be started: %s", place.number, error)
                    code = 1

    async def _begin(self, place: Place) -> None:
        first = place.begins(time.monotonic())
        # A process group of its own: Ctrl-C reaches the service alone, which then asks the workers once.
        process = await asyncio.create_subprocess_exec(*COMMAND, stdin=subprocess.PIPE, process_group=0)
        self._processes[place.number] = process
        assert process.stdin is not None
        process.stdin.write(told(self._orders, first=first))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await process.stdin.drain()
        process.stdin.close()
        log.info("worker process %d is %d", place.number, process.pid)
