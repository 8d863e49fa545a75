"""The demo's dashboard: the service on the store that the examples share, in the demo's own process."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from penstock.app import Penstock
from penstock.cli.demo_show import make_app
from penstock.config import Settings
from penstock.config.settings import ServiceSettings
from penstock.service.app import create_app
from penstock.service.live import LiveFeed
from penstock.service.sections import found_sections
from penstock.service.server import PortTaken, Running, address_of, listen
from penstock.service.state import Service
from penstock.service.workforce import OwnWorker

HOST = "127.0.0.1"
PORTS = 100
"""How many ports after the one that was wished for are tried."""
GRACE = 2.0


@dataclass(slots=True, frozen=True)
class Dashboard:
    url: str
    app: Penstock
    wished: bool
    """Whether it has the port that was wished for."""


@contextlib.asynccontextmanager
async def dashboard(home: Path, store: str, port: int) -> AsyncIterator[Dashboard]:
    """Up for as long as the block lasts."""
    app = make_app()
    listener = _near(port)
    with listener:
        settings = Settings(home=home, store=store, service=ServiceSettings(host=HOST, port=port))
        await app.open(store=store, settings=settings)
        try:
            service = Service(
                penstock=app, settings=settings, feed=LiveFeed(app), sections=found_sections(), open_access=True
            )
            worker = OwnWorker(app, queues=["default"], concurrency=settings.concurrency, grace=GRACE)
            running = Running(service, create_app(service), listener, worker)
            try:
                await running.begin()
                yield Dashboard(address_of(listener), app, port in (0, listener.getsockname()[1]))
            finally:
                await running.end()
        finally:
            await app.close()


def _near(port: int) -> socket.socket:
    """The port, or the next one that is free."""
    for number in range(port, min(port + PORTS, 65536)) if port else (0,):
        with contextlib.suppress(PortTaken):
            return listen(HOST, number)
    raise PortTaken(f"ports {port} to {port + PORTS - 1} are all in use ({errno.errorcode[errno.EADDRINUSE]})")
