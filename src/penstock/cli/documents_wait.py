"""Waiting for documents: until each has ended, and the batch they came in has been added up. Where no worker is alive
the work is done in this process; Ctrl-C leaves it to whoever comes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from penstock.app import Penstock
from penstock.cli.command import Invocation
from penstock.cli.documents_asked import PIPELINE, command, nobody_there, worker
from penstock.cli.documents_live import Watched, view_for
from penstock.cli.documents_states import State, plain_error, states
from penstock.cli.documents_views import show_documents
from penstock.cli.output import counted, harmless
from penstock.cli.sessions import store_url
from penstock.cli.waiting import COUNT_WORKERS_EVERY, LOOK_EVERY, Deserted, Resting, Waiting
from penstock.cli.waiting_views import View
from penstock.config import Settings
from penstock.engine.errors import NotFound
from penstock.engine.model import Job
from penstock.pipelines.documents import reading
from penstock.pipelines.documents.fields import FIELD_RULES
from penstock.pipelines.documents.reading import DocumentDetail, DocumentView
from penstock.pipelines.documents.rules import missing
from penstock.times import length

MOST_LOOKS = 500
"""Documents that are looked at as often as one; more of them are looked at less often."""
SHOWN = 50
REQUIRED = sum(rule.required for rule in FIELD_RULES)


@dataclass(slots=True)
class DocumentsWaiting(Waiting):
    """`ended` is told of each document when it has ended, in the order they were added."""

    ids: Sequence[str] = ()
    batch: str | None = None
    ended: Callable[[DocumentDetail | None, State], None] = lambda found, state: None
    watched: Watched = field(default_factory=Watched)
    told: int = 0

    async def until_ended(self, jobs: Sequence[str]) -> Job | None:
        """The job that added up the batch, if there is one; or `Resting`, or `Deserted`."""
        self.jobs = {job.id: job for job in await _jobs(self.app, jobs)}
        async with self._working():
            try:
                with self._view() as view:
                    await self._watch(view)
                return await self._added_up()
            except asyncio.CancelledError:
                click.echo(self.interrupted, err=True)
                raise

    def _view(self) -> View:
        return view_for(self.out, self.jobs, self.watched)

    async def _watch(self, view: View) -> None:
        looks = 0
        self.watched.began = await self.app.engine.store.now()
        while True:
            view.show(await self._look())
            await self._tell()
            left = [each for each in self.watched.states.values() if not each.ended]
            if not left:
                return
            self._check_paused(left)
            if not self.here and looks % COUNT_WORKERS_EVERY == 0:
                await self._count_workers(view)
            looks += 1
            await asyncio.sleep(LOOK_EVERY * max(1.0, len(left) / MOST_LOOKS))

    async def _look(self) -> float:
        known = self.watched.states
        fresh = await states(self.app.engine, [each for each in self.ids if each not in known or not known[each].ended])
        self.watched.news = [state for state in fresh.values() if state.ended]
        self.watched.states = {each: fresh.get(each) or known[each] for each in self.ids}
        return await self.app.engine.store.now()

    async def _tell(self) -> None:
        """In their order: whoever reads along gets the same lines however fast each went."""
        while self.told < len(self.ids):
            state = self.watched.states[self.ids[self.told]]
            if not state.ended:
                return
            try:
                found = await reading.document(self.app.engine, state.id)
            except NotFound:
                found = None
            self.ended(found, state)
            self.told += 1

    def _check_paused(self, left: Sequence[State]) -> None:
        if self.here and all(state.status == "paused" for state in left):
            first = left[0]
            why = f" ({plain_error(first.reason)})" if first.reason else ""
            others = f", and {counted(len(left) - 1, 'other')}" if len(left) > 1 else ""
            raise Resting(f"{first.filename} is paused{why}{others}: `penstock jobs resume {first.job}` lets it go on")

    async def _added_up(self) -> Job | None:
        if self.batch is None:
            return None
        # The commit that ends the last document of a batch starts its follow-up.
        following = (await self.app.batch(self.batch)).follow_up
        return None if following is None else await self.app.wait(following)


async def _jobs(app: Penstock, ids: Sequence[str]) -> list[Job]:
    found: list[Job] = []
    for start in range(0, len(ids), MOST_LOOKS):
        part = ids[start : start + MOST_LOOKS]
        found += await app.jobs(ids=part, limit=len(part), brief=True)
    return found


@dataclass(slots=True)
class Told:
    """What documents gave, as it is said: a JSON line each at once, or a table in the end."""

    call: Invocation
    views: list[DocumentView] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    blank: int = 0

    def ended(self, found: DocumentDetail | None, state: State) -> None:
        self.statuses.append(state.status)
        if state.status == "completed" and found is not None and found.document.data is not None:
            self.blank += len(missing(found.document.data)) == REQUIRED
        if self.call.json:
            click.echo(json.dumps(ended_line(found, state), ensure_ascii=False))
        elif found is not None:
            self.views.append(found.document)

    @property
    def all_well(self) -> bool:
        return all(status == "completed" for status in self.statuses)


def ended_line(found: DocumentDetail | None, state: State) -> dict[str, Any]:
    """One document as `--wait --json` tells it. `result` has what counts: what people locked is laid over it."""
    result = None
    if found is not None and found.result is not None and found.document.data is not None:
        result = found.result.model_copy(update={"invoice_data": found.document.data}).model_dump(mode="json")
    return {
        "document_id": state.id,
        "filename": state.filename,
        "status": state.status,
        "error": plain_error(state.error) or None if state.status != "completed" else None,
        "review_item_id": None if found is None else found.document.review_item,
        "result": result,
    }


async def waited(
    call: Invocation, settings: Settings, app: Penstock, ids: Sequence[str], jobs: Sequence[str], batch: str | None
) -> int:
    """Watch the documents to their end, and say what they gave. 1 where one of them was not extracted."""
    out, told = call.out, Told(call)
    lack = await nobody_there(app)
    where = f"list --batch {batch}" if batch is not None else f"show {ids[0]}"
    how_far = f"`{command(call, settings, f'documents {where}')}` tells how far"
    began = await app.engine.store.now()
    while True:
        interrupted = f"the work goes on without us; {how_far}"
        if lack is not None:
            out.note(f"{lack}: running the work in this process.")
            app.engine.claim_only(*(workflow.name for workflow in PIPELINE))
            interrupted = (
                f"steps that are running have up to {settings.grace:g} s to finish; a second Ctrl-C stops them at "
                "once and hands them back"
            )
        waiting = DocumentsWaiting(
            app, out, settings, lack is not None, f"Interrupted: {interrupted}.",
            ids=ids[len(told.statuses) :], batch=batch, ended=told.ended,
        )  # fmt: skip
        try:
            following = await waiting.until_ended(jobs)
            break
        except Deserted as error:
            lack = error.lack
        except asyncio.CancelledError:
            if lack is not None:
                await _left(settings, app, ids, how_far)
            raise
    _show(call, settings, told, batch, await app.engine.store.now() - began)
    if following is not None and following.status == "failed":
        out.wrong(f"the documents could not be added up: {harmless(plain_error(following.error))}")
    return 0 if told.all_well and (following is None or following.status != "failed") else 1


async def _left(settings: Settings, app: Penstock, ids: Sequence[str], how_far: str) -> None:
    """After Ctrl-C: what became of the documents, and who goes on with them."""
    found = await states(app.engine, ids)
    ended = sum(state.ended for state in found.values())
    rest = len(ids) - ended
    words = f"{ended} of {counted(len(ids), 'document')} ended."
    if rest and store_url(app, settings) == "memory://":
        words += " The rest is gone with this process."
    elif rest:
        words += f" The rest is safe, and goes on when a worker runs, `{worker(settings)}`; {how_far}."
    click.echo(words, err=True)


def blank_text(blank: int, well: int) -> str:
    """Of those that were read, how many have no required field; nothing where all have one."""
    if not blank:
        return ""
    which = "it says" if well == 1 else f"{blank} of them {'says' if blank == 1 else 'say'}"
    return f"; {which} nothing that was looked for"


def _show(call: Invocation, settings: Settings, told: Told, batch: str | None, took: float) -> None:
    out, views = call.out, told.views
    total, well = len(told.statuses), sum(status == "completed" for status in told.statuses)
    more = out.fancy and len(views) > SHOWN
    shown = [view for view in views if view.status != "completed"][:SHOWN] if more else views
    if shown:
        show_documents(out, shown, 0.0, ages=False)
    if more and batch is not None:
        out.remark(f"All of them: {command(call, settings, f'documents list --batch {batch}')}")
    sign = click.style("✓", fg="green") if well == total else click.style("✗", fg="red")
    out.remark(f"{sign} {well} of {counted(total, 'document')} read in {length(took)}{blank_text(told.blank, well)}.")
    if well:
        out.remark(f"  Review them: {command(call, settings, 'review list')}")
    if failed := told.statuses.count("failed"):
        ways = command(call, settings, "documents list --status failed")
        out.remark(f"  {failed} failed: {ways}")
