"""What there is to look at in the demo's dashboard when the examples are over: work that goes on, and work that waits
for a person. A press that prints nothing takes the place of a provider; nothing is paid and nothing leaves the
machine."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Sequence
from pathlib import Path

from penstock.app import FollowUp, Penstock
from penstock.builtin import installed_workflows
from penstock.engine.call import Usage
from penstock.engine.context import Context
from penstock.engine.errors import Ambiguous, Permanent
from penstock.engine.outcome import Again
from penstock.engine.workflow import Workflow
from penstock.remote.protocol import Accepted, Collected, Found, Guarantee, Order, Plan, Polled

inspection = Workflow("inspection")
gauges = Workflow("gauges")
readings = Workflow("readings")
surveys = Workflow("surveys")
invoices = Workflow("invoices")
posters = Workflow("posters")
berths = Workflow("berths")
parcels = Workflow("parcels")
manifest = Workflow("manifest")

PARCELS = 60
SIGHTS = 500


@inspection.step
async def walk(place: int, ctx: Context) -> Again:
    """Along the pipe, metre by metre, and back to its beginning."""
    while not ctx.halted and place < SIGHTS:
        await asyncio.sleep(0.5)
        place += 1
        ctx.progress(place, SIGHTS, "metres")
    return Again(place % SIGHTS)


@gauges.step
async def look(number: int, ctx: Context) -> Again:
    ctx.spawn(readings, number)
    ctx.count(readings=1)
    return Again(number + 1, after=2.0)


@readings.step
async def read(number: int, ctx: Context) -> float:
    await asyncio.sleep(0.2 + number % 7 / 10)
    return 4.0 + number % 11 / 10


@surveys.step
async def sound(depth: int, ctx: Context) -> Again | str:
    if depth == 40:
        return "the bottom"
    ctx.progress(depth, 40, "soundings")
    return Again(depth + 1, after=0.5)


@invoices.step
async def file(name: str, ctx: Context) -> str:
    await asyncio.sleep(0.3)
    if ctx.job.run == 1 and "scan" in name:
        raise Permanent(f"{name}: the page is blank; put it on the glass again and retry")
    return f"{name} is filed"


@posters.step
async def order(poster: str, ctx: Context) -> Again | str:
    call = await ctx.call("press", poster, {"poster": poster})
    if not call.ended:
        return Again(poster, until=call)
    if not call.ok:
        return f"{poster}: not printed ({call.state})"
    return f"{poster}: {call.result['sheets']} sheets"


@berths.step
async def moor(ship: str, ctx: Context) -> Again | str:
    if not await ctx.lock("berth 4"):
        return Again(ship, after=5.0)
    return ship


@berths.step
async def unload(ship: str, ctx: Context) -> Again:
    """It stays until somebody cancels it, and the next one gets the berth."""
    return Again(ship, after=60.0)


@parcels.step
async def weigh(number: int, ctx: Context) -> int:
    await asyncio.sleep(3 + number % 5)
    return 2 + number % 9


@manifest.step
async def add_up(title: str, ctx: Context) -> str:
    weight = 0
    async for job in ctx.members():
        weight += job.result if job.status == "completed" else 0
    return f"{title}: {weight} kg"


class Press:
    """Prints what it is asked to, slowly. Of `the lost poster` it never says whether it has the order."""

    name = "press"
    guarantee: Guarantee = "findable"
    identity = ""
    keeps_files = False
    submit_timeout = 0.5
    listing_margin = 0.0
    poll_every = 0.2
    poll_at_most = 0.4
    overdue_after = 3600.0

    def __init__(self) -> None:
        self._printed: dict[str, int] = {}

    async def prepare(self, order: Order) -> Plan:
        return Plan(model="offset", estimate=900_000)

    async def submit(self, order: Order) -> Accepted | Collected:
        if "lost" in order.key and order.attempt == 1:
            raise Ambiguous("the press hung up while it was being told")
        return Accepted(f"print-{order.label[-6:]}")

    async def find(self, order: Order) -> Found:
        return Found((), complete=False)

    async def poll(self, order: Order, provider_id: str) -> Polled:
        sheets = 3000 if "long" in order.key else 5
        done = self._printed[provider_id] = min(self._printed.get(provider_id, 0) + 1, sheets)
        return Polled(state="running" if done < sheets else "succeeded", done=done, total=sheets)

    async def collect(self, order: Order, provider_id: str) -> Collected:
        sheets = self._printed.get(provider_id, 5)
        return Collected(result={"sheets": sheets}, usage=Usage(input=1200, output=300), cost=240_000 + 1000 * sheets)

    async def cancel(self, order: Order, provider_id: str) -> None:
        self._printed[provider_id] = 10**6

    async def tidy(self, order: Order, provider_id: str | None) -> None: ...

    async def close(self) -> None: ...


def make_app() -> Penstock:
    workflows = [inspection, gauges, readings, surveys, invoices, posters, berths, parcels, manifest]
    return Penstock(workflows=workflows, remotes=[Press()])


async def furnish(app: Penstock) -> None:
    """Submit it all. Some of it is steered at once, as a person would."""
    await app.submit(inspection, 0, key="pipe 1")
    await app.submit(gauges, 0, key="gauges")
    survey = await app.submit(surveys, 12, key="lake")
    await app.submit_many(invoices, ["coal.pdf", "scan 7.png", "scan 9.png", "rope.pdf"])
    await app.set_budget("tenant:harbour", 0.5)
    await app.submit_many(posters, ["the first poster", "the lost poster", "the long poster"])
    await app.submit(posters, "a poster beyond the budget", tenant="harbour")
    await app.submit_many(berths, ["Amelie", "Botany Bay"], keys=["Amelie", "Botany Bay"])
    batch = await app.open_batch(key="autumn", limit=3, then=FollowUp(workflow=manifest, payload="The autumn parcels"))
    await app.submit_many(parcels, range(PARCELS), batch=batch.id)
    await app.seal_batch(batch.id)
    await app.schedule("every morning", "0 6 * * *", invoices, "daily.pdf", timezone="Europe/Berlin")
    await app.pause(survey.job_id, reason="the boat is at lunch", actor="demo")


def adopt_workflows(app: Penstock, programs: Sequence[Path]) -> None:
    """Let the demo's worker know the examples' workflows and the pipelines, now that they are over: what failed can be
    retried."""
    for path in programs:
        spec = importlib.util.spec_from_file_location(f"penstock_demo_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for workflow in module.app.workflows.values():
            app.add(workflow)
    for workflow in installed_workflows():
        app.add(workflow)
