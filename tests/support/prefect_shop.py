"""Workflows that Prefect runs in the tests, and the ways in which their flows are called in a process of its own:
`run`, `run_pages` and `register` in one that is forked, `stage` by `python -m tests.support.prefect_shop`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock import Again, Context, Penstock, Report, Retry, Transient, Workflow

press = Workflow("press", payload=int, retry=Retry(attempts=3, base=0.01))


@press.step
async def plan(sheets: int, ctx: Context) -> int:
    async def count() -> int:
        ctx.log.info("counting to %d", sheets)
        return sheets + 1

    counted = await ctx.part("count_sheets", count)
    ctx.count(parts=1)
    rows = [{"sheet": 1, "ink": "black"}, {"sheet": 2, "ink": "red"}]
    await ctx.show(Report(key="press-run", title="A run", text="# Two sheets", table=rows, progress=50))
    return counted


@press.step
async def print_them(sheets: int, ctx: Context) -> str:
    async def mix() -> None:
        raise Transient("no ink")

    if ctx.job.attempt == 1:
        await ctx.part("mix_ink", mix)
    await ctx.show(Report(key="press-run", title="A run", progress=100))
    ctx.spawn("binding", sheets, key="bound")
    return f"{sheets} sheets"


binding = Workflow("binding", payload=int)


@binding.step
async def bind(sheets: int, ctx: Context) -> int:
    return sheets


chain = Workflow("chain", payload=int)


@chain.step
async def link(done: int, ctx: Context) -> Again | int:
    ctx.count(ticks=1)
    await asyncio.sleep(0.01)
    return Again(done + 1) if done < 5 else done


held = Workflow("held", payload=str)


@held.step
async def hold(folder: str, ctx: Context) -> str:
    """Runs until the file `go` is there, or somebody wants it to stop."""
    (Path(folder) / "started").touch()
    while not (Path(folder) / "go").exists():
        await asyncio.sleep(0.02)
    return "held"


def workflows() -> list[Workflow]:
    return [press, binding, chain, held]


app = Penstock(workflows=workflows())

# What a worker serves is registered by nobody else: all tests share one server.
served = Penstock(workflows=[chain])


async def stage() -> None:
    """What becomes of a part when Prefect cannot be reached."""
    from penstock.delivery.prefect.stage import PrefectStage

    watching, calls = PrefectStage(), []

    async def work() -> int:
        calls.append("work")
        return 7

    mishap = Transient("its own")

    async def fail() -> None:
        calls.append("fail")
        raise mishap

    value = await watching.part("some work", work)
    caught: object = None
    try:
        await watching.part("some failure", fail)
    except Transient as error:
        caught = error
    await watching.show(Report(key="a-report", title="A report", text="text"))
    await watching.close()
    print(json.dumps({"value": value, "calls": calls, "same error": caught is mishap}), flush=True)


async def register(say: Callable[[Any], None], *names: str, paused: bool = False) -> None:
    from penstock.cli.prefect_run import flow_of
    from penstock.delivery.prefect.serving import deployments

    for deployment in deployments({name: flow_of(name) for name in names}, config=None, schedule_minutes=10):
        deployment.paused = paused
        await deployment.aapply()


async def run(say: Callable[[Any], None], workflow: str) -> dict[str, Any]:
    from penstock.cli.prefect_run import flow_of

    return _told(await flow_of(workflow)(workflow, return_state=True))


async def run_pages(say: Callable[[Any], None], file: str) -> dict[str, Any]:
    from penstock.cli.prefect_run import orchestrate_gemini_batch

    return _told(await orchestrate_gemini_batch(run=file, return_state=True))


def _told(state: Any) -> dict[str, Any]:
    return {"state": state.type.value, "message": state.message, "flow run": str(state.state_details.flow_run_id)}


if __name__ == "__main__":
    asyncio.run(stage())
    # Prefect's own threads would wait for the API that is away.
    os._exit(0)
