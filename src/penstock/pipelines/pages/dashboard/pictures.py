"""The image of a page. It is sent from the run's own image folder only, as what its first bytes say it is; a TIFF,
which browsers do not show, is sent as the PNG that Gemini gets, too."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse, Response

from penstock.engine.errors import NotFound
from penstock.pipelines.pages.images import UnreadableImage, find_image, image_mime, readable
from penstock.pipelines.pages.looking import Seen, seen
from penstock.pipelines.pages.model import PageIdentifier
from penstock.pipelines.pages.reading import ledger_of
from penstock.pipelines.pages.roots import within
from penstock.service.access.guard import Reader
from penstock.service.state import Service, Serving

router = APIRouter()

SHOWN = ("image/jpeg", "image/png", "image/webp")


@router.get("/runs/{run_id}/images/{key}", name="ui.pages.image")
async def image(service: Serving, principal: Reader, run_id: str, key: str) -> Response:
    found = await seen(service.penstock, principal, run_id)
    path = await _image(service, found, key)
    kind = await asyncio.to_thread(_kind, path)
    if kind == "image/tiff":
        try:
            path = await readable(path, service.settings.home / "pages" / "shown")
        except UnreadableImage as error:
            raise NotFound(str(error)) from error
        kind = "image/png"
    if kind not in SHOWN:
        raise NotFound(f"{path.name} is no image that a browser shows")
    return FileResponse(path, media_type=kind, headers={"Content-Disposition": "inline"})


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
