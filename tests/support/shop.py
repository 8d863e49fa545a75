"""An app with remotes that do as they are told, so that there are remote calls in every state to look at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from penstock import Again, Ambiguous, Context, Penstock, Permanent, RateLimited, Retry, Workflow
from penstock.config import load
from penstock.engine.call import Call, Fact, Hold, Usage
from penstock.engine.model import Job
from penstock.remote.protocol import Accepted, Collected, Found, Guarantee, Order, Plan, Polled
from penstock.store.protocol import Learn
from tests.support.cli import Cli

MODEL = "gemini-2.5-flash"
ESTIMATE = 420_000
COST = 123_456
USAGE = Usage(input=10_000, output=2_000, cached=4_000, thinking=500)


class Shop:
    """What a request asks for is what happens: `answer`, `fail`, `run` (for ever), `refuse`, `vanish` (no reply to the
    sender, and nothing to be found)."""

    submit_timeout = 5.0
    listing_margin = 0.0
    poll_every = 0.01
    poll_at_most = 0.05
    overdue_after = 3600.0

    def __init__(self, name: str, guarantee: Guarantee) -> None:
        self.name = name
        self.guarantee: Guarantee = guarantee
        self.identity = ""
        self.keeps_files = False

    async def prepare(self, order: Order) -> Plan:
        model = order.request.get("model", MODEL)
        named = (Hold(f"resource:{name}") for name in order.request.get("resources", ()))
        holds = (Hold(f"slots:{self.name}", 1, 100), *named)
        return Plan(model=model, estimate=ESTIMATE, holds=holds, prepared={"model": model})

    async def submit(self, order: Order) -> Accepted | Collected:
        does = order.request["does"]
        if does == "refuse":
            raise RateLimited("the shop is full", retry_after=3600)
        if does == "vanish" and order.attempt == 1:
            raise Ambiguous("the line went dead")
        return Accepted(f"batches/{'answer' if does == 'vanish' else does}-{order.label[-8:]}")

    async def find(self, order: Order) -> Found:
        return Found((), complete=False)

    async def poll(self, order: Order, provider_id: str) -> Polled:
        if "fail" in provider_id:
            return Polled(state="failed", error="the shop burnt down")
        if "run" in provider_id:
            return Polled(state="running", done=3, total=8)
        return Polled(state="succeeded", done=8, total=8)

    async def collect(self, order: Order, provider_id: str) -> Collected:
        cost = COST if order.prepared["model"] == MODEL else 0
        return Collected(result={"rows": 8}, usage=USAGE, cost=cost)

    async def cancel(self, order: Order, provider_id: str) -> None: ...

    async def tidy(self, order: Order, provider_id: str | None) -> None: ...

    async def close(self) -> None: ...


orders = Workflow("orders", retry=Retry(attempts=3, base=3600))


@orders.step
async def order(what: dict[str, Any], ctx: Context) -> Any:
    call = await ctx.call(what.get("remote", "shop"), what["does"], what)
    if not call.ended:
        return Again(what, until=call)
    if call.state == "discarded":
        return "without it"
    if not call.ok:
        raise Permanent(f"{call.state}: {call.error}")
    return call.result


def make_app() -> Penstock:
    return Penstock(workflows=[orders], remotes=[Shop("shop", "findable"), Shop("kiosk", "repeatable")])


app = make_app()


class ShopCli(Cli):
    """Commands in a folder whose app is the one of this module."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.environ |= {"PENSTOCK_APP": f"{__name__}:app", "PYTHONPATH": str(Path(__file__).parents[2])}

    def call(self, call_id: str) -> dict[str, Any]:
        call: dict[str, Any] = self.inside("calls", "show", call_id, "--json").json["call"]
        return call


@asynccontextmanager
async def opened_shop(folder: Path) -> AsyncIterator[Stock]:
    """The store that commands in this folder use."""
    app = make_app()
    await app.open(settings=load(cwd=folder, environ={}))
    try:
        yield Stock(app)
    finally:
        await app.close()


class Stock:
    """Makes calls and moves them on, through the app itself; a worker runs only for as long as that takes."""

    def __init__(self, app: Penstock) -> None:
        self.app = app

    async def calls(self, *does: str, tenant: str = "default", **more: Any) -> list[Call]:
        """One job for each, up to where its call was made."""
        told = [await self.app.submit(orders, {"does": what, **more}, tenant=tenant) for what in does]
        async with self.app.worker(grace=5.0):
            return [await self._made(submitted.job_id, what) for submitted, what in zip(told, does, strict=True)]

    async def _made(self, job_id: str, does: str) -> Call:
        ready = {
            "answer": {"collected"},
            "fail": {"failed"},
            "run": {"running"},
            "refuse": {"unsent"},
            "vanish": {"intent", "lost"},
        }[does]
        async with asyncio.timeout(20):
            while True:
                job = await self.app.job(job_id)
                found = await self.app.calls(job=job_id)
                settled = job.final or job.status in ("waiting", "paused")
                if found and found[0].state in ready and settled:
                    return found[0]
                await asyncio.sleep(0.01)

    async def learn(self, call: Call, kind: str, **more: Any) -> Call:
        await self.app.engine.commit(Learn(Fact(call=call.id, kind=kind, **more)))
        return await self.app.call(call.id)

    async def doubt(self, *calls: Call) -> None:
        """Quarantine the calls, and let their jobs find out: they are parked."""
        for call in calls:
            await self.learn(call, "doubted", error="the listing could not be read to its end")
        async with self.app.worker(grace=5.0):
            await self.until([call.job for call in calls], "paused")

    async def until(self, jobs: Sequence[str], status: str) -> list[Job]:
        return [await self.app.wait(job_id, timeout=20, until={status}) for job_id in jobs]

    async def every_state(self) -> dict[str, Call]:
        """A call in each state there is. The quarantined one has no id at the other side."""
        lost = await self.calls("vanish", remote="kiosk", tenant="acme")
        made = await self.calls("answer", "fail", "run", "refuse", "vanish", *["run"] * 7, "vanish")
        await self.doubt(*made[9:])
        for call, kind in zip(made[5:9], ("late", "succeeded", "expired", "cancelled"), strict=True):
            await self.learn(call, kind, error="told so")
        for call, decision in zip(made[9:12], ("adopt", "resubmit", "discard"), strict=True):
            await self.app.decide_call(call.id, decision)
        now = [await self.app.call(call.id) for call in (*lost, *made)]
        return {call.state: call for call in now}
