"""What the review's buttons do without a script: claim, release, decide, and go on to the most urgent item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from pydantic_core import from_json
from starlette.responses import JSONResponse, Response

from penstock.engine.engine import Engine
from penstock.engine.errors import Conflict, InvalidRequest, NotFound
from penstock.pipelines.documents import queue, reading
from penstock.pipelines.documents.dashboard.places import REVIEW, called, item_path
from penstock.pipelines.documents.dashboard.reviewing import show
from penstock.pipelines.documents.dashboard.showing import COLUMNS, blamed, fields
from penstock.pipelines.documents.fields import REQUIRED
from penstock.pipelines.documents.model import FIELDS, InvoiceData
from penstock.pipelines.documents.reading import QueueItem
from penstock.pipelines.documents.rules import DECIDES, corrected
from penstock.service.access.guard import Reviewer
from penstock.service.access.principal import Principal
from penstock.service.dashboard.acting import asked
from penstock.service.dashboard.rendering import Tone, back_to
from penstock.service.state import Service, Serving

router = APIRouter()

LOOKED_AT = 100
DEEPEST = 500
"""How far down the queue somebody's next item is looked for: those before it are assigned to others."""

Text = Annotated[str, Form(max_length=2000)]
Value = Annotated[str, Form(max_length=1_000_000)]


@router.post("/next", name="ui.review.next")
async def next_item(
    request: Request, service: Serving, principal: Reviewer, done: Text = "", skip: Text = ""
) -> Response:
    """Claim the most urgent item that is one's own or nobody's, and go to it. `done` is the one just decided, to be
    told of; `skip` the one that is to be left. Who comes from neither goes on with what they have claimed already, so
    that asking twice claims nothing more."""
    engine, said = service.penstock.engine, list[tuple[Tone, str]]()
    if done:
        before = await reading.queue_item(engine, done, tenant=principal.tenant)
        said.append(("done", f"{called(before)}: {before.status}"))
    found = await _next(service, principal, {done, skip})
    if found is None:
        return back_to(request, REVIEW, *said, ("done", "nothing else waits for you"))
    return back_to(request, item_path(found), *said)


async def _next(service: Service, principal: Principal, without: set[str]) -> str | None:
    engine, mine = service.penstock.engine, principal.name
    if not any(without):
        begun = await reading.queue(
            engine, tenant=principal.tenant, status=("in_review",), assigned_to=mine, limit=LOOKED_AT
        )
        for row in begun:
            if await _claimed(engine, row, principal, service.settings.documents.claim):
                return row.id
    for offset in range(0, DEEPEST, LOOKED_AT):
        rows = await reading.queue(engine, tenant=principal.tenant, status=("pending",), limit=LOOKED_AT, offset=offset)
        for row in rows:
            if row.id in without or row.assigned_to not in (None, mine):
                continue
            if await _claimed(engine, row, principal, service.settings.documents.claim):
                return row.id
        if len(rows) < LOOKED_AT:
            break
    return None


async def _claimed(engine: Engine, row: QueueItem, principal: Principal, holds: float) -> bool:
    try:
        await queue.claim(engine, row.id, actor=principal.actor, tenant=principal.tenant, holds=holds)
    except (Conflict, NotFound):
        # Somebody else was quicker.
        return False
    return True


@router.post("/check", name="ui.review.check")
async def check(principal: Reviewer, field: Text = "", value: Value = "") -> Response:
    """Whether a field could have this value, in the words in which the decision would be refused. Of lines, `value` is
    their JSON."""
    told: Any = value
    if field == "line_items":
        try:
            told = from_json(value)
        except ValueError as error:
            raise InvalidRequest(f"the lines are no JSON: {error}") from error
    return JSONResponse({"problem": wrong_with(field, told)})


