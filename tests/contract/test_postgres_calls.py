"""Remote calls and budgets when several processes work on them at once."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import asyncpg

from penstock.engine.call import LIVE, CallRow, Fact, Hold, NewCall, call_id
from penstock.engine.errors import Blocked
from penstock.engine.model import JobRow, NewJob
from penstock.engine.outcome import Move
from penstock.store.protocol import (
    Beat,
    CallFilter,
    Claim,
    Commit,
    Intend,
    Learn,
    Op,
    OpenBatch,
    SetBudget,
    SetLimits,
    Submit,
    TakeCalls,
)
from penstock.store.sql.postgres import PostgresStore
from tests.contract.test_postgres_store import do, job, opened

AN_HOUR = 3600.0


def call(**options: Any) -> NewCall:
    return NewCall(remote="batch", key="c", attempt=1, **options)


def move(row: JobRow, kind: Any, **options: Any) -> Commit:
    return Commit(Move(row.id, row.epoch, row.moves + 1, kind, row.step, row.payload, **options))


def fact(call_id: str, kind: str, **options: Any) -> Learn:
    return Learn(Fact(call=call_id, kind=kind, **options))


def test_a_job_that_waits_for_a_call_that_ends_at_that_moment_goes_on(postgres_url: str) -> None:
    async def go() -> None:
        async with opened(postgres_url, many=3) as [ours, theirs, others]:
            names = [f"j{n:02}" for n in range(60)]
            await do(ours, Beat("w", 600, first=True), Submit(tuple(job(name) for name in names)))
            [claimed] = await do(ours, Claim("w", "default", ("draw",), room=60))
            await do(ours, *(Intend(row.id, row.epoch, call()) for row in claimed.rows))
            for row in claimed.rows:
                its_call = call_id(row.id, "c", 1)
                kind = ("collected", "doubted", "absent", "refused", "lost", "found")[int(row.id[1:]) % 6]
                await asyncio.gather(
                    do(ours, move(row, "again", after=AN_HOUR, until=(its_call,))),
                    do(theirs, fact(its_call, kind)),
                    do(others, TakeCalls(("batch",), 8, 5.0)),
                )
            stored = [(await ours.job(name), (await ours.last_call(name, "c"))) for name in names]
            waiting = {c.state for j, c in stored if j is not None and c is not None and j.status == "waiting"}
            assert waiting == {"submitted"}, "only a call that goes on is waited for"

    asyncio.run(go())


JOBS, CALLS_AT_ONCE, TOKENS, COST, ESTIMATE = 60, 5, 60, 10, 30
BATCHES = 3
RUNS_SPEND = JOBS // BATCHES * COST
ALL_SPEND = JOBS * COST
MOST_OF_TENANT = ALL_SPEND + ESTIMATE


def test_many_that_send_and_learn_at_once_keep_limits_and_budgets(postgres_url: str) -> None:
    """Each connection sends, polls and collects in groups of any order, also what the others have sent."""

    async def go() -> None:
        async with opened(postgres_url, many=4) as stores, watched(postgres_url):
            first = stores[0]
            await do(first, *(Beat(f"w{n}", 600, first=True) for n in range(4)))
            await do(first, *(OpenBatch(f"b{n}", "default", f"b{n}") for n in range(BATCHES)))
            await do(first, SetLimits({"resource:gpu": CALLS_AT_ONCE}), SetBudget("tenant:default", MOST_OF_TENANT))
            await do(first, *(SetBudget(f"batch:b{n}", RUNS_SPEND + ESTIMATE) for n in range(BATCHES)))
            await do(first, Submit(tuple(_of_batch(n) for n in range(JOBS))))
            await asyncio.gather(*(_work(store, n) for n, store in enumerate(stores)))
            ended = await first.calls(CallFilter(limit=1000))
            assert {row.state for row in ended} == {"collected"} and len(ended) == JOBS
            budgets = {budget.scope: (budget.spent, budget.reserved) for budget in await first.budgets()}
            assert budgets == {"tenant:default": (ALL_SPEND, 0)} | {
                f"batch:b{n}": (RUNS_SPEND, 0) for n in range(BATCHES)
            }
        assert await _deadlocks(postgres_url) == 0

    asyncio.run(go())


def _of_batch(n: int) -> NewJob:
    return job(f"j{n:02}", batch=f"b{n % BATCHES}")


async def _work(store: PostgresStore, n: int) -> None:
    rng = random.Random(n)
    mine: dict[str, JobRow] = {}
    while await store.count() != {("draw", "completed"): JOBS}:
        [claimed] = await do(store, Claim(f"w{n}", "default", ("draw",), room=6))
        mine.update({row.id: row for row in claimed.rows})
        [due] = await do(store, TakeCalls(("batch",), 8, 5.0))
        ops: list[Op] = [_looked_at(row) for row in due if row.state != "intent"]
        ops += [_next(row, await store.last_call(row.id, "c")) for row in mine.values()]
        rng.shuffle(ops)
        answers = (await store.apply(ops)).answers
        for op, answer in zip(ops, answers, strict=True):
            if isinstance(op, Intend) and isinstance(answer, Blocked):
                await do(store, move(mine.pop(op.job), "retry"))
            elif isinstance(answer, BaseException):
                raise answer
            elif isinstance(op, Commit):
                del mine[op.move.job]


def _looked_at(row: CallRow) -> Learn:
    if row.state == "succeeded":
        return fact(row.id, "collected", cost=COST, result="1")
    return fact(row.id, "succeeded", look_in=0.0)


def _next(row: JobRow, last: CallRow | None) -> Op:
    if last is None:
        holds = (Hold("resource:gpu"), Hold("tokens", 10, TOKENS))
        return Intend(row.id, row.epoch, call(holds=holds, estimate=ESTIMATE))
    if last.state == "intent":
        return fact(last.id, "sent", look_in=0.0)
    if last.state == "collected":
        return move(row, "done")
    return move(row, "again", after=AN_HOUR, until=(last.id,))


@contextlib.asynccontextmanager
async def watched(url: str) -> AsyncIterator[None]:
    """Looks again and again, from a connection of its own, whether more is held or promised than there is."""
    most = {"resource:gpu": CALLS_AT_ONCE, "tokens": TOKENS}
    look = await asyncpg.connect(url)
    over = asyncio.Event()

    async def watch() -> None:
        while not over.is_set():
            sums = await look.fetch("SELECT name, sum(amount) FROM holds GROUP BY name")
            held = {row["name"]: row["sum"] for row in sums}
            assert all(held.get(name, 0) <= limit for name, limit in most.items()), held
            overdrawn = await look.fetch(
                "SELECT scope FROM budgets WHERE spent + coalesce((SELECT sum(amount) FROM holds"
                " WHERE name = 'budget:' || scope), 0) > most"
            )
            assert not overdrawn
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        over.set()
        try:
            await watching
        finally:
            await look.close()


async def _deadlocks(url: str) -> int:
    """Told by connections when they are closed."""
    look = await asyncpg.connect(url)
    try:
        return int(await look.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"))
    finally:
        await look.close()


def test_a_budget_that_is_set_while_calls_are_sent_knows_all_of_them(postgres_url: str) -> None:
    async def go() -> None:
        async with opened(postgres_url, many=3) as [ours, theirs, others]:
            await do(ours, Beat("w", 600, first=True), Submit(tuple(job(f"j{n:02}") for n in range(40))))
            [claimed] = await do(ours, Claim("w", "default", ("draw",), room=40))

            async def send(store: PostgresStore, rows: list[JobRow]) -> None:
                for row in rows:
                    await do(store, Intend(row.id, row.epoch, call(estimate=ESTIMATE)))

            async def reset() -> None:
                for most in (10**6, None) * 10:
                    await do(others, SetBudget("tenant:default", most))
                await do(others, SetBudget("tenant:default", 10**6))

            await asyncio.gather(send(ours, claimed.rows[:20]), send(theirs, claimed.rows[20:]), reset())
            live = await ours.calls(CallFilter(state=tuple(LIVE), limit=100))
            [budget] = await ours.budgets()
            assert (len(live), budget.reserved) == (40, 40 * ESTIMATE)
            await do(ours, *(fact(row.id, "collected", cost=COST) for row in live))
            [budget] = await ours.budgets()
            assert (budget.spent, budget.reserved) == (40 * COST, 0)

    asyncio.run(go())
