"""The demo's examples: started as programs, watched through their stores, and judged by how their jobs ended."""

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
from penstock.config import Settings
from penstock.engine.errors import NotFound, StoreError
from penstock.engine.model import Event, Job
from penstock.gemini_local.launch import LaunchFailed
from penstock.gemini_local.launch import stop as stop_gemini

FOLDER = Path(__file__).resolve().parents[3] / "examples"
LOOK_EVERY = 0.2
PATIENCE = 90.0
AT_HOME = {"PENSTOCK_LOCAL_GEMINI__USE": "always"}
"""Nothing here may cost money, whatever key is in the environment."""


@dataclass(slots=True, frozen=True)
class Example:
    """A program, and how its jobs end when all is well."""

    name: str
    title: str
    expected: dict[str, int]

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.py"


EXAMPLES = (
    Example("hello", "hello", {"completed": 1}),
    Example("retry", "retry", {"completed": 1, "failed": 1}),
    Example("wait_and_poll", "wait and poll", {"completed": 3}),
    Example("batch_fan_in", "batch with fan-in", {"completed": 12, "failed": 1}),
    Example("pause_cancel_cleanup", "pause, cancel, clean up", {"completed": 1, "canceled": 1}),
    Example("priorities", "priorities", {"completed": 6}),
    Example("gemini_batch", "Gemini batch, offline", {"completed": 1}),
    Example("never_paid_twice", "never paid twice", {"completed": 1}),
    Example("budget", "a budget", {"completed": 1}),
)


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

    def over(self, *, stays: bool) -> None: ...

    def stop(self) -> None: ...


def examples() -> tuple[Example, ...]:
    """The examples, if this is a clone of the repository."""
    missing = [example.name for example in EXAMPLES if not example.path.is_file()]
    if missing:
        raise NotFound("the demo runs the programs in examples/, which only a clone has: run `make demo` there")
    return EXAMPLES


async def play(programs: Sequence[Example], home: Path, view: DemoView, *, stay: bool) -> list[ExampleRun]:
    """Run all examples at once. With `stay` the view is left up until somebody ends it."""
    runs = [ExampleRun(example) for example in programs]
    view.start(runs)
    try:
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            for run in runs:
                group.create_task(_play_one(run, home / run.example.name, view))
    except TimeoutError:
        pass
    else:
        view.over(stays=stay)
        if stay:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
    finally:
        view.stop()
    return runs


async def _play_one(run: ExampleRun, folder: Path, view: DemoView) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")} | AT_HOME
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-u", str(run.example.path), cwd=folder, env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    over = asyncio.Event()
    watching = asyncio.create_task(_watch(run, folder / ".penstock" / "penstock.db", over, view))
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
            await asyncio.to_thread(stop_gemini, folder / ".penstock")
    run.ended = time.time()


async def _watch(run: ExampleRun, path: Path, over: asyncio.Event, view: DemoView) -> None:
    """Read the example's store until it is over, and once more then."""
    while not _is_there(path):
        if over.is_set():
            return
        await _pause(over)
    app = await Penstock(store=f"sqlite:///{path}").open(settings=Settings())
    told: dict[str, int] = {}
    try:
        while True:
            last = over.is_set()
            with contextlib.suppress(StoreError):
                run.jobs = await app.jobs(limit=100)
                await _tell_news(run, app, told, view)
            if last:
                return
            await _pause(over)
    finally:
        await app.close()


def _is_there(path: Path) -> bool:
    return path.exists()


async def _tell_news(run: ExampleRun, app: Penstock, told: dict[str, int], view: DemoView) -> None:
    news: list[tuple[Event, Job]] = []
    for job in run.jobs:
        if told.get(job.id) == -1:
            continue
        history = await app.history(job.id)
        news += [(event, job) for event in history[max(told.get(job.id, 0), 0) :]]
        told[job.id] = -1 if job.final else len(history)
    for event, job in sorted(news, key=lambda pair: pair[0].at):
        view.happened(run, job, event)


async def _pause(over: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LOOK_EVERY):
            await over.wait()
