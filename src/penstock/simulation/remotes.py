"""A simulated process's way to the simulated providers: the protocol of a remote, and what goes wrong on the way."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from penstock.engine.call import Hold, Usage
from penstock.engine.errors import Ambiguous, Permanent, RateLimited, Transient
from penstock.remote.protocol import Accepted, Collected, Found, Guarantee, Order, Plan, Polled, ResultGone
from penstock.simulation.providers import SLOTS, TOKENS, Provider, Work
from penstock.simulation.world import Machine

ESTIMATE = 60
"""What each call may cost at most."""


class SimulatedRemote:
    """One for each process and provider."""

    guarantee: Guarantee
    identity = ""
    keeps_files = False

    def __init__(self, provider: Provider, machine: Machine) -> None:
        self._provider = provider
        self._machine = machine
        self._world = machine.world
        self.name = provider.name
        self.guarantee = provider.guarantee
        self.submit_timeout = provider.submit_timeout
        self.listing_margin = provider.listing_margin
        self.poll_every = provider.poll_every
        self.poll_at_most = provider.poll_at_most
        self.overdue_after = provider.overdue_after

    async def prepare(self, order: Order) -> Plan:
        await self._world.jitter()
        if self._world.faults.hits("prepare fails"):
            raise Transient("simulated: the upload broke off")
        await self._may_die("crash before sending", "while it prepares a call")
        holds = () if self.guarantee == "repeatable" else (Hold(SLOTS), TOKENS)
        return Plan(model="simulated", estimate=ESTIMATE, holds=holds, prepared={"label": order.label})

    async def submit(self, order: Order) -> Accepted | Collected:
        world, provider, hits = self._world, self._provider, self._world.faults.hits
        await self._may_die("crash before sending", f"before it sends {order.label[-6:]}")
        world.note(self._machine.name, "sends", order.label[-6:], "to", self.name)
        world.checker.calls.sent(provider, order.label)
        if refusal := self._refusal():
            await world.jitter()
            raise refusal
        if hits("request lost"):
            await self._nothing_heard()
        work = await self._travel(order)
        await self._may_die("crash before the answer is stored", f"with the answer about {work.id}")
        if self.guarantee == "repeatable":
            return self._brought_home(work)
        return Accepted(work.id)

    def _refusal(self) -> Exception | None:
        hits = self._world.faults.hits
        if hits("refused for now"):
            return Transient("simulated: not now")
        if hits("refused by rate"):
            return RateLimited("simulated: too many", retry_after=self._world.rng.choice([None, 0.3, 2.0]))
        if hits("refused for good"):
            return Permanent("simulated: never")
        return None

    async def _nothing_heard(self, after: float = 0.0) -> NoReturn:
        """The connection breaks, perhaps while the request is still on its way, or stays silent until the caller's
        patience ends."""
        await self._world.jitter()
        await asyncio.sleep(after if self._world.rng.random() < 0.6 else 10 * self.submit_timeout)
        raise Ambiguous("simulated: the connection broke")

    async def _travel(self, order: Order) -> Work:
        """From here on the request is in the network: it arrives whatever becomes of the process that sent it."""
        world, provider, rng = self._world, self._provider, self._world.rng
        delay = rng.random() * 0.05
        if world.faults.hits("slow submit"):
            delay = rng.random() * self.submit_timeout * 0.999
        if world.faults.hits("submit breaks its promise"):
            delay = self.submit_timeout + rng.random() * 20
            world.broken.add(order.label)
        lost = world.faults.hits("reply lost")
        crash = self._machine.mortal and world.faults.hits("crash after acceptance")
        if crash and rng.random() < 0.3:
            world.loop.call_later(rng.random() * delay, self._machine.crash, "after it sent", context=world.context)
        answer: asyncio.Future[Work] = asyncio.get_running_loop().create_future()
        provider.wire[order.label] += 1

        def arrive() -> None:
            provider.wire[order.label] -= 1
            work = provider.accept(order)
            if crash:
                self._machine.crash(f"when {work.id} is accepted")
            if not lost:
                back = rng.random() * (self.submit_timeout if delay > 1 else 0.05)
                world.loop.call_later(back, _answer, answer, work, context=self._machine.context)

        world.loop.call_later(delay, arrive, context=world.context)
        if lost:
            await self._nothing_heard(rng.random() * 2 * delay)
        return await answer

    async def find(self, order: Order) -> Found:
        world, provider, hits = self._world, self._provider, self._world.faults.hits
        now = provider.now
        seen = [work.id for work in provider.of(order.label) if work.shows <= now]
        await world.jitter()
        if hits("listing fails"):
            raise Transient("simulated: the listing failed")
        complete = True
        if provider.hidden.get(order.label, 0.0) > now and not world.faults.stopped:
            seen, complete = [], False
        elif hits("listing incomplete"):
            seen, complete = [id_ for id_ in seen if world.rng.random() < 0.5], False
        world.note(self._machine.name, "finds", order.label[-6:], *seen, "of all" if complete else "of some")
        return Found(tuple(seen), complete)

    async def poll(self, order: Order, provider_id: str) -> Polled:
        world, provider, hits = self._world, self._provider, self._world.faults.hits
        await world.jitter()
        if hits("poll fails"):
            raise TimeoutError("simulated: no answer to a poll") if world.rng.random() < 0.5 else Transient("simulated")
        now = provider.now
        work = provider.works.get(provider_id)
        if work is None or work.known > now:
            return Polled(state="gone", error="simulated: 404")
        if hits("unknown state"):
            return Polled(state="unknown", error="simulated: JOB_STATE_ODD")
        state = work.state(now)
        world.note(self._machine.name, "polls", provider_id, state)
        return Polled(state=state, done=int(state == "succeeded"), total=1)  # type: ignore[arg-type]

    async def collect(self, order: Order, provider_id: str) -> Collected:
        await self._world.jitter()
        if self._world.faults.hits("collect fails"):
            raise Transient("simulated: the download broke off")
        work = self._provider.works.get(provider_id)
        if work is None or work.result_lost or work.state(self._provider.now) != "succeeded":
            raise ResultGone("simulated: there is no result any more")
        await self._may_die("crash before the answer is stored", f"with the result of {provider_id}")
        return self._brought_home(work)

    def _brought_home(self, work: Work) -> Collected:
        result = {"label": work.label, "request": work.request}
        return Collected(result=result, usage=Usage(input=work.charge), cost=work.charge)

    async def cancel(self, order: Order, provider_id: str) -> None:
        await self._world.jitter()
        if self._world.faults.hits("cancel fails"):
            raise Transient("simulated: the cancel broke off")
        if (work := self._provider.works.get(provider_id)) is not None:
            self._provider.cancel(work)

    async def tidy(self, order: Order, provider_id: str | None) -> None:
        await self._world.jitter()

    async def close(self) -> None:
        pass

    async def _may_die(self, fault: str, why: str) -> None:
        if self._machine.mortal and self._world.faults.hits(fault):
            await self._machine.die(why)


def _answer(answer: asyncio.Future[Work], work: Work) -> None:
    if not answer.done():
        answer.set_result(work)
