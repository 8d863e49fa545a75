"""An app with remotes that do as they are told, so that there are remote calls in every state to look at."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from penstock import Again, Ambiguous, Context, Penstock, Permanent, RateLimited, Retry, Workflow
from penstock.engine.call import Call, Fact, Usage
from penstock.engine.model import Job
from penstock.remote.protocol import Accepted, Collected, Found, Guarantee, Hold, Order, Plan, Polled
from penstock.store.protocol import Learn

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

    async def prepare(self, order: Order) -> Plan:
        model = order.request.get("model", MODEL)
        return Plan(model=model, estimate=ESTIMATE, holds=(Hold(f"slots:{self.name}", 1, 100),))

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
        return Collected(result={"rows": 8}, usage=USAGE, cost=COST)

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


def make_app(store: str | None = None) -> Penstock:
    remotes = [Shop("shop", "findable"), Shop("kiosk", "repeatable")]
    return Penstock(workflows=[orders], remotes=remotes, store=store)


app = make_app()


class Stock:
    """Makes calls and moves them on, through the app itself, while no worker runs."""

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
