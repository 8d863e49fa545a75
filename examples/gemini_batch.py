"""Pages read by a Gemini batch: uploaded, sent as one batch at half the price, waited for, brought home, and priced.

Without a key Penstock starts a Gemini of its own on this machine, which reads the pages by OCR: nothing leaves the
machine and nothing is paid. With `GEMINI_API_KEY` in the environment the same program asks Google's.
"""

import asyncio
import subprocess
import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from penstock import Again, Context, Penstock, Permanent, Workflow
from penstock.gemini import BatchRequest, BatchRow, file, generate_request, read_rows

TEXTS = {
    "page-1.png": "A penstock is a pipe",
    "page-2.png": "that carries water",
    "page-3.png": "from the dam",
    "page-4.png": "to the turbine.",
}

books = Workflow("books", payload=list[str])


@books.step
async def transcribe(pages: list[str], ctx: Context) -> Again | dict[str, str | None]:
    rows = tuple(BatchRow(key=page, request=generate_request(["Transcribe this page.", file(page)])) for page in pages)
    request = BatchRequest(model="gemini-2.5-flash", requests=rows, uploads_folder=Path())
    call = await ctx.call("gemini.batch", "book", request)
    if not call.ended:
        ctx.progress(call.done or 0, len(pages), "pages")
        return Again(pages, until=call)
    if not call.ok:
        raise Permanent(f"the batch {call.state}: {call.error}")
    ctx.progress(len(pages), len(pages), "pages")
    return {str(row.key): row.text for row in read_rows(ctx.folder_of(call) / call.result["file"])}


app = Penstock(workflows=[books])


def draw() -> None:
    for name, text in TEXTS.items():
        page = Image.new("L", (900, 200), "white")
        ImageDraw.Draw(page).text((60, 60), text, fill="black", font=ImageFont.load_default(size=48))
        page.save(name)


async def main() -> None:
    draw()
    async with app, app.worker():
        submitted = await app.submit(books, list(TEXTS), key="the book")
        job = await app.wait(submitted.job_id)
        for page, text in job.result.items():
            print(f"{page}: {text}")
        (call,) = await app.calls(job=job.id)
        print(f"{call.usage.input} tokens in, {call.usage.output} out, ${call.cost / 1_000_000:.6f} by Google's prices")


if __name__ == "__main__":
    asyncio.run(main())
    subprocess.run([Path(sys.executable).with_name("penstock"), "gemini", "stop", "--quiet"], check=True)
