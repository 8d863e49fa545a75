"""How long the lists of a busy office take: a queue of 100,000 open items whose priorities change with time, on
SQLite and on PostgreSQL. Each question is asked as `/api` asks it, page, total and JSON, without the network."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench.home import fresh_folder
from bench.servers import Servers
from penstock import Penstock
from penstock.builtin import installed_workflows
from penstock.config import Settings
from penstock.engine.engine import Engine
from penstock.pipelines.documents import asking, contents, counting, reading, standing, tables
from penstock.pipelines.documents.answers import queue_line, stats_detail
from penstock.pipelines.documents.samples import bulk
from penstock.store.schema import jobs

ITEMS, FAILED, REVIEWERS = 100_000, 1_000, 20
IN_REVIEW = 50
"""One in so many."""
PAGE = 50
TRIES = 60

STORES = ("SQLite", "PostgreSQL")

Question = Callable[[Engine], Awaitable[object]]
Answered = dict[str, list[float]]


async def listed(engine: Engine, *, total: bool = True, offset: int = 0, **asked: Any) -> bytes:
    """What `GET /api/queue` answers."""
    items = await reading.queue(engine, limit=PAGE, offset=offset, **asked)
    count = await counting.queue_total(engine, **asked) if total else None
    return json.dumps({"items": [queue_line(each) for each in items], "total": count}, default=str).encode()


async def stats(engine: Engine) -> bytes:
    return json.dumps(stats_detail(await counting.stats(engine)), default=str).encode()


QUESTIONS: dict[str, Question] = {
    "queue, first page": lambda engine: listed(engine, total=False),
    "queue, first page and total": listed,
    "queue, of a tenant": lambda engine: listed(engine, tenant="default"),
    "queue, pending only": lambda engine: listed(engine, status=("pending",)),
    "queue, in review": lambda engine: listed(engine, status=("in_review",)),
    "queue, of a reviewer": lambda engine: listed(engine, assigned_to="reviewer-7"),
    "queue, priority from 60": lambda engine: listed(engine, priority_min=60.0),
    "queue, priority from 20": lambda engine: listed(engine, priority_min=20.0),
    "queue, page at 1,000": lambda engine: listed(engine, offset=1000),
    "documents, newest": lambda engine: reading.documents(engine, tenant="default"),
    "documents, failed": lambda engine: reading.documents(engine, tenant="default", status="failed"),
    "documents, failed, of all": lambda engine: reading.documents(engine, status="failed"),
    "documents, processing (none)": lambda engine: reading.documents(engine, status="processing"),
    "stats, cold": stats,
}


async def measure(
    store: str, folder: Path, *, items: int = ITEMS, tries: int = TRIES, settled: Callable[[], None] | None = None
) -> Answered:
    """Question → milliseconds, of each time it was asked. `settled` is called when all rows are there."""
    app = Penstock(workflows=installed_workflows(), store=store)
    settings = Settings(home=folder / "home")
    await app.open(settings=settings)
    try:
        began = time.monotonic()
        await fill(app, settings, folder, items)
        if settled is not None:
            await asyncio.to_thread(settled)
        print(f"{items:,} items are there after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        found: dict[str, list[float]] = {name: [] for name in QUESTIONS}
        for number in range(tries + 2):
            for name, ask in QUESTIONS.items():
                start = time.perf_counter()
                await ask(app.engine)
                if number >= 2:
                    found[name].append((time.perf_counter() - start) * 1e3)
        return found
    finally:
        await app.close()


async def fill(app: Penstock, settings: Settings, folder: Path, items: int) -> None:
    """One document is taken in as usual; the others are its rows again, with other numbers."""
    engine = app.engine
    (sample,) = bulk(folder / "in", 1)
    kept = contents.copy_in(engine, "default", sample.path, largest=10**7)
    added = (await asking.add(app, settings, [kept])).documents[0]
    now = engine.clock.now()
    data = json.dumps({**sample.truth.model_dump(mode="json")})
    await engine.write(
        ("UPDATE jobs SET status = 'completed', phase = 'final', started = :now, finished = :now"
         " WHERE id = :id", {"id": added.job_id, "now": now - 1}),
        ("UPDATE documents SET done = 1, kind = 'pdf', pages = 1, data = :data, extraction = '{}', confidence = 0.5,"
         " folder = '2024/01/01', review_item = 'r000000' WHERE id = :id", {"data": data, "id": kept.document_id}),
        ("INSERT INTO review_items (id, tenant, document, content_hash, status, rising, rank, turns, weight, deadline,"
         " confidence, line_count, total, approvable, created) VALUES ('r000000', 'default', :id, 'c', 'pending', 0, 0,"
         " NULL, 10, :now, 0.5, 3, 100, 1, :now)", {"id": kept.document_id, "now": now + 3600}),
    )  # fmt: skip
    numbers = range(1, items + FAILED)
    rng = random.Random(1)
    for start in range(0, len(numbers), 2000):
        some = numbers[start : start + 2000]
        await engine.write(*(_copies(some, items, rng, now, added.job_id, kept.document_id)))
    await engine.write((f"{standing.STANDS} WHERE status IN ('pending', 'in_review')", {"now": engine.clock.now()}))
    await engine.write("ANALYZE")


def _copies(
    some: Sequence[int], items: int, rng: random.Random, now: float, job: str, document: str
) -> list[tuple[str, dict[str, Any]]]:
    series = "WITH RECURSIVE s(n) AS (SELECT CAST(:first AS INTEGER) UNION ALL SELECT n + 1 FROM s WHERE n < :last) "
    span = {"first": some[0], "last": some[-1]}
    name = "SUBSTR('000000' || CAST(n AS TEXT), LENGTH(CAST(n AS TEXT)) + 1)"
    when = f"{now!r} - ({items + FAILED} - n)"
    failed = f"n < {FAILED}"
    changes: dict[str, dict[str, str]] = {
        "jobs": {
            "id": f"'j' || {name}", "key": f"'j' || {name}", "created": when, "started": when, "finished": when,
            "status": f"CASE WHEN {failed} THEN 'failed' ELSE 'completed' END",
            "error": f"CASE WHEN {failed} THEN 'The PDF is locked.' END",
        },
        "documents": {
            "id": f"'d' || {name}", "job": f"'j' || {name}", "content_hash": f"'c' || {name}", "created": when,
            "review_item": f"'r' || {name}", "done": f"CASE WHEN {failed} THEN 0 ELSE 1 END",
        },
        "review_items": {
            "id": f"'r' || {name}", "document": f"'d' || {name}", "created": when,
            "status": f"CASE WHEN n % {IN_REVIEW} = 0 THEN 'in_review' ELSE 'pending' END",
            "assigned_to": f"CASE WHEN n % {IN_REVIEW} = 0 THEN 'reviewer-' ||"
                           f" CAST(n / {IN_REVIEW} % {REVIEWERS} AS TEXT) END",
            "claim_until": f"CASE WHEN n % {IN_REVIEW} = 0 THEN {now + 1800!r} END",
            "weight": "(n * 7919 % 6000) / 100.0", "deadline": f"{now!r} + (n % 9973) * 18.0 - 7200.0",
        },
    }  # fmt: skip
    whole = {"jobs": jobs, "documents": tables.documents, "review_items": tables.review}
    source = {"jobs": job, "documents": document, "review_items": "r000000"}
    statements = []
    for table, changed in changes.items():
        columns = [column.name for column in whole[table].columns]
        taken = ", ".join(changed.get(column, f't."{column}"') for column in columns)
        only = f" AND n >= {FAILED}" if table == "review_items" else ""
        names = ", ".join(f'"{column}"' for column in columns)
        statements.append(
            (f"INSERT INTO {table} ({names}) {series}SELECT {taken} FROM s JOIN {table} t ON t.id = :source WHERE"
             f" n >= 1{only}", {**span, "source": source[table]})
        )  # fmt: skip
    return statements


def p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * len(values))]


def compared(*, items: int = ITEMS, tries: int = TRIES, stores: Sequence[str] = STORES) -> dict[str, Answered]:
    """Store → what was measured with it."""
    found = {}
    with Servers() as servers:
        for name in stores:
            folder = fresh_folder("documents-queue")
            url, settled = f"sqlite:///{folder}/penstock.db", None
            if name == "PostgreSQL":
                postgres = servers.postgres()
                url, settled = postgres.fresh_database("queue"), partial(postgres.vacuum, "queue")
            found[name] = asyncio.run(measure(url, folder, items=items, tries=tries, settled=settled))
            shutil.rmtree(folder)
    return found


def main(arguments: list[str]) -> None:
    items = int(arguments[0]) if arguments else ITEMS
    for name, answered in compared(items=items, tries=20, stores=arguments[1:] or STORES).items():
        for question, taken in answered.items():
            print(f"{name:10} {question:30} p50 {median(taken):7.1f} p95 {p95(taken):7.1f} ms", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
