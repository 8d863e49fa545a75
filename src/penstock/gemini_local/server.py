"""Serving a local Gemini to the machine it runs on, and to nobody else unless told so."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import uvicorn

from penstock import __version__
from penstock.engine.errors import InvalidConfiguration
from penstock.gemini_local.app import LocalGemini, create_app
from penstock.gemini_local.backends import make_backend
from penstock.gemini_local.dropping import DroppableProtocol
from penstock.gemini_local.guards import is_loopback
from penstock.gemini_local.settings import Settings

LAST_WAIT = 2
"""Seconds that calls under way get when the server stops."""


class PortTaken(InvalidConfiguration):
    """Another program listens on the port."""


@dataclass(slots=True, frozen=True)
class ServerSettings:
    """`home` gets a folder `gemini` with everything the server keeps. Port 0 is any. With `port_is_a_wish` another is
    taken where the port is not free. After `idle_stop` seconds without a request or an unfinished batch the server
    ends; it also ends when its home is gone. `seed` makes ids, shuffles and rates repeat."""

    home: Path
    host: str = "127.0.0.1"
    port: int = 0
    port_is_a_wish: bool = False
    backend: str = "local"
    allow_remote: bool = False
    idle_stop: float | None = None
    seed: int | None = None
    gemini: Settings = field(default_factory=Settings)

    @property
    def folder(self) -> Path:
        return self.home / "gemini"


@dataclass(slots=True, frozen=True)
class Running:
    """What `server.json` says about the server of a home."""

    pid: int
    host: str
    port: int
    instance: str
    started: float
    version: str

    @property
    def base_url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def serve(settings: ServerSettings, *, on_ready: Callable[[Running], None] | None = None) -> None:
    """Serve until told to stop (SIGTERM, SIGINT) or nobody needs it. Raises before anything is served if it cannot."""
    check_bind(settings)
    asyncio.run(_serve(settings, on_ready))


def check_bind(settings: ServerSettings) -> None:
    if is_loopback(settings.host):
        return
    if not settings.allow_remote:
        raise InvalidConfiguration(
            f"{settings.host} can be reached from other machines: if that is meant, say allow_remote and set an API key"
        )
    if settings.gemini.key is None:
        raise InvalidConfiguration(f"a server on {settings.host} needs an API key: whoever reaches it could use it")


async def _serve(settings: ServerSettings, on_ready: Callable[[Running], None] | None) -> None:
    listener = _bind(settings)
    try:
        app = create_app(
            settings.folder, make_backend(settings.backend), rng=Random(settings.seed), settings=_reachable(settings)
        )
        server = _Server(
            uvicorn.Config(
                app,
                http=DroppableProtocol,
                ws="none",
                lifespan="on",
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=LAST_WAIT,
            ),
            app,
            settings,
            on_ready,
        )
        await server.serve([listener])
    finally:
        listener.close()


def _reachable(settings: ServerSettings) -> Settings:
    """Bound elsewhere, any name may be the server's."""
    if is_loopback(settings.host):
        return settings.gemini
    return Settings(**{**_fields(settings.gemini), "hosts": ("*",)})


def _fields(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in Settings.__dataclass_fields__}


def _bind(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The protocol is named so that asyncio knows it for TCP and sends small answers without delay.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        try:
            listener.bind((settings.host, settings.port))
        except OSError:
            if not settings.port_is_a_wish:
                raise
            listener.bind((settings.host, 0))
    except OSError as error:
        listener.close()
        where = f"cannot listen on {settings.host}:{settings.port}"
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(
                f"{where}: another program listens there: stop it, or give another port; --port 0 takes any that is "
                "free"
            ) from error
        raise InvalidConfiguration(f"{where}: {(error.strerror or str(error)).lower()}") from error
    return listener


class _Server(uvicorn.Server):
    """Says when it can be reached, and ends when nobody needs it."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: LocalGemini,
        settings: ServerSettings,
        on_ready: Callable[[Running], None] | None,
    ) -> None:
        super().__init__(config)
        self._app = app
        self._settings = settings
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.started or not sockets:
            return
        running = Running(
            pid=os.getpid(),
            host=self._settings.host,
            port=sockets[0].getsockname()[1],
            instance=self._app.instance,
            started=self._app.services.clock.now(),
            version=__version__,
        )
        write_running(self._settings.folder, running)
        if self._on_ready is not None:
            self._on_ready(running)

    async def on_tick(self, counter: int) -> bool:
        idle_stop = self._settings.idle_stop
        if idle_stop is not None and (self._app.idle_for >= idle_stop or not self._settings.folder.is_dir()):
            return True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        # A signal that was obeyed is not raised again: the server ended as it should.
        self._captured_signals.clear()


def write_running(folder: Path, running: Running) -> None:
    beside = folder / f"server.json.{os.getpid()}"
    beside.write_text(json.dumps({name: getattr(running, name) for name in Running.__dataclass_fields__}))
    beside.replace(folder / "server.json")


def read_running(folder: Path) -> Running | None:
    try:
        return Running(**json.loads((folder / "server.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
