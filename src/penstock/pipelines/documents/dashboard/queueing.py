"""The review queue: what is most urgent now, who has it, and what can be done to many at once."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from starlette.responses import Response

from penstock.pipelines.documents import reading, sharing
from penstock.pipelines.documents.dashboard.figures import LEAST, SOON, figures
from penstock.pipelines.documents.dashboard.listing import SURE
from penstock.pipelines.documents.dashboard.places import DECIDED, REVIEW, called, document_path, item_path
from penstock.pipelines.documents.dashboard.showing import grouped, tone
from penstock.pipelines.documents.rules import OPEN, STATUSES
from penstock.service.access.guard import Operator, Reader, Reviewer
from penstock.service.dashboard.acting import asked
from penstock.service.dashboard.rendering import link, render
from penstock.service.dashboard.survey import kept
from penstock.service.dashboard.wording import many
from penstock.service.state import Serving

router = APIRouter()

PAGE = 50
FURTHEST = 100_000
SORTS = {"priority": "most urgent", "deadline": "next deadline", "oldest": "oldest", "newest": "newest"}
USUAL = 95
"""Percent from which a batch approval approves, unless told otherwise."""

KEPT = 2.0
AGAIN = 15.0
"""Seconds after which the page looks again: priorities rise and claims change without any job changing."""

Offset = Annotated[int, Query(ge=0, le=FURTHEST)]
Text = Annotated[str, Form(max_length=2000)]


async def queue_page(
    request: Request,
    service: Serving,
    principal: Reader,
    status: str = "",
    who: str = "",
    sort: str = "",
    offset: Offset = 0,
) -> Response:
    engine, told = service.penstock.engine, service.settings.documents
    wanted = (status,) if status in STATUSES else OPEN
    order = sort if sort in SORTS else "priority"
    rows = await reading.queue(
        engine,
        tenant=principal.tenant,
        status=wanted,
        assigned_to=who or None,
        sort=order,
        limit=PAGE + 1,
        offset=offset,
    )
    sums = await kept(
        request,
        ("review", principal.tenant or ""),
        lambda: figures(engine, tenant=principal.tenant, reviewers=told.reviewers),
        seconds=KEPT,
    )
    filters = {"status": status if status in STATUSES else "", "who": who, "sort": "" if order == "priority" else order}
    return render(
        request,
        "documents/queue.html",
        principal=principal,
        rows=rows[:PAGE],
        depths=await reading.depths(engine, tenant=principal.tenant),
        sums=sums,
        filters=filters,
        sorts=SORTS,
        statuses=STATUSES,
        decided=DECIDED,
        reviewers=told.reviewers,
        least=LEAST,
        usual=USUAL,
        soon=SOON,
        sure=SURE,
        tone=tone,
        grouped=grouped,
        called=called,
        item_path=item_path,
        document_path=document_path,
        again=AGAIN,
        next_page=link(REVIEW, **filters, offset=offset + PAGE) if len(rows) > PAGE else "",
        first_page=link(REVIEW, **filters) if offset else "",
        feed="/ui/live",
    )


@router.post("/auto-assign", name="ui.review.auto_assign")
async def auto_assign(
    request: Request, service: Serving, principal: Operator, reviewers: Text = "", back: Text = ""
) -> Response:
    names = [name for name in reviewers.split(",") if name.strip()] or list(service.settings.documents.reviewers)
    doing = sharing.auto_assign(service.penstock.engine, names, actor=principal.actor, tenant=principal.tenant)
    return await asked(request, back or REVIEW, doing, _assigned)


def _assigned(given: dict[str, str]) -> str:
    if not given:
        return "nothing to assign: no review is nobody's"
    return f"{many(len(given), 'review')} assigned to {', '.join(sorted(set(given.values())))}"


@router.post("/batch-approve", name="ui.review.batch_approve")
async def batch_approve(
    request: Request,
    service: Serving,
    principal: Reviewer,
    percent: Annotated[float, Form(ge=LEAST, le=100, allow_inf_nan=False)],
    back: Text = "",
) -> Response:
    doing = sharing.batch_approve(
        service.penstock.engine, actor=principal.actor, min_confidence=percent / 100, tenant=principal.tenant
    )
    return await asked(request, back or REVIEW, doing, _approved)


def _approved(ids: list[str]) -> str:
    return f"{many(len(ids), 'review')} approved" if ids else "nothing is sure enough to approve"