@router.post("/{item_id}/claim", name="ui.review.claim")
async def claim(
    request: Request, service: Serving, principal: Reviewer, item_id: str, reopen: Text = "", back: Text = ""
) -> Response:
    doing = queue.claim(
        service.penstock.engine,
        item_id,
        actor=principal.actor,
        tenant=principal.tenant,
        holds=service.settings.documents.claim,
        reopen=reopen == "yes",
    )
    return await asked(request, back or item_path(item_id), doing, "it is yours")


@router.post("/{item_id}/release", name="ui.review.release")
async def release(request: Request, service: Serving, principal: Reviewer, item_id: str, back: Text = "") -> Response:
    found = await queue.item(service.penstock.engine, item_id, tenant=principal.tenant)
    if found.assigned_to not in (None, principal.name) and not principal.may("operate"):
        words = f"it is {found.assigned_to}'s: to release it needs the scope operate"
        return back_to(request, item_path(item_id), ("refused", words))
    doing = queue.release(service.penstock.engine, item_id, actor=principal.actor, tenant=principal.tenant)
    return await asked(request, back or REVIEW, doing, "it is back in the queue")


@router.post("/{item_id}/decide", name="ui.review.decide")
async def decide(
    request: Request,
    service: Serving,
    principal: Reviewer,
    item_id: str,
    action: Text = "",
    reason: Text = "",
) -> Response:
    """The form as a whole; what differs from what counts now is the correction."""
    engine = service.penstock.engine
    item = await reading.queue_item(engine, item_id, tenant=principal.tenant)
    form = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
    detail = await reading.document(engine, item.document, tenant=principal.tenant)
    typed = changes(form, {one.name: one.value for one in fields(detail)}, _lines(detail))
    try:
        if action not in DECIDES:
            raise InvalidRequest(f"unknown action {action!r}: use {', '.join(DECIDES)}")
        if typed and action == "approve":
            raise InvalidRequest("values were changed: submit them as corrections, or take them back")
        await queue.claim(
            engine, item_id, actor=principal.actor, tenant=principal.tenant, holds=service.settings.documents.claim
        )
        await queue.submit(
            engine,
            item_id,
            action,
            actor=principal.actor,
            tenant=principal.tenant,
            corrections=typed if action == "correct" else None,
            reason=reason,
        )
    except InvalidRequest as error:
        code = 409 if isinstance(error, Conflict) else 422
        return await show(
            request, service, principal, item_id, problem=str(error), typed=typed, reason=reason, status_code=code
        )
    return await next_item(request, service, principal, done=item_id)


def wrong_with(field: str, value: Any) -> str:
    """Why a field cannot have this value, or nothing."""
    if field not in FIELDS:
        raise InvalidRequest(f"there is no field {field[:80]!r}: the fields are {', '.join(FIELDS)}")
    try:
        corrected(InvoiceData(), {field: value})
    except InvalidRequest as error:
        names, words = blamed(str(error))
        # Else it is what an invoice without anything has: no value.
        return words if names else "required, and without a value" if field in REQUIRED else ""
    return ""


def _lines(detail: reading.DocumentDetail) -> tuple[tuple[str, ...], ...]:
    return next((one.lines for one in fields(detail) if one.name == "line_items"), ())


def changes(form: Mapping[str, str], values: Mapping[str, str], lines: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    """The fields of the form that are not what they were. Lines are one field: all of them, or none; a line without
    anything in it is no line."""
    typed: dict[str, Any] = {
        name: form[f"field.{name}"].strip()
        for name, value in values.items()
        if f"field.{name}" in form and form[f"field.{name}"].strip() != value
    }
    if "lines" in form:
        count = min(int(form["lines"]), 2000) if form["lines"].isdecimal() else 0
        rows = [tuple(form.get(f"line.{n}.{name}", "").strip() for name in COLUMNS) for n in range(count)]
        told = [row for row in rows if any(row)]
        if told != [line for line in lines if any(line)]:
            typed["line_items"] = [dict(zip(COLUMNS, row, strict=True)) for row in told]
    return typed
