"""What was asked of a job halts the tick it was asked of, and no later one."""

from __future__ import annotations

import asyncio

from penstock import Again, Context, Penstock, Workflow


async def halt_and_watch(action: str) -> list[tuple[str, bool]]:
    """Ask `action` of a job in its first tick; what every tick saw of it when it began."""
    seen: list[tuple[str, bool]] = []
    began = asyncio.Event()
    work = Workflow("work")

    @work.step
    async def turn(number: int, ctx: Context) -> Again | int:
        seen.append(("turn", ctx.halted))
        began.set()
        while number == 0 and not ctx.halted:
            await asyncio.sleep(0.01)
        return Again(number + 1) if number < 2 else number

    @work.cleanup
    async def clean(number: int, ctx: Context) -> None:
        seen.append(("clean", ctx.halted))

    app = Penstock(workflows=[work], store="memory://")
    async with app, app.worker():
        job = (await app.submit(work, 0)).job_id
        await began.wait()
        if action == "pause":
            await app.pause(job)
            while (await app.job(job)).status != "paused":
                await asyncio.sleep(0.01)
            await app.resume(job)
        else:
            await app.cancel(job)
        await app.wait(job, timeout=10)
    return seen


def test_a_resumed_job_is_not_halted_by_its_old_pause() -> None:
    assert asyncio.run(halt_and_watch("pause")) == [("turn", False)] * 3


def test_a_clean_up_step_is_not_halted_by_the_cancel_that_called_it() -> None:
    assert asyncio.run(halt_and_watch("cancel")) == [("turn", False), ("clean", False)]
