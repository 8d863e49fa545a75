"""Serving until told to stop, and stopping so that nothing is lost.

The first SIGTERM (or Ctrl-C) makes the service drain: `/health/ready` answers 503 at once, the worker claims nothing
more and lets running steps finish, and requests are still answered meanwhile, new jobs included: they are durable, and
run after the restart; live streams go on. When the worker has ended and `drain_wait` is over, live streams end, the
socket is closed, requests that are under way are answered, and the process ends. The second signal stops the steps at
once.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import errno
import logging
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from penstock.delivery.upkeep import ending_signals
from penstock.engine.errors import InvalidConfiguration, PenstockError
from penstock.service.front import Connection, Front
from penstock.service.state import Service
from penstock.service.workforce import Workforce

log = logging.getLogger("penstock.service")

INTERRUPTED = 130
LAST_WAIT = 10
"""Seconds that requests under way get when the socket is closed."""
MARGIN = 30.0
"""Seconds beyond everything that may take long, after which a process that was told to stop ends in any case."""
AT_ONCE = 5.0
"""Seconds for handing back after a second signal; a step that blocks the event loop would keep us for ever."""
LOOK_EVERY = 0.25
KEEP_ALIVE = 75
BACKLOG = 2048
LARGEST_HEAD = 64 * 1024
MOST_CONNECTIONS = 10_000
OTHER_FILES = 200
"""Files that the process has open beside its connections."""


class PortTaken(InvalidConfiguration):
    """Another program listens on the port."""


class NotServed(PenstockError):
    """The service ended before it was ready; the log says why."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections from now on; port 0 is any that is free."""
    where = f"cannot listen on {host}:{port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise InvalidConfiguration(f"{where}: {(error.strerror or str(error)).lower()}") from error
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(f"{where}: another program listens there") from error
        raise InvalidConfiguration(f"{where}: {(error.strerror or str(error)).lower()}") from error
    return listener


def address_of(listener: socket.socket) -> str:
    """Where a browser on this machine finds it."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@dataclass(slots=True)
class Ending:
    """What the signals have asked for. `at_most`: seconds that stopping may take before the process ends anyway."""

    at_most: float
    on_second: Callable[[], None]
    asked: int = 0
    interrupted: bool = False
    first: asyncio.Event = field(default_factory=asyncio.Event)
    _last_moment: float | None = None

    @contextlib.contextmanager
    def heeding(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        # A signal comes in the middle of anything: what is done about it is not about the request of that moment.
        context = contextvars.copy_context()

        def heed(number: int, frame: FrameType | None) -> None:
            # A handler of Python's own, not the loop's: it is called even while a step blocks the loop. The next
            # signal may come while this one is heeded, so nothing here may take a lock.
            self.asked += 1
            self.interrupted = self.interrupted or number == signal.SIGINT
            if self.asked == 1:
                self._last_moment = time.monotonic() + self.at_most
                loop.call_soon_threadsafe(self.first.set, context=context)
            elif self.asked == 2:
                self._last_moment = time.monotonic() + AT_ONCE
                loop.call_soon_threadsafe(self.on_second, context=context)

        over = threading.Event()
        threading.Thread(target=self._watch, args=(over,), name="penstock-ending", daemon=True).start()
        before = {number: signal.signal(number, heed) for number in ending_signals()}
        try:
            yield
        finally:
            over.set()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _watch(self, over: threading.Event) -> None:
        """In a thread of its own: a step that blocks the loop must not keep the process for ever."""
        while not over.wait(LOOK_EVERY):
            if self._last_moment is not None and time.monotonic() > self._last_moment:
                log.critical("a step does not let go: this process ends without it, and its job is taken up again")
                logging.shutdown()
                os._exit(1)


class _Server(uvicorn.Server):
    """Says when it takes requests, and leaves the signals to us."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serving = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.serving.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Running:
    """A service that takes requests, and whoever does the work beside it."""

    def __init__(self, service: Service, app: ASGIApp, listener: socket.socket, workforce: Workforce) -> None:
        self._service = service
        self._workforce = workforce
        self._listener = listener
        front = Front(app, service, most=_most_connections(), connections=self._connections)
        self._server = _Server(_config(front, service.settings.service.trusted_proxies))
        self._serving: asyncio.Task[None] | None = None
        self._hurried = asyncio.Event()

    def _connections(self) -> int:
        return len(self._server.server_state.connections)

    async def begin(self) -> None:
        self._serving = asyncio.create_task(_serving(self._server, self._listener), name="penstock-http")
        await self.until(self._server.serving)
        await self._workforce.start()

    async def until(self, event: asyncio.Event) -> None:
        """Until the event; a server that ends by itself ends the wait with its error."""
        assert self._serving is not None
        waiting = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait([self._serving, waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._serving.done():
            self._serving.result()

    async def end(self, *, wait: float = 0.0) -> None:
        """Drain, for at least `wait` seconds, then close the socket and answer what was asked."""
        self._service.draining = True
        async with asyncio.TaskGroup() as group:
            group.create_task(self._workforce.stop())
            group.create_task(_wait_for(self._hurried, wait))
        await self._service.feed.stop()
        self._server.should_exit = True
        if self._serving is not None:
            await asyncio.wait([self._serving])
            self._serving.result()

    def hurry(self) -> None:
        """Stop what still runs now."""
        self._hurried.set()
        self._workforce.hurry()
        self._server.force_exit = True


async def serve(
    service: Service,
    app: ASGIApp,
    listener: socket.socket,
    workforce: Workforce,
    *,
    on_ready: Callable[[], None],
) -> int:
    """Serve until a signal comes and everything has ended; answers the exit code."""
    grace, wait = service.settings.grace, service.settings.service.drain_wait
    running = Running(service, app, listener, workforce)

    def hurry() -> None:
        log.warning("a second signal: running steps are stopped now, and their jobs handed back")
        running.hurry()

    ending = Ending(at_most=grace + wait + LAST_WAIT + MARGIN, on_second=hurry)
    with ending.heeding():
        try:
            await running.begin()
            on_ready()
            await running.until(ending.first)
        finally:
            _tell_how(grace, wait)
            await running.end(wait=wait)
        log.info("stopped: nothing is running here any more")
    return INTERRUPTED if ending.interrupted else 0


def _tell_how(grace: float, wait: float) -> None:
    told = f", and requests are answered for {wait:g} s" if wait else ""
    log.info(
        "stopping: no job is started any more, running steps have %g s to finish%s; a second signal ends at once",
        grace,
        told,
    )


async def _serving(server: _Server, listener: socket.socket) -> None:
    try:
        await server.serve([listener])
    except SystemExit as error:
        raise NotServed("the service could not start; the lines above say why") from error


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _config(app: ASGIApp, proxies: tuple[str, ...] | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies or ()),
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=LAST_WAIT,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=LARGEST_HEAD,
    )


def _most_connections() -> int:
    """Beyond so many a request is answered 503: a process that has no file left could not even read its store."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(min(allowed - OTHER_FILES, MOST_CONNECTIONS), 50)
