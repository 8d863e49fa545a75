"""The files that pages load: their addresses carry a digest of their content, so a browser may keep them for ever."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from fastapi import FastAPI
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).parent / "static"
PLACE = "/ui/static"


@cache
def digest_of(name: str) -> str:
    return hashlib.sha256((FOLDER / name).read_bytes()).hexdigest()[:12]


def asset(name: str) -> str:
    """The address of a file of ours."""
    return f"{PLACE}/{name}?v={digest_of(name)}"


class Assets(StaticFiles):
    """An address with the right digest never changes its content; any other is asked for each time."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if response.status_code in (200, 304):
            asked = scope["query_string"].decode("latin-1")
            known = asked == f"v={digest_of(path)}" or path.startswith("fonts/")
            response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if known else "no-cache"
        return response


def mount_static(app: FastAPI) -> None:
    app.mount(PLACE, Assets(directory=FOLDER), name="dashboard-static")
