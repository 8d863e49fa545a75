"""One bad thing holds up nothing else: an answer that cannot be written, results that are gone, something strange in a
tree, a name that is too long. And what people asked for at a bad moment is done all the same."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from PIL import Image

from penstock import Penstock
from penstock.config.settings import Settings
from penstock.engine.model import Job
from penstock.engine.staging import Report, stage
from penstock.pipelines.pages import asking, outputs, reading
from penstock.pipelines.pages.ledger import ledger_id
from penstock.pipelines.pages.workflow import pages
from tests.integration.test_pages_money import CALM, collected, own_prompt, submitted
from tests.integration.test_pages_run import HOURS, MAINE, OHIO, asked, attempts, in_order, never
from tests.support.gemini import Gemini, running_gemini
from tests.support.pages import SCRIPT, Library, said
from tests.support.pages_town import Tempo, Town, town_of

T = TypeVar("T")


@pytest.mark.parametrize(
    ("field", "kind", "answer"),
    [
        ("text", "string", '{{"text": "half of \\ud83d"}}'),
        ("number", "number", '{{"number": NaN}}'),
        ("number", "number", '{{"number": -Infinity}}'),
    ],
)
def test_an_answer_that_no_file_can_hold_is_no_json(field: str, kind: str, answer: str) -> None:
    """Within a fence, where only we read it; the other pages of its batch are written."""
    with town_of({OHIO: [1], MAINE: [1]}) as (town, library):
        good = {"key": "^Maine", "json": {field: "a" if kind == "string" else 1}}
        town.script([good, {"reply": f"```json\n{answer}\n```"}])
        prompt = own_prompt(library, field, kind)
        job = town.play(town.whole_run(library.run(prompt=prompt, execution={"max_retries": 0})))
        assert (job.status, job.result["done"], job.result["dead"]) == ("completed", 1, 1)
        assert town.play(attempts(town)) == [(library.key(OHIO, 1), "invalid_json", 1)]
        assert library.done() == {MAINE: [1]}


@pytest.mark.parametrize("lost", ["the rows", "every file", "the folder", "half a line"])
def test_results_that_are_gone_from_the_disk_hold_up_no_other_batch(lost: str) -> None:
    with town_of({OHIO: [1], MAINE: [1, 2, 3]}, tempo=CALM) as (town, library):
        run = library.run(execution={"batch_size_limit": 1})

        async def scenario() -> Job:
            job = await town.begun(run)
            await submitted(town, 2)
            await town.app.pause(job)
            await collected(town, 2)
            call = next(call for call in await town.app.calls() if call.key == "batch-000002")
            folder = town.app.engine.calls.folder_of(call.id)
            if lost == "the folder":
                shutil.rmtree(folder)
            if lost == "half a line":
                rows = folder / call.result["file"]
                rows.write_bytes(rows.read_bytes()[:-10])
            for path in folder.iterdir() if lost in ("the rows", "every file") else ():
                if lost == "every file" or path.name == call.result["file"]:
                    path.unlink()
            await town.app.resume(job)
            await asyncio.sleep(2 * HOURS)
            assert library.done()[MAINE] == [1, 2, 3], "the others are served"
            if lost == "the folder":
                assert "were they fetched in another home?" in ((await town.app.job(job)).error or "")
                folder.mkdir()
            return await town.settled(job)

        assert town.play(scenario()).status == "completed"
        assert library.done() == library.books
        assert not town.paid_twice()
        assert town.play(attempts(town)) == [(library.key(OHIO, 1), "batch", 0)], "nobody's fault, once"


@pytest.mark.parametrize("strange", ["a folder", "a pipe", "far too much"])
def test_what_stands_in_the_place_of_an_output_holds_up_nobody_but_its_chain(strange: str) -> None:
    with town_of({OHIO: [1, 2], MAINE: [1]}) as (town, library):
        place = library.output(OHIO, 1)
        place.parent.mkdir(parents=True)
        if strange == "a folder":
            place.mkdir()
        elif strange == "a pipe":
            os.mkfifo(place)
        else:
            place.write_bytes(b'{"text": "a"}' + b" " * outputs.LARGEST)
        run = library.run()
        job = town.play(town.whole_run(run))
        assert job.status == "completed"
        if strange == "far too much":
            assert asked(town) == [["Maine 1", "Ohio 1"], ["Ohio 2"]], "no page says that much, so it is work"
            return
        assert (job.result["done"], job.result["dead"], job.result["blocked"]) == (1, 1, 1)
        assert asked(town) == [["Maine 1"]]
        (dead,) = town.play(town.rows("SELECT type, message FROM pages_failures"))
        assert dead == ("output", f"{OHIO}/0001.json is no file: remove what stands there, then retry")

        async def scenario() -> Job:
            assert await asking.retry(town.app, job, {}) == 1
            return await town.app.wait((await asking.newest_run(town.app, job)).id)

        place.rmdir() if strange == "a folder" else place.unlink()
        assert town.play(scenario()).result["done"] == 3
        assert library.done() == library.books


def test_a_folder_that_takes_the_place_of_an_output_while_its_page_is_in_flight() -> None:
    stuck = [{"kind": "stuck_running", "seconds": 20.0, "times": 1}]
    with town_of({OHIO: [1], MAINE: [1]}, faults=stuck, tempo=CALM) as (town, library):

        async def scenario() -> Job:
            job = await town.begun(library.run())
            await submitted(town)
            library.output(OHIO, 1).mkdir(parents=True)
            return await town.settled(job)

        job = town.play(scenario())
        assert (job.status, job.result["done"], job.result["dead"]) == ("completed", 1, 1)
        assert asked(town) == [["Maine 1", "Ohio 1"]]
        assert not list(library.outputs.rglob("*.part"))


def test_a_book_whose_outputs_have_no_place_holds_up_no_other() -> None:
    with town_of({OHIO: [1], MAINE: [1, 2, 3]}, tempo=CALM) as (town, library):
        run = library.run(execution={"batch_size_limit": 1})

        async def scenario() -> Job:
            job = await town.begun(run)
            await submitted(town, 2)
            place = library.outputs / OHIO
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("a file")
            await asyncio.sleep(2 * HOURS)
            assert library.done() == {MAINE: [1, 2, 3]}
            assert str(place) in ((await town.app.job(job)).error or "")
            place.unlink()
            return await town.app.wait(job)

        assert town.play(scenario()).status == "completed"
        in_order(town, library, run)
        assert len(town.batches()) == 4, "what was brought home is not asked for again"


def test_outputs_that_cannot_get_their_names_hold_up_no_other_book() -> None:
    with town_of({OHIO: [1], MAINE: [1, 2, 3]}, tempo=CALM) as (town, library):
        run = library.run(execution={"batch_size_limit": 1})

        async def scenario() -> Job:
            job = await town.begun(run)
            await submitted(town, 1)
            folder = library.outputs / OHIO
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.write_text("a file where the folder should be")
            await town.app.engine.write(
                "INSERT INTO pages_staged (ledger, book, name, file) SELECT id, "
                f"'{OHIO}', '0001', '.0001.json.x-1-1.part' FROM pages_ledgers"
            )

            async def the_last_is_in_flight() -> bool:
                return library.done().get(MAINE) == [1, 2]

            await town.until(the_last_is_in_flight, within=2 * HOURS)
            retried = [event for event in await town.app.history(job) if event.kind == "retry"]
            assert not retried, "what is under way is served at its own pace"
            await asyncio.sleep(HOURS)
            assert library.done()[MAINE] == [1, 2, 3], "the others are served"
            ((staged,),) = await town.rows(f"SELECT COUNT(*) FROM pages_staged WHERE book = '{OHIO}'")
            assert staged == 1, "what could not be published is not forgotten"
            folder.unlink()
            return await town.settled(job)

        assert town.play(scenario()).status == "completed"
        assert library.done() == library.books
        assert not town.paid_twice()


def test_an_error_page_in_the_place_of_a_result_is_fetched_again() -> None:
    fault = {"kind": "not_json", "where": "download", "times": 1}
    with town_of({OHIO: [1, 2]}, tempo=CALM, faults=[fault]) as (town, library):
        job = town.play(town.whole_run(library.run()))
        assert (job.status, library.done()) == ("completed", library.books)
        assert town.play(attempts(town)) == [], "no page is blamed for it"
        assert len(asked(town)) == 2, "and none is paid for again"


def test_a_failure_is_counted_once_though_its_batch_is_tried_again_and_again() -> None:
    with town_of({OHIO: [1], MAINE: [1]}, tempo=CALM) as (town, library):
        town.script(never("^Maine", times=1, error={"code": 13}))
        run = library.run()

        async def scenario() -> Job:
            job = await town.begun(run)
            await submitted(town)
            place = library.outputs / OHIO
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("a file")
            await asyncio.sleep(HOURS)
            assert not await attempts(town), "all of a batch is taken in, or nothing"
            place.unlink()
            return await town.app.wait(job)

        assert town.play(scenario()).status == "completed"
        in_order(town, library, run)
        assert town.play(attempts(town)) == [(library.key(MAINE, 1), "api_error", 1)]


def test_a_book_whose_pages_have_too_long_keys_is_left_out() -> None:
    long = f"{'A' * 250}/{'B' * 190}{':' * 30}/1850"
    with town_of({OHIO: [1], long: [1]}) as (town, library):
        job = town.play(town.whole_run(library.run()))
        assert (job.status, job.result["pages"], job.result["done"]) == ("completed", 1, 1)
        ((path, reason),) = town.play(town.rows("SELECT path, reason FROM pages_ignored"))
        assert (path, reason) == (long.removesuffix("/1850"), "the names are too long to name a page by")


def test_a_label_that_is_spelled_otherwise_while_its_page_is_in_flight() -> None:
    stuck = [{"kind": "stuck_running", "seconds": 20.0, "times": 1}]
    with town_of({OHIO: [1, 2]}, faults=stuck, tempo=CALM) as (town, library):
        run = library.run()

        async def scenario() -> Job:
            job = await town.begun(run)
            await submitted(town)
            for root, name in ((library.labels, "json"), (library.images, "png")):
                (root / OHIO / f"0001.{name}").rename(root / OHIO / f"01.{name}")
            return await town.settled(job)

        assert town.play(scenario()).result["done"] == 2
        assert sorted(path.name for path in (library.outputs / OHIO).iterdir()) == ["0002.json", "01.json"]
        assert library.text(OHIO, 2) == said(OHIO, 2, 1)
        assert town.play(town.whole_run(run)).status == "completed"
        assert asked(town) == [["Ohio 1"], ["Ohio 2"]]


class Shown:
    """Keeps what a run shows to people."""

    def __init__(self) -> None:
        self.reports: dict[str, Report] = {}

    async def part(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        return await work()

    async def show(self, report: Report) -> None:
        self.reports[report.key] = report


def test_of_pages_that_are_free_again_the_batchs_table_does_not_say_that_they_are_done() -> None:
    stuck = [{"kind": "stuck_running", "times": 1}]
    with town_of({OHIO: [1], MAINE: [1]}, faults=stuck, processes=0) as (town, library):
        shown = Shown()
        town.context.run(stage.set, shown)

        async def scenario() -> None:
            town.start()
            job = await town.begun(library.run())
            await submitted(town)
            await town.app.cancel(job)
            await town.app.wait(job)

        town.play(scenario())
        assert shown.reports["pages-batch-000001"].table == [
            {"page": library.key(book, 1), "outcome": "free again: the batch was cancelled"} for book in (MAINE, OHIO)
        ]


# Wishes at bad moments.


def test_a_wish_that_comes_while_the_last_tick_stands_still_is_granted() -> None:
    """For longer than people like to wait."""
    still = {"tempo": Tempo(lease=60.0, frozen_for=12.0)}
    with town_of({OHIO: [1]}, **still) as (town, library):
        town.script(never(""))
        town.play(town.whole_run(library.run(execution={"max_retries": 0})))
        commits = town.lives[0].points["before commit"]
    for number in range(commits, 0, -1):
        with town_of({OHIO: [1]}, freezes=("before commit", number), **still) as (town, library):
            town.script(never("", times=1, error={"code": 13}))
            run = library.run(execution={"max_retries": 0})

            async def scenario(town: Town = town, run: Any = run) -> bool:
                job = await town.begun(run)
                await town.until(lambda: _stands_still(town))
                if (await town.app.job(job)).status != "running" or not await town.rows("SELECT * FROM pages_failures"):
                    return False
                assert await asking.retry(town.app, await town.app.job(job), {}) == 1
                newest = await asking.newest_run(town.app, await town.app.job(job))
                assert (await town.app.wait(newest.id)).result["done"] == 1
                return True

            if town.play(scenario()):
                return
    raise AssertionError("no run was caught at its end")


async def _stands_still(town: Town) -> bool:
    return town.lives[0].frozen_until > 0


def test_a_wish_that_comes_while_a_run_is_being_canceled_is_kept_for_the_next_one() -> None:
    stuck = [{"kind": "stuck_running", "times": 1, "after": 1}, {"kind": "error", "where": "cancel", "times": 3}]
    with town_of({OHIO: [1], MAINE: [1]}, faults=stuck, tempo=CALM) as (town, library):
        town.script(never("^Maine", times=1, error={"code": 13}))
        run = library.run(execution={"max_retries": 0, "batch_size_limit": 1})

        async def scenario() -> Job:
            job = await town.begun(run)

            async def one_is_dead() -> bool:
                return bool(await reading.dead(town.app.engine, ledger_id(library.outputs)))

            await town.until(one_is_dead)
            await town.app.cancel(job)
            canceling = await town.app.job(job)
            assert canceling.status == "canceling"
            assert await asking.retry(town.app, canceling, {}) == 1
            assert (await town.app.wait(job)).status == "canceled"
            return await town.settled(await town.begun(run))

        assert town.play(scenario()).result["done"] == 2
        assert not town.play(town.rows("SELECT * FROM pages_wishes"))
        assert not town.paid_twice()


# Images that are made readable.


@pytest.fixture
def gemini() -> Iterator[Gemini]:
    with running_gemini() as server:
        server.script(SCRIPT)
        yield server


@asynccontextmanager
async def worker(gemini: Gemini, home: Path) -> AsyncIterator[Penstock]:
    told = {"base_url": gemini.url, "api_key": "key", "retry_base": 0.05}
    app = Penstock(workflows=[pages])
    await app.open(settings=Settings.model_validate({"home": home, "gemini": told}))
    try:
        async with app.worker():
            yield app
    finally:
        await app.close()


def test_images_that_were_made_readable_are_removed_when_their_batch_has_landed(gemini: Gemini, tmp_path: Path) -> None:
    library = Library(tmp_path / "library", {OHIO: [1, 2]})
    for number in (1, 2):
        library.image(OHIO, number).unlink()
        Image.new("L", (20, 30), number).save(library.images / OHIO / f"{number:04d}.tif")
    gemini.faults([{"kind": "stuck_running", "seconds": 1.0, "after": 1}])
    home = tmp_path / "home"

    def made() -> int:
        return len(list((home / "scratch").rglob("*.png")))

    async def flying(app: Penstock) -> list[int]:
        """The pages that are at Gemini."""
        rows = await app.engine.read(
            "SELECT f.number FROM pages_flights f JOIN pages_batches b ON b.number = f.batch"
            " WHERE b.state = 'submitted'"
        )
        return [number for (number,) in rows]

    async def scenario() -> Job:
        async with worker(gemini, home) as app:
            job = (await asking.start(app, library.run(batch={"poll_interval_seconds": 0.1}))).job_id
            async with asyncio.timeout(60):
                while await flying(app) != [2] or (await app.job(job)).status == "running":
                    await asyncio.sleep(0.02)
            assert made() == 1, "that of the page in flight"
            return await app.wait(job, timeout=60)

    assert asyncio.run(scenario()).result["done"] == 2
    assert made() == 0
