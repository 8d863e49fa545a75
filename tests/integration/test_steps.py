"""What authors are promised about steps: outcomes, errors, limits of time, and what joins the commit."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from penstock import (
    Again,
    Ambiguous,
    Conflict,
    Context,
    FollowUp,
    Goto,
    InvalidPayload,
    NotFound,
    Penstock,
    Permanent,
    RateLimited,
    Retry,
    Transient,
    Workflow,
)

QUICK = Retry(attempts=3, base=0.01, factor=1, jitter=0)


class Count(BaseModel):
    n: int = 0


@asynccontextmanager
async def running(tmp_path: Path, *workflows: Workflow, **options: Any) -> AsyncIterator[Penstock]:
    app = Penstock(workflows=workflows, store=f"sqlite:///{tmp_path}/jobs.db", outputs=tmp_path / "outputs", **options)
    async with app, app.worker(grace=1.0):
        yield app


def outcome_of(tmp_path: Path, workflow: Workflow, payload: Any, **options: Any) -> Any:
    async def main() -> Any:
        async with running(tmp_path, workflow, **options) as app:
            job = await app.submit(workflow, payload)
            return await app.wait(job.job_id, timeout=30)

    return asyncio.run(main())


def test_steps_run_in_order_and_the_last_value_is_the_result(tmp_path: Path) -> None:
    chain = Workflow("chain", payload=Count)

    @chain.step
    async def first(count: Count, ctx: Context) -> Count:
        return Count(n=count.n + 1)

    @chain.step
    async def second(count: Count, ctx: Context) -> dict[str, int]:
        return {"n": count.n + 10}

    job = outcome_of(tmp_path, chain, Count(n=1))
    assert (job.status, job.result, job.step) == ("completed", {"n": 12}, "second")


def test_goto_skips_and_again_repeats(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count)

    @flow.step
    async def poll(count: Count, ctx: Context) -> Again | Goto:
        ctx.count(polls=1)
        return Again(Count(n=count.n + 1), after=0.01) if count.n < 3 else Goto(last, count)

    @flow.step
    async def skipped(count: Count, ctx: Context) -> Count:
        raise Permanent("must not run")

    @flow.step
    async def last(count: Count, ctx: Context) -> int:
        return count.n

    job = outcome_of(tmp_path, flow, Count())
    assert (job.status, job.result, job.counters) == ("completed", 3, {"polls": 4})


def test_transient_errors_are_retried_within_the_policy_and_then_fail(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count, retry=QUICK)
    tries = []

    @flow.step
    async def fail(count: Count, ctx: Context) -> None:
        tries.append(ctx.job.attempt)
        raise Transient("not today")

    job = outcome_of(tmp_path, flow, Count())
    assert (job.status, job.error, tries) == ("failed", "Transient: not today", [1, 2, 3])


def test_rate_limits_do_not_use_up_the_attempts(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count, retry=Retry(attempts=1))
    calls = []

    @flow.step
    async def call(count: Count, ctx: Context) -> str:
        calls.append(1)
        if len(calls) < 5:
            raise RateLimited(retry_after=0.01)
        return "ok"

    job = outcome_of(tmp_path, flow, Count())
    assert (job.status, job.result, len(calls)) == ("completed", "ok", 5)


@pytest.mark.parametrize("error", [Permanent("never"), KeyError("fatal here")])
def test_permanent_and_fatal_errors_fail_at_once(tmp_path: Path, error: Exception) -> None:
    flow = Workflow("flow", payload=Count, retry=Retry(attempts=5, base=0, fatal=(KeyError,)))
    tries = []

    @flow.step
    async def fail(count: Count, ctx: Context) -> None:
        tries.append(1)
        raise error

    job = outcome_of(tmp_path, flow, Count())
    assert (job.status, len(tries)) == ("failed", 1)


def test_ambiguous_parks_the_job_for_a_person(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count)

    @flow.step
    async def call(count: Count, ctx: Context) -> None:
        raise Ambiguous("sent, but no answer")

    async def main() -> None:
        async with running(tmp_path, flow) as app:
            job = await app.submit(flow, Count())
            parked = await until(app, job.job_id, "paused")
            assert parked.reason == "Ambiguous: sent, but no answer"

    asyncio.run(main())


async def until(app: Penstock, job_id: str, status: str) -> Any:
    async with asyncio.timeout(30):
        while (job := await app.job(job_id)).status != status:
            await asyncio.sleep(0.01)
    return job


def test_a_soft_timeout_cancels_the_step_and_counts_as_a_failed_try(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count, retry=Retry(attempts=2, base=0))
    cleaned = []

    @flow.step(timeout=0.2)
    async def hang(count: Count, ctx: Context) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append(1)

    job = outcome_of(tmp_path, flow, Count())
    assert (job.status, len(cleaned)) == ("failed", 2)
    assert job.error == "StepTimeout: step 'hang' ran longer than 0.2 s"


def test_a_step_that_ignores_its_soft_limit_loses_the_job_at_the_hard_one(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count, retry=Retry(attempts=1))
    stubborn = threading.Event()

    @flow.step(timeout=0.1, hard_timeout=0.4)
    async def hang(count: Count, ctx: Context) -> str:
        while not stubborn.is_set():
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue
        return "too late"

    async def main() -> Any:
        async with running(tmp_path, flow) as app:
            submitted = await app.submit(flow, Count())
            job = await app.wait(submitted.job_id, timeout=30)
            stubborn.set()
            return job

    job = asyncio.run(main())
    assert (job.status, job.result) == ("failed", None)
    assert "hard limit of 0.4 s" in job.error


def test_blocking_code_on_the_loop_is_interrupted_at_its_hard_limit(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count, retry=Retry(attempts=1))

    @flow.step(hard_timeout=0.5)
    async def block(count: Count, ctx: Context) -> str:
        time.sleep(60)
        return "never"

    began = time.monotonic()
    job = outcome_of(tmp_path, flow, Count())
    assert job.status == "failed" and "blocked past its hard limit" in job.error
    assert time.monotonic() - began < 50


def test_a_blocking_step_in_a_thread_is_interrupted_too(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count, retry=Retry(attempts=1))

    @flow.step(hard_timeout=0.3)
    def spin(count: Count, ctx: Context) -> str:
        while True:
            time.sleep(0.01)

    job = outcome_of(tmp_path, flow, Count())
    assert job.status == "failed" and "hard limit of 0.3 s" in job.error


def test_a_soft_limit_interrupts_the_thread_of_a_blocking_step(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count, retry=Retry(attempts=2, base=0))
    at_once, most = 0, 0

    @flow.step(timeout=0.2)
    def spin(count: Count, ctx: Context) -> str:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        ctx.progress(1, 2)
        try:
            while True:
                time.sleep(0.01)
        finally:
            at_once -= 1

    job = outcome_of(tmp_path, flow, Count())
    assert (job.status, job.error) == ("failed", "StepTimeout: step 'spin' blocked past 0.2 s")
    assert (at_once, most) == (0, 1), "the first try has ended before the second begins"


def test_a_step_that_asks_for_the_impossible_fails_at_once(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count)
    tries = []

    @flow.step
    async def lost(count: Count, ctx: Context) -> Goto:
        tries.append(1)
        return Goto("nowhere", count)

    job = outcome_of(tmp_path, flow, Count())
    assert (job.status, len(tries)) == ("failed", 1)
    assert "has no step 'nowhere'" in job.error


def test_a_plain_def_step_runs_off_the_loop(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count)

    @flow.step
    def where(count: Count, ctx: Context) -> bool:
        return threading.current_thread() is threading.main_thread()

    assert outcome_of(tmp_path, flow, Count()).result is False


def test_a_deadline_bounds_waits_and_retries_together(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count)

    @flow.step(deadline=0.3)
    async def poll(count: Count, ctx: Context) -> Again:
        return Again(count, after=0.05)

    job = outcome_of(tmp_path, flow, Count())
    assert job.status == "failed" and "deadline of 0.3 s" in job.error


def test_a_checkpoint_survives_the_failure_of_its_step(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count, retry=QUICK)

    @flow.step
    async def work(count: Count, ctx: Context) -> int:
        if count.n == 0:
            ctx.count(done=1)
            await ctx.checkpoint(Count(n=1))
            ctx.count(done=100)
            raise Transient("after the checkpoint")
        return count.n

    job = outcome_of(tmp_path, flow, Count())
    assert (job.result, job.counters) == (1, {"done": 1})


def test_what_fails_leaves_no_counts_and_no_children(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count, retry=Retry(attempts=1))

    @flow.step
    async def work(count: Count, ctx: Context) -> None:
        ctx.count(seen=1)
        ctx.spawn(flow, Count(n=9), key="child")
        raise Permanent("no")

    async def main() -> None:
        async with running(tmp_path, flow) as app:
            job = await app.submit(flow, Count())
            done = await app.wait(job.job_id, timeout=30)
            assert (done.status, done.counters) == ("failed", {})
            assert len(await app.jobs()) == 1

    asyncio.run(main())


def test_a_batch_ends_once_and_its_follow_up_sees_every_result(tmp_path: Path) -> None:
    square = Workflow("square", payload=int)

    @square.step
    async def compute(n: int, ctx: Context) -> int:
        return n * n

    total = Workflow("total", payload=str)

    @total.step
    async def add(name: str, ctx: Context) -> int:
        return sum([job.result async for job in ctx.members()])

    async def main() -> None:
        async with running(tmp_path, square, total) as app:
            batch = await app.open_batch(key="squares", limit=3, then=FollowUp(workflow=total, payload="sum"))
            await app.submit_many(square, range(10), batch=batch.id)
            await app.seal_batch(batch.id)
            async with asyncio.timeout(30):
                while (ended := await app.batch(batch.id)).follow_up is None:
                    await asyncio.sleep(0.01)
            assert (ended.members, ended.completed) == (10, 10)
            assert (await app.wait(ended.follow_up, timeout=30)).result == 285

    asyncio.run(main())


def test_a_lock_belongs_to_one_job_and_goes_with_it(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count)
    got: list[bool] = []

    @flow.step
    async def take(count: Count, ctx: Context) -> Again | bool:
        mine = await ctx.lock("the one")
        assert mine == await ctx.lock("the one"), "taking it twice is the same as once"
        got.append(mine)
        return Again(count, after=0.02) if not mine else True

    @flow.step
    async def keep(count: Any, ctx: Context) -> Again | str:
        await asyncio.sleep(0.05)
        return "done"

    async def main() -> None:
        async with running(tmp_path, flow) as app:
            jobs = await app.submit_many(flow, [Count(n=n) for n in range(3)])
            for job in jobs:
                assert (await app.wait(job.job_id, timeout=30)).status == "completed"
            assert await app.engine.store.locks() == []
            assert got.count(True) == 3 and False in got

    asyncio.run(main())


def test_an_output_becomes_public_whole_with_the_steps_commit(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count, retry=QUICK)
    seen: list[bool] = []

    @flow.step
    async def write(count: Count, ctx: Context) -> str:
        digest = await ctx.output("pages/1.json", b'{"n": %d}' % len(seen))
        seen.append((tmp_path / "outputs/default/pages/1.json").exists())
        if len(seen) == 1:
            raise Transient("after writing")
        return digest

    async def main() -> None:
        async with running(tmp_path, flow) as app:
            job = await app.submit(flow, Count())
            done = await app.wait(job.job_id, timeout=30)
            assert seen == [False, False], "nothing is public before the commit"
            public = await app.outputs.shown("pages/1.json")
            assert public.read_bytes() == b'{"n": 1}'
            stored = await app.outputs.current("pages/1.json")
            assert stored is not None and stored.sha256 == done.result
            with pytest.raises(NotFound, match=r"no output 'pages/2\.json'"):
                await app.outputs.shown("pages/2.json")
            async with asyncio.timeout(10):
                while len(left := list(public.parent.iterdir())) != 2:
                    await asyncio.sleep(0.01)
            assert public in left, "what is left is the public file and its one version: the lost one was removed"

    asyncio.run(main())


def test_own_rows_join_the_commit_or_fail_the_step(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count, retry=Retry(attempts=1))

    @flow.step
    async def write(count: Count, ctx: Context) -> None:
        ctx.write(("INSERT INTO limits (key, most) VALUES (:key, :most)", {"key": "workflow:mine", "most": count.n}))

    async def main() -> None:
        async with running(tmp_path, flow) as app:
            first = await app.submit(flow, Count(n=7))
            assert (await app.wait(first.job_id, timeout=30)).status == "completed"
            assert await app.engine.store.limits() == {"workflow:mine": 7}
            second = await app.submit(flow, Count(n=8))
            failed = await app.wait(second.job_id, timeout=30)
            assert failed.status == "failed" and "own rows were refused" in failed.error
            assert await app.engine.store.limits() == {"workflow:mine": 7}

    asyncio.run(main())


def test_wrong_requests_are_refused_in_one_sentence(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count)

    @flow.step
    async def work(count: Count, ctx: Context) -> int:
        return count.n

    async def main() -> None:
        async with running(tmp_path, flow) as app:
            with pytest.raises(NotFound, match="there is no workflow 'other' here; known: flow"):
                await app.submit("other", Count())
            with pytest.raises(InvalidPayload, match="payload does not fit workflow 'flow': n: "):
                await app.submit(flow, {"n": "many"})
            first = await app.submit(flow, Count(n=1), key="k")
            again = await app.submit(flow, Count(n=1), key="k")
            assert (again.job_id, again.created) == (first.job_id, False)
            with pytest.raises(Conflict, match="submitted with another payload"):
                await app.submit(flow, Count(n=2), key="k")
            await app.wait(first.job_id, timeout=30)
            with pytest.raises(Conflict, match="is completed and cannot be paused"):
                await app.pause(first.job_id)
            second = await app.submit(flow, Count(n=2), key="k", again=True)
            assert second.run == 2

    asyncio.run(main())


def test_a_job_that_no_longer_fits_the_code_is_parked_and_goes_on_after_a_deploy(tmp_path: Path) -> None:
    def flow_with(name: str) -> Workflow:
        flow = Workflow("flow", payload=Count)

        async def step(count: Count, ctx: Context) -> str:
            return name

        step.__name__ = name
        flow.step(step)
        return flow

    async def main() -> None:
        old, new = flow_with("before"), flow_with("after")
        app = Penstock(workflows=[old], store=f"sqlite:///{tmp_path}/jobs.db", outputs=tmp_path / "outputs")
        async with app:
            job = (await app.submit(old, Count())).job_id
        async with running(tmp_path, new) as deployed:
            parked = await until(deployed, job, "paused")
            assert "has no step 'before' any more" in parked.reason
        async with running(tmp_path, old) as restored:
            await restored.retry(job)
            assert (await restored.wait(job, timeout=30)).result == "before"

    asyncio.run(main())
