"""One page, whole: its image beside what was read from it, the context it got, and every attempt that failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.pipelines.pages import reading
from penstock.pipelines.pages.answers import settings_of
from penstock.pipelines.pages.dashboard.failures import MEANINGS
from penstock.pipelines.pages.dashboard.grid import BY_NAME
from penstock.pipelines.pages.dashboard.places import about
from penstock.pipelines.pages.looking import page_seen, seen
from penstock.service.access.guard import Reader
from penstock.service.dashboard.rendering import render
from penstock.service.state import Serving

router = APIRouter()

MOST_BLOCKS = 500
COURSE = ("number", "department", "level", "term", "hours")


@dataclass(slots=True, frozen=True)
class Block:
    kind: str
    text: str


@router.get("/runs/{run_id}/pages/{key}", name="ui.pages.page")
async def page_page(request: Request, service: Serving, principal: Reader, run_id: str, key: str) -> Response:
    engine = service.penstock.engine
    found = await seen(service.penstock, principal, run_id)
    page = await page_seen(engine, found, key)
    batch = None
    if page.batch is not None:
        around = await reading.batches(engine, found.ledger, before=page.batch + 1, limit=1)
        batch = next((one for one in around if one.number == page.batch), None)
    return render(
        request,
        "pages/page.html",
        **await about(service.penstock, principal, found),
        tab="books",
        page=page,
        kind=BY_NAME[page.state],
        batch=batch,
        blocks=blocks(page.output),
        courses=courses(page.output),
        headings=COURSE,
        attempts=[(attempt, settings_of(attempt)) for attempt in page.attempts],
        meanings=MEANINGS,
    )


def blocks(output: Any) -> list[Block]:
    """The text of an output, which may be of a user's own schema: what is not there is not shown."""
    if not isinstance(output, Mapping):
        return []
    told = output.get("text_blocks")
    if not isinstance(told, list):
        text = output.get("text")
        return [Block("", text)] if isinstance(text, str) and text.strip() else []
    found = []
    for block in told[:MOST_BLOCKS]:
        kind, text = (block.get("kind"), block.get("text")) if isinstance(block, Mapping) else ("", block)
        if isinstance(text, str):
            found.append(Block(kind if isinstance(kind, str) else "", text))
    return found


def courses(output: Any) -> list[dict[str, str]]:
    told = output.get("courses") if isinstance(output, Mapping) else None
    return [
        {name: str(course.get(name) or "") for name in ("name", *COURSE)}
        for course in (told if isinstance(told, list) else [])[:MOST_BLOCKS]
        if isinstance(course, Mapping)
    ]
