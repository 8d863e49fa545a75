"""The body of a flow run: advance a workflow's jobs until there is nothing to do within a minute.

The loop is the embedded one, started inside the flow run, so that every tick runs in the run's own context. Of several
flow runs that have nothing to do but wait, the one that came first waits; the others end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.delivery.embedded import Embedded
from penstock.delivery.prefect.outlook import alive_for, until_next
from penstock.engine.engine import Engine
from penstock.engine.errors import StoreError
from penstock.engine.staging import Stage, stage

log = logging.getLogger("penstock.delivery")

LONGEST_SLEEP = 60.0
LOOK_EVERY = 0.1
LOOK_WHEN_IDLE = 1.0
PATIENCE = 2.0
"""Seconds that a run with an elder beside it lets pass over work which it cannot take."""


@dataclass(slots=True, frozen=True)
class Turn:
    """How a flow run ended: `stopped` by a signal, or because nothing was left to do."""

    stopped: bool
    why: str


async def advance(
    engine: Engine,
    workflow: str,
    *,
    watched_by: Stage,
    queues: Sequence[str],
    concurrency: int,
    grace: float,
    stopping: asyncio.Event,
) -> Turn:
    """Be a worker for this workflow. What is held at the end is handed back."""
    engine.claim_only(workflow)
    delivery = Embedded(engine, queues=queues, concurrency=concurrency, grace=grace)
    before = stage.set(watched_by)
    try:
        await delivery.start()
        try:
            why = await _until_idle(engine, delivery, workflow, queues, stopping)
        finally:
            await delivery.stop()
    finally:
        stage.reset(before)
    return Turn(stopping.is_set(), "told to stop" if stopping.is_set() else why)


async def _until_idle(
    engine: Engine, delivery: Embedded, workflow: str, queues: Sequence[str], stopping: asyncio.Event
) -> str:
    clock = engine.clock
    busy = clock.now()
    while not stopping.is_set():
        pause = LOOK_EVERY
        if _at_work(engine, delivery):
            busy = clock.now()
        else:
            idle = clock.now() - busy
            try:
                ahead = await until_next(engine, workflow, queues)
                if _at_work(engine, delivery):
                    continue  # what was seen is old: a job was taken meanwhile
                if ahead is None or ahead > LONGEST_SLEEP:
                    return "nothing to do" if ahead is None else f"nothing to do for {ahead:.0f} s"
                if idle > LONGEST_SLEEP + PATIENCE:
                    return "what is there cannot be taken now: a limit is full"
                if (ahead > 0 or idle > PATIENCE) and await _has_elder(engine, workflow):
                    return "another run, or worker, waits for what comes next"
                pause = min(max(ahead, LOOK_EVERY), LOOK_WHEN_IDLE)
            except StoreError as error:
                log.warning("could not look for work: %s", error)
                pause = LOOK_WHEN_IDLE
        await _sleep(engine, stopping, pause)
    return "told to stop"


def _at_work(engine: Engine, delivery: Embedded) -> bool:
    return bool(delivery.running or engine.claiming)


async def _has_elder(engine: Engine, workflow: str) -> bool:
    alive = await alive_for(engine, workflow)
    return bool(alive) and alive[0].id != engine.worker


async def _sleep(engine: Engine, stopping: asyncio.Event, seconds: float) -> None:
    sleeping = asyncio.ensure_future(engine.clock.sleep(seconds))
    hearing = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait([sleeping, hearing], return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleeping.cancel()
        hearing.cancel()
