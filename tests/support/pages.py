"""Small libraries of pages, the answers that tell them apart, and what must hold once a run is over. They go with any
Gemini that has the `script` backend, and any app; `pages_town` has a whole world in virtual time."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image

from penstock.app import Penstock
from penstock.pipelines.pages import asking, reading
from penstock.pipelines.pages.ledger import ledger_id
from penstock.pipelines.pages.model import PageIdentifier, Run

_ASKED = r"picture: ([^,]*), ([^,]*), (\d+), page (\d+) of"
SCRIPT: list[dict[str, Any]] = [
    {
        "match": rf"{_ASKED}.*<end_of_page_before>\n([^\n]*?) after ",
        "reply": '{{"text": "{2}/{1}/{3}/{4} after {5}"}}',
    },
    {"match": rf"{_ASKED}.*The page before is not known", "reply": '{{"text": "{2}/{1}/{3}/{4} after one not known"}}'},
    {"match": _ASKED, "reply": '{{"text": "{2}/{1}/{3}/{4} after nothing"}}'},
]
"""Rules for the `script` backend and the transcription prompt: an answer says which page was asked, and which page's
text its context was."""


def said(book: str, number: int, before: int | str | None = None) -> str:
    """The text of a page as `SCRIPT` answers it; `before` is the page its context came from."""
    context = "nothing" if before is None else before if isinstance(before, str) else f"{book}/{before}"
    return f"{book}/{number} after {context}"


@cache
def _picture(shade: int) -> bytes:
    content = io.BytesIO()
    Image.new("L", (2, 2), shade).save(content, "PNG")
    return content.getvalue()


class Library:
    """Three trees in a folder, with a page for each number of each book (`Alabama/Howard College/1849`)."""

    def __init__(self, root: Path, books: Mapping[str, Sequence[int]] | None = None) -> None:
        self.labels, self.images, self.outputs = root / "labels", root / "images", root / "out"
        for folder in (self.labels, self.images):
            folder.mkdir(parents=True)
        self.books: dict[str, list[int]] = {}
        for book, numbers in (books or {}).items():
            self.add(book, *numbers)

    def add(self, book: str, *numbers: int) -> None:
        self.books[book] = sorted({*self.books.get(book, ()), *numbers})
        for number in numbers:
            for root, name, content in (
                (self.labels, f"{number:04d}.json", b"{}"),
                (self.images, f"{number:04d}.png", _picture(number % 250)),
            ):
                (root / book).mkdir(parents=True, exist_ok=True)
                (root / book / name).write_bytes(content)

    def image(self, book: str, number: int) -> Path:
        return self.images / book / f"{number:04d}.png"

    def output(self, book: str, number: int) -> Path:
        return self.outputs / book / f"{number:04d}.json"

    def text(self, book: str, number: int) -> str:
        found: str = json.loads(self.output(book, number).read_bytes())["text"]
        return found

    def provenance(self, book: str, number: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.output(book, number).read_bytes())["_penstock"]
        return found

    def done(self) -> dict[str, list[int]]:
        """The numbers of the pages of each book that have an output."""
        return {
            book: numbers
            for book in self.books
            if (numbers := sorted(int(path.stem) for path in (self.outputs / book).glob("[!.]*.json")))
        }

    @staticmethod
    def key(book: str, number: int) -> str:
        state, school, year = book.split("/")
        return PageIdentifier(state=state, school=school, year=int(year), page=number, name=f"{number:04d}").id_string

    def run(self, **groups: Mapping[str, Any]) -> Run:
        """The configuration of a run over it: transcription, quick polls, and what the groups say
        (`execution={"max_retries": 0}`)."""
        told: dict[str, Any] = {
            "paths": {"label_source_dir": self.labels, "image_source_dir": self.images, "output_dir": self.outputs},
            "prompt": {"name": "transcription"},
            "batch": {"poll_interval_seconds": 0.5},
            "files": {"upload_retry_backoff_seconds": 0.1},
        }
        for group, values in groups.items():
            told[group] = {**told.get(group, {}), **values}
        return Run.model_validate(told)


async def books_wrong(app: Penstock, run: Run, library: Library, *, swapped: bool = False) -> list[str]:
    """What is wrong with the ledger and the outputs of runs that are over: nothing, one hopes. `swapped`: Gemini gave
    answers under wrong keys, so their content is not looked at."""
    ledger = ledger_id(run.paths.output_dir)
    wrong = [
        f"{table} is not empty: {rows}"
        for table in ("pages_flights", "pages_staged", "pages_ready", "pages_wishes")
        if (rows := await app.engine.read(f"SELECT * FROM {table}"))
    ]
    wrong += [f"{path} was left" for path in library.outputs.rglob("*.part")]
    done: set[str] = set()
    dead: set[str] = set()
    for book in await reading.books(app.engine, ledger):
        cells = [cell for cell in book.cells() if cell is not None]
        if [number for number, _, _ in cells] != library.books[book.book]:
            wrong.append(f"{book.book} has the pages {cells}")
        states = {number: state for number, _, state in cells}
        for number, name, state in cells:
            key = library.key(book.book, number)
            if state == "done":
                done.add(key)
                if not swapped and (why := _output_wrong(run, library, book.book, number, states)):
                    wrong.append(f"{key}: {why}")
            elif state == "dead":
                dead.add(key)
            elif not _waits_for_a_dead_one(number, states):
                wrong.append(f"{key} ({name}) is {state}")
            if state != "done" and library.output(book.book, number).exists():
                wrong.append(f"{key} is {state} and has an output")
    return wrong + await _counts_wrong(app, run, ledger, len(done), dead)


def _output_wrong(run: Run, library: Library, book: str, number: int, states: Mapping[int, str]) -> str | None:
    told = library.provenance(book, number)
    text = library.text(book, number)
    before = number - 1 if number - 1 in states else None
    if told["key"] != library.key(book, number):
        return f"has the output of {told['key']}"
    if before is not None and "without_context" in told:
        expected = said(book, number, "one not known")
    else:
        expected = said(book, number, before)
    if text != expected:
        return f"reads {text!r} and not {expected!r}"
    if (told["context"] is not None) != (before is not None and "without_context" not in told):
        return f"got the context {told['context']}"
    return None


def _waits_for_a_dead_one(number: int, states: Mapping[int, str]) -> bool:
    before = number - 1
    while states.get(before) == "waiting":
        before -= 1
    return states[number] == "waiting" and states.get(before) == "dead"


async def _counts_wrong(app: Penstock, run: Run, ledger: str, done: int, dead: set[str]) -> list[str]:
    """Counters, tables and money against each other."""
    read = app.engine.read
    counted: Counter[str] = Counter()
    for job in await app.jobs(workflow="pages", key=asking.run_key(run.paths.output_dir), limit=500):
        counted.update(job.counters)
    batches = await reading.batches(app.engine, ledger, limit=1000)
    attempts = await read("SELECT key, type, counted FROM pages_attempts")
    failures = await read("SELECT key, failures, dead, type FROM pages_failures")
    ((paid,),) = await read("SELECT COALESCE(SUM(cost), 0) FROM calls")
    told = {
        "batches that have not ended": (sum(batch.state != "ended" for batch in batches), 0),
        "counter batches": (counted["batches"], len(batches)),
        "counter batches_submitted": (counted["batches_submitted"], len(batches)),
        "counter pages_done": (counted["pages_done"], sum(batch.ok for batch in batches)),
        "pages done": (counted["pages_done"], done),
        "pages of all batches": (sum(b.ok + b.failed for b in batches), sum(batch.size for batch in batches)),
        "counter attempts_failed": (counted["attempts_failed"], sum(kind != "image" for _, kind, _ in attempts)),
        "counter pages_dead": (counted["pages_dead"], len(dead)),
        "dead pages": ({key for key, _, is_dead, _ in failures if is_dead}, dead),
        "money": (sum(batch.cost for batch in batches), int(paid)),
        "batches without their call": ([batch.number for batch in batches if batch.call is None], []),
    }
    wrong = [f"{what}: {one} and {other}" for what, (one, other) in told.items() if one != other]
    struck = Counter(key for key, _, counts in attempts if counts)
    for key, count, is_dead, kind in failures:
        if count != struck[key]:
            wrong.append(f"{key} has {count} failures, and {struck[key]} attempts count")
        if bool(is_dead) != (kind == "image" or count >= run.execution.most_failures):
            wrong.append(f"{key} is {'dead' if is_dead else 'alive'} of {count} failures ({kind})")
    return wrong
