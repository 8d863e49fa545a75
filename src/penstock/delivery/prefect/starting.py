"""Starts flow runs: whoever makes work claimable has Prefect run it at once.

A hint says that there may be work; the store says whose. One flow run is asked for each time that a job becomes ready,
under a key that Prefect knows, so a repeat makes no second one. What fails here is logged and left to the schedule.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections import deque
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.delivery.prefect.naming import DEPLOYMENT, api_url, flow_name, require_prefect, run_key
from penstock.delivery.prefect.outlook import alive_for
from penstock.engine.engine import Engine
from penstock.engine.errors import InvalidConfiguration
from penstock.store.protocol import JobFilter

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

log = logging.getLogger("penstock.delivery")

LAST_WAIT = 15.0
"""Seconds that a program which ends waits for the flow run of its last submit."""
REMEMBERED = 1000
SAY_AGAIN_AFTER = 60.0


class FlowRuns:
    """For as long as it is open, work that becomes claimable through this engine gets a flow run. `own`: a workflow
    that is advanced here already. `only_idle`: leave out those that some worker takes care of."""

    def __init__(self, engine: Engine, *, own: str | None = None, only_idle: bool = False) -> None:
        self._engine = engine
        self._own = own
        self._only_idle = only_idle
        self._news = False
        self._looking: asyncio.Task[None] | None = None
        self._asked: deque[str] = deque(maxlen=REMEMBERED)
        self._deployments: dict[str, UUID] = {}
        self._client: PrefectClient | None = None
        self._open = AsyncExitStack()
        self._said: tuple[str, float] = ("", 0.0)
        self._unhook = engine.on_hint(self._hinted)

    async def close(self) -> None:
        """Let what was hinted at be started, within reason."""
        self._unhook()
        if self._looking is not None:
            await asyncio.wait([self._looking], timeout=LAST_WAIT)
            if not self._looking.done():
                self._looking.cancel()
                await asyncio.wait([self._looking])
                self._complain(TimeoutError(f"no answer within {LAST_WAIT:g} s"))
        await self._open.aclose()

    def _hinted(self, queues: set[str], after: float) -> None:
        """What is due later is found by the flow run that waits for it, by the worker, or by the schedule."""
        if after > 0:
            return
        self._news = True
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look(), name="penstock-flow-runs")

    async def _look(self) -> None:
        while self._news:
            self._news = False
            try:
                for workflow in list(self._engine.workflows):
                    if workflow != self._own:
                        await self._look_at(workflow)
            except Exception as error:
                self._complain(error)

    async def _look_at(self, workflow: str) -> None:
        store = self._engine.store
        newest = await store.jobs(JobFilter(workflow=workflow, status=("queued", "canceling"), limit=1, brief=True))
        if not newest:
            return
        told = await store.history_page(newest[0].id, newest=True, limit=1)
        key = run_key(newest[0], told[-1][0] if told else 0)
        if key in self._asked or (self._only_idle and await alive_for(self._engine, workflow)):
            return
        await self._start(workflow, key)
        self._asked.append(key)

    async def _start(self, workflow: str, key: str) -> None:
        client = await self._connected()
        from penstock.delivery.prefect.waiting import one_is_to_begin

        deployment = await self._deployment(client, workflow)
        if await one_is_to_begin(client, deployment):
            log.debug("a flow run of %s is about to begin: it finds this work", workflow)
            return
        run = await client.create_flow_run_from_deployment(deployment, idempotency_key=key)
        log.debug("flow run %s for %s: %s", run.name, workflow, key)

    async def _connected(self) -> PrefectClient:
        if self._client is None:
            require_prefect()
            # Prefect takes a second to import: not in the loop, which may serve others.
            await asyncio.to_thread(importlib.import_module, "penstock.delivery.prefect.waiting")
            from prefect.client.orchestration import get_client

            api_url()
            self._client = await self._open.enter_async_context(get_client())
        return self._client

    async def _deployment(self, client: PrefectClient, workflow: str) -> UUID:
        if workflow not in self._deployments:
            found = await client.read_deployment_by_name(f"{flow_name(workflow)}/{DEPLOYMENT}")
            self._deployments[workflow] = found.id
        return self._deployments[workflow]

    def _complain(self, error: Exception) -> None:
        """Once a minute at most for the same thing: every submit would say it."""
        self._deployments.clear()
        what = str(error) if isinstance(error, InvalidConfiguration) else f"{type(error).__name__}: {error}"
        if type(error).__name__ == "ObjectNotFound":
            what = "there is no deployment for it yet, start `penstock worker --delivery prefect`"
        now = self._engine.clock.now()
        again = what == self._said[0] and now - self._said[1] < SAY_AGAIN_AFTER
        if not again:
            self._said = (what, now)
        level = logging.DEBUG if again else logging.WARNING
        log.log(level, "no flow run was started, Prefect's schedule finds the work later: %s", what)
