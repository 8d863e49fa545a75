"""Many jobs, then one that gathers what they found; it starts exactly once, however the members ended.

A batch ends when it is sealed and all its members have ended. One page here is unreadable: the rest goes on, and the
follow-up job sees who failed. `limit` keeps at most four pages at work at once.
"""

import asyncio
import logging

from penstock import Context, FollowUp, Penstock, Permanent, Workflow

sheets = Workflow("sheets")
summary = Workflow("summary")


@sheets.step
async def count_words(page: int, ctx: Context) -> int:
    await asyncio.sleep(0.3)
    if page == 7:
        raise Permanent("the page is unreadable")
    return 100 + page


@summary.step
async def add_up(title: str, ctx: Context) -> str:
    words = failed = 0
    async for job in ctx.members():
        if job.status == "completed":
            words += job.result
        else:
            failed += 1
    ctx.count(words=words)
    return f"{title}: {words} words, {failed} page unreadable"


app = Penstock(workflows=[sheets, summary])


async def main() -> None:
    async with app, app.worker():
        batch = await app.open_batch(limit=4, then=FollowUp(workflow=summary, payload="The Penstock Reader"))
        members = await app.submit_many(sheets, range(1, 13), batch=batch.id)
        await app.seal_batch(batch.id)
        for member in members:
            await app.wait(member.job_id)
        ended = await app.batch(batch.id)
        print(f"{ended.completed} of {ended.members} pages read, {ended.failed} failed")
        assert ended.follow_up is not None
        print((await app.wait(ended.follow_up)).result)


if __name__ == "__main__":
    logging.getLogger("penstock").setLevel(logging.ERROR)  # a failed job is a warning; here it is expected
    asyncio.run(main())
