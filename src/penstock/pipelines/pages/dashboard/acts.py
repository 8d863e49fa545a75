"""What the pages' buttons ask for: dead pages tried again, the trees read again."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from starlette.responses import Response

from penstock.pipelines.pages import asking
from penstock.pipelines.pages.dashboard.places import run_path
from penstock.pipelines.pages.looking import seen
from penstock.service.access.guard import Operator
from penstock.service.api.limits import Taking
from penstock.service.api.problems import Problem
from penstock.service.dashboard.acting import asked
from penstock.service.dashboard.rendering import back_to, own_path
from penstock.service.dashboard.wording import many
from penstock.service.state import Serving

router = APIRouter()

Back = Annotated[str, Form(max_length=2000)]
Name = Annotated[str, Form(max_length=1000)]


@router.post("/runs/{run_id}/retry", name="ui.pages.retry")
async def retry(
    request: Request,
    service: Serving,
    principal: Operator,
    intake: Taking,
    run_id: str,
    key: Name = "",
    state: Name = "",
    everything: Name = "",
    back: Back = "",
) -> Response:
    """One page, those of a state, or, if that is said, all."""
    found = await seen(service.penstock, principal, run_id)
    to = back or run_path(run_id, "failures")
    detail: dict[str, Any] = {"key": key} if key else {"state": state} if state else {}
    if not detail and everything != "yes":
        return back_to(request, own_path(to, "/"), ("refused", "say which pages are to be tried again"))
    try:
        await intake.admit(1)
    except Problem as full:
        return back_to(request, own_path(to, "/"), ("refused", full.detail))
    doing = asking.retry(service.penstock, found.job, detail, actor=principal.actor)
    return await asked(request, to, doing, _retried)


def _retried(count: int) -> str:
    if not count:
        return "nothing to try again: no such page is dead any more"
    return f"{many(count, 'page')} will be tried again at the run's next turn"


@router.post("/runs/{run_id}/rescan", name="ui.pages.rescan")
async def rescan(
    request: Request, service: Serving, principal: Operator, intake: Taking, run_id: str, back: Back = ""
) -> Response:
    found = await seen(service.penstock, principal, run_id)
    to = back or run_path(run_id)
    try:
        await intake.admit(1)
    except Problem as full:
        return back_to(request, own_path(to, "/"), ("refused", full.detail))
    answer = await asked(
        request,
        to,
        asking.rescan(service.penstock, found.job, {}, actor=principal.actor),
        "the folders will be read again at the run's next turn",
    )
    last = await asking.newest_run(service.penstock, found.job)
    if last.id != run_id and answer.headers["location"] == run_path(run_id):
        answer.headers["location"] = run_path(last.id)
    return answer
