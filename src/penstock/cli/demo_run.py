"""The demo's examples: started as programs, watched through the store they share, judged by how their jobs ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from penstock.app import Penstock
from penstock.engine.errors import NotFound, StoreError
from penstock.engine.model import Event, Job
from penstock.gemini_local.launch import LaunchFailed
from penstock.gemini_local.launch import stop as stop_gemini

FOLDER = Path(__file__).resolve().parents[3] / "examples"
LOOK_EVERY = 0.2
PATIENCE = 180.0
AT_HOME = {"PENSTOCK_LOCAL_GEMINI__USE": "always"}
"""Nothing here may cost money, whatever key is in the environment."""


@dataclass(slots=True, frozen=True)
class Example:
    """A program, and how its jobs end when all is well: one of `examples/`, or a module of Penstock. `shares_home`: its
    files are where the dashboard finds them."""

    name: str
    title: str
    workflows: tuple[str, ...]
    expected: dict[str, int]
    module: str | None = None
    shares_home: bool = False

    @property
    def path(self) -> Path | None:
        return FOLDER / f"{self.name}.py" if self.module is None else None

    @property
    def command(self) -> tuple[str, ...]:
        return ("-m", self.module) if self.module is not None else (str(self.path),)


EXAMPLES = (
    Example("hello", "hello", ("hello",), {"completed": 1}),
    Example("retry", "retry", ("report",), {"completed": 1, "failed": 1}),
    Example("wait_and_poll", "wait and poll", ("rendering",), {"completed": 3}),
    Example("batch_fan_in", "batch with fan-in", ("sheets", "summary"), {"completed": 12, "failed": 1}),
    Example("pause_cancel_cleanup", "pause, cancel, clean up", ("exports",), {"completed": 1, "canceled": 1}),
    Example("priorities", "priorities", ("letters",), {"completed": 6}),
    Example("gemini_batch", "Gemini batch, offline", ("books",), {"completed": 1}),
    Example("never_paid_twice", "never paid twice", ("sayings",), {"completed": 1}),
    Example("budget", "a budget", ("translations",), {"completed": 1}),
    Example("shelf", "pages, killed half way", ("pages",), {"completed": 1}, module="penstock.cli.demo_pages"),
    Example(
        "inbox", "invoices, reviewed", ("documents", "documents.batch", "documents.export"), {"completed": 15},
        module="penstock.cli.demo_documents", shares_home=True,
    ),
    Example(
        "knowledge", "knowledge bases, asked", ("ingestion", "ingestion.purge"), {"completed": 4, "canceled": 1},
        module="penstock.cli.demo_ingestion",
    ),
)  # fmt: skip


@dataclass(slots=True)
class ExampleRun:
    """One example on its way."""

    example: Example
    began: float = field(default_factory=time.time)
    ended: float | None = None
    code: int | None = None
    jobs: list[Job] = field(default_factory=list)
    output: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return (self.ended or time.time()) - self.began

    @property
    def statuses(self) -> dict[str, int]:
        return dict(Counter(job.status for job in reversed(self.jobs)))

    @property
    def fine(self) -> bool:
        return self.code == 0 and self.statuses == self.example.expected

    @property
    def problem(self) -> str:
        if self.code != 0:
            last = self.output[-1] if self.output else "no output"
            return f"ended with exit code {self.code} ({last})"
        return f"its jobs ended as {self.statuses}, expected was {self.example.expected}"


class DemoView(Protocol):
    """Who looks: is told of everything, and draws it as it likes."""

    def start(self, runs: Sequence[ExampleRun]) -> None: ...

    def said(self, run: ExampleRun, line: str) -> None: ...

    def happened(self, run: ExampleRun, job: Job, event: Event) -> None: ...

    def over(self, *, stays: str | None) -> None:
        """The examples have ended; `stays` is where the dashboard is left up."""
        ...

    def stop(self) -> None: ...


def examples() -> tuple[Example, ...]:
    """The examples, if this is a clone of the repository."""
    missing = [example.name for example in EXAMPLES if example.path is not None and not example.path.is_file()]
    if missing:
        raise NotFound("the demo runs the programs in examples/, which only a clone has: run `make demo` there")
    return EXAMPLES


async def play(runs: Sequence[ExampleRun], home: Path, app: Penstock, view: DemoView) -> None:
    """Run all examples at once, each in a process and a folder of its own, all on the store of `app`."""
    view.start(runs)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            for run in runs:
                group.create_task(_play_one(run, home / run.example.name, store_in(home), app, view))


def store_in(home: Path) -> str:
    return f"sqlite:///{home}/penstock.db"


async def _play_one(run: ExampleRun, folder: Path, store: str, app: Penstock, view: DemoView) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    home = folder.parent if run.example.shares_home else folder / ".penstock"
    environment |= AT_HOME | {"PENSTOCK_STORE": store, "PENSTOCK_HOME": str(home)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-u", *run.example.command, cwd=folder, env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    over = asyncio.Event()
    watching = asyncio.create_task(_watch(run, app, over, view))
    try:
        assert process.stdout is not None
        async for line in process.stdout:
            run.output.append(line.decode(errors="replace").rstrip())
            view.said(run, run.output[-1])
        run.code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        over.set()
        await watching
        with contextlib.suppress(LaunchFailed):
            await asyncio.to_thread(stop_gemini, home)
    run.ended = time.time()


async def _watch(run: ExampleRun, app: Penstock, over: asyncio.Event, view: DemoView) -> None:
    """Read the example's jobs until it is over, and once more then."""
    told: dict[str, int] = {}
    while True:
        last = over.is_set()
        with contextlib.suppress(StoreError):
            found = [job for name in run.example.workflows for job in await app.jobs(workflow=name, limit=100)]
            run.jobs = sorted(found, key=lambda job: job.id, reverse=True)
            await _tell_news(run, app, told, view)
        if last:
            return
        await _pause(over)


async def _tell_news(run: ExampleRun, app: Penstock, told: dict[str, int], view: DemoView) -> None:
    news: list[tuple[Event, Job]] = []
    for job in run.jobs:
        if told.get(job.id) == -1:
            continue
        history = await app.history(job.id)
        unheard = history[max(told.get(job.id, 0), 0) :]
        news += [(event, job) for event in unheard if event.kind != "checkpoint"]
        told[job.id] = -1 if job.final else len(history)
    for event, job in sorted(news, key=lambda pair: pair[0].at):
        view.happened(run, job, event)


async def _pause(over: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LOOK_EVERY):
            await over.wait()
