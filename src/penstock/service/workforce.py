"""Who does the work while the service serves: a worker in this process, child processes (`fleet.py`), or nobody."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from penstock.app import Penstock
from penstock.delivery.embedded import Embedded

log = logging.getLogger("penstock.service")


class Workforce(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None:
        """Claim nothing more, let running steps finish within the grace, hand back the rest."""
        ...

    def hurry(self) -> None:
        """While it stops: stop what still runs now."""
        ...


class Nobody:
    """The work is done elsewhere."""

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    def hurry(self) -> None:
        pass


class OwnWorker:
    """A worker on the service's own event loop. A step that blocks the loop makes the service deaf for so long: steps
    like that belong into processes."""

    def __init__(self, penstock: Penstock, *, queues: Sequence[str], concurrency: int, grace: float) -> None:
        self._penstock = penstock
        self._queues = tuple(queues)
        self._concurrency = concurrency
        self._grace = grace
        self._delivery: Embedded | None = None

    async def start(self) -> None:
        engine = self._penstock.engine
        self._delivery = Embedded(engine, queues=self._queues, concurrency=self._concurrency, grace=self._grace)
        await self._delivery.start()
        log.info(
            "worker %s is ready: workflows %s; queues %s; %d at once",
            engine.worker,
            ", ".join(sorted(self._penstock.workflows)),
            ", ".join(self._queues),
            self._concurrency,
        )

    async def stop(self) -> None:
        if self._delivery is None:
            return
        running = self._delivery.running
        log.info("the worker stops: %s running", "1 step is" if running == 1 else f"{running or 'no'} steps are")
        await self._delivery.stop()

    def hurry(self) -> None:
        for tick in list(self._penstock.engine.ticks.values()):
            if tick.task is not None:
                tick.task.cancel("the service stops at once")
