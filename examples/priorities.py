"""Who goes first: urgent work overtakes, and what has waited long enough overtakes in its turn.

Priority is looked at when a job is claimed, not when it is submitted. One job is run at a time here, so the order in
which they are done is the order in which they were claimed.
"""

import asyncio
import time

from penstock import Context, Penstock, Priority, Workflow

letters = Workflow("letters")
done: list[str] = []


@letters.step
async def deliver(name: str, ctx: Context) -> str:
    await asyncio.sleep(0.15)
    done.append(name)
    return name


app = Penstock(workflows=[letters])

NORMAL = Priority(base=50)
URGENT = Priority(base=90, ageing=None)
# Gains a point a minute, up to 45; counted as if it had been waiting for an hour, so it stands at 95.
PATIENT = Priority(base=50, ageing=60, cap=45, aged_from=time.time() - 3600)


async def main() -> None:
    async with app:
        for n in (1, 2, 3):
            await app.submit(letters, f"normal {n}", priority=NORMAL)
        for n in (1, 2):
            await app.submit(letters, f"urgent {n}", priority=URGENT)
        last = await app.submit(letters, "an hour old", priority=PATIENT)
        async with app.worker(concurrency=1):
            await app.wait(last.job_id)
            for job in await app.jobs(workflow="letters", status=["queued", "running"]):
                await app.wait(job.id)
    print("\n".join(done))


if __name__ == "__main__":
    asyncio.run(main())
