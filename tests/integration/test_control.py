"""Pause, resume, cancel and retry, as a person asks for them while work runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from penstock import (
    Again,
    Conflict,
    Context,
    FollowUp,
    NotFound,
    Penstock,
    Permanent,
    Priority,
    Retention,
    Workflow,
)
from tests.integration.test_steps import running, until


class Work(BaseModel):
    n: int = 0


def test_pause_lets_the_tick_in_flight_commit_and_resume_goes_on(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Work)
    started, go_on = asyncio.Event(), asyncio.Event()

    @flow.step
    async def first(work: Work, ctx: Context) -> Work:
        started.set()
        await go_on.wait()
        return Work(n=1)

    @flow.step
    async def second(work: Work, ctx: Context) -> int:
        return work.n + 1

    async def main() -> None:
        async with running(tmp_path, flow) as app:
            job = (await app.submit(flow, Work())).job_id
            await started.wait()
            assert (await app.pause(job, reason="lunch")).status == "running"
            go_on.set()
            paused = await until(app, job, "paused")
            assert (paused.step, paused.payload, paused.reason) == ("second", {"n": 1}, "lunch")
            await app.resume(job)
            assert (await app.wait(job, timeout=30)).result == 2

    asyncio.run(main())


def test_a_long_step_learns_that_it_is_to_stop(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Work)

    @flow.step
    async def work(work: Work, ctx: Context) -> Again | int:
        while not ctx.halted:
            await asyncio.sleep(0.01)
            work.n += 1
            if work.n > 3000:
                return -1
        return Again(work)

    async def main() -> None:
        async with running(tmp_path, flow) as app:
            job = (await app.submit(flow, Work())).job_id
            await until(app, job, "running")
            async with Penstock(workflows=[flow], store=f"sqlite:///{tmp_path}/jobs.db", outputs=tmp_path) as other:
                await other.pause(job)
            assert (await until(app, job, "paused")).payload["n"] > 0

    asyncio.run(main())


def test_an_interrupted_wait_goes_on_to_its_own_end(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Work)

    @flow.step
    async def wait(work: Work, ctx: Context) -> Again | int:
        return Again(Work(n=1), after=3600) if work.n == 0 else 1

    async def main() -> None:
        async with running(tmp_path, flow) as app:
            job = (await app.submit(flow, Work())).job_id
            due = (await until(app, job, "waiting")).due
            await app.pause(job)
            assert (await app.job(job)).status == "paused"
            resumed = await app.resume(job)
            assert (resumed.status, resumed.due) == ("waiting", due)

    asyncio.run(main())


def test_cancel_refuses_the_ticks_outcome_runs_the_clean_up_and_keeps_the_lock_until_then(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Work)
    started, go_on, cleaning, finish = asyncio.Event(), asyncio.Event(), asyncio.Event(), asyncio.Event()
    cleaned: list[int] = []

    @flow.step
    async def work(work: Work, ctx: Context) -> str:
        await ctx.lock("shelf")
        await ctx.checkpoint(Work(n=5))
        ctx.count(written=1)
        started.set()
        await go_on.wait()
        return "finished after all"

    @flow.cleanup
    async def clean(work: Work, ctx: Context) -> None:
        cleaning.set()
        await finish.wait()
        cleaned.append(work.n)

    async def main() -> None:
        async with running(tmp_path, flow) as app:
            job = (await app.submit(flow, Work())).job_id
            await started.wait()
            await app.cancel(job)
            go_on.set()
            await cleaning.wait()
            assert (await app.job(job)).status == "canceling"
            assert [lock.name for lock in await app.engine.store.locks()] == ["shelf"]
            finish.set()
            done = await app.wait(job, timeout=30)
            assert (done.status, done.result, done.counters, cleaned) == ("canceled", None, {}, [5])
            assert await app.engine.store.locks() == []

    asyncio.run(main())


def test_cancel_without_a_clean_up_step_is_done_when_the_running_step_has_ended(tmp_path: Path) -> None:
    workflow = Workflow("quick", payload=int)
    begun, go = asyncio.Event(), asyncio.Event()

    @workflow.step
    async def work(number: int, ctx: Context) -> int:
        begun.set()
        await go.wait()
        return number if ctx.halted else -1

    async def main() -> None:
        app = Penstock(workflows=[workflow], store=f"sqlite:///{tmp_path / 'jobs.db'}")
        async with app, app.worker():
            job = (await app.submit(workflow, 1)).job_id
            await begun.wait()
            asked = await app.cancel(job)
            assert (asked.status, asked.halting) == ("running", "cancel")
            go.set()
            done = await app.wait(job, timeout=30)
            assert (done.status, done.result) == ("canceled", None)

    asyncio.run(main())


def test_cancel_without_a_clean_up_step_is_immediate(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Work)

    @flow.step
    async def wait(work: Work, ctx: Context) -> Again:
        return Again(work, after=3600)

    async def main() -> None:
        async with running(tmp_path, flow) as app:
            job = (await app.submit(flow, Work())).job_id
            await until(app, job, "waiting")
            assert (await app.cancel(job)).status == "canceled"
            with pytest.raises(Conflict, match="is canceled and cannot be canceled"):
                await app.cancel(job)

    asyncio.run(main())


def test_retry_is_the_next_run_from_the_failed_step(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Work)
    mended = False
    ran: list[str] = []

    @flow.step
    async def first(work: Work, ctx: Context) -> Work:
        ran.append("first")
        return Work(n=7)

    @flow.step
    async def second(work: Work, ctx: Context) -> int:
        ran.append("second")
        if not mended:
            raise Permanent("not yet")
        return work.n

    async def main() -> None:
        nonlocal mended
        async with running(tmp_path, flow) as app:
            job = (await app.submit(flow, Work(), key="k")).job_id
            assert (await app.wait(job, timeout=30)).status == "failed"
            mended = True
            again = await app.retry(job)
            assert (again.run, again.step, again.key) == (2, "second", "k")
            assert (await app.wait(again.id, timeout=30)).result == 7
            assert ran == ["first", "second", "second"]
            assert (await app.job(job)).status == "failed", "the old run stays final"
            with pytest.raises(Conflict, match="has been run again already"):
                await app.retry(job)

    asyncio.run(main())


def test_the_most_urgent_job_goes_first_and_age_makes_urgent(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=str)
    order: list[str] = []

    @flow.step
    async def work(name: str, ctx: Context) -> None:
        order.append(name)

    async def main() -> None:
        app = Penstock(workflows=[flow], store=f"sqlite:///{tmp_path}/jobs.db", outputs=tmp_path)
        async with app:
            now = app.engine.clock.now()
            for name, priority in (
                ("free, new", Priority(base=50, ageing=None)),
                ("premium, new", Priority(base=70, ageing=None)),
                ("free, 20 h old", Priority(base=50, aged_from=now - 20 * 3600 - 60)),
                ("free, 20 h old, not ageing", Priority(base=50, ageing=None, aged_from=now - 20 * 3600)),
                ("enterprise", Priority(base=90)),
            ):
                await app.submit(flow, name, priority=priority)
            while await app.engine.advance_next() is not None:
                pass
        assert order == ["enterprise", "free, 20 h old", "premium, new", "free, 20 h old, not ageing", "free, new"]

    asyncio.run(main())


def test_limits_hold_for_workflow_resource_and_tenant(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Work)
    now: dict[str, int] = {}
    most: dict[str, int] = {}

    def enter(*names: str) -> None:
        for name in names:
            now[name] = now.get(name, 0) + 1
            most[name] = max(most.get(name, 0), now[name])

    @flow.step(resource="gpu")
    async def work(work: Work, ctx: Context) -> None:
        names = ("all", f"tenant {ctx.job.tenant}")
        enter(*names)
        await asyncio.sleep(0.02)
        for name in names:
            now[name] -= 1

    async def main() -> None:
        limits = {"resource:gpu": 4, "tenant:*": 3, "tenant:small": 1}
        async with running(tmp_path, flow, limits=limits) as app:
            jobs: list[Any] = []
            for tenant in ("small", "large", "other"):
                jobs += await app.submit_many(flow, [Work(n=n) for n in range(8)], tenant=tenant)
            for job in jobs:
                assert (await app.wait(job.job_id, timeout=30)).status == "completed"
        assert most["all"] <= 4 and most["tenant small"] == 1 and most["tenant large"] <= 3
        assert most["all"] > 1, "the limits still let work run side by side"

    asyncio.run(main())


def test_a_schedule_that_was_missed_fires_once(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Work)

    @flow.step
    async def work(work: Work, ctx: Context) -> None:
        pass

    class Later:
        offset = 0.0

        def now(self) -> float:
            return 1_800_000_000.0 + self.offset

        def monotonic(self) -> float:
            return self.now()

        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(seconds)

    async def main() -> None:
        clock = Later()
        app = Penstock(workflows=[flow], store=f"sqlite:///{tmp_path}/jobs.db", outputs=tmp_path, clock=clock)
        async with app:
            await app.schedule("nightly", "0 3 * * *", flow, Work(), timezone="Europe/Berlin")
            assert (await app.engine.sweep()).fired == 0
            clock.offset = 5 * 86400
            assert (await app.engine.sweep()).fired == 1
            assert (await app.engine.sweep()).fired == 0
            assert len(await app.jobs()) == 1
            (schedule,) = await app.schedules()
            assert schedule.next_due > clock.now()

    asyncio.run(main())


def test_retrying_a_batch_runs_what_failed_and_its_follow_up_once_more(tmp_path: Path) -> None:
    part = Workflow("part", payload=int)
    mended = False

    @part.step
    async def work(n: int, ctx: Context) -> int:
        if n == 2 and not mended:
            raise Permanent("not yet")
        return n

    total = Workflow("total", payload=str)

    @total.step
    async def add(name: str, ctx: Context) -> list[int]:
        return sorted([job.result async for job in ctx.members() if job.status == "completed"])

    async def ended(app: Penstock, batch_id: str) -> Any:
        async with asyncio.timeout(30):
            while (batch := await app.batch(batch_id)).follow_up is None:
                await asyncio.sleep(0.01)
        return batch, await app.wait(batch.follow_up, timeout=30)

    async def main() -> None:
        nonlocal mended
        async with running(tmp_path, part, total) as app:
            batch = await app.open_batch(key="b", then=FollowUp(workflow=total, payload="sum"))
            await app.submit_many(part, range(4), batch=batch.id)
            with pytest.raises(Conflict, match="has not ended"):
                await app.retry_batch(batch.id)
            await app.seal_batch(batch.id)
            first, summed = await ended(app, batch.id)
            assert (first.completed, first.failed, summed.result) == (3, 1, [0, 1, 3])
            mended = True
            again = await app.retry_batch(batch.id)
            second, summed = await ended(app, again.id)
            assert (second.generation, second.members, second.completed) == (2, 4, 4)
            assert summed.result == [0, 1, 2, 3]
            with pytest.raises(Conflict, match="has been retried already"):
                await app.retry_batch(batch.id)

    asyncio.run(main())


def test_a_fair_share_of_claims_goes_to_the_oldest(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=str)
    order: list[str] = []

    @flow.step
    async def work(name: str, ctx: Context) -> None:
        order.append(name)

    async def main() -> None:
        store = f"sqlite:///{tmp_path}/jobs.db"
        async with Penstock(workflows=[flow], store=store, outputs=tmp_path, fair_share=0.25) as app:
            for n in range(3):
                await app.submit(flow, f"humble {n}", priority=Priority(base=1, ageing=None))
            for _ in range(12):
                await app.submit(flow, "urgent", priority=Priority(base=99, ageing=None))
            for _ in range(12):
                await app.engine.advance_next()
        assert order[:4] == ["urgent"] * 4, "nobody has a share of what was not given out yet"
        assert [name for name in order if name != "urgent"] == ["humble 0", "humble 1"], "a quarter of the claims"

    asyncio.run(main())


def test_members_are_kept_until_their_follow_up_has_read_them(tmp_path: Path) -> None:
    part, total = Workflow("part", payload=int), Workflow("total", payload=str)

    @part.step
    async def work(n: int, ctx: Context) -> int:
        return n

    @total.step
    async def add(name: str, ctx: Context) -> int:
        return sum([job.result async for job in ctx.members()])

    async def main() -> None:
        store = f"sqlite:///{tmp_path}/jobs.db"
        app = Penstock(
            workflows=[part, total], store=store, outputs=tmp_path, retention=Retention(completed=0.0, failed=0.0)
        )
        async with app:
            batch = await app.open_batch(then=FollowUp(workflow=total, payload="sum"))
            await app.submit_many(part, range(4), batch=batch.id)
            await app.seal_batch(batch.id)
            for _ in range(4):
                await app.engine.advance_next()
            assert (await app.engine.sweep()).dropped == 0, "the follow-up has not run yet"
            await app.engine.advance_next()
            follow_up = (await app.batch(batch.id)).follow_up
            assert follow_up is not None and (await app.job(follow_up)).result == 6
            assert (await app.engine.sweep()).dropped == 5
            with pytest.raises(NotFound):
                await app.batch(batch.id)

    asyncio.run(main())
