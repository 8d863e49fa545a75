"""The image of a page. It is sent from the run's own image folder only, as what its first bytes say it is; a TIFF,
which browsers do not show, is sent as the PNG that Gemini gets, too."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import FileResponse, Response

from penstock.engine.errors import NotFound
from penstock.pipelines.pages.images import UnreadableImage, find_image, image_mime, readable
from penstock.pipelines.pages.looking import Seen, seen
from penstock.pipelines.pages.model import PageIdentifier
from penstock.pipelines.pages.reading import ledger_of
from penstock.service.access.guard import Reader
from penstock.service.roots import within
from penstock.service.state import Service, Serving

router = APIRouter()

SHOWN = ("image/jpeg", "image/png", "image/webp")
MOST_KEPT = 100
"""PNGs of TIFFs that were looked at."""


@router.get("/runs/{run_id}/images/{key}", name="ui.pages.image")
async def image(request: Request, service: Serving, principal: Reader, run_id: str, key: str) -> Response:
    found = await seen(service.penstock, principal, run_id)
    path = await _image(service, found, key)
    kind = await asyncio.to_thread(_kind, path)
    if kind == "image/tiff":
        path, kind = await _converted(request, path, service.settings.home / "pages" / "shown"), "image/png"
    if kind not in SHOWN:
        raise NotFound(f"{path.name} is no image that a browser shows")
    return FileResponse(path, media_type=kind, headers={"Content-Disposition": "inline"})


async def _converted(request: Request, path: Path, folder: Path) -> Path:
    """One at a time: each takes a process, and somebody may open a whole book."""
    state = request.app.state
    if not hasattr(state, "pages_converting"):
        state.pages_converting = asyncio.Lock()
    async with state.pages_converting:
        try:
            made = await readable(path, folder)
        except UnreadableImage as error:
            raise NotFound(str(error)) from error
        await asyncio.to_thread(_drop_old, folder, made)
    return made


def _drop_old(folder: Path, made: Path) -> None:
    made.touch()
    kept = sorted(folder.glob("*.png"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in kept[MOST_KEPT:]:
        old.unlink(missing_ok=True)


async def _image(service: Service, found: Seen, key: str) -> Path:
    """The file, links followed, if the ledger has the page and the file lies in the run's image folder."""
    try:
        named = PageIdentifier.parse(key)
    except ValueError as error:
        raise NotFound(str(error)) from error
    name = f"{named.state}/{named.school}/{named.year}"
    book = (await ledger_of(service.penstock.engine, found.ledger).books([name])).get(name)
    if book is None or book.numbering.place(named.page) is None:
        raise NotFound(f"there is no page {key} in this run")
    folder = found.run.paths.image_source_dir
    path = await asyncio.to_thread(find_image, folder, book.page(named.page))
    if path is None or not await asyncio.to_thread(within, path, folder):
        raise NotFound(f"page {key} has no image")
    return await asyncio.to_thread(path.resolve)


def _kind(path: Path) -> str | None:
    try:
        return image_mime(path)
    except OSError as error:
        raise NotFound(f"{path.name} cannot be read") from error
