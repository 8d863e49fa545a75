"""One worker process, as a supervisor or the service starts it: reads its orders from stdin, runs jobs, ends when
asked or idle.

The first SIGTERM (or SIGINT) lets running steps finish within the grace; the second, or its parent (`HURRY`), stops
them and hands their jobs back. One that comes right after the first is no second one: who stops every process of a
service sends it to the parent too, which passes it on.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import logging
import os
import signal
import sys
import threading
import time
from typing import Any

from penstock.app import Penstock
from penstock.cli.logs import start_logging
from penstock.cli.main import exit_code
from penstock.cli.sessions import load_app, queues_served, sqlite_path, store_url
from penstock.config import Settings, load
from penstock.delivery.embedded import Embedded
from penstock.delivery.upkeep import HURRY
from penstock.engine.errors import InvalidConfiguration, PenstockError, StoreError, StoreFull, StoreReadOnly

log = logging.getLogger("penstock.worker")

PR_SET_PDEATHSIG = 1
LOOK_EVERY = 0.1
SAME_REQUEST = 5.0
"""Seconds in which another signal is part of the same request to end."""


def main() -> None:
    try:
        orders = json.loads(sys.stdin.buffer.read())
        settings = load(orders["config"], orders["overrides"])
        start_logging(settings.log)
        end_with_parent(orders["parent"], settings.grace)
        code = asyncio.run(work(settings, stop_when_idle=orders["stop_when_idle"], first=orders["first"]))
    except PenstockError as error:
        log.error("%s", error, exc_info=error if os.environ.get("PENSTOCK_DEBUG", "0") not in ("", "0") else None)
        # A full disk or a server that is being moved is soon mended: the supervisor tries again.
        code = 1 if isinstance(error, (StoreFull, StoreReadOnly)) else exit_code(error)
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        # A SystemExit too: whatever ends this process must not leave it waiting for a thread, or look like success.
        log.exception("the worker process failed")
        code = 1
    logging.shutdown()
    # A blocking step that was given up may still sit in its thread: the interpreter's own end would wait for it.
    os._exit(code)


async def work(settings: Settings, *, stop_when_idle: float | None, first: bool) -> int:
    """Be a worker until a signal comes or there was nothing to do for `stop_when_idle` seconds. `first`: no process
    was here before, so somebody may be looking who has started the worker in the wrong folder."""
    app = load_app(settings)
    stopping = asyncio.Event()
    asked: float | None = None

    def stop() -> None:
        nonlocal asked
        now = time.monotonic()
        asked = now if asked is None else asked
        stopping.set()
        if now - asked > SAME_REQUEST:
            stop_ticks(app)

    def hurry() -> None:
        stopping.set()
        stop_ticks(app)

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(HURRY, hurry)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    store = settings.store if settings.source("store") else None
    try:
        await app.open(store=store, settings=settings, exit_when_stuck=True)
    except StoreReadOnly as error:
        if first and sqlite_path(store_url(app, settings)) is not None:
            raise InvalidConfiguration(str(error)) from error
        raise
    try:
        queues = queues_served(app, settings)
        async with app.worker(queues=queues, concurrency=settings.concurrency, grace=settings.grace) as delivery:
            log.info(
                "worker %s is ready: workflows %s; queues %s; %d at once",
                app.engine.worker,
                ", ".join(sorted(app.workflows)),
                ", ".join(queues),
                settings.concurrency,
            )
            await until_over(app, delivery, queues, stopping, stop_when_idle)
            running = "1 step is" if delivery.running == 1 else f"{delivery.running or 'no'} steps are"
            log.info("worker %s stops: %s running", app.engine.worker, running)
    finally:
        await app.close()
    return 0


def stop_ticks(app: Penstock) -> None:
    """What is running is stopped where it stands; its jobs are handed back, not blamed."""
    for tick in list(app.engine.ticks.values()):
        if tick.task is not None:
            tick.task.cancel("the worker stops at once")


async def until_over(
    app: Penstock, delivery: Embedded, queues: tuple[str, ...], stopping: asyncio.Event, idle: float | None
) -> None:
    """Idle means: nothing ran here and nothing was ready to be taken."""
    busy_until = time.monotonic()
    while not stopping.is_set():
        if idle is None:
            await stopping.wait()
            return
        if delivery.running or await _ready(app, queues):
            busy_until = time.monotonic()
        elif time.monotonic() - busy_until >= idle:
            log.info("nothing to do for %g s", idle)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(LOOK_EVERY, max(idle, 0.01))):
                await stopping.wait()


async def _ready(app: Penstock, queues: tuple[str, ...]) -> bool:
    try:
        return any(queue in queues for queue in await app.engine.store.ready_queues())
    except StoreError as error:
        log.warning("could not look for work: %s", error)
        return True


def end_with_parent(parent: int, grace: float) -> None:
    """A parent that was killed cannot end its workers: the kernel tells us (on Linux), and a thread looks."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        log.warning("the process that started this one is gone: stopping")
        if sys.platform != "linux":
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(grace + 10.0)
        os._exit(1)

    if os.getppid() != parent:
        os._exit(1)
    threading.Thread(target=look, name="penstock-parent", daemon=True).start()


def orders(config: str | None, overrides: dict[str, Any], *, stop_when_idle: float | None) -> dict[str, Any]:
    """What a supervisor tells its processes; through a pipe, so that no list of processes shows a password."""
    return {"config": config, "overrides": overrides, "stop_when_idle": stop_when_idle}


if __name__ == "__main__":
    main()
