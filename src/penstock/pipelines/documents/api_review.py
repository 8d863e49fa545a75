"""`/api/queue` and `/api/stats`: what waits for a person, and what people decide. Who asks is the reviewer; to act for
somebody else needs the scope operate, too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response

from penstock.engine.audit import Actor
from penstock.engine.errors import Conflict
from penstock.pipelines.documents import api_models as models
from penstock.pipelines.documents import counting, queue, reading, sharing
from penstock.pipelines.documents.answers import audit_line, document_detail, queue_line, stats_detail
from penstock.pipelines.documents.counting import Stats
from penstock.pipelines.documents.rules import OPEN
from penstock.service.access.guard import Operator, Reader, Reviewer
from penstock.service.access.principal import Principal
from penstock.service.api import shapes
from penstock.service.api.bodies import JsonRoute, answer
from penstock.service.api.document import problems
from penstock.service.api.paging import DEFAULT_LIMIT, Limit
from penstock.service.api.problems import Problem, conflict, forbidden
from penstock.service.api.tenancy import seen_by
from penstock.service.census import OLDEST, Census, Reading
from penstock.service.state import Service, Serving, service_of

router = APIRouter(route_class=JsonRoute, tags=["review"])


@router.get(
    "/queue",
    operation_id="listQueue",
    summary="List the review queue",
    response_model=models.QueuePage,
    responses=problems(path="/api/queue"),
)
async def list_queue(
    principal: Reader,
    service: Serving,
    tenant: shapes.OfTenant = None,
    status: models.InQueue = [],  # noqa: B006
    assigned_to: models.OfReviewer = None,
    priority_min: models.PriorityMin = 0.0,
    sort: models.Sort = "priority",
    limit: Limit = DEFAULT_LIMIT,
    offset: models.Offset = 0,
) -> Response:
    """By what priorities are now, the most urgent first, unless `sort` says otherwise."""
    engine, seen, wanted = service.penstock.engine, seen_by(principal, tenant), tuple(status) or OPEN
    items = await reading.queue(
        engine,
        tenant=seen,
        status=wanted,
        assigned_to=assigned_to,
        priority_min=priority_min,
        sort=sort,
        limit=limit,
        offset=offset,
    )
    total = offset + len(items)
    if len(items) == limit or (offset and not items):
        total = await counting.queue_total(
            engine, tenant=seen, status=wanted, assigned_to=assigned_to, priority_min=priority_min
        )
    return answer({"items": [queue_line(each) for each in items], "total": total, "limit": limit, "offset": offset})


@router.post(
    "/queue/auto-assign",
    operation_id="autoAssign",
    summary="Give items to reviewers",
    response_model=models.Assigned,
    responses=problems(413, 415, path="/api/queue/auto-assign"),
)
async def auto_assign(
    principal: Operator, service: Serving, body: models.AssignBody | None = None, tenant: shapes.OfTenant = None
) -> Response:
    """The most urgent items that are nobody's go to the reviewers with the least to do, in turn. An item that is
    assigned waits for its reviewer to claim it."""
    asked = body or models.AssignBody()
    given = await sharing.auto_assign(
        service.penstock.engine,
        asked.reviewers or service.settings.documents.reviewers,
        actor=principal.actor,
        tenant=seen_by(principal, tenant),
        limit=asked.limit,
    )
    return answer({"assigned": [{"review_item_id": item, "reviewer": who} for item, who in given.items()]})


@router.post(
    "/queue/batch-approve",
    operation_id="batchApprove",
    summary="Approve what is sure",
    response_model=models.Approved,
    responses=problems(413, 415, path="/api/queue/batch-approve"),
)
async def batch_approve(
    body: models.ApproveBody, principal: Reviewer, service: Serving, tenant: shapes.OfTenant = None
) -> Response:
    """Approves pending items that are at least so sure, have all required fields, and nothing that speaks against
    them."""
    approved = await sharing.batch_approve(
        service.penstock.engine,
        actor=_acting(principal, body.reviewer),
        min_confidence=body.min_confidence,
        tenant=seen_by(principal, tenant),
        limit=body.limit,
    )
    return answer({"approved": approved})


@router.get(
    "/queue/{item_id}",
    operation_id="getQueueItem",
    summary="Show a review",
    response_model=models.ItemShown,
    responses=problems(404, path=models.ITEM),
)
async def get_item(item_id: models.ItemId, principal: Reader, service: Serving) -> Response:
    """The item and its document: fields with confidence, evidence and checks, locks, differences, duplicates. Looking
    renews no claim: `claim` does."""
    engine = service.penstock.engine
    item = await reading.queue_item(engine, item_id, tenant=principal.tenant)
    found = await reading.document(engine, item.document)
    return answer({"item": queue_line(item), **document_detail(found)})


@router.post(
    "/queue/{item_id}/claim",
    operation_id="claimItem",
    summary="Claim an item, or keep it for longer",
    response_model=models.ItemLine,
    responses=problems(404, 409, 413, 415, path=f"{models.ITEM}/claim"),
)
async def claim(
    item_id: models.ItemId, principal: Reviewer, service: Serving, body: models.ClaimBody | None = None
) -> Response:
    """It is yours for `documents.claim`; claimed again, from then on. 409 where it is somebody else's, or decided:
    `reopen` takes a decided one, to decide anew."""
    asked = body or models.ClaimBody()
    engine = service.penstock.engine
    try:
        await queue.claim(
            engine,
            item_id,
            actor=_acting(principal, asked.reviewer),
            tenant=principal.tenant,
            holds=service.settings.documents.claim,
            reopen=asked.reopen,
        )
    except Conflict as error:
        raise await _in_the_way(service, item_id, error) from error
    return await _item(service, item_id)


@router.put(
    "/queue/{item_id}/submit",
    operation_id="submitReview",
    summary="Decide about an item",
    response_model=models.ItemLine,
    responses=problems(404, 409, 413, 415, path=f"{models.ITEM}/submit"),
)
async def submit(item_id: models.ItemId, body: models.DecisionBody, principal: Reviewer, service: Serving) -> Response:
    """Of an item that you have claimed: `approve`, `correct` with `corrections`, or `reject` with a `reason`. What is
    corrected is locked for this content, and the files are written anew. 409 where the item is not yours any more."""
    try:
        await queue.submit(
            service.penstock.engine,
            item_id,
            body.action,
            actor=_acting(principal, body.reviewer),
            tenant=principal.tenant,
            corrections=body.corrections,
            reason=body.reason,
        )
    except Conflict as error:
        raise await _in_the_way(service, item_id, error) from error
    return await _item(service, item_id)


@router.post(
    "/queue/{item_id}/release",
    operation_id="releaseItem",
    summary="Give an item back",
    response_model=models.ItemLine,
    responses=problems(404, 409, 415, path=f"{models.ITEM}/release"),
)
async def release(item_id: models.ItemId, principal: Reviewer, service: Serving) -> Response:
    """One's own; that of somebody who is away needs the scope operate, too."""
    engine = service.penstock.engine
    found = await queue.item(engine, item_id, tenant=principal.tenant)
    if found.assigned_to not in (None, principal.name) and not principal.may("operate"):
        raise forbidden(f"review item {item_id} is {found.assigned_to}'s: to release it needs the scope operate")
    try:
        await queue.release(engine, item_id, actor=principal.actor, tenant=principal.tenant)
    except Conflict as error:
        raise await _in_the_way(service, item_id, error) from error
    return await _item(service, item_id)


