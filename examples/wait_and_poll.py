"""Waiting for something slow outside without holding anything: start it, look now and then, collect it.

While a job waits it is a row in the store: no thread, no process, no timer. `Again` says when to look next; kill this
program while it waits and run it again: the keys are the same, so the same jobs go on where they were.
"""

import asyncio
import time

from pydantic import BaseModel

from penstock import Again, Context, Penstock, Workflow


class Render(BaseModel):
    film: str
    seconds: float
    ready_at: float = 0.0
    looks: int = 0


rendering = Workflow("rendering", payload=Render)


@rendering.step
async def start(order: Render, ctx: Context) -> Render:
    return order.model_copy(update={"ready_at": ctx.now() + order.seconds})


@rendering.step
async def poll(order: Render, ctx: Context) -> Again | Render:
    looked = order.model_copy(update={"looks": order.looks + 1})
    left = order.ready_at - ctx.now()
    ctx.progress(order.seconds - max(left, 0.0), order.seconds, "rendered")
    return Again(looked, after=0.5) if left > 0 else looked


@rendering.step
async def collect(order: Render, ctx: Context) -> str:
    ctx.count(looks=order.looks)
    return f"{order.film}.mp4"


app = Penstock(workflows=[rendering])


async def main() -> None:
    async with app, app.worker():
        films = ["sunrise", "harbour", "night train"]
        began = time.time()
        orders = [Render(film=film, seconds=1.0 + n) for n, film in enumerate(films)]
        jobs = await app.submit_many(rendering, orders, keys=films)
        for submitted in jobs:
            job = await app.wait(submitted.job_id)
            print(f"{job.result} after {job.counters['looks']} looks")
        if time.time() - began < sum(order.seconds for order in orders):
            print("all three waited at once")


if __name__ == "__main__":
    asyncio.run(main())
