"""What the buttons ask for. What cannot be taken back asks first: in a dialog where there is a script, on a page where
there is none."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from starlette.responses import Response

from penstock.engine.errors import Conflict, NotFound
from penstock.engine.model import Job
from penstock.pipelines.ingestion import control
from penstock.pipelines.ingestion.dashboard.places import HOME, Paths
from penstock.pipelines.ingestion.dashboard.seeing import CANCELING, DELETING, Seen, seen
from penstock.pipelines.ingestion.index import index_for
from penstock.pipelines.ingestion.verifying import FAULTS, START, Verified, verify_from
from penstock.service.access.guard import Operator
from penstock.service.access.principal import Principal
from penstock.service.api.limits import Taking
from penstock.service.api.problems import Problem
from penstock.service.dashboard.acting import asked, is_done
from penstock.service.dashboard.rendering import Tone, back_to, is_partial, own_path, render
from penstock.service.dashboard.wording import many
from penstock.service.state import Service, Serving

router = APIRouter()

STARTS = ("refresh", "retry-errors", "repair")
"""What makes a new job, so that a full queue refuses it."""

ASKS = {"cancel": ("Cancel this run?", CANCELING, "Cancel the run"),
        "delete": ("Delete this knowledge base?", DELETING, "Delete it")}  # fmt: skip

DONE = {
    "pause": ("is paused", "pauses before the next group of chunks"),
    "resume": ("goes on", "goes on"),
    "cancel": ("is canceled", "stops, and takes out what it wrote"),
}
"""What became of it, at once or a little later."""

PATIENCE = 15.0
"""Seconds of comparing: browsers, and proxies before us, wait no longer than half a minute."""

Text = Annotated[str, Form(max_length=2000)]


@router.post("/bases/{name}/{action}", name="ui.knowledge.act")
async def act(
    request: Request,
    service: Serving,
    principal: Operator,
    intake: Taking,
    name: str,
    action: str,
    tenant: str = "",
    back: Text = "",
    confirmed: Annotated[str, Form(max_length=5)] = "",
) -> Response:
    it = await seen(service.penstock, principal, name, tenant)
    path = Paths(it.base.id, it.base.tenant, principal)
    to = own_path(back, path())
    if action in ASKS and not confirmed:
        title, words, does = ASKS[action]
        return render(
            request, "knowledge/confirm.html", principal=principal, base=it.base, title=title, words=words, does=does,
            action=path(action), back=to,
        )  # fmt: skip
    if action == "verify":
        return back_to(request, to, await _verified(service, it))
    if action in STARTS:
        try:
            await intake.admit(1)
        except Problem as full:
            return back_to(request, to, ("refused", full.detail))
    if action == "delete":
        return await _deleted(request, service, principal, it, to)
    doing, said = _doing(service, principal, it, action)
    return await asked(request, to, doing, said)


async def _deleted(request: Request, service: Service, principal: Principal, it: Seen, to: str) -> Response:
    base = it.base
    try:
        await control.forget(service.penstock, base.id, tenant=base.tenant, actor=principal.actor)
    except Conflict as error:
        return back_to(request, to, ("refused", str(error)))
    answer = back_to(request, HOME, ("done", f"{base.id} is deleted, with everything in it"))
    if is_partial(request):
        # The page it stood on is about nothing any more: the browser leaves it.
        answer.headers["HX-Redirect"] = answer.headers["location"]
        del answer.headers["location"]
        answer.status_code = 204
    return answer


def _doing(service: Service, principal: Principal, it: Seen, action: str) -> tuple[Awaitable[Any], Any]:
    """What is asked of the core, and the words for its answer."""
    app, actor, base, tenant = service.penstock, principal.actor, it.base.id, it.base.tenant
    if action == "refresh":
        return control.start(app, base, tenant=tenant, actor=actor), f"{base}: a new run has begun"
    if action == "repair":
        return control.start_repair(app, base, tenant=tenant, actor=actor), f"{base}: it is being repaired"
    if action not in ("retry-errors", *DONE):
        raise NotFound(f"there is no action {action[:20]!r}")
    if it.run is None:
        raise NotFound(f"{base!r} has no run")
    if action == "retry-errors":
        return control.retry_errors(app, it.run, actor=actor), f"{base}: what failed is tried again"
    known = {"pause": control.pause, "resume": control.resume, "cancel": control.cancel}

    def said(job: Job) -> str:
        at_once, later = DONE[action]
        return f"{base}: the run {at_once if is_done(action, job) else later}"

    return known[action](app, it.run, actor=actor), said


async def _verified(service: Service, it: Seen) -> tuple[Tone, str]:
    engine = service.penstock.engine
    if it.edition is None:
        return "refused", f"{it.base.id} holds nothing yet"
    until = engine.clock.monotonic() + PATIENCE
    found, further = await verify_from(
        engine, index_for(engine), it.edition.number, START, enough=lambda: engine.clock.monotonic() > until
    )
    if not found.sound:
        return "refused", _unsound(found)
    if further is not None:
        command = f"`penstock ingest verify {it.base.id}` goes on to the end"
        return "done", f"ledger and index agree on the first {many(found.chunks, 'chunk')}: {command}"
    return "done", f"ledger and index agree: {many(found.documents, 'document')}, {many(found.chunks, 'chunk')}"


def _unsound(found: Verified) -> str:
    told = [f"{len(numbers):,} {FAULTS[fault]}" for fault, numbers in found.faults.items() if numbers]
    return f"ledger and index differ: {'; '.join(told)}. Repair mends that."
