"""How a command gets to its app and its store, and whether somebody is there to do the work."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import click

from penstock.app import Penstock
from penstock.builtin import installed_workflows
from penstock.config import Settings
from penstock.engine.call import UNDER_WAY, Call
from penstock.engine.errors import InvalidConfiguration, NotFound
from penstock.engine.machine import is_dead, is_internal, told_by
from penstock.service.beginning import same_flags
from penstock.store.protocol import WorkerRow

T = TypeVar("T")

HOW_TO_NAME_IT = "name it with --app module:object, PENSTOCK_APP or `app:` in penstock.yaml"


def load_app(settings: Settings) -> Penstock:
    """The app, and with it the pipelines that come with Penstock; just those where no app is named."""
    app = Penstock() if settings.app is None else _imported(settings)
    for workflow in installed_workflows():
        if workflow.name not in app.workflows:
            app.add(workflow)
    return app


def without_app() -> str:
    """The words for it where no app is named."""
    return f"no app is named, so only Penstock's own pipelines are known here ({_pipelines()}): {HOW_TO_NAME_IT}"


def check_known(app: Penstock, settings: Settings, workflow: str) -> None:
    """Without an app nobody's own workflow can be known: then that is what is wrong."""
    if settings.app is None and workflow not in app.workflows:
        raise InvalidConfiguration(f"there is no workflow {workflow!r} here: {without_app()}")


def _pipelines() -> str:
    return ", ".join(workflow.name for workflow in installed_workflows())


