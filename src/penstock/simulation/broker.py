"""How hints travel between simulated processes: some are lost, some come twice, late, or out of order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from penstock.simulation.world import Machine, World
from penstock.store.protocol import ANY_QUEUE

LONGEST_DELAY = 60.0


class Inbox:
    """The messages that reached one consumer: queue names, or job ids."""

    def __init__(self) -> None:
        self._messages: deque[str] = deque()
        self._news = asyncio.Event()

    def put(self, message: str) -> None:
        if message not in self._messages:
            self._messages.append(message)
            self._news.set()

    async def get(self) -> str:
        while not self._messages:
            self._news.clear()
            await self._news.wait()
        return self._messages.popleft()


class Broker:
    """Hints for who listens to the store (`on_change`), and messages for consumers, each of them for one."""

    def __init__(self, world: World, queues: tuple[str, ...]) -> None:
        self._world = world
        self._queues = queues
        self._listeners: list[tuple[Machine, Callable[[set[str]], None]]] = []
        self._consumers: dict[str, list[tuple[Machine, Inbox]]] = {"queue": [], "job": []}
        self._planned: set[tuple[str, str]] = set()

    def listen(self, machine: Machine, listener: Callable[[set[str]], None]) -> Callable[[], None]:
        place = (machine, listener)
        self._listeners.append(place)
        return lambda: self._listeners.remove(place)

    def consume(self, kind: str, machine: Machine, inbox: Inbox) -> Callable[[], None]:
        place = (machine, inbox)
        self._consumers[kind].append(place)
        return lambda: self._consumers[kind].remove(place)

    def forget(self, machine: Machine) -> None:
        """A process died: it hears nothing any more."""
        self._listeners = [place for place in self._listeners if place[0] is not machine]
        for kind, places in self._consumers.items():
            self._consumers[kind] = [place for place in places if place[0] is not machine]

    def announce(self, sender: Machine, hints: set[str]) -> None:
        """A transaction made work claimable: other processes may hear of it."""
        for machine, listener in self._listeners:
            if machine is not sender:
                self._carry(lambda m=machine, n=listener: self._tell(m, n, set(hints)))  # type: ignore[misc]

    def publish(self, hints: set[str], after: float) -> None:
        """What an engine's hints become where messages deliver them."""
        for queue in self._queues if ANY_QUEUE in hints else sorted(hints):
            self.send("queue", queue, after)

    def send(self, kind: str, message: str, after: float = 0.0) -> None:
        """A message to one consumer of the kind. Of several planned for later only the first is kept."""
        if after <= 0:
            self._carry(lambda: self._deliver(kind, message))
        elif (kind, message) not in self._planned:
            self._planned.add((kind, message))
            self._later(min(after, LONGEST_DELAY), self._planned_now, kind, message)

    def _planned_now(self, kind: str, message: str) -> None:
        self._planned.discard((kind, message))
        self.send(kind, message)

    def _carry(self, deliver: Callable[[], None]) -> None:
        hits, rng = self._world.faults.hits_hint, self._world.rng
        if hits("hint lost"):
            return
        for _ in range(2 if hits("hint twice") else 1):
            self._later(rng.random() * 10 if hits("hint late") else rng.random() * 0.02, deliver)

    def _later(self, delay: float, call: Callable[..., None], *args: str) -> None:
        self._world.loop.call_later(delay, call, *args, context=self._world.context)

    def _tell(self, machine: Machine, listener: Callable[[set[str]], None], hints: set[str]) -> None:
        if not machine.dead:
            self._world.loop.call_soon(listener, hints, context=machine.context)

    def _deliver(self, kind: str, message: str) -> None:
        places = self._consumers[kind]
        if places:
            machine, inbox = self._world.rng.choice(places)
            self._world.loop.call_soon(inbox.put, message, context=machine.context)
