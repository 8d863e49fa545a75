"""Everything a call may use, put together once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

from penstock.engine.clock import Clock
from penstock.gemini_local.answering import Answering
from penstock.gemini_local.backend import Backend
from penstock.gemini_local.batches import Batches
from penstock.gemini_local.caches import Caches
from penstock.gemini_local.faults import Faults
from penstock.gemini_local.files import Files
from penstock.gemini_local.journal import Journal
from penstock.gemini_local.runner import Runner
from penstock.gemini_local.settings import Settings
from penstock.gemini_local.state import STARTS, State
from penstock.gemini_local.timepiece import Timepiece
from penstock.gemini_local.uploads import InThread, Uploads


@dataclass(slots=True, frozen=True)
class Services:
    settings: Settings
    state: State
    clock: Timepiece
    rng: Random
    in_thread: InThread
    faults: Faults
    journal: Journal
    files: Files
    uploads: Uploads
    caches: Caches
    batches: Batches
    answering: Answering
    runner: Runner

    @property
    def backend(self) -> Backend:
        return self.answering.backend

    def expire_batches(self) -> None:
        for id in self.batches.expire():
            self.runner.stop(id)


def open_services(
    folder: Path, backend: Backend, *, clock: Clock, rng: Random, settings: Settings, in_thread: InThread
) -> Services:
    """Opens the state in `folder`. Raises `FolderTaken`."""
    state = State(folder)
    starts = state.fact(STARTS, 0) + 1
    state.set_fact(STARTS, starts)
    if starts > 1:
        # A seed that was used before would give the same ids again.
        rng.seed(f"{rng.random()} {starts}")
    time = Timepiece(clock, state.fact("clock offset", 0.0))
    faults = Faults(state, rng)
    files = Files(state, settings, time, rng)
    caches = Caches(state, settings, time, rng)
    batches = Batches(state, files, settings, time, rng)
    answering = Answering(backend, files, caches, rng)
    return Services(
        settings=settings,
        state=state,
        clock=time,
        rng=rng,
        in_thread=in_thread,
        faults=faults,
        journal=Journal(state, settings.journal_rows),
        files=files,
        uploads=Uploads(state, files, faults, settings, time, rng, in_thread),
        caches=caches,
        batches=batches,
        answering=answering,
        runner=Runner(state, batches, answering, settings, time, in_thread),
    )