@router.get(
    "/queue/{item_id}/audit",
    operation_id="getReviewAudit",
    summary="Show what was done about an item",
    response_model=models.Audit,
    responses=problems(404, path=f"{models.ITEM}/audit"),
)
async def get_audit(item_id: models.ItemId, principal: Reader, service: Serving) -> Response:
    """Oldest first: extracted, claimed, corrected, unlocked, decided, and claims that lapsed."""
    engine = service.penstock.engine
    await queue.item(engine, item_id, tenant=principal.tenant)
    return answer({"items": [audit_line(line) for line in await reading.audit(engine, item=item_id)]})


@router.post(
    "/documents/{document_id}/fields/{field}/unlock",
    operation_id="unlockField",
    summary="Unlock a field",
    response_model=models.DocumentShown,
    responses=problems(404, 409, 415, path=f"{models.DOCUMENT}/fields/total/unlock"),
)
async def unlock(
    document_id: models.DocumentId, field: models.OfField, principal: Reviewer, service: Serving
) -> Response:
    """It is what was extracted again, for every document of this content. 409 where it is not locked."""
    engine = service.penstock.engine
    try:
        await queue.unlock(engine, document_id, field, actor=principal.actor, tenant=principal.tenant)
    except Conflict as error:
        raise conflict(error, id=document_id, state=None) from error
    return answer(document_detail(await reading.document(engine, document_id)))


@router.get(
    "/stats",
    operation_id="getDocumentStats",
    summary="Show where documents and reviews stand",
    response_model=models.Stats,
    responses=problems(path="/api/stats"),
)
async def get_stats(request: Request, principal: Reader, tenant: shapes.OfTenant = None) -> Response:
    """Documents and items by status, how urgent and how late the queue is, who reviews, and how fast it goes: as of a
    second ago, or up to 15 where counting takes long."""
    return answer(stats_detail(await stats_of(request, seen_by(principal, tenant))))


async def stats_of(request: Request, tenant: str | None) -> Stats:
    """Whoever asks for them shares what was counted."""
    state = request.app.state
    if not hasattr(state, "document_stats"):
        state.document_stats = {}
    known: dict[str | None, Reading[Stats]] = state.document_stats
    if tenant not in known:
        if len(known) >= Census.MOST_TENANTS:
            known.pop(next(iter(known)))
        engine = service_of(request).penstock.engine
        known[tenant] = Reading(lambda: counting.stats(engine, tenant=tenant), oldest=OLDEST)
    return await known[tenant].get()


def _acting(principal: Principal, reviewer: str | None) -> Actor:
    """Who a decision is of. That somebody else made it is kept in the audit log."""
    if reviewer in (None, principal.name):
        return principal.actor
    if not principal.may("operate"):
        raise forbidden(f"{principal.name} reviews for nobody else: that needs the scope operate")
    assert reviewer is not None
    return replace(principal.actor, name=reviewer, via=f"{principal.via} of {principal.name}")


async def _item(service: Service, item_id: str) -> Response:
    return answer(queue_line(await reading.queue_item(service.penstock.engine, item_id)))


async def _in_the_way(service: Service, item_id: str, error: Conflict) -> Problem:
    found: Any = await queue.item(service.penstock.engine, item_id)
    return conflict(error, id=item_id, state=found.status)
