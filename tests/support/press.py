"""A small app for the dashboard's tests. What its steps do is told by files in the working folder, so that a test holds
them in its hand: `pages of TITLE` says how many pages of a book are printed by now, `needle for TITLE` that the bindery
can bind it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from penstock import Again, Context, Penstock, Permanent, Retry, Workflow
from penstock.gemini import BatchRequest, BatchRow, generate_request, read_rows


class Book(BaseModel):
    title: str
    pages: int = 10
    unit: str = "pages"


books = Workflow("books", payload=Book)


@books.step
async def print_pages(book: Book, ctx: Context) -> dict[str, Any] | Again:
    """One tick for as long as nobody asks for a pause or a cancel."""
    ctx.log.info("printing %s", book.title)
    while (done := min(printed(book.title), book.pages)) < book.pages:
        ctx.progress(done, book.pages, book.unit)
        if ctx.halted:
            return Again(book)
        await asyncio.sleep(0.05)
    ctx.progress(done, book.pages, book.unit)
    return {"title": book.title, "pages": done}


@books.cleanup
async def pulp(book: Book, ctx: Context) -> None:
    ctx.log.info("pulping %s", book.title)


def printed(title: str) -> int:
    try:
        return int(Path(f"pages of {title}").read_text())
    except (FileNotFoundError, ValueError):
        return 0


bindery = Workflow("bindery", retry=Retry(attempts=1))


@bindery.step
async def bind(title: str, ctx: Context) -> str:
    if not Path(f"needle for {title}").exists():
        raise Permanent(f"the needle broke while binding {title}")
    return f"{title}, bound"


reviews = Workflow("reviews", payload=str)


@reviews.step
async def ask(title: str, ctx: Context) -> list[str | None] | Again:
    rows = (BatchRow(key="review", request=generate_request(f"Write a review of {title}.")),)
    call = await ctx.call("gemini.batch", "review", BatchRequest(requests=rows, model="gemini-2.5-flash"))
    if not call.ended:
        return Again(title, until=call)
    if not call.ok:
        raise Permanent(f"the review is {call.state}")
    return [row.text for row in read_rows(ctx.folder_of(call) / call.result["file"])]


app = Penstock(workflows=[books, bindery, reviews])
