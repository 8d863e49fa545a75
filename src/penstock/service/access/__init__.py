"""Who may come in and what they may do. `install` puts all of it around an app; routes take their guards from
`guard.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI

    from penstock.service.access.state import Access
    from penstock.service.state import Service


def install(app: FastAPI, service: Service) -> Access:
    """Call once, when the app is made; in which order with other middleware does not matter."""
    from penstock.service.access.csrf import Door
    from penstock.service.access.headers import SecurityHeaders
    from penstock.service.access.login import router
    from penstock.service.access.state import Access

    access = Access(service)
    app.state.access = access
    app.include_router(router)
    build = app.build_middleware_stack
    # Around everything: an answer to an error inside of other middleware, or of Starlette's own, has the headers too.
    app.build_middleware_stack = lambda: SecurityHeaders(Door(build(), access), access)  # type: ignore[method-assign]
    return access
