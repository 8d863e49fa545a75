"""What buttons do: ask the engine, and say what became of it on the page they stood on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

from fastapi import Form, Request
from starlette.responses import Response

from penstock.app import Penstock
from penstock.engine.errors import InvalidRequest, NotFound
from penstock.engine.identity import storable
from penstock.engine.model import Job, JobRow
from penstock.service.access.principal import Principal
from penstock.service.dashboard.rendering import back_to, own_path
from penstock.service.dashboard.wording import many
from penstock.service.state import Service
from penstock.store.protocol import JobFilter

MOST = 500
"""Jobs that one click may be about."""

DONE = {"pause": "paused", "resume": "resumed", "cancel": "cancelled", "retry": "retried"}

Back = Annotated[str, Form(alias="back", max_length=2000)]


async def asked(request: Request, back: str, doing: Awaitable[Any], said: str | Callable[[Any], str]) -> Response:
    """One request, and `said` when it was done, in words that may depend on the answer; a refusal is said in its own
    words."""
    to = own_path(back, "/")
    try:
        answer = await doing
    except NotFound:
        raise
    except InvalidRequest as error:
        return back_to(request, to, ("refused", str(error)))
    return back_to(request, to, ("done", said if isinstance(said, str) else said(answer)))


async def all_asked(
    request: Request, service: Service, principal: Principal, back: str, action: str, ids: Sequence[str]
) -> Response:
    """The same of many jobs, at most `MOST`; who may not see a job has not named it."""
    to = own_path(back, "/ui/jobs")
    wanted = tuple(dict.fromkeys(filter(storable, ids)))[:MOST]
    if action not in DONE or not wanted:
        return back_to(request, to, ("refused", "choose jobs, then what to do with them"))
    store = service.penstock.engine.store
    rows = await store.jobs(JobFilter(tenant=principal.tenant, ids=wanted, limit=len(wanted)))
    answers = await asyncio.gather(
        *(control(service.penstock, row, action, principal) for row in rows), return_exceptions=True
    )
    refused = [answer for answer in answers if isinstance(answer, InvalidRequest)]
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, InvalidRequest):
            raise answer
    done = [answer for answer in answers if not isinstance(answer, BaseException)]
    later = sum(not is_done(action, job) for job in done)
    said: list[tuple[Any, str]] = []
    if len(done) > later:
        said.append(("done", f"{many(len(done) - later, 'job')} {DONE[action]}"))
    if later:
        said.append(("done", f"{many(later, 'job')} asked to {action}"))
    if refused:
        others = f", and {len(refused) - 1} more were refused" if len(refused) > 1 else ""
        said.append(("refused", f"{refused[0]}{others}"))
    return back_to(request, to, *(said or [("refused", "none of these jobs is there any more")]))


def is_done(action: str, job: Job) -> bool:
    """A job that a step is at work on, or that cleans up, is asked only: it stops when that has come to its end."""
    return action not in ("pause", "cancel") or job.status in ("paused", "canceled")


async def control(penstock: Penstock, row: JobRow, action: str, principal: Principal) -> Any:
    doing = {
        "pause": penstock.pause,
        "resume": penstock.resume,
        "cancel": penstock.cancel,
        "retry": penstock.retry,
    }[action]
    return await doing(row.id, actor=principal.actor)
