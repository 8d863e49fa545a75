"""One review: the page with the place of each value, and the fields, least sure first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from penstock.pipelines.documents import reading
from penstock.pipelines.documents.dashboard.figures import SOON
from penstock.pipelines.documents.dashboard.listing import SURE
from penstock.pipelines.documents.dashboard.places import (
    DECIDED,
    TITLES,
    called,
    document_path,
    item_path,
    preview_path,
)
from penstock.pipelines.documents.dashboard.same import same_content
from penstock.pipelines.documents.dashboard.showing import COLUMNS, fields, least_sure_first, text_of, tone
from penstock.pipelines.documents.rules import OPEN
from penstock.service.access.guard import Reader
from penstock.service.access.principal import Principal
from penstock.service.dashboard.rendering import render
from penstock.service.state import Service, Serving

router = APIRouter()

AGAIN = 15.0
"""Seconds after which the page looks whether somebody else has claimed or decided it."""

Page = Annotated[int, Query(ge=0, le=1000)]


@router.get("/{item_id}", name="ui.review.item")
async def review_page(request: Request, service: Serving, principal: Reader, item_id: str, page: Page = 0) -> Response:
    return await show(request, service, principal, item_id, page=page)


async def show(
    request: Request,
    service: Service,
    principal: Principal,
    item_id: str,
    *,
    page: int = 0,
    problem: str = "",
    typed: Mapping[str, Any] | None = None,
    reason: str = "",
    status_code: int = 200,
) -> Response:
    """With what somebody typed and why it was not taken, where that is so: nothing is lost."""
    engine = service.penstock.engine
    item = await reading.queue_item(engine, item_id, tenant=principal.tenant)
    detail = await reading.document(engine, item.document, tenant=principal.tenant)
    shown = least_sure_first(fields(detail, typed=typed, problem=problem))
    places = [one.evidence.page for one in shown if one.evidence is not None and one.box is not None]
    wanted = page or (places[0] if places else 1)
    mine = item.status == "in_review" and item.assigned_to == principal.name
    free = item.status == "pending" and item.assigned_to in (None, principal.name)
    return render(
        request,
        "documents/review.html",
        status_code=status_code,
        principal=principal,
        item=item,
        open=item.status in OPEN,
        mine=mine,
        free=free,
        may=principal.may("review"),
        detail=detail,
        same=await same_content(engine, detail.document),
        document=detail.document,
        result=detail.result,
        title=called(item),
        fields=shown,
        columns=COLUMNS,
        titles=TITLES,
        page=min(wanted, detail.document.pages or 1),
        audit=list(reversed(await reading.audit(engine, item=item_id))),
        decided=DECIDED,
        sure=SURE,
        soon=SOON,
        tone=tone,
        text_of=text_of,
        again=AGAIN,
        holds=service.settings.documents.claim,
        preview=preview_path(item.document),
        document_path=document_path,
        item_path=item_path,
        problem=problem,
        reason=reason,
    )
