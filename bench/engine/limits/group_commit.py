"""A bare durable engine that measures a limit; not a design to copy.

It keeps the promises that make its figures honest: a submit returns after its commit, a claim is committed before the
job runs, a step goes on after its outcome is committed, and a job counts as done after its result is. Everything that
wants to be written at one moment goes into one transaction, together with the next claim.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Protocol

from bench.engine.script.assignment import Assignment
from bench.engine.script.memory import resident_mb
from bench.engine.script.report import report
from bench.engine.script.timing import Stopwatch, report_latencies

CLAIM_SIZE = 200
IN_FLIGHT = 600
SUBMIT_SIZE = 1000
STEPS = 5

Claimed = tuple[int, str, str]
"""Id, name and argument of a job."""


@dataclass
class Writes:
    submitted: list[tuple[int, str, str]] = field(default_factory=list)
    steps: list[tuple[int, int, str]] = field(default_factory=list)
    results: list[tuple[int, str]] = field(default_factory=list)
    durable: list[asyncio.Future[None]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.submitted or self.steps or self.results)


class Connection(Protocol):
    async def commit(self, writes: Writes, claim: int) -> list[Claimed]:
        """Write it all and claim up to so many jobs, in one transaction."""


class GroupCommit:
    def __init__(self, connections: list[Connection]) -> None:
        self._free = list(connections)
        self._ids = itertools.count(time.time_ns())
        self._pending = Writes()
        self._wake = asyncio.Event()
        self._in_flight = 0
        self._may_be_due = True
        self._submits = 0
        self._done = 0
        self._progress = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self.started: dict[int, float] = {}
        self._spawn(self._run())

    async def submit(self, name: str, arguments: range) -> None:
        for first in range(arguments.start, arguments.stop, SUBMIT_SIZE):
            part = range(first, min(first + SUBMIT_SIZE, arguments.stop))
            self._pending.submitted += [(next(self._ids), name, json.dumps(i)) for i in part]
            await self._durable()

    async def wait(self, jobs: int) -> None:
        """Until so many jobs are done since the last wait."""
        async with self._progress:
            await self._progress.wait_for(lambda: self._done >= jobs)
        self._done -= jobs

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _durable(self) -> asyncio.Future[None]:
        future = asyncio.get_running_loop().create_future()
        self._pending.durable.append(future)
        self._wake.set()
        return future

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(0)  # every job that is ready joins this transaction
            while self._free:
                claim = min(CLAIM_SIZE, IN_FLIGHT - self._in_flight) if self._may_be_due else 0
                if not (self._pending or claim):
                    break
                writes, self._pending = self._pending, Writes()
                if claim:
                    self._in_flight += claim
                    self._may_be_due = False
                self._spawn(self._commit(self._free.pop(), writes, claim))

    async def _commit(self, connection: Connection, writes: Writes, claim: int) -> None:
        submits_before = self._submits
        claimed = await connection.commit(writes, claim)
        self._free.append(connection)
        # A claim does not see what its own statement or a concurrent transaction submits.
        self._submits += bool(writes.submitted)
        if claim:
            self._in_flight -= claim - len(claimed)
        if writes.submitted or (claim and (len(claimed) == claim or self._submits != submits_before)):
            self._may_be_due = True
        for future in writes.durable:
            future.set_result(None)
        for job in claimed:
            self._spawn(self._work(*job))
        if writes.results:
            async with self._progress:
                self._done += len(writes.results)
                self._progress.notify_all()
        self._wake.set()

    async def _work(self, job: int, name: str, argument: str) -> None:
        value = json.loads(argument)
        if name == "five":
            for step in range(STEPS):
                value += 1
                self._pending.steps.append((job, step, json.dumps(value)))
                await self._durable()
        else:
            self.started[value] = time.perf_counter()
        self._pending.results.append((job, json.dumps(value)))
        await self._durable()
        self._in_flight -= 1


async def measure_speed(engine: GroupCommit, assignment: Assignment) -> None:
    await engine.submit("noop", range(1))
    await engine.wait(1)

    watch = Stopwatch()
    await engine.submit("noop", range(assignment.jobs))
    await engine.wait(assignment.jobs)
    report("jobs", assignment.jobs / watch.seconds)

    watch = Stopwatch()
    await engine.submit("five", range(assignment.workflows))
    await engine.wait(assignment.workflows)
    report("workflows", assignment.workflows / watch.seconds)

    latencies = []
    for i in range(10**9, 10**9 + assignment.latencies):
        submitted = time.perf_counter()
        await engine.submit("noop", range(i, i + 1))
        await engine.wait(1)
        latencies.append(engine.started[i] - submitted)
        await asyncio.sleep(0.005)
    report_latencies(latencies)
    report("memory", resident_mb(os.getpid()))
