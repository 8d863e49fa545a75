"""The built-in client: a handful of jobs, and a person who cannot leave them alone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from penstock.app import FollowUp, Penstock
from penstock.engine.errors import PenstockError, StoreError
from penstock.engine.priority import Priority
from penstock.simulation.sample import Errand, chain, fan_out, gather, guarded, part_of, saver
from penstock.simulation.world import World
from penstock.store.protocol import Once

TENANTS = ("default", "default", "north", "south")


async def restless(app: Penstock, world: World) -> None:
    """Submit, watch, and interfere."""
    client = Client(app, world)
    rng = world.rng
    await client.prepare()
    for _ in range(rng.randint(3, 9)):
        await client.submit_something()
        await asyncio.sleep(rng.random() * 2)
    acts: list[Callable[[], Awaitable[None]]] = [
        client.pause, client.pause, client.resume, client.cancel, client.retry, client.change_limits,
        client.submit_something,
    ]  # fmt: skip
    for _ in range(rng.randint(0, 10)):
        await asyncio.sleep(rng.random() * 4)
        await rng.choice(acts)()
    await client.wind_up()


class Client:
    """Submits, and interferes; a refusal is no error of its own."""

    def __init__(self, app: Penstock, world: World) -> None:
        self._app = app
        self._world = world
        self._rng: random.Random = world.rng
        self._jobs: list[str] = []
        self._open: list[str] = []
        self._schedules: list[str] = []
        self._count = 0
        self._dice = random.Random(world.seed)
        self._unheard: list[asyncio.Task[object]] = []

    async def _ask(self, request: Callable[..., Coroutine[Any, Any, object]]) -> object:
        """Some requests somebody answers for. Some of those have a key: they are asked again until an answer arrives,
        while the tries before may still be on their way."""
        dice, chance = self._dice, self._dice.random()
        if chance < 0.5:
            return await self._try(request())
        actor = self._actor()
        if chance < 0.7:
            return await self._try(request(actor=actor))
        once = Once("client", actor, "digest")
        while True:
            asked = asyncio.create_task(request(actor=actor, once=once))
            if dice.random() < 0.3:
                asked.add_done_callback(_heard)
                self._unheard.append(asked)
                await asyncio.wait([asked], timeout=dice.random() * 0.2)
                continue
            try:
                return await asked
            except StoreError as away:
                self._world.note("client", "asks again:", type(away).__name__)
                await asyncio.sleep(dice.random() * 3)
            except PenstockError as refused:
                self._world.note("client", "was refused:", type(refused).__name__)
                return None

    def _actor(self) -> str:
        return self._world.checker.records.new_actor()

    async def _try(self, request: Awaitable[object]) -> object:
        """A refusal or a store that is away is no error of the client."""
        try:
            return await request
        except PenstockError as refused:
            self._world.note("client", "was refused:", type(refused).__name__)
            return None

    async def prepare(self) -> None:
        rng = self._rng
        if rng.random() < 0.5:
            await self.change_limits()
        if rng.random() < 0.25:
            self._schedules.append("often")
            await self._try(
                self._app.schedule(
                    "often", "* * * * *", chain, Errand(3), timezone=rng.choice(["UTC", "Europe/Berlin"])
                )
            )

    async def change_limits(self) -> None:
        rng = self._rng
        keys = ["workflow:chain", "workflow:part", "resource:remote", "resource:gpu", "tenant:*", "tenant:north"]
        chosen = [key for key in keys if rng.random() < 0.4]
        await self._try(self._app.engine.set_limits({key: rng.randint(1, 3) for key in chosen}))

    async def submit_something(self) -> None:
        kind = self._rng.choice(
            [self._submit_plain, self._submit_plain, self._submit_plain, self._submit_batch, self._submit_parts]
        )
        await kind()

    def _priority(self) -> Priority | None:
        rng = self._rng
        if rng.random() < 0.4:
            return None
        return Priority(base=rng.choice([10, 50, 90]), ageing=rng.choice([None, 1, 10]), cap=rng.choice([5, 50]))

    async def _submit_plain(self) -> None:
        rng = self._rng
        self._count += 1
        workflow = rng.choice([chain, guarded, saver])
        key = f"k{rng.randint(1, 6)}" if rng.random() < 0.4 else None
        lock = f"lock{rng.randint(1, 2)}"
        n = rng.randint(1, 6) if key is None else 4
        errand = Errand(n, lock=lock if key is None else "lock1")
        submit = partial(
            self._app.submit, workflow, errand, key=key, tenant=rng.choice(TENANTS), again=rng.random() < 0.3,
            after=rng.choice([0.0, 0.0, 1.5]), priority=self._priority(),
        )  # fmt: skip
        self._remember(await self._ask(submit))

    async def _submit_batch(self) -> None:
        """Either a job fans out into the batch and seals it, or the client does so itself, member by member."""
        rng = self._rng
        self._count += 1
        tenant = rng.choice(TENANTS)
        then = FollowUp(workflow=gather, payload=Errand(0)) if rng.random() < 0.8 else None
        limit = rng.choice([None, 1, 2])
        batch = await self._ask(
            partial(self._app.open_batch, key=f"b{self._count}", tenant=tenant, limit=limit, then=then)
        )
        if batch is None:
            return
        batch_id = str(batch.id)  # type: ignore[attr-defined]
        self._open.append(batch_id)
        if rng.random() < 0.6:
            errand = Errand(rng.randint(0, 4), batch=batch_id)
            self._remember(await self._try(self._app.submit(fan_out, errand, tenant=tenant)))
            return
        for n in range(rng.randint(0, 3)):
            self._remember(
                await self._try(self._app.submit(part_of, Errand(n), key=f"shared{n}", tenant=tenant, batch=batch_id))
            )
        if rng.random() < 0.7:
            await self._try(self._app.seal_batch(batch_id))

    async def _submit_parts(self) -> None:
        errands = [Errand(n) for n in range(self._rng.randint(1, 3))]
        many = await self._ask(partial(self._app.submit_many, part_of, errands, priority=self._priority()))
        for submitted in many if isinstance(many, list) else []:
            self._remember(submitted)

    def _remember(self, submitted: object) -> None:
        if submitted is not None:
            self._jobs.append(submitted.job_id)  # type: ignore[attr-defined]

    def _some_job(self) -> str | None:
        jobs = self._jobs + list(self._world.checker.unfinished)
        return self._rng.choice(jobs) if jobs else None

    async def pause(self) -> None:
        if job := self._some_job():
            await self._try(self._app.pause(job, reason="simulated", actor=self._actor()))

    async def resume(self) -> None:
        if job := self._some_job():
            await self._try(self._app.resume(job, actor=self._actor()))

    async def cancel(self) -> None:
        if job := self._some_job():
            await self._try(self._app.cancel(job, actor=self._actor()))

    async def retry(self) -> None:
        if self._open and self._rng.random() < 0.5:
            batch = await self._ask(partial(self._app.retry_batch, self._rng.choice(self._open)))
            if batch is not None:
                self._open.append(batch.id)  # type: ignore[attr-defined]
        elif job := self._some_job():
            await self._try(self._app.retry(job, actor=self._actor()))

    async def wind_up(self) -> None:
        """Nothing is left open that would never end by itself."""
        if self._unheard:
            await asyncio.wait(self._unheard)
        for name in self._schedules:
            while True:
                try:
                    await self._app.engine.remove_schedule(name)
                    break
                except PenstockError:
                    await asyncio.sleep(1.0)
        for batch in self._open:
            for _ in range(50):
                if await self._try(self._app.seal_batch(batch)) is not None:
                    break
                await asyncio.sleep(1.0)


def _heard(asked: asyncio.Task[object]) -> None:
    """Nobody waits for its answer, and nobody minds its error."""
    if not asked.cancelled():
        asked.exception()
