"""A knowledge base as whoever asks may see it, with how its run stands: what the head of each of its pages shows."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from penstock.app import Penstock
from penstock.engine.errors import NotFound
from penstock.engine.model import Job
from penstock.pipelines.ingestion import bases
from penstock.pipelines.ingestion.bases import Base, Edition, Run
from penstock.pipelines.ingestion.control import error_count, newest_job
from penstock.pipelines.ingestion.dashboard.places import (
    HOME,
    Paths,
    colour,
    kind_of,
    place_of,
    plain,
    settings_of,
    word,
)
from penstock.pipelines.ingestion.status import Status, status_of
from penstock.pipelines.ingestion.workflow import ingestion
from penstock.service.access.principal import Principal
from penstock.service.api.tenancy import owner_for
from penstock.service.dashboard.rendering import REFRESH, link

AGAIN = 5.0
"""Seconds after which the page of a run at work looks again: a heartbeat grows old without anything changing."""

CANCELING = (
    "Cancel this run? What it has written so far is taken out of the knowledge base again, and what it had replaced"
    " comes back."
)
DELETING = "Everything in it goes: documents, chunks, vectors and the list of its runs. Nothing brings it back."


class LiveRoute(APIRoute):
    """For the pages of a knowledge base: one that is open while somebody deletes it goes to the list."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def shown(request: Request) -> Response:
            try:
                return await handle(request)
            except NotFound:
                if REFRESH not in request.headers:
                    raise
                return Response(status_code=204, headers={"HX-Redirect": HOME})

        return shown


@dataclass(slots=True, frozen=True)
class Seen:
    """A knowledge base, the edition that is searched, and a run: the newest, unless another was asked for."""

    base: Base
    edition: Edition | None
    run: Run | None
    job: Job | None
    status: Status | None
    errors: int

    @property
    def word(self) -> str:
        return "not_started" if self.status is None else self.status.status

    @property
    def newest(self) -> bool:
        return self.run is None or self.run.id == self.base.run

    @property
    def over(self) -> bool:
        """Whether nothing is at work on it, so that another run may begin."""
        return self.job is None or self.job.final


async def seen(app: Penstock, principal: Principal, name: str, tenant: str, run: str | None = None) -> Seen:
    """Another tenant's knowledge base is not there."""
    engine = app.engine
    base = await bases.base_of(engine, owner_for(principal, tenant or None), name)
    wanted = run or base.run
    found = None if wanted is None else await bases.find_run(engine, wanted, tenant=base.tenant)
    if run is not None and (found is None or found.base != base.id):
        raise NotFound(f"there is no run {run} of {name!r}")
    return Seen(
        base,
        None if base.edition is None else await bases.edition_of(engine, base.edition),
        found,
        None if found is None else await newest_job(app, found.id),
        None if found is None else await status_of(app, found),
        await error_count(app, base.edition),
    )


def buttons(it: Seen) -> tuple[str, ...]:
    """What may be asked of the run as it stands, the likeliest first."""
    if not it.newest:
        return ()
    if it.word == "running":
        return ("resume" if it.job is not None and it.job.halting == "pause" else "pause", "cancel")
    if it.word == "paused":
        return ("resume", "cancel")
    if it.word == "failed":
        return ("resume", "refresh", "cancel") if it.job is not None else ("refresh",)
    if it.word == "canceled":
        return ()
    return ("refresh", "retry-errors") if it.errors else ("refresh",)


def about(principal: Principal, it: Seen) -> dict[str, Any]:
    """For `head.html`."""
    live = it.job is not None and not it.job.final
    return {
        "principal": principal,
        "it": it,
        "base": it.base,
        "edition": it.edition,
        "run": it.run,
        "job": it.job,
        "status": it.status,
        "buttons": buttons(it) if principal.may("operate") else (),
        "canceling": CANCELING,
        "deleting": f"Delete {it.base.id}? {DELETING}",
        "again": AGAIN if it.word == "running" else None,
        "path": Paths(it.base.id, it.base.tenant, principal),
        "word": word,
        "colour": colour,
        "kind_of": kind_of,
        "plain": plain,
        "place_of": place_of,
        "settings_of": settings_of,
        "feed": link("/ui/live", job=it.job.id) if live and it.job else link("/ui/live", workflow=ingestion.name),
    }
