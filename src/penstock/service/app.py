"""`create_app`: the service as one ASGI application."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI

from penstock import __version__
from penstock.service import access, traffic
from penstock.service.api.limits import BodyLimit
from penstock.service.api.problems import install_problems
from penstock.service.api.router import include_api
from penstock.service.dashboard.router import include_pages, mount_static
from penstock.service.metrics import metrics_router
from penstock.service.mounting import mount_sections
from penstock.service.notifier import Notifier
from penstock.service.state import Service

DESCRIPTION = """\
Jobs, batches, remote calls and what they cost: everything that Penstock's dashboard and command line do.

Lists are paged with `cursor`. Creating requests take an `Idempotency-Key`. Errors are `application/problem+json`.
"""


def create_app(service: Service) -> FastAPI:
    """The API, the dashboard, and what installed sections add to both. The `service.penstock` must be open."""
    app = FastAPI(
        title="Penstock",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        # It would lead to whatever the Host header says.
        redirect_slashes=False,
    )
    app.state.service = service
    install_problems(app)
    include_api(app)
    app.include_router(metrics_router())
    include_pages(app)
    mount_static(app)
    app.add_middleware(BodyLimit, most=service.settings.service.body_limit)
    access.install(app, service)
    mount_sections(app, service.sections)
    traffic.install(app, service)
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    notifier = Notifier(
        service.penstock, service.settings, quiet={name for each in service.sections for name in each.quiet}
    )
    await service.feed.start()
    try:
        await notifier.start()
        try:
            yield
        finally:
            await notifier.stop()
    finally:
        await service.feed.stop()
