"""A knowledge base: filled from a folder, asked, refreshed after a change; and a run that is cancelled leaves nothing.

No key and no network is needed: the vectors are made on this machine, and lie with the full text in the store's own
file. What has not changed is not embedded again.
"""

import asyncio
from pathlib import Path

from penstock import Penstock, ingestion

DOCS = {"type": "markdown", "path": "docs"}
NOTES = {"type": "markdown", "path": "notes"}

app = Penstock(workflows=ingestion.PIPELINE)


def change(page: Path, old: str, new: str) -> None:
    page.write_text(page.read_text().replace(old, new))


def write_notes(folder: Path, count: int) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        lines = (f"Line {line} of note {number}: {'nobody wanted this in there, ' * 12}and yet." for line in range(20))
        (folder / f"{number}.md").write_text("\n\n".join(lines))


async def ask(question: str, answer: str) -> None:
    best = (await ingestion.search(app, "larkmill", question, top=1))[0]
    line = next((line for line in best.text.splitlines() if answer in line), "not there")
    print(f"{question}\n  {best.source}, {best.position['headings'][-1]}: {line}")


async def standing() -> str:
    (kb,) = await ingestion.bases(app)
    found = await ingestion.verify(app, kb.id)
    return f"{kb.documents} documents, {kb.chunks} chunks, {'sound' if found.sound else found.faults}"


async def until_something_is_written() -> None:
    told = await ingestion.status(app, "larkmill")
    while told.status == "running" and not told.counters["chunks_processed"]:
        await asyncio.sleep(0.01)
        told = await ingestion.status(app, "larkmill")


async def main() -> None:
    site = ingestion.make_site(Path("docs"), pages=12)
    screws, advice = site.questions[0], site.questions[2]
    async with app, app.worker():
        await ingestion.start(app, "larkmill", {"sources": [DOCS], "chunker": {"size": 120, "overlap": 0}})
        filled = await ingestion.wait(app, "larkmill")
        print(f"{filled.status}: {await standing()}")
        await ask(screws.text, screws.answer)
        await ask(advice.text, advice.answer)

        change(Path("docs", screws.page), screws.answer, "7 Nm")
        await ingestion.start(app, "larkmill")
        seen = (await ingestion.wait(app, "larkmill")).counters
        print(f"refreshed: {seen['docs_replaced']} of {seen['docs_seen']} pages, {seen['chunks_processed']} embedded")
        await ask(screws.text, "7 Nm")

        write_notes(Path("notes"), 300)
        await ingestion.start(app, "larkmill", {"sources": [DOCS, NOTES]})
        await until_something_is_written()
        await ingestion.cancel(app, "larkmill")
        canceled = await ingestion.wait(app, "larkmill")
        print(f"{canceled.status}: {canceled.last_error}")
        print(f"as it was: {await standing()}")


if __name__ == "__main__":
    asyncio.run(main())
