"""Workflows with trouble built in: the author's own steps, made to fail, dawdle and hang as the dice say."""

from __future__ import annotations

import asyncio
import copy
import inspect
from dataclasses import replace
from functools import lru_cache
from typing import Any

from penstock.engine.context import Context
from penstock.engine.errors import Ambiguous, Permanent, RateLimited, Transient
from penstock.engine.workflow import Step, Workflow
from penstock.simulation.world import Machine, here


class Unforeseen(Exception):
    """An error of no class that the engine knows."""


@lru_cache(maxsize=256)
def troubled(workflow: Workflow) -> Workflow:
    """The same workflow, for a simulation. A step that blocks is simply called: there are no threads here."""
    twin = copy.copy(workflow)
    twin.steps = {name: replace(step, run=_wrapped(step), blocking=False) for name, step in workflow.steps.items()}
    if workflow.cleanup_step is not None:
        twin.cleanup_step = twin.steps[workflow.cleanup_step.name]
    return twin


def _wrapped(step: Step) -> Any:
    async def run(payload: Any, ctx: Context) -> Any:
        machine = here()
        assert machine is not None, "a step of a simulation runs outside of it"
        row = ctx._row
        machine.world.note(machine.name, "step", step.name, row.id[-6:], f"epoch={row.epoch}", f"try={row.attempt}")
        machine.world.checker.step_begins(row.id, row.epoch, step.name)
        await _trouble(machine, step)
        value = step.run(payload, ctx)
        if inspect.isawaitable(value):
            value = await value
        if machine.world.faults.hits("crash before effect"):
            await machine.die(f"at the end of step {step.name}")
        return value

    return run


async def _trouble(machine: Machine, step: Step) -> None:
    world = machine.world
    hits, rng = world.faults.hits, world.rng
    if world.faults.stopped:
        return
    if hits("transient error"):
        raise Transient("simulated: a passing error")
    if hits("rate limited"):
        raise RateLimited("simulated: too many requests", retry_after=rng.choice([None, 0.2, 3.0]))
    if hits("permanent error"):
        raise Permanent("simulated: hopeless")
    if hits("ambiguous error"):
        raise Ambiguous("simulated: nobody knows")
    if hits("unknown error"):
        raise Unforeseen("simulated: out of the blue")
    if hits("slow step"):
        await asyncio.sleep(rng.random() * 2 * (step.timeout or 2.0))
    if hits("step ignores its limit"):
        await _ignore_everything(rng.random() * 2 * (step.hard_timeout or 3.0))


async def _ignore_everything(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        try:
            await asyncio.sleep(end - loop.time())
        except asyncio.CancelledError:
            continue
