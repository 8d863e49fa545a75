"""A person who minds remote calls: submits jobs that make them, sets and raises budgets, and decides what no program
can."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from penstock.app import Penstock
from penstock.engine.errors import PenstockError
from penstock.simulation.call_sample import batched, everything, functions, questions
from penstock.simulation.client import Client
from penstock.simulation.providers import SLOTS
from penstock.simulation.sample import Errand
from penstock.simulation.world import World

TIME_TO_THINK = 15.0
"""Seconds after the trouble until budgets are raised."""

ENOUGH = 1.0


async def spending(app: Penstock, world: World) -> None:
    """Jobs that make remote calls, and a person who interferes."""
    client = _Spender(app, world)
    rng = world.rng
    if rng.random() < 0.5:
        await client.set_limits()
    if rng.random() < 0.4:
        await client.set_budget()
    for _ in range(rng.randint(2, 6)):
        await client.submit()
        await asyncio.sleep(rng.random() * 2)
    acts: list[Callable[[], Awaitable[None]]] = [
        client.pause, client.resume, client.cancel, client.cancel, client.retry, client.set_limits,
        client.set_budget, client.submit, client.decide,
    ]  # fmt: skip
    for _ in range(rng.randint(0, 12)):
        await asyncio.sleep(rng.random() * 4)
        await rng.choice(acts)()
    await client.wind_up()


class _Spender(Client):
    async def submit(self) -> None:
        rng = self._rng
        self._count += 1
        workflow = rng.choice([batched, batched, functions, questions, everything])
        key = f"k{rng.randint(1, 3)}" if rng.random() < 0.2 else None
        batch = None
        if rng.random() < 0.2:
            opened = await self._try(self._app.open_batch(key=f"b{self._count}", limit=rng.choice([None, 2])))
            if opened is not None:
                batch = str(opened.id)  # type: ignore[attr-defined]
                self._open.append(batch)
                if rng.random() < 0.5:
                    await self._try(self._app.set_budget(f"batch:{batch}", rng.choice([0.00005, 0.0001, 0.0005])))
        errand = Errand(rng.randint(0, 7) if key is None else 4)
        for _ in range(2 if batch else 1):
            self._remember(
                await self._try(
                    self._app.submit(
                        workflow, errand, key=key, batch=batch, again=key is not None and rng.random() < 0.5
                    )
                )
            )

    def _some_job(self) -> str | None:
        """Rather one with calls on their way: there is more to spoil."""
        busy = [row.job for row in self._world.checker.calls.unsettled()]
        return self._rng.choice(busy) if busy and self._rng.random() < 0.7 else super()._some_job()

    async def set_limits(self) -> None:
        rng = self._rng
        keys = [SLOTS, "workflow:batched", "tenant:*"]
        chosen = [key for key in keys if rng.random() < 0.5]
        await self._try(self._app.engine.set_limits({key: rng.randint(1, 3) for key in chosen}))

    async def set_budget(self) -> None:
        rng = self._rng
        job = self._some_job()
        scope = "tenant:default" if job is None or rng.random() < 0.5 else f"job:{job}"
        await self._try(self._app.set_budget(scope, rng.choice([0.00003, 0.0001, 0.0002, 0.001, None])))

    async def decide(self) -> None:
        await decide(self._app, self._world)


async def decide(app: Penstock, world: World) -> None:
    """What is quarantined is looked up at the provider, and decided; in time of peace budgets are raised too."""
    for row in [row for row in world.checker.view.calls.values() if row.state == "quarantined"]:
        works = world.providers[row.remote].of(f"penstock-{row.id}")
        # What was adopted before, and is in doubt again, is not to be had.
        if works and row.decided_by is None and world.rng.random() < 0.8:
            decision, provider_id = "adopt", works[0].id
        else:
            decision, provider_id = world.rng.choice(["discard"] if works else ["resubmit", "discard"]), None
        world.note("client", "decides", row.id[-6:], decision)
        await _asked(app.decide_call(row.id, decision, provider_id=provider_id, actor="client"))
    if world.loop.time() - world.peace > TIME_TO_THINK:
        for scope, budget in list(world.checker.view.budgets.items()):
            if budget.most < ENOUGH * 1_000_000:
                await _asked(app.set_budget(scope, ENOUGH))


async def _asked(request: Awaitable[object]) -> None:
    try:
        await request
    except PenstockError:
        return
