"""Which knowledge base or run a command of `penstock ingest` is about, and the words for one that is not there."""

from __future__ import annotations

import contextlib
import difflib
import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass

from penstock.app import Penstock
from penstock.cli import sessions
from penstock.cli.command import Invocation
from penstock.cli.schema_state import schema_state
from penstock.config import Settings
from penstock.engine.errors import InvalidConfiguration, InvalidRequest, NotFound
from penstock.engine.identity import checked_name
from penstock.engine.model import DEFAULT_TENANT, Job
from penstock.pipelines.ingestion import bases
from penstock.pipelines.ingestion.bases import Base, Run
from penstock.pipelines.ingestion.workflow import ALL, ingestion
from penstock.service.beginning import same_flags

MOST_NAMES = 1000


@dataclass(slots=True, frozen=True)
class Asked:
    """One call of a command on knowledge bases."""

    call: Invocation
    settings: Settings
    tenant: str = DEFAULT_TENANT

    def command(self, words: str) -> str:
        """Another command on the same store."""
        tenant = f" --tenant {shlex.quote(self.tenant)}" if self.tenant != DEFAULT_TENANT else ""
        config = f" --config {shlex.quote(self.call.config)}" if self.call.config else ""
        return f"penstock ingest {words}{tenant}{config}{same_flags(self.settings)}"

    def worker(self) -> str:
        """What starts a worker that would do this work: the pipeline needs no app."""
        own = self.settings.delivery == "embedded"
        delivery = self.settings.delivery
        return f"penstock {'up' if own else f'worker --delivery {delivery}'}{same_flags(self.settings)}"


def asked_of(call: Invocation, tenant: str) -> Asked:
    checked_name("tenant", tenant)
    return Asked(call, call.settings(), tenant)


@contextlib.asynccontextmanager
async def acting(asked: Asked, name: str, *, must_exist: bool = True) -> AsyncIterator[Penstock]:
    """The store, and the pipeline that jobs are made for."""
    if must_exist:
        await _check_store(asked, name, with_app=True)
    async with sessions.opened(asked.settings, with_app=True, must_exist=must_exist) as app:
        for workflow in ALL:
            if app.workflows.get(workflow.name) is not workflow:
                raise InvalidConfiguration(
                    f"the app has a workflow of its own named {workflow.name!r}, which is the name of Penstock's "
                    "pipeline: rename it, or use these commands with another configuration (--config) that does not "
                    "name the app"
                )
        yield app


@contextlib.asynccontextmanager
async def looking(asked: Asked, name: str | None = None) -> AsyncIterator[Penstock]:
    """The store alone, to look into."""
    await _check_store(asked, name, with_app=False)
    async with sessions.opened(asked.settings, must_exist=True) as app:
        yield app


async def _check_store(asked: Asked, name: str | None, *, with_app: bool) -> None:
    """Without a store there is no knowledge base: that is what a reader wants to know. An app may bring its own."""
    settings = asked.settings
    if settings.app is not None and (with_app or settings.source("app") == "--app"):
        return
    url = settings.store
    if url.startswith("memory:"):
        raise InvalidRequest(
            "memory:// is empty in each process: knowledge bases need sqlite:///FILE or postgresql://…"
        )
    if (await schema_state(url)).revision is None:
        which = "" if name is None else f" {name[:100]!r}"
        raise NotFound(f"there is no knowledge base{which}, and no store {url} yet: {how_to_make(asked, name)}")


def how_to_make(asked: Asked, name: str | None = None) -> str:
    named = "NAME" if name is None else shlex.quote(name[:100])
    return f"make one with `{asked.command(f'start {named} --markdown FOLDER')}`"


async def base_meant(app: Penstock, asked: Asked, name: str) -> Base:
    found = await bases.find_base(app.engine, asked.tenant, name)
    if found is None:
        raise await unknown(app, asked, name, "knowledge base")
    return found


async def run_meant(app: Penstock, asked: Asked, name: str) -> Run:
    """A run by its id, by that of its job, or by the knowledge base that it fills: then the newest."""
    run = await bases.find_run(app.engine, name)
    if run is None:
        base = await bases.find_base(app.engine, asked.tenant, name)
        run = None if base is None or base.run is None else await bases.find_run(app.engine, base.run)
    if run is None:
        raise await unknown(app, asked, name, "knowledge base or run")
    return run


async def unknown(app: Penstock, asked: Asked, name: str, kind: str, *, making: bool = False) -> NotFound:
    """Names that are alike, those that there are, or how to make one; `making`: where a source would make it."""
    every = await bases.bases(app.engine, None, limit=MOST_NAMES)
    known = [base.id for base in every if base.tenant == asked.tenant]
    words = f"there is no {kind} {name[:100]!r}"
    if asked.tenant != DEFAULT_TENANT:
        words += f" of tenant {asked.tenant}"
    if others := sorted(base.tenant for base in every if base.id == name):
        return NotFound(f"{words}; there is one of tenant {others[0]}: --tenant {shlex.quote(others[0])}")
    if not known:
        return NotFound(f"{words}, and no other: {how_to_make(asked, name)}")
    if making:
        words += ": to make it, name a source, such as --markdown FOLDER"
    folded = {each.casefold(): each for each in known}
    alike = [folded[each] for each in difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)]
    if alike:
        return NotFound(f"{words}; did you mean {' or '.join(alike)}?")
    told = ", ".join(known[:5]) + (", …" if len(known) > 5 else "")
    return NotFound(f"{words}; there are: {told} (`{asked.command('list')}`)")


async def lack_for(app: Penstock, job: Job | None = None) -> str | None:
    """The words for it where no worker would take up such a job."""
    if job is None:
        return await sessions.lack(app, ingestion.name, ingestion.queue)
    return await sessions.lack(app, job.workflow, job.queue)
