"""How a command becomes the service: its app, its store, its socket, who does the work, and what is said when all of
that is there."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.app import Penstock
from penstock.cli.output import without_password
from penstock.cli.service_state import readiness, url_of
from penstock.cli.sessions import load_app, store_url, without_app
from penstock.config import Settings
from penstock.engine.errors import InvalidConfiguration
from penstock.engine.model import DEFAULT_QUEUE
from penstock.service.access.serving import access_mode, is_loopback, proxy_warning
from penstock.service.access.tokens import tokens_exist
from penstock.service.app import create_app
from penstock.service.beginning import first_job
from penstock.service.fleet import WorkerFleet
from penstock.service.live import LiveFeed
from penstock.service.sections import found_sections
from penstock.service.server import PortTaken, address_of, listen, serve
from penstock.service.state import Service
from penstock.service.workforce import Nobody, OwnWorker, Workforce

log = logging.getLogger("penstock.service")


@dataclass(slots=True, frozen=True, kw_only=True)
class Wanted:
    """Who should do the work: `processes` children, which get `orders`; nobody; or else a worker in this process."""

    orders: dict[str, Any]
    processes: int | None = None
    nobody: bool = False


@dataclass(slots=True, frozen=True, kw_only=True)
class Facts:
    """What there is to say about a service that is ready."""

    url: str
    store: str
    app: str | None
    workflows: tuple[str, ...]
    worker: str
    processes: int
    open_access: bool
    first_job: str | None
    """A command that submits a first job."""
    listens: str | None = None
    """How other machines reach it; None: they do not."""

    @property
    def told(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "pid": os.getpid(),
            "store": self.store,
            "app": self.app,
            "workflows": list(self.workflows),
            "worker": self.worker,
            "processes": self.processes,
            "tokens_needed": not self.open_access,
        }

    @property
    def app_told(self) -> str:
        if self.app is None:
            return without_app()
        return f"{self.app}, workflows: {', '.join(self.workflows) or 'none'}"

    @property
    def worker_told(self) -> str:
        if self.worker == "embedded":
            return "in this process"
        if self.worker == "processes":
            return "1 process" if self.processes == 1 else f"{self.processes} processes"
        return "none here: jobs are run by workers of other processes, `penstock worker`"


def run(settings: Settings, wanted: Wanted, greet: Callable[[Facts], None]) -> int:
    async def main() -> int:
        code = await _serve(settings, wanted, greet)
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        # A blocking step that was given up may still sit in its thread: the interpreter's own end would wait for it.
        os._exit(code)

    return asyncio.run(main())


async def _serve(settings: Settings, wanted: Wanted, greet: Callable[[Facts], None]) -> int:
    app = load_app(settings)
    store = settings.store if settings.source("store") else ""
    if settings.app is None:
        store = settings.store
        settings = _without_limits(settings)
    url = store or store_url(app, settings)
    if wanted.processes and url.startswith("memory:"):
        raise InvalidConfiguration("memory:// is gone with its process: workers of other processes cannot share it")
    await app.open(store=store or None, settings=settings, exit_when_stuck=True)
    try:
        here = settings.service
        some = await tokens_exist(app.engine.store)
        open_access = access_mode(here.host, some, public_url=here.public_url, proxied=bool(here.trusted_proxies))
        if (doubt := proxy_warning(here.public_url, here.trusted_proxies)) is not None:
            log.warning(doubt)
        listener = _listen(settings)
        with listener:
            workforce = _workforce(app, settings, wanted)
            service = Service(
                penstock=app,
                settings=settings,
                feed=LiveFeed(app),
                sections=found_sections(),
                open_access=open_access,
                fleet=workforce if isinstance(workforce, WorkerFleet) else None,
            )
            begin = first_job(app, settings)
            facts = Facts(
                url=here.public_url or address_of(listener),
                store=without_password(url or type(app.engine.store).__name__),
                app=settings.app,
                workflows=tuple(sorted(app.workflows)),
                worker={WorkerFleet: "processes", OwnWorker: "embedded"}.get(type(workforce), "none"),
                processes=wanted.processes or 0,
                open_access=open_access,
                first_job=without_password(begin) if begin else None,
                listens=_listens(listener),
            )
            return await serve(service, create_app(service), listener, workforce, on_ready=lambda: greet(facts))
    finally:
        await app.close()


def _listens(listener: socket.socket) -> str | None:
    host, port = listener.getsockname()[:2]
    if is_loopback(host):
        return None
    if host not in ("0.0.0.0", "::"):
        return f"on {host}, port {port}, for other machines too"
    name = f"http://{socket.gethostname()}:{port}/"
    return f"on every address of this machine, port {port}, for other machines too: {name} where its name is known"


def _without_limits(settings: Settings) -> Settings:
    """Limits belong to an app's workflows: who knows none leaves those of the store alone."""
    sources = dict(settings._sources)
    changed = settings.model_copy(update={"limits": None})
    changed._sources.update(sources)
    return changed


def _workforce(app: Penstock, settings: Settings, wanted: Wanted) -> Workforce:
    if wanted.processes:
        return WorkerFleet(wanted.orders, wanted=wanted.processes, grace=settings.grace)
    if wanted.nobody or not app.workflows:
        return Nobody()
    used = {workflow.queue for workflow in app.workflows.values()}
    queues = settings.queues or tuple(sorted(used)) or (DEFAULT_QUEUE,)
    return OwnWorker(app, queues=queues, concurrency=settings.concurrency, grace=settings.grace)


def _listen(settings: Settings) -> socket.socket:
    host, port = settings.service.host, settings.service.port
    try:
        return listen(host, port)
    except PortTaken as error:
        if readiness(host, port) is not None:
            mend = f"a Penstock service is there already: use {url_of(host, port)}/, stop it, or give another --port"
            raise PortTaken(f"cannot listen on {host}:{port}: {mend}") from error
        raise PortTaken(f"{error}: stop it, or give another port; --port 0 takes any that is free") from error
