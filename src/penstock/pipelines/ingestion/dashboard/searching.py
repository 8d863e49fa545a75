"""The search box: what a knowledge base answers to a question, and where each hit comes from. It works without a
script; nothing here is live, so that nothing moves while somebody reads."""

from __future__ import annotations

import asyncio
from typing import Annotated, get_args

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from penstock.engine.errors import InvalidRequest, NotFound, StepError
from penstock.pipelines.ingestion.api_bases import SEARCH_SECONDS
from penstock.pipelines.ingestion.dashboard.marking import Shown, shown
from penstock.pipelines.ingestion.dashboard.seeing import about, seen
from penstock.pipelines.ingestion.searching import LONGEST_QUESTION, Mode, search
from penstock.service.access.guard import Reader
from penstock.service.dashboard.rendering import render
from penstock.service.state import Serving

router = APIRouter()

MODES: dict[Mode, str] = {"hybrid": "both", "vector": "meaning", "text": "words"}
TOPS = (10, 25, 50)


@router.get("/bases/{name}/search", name="ui.knowledge.search")
async def search_page(
    request: Request,
    service: Serving,
    principal: Reader,
    name: str,
    tenant: str = "",
    q: Annotated[str, Query(max_length=LONGEST_QUESTION)] = "",
    mode: str = "",
    top: int = 10,
) -> Response:
    app = service.penstock
    it = await seen(app, principal, name, tenant)
    chosen: Mode = next((each for each in get_args(Mode) if each == mode), "hybrid")
    many = top if top in TOPS else TOPS[0]
    question, hits, problem, began = q.strip(), list[Shown](), "", app.engine.clock.monotonic()
    if question:
        try:
            async with asyncio.timeout(SEARCH_SECONDS):
                found = await search(app.engine, it.base.id, question, tenant=it.base.tenant, top=many, mode=chosen)
            hits = shown(found, question)
        except NotFound:
            raise
        except TimeoutError:
            problem = f"Searching took more than {SEARCH_SECONDS:g} s."
        except (InvalidRequest, StepError) as error:
            # The embedder does not answer, or refuses the question.
            problem = str(error)
    return render(
        request,
        "knowledge/search.html",
        **(about(principal, it) | {"feed": "", "again": None}),
        tab="search",
        question=question,
        mode=chosen,
        modes=MODES,
        top=many,
        tops=TOPS,
        hits=hits,
        problem=problem,
        took=app.engine.clock.monotonic() - began,
    )
