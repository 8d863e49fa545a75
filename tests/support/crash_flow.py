"""Work that leaves countable traces: rows of its own, counters, locks and a batch. Its workers may die at any
moment."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from penstock import Again, Context, Workflow

EFFECTS = "CREATE TABLE effects (job TEXT NOT NULL, step TEXT NOT NULL, n INTEGER NOT NULL)"
RECORD = "INSERT INTO effects (job, step, n) VALUES (:job, :step, :n)"
POLLS = 3


class Item(BaseModel):
    shelf: int
    polls: int = 0


def crash_workflows() -> list[Workflow]:
    item = Workflow("item", payload=Item)

    @item.step
    async def take(it: Item, ctx: Context) -> Item | Again:
        if not await ctx.lock(f"shelf {it.shelf}"):
            return Again(it, after=0.05)
        await asyncio.sleep(0.002)
        ctx.write((RECORD, {"job": ctx.job.id, "step": "take", "n": 0}))
        return it

    @item.step
    async def poll(it: Item, ctx: Context) -> Item | Again:
        it.polls += 1
        ctx.count(polls=1)
        ctx.write((RECORD, {"job": ctx.job.id, "step": "poll", "n": it.polls}))
        return it if it.polls == POLLS else Again(it, after=0.01)

    @item.step
    async def put(it: Item, ctx: Context) -> int:
        await asyncio.sleep(0.002)
        ctx.write((RECORD, {"job": ctx.job.id, "step": "put", "n": 0}))
        return it.polls

    end = Workflow("end", payload=str)

    @end.step
    async def report(name: str, ctx: Context) -> int:
        ctx.write((RECORD, {"job": ctx.job.id, "step": "report", "n": 0}))
        return sum([job.result async for job in ctx.members()])

    return [item, end]