def _imported(settings: Settings) -> Penstock:
    """Import `module:object` with the working folder on the path, or say in one sentence why that cannot be."""
    assert settings.app is not None
    source = settings.source("app")
    where = f" (from {source})" if source else ""
    name, _, path = settings.app.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise InvalidConfiguration(f"app: there is no module {name!r} here or installed{where}") from error
        raise InvalidConfiguration(f"app: {name!r} needs {error.name!r}, which is not installed{where}") from error
    except (Exception, SystemExit) as error:
        problem = f"{type(error).__name__}: {error}"
        raise InvalidConfiguration(f"app: {name!r} cannot be imported, {problem}{where}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise InvalidConfiguration(f"app: {name!r} has no {path!r}{_apps_in(found)}{where}")
        found = getattr(found, part)
    if not isinstance(found, Penstock):
        raise InvalidConfiguration(f"app: {settings.app!r} is not a Penstock but of type {type(found).__name__}{where}")
    return found


def _apps_in(module: Any) -> str:
    apps = [name for name, value in vars(module).items() if isinstance(value, Penstock)]
    return f"; did you mean {module.__name__}:{apps[0]}?" if apps else ""


@contextlib.asynccontextmanager
async def opened(settings: Settings, *, with_app: bool = False, must_exist: bool = False) -> AsyncIterator[Penstock]:
    """The app (or, where its workflows are not needed, just the store), open for as long as the block lasts.

    A store that the configuration names is stronger than one in the app's code, so that all commands meet in one store.
    """
    if with_app or settings.source("app") == "--app":
        app = load_app(settings)
        store = settings.store if settings.source("store") else None
    else:
        app, store = Penstock(), settings.store
        settings = settings.model_copy(update={"limits": None})
    if must_exist:
        await check_exists(store_url(app, settings) if store is None else store)
    await app.open(store=store, settings=settings)
    try:
        yield app
    finally:
        await app.close()


def store_url(app: Penstock, settings: Settings) -> str:
    """Which store the app opens under these settings; empty where its code made one itself."""
    own = app._store_given
    if settings.source("store") or own is None:
        return settings.store
    return own if isinstance(own, str) else ""


async def check_exists(url: str) -> None:
    """A question makes no tables: a mistyped address would answer that all is well and empty."""
    from penstock.cli.schema_state import schema_state

    if (await schema_state(url)).revision is None:
        raise NotFound(f"there is no store {url} yet: submit a job or start a worker, or name another with --store")


def sqlite_path(url: str) -> Path | None:
    """The file of a SQLite URL."""
    return Path(url.removeprefix("sqlite:///").partition("?")[0]) if url.startswith("sqlite:///") else None


async def alive(app: Penstock, workflow: str | None = None, queue: str | None = None) -> list[WorkerRow]:
    """The workers whose lease has not run out, by the store's clock, and that are not known to have died on this
    machine; with `workflow` and `queue` only those that know and serve them. An internal one counts for its own
    workflow only."""
    store = app.engine.store
    now = await store.now()
    return [
        worker
        for worker in await store.workers()
        if not _is_gone(worker, now)
        and _takes(told_by(worker), workflow, queue)
        and (workflow is not None or not is_internal(worker))
    ]


async def gone(app: Penstock) -> list[WorkerRow]:
    """The workers that are not alive and have not said goodbye, internal ones too: they may hold jobs."""
    store = app.engine.store
    now = await store.now()
    return [worker for worker in await store.workers() if _is_gone(worker, now)]


def _is_gone(worker: WorkerRow, now: float) -> bool:
    return worker.expires <= now or is_dead(told_by(worker))


async def lack(app: Penstock, workflow: str, queue: str) -> str | None:
    """The words for it where nobody is there to do the work."""
    if await alive(app, workflow, queue):
        return None
    if await alive(app, workflow):
        return f"No worker that serves the queue {queue!r} is alive"
    return f"No worker that knows {workflow!r} is alive" if await alive(app) else "No worker is alive"


async def left_running(app: Penstock, settings: Settings, calls: Sequence[Call]) -> str | None:
    """The words for calls that somebody wants stopped while nobody is there to do it."""
    running = [call for call in calls if call.state in UNDER_WAY]
    if not running or await alive(app):
        return None
    remotes = ", ".join(sorted({call.remote for call in running}))
    start = f"`{how_to_start(settings)}`"
    if len(running) == 1:
        return f"1 call still runs at {remotes}; it is cancelled when a worker runs: {start}"
    return f"{len(running)} calls still run at {remotes}; they are cancelled when a worker runs: {start}"


def _takes(told: dict[str, Any], workflow: str | None, queue: str | None) -> bool:
    known, served = told.get("workflows"), told.get("queues")
    return (workflow is None or known is None or workflow in known) and (queue is None or not served or queue in served)


def how_to_start(settings: Settings) -> str:
    """The command that starts a worker for what this command did; what stands in a file is found there again."""
    in_a_file = " line " in (settings.source("app") or "")
    command = "penstock up" if settings.delivery == "embedded" else f"penstock worker --delivery {settings.delivery}"
    return command + same_flags(settings, but=("app",) if in_a_file else (), app=settings.app or "module:object")


@dataclass(slots=True)
class Interrupts:
    """What Ctrl-C (and SIGTERM) does: the first one cancels the command; where jobs run in this process, which
    takes until their steps have ended, the next one calls `at_once`."""

    asked: int = 0
    at_once: Callable[[], None] | None = None
    draining: bool = False
    """The command is ending already: there is nothing left to cancel."""
    last_moment: float | None = None
    """When this process ends in any case, in monotonic seconds."""


interrupts = Interrupts()

PATIENCE_AT_ONCE = 5.0
"""Seconds for handing back after a second Ctrl-C; a step that blocks the event loop would keep us for ever."""
LOOK_EVERY = 0.25


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine. SIGTERM ends it as Ctrl-C does, so that what this process holds is handed back."""

    async def main() -> T:
        with _interruptible():
            return await work

    return asyncio.run(main())


def _give_up_in_time(over: threading.Event) -> None:
    """In a thread of its own: a step that blocks the loop must not keep the process for ever."""
    while interrupts.last_moment is None or time.monotonic() < interrupts.last_moment:
        if over.wait(LOOK_EVERY):
            return
    click.echo(
        "A step does not let go, so this process ends without it: a worker takes its job up again, "
        "one on this machine when it starts, others when the lease has run out.",
        err=True,
    )
    os._exit(130)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    if task is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupts.asked, interrupts.at_once, interrupts.draining, interrupts.last_moment = 0, None, False, None

    def heed(number: int, frame: FrameType | None) -> None:
        # A handler of Python's own, not the loop's: it is called even while a step blocks the loop. The next signal
        # may come while this one is heeded, so nothing here may take a lock.
        interrupts.asked += 1
        if interrupts.asked == 1 and not interrupts.draining:
            loop.call_soon_threadsafe(task.cancel)
        elif interrupts.at_once is not None:
            loop.call_soon_threadsafe(interrupts.at_once)
            if interrupts.last_moment is None:
                interrupts.last_moment = time.monotonic() + PATIENCE_AT_ONCE
        else:
            raise KeyboardInterrupt

    over = threading.Event()
    threading.Thread(target=_give_up_in_time, args=(over,), name="penstock-ending", daemon=True).start()
    before = {number: signal.signal(number, heed) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        # After a second Ctrl-C the loop's own end is watched too: it waits for threads in which a step may sit.
        if interrupts.last_moment is None:
            over.set()
        for number, handler in before.items():
            signal.signal(number, handler)


def queues_served(app: Penstock, settings: Settings) -> tuple[str, ...]:
    """Those that the configuration names, or those of the workflows; one that nothing uses is worth a line."""
    used = {workflow.queue for workflow in app.workflows.values()}
    queues = settings.queues or tuple(sorted(used))
    for queue in sorted(set(queues) - used):
        logging.getLogger("penstock.worker").warning(
            "no workflow uses the queue %r, so only jobs that name it come; the workflows use %s",
            queue,
            ", ".join(sorted(used)) or "none",
        )
    return queues
