"""`python -m bench.pages_index LABELS OUTPUTS HOME`: one round of the index, in a process of its own. A job on a new
SQLite store takes a tree in with the run's own `_index`, and in turn the bare calls do what no index can do without.
Prints what it measured as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from bench.pages_memory import peak_megabytes
from penstock import Context, Penstock, Workflow
from penstock.pipelines.pages import asking, inventory, ticking
from penstock.pipelines.pages.ledger import Ledger, ledger_id
from penstock.pipelines.pages.model import Run, Task

TURNS = 9
"""Passes with nothing new, and searches for the next pages, of which the median is taken."""

BATCH = 100

flow = Workflow("index", payload=Task, deadline=None)


@dataclass
class Round:
    """Seconds, unless said otherwise."""

    files: int = 0
    books: int = 0
    scandir: list[float] = field(default_factory=list)
    first: float = 0.0
    stats: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    next: list[float] = field(default_factory=list)
    pages: int = 0
    megabytes: float = 0.0

    @property
    def bare(self) -> float:
        return median(self.scandir)


def walked(folder: str) -> int:
    """The bare walk: how many files there are."""
    files = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            files += walked(entry.path) if entry.is_dir() else 1
    return files


def folders(labels: str, outputs: str) -> list[str]:
    """What a pass with nothing new must ask for its time: every folder of labels, and every book's of outputs."""
    found = [at for at, _, _ in os.walk(labels)]
    return found + [outputs + at[len(labels) :] for at, below, _ in os.walk(labels) if not below]


def asked(paths: list[str]) -> None:
    for path in paths:
        try:  # noqa: SIM105
            os.stat(path)  # noqa: PTH116
        except FileNotFoundError:
            pass


_found = Round()


@flow.step
async def index(task: Task, ctx: Context) -> None:
    begun = await ticking.begin(task, ctx)
    assert isinstance(begun, Task)
    await ctx.checkpoint(begun)
    ledger = Ledger(task.ledger, ctx, task.run.execution.on_dead_page)
    labels, outputs = str(task.run.paths.label_source_dir), str(task.run.paths.output_dir)
    roots = [root for root in (labels, outputs) if Path(root).is_dir()]

    def bare() -> None:
        began = time.perf_counter()
        _found.files = sum(walked(root) for root in roots)
        _found.scandir.append(time.perf_counter() - began)

    # Once for nothing: the system may have forgotten the folders meanwhile, and reading a disk is not measured.
    for root in roots:
        walked(root)
    bare()
    began = time.perf_counter()
    await inventory.index(ctx, ledger, begun)
    _found.first = time.perf_counter() - began
    # Of the index alone: the list of folders below would count as its own.
    _found.megabytes = peak_megabytes()
    bare()
    paths = folders(labels, outputs)
    for _ in range(TURNS):
        began = time.perf_counter()
        asked(paths)
        middle = time.perf_counter()
        await inventory.index(ctx, ledger, begun)
        ended = time.perf_counter()
        _found.stats.append(middle - began)
        _found.again.append(ended - middle)
    for _ in range(TURNS):
        began = time.perf_counter()
        chosen = await ledger.next_pages(BATCH)
        _found.next.append(time.perf_counter() - began)
        assert len(chosen) == BATCH
    totals = await ledger.totals()
    _found.pages, _found.books = totals.pages, totals.books


async def measure(labels: Path, outputs: Path, home: Path) -> None:
    run = Run.model_validate({
        "paths": {"label_source_dir": labels, "image_source_dir": labels, "output_dir": outputs},
        "prompt": {"name": "transcription"},
        "execution": {"dry_run": True},
    })  # fmt: skip
    ledger = ledger_id(outputs)
    async with Penstock(workflows=[flow], store=f"sqlite:///{home}/penstock.db", outputs=home) as app:
        await asking._open_ledger(app, ledger, run, "default")
        submitted = await app.submit(flow, Task(run=run, ledger=ledger))
        async with app.worker():
            job = await app.wait(submitted.job_id, timeout=600)
    if job.status != "completed":
        raise SystemExit(f"the index failed: {job.error}")


if __name__ == "__main__":
    asyncio.run(measure(*(Path(argument).resolve() for argument in sys.argv[1:4])))
    print(json.dumps(asdict(_found)))
