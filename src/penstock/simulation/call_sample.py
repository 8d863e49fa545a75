"""The built-in workflows that make remote calls: of all three guarantees, one or several at a time, tried once or more
often."""

from __future__ import annotations

from penstock.engine.call import Call
from penstock.engine.context import Context
from penstock.engine.errors import Permanent
from penstock.engine.outcome import Again
from penstock.engine.retry import Retry
from penstock.engine.workflow import Workflow
from penstock.simulation.sample import QUICK, Errand
from penstock.simulation.world import effect, expect, tally


def _checked(calls: list[Call], ctx: Context) -> int:
    """How many came home; each with the answer to its own request."""
    for call in calls:
        if call.ok:
            asked = call.result["request"]
            expect(asked == {"key": call.key}, f"call {call.key!r} of job {ctx.job.id} was answered as {asked}")
    return sum(call.ok for call in calls)


batched = Workflow("batched", payload=Errand, retry=QUICK)


@batched.step
async def order(errand: Errand, ctx: Context) -> Errand | Again:
    """Several at once; the job sleeps until one of them has ended."""
    calls = [
        await ctx.call("batch", f"rows {n}", {"key": f"rows {n}"}, attempts=1 + errand.n % 3)
        for n in range(1 + errand.n % 2)
    ]
    open_calls = [call for call in calls if not call.ended]
    if open_calls:
        return Again(errand, until=open_calls, after=2.5 if errand.n % 4 == 3 else None)
    home = _checked(calls, ctx)
    tally(ctx, home=home)
    if home < len(calls) and errand.n % 2:
        raise Permanent("not all rows came home")
    return errand


@batched.step
async def keep(errand: Errand, ctx: Context) -> int:
    await effect("keep", ctx.job.id)
    return errand.n


functions = Workflow("functions", payload=Errand, retry=QUICK)


@functions.step
async def invoke(errand: Errand, ctx: Context) -> Errand | Again:
    calls = [await ctx.call("function", f"part {n}", {"key": f"part {n}"}, attempts=2) for n in range(1 + errand.n % 2)]
    if not all(call.ended for call in calls):
        return Again(errand, until=[call for call in calls if not call.ended])
    tally(ctx, home=_checked(calls, ctx))
    return errand


@functions.cleanup(retry=Retry(attempts=50, base=0.3, cap=2.0))
async def clear(errand: Errand, ctx: Context) -> None:
    await effect("clear", ctx.job.id)


questions = Workflow("questions", payload=Errand, retry=QUICK)


@questions.step(timeout=8.0, hard_timeout=16.0)
async def ask(errand: Errand, ctx: Context) -> int:
    """One after the other; what was answered once is not asked again."""
    answers = [await ctx.call("single", f"q{n}", {"key": f"q{n}"}, attempts=2) for n in range(1 + errand.n % 3)]
    tally(ctx, home=_checked(answers, ctx))
    return len(answers)


everything = Workflow("everything", payload=Errand, retry=QUICK)


@everything.step
async def first_ask(errand: Errand, ctx: Context) -> Errand:
    call = await ctx.call("single", "first", {"key": "first"})
    _checked([call], ctx)
    return errand


@everything.step
async def then_order(errand: Errand, ctx: Context) -> int | Again:
    rows = await ctx.call("batch", "rows", {"key": "rows"}, attempts=2)
    part = await ctx.call("function", "part", {"key": "part"})
    if not (rows.ended and part.ended):
        return Again(errand, until=[call for call in (rows, part) if not call.ended])
    return _checked([rows, part], ctx)


CALL_WORKFLOWS = (batched, functions, questions, everything)
