"""Many seeds of the built-in scenario, on all cores."""

from __future__ import annotations

import gc
import os
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import count
from multiprocessing import get_context

from penstock.simulation.call_client import spending
from penstock.simulation.call_sample import CALL_WORKFLOWS
from penstock.simulation.client import restless
from penstock.simulation.providers import three
from penstock.simulation.run import Report, simulate
from penstock.simulation.sample import WORKFLOWS
from penstock.simulation.world import Violation

CHUNK = 50
SQLITE_SHARE = 20
"""One seed in so many runs on SQLite where no store is named."""

REMOTE_SHARE = 9
"""One seed in so many makes remote calls. Not a divisor of the other, so that all kinds meet."""


@dataclass(slots=True)
class Failure:
    seed: int
    rule: str
    text: str
    trace: tuple[str, ...]


@dataclass(slots=True)
class Sum:
    """What many runs came to."""

    seeds: int = 0
    jobs: int = 0
    transactions: int = 0
    virtual: float = 0.0
    cpu: float = 0.0
    wall: float = 0.0
    stores: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    effects: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, report: Report) -> None:
        self.jobs += report.jobs
        self.transactions += report.transactions
        self.virtual += report.seconds
        self.statuses.update(report.statuses)
        self.faults.update(report.faults)
        self.effects.update(report.effects)

    def join(self, other: Sum) -> None:
        self.seeds += other.seeds
        self.jobs += other.jobs
        self.transactions += other.transactions
        self.virtual += other.virtual
        self.cpu += other.cpu
        self.failures += other.failures
        for mine, theirs in (
            (self.stores, other.stores),
            (self.statuses, other.statuses),
            (self.faults, other.faults),
            (self.effects, other.effects),
        ):
            mine.update(theirs)


def store_of(seed: int, store: str | None) -> str:
    return store or ("sqlite" if seed % SQLITE_SHARE == SQLITE_SHARE - 1 else "memory")


def makes_calls(seed: int) -> bool:
    return seed % REMOTE_SHARE == REMOTE_SHARE - 1


def seeds_with_calls(first: int = 0) -> Iterator[int]:
    """The seeds whose scenario makes remote calls."""
    return filter(makes_calls, count(first))


def run_seed(seed: int, store: str | None = None, *, trace: bool = False) -> Report:
    """The built-in scenario under one seed; for some it is the one that makes remote calls."""
    if makes_calls(seed):
        return simulate(CALL_WORKFLOWS, spending, seed=seed, store=store_of(seed, store), trace=trace, providers=three)
    return simulate(WORKFLOWS, restless, seed=seed, store=store_of(seed, store), trace=trace)


def run_some(seeds: range, store: str | None) -> Sum:
    """Some seeds in this process."""
    total = Sum()
    began = time.process_time()
    gc.collect()
    gc.freeze()
    for seed in seeds:
        total.seeds += 1
        total.stores[store_of(seed, store)] += 1
        try:
            total.add(run_seed(seed, store))
        except Violation as broken:
            total.failures.append(Failure(seed, broken.rule, str(broken), broken.trace))
    gc.unfreeze()
    gc.collect()
    total.cpu = time.process_time() - began
    return total


def run_many(
    *,
    seeds: int | None,
    first: int = 0,
    store: str | None = None,
    processes: int | None = None,
    seconds: float | None = None,
    stop_at_failure: bool = False,
) -> Sum:
    """`seeds` of them, or as many as fit into `seconds`; over `processes` (None: one for each core)."""
    total = Sum()
    began = time.monotonic()
    workers = processes or os.cpu_count() or 1
    chunks = _chunks(first, seeds)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running: set[Future[Sum]] = set()
        while True:
            over = seconds is not None and time.monotonic() - began > seconds
            while len(running) < 2 * workers and not over and not (stop_at_failure and total.failures):
                chunk = next(chunks, None)
                if chunk is None:
                    break
                running.add(pool.submit(run_some, chunk, store))
            if not running:
                break
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                total.join(future.result())
    total.failures.sort(key=lambda failure: failure.seed)
    total.wall = time.monotonic() - began
    return total


def _chunks(first: int, seeds: int | None) -> Iterator[range]:
    end = None if seeds is None else first + seeds
    for start in count(first, CHUNK):
        if end is not None and start >= end:
            return
        yield range(start, start + CHUNK if end is None else min(start + CHUNK, end))
