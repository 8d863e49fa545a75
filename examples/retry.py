"""Errors say what to do about them: try again, come back later, or give up; and what failed can be run again.

`fetch` fails in two ways that pass, and then succeeds. `parse` finds bad data, which trying again cannot mend: the job
fails at once. When the cause is gone, `retry` goes on from the step that failed; what was fetched is not fetched again.
"""

import asyncio
import logging

from penstock import Context, Penstock, Permanent, RateLimited, Retry, Transient, Workflow

report = Workflow("report", retry=Retry(attempts=5, base=0.3, factor=2, cap=5))
rules = {"strict": True}


@report.step
async def fetch(url: str, ctx: Context) -> str:
    trouble = ctx.job.error
    if trouble is None:
        raise Transient("the connection was reset")
    if "reset" in trouble:
        raise RateLimited("too many requests", retry_after=0.4)
    ctx.count(fetched=1)
    return "42,n/a,7"


@report.step
async def parse(text: str, ctx: Context) -> int:
    cells = text.split(",")
    if rules["strict"] and not all(cell.isdigit() for cell in cells):
        raise Permanent("a cell is not a number")
    return sum(int(cell) for cell in cells if cell.isdigit())


app = Penstock(workflows=[report])


async def main() -> None:
    async with app, app.worker():
        submitted = await app.submit(report, "https://example.org/report.csv")
        job = await app.wait(submitted.job_id)
        for event in await app.history(job.id):
            print(f"{event.kind:<9} {event.step:<6} {event.note or ''}".rstrip())
        rules["strict"] = False
        second = await app.retry(job.id)
        done = await app.wait(second.id)
        print(f"run {done.run}: {done.status}, the sum is {done.result}")


if __name__ == "__main__":
    logging.getLogger("penstock").setLevel(logging.ERROR)  # a failed job is a warning; here it is expected
    asyncio.run(main())
