"""How a command gets to its app and its store, and whether somebody is there to do the work."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from penstock.app import Penstock
from penstock.config import Settings
from penstock.engine.errors import InvalidConfiguration, NotFound
from penstock.store.protocol import WorkerRow

T = TypeVar("T")

HOW_TO_NAME_IT = "name it with --app module:object, PENSTOCK_APP or `app:` in penstock.yaml"


def load_app(settings: Settings) -> Penstock:
    """Import `module:object` with the working folder on the path, or say in one sentence why that cannot be."""
    if settings.app is None:
        raise InvalidConfiguration(f"no app is named, so no workflow is known: {HOW_TO_NAME_IT}")
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
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise InvalidConfiguration(f"app: {name!r} cannot be imported, {problem}{where}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise InvalidConfiguration(f"app: {name!r} has no {path!r}{_apps_in(found)}{where}")
        found = getattr(found, part)
    if not isinstance(found, Penstock):
        raise InvalidConfiguration(f"app: {settings.app!r} is a {type(found).__name__}, not a Penstock{where}")
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
        if must_exist:
            check_exists(settings)
        app, store = Penstock(), settings.store
        settings = settings.model_copy(update={"limits": None})
    await app.open(store=store, settings=settings)
    try:
        yield app
    finally:
        await app.close()


def check_exists(settings: Settings) -> None:
    """A question makes no database: a mistyped path would answer that all is well and empty."""
    path = sqlite_path(settings.store)
    if path is not None and not path.exists():
        raise NotFound(
            f"there is no store {settings.store} yet: submit a job or start a worker, or name another with --store"
        )


def sqlite_path(url: str) -> Path | None:
    """The file of a SQLite URL."""
    return Path(url.removeprefix("sqlite:///").partition("?")[0]) if url.startswith("sqlite:///") else None


async def alive(app: Penstock, workflow: str | None = None) -> list[WorkerRow]:
    """The workers whose lease has not run out, by the store's clock; with `workflow` only those that know it."""
    store = app.engine.store
    now = await store.now()
    return [worker for worker in await store.workers() if worker.expires > now and _knows(worker, workflow)]


async def lack(app: Penstock, workflow: str) -> str | None:
    """The words for it where nobody is there to do the work."""
    if await alive(app, workflow):
        return None
    return f"No worker that knows {workflow!r} is alive" if await alive(app) else "No worker is alive"


def _knows(worker: WorkerRow, workflow: str | None) -> bool:
    known = json.loads(worker.info or "{}").get("workflows")
    return workflow is None or known is None or workflow in known


def how_to_start(settings: Settings) -> str:
    named = settings.app or "module:object"
    return f"penstock worker --app {named}"


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine. SIGTERM ends it as Ctrl-C does, so that what this process holds is handed back."""

    async def main() -> T:
        task = asyncio.current_task()
        if task is not None and os.name == "posix":
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    return asyncio.run(main())
