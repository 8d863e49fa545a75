"""The demo's knowledge bases: an invented documentation, as Markdown and PDFs, and once more as a website on this
machine, is indexed and asked; one run is paused half way, another one cancelled. A program of its own, as the examples
are: `python -m penstock.cli.demo_ingestion`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from penstock import ingestion
from penstock.app import Penstock
from penstock.cli.demo_website import ServedSite
from penstock.cli.ingest_search import snippet, where

HANDBOOK, WEBSITE = "handbook", "website"
FOLDER = Path("larkmill")
PAGES, PAUSED_AT = 24, 9
CHUNKER = {"size": 120, "overlap": 0}
NEW = "9 Nm"
AROUND = 40
"""Characters before and after an answer that are shown."""


def main() -> int:
    # The sample site is served by this machine, which nobody asks unless they may.
    os.environ["PENSTOCK_INGESTION__ALLOW_PRIVATE_ADDRESSES"] = "true"
    site = ingestion.make_site(FOLDER / "site", pages=PAGES)
    papers = ingestion.make_pdfs(FOLDER / "pdfs")
    return 0 if asyncio.run(_shown(site, papers)) else 1


async def _shown(site: ingestion.Site, papers: list[ingestion.SamplePdf]) -> bool:
    app = Penstock(workflows=ingestion.PIPELINE)
    screws = site.questions[0]
    scan = next(paper for paper in papers if paper.scanned).questions[-1]
    with ServedSite(site) as served:
        async with app, app.worker():
            return (
                await _filled(app, site, papers)
                and await _asked(app, screws.text, screws.answer)
                and await _asked(app, scan.text, scan.answer)
                and await _paused_and_resumed(app, served)
                and await _cancelled(app, served, screws)
                and await _refreshed(app, screws)
                and await _sound(app)
            )


async def _filled(app: Penstock, site: ingestion.Site, papers: list[ingestion.SamplePdf]) -> bool:
    sources = [{"type": "markdown", "path": site.folder}, {"type": "pdf", "path": papers[0].path.parent}]
    _say(
        f"{len(site.pages)} invented pages and {len(papers)} PDFs:"
        f" penstock ingest start {HANDBOOK} --markdown site --pdf pdfs --wait"
    )
    await ingestion.start(app, HANDBOOK, {"sources": sources, "chunker": CHUNKER})
    told = await ingestion.wait(app, HANDBOOK)
    documents, chunks = told.counters["docs_seen"], told.counters["chunks_processed"]
    _say(f"{documents} documents in {chunks} chunks; a page that is a scan was read by OCR")
    return told.status == "completed" and documents == len(site.pages) + len(papers)


async def _asked(app: Penstock, question: str, answer: str) -> bool:
    """Whether the best hit has the answer; and shows it."""
    best = (await ingestion.search(app, HANDBOOK, question, top=1))[0]
    text = " ".join(best.text.split())
    at = text.find(answer)
    shown = text[max(0, at - AROUND) : at + len(answer) + AROUND].partition(" ")[2].rpartition(" ")[0]
    _say(f'search {HANDBOOK} "{question}"')
    _say(f"  {where(best, snippet(best.text, question))}: … {shown} …")
    return at >= 0


async def _says(app: Penstock, question: str, answer: str) -> bool:
    return answer in (await ingestion.search(app, WEBSITE, question, top=1))[0].text


async def _paused_and_resumed(app: Penstock, served: ServedSite) -> bool:
    """The server keeps the run waiting for one page until it is told to pause: so that it stops there each time."""
    source = {"type": "website", "url": served.url, "delay": 0}
    held = served.hold(PAUSED_AT)
    _say(f"the same as a website: start {WEBSITE} --website {served.url}")
    await ingestion.start(app, WEBSITE, {"sources": [source], "chunker": CHUNKER})
    await held.reached()
    await ingestion.pause(app, WEBSITE)
    held.let_go()
    paused = await ingestion.wait(app, WEBSITE)
    _say(f"pause {WEBSITE} → {paused.status} with {paused.counters['docs_seen']} of {paused.documents_total} pages")
    await ingestion.resume(app, WEBSITE)
    told = await ingestion.wait(app, WEBSITE)
    often = max(served.given.values())
    sent = "each sent once" if often == 1 else "what was on its way was asked for again"
    _say(
        f"resume {WEBSITE} --wait → {told.status}: {told.counters['docs_seen']} pages in"
        f" {told.counters['chunks_processed']} chunks, {sent}"
    )
    return paused.status == "paused" and told.status == "completed" and often <= 2


async def _cancelled(app: Penstock, served: ServedSite, about: ingestion.Question) -> bool:
    """A page has changed and is replaced, and the run is cancelled after that."""
    served.change(about.page, about.answer, NEW)
    held = served.hold(PAGES // 2)
    await ingestion.start(app, WEBSITE)
    await held.reached()
    replaced, new = (await ingestion.status(app, WEBSITE)).counters["docs_replaced"], await _says(app, about.text, NEW)
    _say(f"a page has changed: start {WEBSITE} → half way it says {NEW if new else about.answer}")
    await ingestion.cancel(app, WEBSITE)
    held.let_go()
    told = await ingestion.wait(app, WEBSITE)
    back = await _says(app, about.text, about.answer)
    _say(f"cancel {WEBSITE} --wait → {told.status}: it says {about.answer if back else 'something else'} again")
    return bool(replaced) and new and back and told.status == "not_started"


async def _refreshed(app: Penstock, about: ingestion.Question) -> bool:
    await ingestion.start(app, WEBSITE)
    told = await ingestion.wait(app, WEBSITE)
    new, counted = await _says(app, about.text, NEW), told.counters
    _say(
        f"start {WEBSITE} --wait → {told.status}: {counted['docs_unchanged']} pages not modified,"
        f" {counted['chunks_processed']} chunk embedded; it says {NEW if new else about.answer}"
    )
    return new and counted["docs_replaced"] == 1 == counted["chunks_processed"]


async def _sound(app: Penstock) -> bool:
    verified = [await ingestion.verify(app, kb) for kb in (HANDBOOK, WEBSITE)]
    sound = all(each.sound for each in verified)
    chunks = sum(each.chunks for each in verified)
    _say(f"verify → {chunks} chunks compared: ledger and index {'say the same' if sound else 'differ'}")
    return sound


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
