"""The search field: an id leads to its job, batch or call, anything else to the jobs with that key."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from penstock.engine.identity import storable
from penstock.service.access.guard import Reader
from penstock.service.dashboard.rendering import link
from penstock.service.state import Serving

router = APIRouter()


@router.get("/ui/find", name="ui.find")
async def find(request: Request, service: Serving, principal: Reader, q: str = "") -> Response:
    text = q.strip()[:500]
    if not text or not storable(text):
        return RedirectResponse("/ui/jobs", 303)
    store = service.penstock.engine.store
    places = (("/ui/jobs/", store.job), ("/ui/batches/", store.batch), ("/ui/calls/", store.call))
    for path, read in places:
        found = await read(text)
        if found is not None and principal.sees(found.tenant):
            return RedirectResponse(f"{path}{text}", 303)
    return RedirectResponse(link("/ui/jobs", key=text), 303)
