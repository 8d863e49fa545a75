"""Hangs sections on the app. What they add is for those who may read, unless a route asks for more, and takes nothing
away from the service or from each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Match

from penstock.engine.errors import InvalidConfiguration
from penstock.service.access.guard import require
from penstock.service.sections import Section

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}\Z")
_PARAMETER = re.compile(r"{[^}]*}")


def mount_sections(app: FastAPI, sections: Iterable[Section]) -> None:
    """Call when the service's own routes are there. What cannot be served as it is written is refused by name."""
    names: set[str] = set()
    for section in sections:
        if not _NAME.match(section.name):
            raise InvalidConfiguration(f"section {section.name!r}: the name must be one part of a path, of letters")
        if section.name in names:
            raise InvalidConfiguration(f"there are two sections {section.name!r}")
        names.add(section.name)
        if _taken(app, "GET", f"/ui/{section.name}", partly=True):
            raise InvalidConfiguration(f"section {section.name!r}: the dashboard has a page of that name")
        if section.api is not None:
            _mount(app, section.name, section.api)
        if section.pages is not None:
            _mount(app, section.name, section.pages, f"/ui/{section.name}", in_schema=False)


def _mount(app: FastAPI, name: str, router: APIRouter, prefix: str = "", *, in_schema: bool = True) -> None:
    for route, path in _routes(router, prefix):
        if not isinstance(route, APIRoute):
            raise InvalidConfiguration(f"section {name!r}: {path} is no route of FastAPI, so nothing would guard it")
        for method in sorted(route.methods or ()):
            if _taken(app, method, path):
                raise InvalidConfiguration(f"section {name!r}: {method} {path} is answered by something else already")
    app.include_router(router, prefix=prefix, include_in_schema=in_schema, dependencies=[Depends(require("read"))])


def _routes(router: APIRouter, prefix: str) -> Iterator[tuple[BaseRoute, str]]:
    for route in router.routes:
        # A router that was included into this one stands among its routes.
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from _routes(inner, prefix + route.include_context.prefix)  # type: ignore[attr-defined]
        else:
            yield route, prefix + getattr(route, "path", "")


def _taken(app: FastAPI, method: str, path: str, *, partly: bool = False) -> bool:
    """Whether the app answers this already; `partly`: or another method at this path, or a path below it."""
    asked = [path, f"{path}/x"] if partly else [path]
    enough = (Match.FULL, Match.PARTIAL) if partly else (Match.FULL,)
    scopes = [
        {"type": "http", "method": method, "path": _PARAMETER.sub("x", one), "root_path": "", "headers": []}
        for one in asked
    ]
    return any(route.matches(scope)[0] in enough for route in app.routes for scope in scopes)
