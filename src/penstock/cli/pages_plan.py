"""The plan of a run as the command line makes it: the trees are walked in a thread, with a line that says how far, and
a store is only asked if it is there."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock.app import Penstock
from penstock.builtin import gemini_place
from penstock.cli import sessions
from penstock.cli.output import Output, harmless
from penstock.cli.pages_asked import Asked
from penstock.cli.pages_views import many
from penstock.cli.schema_state import schema_state
from penstock.engine.errors import PenstockError
from penstock.pipelines.pages.planning import (
    Estimate,
    History,
    Rounds,
    Survey,
    estimate,
    history_of,
    nothing_matches,
    rounds,
    survey,
)
from penstock.pipelines.pages.prompts.registry import load_prompt
from penstock.remote.prices import load_prices


@dataclass(slots=True, frozen=True)
class Planned:
    survey: Survey
    rounds: Rounds
    estimate: Estimate
    history: History
    unmatched: str | None
    """Which filter lets nothing through, where there is nothing."""
    unread: str | None
    """Why the Gemini on this machine could not answer."""


async def planned(asked: Asked, *, first: int = 0, answer_tokens: int | None = None) -> Planned:
    run, settings = asked.run, asked.settings
    history = await _history(asked)
    with _telling(asked.call.out) as tell:
        found = await asyncio.to_thread(survey, run, history, first=first, tell=tell)
    limits = run.execution
    depth = await asyncio.to_thread(
        rounds, found.chains, size=limits.batch_size_limit, slots=limits.max_concurrent_batches
    )
    cost = estimate(
        run,
        load_prompt(run.prompt),
        found,
        load_prices(settings.gemini.prices),
        model=run.model.name or settings.gemini.model,
        most_output=settings.gemini.max_output_tokens,
        now=time.time(),
        history=history,
        answer=answer_tokens,
    )
    unmatched = None if found.pages else await asyncio.to_thread(nothing_matches, run)
    return Planned(found, depth, cost, history, unmatched, no_local_reader(asked))


def no_local_reader(asked: Asked) -> str | None:
    """Why the Gemini on this machine could not answer what the prompt asks, where that is known beforehand. The prompts
    that ship have their readers."""
    told = asked.run.prompt
    if not asked.local or asked.settings.local_gemini.backend != "local" or told.registry_dir is None:
        return None
    from penstock.gemini_local.backend import CannotAnswer, Prompt
    from penstock.gemini_local.readers import all_readers

    schema = load_prompt(told).json_schema
    try:
        all_readers().find(Prompt(model="", turns=(), schema=schema))
    except CannotAnswer as error:
        return f"Every page of prompt {told.name!r} would fail on this machine's Gemini. {error}"
    return None


def dry_run(asked: Asked, limit: int, *, told_by_file: bool) -> int:
    """Say which pages would be sent first, and send nothing."""

    async def main() -> int:
        made = await planned(asked, first=limit)
        out, told = asked.call.out, made.survey
        first = [{"key": key, "waiting": waiting} for key, waiting in told.next_pages]
        out.data({"dry_run": True, "pages": told.pages, "done": told.done, "ready": told.ready, "first": first})
        if made.unmatched is not None:
            out.wrong(made.unmatched)
            return 1
        for key, _ in told.next_pages:
            out.result(harmless(key))
        why = " (execution.dry_run: true)" if told_by_file else ""
        if told.ready > len(first):
            out.remark(f"and {told.ready - len(first)} more: --limit {min(told.ready, 10_000)}")
        batches = -(-told.ready // asked.run.execution.batch_size_limit)
        slots = min(batches, asked.run.execution.max_concurrent_batches)
        out.remark(
            f"{many(told.ready, 'page')} could be sent now, in {many(slots, 'batch')} at once; nothing was sent{why}."
        )
        return 0

    return sessions.run(main())


async def looked_at(asked: Asked, app: Penstock) -> Survey:
    """The trees as they lie there now, and what the ledger of an open store knows of them."""
    history = await history_of(app.engine, asked.ledger, place=gemini_place(asked.settings))
    return await asyncio.to_thread(survey, asked.run, history)


async def _history(asked: Asked) -> History:
    """Of a store that is there and of our own schema; a plan neither makes one nor changes it."""
    settings = asked.settings
    url = settings.store
    try:
        if url.startswith("memory:") or not (await schema_state(url)).current:
            return History()
        async with sessions.opened(settings) as app:
            return await history_of(app.engine, asked.ledger, place=gemini_place(settings))
    except PenstockError as error:
        asked.call.out.note(f"The store is not asked what was done before: {error}")
        return History()


@contextlib.contextmanager
def _telling(out: Output) -> Iterator[Callable[[Survey], None] | None]:
    """A line on a terminal that says how much was seen."""
    if not out.live:
        yield None
        return
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    spinner = Spinner("dots", Text("looking at the folders"))
    with Live(spinner, console=out.console(stderr=True), refresh_per_second=8, transient=True):
        yield lambda seen: spinner.update(text=Text(f"{seen.books:,} books, {seen.pages:,} pages"))
