"""A provider that a test holds in its hand: it says what was asked of it, and does what it is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.engine.call import Hold, Usage
from penstock.remote.protocol import Accepted, Collected, Found, Guarantee, Order, Plan, Polled, PolledState


@dataclass
class Work:
    label: str
    state: PolledState = "running"
    cancels: int = 0
    collects: int = 0


@dataclass
class Provider:
    """`finishes`: what a new piece of work becomes by itself at its first poll. `on_submit` may raise, before or after
    the work was taken (`takes_first`)."""

    name: str = "provider"
    guarantee: Guarantee = "findable"
    identity: str = ""
    keeps_files: bool = False
    finishes: PolledState = "succeeded"
    cost: int = 700
    estimate: int = 1000
    priced: bool = True
    holds: tuple[Hold, ...] = ()
    on_submit: Callable[[], None] | None = None
    takes_first: bool = True
    complete: bool = True
    inline: bool = False

    submit_timeout: float = 1.0
    listing_margin: float = 0.2
    poll_every: float = 0.02
    poll_at_most: float = 0.1
    overdue_after: float = 3600.0

    works: dict[str, Work] = field(default_factory=dict)
    prepared: int = 0
    tidied: int = 0

    async def prepare(self, order: Order) -> Plan:
        self.prepared += 1
        return Plan(model="some-model", estimate=self.estimate, priced=self.priced, holds=self.holds)

    async def submit(self, order: Order) -> Accepted | Collected:
        trouble, self.on_submit = self.on_submit, None
        if trouble is not None and not self.takes_first:
            trouble()
        name = f"work-{len(self.works) + 1}"
        self.works[name] = Work(order.label)
        if trouble is not None:
            trouble()
        if self.inline:
            return Collected(result=order.request, usage=Usage(10, 5), cost=self.cost)
        return Accepted(name)

    async def find(self, order: Order) -> Found:
        return Found(tuple(name for name, work in self.works.items() if work.label == order.label), self.complete)

    async def poll(self, order: Order, provider_id: str) -> Polled:
        work = self.works.get(provider_id)
        if work is None:
            return Polled(state="gone")
        if work.state == "running":
            work.state = self.finishes
        return Polled(state=work.state, error="it broke" if work.state == "failed" else None)

    async def collect(self, order: Order, provider_id: str) -> Collected:
        self.works[provider_id].collects += 1
        return Collected(result={"id": provider_id}, usage=Usage(10, 5), cost=self.cost)

    async def cancel(self, order: Order, provider_id: str) -> None:
        work = self.works[provider_id]
        work.cancels += 1
        if work.state == "running":
            work.state = "cancelled"

    async def tidy(self, order: Order, provider_id: str | None) -> None:
        self.tidied += 1

    async def close(self) -> None:
        pass


def raising(error: Exception) -> Callable[[], None]:
    def do() -> None:
        raise error

    return do


def answer(call: Any) -> dict[str, Any]:
    return {"state": call.state, "result": call.result, "attempt": call.attempt}
