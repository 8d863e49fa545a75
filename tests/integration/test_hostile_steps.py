"""Steps and callers that misbehave: each has its own job fail, and nobody else's."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, model_validator

from penstock import Context, InvalidRequest, NotFound, Penstock, Permanent, Retry, Workflow
from penstock.engine.machine import is_dead, this_process
from penstock.store.protocol import Submit
from tests.integration.test_steps import Count, outcome_of, running, until

ONCE = Retry(attempts=1)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even its message works")


class Odd(BaseModel):
    n: int = 0

    @model_validator(mode="after")
    def refuse(self) -> Odd:
        if self.n == 1:
            raise KeyError("not a ValueError")
        return self


def test_a_step_that_awaits_something_cancelled_fails_as_any_other(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count, retry=ONCE)

    @flow.step
    async def wait(count: Count, ctx: Context) -> None:
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task

    job = outcome_of(tmp_path, flow, Count())
    assert job.status == "failed" and "awaited something that was cancelled" in job.error


def test_an_error_without_a_message_fails_its_job(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count, retry=ONCE)

    @flow.step
    async def fail(count: Count, ctx: Context) -> None:
        raise Unspeakable

    assert outcome_of(tmp_path, flow, Count()).error == "Unspeakable: (its message cannot be shown)"


def test_sys_exit_in_a_step_fails_its_job_and_not_the_process(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count)

    @flow.step
    async def leave(count: Count, ctx: Context) -> None:
        sys.exit(3)

    assert outcome_of(tmp_path, flow, Count()).error == "Permanent: step 'leave' called sys.exit()"


def test_a_validator_that_breaks_parks_the_job(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Odd)

    @flow.step
    async def first(odd: Odd, ctx: Context) -> dict[str, int]:
        return {"n": 1}

    @flow.step
    async def second(odd: Odd, ctx: Context) -> None:
        raise Permanent("must not run")

    async def main() -> None:
        async with running(tmp_path, flow) as app:
            job = await app.submit(flow, Odd())
            parked = await until(app, job.job_id, "paused")
            assert "payload does not fit step 'second'" in parked.reason

    asyncio.run(main())


def test_a_request_that_no_database_can_hold_spoils_nobody_elses(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count)

    @flow.step
    async def work(count: Count, ctx: Context) -> int:
        return count.n

    async def main() -> None:
        async with running(tmp_path, flow) as app:
            good = [app.submit(flow, Count(n=n)) for n in range(20)]
            with pytest.raises(InvalidRequest, match="valid Unicode"):
                await app.submit(flow, Count(), key="bad\udcff")
            with pytest.raises(NotFound):
                await app.pause("bad\udcff")
            with pytest.raises(InvalidRequest):
                await app.open_batch(limit=2**70)
            for submitted in await asyncio.gather(*good):
                assert (await app.wait(submitted.job_id, timeout=30)).status == "completed"

    asyncio.run(main())


def test_one_operation_that_cannot_be_stored_leaves_the_group_to_the_others(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count)

    @flow.step
    async def work(count: Count, ctx: Context) -> int:
        return count.n

    async def main() -> None:
        async with Penstock(workflows=[flow], store=f"sqlite:///{tmp_path}/jobs.db", outputs=tmp_path) as app:
            engine = app.engine
            unstorable = replace(engine.new_job(flow, Count()), key="bad\udcff")
            bad = engine.group.do(Submit((unstorable,)))
            good = [engine.group.do(Submit((engine.new_job(flow, Count(n=n)),))) for n in range(5)]
            answers: list[Any] = await asyncio.gather(bad, *good, return_exceptions=True)
            assert isinstance(answers[0], Exception)
            assert all(submitted.created for (submitted,) in answers[1:])

    asyncio.run(main())


def test_blocking_code_in_a_task_of_the_step_is_interrupted_too(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count, retry=ONCE)

    @flow.step(hard_timeout=0.5)
    async def gather(count: Count, ctx: Context) -> None:
        async def child() -> None:
            time.sleep(60)

        await asyncio.gather(child())

    began = time.monotonic()
    job = outcome_of(tmp_path, flow, Count())
    assert job.status == "failed" and "hard limit" in job.error
    assert time.monotonic() - began < 50


def test_blocking_steps_that_wait_for_a_thread_do_not_run_out_of_time(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count, retry=ONCE)

    @flow.step(timeout=1.0)
    def nap(count: Count, ctx: Context) -> int:
        time.sleep(0.3)
        return count.n

    async def main() -> None:
        async with running(tmp_path, flow) as app:
            jobs = await app.submit_many(flow, [Count(n=n) for n in range(200)])
            for job in jobs:
                assert (await app.wait(job.job_id, timeout=30)).status == "completed"

    asyncio.run(main())


def test_what_was_written_after_a_checkpoint_is_not_published_for_what_was_before(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count, retry=ONCE)

    @flow.step
    async def write(count: Count, ctx: Context) -> None:
        await ctx.output("a.txt", b"counts")
        await ctx.checkpoint(Count(n=1))
        await ctx.output("a.txt", b"does not count")
        raise Permanent("after the second")

    async def main() -> None:
        async with running(tmp_path, flow) as app:
            job = await app.submit(flow, Count())
            await app.wait(job.job_id, timeout=30)
            await app.engine.sweep()
            assert await app.outputs.check("a.txt")
            assert app.outputs.path("a.txt").read_bytes() == b"counts"

    asyncio.run(main())


def test_an_output_that_cannot_be_published_holds_up_no_other(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count, retry=ONCE)

    @flow.step
    async def write(count: Count, ctx: Context) -> None:
        await ctx.output("r/b", b"1")
        await ctx.output("r", b"2")
        await ctx.output("z", b"3")

    async def main() -> None:
        async with running(tmp_path, flow) as app:
            job = await app.submit(flow, Count())
            assert (await app.wait(job.job_id, timeout=30)).status == "completed"
            await app.engine.sweep()
            assert await app.outputs.check("r/b") and await app.outputs.check("z")
            assert not await app.outputs.check("r")

    asyncio.run(main())


def test_a_file_that_was_there_before_is_adopted_as_an_output(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count)

    @flow.step
    async def work(count: Count, ctx: Context) -> None:
        pass

    async def main() -> None:
        async with running(tmp_path, flow) as app:
            public = app.outputs.path("old/page.json")
            public.parent.mkdir(parents=True)
            public.write_bytes(b"{}")
            adopted = await app.outputs.adopt("old/page.json")
            assert adopted is not None and await app.outputs.check("old/page.json")
            assert await app.outputs.adopt("old/page.json") is None, "it has a row now"

    asyncio.run(main())


def test_only_what_is_certainly_gone_is_dead() -> None:
    me = this_process()
    assert not is_dead(me)
    assert is_dead({**me, "since": "1"}), "another process has this number now"
    assert not is_dead({**me, "boot": "another"}), "nothing is known of other machines"
    assert not is_dead({})
    assert not is_dead({**me, "pid": 1, "since": None})


def test_stopping_does_not_wait_for_a_step_that_will_not_end(tmp_path: Path) -> None:
    flow = Workflow("flow", payload=Count)
    over = False

    @flow.step
    async def stubborn(count: Count, ctx: Context) -> None:
        while not over:
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue

    async def main() -> None:
        nonlocal over
        app = Penstock(workflows=[flow], store=f"sqlite:///{tmp_path}/jobs.db", outputs=tmp_path)
        async with app:
            async with app.worker(grace=0.1):
                job = await app.submit(flow, Count())
                await until(app, job.job_id, "running")
            assert (await app.job(job.job_id)).status == "queued", "it was handed back"
            over = True

    asyncio.run(main())
