"""A process's connection to the shared store: the real store behind it, and everything that can go wrong on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from penstock.engine.audit import AuditRow
from penstock.engine.call import CallRow
from penstock.engine.errors import CommitUnknown, StoreUnavailable
from penstock.engine.model import Event, JobRow
from penstock.simulation.broker import Broker
from penstock.simulation.world import Machine
from penstock.store.protocol import (
    Applied,
    AuditFilter,
    BatchFilter,
    BatchRow,
    Budget,
    CallFilter,
    Change,
    Cost,
    CostFilter,
    JobFilter,
    Keeper,
    LockFilter,
    LockRow,
    LogLine,
    Member,
    Op,
    ScheduleRow,
    SessionRow,
    Store,
    TokenRow,
    WorkerRow,
)

T = TypeVar("T")


class FaultyStore:
    """One for each process. Transactions are made whole or not at all, but the answer may be late, wrong or lost."""

    def __init__(self, inner: Store, machine: Machine, broker: Broker) -> None:
        self.url = inner.url
        self._inner = inner
        self._machine = machine
        self._world = machine.world
        self._broker = broker

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def apply(self, ops: Sequence[Op], *, replay: bool = False) -> Applied:
        world, machine = self._world, self._machine
        hits = world.faults.hits
        slow = world.rng.random() ** 3 * 20 if hits("slow store") else 0.0
        answers_late = slow > 0 and world.rng.random() < 0.5
        await self._travel(0.0 if answers_late else slow)
        if machine.mortal and hits("crash before commit"):
            await machine.die("before a commit")
        if hits("store unavailable"):
            raise StoreUnavailable("simulated: the store is busy")
        if hits("commit unknown, not applied"):
            raise CommitUnknown("simulated: the connection broke before COMMIT arrived")
        applied = await self._inner.apply(ops, replay=replay)
        world.checker.after(machine.name, ops, applied, replay=replay)
        if applied.hints:
            self._broker.announce(machine, applied.hints)
        if machine.mortal and hits("crash after commit"):
            await machine.die("after a commit")
        if hits("commit unknown, applied"):
            raise CommitUnknown("simulated: the connection broke before the answer came")
        if answers_late:
            await asyncio.sleep(slow)
        await world.jitter()
        return applied

    async def _travel(self, slow: float) -> None:
        world = self._world
        await world.jitter()
        if slow:
            await asyncio.sleep(slow)
        if world.outage_until > world.loop.time():
            await asyncio.sleep(0.1)
            if world.rng.random() < 0.5:
                raise StoreUnavailable("simulated: the store is away")
            raise CommitUnknown("simulated: the store went away")

    async def _read(self, question: Callable[[], Awaitable[T]]) -> T:
        await self._world.jitter()
        if self._world.faults.hits("store unavailable") or self._world.outage_until > self._world.loop.time():
            raise StoreUnavailable("simulated: the store is busy")
        return await question()

    async def now(self) -> float:
        return await self._read(self._inner.now)

    async def job(self, job_id: str) -> JobRow | None:
        return await self._read(lambda: self._inner.job(job_id))

    async def jobs(self, where: JobFilter) -> list[JobRow]:
        return await self._read(lambda: self._inner.jobs(where))

    async def count(self, *, tenant: str | None = None) -> dict[tuple[str, str], int]:
        return await self._read(lambda: self._inner.count(tenant=tenant))

    async def count_calls(self) -> dict[tuple[str, str], int]:
        return await self._read(self._inner.count_calls)

    async def history(self, job_id: str) -> list[Event]:
        return await self._read(lambda: self._inner.history(job_id))

    async def history_page(
        self, job_id: str, *, after: int = 0, before: int | None = None, limit: int = 500, newest: bool = False
    ) -> list[tuple[int, Event]]:
        return await self._read(
            lambda: self._inner.history_page(job_id, after=after, before=before, limit=limit, newest=newest)
        )

    async def batch(self, batch_id: str) -> BatchRow | None:
        return await self._read(lambda: self._inner.batch(batch_id))

    async def members(self, batch_id: str, *, after: str = "", limit: int = 1000) -> list[Member]:
        return await self._read(lambda: self._inner.members(batch_id, after=after, limit=limit))

    async def locks(self, where: LockFilter | None = None) -> list[LockRow]:
        return await self._read(lambda: self._inner.locks(where))

    async def batches(self, where: BatchFilter) -> list[BatchRow]:
        return await self._read(lambda: self._inner.batches(where))

    async def changes(self, after: int, *, also: Sequence[int] = (), limit: int = 1000) -> list[Change]:
        return await self._read(lambda: self._inner.changes(after, also=also, limit=limit))

    async def last_change(self) -> int:
        return await self._read(self._inner.last_change)

    async def logs(self, job_id: str, *, limit: int = 1000) -> list[LogLine]:
        return await self._read(lambda: self._inner.logs(job_id, limit=limit))

    async def own_rows(self, statement: Any) -> list[tuple[Any, ...]]:
        return await self._read(lambda: self._inner.own_rows(statement))

    async def backlog(self, most: int) -> int:
        return await self._read(lambda: self._inner.backlog(most))

    async def audit(self, where: AuditFilter) -> list[AuditRow]:
        return await self._read(lambda: self._inner.audit(where))

    async def tokens(self, *, hash: str | None = None, id: str | None = None) -> list[TokenRow]:
        return await self._read(lambda: self._inner.tokens(hash=hash, id=id))

    async def answered(self, scope: str, key: str) -> bool:
        return await self._read(lambda: self._inner.answered(scope, key))

    async def session(self, hash: str) -> SessionRow | None:
        return await self._read(lambda: self._inner.session(hash))

    async def meters(self) -> list[tuple[str, str, float]]:
        return await self._read(self._inner.meters)

    async def series(self, names: Sequence[str], since: float) -> list[tuple[float, str, str, float]]:
        return await self._read(lambda: self._inner.series(names, since))

    async def cursor(self, name: str) -> str | None:
        return await self._read(lambda: self._inner.cursor(name))

    async def workers(self) -> list[WorkerRow]:
        return await self._read(self._inner.workers)

    async def schedules(self) -> list[ScheduleRow]:
        return await self._read(self._inner.schedules)

    async def limits(self) -> dict[str, int]:
        return await self._read(self._inner.limits)

    async def held_amounts(self, names: Sequence[str]) -> dict[str, int]:
        return await self._read(lambda: self._inner.held_amounts(names))

    async def call(self, call_id: str) -> CallRow | None:
        return await self._read(lambda: self._inner.call(call_id))

    async def last_call(self, job_id: str, key: str) -> CallRow | None:
        return await self._read(lambda: self._inner.last_call(job_id, key))

    async def calls(self, where: CallFilter) -> list[CallRow]:
        return await self._read(lambda: self._inner.calls(where))

    async def next_call_due(self, places: tuple[str, ...]) -> float | None:
        return await self._read(lambda: self._inner.next_call_due(places))

    async def costs(self, where: CostFilter) -> list[Cost]:
        return await self._read(lambda: self._inner.costs(where))

    async def budgets(self, *, scope: str | None = None) -> list[Budget]:
        return await self._read(lambda: self._inner.budgets(scope=scope))

    async def halting(self, worker: str) -> dict[str, str]:
        return await self._read(lambda: self._inner.halting(worker))

    async def ready_queues(self) -> list[str]:
        return await self._read(self._inner.ready_queues)

    async def next_due(self) -> float | None:
        return await self._read(self._inner.next_due)

    def on_change(self, listener: Callable[[set[str]], None]) -> Callable[[], None]:
        return self._broker.listen(self._machine, listener)

    def keeper(self) -> Keeper:
        raise NotImplementedError("a simulation has no threads: heartbeats go through Engine.beat()")
