"""An app with something of everything to look at: the dashboard's pages are tested and photographed with it. Its remote
asks nobody: it answers by itself, and some calls it never answers.

`fill` makes the past, by a clock that is set back; `penstock up` with `app` then runs what is still to be done.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from penstock import Again, Ambiguous, Context, Penstock, Permanent, Priority, Retry, Transient, Workflow
from penstock.app import FollowUp
from penstock.config import Settings
from penstock.engine.call import Fact, Hold, Usage
from penstock.engine.clock import SystemClock
from penstock.remote.protocol import Accepted, Collected, Found, Guarantee, Order, Plan, Polled
from penstock.store.protocol import Learn

BUSY = ("queued", "running", "waiting")
MODELS = ("gemini-3.8-flash", "gemini-3.8-pro")
TITLES = (
    "annual-report-2025", "board-minutes-march", "lease-berlin", "patent-family-118", "invoice-88421", "field-notes-7",
    "thesis-okafor", "manual-pump-x2", "tender-harbour", "letters-1912", "survey-north", "catalogue-autumn",
)  # fmt: skip


class Document(BaseModel):
    name: str
    pages: int = 12
    language: str = "en"
    fate: str = ""
    """What becomes of it; nothing unusual unless told."""


class Studio:
    """A remote that does what the request's fate says: `run` runs for ever, `vanish` gives no reply."""

    submit_timeout = 5.0
    listing_margin = 0.0
    poll_every = 2.0
    poll_at_most = 20.0
    overdue_after = 3600.0

    def __init__(self, name: str, guarantee: Guarantee) -> None:
        self.name = name
        self.guarantee: Guarantee = guarantee
        self.identity = ""
        self.keeps_files = False

    async def prepare(self, order: Order) -> Plan:
        pages = order.request["pages"]
        model = MODELS[pages % 7 == 0]
        estimate = pages * (2_600 if model == MODELS[0] else 14_000)
        holds = (Hold(f"tokens:{model}", pages * 1200, 3_000_000),)
        return Plan(model=model, estimate=estimate, usage=Usage(pages * 1100, pages * 400), holds=holds, prepared={
            "model": model, "pages": pages, "estimate": estimate, "display_name": order.label,
        })  # fmt: skip

    async def submit(self, order: Order) -> Accepted | Collected:
        fate = order.request["fate"]
        if fate == "vanish" and order.attempt == 1:
            raise Ambiguous("the connection was closed before a reply came")
        if self.guarantee == "repeatable":
            return await self.collect(order, "inline")
        return Accepted(f"batches/{fate or 'done'}-{order.label[-10:]}")

    async def find(self, order: Order) -> Found:
        return Found((), complete=False)

    async def poll(self, order: Order, provider_id: str) -> Polled:
        if "/run-" in provider_id:
            return Polled(state="running", done=order.prepared["pages"] // 3, total=order.prepared["pages"])
        if "/refuse-" in provider_id:
            return Polled(state="failed", error="the model refused 3 of 12 rows for safety")
        return Polled(state="succeeded", done=order.prepared["pages"], total=order.prepared["pages"])

    async def collect(self, order: Order, provider_id: str) -> Collected:
        pages, estimate = order.prepared["pages"], order.prepared["estimate"]
        usage = Usage(pages * 1090, pages * 310, cached=pages * 200, thinking=pages * 40)
        return Collected(result={"rows": pages, "file": "rows.jsonl"}, usage=usage, cost=estimate * 7 // 10)

    async def cancel(self, order: Order, provider_id: str) -> None: ...

    async def tidy(self, order: Order, provider_id: str | None) -> None: ...

    async def close(self) -> None: ...


documents = Workflow("documents", payload=Document, retry=Retry(attempts=2, base=0.01))
captions = Workflow("captions", payload=Document, retry=Retry(attempts=1))
ingestion = Workflow("ingestion", payload=Document)
digest = Workflow("digest", payload=dict[str, Any])


@documents.step
async def fingerprint(document: Document, ctx: Context) -> Document:
    ctx.log.info("%s has %d pages", document.name, document.pages)
    await asyncio.sleep(document.pages / 3000)
    ctx.count(pages=document.pages)
    return document


@documents.step
async def extract(document: Document, ctx: Context) -> Document | Again:
    if document.fate == "broken":
        raise Permanent(f"page {document.pages // 2} of '{document.name}.pdf' cannot be read: xref table is damaged")
    if document.fate == "timeout":
        raise Transient(f"the model did not answer within {20 + document.pages} s")
    call = await ctx.call("gemini.batch", "extract", document.model_dump(include={"pages", "fate"}))
    if not call.ended:
        ctx.progress(document.pages // 3, document.pages, "pages")
        return Again(document, until=call)
    if not call.ok:
        raise Permanent(f"the batch is {call.state}: {call.error}")
    await asyncio.sleep(document.pages / 2000)
    ctx.log.info("%d rows came back, $%.4f", call.result["rows"], call.cost / 1e6)
    return document


@documents.step
async def publish(document: Document, ctx: Context) -> dict[str, Any]:
    ctx.progress(document.pages, document.pages, "pages")
    if document.language != "en":
        ctx.log.warning("published without a translation from %s", document.language)
    return {
        "document": document.name,
        "pages": document.pages,
        "language": document.language,
        "words": 271 * document.pages,
    }


@captions.step
async def describe(document: Document, ctx: Context) -> dict[str, Any]:
    """Some go on until somebody stops them."""
    if document.fate == "broken":
        raise Permanent("the image has 0 × 0 pixels")
    await asyncio.sleep(document.pages / 1500)
    for frame in itertools.count(1):
        if document.fate != "slow" or ctx.halted:
            break
        ctx.progress(min(frame, document.pages - 1), document.pages, "frames")
        await asyncio.sleep(2.0)
    return {"caption": f"A view of {document.name}", "frames": document.pages}


@ingestion.step
async def crawl(document: Document, ctx: Context) -> dict[str, Any] | Again:
    await ctx.lock(f"knowledge-base/{document.name}")
    call = await ctx.call("gemini.embed", "chunks", {"pages": document.pages, "fate": ""})
    ctx.count(chunks=document.pages * 9)
    if document.fate == "slow":
        ctx.progress(document.pages * 4, document.pages * 9, "chunks")
        return Again(document, after=900)
    return {"chunks": document.pages * 9, "cost": call.cost}


@digest.step
async def write(what: dict[str, Any], ctx: Context) -> str:
    return f"digest of {what['day']}"


def make_app(
    clock: SystemClock | None = None, *, limits: dict[str, int] | None = None, lease: float | None = None
) -> Penstock:
    remotes = [Studio("gemini.batch", "findable"), Studio("gemini.embed", "repeatable")]
    return Penstock(
        workflows=[documents, captions, ingestion, digest], remotes=remotes, clock=clock,
        limits={"workflow:captions": 3} if limits is None else limits,
    )  # fmt: skip


app = make_app()


class Past(SystemClock):
    """So many seconds ago, and faster than now, so that what is over in a moment seems to have taken its time."""

    def __init__(self, ago: float, speed: float) -> None:
        self._began = time.time()
        self._ago = ago
        self._speed = speed

    def now(self) -> float:
        return self._began - self._ago + (time.time() - self._began) * self._speed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._speed)


async def at(
    home: Path, ago: float, work: Callable[[Penstock], Awaitable[Any]], *, speed: float = 100, leaves: int = 0
) -> None:
    """Do something as it was so long ago, and let a worker finish it, but for so many jobs that wait."""
    past = make_app(Past(ago, speed), limits={}, lease=1e6)
    await past.open(settings=Settings(home=home))
    try:
        async with past.worker(grace=500.0):
            await work(past)
            async with asyncio.timeout(60):
                while sum(n for (_, s), n in (await past.counts()).items() if s in BUSY) > leaves:
                    await asyncio.sleep(0.02)
    finally:
        await past.close()


async def fill(home: Path, *, days: int, minutes: int, seed: int = 7) -> None:
    """A past of so many days, and of every second one of the last minutes."""
    rng = random.Random(seed)
    numbers = iter(range(100, 100_000))

    def some(count: int) -> list[Document]:
        return [
            Document(
                name=f"{rng.choice(TITLES)}-{next(numbers)}",
                pages=rng.randint(4, 60),
                language=rng.choice(("en", "en", "en", "de", "fr")),
            )
            for _ in range(count)
        ]

    async def submit(past: Penstock, flow: Workflow, found: list[Document], tenant: str = "default") -> None:
        await past.submit_many(flow, found, keys=[document.name for document in found], tenant=tenant)

    async def a_day(past: Penstock) -> None:
        for flow, most in ((documents, 14), (captions, 20), (ingestion, 5)):
            tenant = rng.choice(("acme", "default", "default", "globex"))
            await submit(past, flow, some(rng.randint(most // 2, most)), tenant)

    async def a_minute(past: Penstock) -> None:
        found = some(rng.randint(2, 14))
        if rng.random() < 0.3:
            found[0].fate = "broken"
        await submit(past, captions, found)
        await submit(past, documents, some(rng.randint(1, 2)), rng.choice(("acme", "default")))

    async def budgets(past: Penstock) -> None:
        for scope, dollars in (("tenant:acme", 12.0), ("tenant:globex", 6.5), ("tenant:default", 40.0)):
            await past.set_budget(scope, dollars)

    await at(home, (days + 1) * 86_400, budgets)
    for day in range(days, 0, -1):
        await at(home, day * 86_400 + rng.randint(0, 20_000), a_day)
    await at(home, 1500, went_wrong)
    await at(home, 600, in_doubt, leaves=1)
    for minute in range(minutes, 2, -2):
        await at(home, minute * 60, a_minute, speed=40, leaves=1)
    await now(home)


async def went_wrong(past: Penstock) -> None:
    """Dead letters of three kinds, and a batch of which some failed."""
    broken = [Document(name=title, pages=20 + n, fate="broken") for n, title in enumerate(TITLES[:5])]
    await past.submit_many(documents, broken, keys=[document.name for document in broken])
    late = [Document(name=f"{title}-scan", pages=8 + n, fate="timeout") for n, title in enumerate(TITLES[5:8])]
    await past.submit_many(documents, late, keys=[document.name for document in late])
    await past.submit(documents, Document(name="letters-1912", fate="refuse"), key="letters-1912", tenant="acme")
    batch = await past.open_batch(
        key="museum-2026-11", limit=4, then=FollowUp(workflow=digest, payload={"day": "today"})
    )
    images = [Document(name=f"plate-{n:03}", pages=6, fate="broken" if n % 9 == 4 else "") for n in range(40)]
    await past.submit_many(captions, images, keys=[image.name for image in images], batch=batch.id)
    await past.seal_batch(batch.id)


async def in_doubt(past: Penstock) -> None:
    """Calls that nobody knows about, and one that takes for ever."""
    for name, fate in (("tender-harbour", "vanish"), ("minutes-april", "run"), ("survey-north", "run")):
        await past.submit(documents, Document(name=name, pages=48, fate=fate), key=name)
    async with asyncio.timeout(60):
        while len(calls := await past.calls(state=("intent", "running"))) < 3:
            await asyncio.sleep(0.02)
    errors = {"tender-harbour": "the listing could not be read to its end (20 times in a row)",
              "survey-north": "Gemini knows no such batch (8 times in a row)"}  # fmt: skip
    for call in calls:
        job = await past.job(call.job)
        if job.key in errors:
            await past.engine.commit(Learn(Fact(call=call.id, kind="doubted", error=errors[job.key])))
            await past.wait(call.job, timeout=30, until={"paused"})


async def now(home: Path) -> None:
    """What the service's own worker is to do, and what people have set up."""
    present = make_app()
    await present.open(settings=Settings(home=home))
    await present.schedule("digest", "0 6 * * *", digest, {"day": "today"}, timezone="Europe/Berlin")
    await present.schedule("nightly-crawl", "30 2 * * 1-5", ingestion, Document(name="intranet"))
    batch = await present.open_batch(key="archive-boxes-1-7", limit=2)
    frames = [Document(name=f"box-{n:02}", pages=10 + n, fate="slow") for n in range(7)]
    await present.submit_many(captions, frames, keys=[frame.name for frame in frames], batch=batch.id)
    await present.submit(captions, Document(name="launch-film", pages=240, fate="slow"), key="launch-film",
                         priority=Priority(base=80))  # fmt: skip
    await present.submit(ingestion, Document(name="handbook", pages=31, fate="slow"), key="handbook")
    await present.submit(ingestion, Document(name="wiki", pages=77, fate="slow"), key="wiki", tenant="acme")
    paused = await present.submit(captions, Document(name="retouched-prints", fate="slow"), key="retouched-prints")
    await present.pause(paused.job_id, reason="until the scanner is back", actor="maria")
    await present.close()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(fill(Path(sys.argv[1]), days=int(sys.argv[2]), minutes=int(sys.argv[3])))
