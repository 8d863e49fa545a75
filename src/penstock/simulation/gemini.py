"""The real Gemini remote and the local Gemini, in virtual time: Google's client speaks to the server's application
without a network. The server belongs to the world; the clients die with their processes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from pydantic_core import from_json

from penstock.engine.call import CallRow
from penstock.gemini_local.app import LocalGemini, create_app, inline_call
from penstock.gemini_local.backends.script import ScriptBackend
from penstock.gemini_local.faults import Fault
from penstock.gemini_local.settings import Pace, Settings
from penstock.remote.gemini.batch import GeminiBatch
from penstock.remote.gemini.client import GeminiClient
from penstock.remote.gemini.settings import GeminiSettings
from penstock.remote.prices import Prices, load_prices
from penstock.remote.protocol import Remote
from penstock.remote.tending import MOST_STRIKES
from penstock.simulation.clock import SimClock
from penstock.simulation.providers import Provider, Work
from penstock.simulation.world import Machine, World

NAME = "gemini.batch"
CREATES = ("batchGenerateContent", "asyncBatchEmbedContent")

QUICK = GeminiSettings(
    base_url="http://127.0.0.1:9",
    connect_timeout=1.0,
    request_timeout=3.0,
    create_timeout=2.0,
    chunk_timeout=5.0,
    transfer_timeout=20.0,
    attempts=2,
    retry_base=0.1,
    upload_parallel=2,
    listing_margin=2.0,
    poll_every=0.5,
    poll_at_most=1.5,
    overdue_after=15.0,
)
PACE = Pace(pending_for=0.3, running_for=0.7, expires_after=60.0)

SLOWEST_LOOK = 6.0
"""Seconds from one look at a call to the next, by workers that look only when they sweep."""

PATIENCE = 2.5 * MOST_STRIKES * SLOWEST_LOOK
"""Seconds of peace in which all must end. A result that is gone for good is asked for `MOST_STRIKES` times before a
person decides, and as often again when they adopt it."""

_OUTCOMES = {"SUCCEEDED": "succeeded", "FAILED": "failed", "EXPIRED": "expired", "CANCELLED": "cancelled"}
_COUNTED = ("ok", "api_error", "blocked", "truncated", "invalid", "missing")


@dataclass(slots=True, kw_only=True)
class GeminiProvider(Provider):
    """What the server's own database says, in the words of the rules."""

    app: LocalGemini
    seen: int = 0
    rows: dict[str, int] = field(default_factory=dict)

    def of(self, label: str) -> Sequence[Work]:
        return [work for work in self.everything() if work.label == label]

    def everything(self) -> Sequence[Work]:
        found = self.app.services.state.db.execute("SELECT * FROM batches ORDER BY number").fetchall()
        self.rows = {row["title"]: row["rows"] for row in found}
        return [_work(row) for row in found]

    def wrong_at_home(self, row: CallRow) -> str | None:
        tally: Mapping[str, int] = from_json(row.result or "{}").get("rows", {})
        home = sum(tally.get(outcome, 0) for outcome in _COUNTED)
        self.everything()
        asked = self.rows.get(f"penstock-{row.id}")
        return None if home == asked else f"{asked} rows were asked, and {home} came home: {tally}"

    def notice(self) -> None:
        """New batches, as soon as they are there."""
        works = self.everything()
        for work in works[self.seen :]:
            self.seen += 1
            self.world.note(self.name, "accepts", work.id, work.label[-6:])
            self.world.checker.calls.accepted(self, work)


def _work(row: Any) -> Work:
    ended = float("inf") if row["ended"] is None else row["ended"]
    lost = any(fault["kind"] == "result_gone" for fault in from_json(row["faults"]))
    return Work(
        id=f"batches/{row['id']}",
        label=row["title"],
        request=None,
        made=row["created"],
        shows=row["created"],
        known=row["created"],
        ends=ended,
        outcome=_OUTCOMES.get(row["state"], "running"),
        charge=0,
        result_lost=lost,
        cancels=int(row["state"] == "CANCELLED"),
    )


class InTheWorld(httpx2.AsyncBaseTransport):
    """A process's way to the server. What was sent is answered by the world, also when the sender is dead."""

    def __init__(self, provider: GeminiProvider, machine: Machine) -> None:
        self._provider = provider
        self._machine = machine
        self._world = machine.world
        self._inner = httpx2.ASGITransport(provider.app)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        world, machine = self._world, self._machine
        await request.aread()
        await world.jitter()
        label = _label(request)
        if world.faults.hits("crash before sending"):
            await machine.die(f"before {request.method} {request.url.path}")
        world.note(machine.name, request.method, request.url.path, (label or "")[-6:])
        if label is not None:
            world.checker.calls.sent(self._provider, label)
        crash = label is not None and world.faults.hits("crash after acceptance")
        serving = world.loop.create_task(self._serve(request, label, crash=crash), context=world.context)
        serving.add_done_callback(lambda task: task.cancelled() or task.exception())
        response = await asyncio.shield(serving)
        if world.faults.hits("crash before the answer is stored"):
            await machine.die(f"after {request.method} {request.url.path}")
        return response

    async def _serve(self, request: httpx2.Request, label: str | None, *, crash: bool) -> httpx2.Response:
        if label is not None:
            self._provider.wire[label] += 1
        try:
            response = await self._inner.handle_async_request(request)
        finally:
            if label is not None:
                self._provider.wire[label] -= 1
                self._provider.notice()
                if crash:
                    self._machine.crash("when its batch is created")
        await self._world.jitter()
        return response


def _label(request: httpx2.Request) -> str | None:
    if request.method != "POST" or not request.url.path.endswith(CREATES):
        return None
    return str(from_json(request.content)["batch"]["displayName"])


class GeminiStack:
    """For `simulate(..., providers=stack.providers, remotes=stack.remotes, folder=stack.folder, patience=PATIENCE)`.
    The scenario begins with `start` and ends with `calm`."""

    def __init__(self, folder: Path, faults: Sequence[Mapping[str, Any]]) -> None:
        self.folder = folder
        self.app: LocalGemini
        self._faults = [Fault.parse(dict(fault)) for fault in faults]
        self._prices: Prices = load_prices(None)

    def providers(self, world: World) -> list[Provider]:
        clock = SimClock(world.loop)
        self.app = create_app(
            self.folder / "gemini",
            ScriptBackend(sleep=clock.sleep),
            clock=clock,
            rng=random.Random(world.rng.getrandbits(64)),
            settings=Settings(pace=PACE),
            in_thread=inline_call,
        )
        provider = GeminiProvider(
            world,
            NAME,
            "findable",
            submit_timeout=QUICK.create_timeout,
            listing_margin=QUICK.listing_margin,
            app=self.app,
        )
        return [provider]

    def remotes(self, machine: Machine) -> list[Remote]:
        world = machine.world
        provider = world.providers[NAME]
        assert isinstance(provider, GeminiProvider)
        client = GeminiClient(
            QUICK,
            clock=machine.clock,
            transport=InTheWorld(provider, machine),
            rng=random.Random(world.rng.getrandbits(64)),
            in_thread=inline_call,
        )
        return [GeminiBatch(client, prices=self._prices)]

    async def start(self) -> None:
        self.app.services.faults.replace(self._faults)
        await self.app.start()

    def calm(self) -> None:
        """Nothing goes wrong any more but what was dealt already."""
        self.app.services.faults.replace(())
