"""Money that may be spent, and what happens when it is used up: the job rests, and goes on when the budget is raised.

Before a call is made, the most it can cost is reserved. What it did cost counts when it has ended, and the rest of the
reservation is free again. The prices are Google's; the answers come from a script on this machine, so nothing is paid.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from penstock import Context, Penstock, Workflow
from penstock.gemini import GenerateRequest, generate_request

LINES = ["The river is high.", "The gate is open.", "The turbine turns.", "The town has light."]

translations = Workflow("translations", payload=list[str])


@translations.step
async def translate(lines: list[str], ctx: Context) -> list[str]:
    told = []
    for number, line in enumerate(lines):
        asked = generate_request(f"Translate into German: {line}", max_output_tokens=1000)
        request = GenerateRequest(model="gemini-2.5-flash", request=asked)
        call = await ctx.call("gemini.generate", f"line {number}", request)
        told.append(call.result["text"])
    return told


app = Penstock(workflows=[translations])


def dollars(millionths: int) -> str:
    return f"${millionths / 1_000_000:.6f}"


async def tell(what: str, job: str) -> None:
    budget = next(budget for budget in await app.budgets() if budget.scope == "tenant:town")
    calls = len(await app.calls(job=job))
    print(f"{what}: {calls} of {len(LINES)} lines, {dollars(budget.spent)} of {dollars(budget.most)} spent")


async def main() -> None:
    async with app, app.worker():
        await app.set_budget("tenant:town", 0.00255)
        job = (await app.submit(translations, LINES, tenant="town")).job_id
        await app.wait(job, until=("paused",))
        await tell("paused", job)
        print((await app.job(job)).reason)
        await app.set_budget("tenant:town", 0.01)
        await app.wait(job)
        await tell("completed", job)


if __name__ == "__main__":
    os.environ |= {"PENSTOCK_LOCAL_GEMINI__USE": "always", "PENSTOCK_LOCAL_GEMINI__BACKEND": "script"}
    asyncio.run(main())
    subprocess.run([Path(sys.executable).with_name("penstock"), "gemini", "stop", "--quiet"], check=True)
