"""The addresses of the pipeline's pages, and what the head of every page of a run shows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Query

from penstock.app import Penstock
from penstock.pipelines.pages.looking import Seen, newest
from penstock.pipelines.pages.model import Run
from penstock.pipelines.pages.reading import ledger_of
from penstock.service.access.principal import Principal
from penstock.service.dashboard.pages.job import buttons
from penstock.service.dashboard.rendering import link
from penstock.service.dashboard.wording import compact, figure

HOME = "/ui/pages"

Number = Annotated[int, Query(ge=0, le=2**31 - 1)]
"""A place in a list, as the pages' own links write it."""

CANCELING = (
    "Cancel this run? Its batches are stopped at Gemini, and what they have cost so far is lost unless they still"
    " bring it home. Pages that are done stay done; another run goes on from there."
)


RESCANNING = "The run has ended, so this starts the next one: pages that it finds to do are submitted, and paid for."


def run_path(run_id: str, *parts: object) -> str:
    return "/".join((f"{HOME}/runs/{run_id}", *(quote(str(part), safe=":") for part in parts)))


def book_path(run_id: str, state: str, school: str, year: int) -> str:
    return run_path(run_id, "books", state, school, year)


def page_path(run_id: str, key: str) -> str:
    return run_path(run_id, "pages", key)


def called(folder: Path) -> str:
    """The end of its path: people call many folders `output`."""
    return "/".join(part for part in folder.parts[-2:] if part != folder.anchor)


def title_of(run: Run) -> str:
    return called(run.paths.output_dir)


def count(amount: float) -> str:
    """To the last page, as long as it fits."""
    return figure(amount) if amount < 1_000_000 else compact(amount)


async def about(penstock: Penstock, principal: Principal, found: Seen) -> dict[str, Any]:
    """For `run_head.html`: the run, what may be asked of it, and whether there is a newer one."""
    last = await newest(penstock, found)
    dead, undone = 0, 0
    if found.job.final and last.id == found.job.id:
        ((dead, undone),) = await ledger_of(penstock.engine, found.ledger).read(
            "SELECT COALESCE(SUM(dead), 0), COALESCE(SUM(total - done - flying - dead), 0) FROM pages_books"
            " WHERE ledger = :ledger"
        )
    return {
        "principal": principal,
        "seen": found,
        "job": found.job,
        "run": found.run,
        "newer": last if last.id != found.job.id else None,
        "dead_at_end": int(dead),
        "undone_at_end": int(undone) if dead else 0,
        "buttons": buttons(found.job) if principal.may("operate") else (),
        "canceling": CANCELING,
        "rescanning": RESCANNING,
        "title": title_of(found.run),
        "count": count,
        "run_path": run_path,
        "page_path": page_path,
        "book_path": book_path,
        "feed": link("/ui/live", job=last.id),
        "every": 2000,
    }
