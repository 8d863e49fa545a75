"""One book: its pages as links, chain by chain. A long one is shown piece by piece."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from penstock.engine.errors import NotFound
from penstock.pipelines.pages import reading
from penstock.pipelines.pages.dashboard.grid import BY_NAME, KINDS, Kind, key_of, strips
from penstock.pipelines.pages.dashboard.places import Number, about, book_path
from penstock.pipelines.pages.looking import seen
from penstock.pipelines.pages.reading import BookRow
from penstock.service.access.guard import Reader
from penstock.service.dashboard.rendering import link, render
from penstock.service.state import Serving

router = APIRouter()

PAGE = 500
"""Pages shown at a time."""

Chain = list[tuple[str, Kind]]


@router.get("/runs/{run_id}/books/{state}/{school}/{year}", name="ui.pages.book")
async def book_page(
    request: Request,
    service: Serving,
    principal: Reader,
    run_id: str,
    state: str,
    school: str,
    year: Annotated[int, Path(ge=0, le=2**31 - 1)],
    start: Number = 0,
) -> Response:
    found = await seen(service.penstock, principal, run_id)
    rows = await reading.books(service.penstock.engine, found.ledger, state=state, school=school, year=year, limit=1)
    if not rows:
        raise NotFound(f"there is no book {state}/{school}/{year} in this run")
    book = rows[0]
    place = book_path(run_id, state, school, year)
    chains, following = pieces(book, start)
    return render(
        request,
        "pages/book.html",
        **await about(service.penstock, principal, found),
        tab="books",
        book=book,
        strip=strips([book])[0],
        key=key_of(book),
        chains=chains,
        kinds=list(KINDS.values()),
        following=link(place, start=following) if following is not None else "",
        first=place if start else "",
    )


def pieces(book: BookRow, start: int) -> tuple[list[Chain], int | None]:
    """Chains of (name, kind) from the page number `start` on, and with which number the next piece begins."""
    chains: list[Chain] = [[]]
    shown = 0
    for cell in book.cells():
        if cell is None:
            chains.append([])
        elif cell[0] >= start:
            if shown == PAGE:
                return [chain for chain in chains if chain], cell[0]
            chains[-1].append((cell[1], BY_NAME[cell[2]]))
            shown += 1
    return [chain for chain in chains if chain], None
