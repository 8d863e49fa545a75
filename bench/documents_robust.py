"""`python -m bench.documents_robust [FOLDER]`: PDFs that are odd, locked, broken or bombs, through the pool that reads
documents. Each must end as its category says, within the limits, and memory must stay flat.

What is expected, and what is not:

- normal: read, with as many pages as pdfium counts and at least four fifths of the characters it sees (it counts
  spaces that are not there). A page without text is read by OCR, and of that nothing more is asked.
- encrypted: read where the empty password opens it, else refused as locked.
- malformed: read where pdfium alone reads all of it, else read or refused; what is read is not judged.
- bomb: read or refused. Only limits are judged: a huge picture that fits into them may well be read.

A refusal is one `Unreadable` with words for a person; anything else, a lost process included, is wrong.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bench.pages_memory import peak_megabytes
from bench.table import figure, table
from penstock.paper.page import Page
from penstock.pipelines.documents.parsing import Parser, Unreadable
from penstock.remote.pool import PoolLimits, ProcessPool
from penstock.remote.pool.tree import memory

DATA = Path(os.environ.get("PENSTOCK_DATA", "../shared/data")) / "pdf_robust"
"""The files (expect.json names them); not part of the repository."""

LIMITS = PoolLimits(seconds=60, memory_mb=1024)
LOOK_EVERY = 0.05

Ending = Literal["read", "locked", "refused", "lost"]


@dataclass(frozen=True, slots=True)
class Ended:
    """How one file ended. `wrong` is empty, or says what was expected instead."""

    file: str
    category: str
    ending: Ending
    said: str
    seconds: float
    wrong: str


async def run(
    files: Sequence[dict[str, Any]], data: Path = DATA, *, workers: int = 2, previews: bool = True
) -> tuple[list[Ended], float]:
    """Read the files, and say how each ended and how much memory this process and the pool's had together at most, in
    MB."""
    peak = 0.0

    async def watch() -> None:
        nonlocal peak
        while True:
            peak = max(peak, memory(os.getpid()) / 2**20)
            await asyncio.sleep(LOOK_EVERY)

    async with ProcessPool(workers) as pool:
        parser = Parser(pool, looking=LIMITS, reading=LIMITS, drawing=LIMITS)
        watching = asyncio.ensure_future(watch())
        turns = asyncio.Semaphore(workers)

        async def one(entry: dict[str, Any]) -> Ended:
            async with turns:
                return await _ended(parser, entry, data, previews=previews)

        try:
            ended = await asyncio.gather(*map(one, files))
        finally:
            watching.cancel()
    return list(ended), peak


async def _ended(parser: Parser, entry: dict[str, Any], data: Path, *, previews: bool) -> Ended:
    path, began = data / entry["file"], time.monotonic()
    pages: list[Page] = []
    ending: Ending = "read"
    said = ""
    try:
        inspected = await parser.inspect(path)
        pages = await parser.pages(path)
        if len(pages) != inspected.pages:
            said = f"{inspected.pages} pages were counted, and {len(pages)} read"
        if previews:
            await parser.preview(path, 1, width=400)
    except Unreadable as error:
        said = str(error)
        ending = "locked" if "password" in said else "refused"
    except Exception as error:
        ending, said = "lost", f"{type(error).__name__}: {error}"
    return Ended(
        file=entry["file"],
        category=entry["category"],
        ending=ending,
        said=said,
        seconds=time.monotonic() - began,
        wrong=_wrong(entry, ending, said, pages),
    )


def _wrong(entry: dict[str, Any], ending: Ending, said: str, pages: list[Page]) -> str:
    """What the docstring of this module says, as a rule."""
    wanted = expected(entry)
    if ending not in wanted:
        return f"{ending}, and not {' or '.join(wanted)}: {said}"
    if ending != "read":
        return "" if said.endswith(".") and "Error" not in said else f"no words for a person: {said}"
    if said:
        return said
    reference = entry["reference"]["pypdfium2"]
    if entry["category"] != "normal":
        return ""
    if len(pages) != reference["pages"]:
        return f"{len(pages)} pages, and not {reference['pages']}"
    letters = sum(len(page.text) for page in pages)
    own = all(page.source == "text" for page in pages)
    return f"{letters} letters of {reference['chars']}" if own and letters < 0.8 * reference["chars"] else ""


def expected(entry: dict[str, Any]) -> tuple[Ending, ...]:
    reads = "error" not in entry["reference"]["pypdfium2"]
    match entry["category"]:
        case "normal":
            return ("read",)
        case "encrypted":
            return ("locked",) if entry.get("password") else ("read",)
        case "malformed" if reads:
            return ("read",)
        case _:
            return ("read", "refused")


def listed(data: Path = DATA) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((data / "expect.json").read_text())
    return found


def report(ended: Iterable[Ended]) -> str:
    """By category: how the files ended, and the slowest of them."""
    rows = list(ended)
    lines = []
    for category in dict.fromkeys(row.category for row in rows):
        of = [row for row in rows if row.category == category]
        count = [str(sum(row.ending == ending for row in of)) for ending in ("read", "locked", "refused", "lost")]
        wrong = sum(bool(row.wrong) for row in of)
        lines.append([category, str(len(of)), *count, str(wrong), figure(max(row.seconds for row in of))])
    return table(["category", "files", "read", "locked", "refused", "lost", "wrong", "slowest s"], lines)


def main(arguments: list[str]) -> int:
    data = Path(arguments[0]) if arguments else DATA
    if not (data / "expect.json").is_file():
        print(
            f"not measured: there is no {data / 'expect.json'}; python -m bench.documents_robust FOLDER names another"
        )
        return 2
    files = listed(data)
    before, began = peak_megabytes(), time.monotonic()
    ended, peak = asyncio.run(run(files, data))
    print(report(ended))
    print(f"\n{len(files)} files in {time.monotonic() - began:.1f} s. Memory at most, in MB:")
    print(f"  with the processes of the pool  {peak:5.0f}  (each may have {LIMITS.memory_mb})")
    print(f"  this process alone              {peak_megabytes():5.0f}  (before: {before:.0f})")
    for row in ended:
        if row.wrong:
            print(f"{row.file}: {row.wrong}", file=sys.stderr)
    return 1 if any(row.wrong for row in ended) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
