"""The pages pipeline on a real PostgreSQL and a real local Gemini, with two workers: what it writes and reads there is
what it writes and reads on SQLite, to the type."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock import Penstock
from penstock.config.settings import Settings
from penstock.engine.model import Job
from penstock.pipelines.pages import asking, reading
from penstock.pipelines.pages.ledger import ledger_id
from penstock.pipelines.pages.model import Run
from penstock.pipelines.pages.tables import VIEWS
from penstock.pipelines.pages.workflow import pages
from tests.support.gemini import Gemini, running_gemini
from tests.support.pages import SCRIPT, Library, books_wrong

OHIO, ALABAMA, MAINE = "Ohio/Oberlin/1850", "Alabama/Howard College/1849", "Maine/Ob%er: x/1901"
PATIENCE = 100.0
BROKEN = {"key": "^Alabama", "reply": 'no JSON, \x00 and a "quote" \u2028'}


@pytest.fixture
def gemini() -> Iterator[Gemini]:
    with running_gemini() as server:
        server.script([BROKEN, *SCRIPT])
        yield server


@asynccontextmanager
async def two_workers(gemini: Gemini, folder: Path, store: str) -> AsyncIterator[Penstock]:
    told = {"base_url": gemini.url, "api_key": "key", "retry_base": 0.05}
    settings = Settings.model_validate({"home": folder / "home", "store": store, "gemini": told})
    one, other = Penstock(workflows=[pages]), Penstock(workflows=[pages])
    await one.open(settings=settings)
    await other.open(settings=settings)
    try:
        async with one.worker(), other.worker():
            yield one
    finally:
        await other.close()
        await one.close()


async def ended(app: Penstock, run: Run) -> Job:
    job = await app.wait((await asking.start(app, run)).job_id, timeout=PATIENCE)
    assert job.status == "completed", (job.error, job.reason)
    return job


async def views(app: Penstock) -> dict[str, list[tuple[Any, ...]]]:
    return {name: await app.engine.read(f"SELECT * FROM {name} ORDER BY 1, 2") for name in VIEWS}


def kinds(row: tuple[Any, ...]) -> list[str]:
    return [type(value).__name__ for value in row]


def test_a_run_its_views_and_what_people_ask(gemini: Gemini, tmp_path: Path, postgres_url: str) -> None:
    library = Library(tmp_path / "library", {OHIO: [1, 2, 3], MAINE: [1, 2], ALABAMA: [1]})
    library.image(MAINE, 2).unlink()
    run = library.run(execution={"max_retries": 1}, batch={"poll_interval_seconds": 0.2})
    ledger = ledger_id(library.outputs)
    gemini.faults([{"kind": "stuck_running", "seconds": 1.0, "times": 1}])

    async def while_it_runs(app: Penstock) -> None:
        seen = await views(app)
        async with asyncio.timeout(PATIENCE):
            while "submitted" not in [row[3] for row in seen["active_batches"]]:
                await asyncio.sleep(0.02)
                seen = await views(app)
        ((_, batch, number, state, size, created, submitted),) = seen["active_batches"]
        assert (number, state, size) == (1, "submitted", 3)
        assert batch.startswith("batches/") and isinstance(created, float) and isinstance(submitted, float)
        keys = [library.key(book, 1) for book in (ALABAMA, MAINE, OHIO)]
        assert sorted(seen["batch_record_keys"]) == [(ledger, batch, key) for key in keys]
        assert sorted(seen["inflight_records"]) == [(ledger, key) for key in keys]

    async def main() -> None:
        async with two_workers(gemini, tmp_path, postgres_url) as app:
            await asking.start(app, run)
            await while_it_runs(app)
            job = await ended(app, run)
            assert job.result == {"books": 3, "pages": 6, "done": 4, "dead": 2, "ready": 0, "blocked": 0}
            assert not await books_wrong(app, run, library)
            left = await views(app)
            counts = {key: count for _, key, count in left.pop("failure_counts")}
            assert counts == {library.key(ALABAMA, 1): 2, library.key(MAINE, 2): 0}
            assert not any(left.values())
            await what_is_read(app, job)
            await what_is_asked(app, job)

    async def what_is_read(app: Penstock, job: Job) -> None:
        overview = await reading.overview(app.engine, ledger)
        assert (overview.totals.pages, overview.totals.done, overview.totals.dead) == (6, 4, 2)
        assert kinds((overview.totals.pages, overview.totals.done)) == ["int", "int"]
        failed = await reading.attempts(app.engine, ledger, state="Alabama", whole=True)
        assert [(attempt.attempt, attempt.type, attempt.counted) for attempt in failed] == [
            (2, "invalid_json", True), (1, "invalid_json", True),
        ]  # fmt: skip
        assert failed[0].raw is not None and failed[0].raw.startswith("no JSON, ")
        assert await reading.failure_groups(app.engine, ledger, "school") == [
            ("Alabama/Howard College", 2, 1), ("Maine/Ob%er: x", 1, 1),
        ]  # fmt: skip
        page = await reading.page(app.engine, run, ledger, library.key(OHIO, 2))
        assert page.state == "done"
        batch = (await reading.batches(app.engine, ledger, active=False, limit=1))[0]
        assert kinds((batch.number, batch.size, batch.ok, batch.failed, batch.cost)) == ["int"] * 5
        assert kinds((batch.created, batch.submitted, batch.ended)) == ["float"] * 3
        assert (
            kinds((*(await app.engine.read("SELECT label_seen, output_seen, served FROM pages_books"))[0],))
            == ["int"] * 3
        )

    async def what_is_asked(app: Penstock, job: Job) -> None:
        gemini.script(SCRIPT)
        library.add(MAINE, 2)
        assert await asking.retry(app, job, {"state": "Maine", "school": "Ob%er: x", "year": 1901}) == 1
        again = await app.wait((await asking.newest_run(app, job)).id, timeout=PATIENCE)
        assert again.result["done"] == 5
        library.output(OHIO, 3).unlink()
        await asking.rescan(app, again, {"state": "Ohio"})
        await app.wait((await asking.newest_run(app, job)).id, timeout=PATIENCE)
        more = library.run(execution={"max_retries": 5, "on_dead_page": "skip"}, batch={"poll_interval_seconds": 0.2})
        assert (await ended(app, more)).result["done"] == 6
        assert library.done() == library.books

    asyncio.run(main())
