"""`Service`: what a running service holds; every route finds it at `request.app.state.service`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from fastapi import Depends, Request

from penstock.app import Penstock
from penstock.config import Settings
from penstock.service.live import LiveFeed
from penstock.service.sections import Section


class Fleet(Protocol):
    """The worker processes that belong to this service."""

    @property
    def alive(self) -> int: ...

    @property
    def wanted(self) -> int: ...


@dataclass(slots=True)
class Service:
    """`open_access`: it can be reached from this machine only, so nobody needs a token."""

    penstock: Penstock
    settings: Settings
    feed: LiveFeed
    sections: tuple[Section, ...] = ()
    open_access: bool = False
    draining: bool = False
    fleet: Fleet | None = None


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _serving(request: Request) -> Service:
    # Async, though it waits for nothing: what is not, FastAPI sends through a thread for every request.
    return service_of(request)


Serving = Annotated[Service, Depends(_serving)]
