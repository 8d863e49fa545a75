"""The built-in workflows: small ones that together use everything the engine offers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.engine.context import Context
from penstock.engine.outcome import Again, Goto
from penstock.engine.retry import Retry
from penstock.engine.workflow import Workflow
from penstock.simulation.world import effect, enter, expect, tally

QUICK = Retry(attempts=4, base=0.3, factor=2.0, cap=3.0)


@dataclass(frozen=True, slots=True)
class Errand:
    """What all of them carry."""

    n: int
    done: int = 0
    lock: str = ""
    batch: str = ""


chain = Workflow("chain", payload=Errand, retry=QUICK)


@chain.step
async def begin(errand: Errand, ctx: Context) -> Errand | Goto:
    await effect("begin", ctx.job.id)
    tally(ctx, begun=1)
    return Goto(finish, errand) if errand.n % 3 == 0 else errand


@chain.step(resource="remote")
async def poll(errand: Errand, ctx: Context) -> Errand | Again:
    await effect("poll", ctx.job.id)
    tally(ctx, polls=1)
    if errand.done < errand.n % 4:
        return Again(replace(errand, done=errand.done + 1), after=(errand.n % 5) * 0.7)
    ctx.progress(1, 2)
    return errand


@chain.step(timeout=4.0, hard_timeout=8.0)
async def finish(errand: Errand, ctx: Context) -> int:
    await effect("finish", ctx.job.id)
    tally(ctx, finished=1)
    return errand.done


guarded = Workflow("guarded", payload=Errand, retry=QUICK)


@guarded.step
async def lock(errand: Errand, ctx: Context) -> Errand | Again:
    if not await ctx.lock(errand.lock):
        return Again(errand, after=0.6)
    enter(ctx, errand.lock)
    await effect("inside", errand.lock)
    tally(ctx, entered=1)
    return errand


@guarded.step(timeout=3.0, hard_timeout=6.0)
async def work(errand: Errand, ctx: Context) -> Errand | Again:
    # A retry begins here, as another job: the lock went with the end of the job that failed.
    if not await ctx.lock(errand.lock):
        return Again(errand, after=0.6)
    enter(ctx, errand.lock)
    await effect("work", errand.lock)
    tally(ctx, worked=1)
    if errand.done < 1 + errand.n % 2:
        return Again(replace(errand, done=errand.done + 1), after=1.0)
    if errand.n % 2:
        ctx.release(errand.lock)
    return errand


@guarded.step
async def leave(errand: Errand, ctx: Context) -> None:
    await effect("leave", errand.lock)


@guarded.cleanup(retry=Retry(attempts=50, base=0.3, cap=2.0))
async def put_back(errand: Errand, ctx: Context) -> None:
    await effect("put back", errand.lock)
    tally(ctx, put_back=1)


saver = Workflow("saver", payload=Errand, retry=QUICK)


@saver.step(timeout=2.0, hard_timeout=4.0)
async def save(errand: Errand, ctx: Context) -> Errand | Again:
    while errand.done < errand.n:
        if ctx.halted:
            return Again(errand)
        await effect("part", f"{ctx.job.id} {errand.done}")
        tally(ctx, parts=1)
        errand = replace(errand, done=errand.done + 1)
        await ctx.checkpoint(errand)
    return errand


@saver.step
async def saved(errand: Errand, ctx: Context) -> int:
    # A retry goes on from the payload that was saved, as another job that has counted nothing yet.
    if ctx.job.run == 1:
        counted = ctx.job.counters.get("parts", 0)
        expect(counted == errand.n, f"job {ctx.job.id} saved {counted} parts of {errand.n}")
    return errand.done


fan_out = Workflow("fan_out", payload=Errand, retry=QUICK)


@fan_out.step
async def scatter(errand: Errand, ctx: Context) -> int:
    for part in range(errand.n):
        ctx.spawn(part_of, Errand(part), key=f"{errand.batch} {part}", batch=errand.batch)
    await effect("scatter", errand.batch)
    ctx.seal(errand.batch)
    tally(ctx, parts=errand.n)
    return errand.n


part_of = Workflow("part", payload=Errand, retry=Retry(attempts=2, base=0.2), queue="parts")


@part_of.step(resource="gpu")
async def part(errand: Errand, ctx: Context) -> Errand | Again:
    await effect("part", ctx.job.id)
    tally(ctx, parts=1)
    return Again(replace(errand, done=1), after=0.5) if errand.done == 0 and errand.n % 2 else errand


@part_of.step
async def after_part(errand: Errand, ctx: Context) -> int:
    await effect("after part", ctx.job.id)
    return errand.n


gather = Workflow("gather", payload=Errand, retry=QUICK)


@gather.step
async def collect(errand: Errand, ctx: Context) -> int:
    ended = 0
    async for member in ctx.members():
        expect(member.final, f"the follow-up of batch {ctx.job.fan_in} runs, and member {member.id} is {member.status}")
        ended += 1
    await effect("collect", ctx.job.id)
    tally(ctx, collected=ended)
    return ended


WORKFLOWS = (chain, guarded, saver, fan_out, part_of, gather)
