"""A run over a library as it is in the middle of the work: thousands of pages in every state, batches, failures with
what Gemini answered, and a catalogue with real images. The job waits for its time, so that nothing changes by itself.

`python -m tests.support.pages_show HOME` fills the store of a service that is started there afterwards.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock import Penstock
from penstock.config import Settings
from penstock.pipelines.pages import rules
from penstock.pipelines.pages.asking import run_key
from penstock.pipelines.pages.ledger import ledger_id
from penstock.pipelines.pages.model import PageIdentifier, Run, Task
from penstock.pipelines.pages.rules import Numbering
from penstock.pipelines.pages.samples.making import Samples, Style, make_samples
from penstock.pipelines.pages.workflow import pages

SCHOOLS = {
    "Alabama": ("Howard College", "Judson Female Institute", "La Grange College", "Spring Hill College"),
    "Georgia": ("Emory College", "Mercer University", "Oglethorpe University", "Wesleyan Female College"),
    "Ohio": ("Antioch College", "Denison University", "Kenyon College", "Oberlin College", "Wittenberg College"),
    "Virginia": ("Emory and Henry College", "Hampden-Sydney College", "Randolph-Macon College", "Roanoke College"),
}
REASONS = (
    ("truncated", "the answer was cut off at 8192 tokens", '{"page_kind": "courses", "headings": ["FRESHMAN CLA'),
    ("schema", "courses.3.name: must be text", '{"page_kind": "courses", "courses": [{"name": null}]}'),
    ("invalid_json", "Expecting ',' delimiter at 212", 'Here is the page:\n```json\n{"page_kind": "courses" \n```'),
    ("blocked", "Gemini would not answer: RECITATION", None),
    ("missing", "the batch came home without this page", None),
)
LATER = 36_000.0
HOUR = 3600.0


def library(rng: random.Random, many: int) -> Iterator[tuple[str, str, int, str, str]]:
    """(state, school, year, numbering, states) of so many books, most of them in the middle of the work."""
    names = [(state, school) for state, schools in SCHOOLS.items() for school in schools]
    for n in range(many):
        state, school = names[n % len(names)]
        size = 1_240 if n == 9 else rng.choice((24, 36, 48, 64, 84, 96, 120, 180, 260))
        numbering = f"{1:04d}-{size:04d}"
        if n % 5 == 3:
            cut = size // 3
            numbering = f"{1:04d}-{cut:04d} {cut + 3:04d}-{size:04d}"
        states = rules.GAP.join(_chain(rng, len(chain), n) for chain in rules.all_to_do(numbering).split(rules.GAP))
        yield state, school, 1848 + n // len(names) * 3, numbering, states


def _chain(rng: random.Random, size: int, n: int) -> str:
    if n % 6 == 1:
        return rules.DONE * size
    done = rng.randrange(size)
    if n % 11 == 4:
        return rules.FOUND * done + rules.WORK * (size - done)
    head = rules.DEAD if rng.random() < 0.12 else rules.FLYING if rng.random() < 0.8 else rules.WORK
    return rules.DONE * done + head + rules.WORK * (size - done - 1)


async def fill(app: Penstock, folder: Path, *, books: int = 60, batches: int = 64, style: Style = "printed") -> str:
    """The id of the run."""
    rng = random.Random(7)
    samples = make_samples(folder / "library", books=1, pages=6, style=style)
    told = {"label_source_dir": samples.labels, "image_source_dir": samples.images, "output_dir": samples.output}
    run = Run.model_validate({"paths": told, "budget": {"max_usd": 25}})
    ledger = ledger_id(run.paths.output_dir)
    now = app.engine.clock.now()
    statements = [_row("pages_ledgers", id=ledger, tenant="default", output_dir=str(samples.output),
                       label_dir=str(samples.labels), image_dir=str(samples.images), job="", scope="",
                       on_dead="block", most_failures=4, batches=batches, scanned=now - 40,
                       created=now - 9000, mark="shown", schema="")]  # fmt: skip
    shelf = [_sampled(samples), *library(rng, books - 1)]
    flying: list[tuple[str, PageIdentifier]] = []
    dead: list[tuple[str, PageIdentifier]] = []
    for state, school, year, numbering, states in shelf:
        book, numbers, tally = f"{state}/{school}/{year}", Numbering(numbering), rules.tally(states)
        statements.append(_row("pages_books", ledger=ledger, book=book, state=state, school=school, year=year,
                               pages=numbering, states=states, total=tally.total, done=tally.done,
                               flying=tally.flying, dead=tally.dead, found=tally.found, served=0, label_seen=1,
                               output_seen=1))  # fmt: skip
        statements += [
            _row("pages_ready", ledger=ledger, book=book, number=head.number, remaining=head.remaining, served=0)
            for head in rules.heads(numbers, states)
        ]
        for number, letter in zip(numbers, states.replace(rules.GAP, ""), strict=True):
            if letter in (rules.FLYING, rules.DEAD):
                page = PageIdentifier(state=state, school=school, year=year, page=number, name=numbers.name(number))
                (flying if letter == rules.FLYING else dead).append((book, page))
    statements += _batches(ledger, rng, batches, len(flying), now)
    for n, (book, page) in enumerate(flying):
        statements.append(_row("pages_flights", ledger=ledger, book=book, number=page.page, key=page.id_string,
                               batch=batches - n % 4, image="", context=None, without=None))  # fmt: skip
    statements += [one for n, (book, page) in enumerate(dead) for one in _death(ledger, book, page, n, now, batches)]
    job = await app.submit(pages, Task(run=run, ledger=ledger), key=run_key(samples.output), after=LATER)
    statements.append(("UPDATE pages_ledgers SET job = :job", {"job": job.job_id}))
    await app.engine.write(*statements)
    return job.job_id


def _sampled(samples: Samples) -> tuple[str, str, int, str, str]:
    """The book that has files: its last page but one is dead, the last waits for it."""
    names = [page.spelling for page in samples.pages]
    first = samples.pages[0]
    numbering, _ = rules.numbered(list(names))
    states = list(rules.all_to_do(numbering).replace(rules.WORK, rules.DONE))
    states[-2:] = [rules.DEAD, rules.WORK]
    before = None
    for page in samples.pages[:-2]:
        truth = samples.truth_of(page).model_dump(mode="json")
        told = {"key": page.id_string, "batch": 9, "batch_id": "batches/123", "model": "gemini-3.8-flash",
                "prompt": {"name": "course_catalogue", "version": "1"}, "context": before,
                "finished": "2026-11-14T09:12:44+00:00"}  # fmt: skip
        target = samples.output / page.folder / f"{page.spelling}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps({**truth, "_penstock": told}, indent=2))
        text = "\n".join(block["text"] for block in truth["text_blocks"])[-400:]
        before = {"text": text, "courses": [{k: c[k] for k in ("name", "department", "level", "term")}
                                            for c in truth["courses"][-3:]]}  # fmt: skip
    return first.state, first.school, first.year, numbering, "".join(states)


def _batches(ledger: str, rng: random.Random, many: int, flying: int, now: float) -> Iterator[tuple[str, Any]]:
    for number in range(1, many + 1):
        live = number > many - 4
        size = max(flying // 4, 1) if live else rng.choice((40, 60, 80, 100, 100))
        made = now - (many - number) * 260 - rng.random() * 120 - 600
        sent = made + 8 + rng.random() * 30
        ended = None if live else sent + 500 + rng.random() ** 4 * 5000
        failed = 0 if live or number % 4 else size if number % 28 == 0 else rng.randrange(1, 6)
        yield _row("pages_batches", ledger=ledger, number=number, job="", call=None, size=size,
                   state="running" if live else "ended", ok=0 if live else size - failed, failed=failed,
                   cost=0 if live else size * 950, created=made, submitted=sent,
                   ended=None if ended is None else min(ended, now - 20),
                   outcome=None if live else "failed" if failed == size else "collected",
                   errors=json.dumps(["the batch expired"] if failed == size else []), model="gemini-3.8-flash",
                   prompt="course_catalogue", version="1", generation='{"temperature": 0}')  # fmt: skip


def _death(ledger: str, book: str, page: PageIdentifier, n: int, now: float, batches: int) -> Iterator[tuple[str, Any]]:
    kind, message, raw = REASONS[n % len(REASONS)]
    for attempt in range(1, 5):
        yield _row("pages_attempts", ledger=ledger, book=book, number=page.page, key=page.id_string,
                   batch=max(batches - 20 + attempt * 3, 1), attempt=attempt, counted=1,
                   at=now - (5 - attempt) * 1500 - n, type=kind, message=message, raw=raw, parsed=None)  # fmt: skip
    yield _row("pages_failures", ledger=ledger, book=book, number=page.page, key=page.id_string, failures=4,
               batch_failures=0, file_failures=0, dead=1, type=kind, message=message, at=now - 1500)  # fmt: skip


def _row(table: str, **values: Any) -> tuple[str, dict[str, Any]]:
    return (
        f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join(f':{name}' for name in values)})",
        values,
    )


app = Penstock()
"""What a service runs on such a store: nothing but the pipelines that come with Penstock."""


async def main(home: Path) -> None:
    app = Penstock(workflows=[pages])
    settings = Settings.model_validate({"home": home, "store": f"sqlite:///{home}/penstock.db"})
    await app.open(settings=settings)
    try:
        print(await fill(app, home.parent))
    finally:
        await app.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
