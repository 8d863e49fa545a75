"""No page is paid for twice: not when runs fail, are retried, canceled and begun anew with other words, not when a disk
goes away at the worst moment, and not when people write outputs, prompts and limits of their own."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.model import Job
from penstock.pipelines.pages import asking, outputs
from penstock.pipelines.pages.prompts.registry import load_prompt
from penstock.pipelines.pages.walk import MARK
from tests.integration.test_pages_run import (
    ALABAMA,
    HOURS,
    MAINE,
    OHIO,
    aged,
    asked,
    attempts,
    finished,
    in_order,
    never,
)
from tests.support.pages import Library, said
from tests.support.pages_town import Tempo, Town, town_of

CALM = Tempo(lease=300.0, sweep_every=60.0)
"""For runs that wait long."""

CANNOT_BE_STOPPED = {"kind": "error", "where": "cancel", "code": 503}

_armed: list[tuple[tuple[str, ...], str, Callable[[], object]]] = []
_hooked = False


@contextmanager
def right_before(events: tuple[str, ...], path: Path, do: Callable[[], object]) -> Iterator[None]:
    """`do` is done once, right before one of these things is done to a file or folder; `open` means to read it."""
    global _hooked
    if not _hooked:
        # Python has no way to take a hook back; with nothing armed it does nothing.
        sys.addaudithook(_audited)
        _hooked = True
    _armed.append((events, str(path), do))
    try:
        yield
        assert not _armed, f"nobody came to {path}"
    finally:
        _armed.clear()


def _audited(event: str, args: tuple[Any, ...]) -> None:
    if not _armed or event not in _armed[0][0]:
        return
    _, path, do = _armed[0]
    reads = event != "open" or (isinstance(args[1], str) and "r" in args[1])
    if reads and path in (str(args[0]), *map(str, args[1:2])):
        _armed.clear()
        do()


async def failed(town: Town, library: Library, job: str) -> Job:
    """A run that fails with what it has under way: for a moment its output folder seems to be another store's."""
    mark = library.outputs / MARK
    ours = mark.read_text()
    mark.write_text("of another store\n")
    over = await town.settled(job)
    mark.write_text(ours)
    assert over.status == "failed", over.error
    return over


async def submitted(town: Town, many: int = 1) -> None:
    """Wait until so many batches are at Gemini, and the ledger says so."""

    async def are_there() -> bool:
        ((count,),) = await town.rows("SELECT COUNT(*) FROM pages_batches WHERE state = 'submitted'")
        return bool(count >= many)

    await town.until(are_there)


async def collected(town: Town, many: int) -> None:
    """Wait until the results of so many batches are here."""

    async def are_here() -> bool:
        return len(await town.app.calls(state=("collected",))) >= many

    await town.until(are_here)


async def states(town: Town) -> dict[str, str]:
    return dict(await town.rows("SELECT book, states FROM pages_books"))


def own_prompt(library: Library, field: str, kind: str = "string") -> dict[str, Any]:
    """The settings of a prompt by which an answer has this one field."""
    folder = library.labels.with_name("prompts") / field
    folder.mkdir(parents=True)
    (folder / "1.jinja").write_text("Read the page.")
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    (folder / "1.schema.json").write_text(json.dumps(schema))
    return {"registry_dir": folder.parent, "name": field}


def went_away(folder: Path) -> Path:
    """The folder's disk is gone: what is left is an empty mount point. Answers with where it is."""
    away = folder.with_name(f"{folder.name} away")
    folder.rename(away)
    folder.mkdir()
    return away


def came_back(folder: Path, away: Path) -> None:
    folder.rmdir()
    away.rename(folder)


# Runs that fail, are retried, canceled, begun anew.


@pytest.mark.parametrize("then", ["fails and has another configuration", "is canceled"])
def test_a_batch_is_known_whichever_run_sent_it_and_whichever_holds_it_now(then: str) -> None:
    """The run that sent it failed; its retry took it over, and ends as well."""
    stuck_for = 700.0 if then == "is canceled" else 200.0
    faults = [{"kind": "stuck_running", "times": 1, "seconds": stuck_for}, CANNOT_BE_STOPPED]
    with town_of({OHIO: [1]}, faults=faults, gemini={"poll_at_most": 60.0}, tempo=CALM) as (town, library):
        run = library.run(batch={"poll_interval_seconds": 20.0})

        async def scenario() -> Job:
            first = await town.begun(run)
            await submitted(town)
            await failed(town, library, first)
            second = await town.begun(run)
            await asyncio.sleep(30)
            if then == "is canceled":
                await town.app.cancel(second)
                await town.app.wait(second)
                return await town.settled(await town.begun(run))
            await failed(town, library, second)
            return await town.settled(await town.begun(library.run(batch={"poll_interval_seconds": 30.0})))

        assert town.play(scenario()).status == "completed"
        assert not town.paid_twice()
        assert library.done() == library.books


def test_a_failed_run_goes_on_with_the_batch_it_has_at_gemini() -> None:
    stuck = [{"kind": "stuck_running", "times": 1, "seconds": 200.0}]
    with town_of({OHIO: [1, 2]}, faults=stuck, tempo=CALM) as (town, library):
        run = library.run(batch={"poll_interval_seconds": 5.0})

        async def scenario() -> Job:
            job = await town.begun(run)
            await submitted(town)
            await failed(town, library, job)
            return await town.settled(await town.begun(run))

        assert town.play(scenario()).status == "completed"
        in_order(town, library, run)
        assert asked(town) == [["Ohio 1"], ["Ohio 2"]]


def test_what_a_canceled_run_could_not_stop_is_taken_in_by_the_next_one() -> None:
    faults = [{"kind": "stuck_running", "times": 1, "seconds": 700.0}, CANNOT_BE_STOPPED]
    with town_of({OHIO: [1, 2]}, faults=faults, gemini={"poll_at_most": 60.0}, tempo=CALM) as (town, library):
        run = library.run(batch={"poll_interval_seconds": 20.0})

        async def scenario() -> Job:
            job = await town.begun(run)
            await submitted(town)
            await town.app.cancel(job)
            assert (await town.app.wait(job)).status == "canceled"
            assert await town.rows("SELECT * FROM pages_flights"), "Gemini has not said what became of them"
            town.faults()
            return await town.settled(await town.begun(run))

        assert town.play(scenario()).status == "completed"
        assert not town.paid_twice()
        assert library.done() == library.books


def test_a_batch_whose_call_nobody_knows_any_more_is_never_sent_again() -> None:
    with town_of({OHIO: [1], MAINE: [1]}, faults=[{"kind": "stuck_running", "times": 1}], tempo=CALM) as (
        town,
        library,
    ):
        run = library.run(execution={"batch_size_limit": 1})

        async def scenario() -> None:
            job = await town.begun(run)
            await submitted(town)
            await failed(town, library, job)
            await town.app.engine.write(("DELETE FROM calls WHERE state <> 'collected'", {}))
            await town.begun(run)
            await asyncio.sleep(HOURS)
            assert await town.rows("SELECT * FROM pages_flights")

        town.play(scenario())
        assert asked(town) == [["Maine 1"], ["Ohio 1"]]


def test_a_request_that_is_refused_ends_the_run_after_its_batches_have_come_home() -> None:
    faults = [
        {"kind": "stuck_running", "times": 1, "seconds": 60.0},
        {"kind": "error", "where": "create", "code": 400, "after": 1},
    ]
    told: dict[str, Any] = {"execution": {"batch_size_limit": 1}, "batch": {"poll_interval_seconds": 20.0}}
    with town_of({OHIO: [1], MAINE: [1]}, faults=faults) as (town, library):

        async def scenario() -> Job:
            return await town.settled(await town.begun(library.run(**told)))

        assert town.play(scenario()).status == "failed"
        assert library.done() == {MAINE: [1]}
        town.faults()
        assert finished(town, library, **told).result["done"] == 2


def test_a_batch_that_never_arrived_and_is_canceled_is_not_counted_and_its_pages_are_looked_at() -> None:
    """Its first sending got lost, and all later ones are refused."""
    faults = [
        {"kind": "drop_before", "where": "create", "times": 1},
        {"kind": "error", "where": "create", "code": 429},
    ]
    with town_of({OHIO: [1], MAINE: [1]}, faults=faults, tempo=Tempo(sweep_every=5.0)) as (town, library):
        run = library.run()
        for book in (OHIO, MAINE):
            library.output(book, 1).parent.mkdir(parents=True)

        async def scenario() -> Job:
            job = await town.begun(run)

            async def is_refused() -> bool:
                return bool(await town.app.calls(state=("unsent",)))

            await town.until(is_refused)
            library.output(MAINE, 1).write_text('{"text": "by hand"}')
            aged(library.labels, library.outputs)
            await asyncio.sleep(600)
            await town.app.cancel(job)
            await town.app.wait(job)
            ((submitted,),) = await town.rows("SELECT COUNT(*) FROM pages_batches")
            assert ((await town.app.job(job)).counters.get("batches_submitted", 0), submitted) == (0, 0)
            town.faults()
            return await town.settled(await town.begun(run))

        assert town.play(scenario()).result["done"] == 2
        assert asked(town) == [["Ohio 1"]], "what somebody wrote meanwhile is adopted"


# Disks that go away.


def test_outputs_that_vanish_between_the_check_and_the_walk_are_not_work() -> None:
    with town_of({OHIO: [1, 2], MAINE: [1]}) as (town, library):
        run = library.run()
        town.play(town.whole_run(run))
        before, paid = town.play(states(town)), len(town.batches())

        async def scenario() -> Job:
            job = await town.begun(run)
            await asyncio.sleep(300)
            waiting = await town.app.job(job)
            assert waiting.status == "waiting"
            assert "is a disk not mounted?" in (waiting.error or "")
            assert await states(town) == before
            came_back(library.outputs, away)
            return await town.app.wait(job)

        away = library.outputs.with_name("out away")
        with right_before(("os.scandir",), library.labels, lambda: went_away(library.outputs)):
            assert town.play(scenario()).status == "completed"
        assert len(town.batches()) == paid
        assert town.play(states(town)) == before


@pytest.mark.parametrize("moment", ["os.rename", "open"], ids=["it gets its name", "the next page is chosen"])
def test_an_output_whose_disk_goes_away_is_not_work(moment: str) -> None:
    with town_of({OHIO: [1, 2]}) as (town, library):
        run = library.run()

        async def scenario() -> Job:
            job = await town.begun(run)
            await town.until(lambda: _is_empty(library.outputs))
            await asyncio.sleep(300)
            assert await states(town) == {OHIO: "dw"}
            assert "is a disk not mounted?" in ((await town.app.job(job)).error or "")
            came_back(library.outputs, library.outputs.with_name("out away"))
            return await town.app.wait(job)

        with right_before((moment,), library.output(OHIO, 1), lambda: went_away(library.outputs)):
            assert town.play(scenario()).status == "completed"
        in_order(town, library, run)
        assert asked(town) == [["Ohio 1"], ["Ohio 2"]]


def test_an_output_whose_disk_goes_away_as_it_is_judged_is_not_work() -> None:
    with town_of({OHIO: [1]}) as (town, library):
        library.output(OHIO, 1).parent.mkdir(parents=True)
        library.output(OHIO, 1).write_text('{"text": "by hand"}')

        async def scenario() -> Job:
            job = await town.begun(library.run())
            await town.until(lambda: _is_empty(library.outputs))
            await asyncio.sleep(300)
            assert await states(town) == {OHIO: "?"}
            came_back(library.outputs, library.outputs.with_name("out away"))
            return await town.app.wait(job)

        with right_before(("open",), library.output(OHIO, 1), lambda: went_away(library.outputs)):
            assert town.play(scenario()).result["done"] == 1
        assert not town.batches()


async def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def test_labels_that_vanish_drop_no_book() -> None:
    with town_of({OHIO: [1, 2], MAINE: [1]}) as (town, library):
        run = library.run()

        async def scenario() -> Job:
            job = await town.begun(run)
            await submitted(town)
            away = went_away(library.labels)
            await asyncio.sleep(300)
            waiting = await town.app.job(job)
            assert waiting.status == "waiting"
            assert "paths.label_source_dir" in (waiting.error or "")
            assert (await states(town)).keys() == library.books.keys()
            came_back(library.labels, away)
            return await town.app.wait(job)

        assert town.play(scenario()).status == "completed"
        in_order(town, library, run)
        assert library.done() == library.books


@pytest.mark.parametrize("left", ["nothing", "an empty folder"])
def test_images_that_vanish_kill_no_page(left: str) -> None:
    with town_of({OHIO: [1, 2], MAINE: [1]}) as (town, library):
        run = library.run()

        async def scenario() -> Job:
            job = await town.begun(run)
            await submitted(town)
            away = went_away(library.images)
            if left == "nothing":
                library.images.rmdir()
            await asyncio.sleep(300)
            waiting = await town.app.job(job)
            assert waiting.status == "waiting"
            assert "paths.image_source_dir" in (waiting.error or "")
            assert not await attempts(town)
            library.images.mkdir(exist_ok=True)
            came_back(library.images, away)
            library.image(OHIO, 2).unlink()
            return await town.app.wait(job)

        assert town.play(scenario()).result["dead"] == 1, "of an image that is missing alone the page dies at once"
        in_order(town, library, run)
        assert library.done() == {OHIO: [1], MAINE: [1]}


# Outputs on their way.


@pytest.mark.parametrize("then", ["its file is removed", "the run is canceled"])
def test_an_output_that_has_not_its_name_when_its_process_dies(then: str) -> None:
    """The process dies at each file operation in turn; one of them gives the output its name."""
    for point in count(1):
        with town_of({OHIO: [1]}, plan=[("before file", point)]) as (town, library):
            town.tempo.restart_after = 5.0
            library.output(OHIO, 1).parent.mkdir(parents=True)
            aged(library.labels, library.outputs)

            async def scenario(town: Town = town, library: Library = library) -> bool:
                job = await town.begun(library.run())
                await town.first_death()
                if not await town.rows("SELECT * FROM pages_staged"):
                    return False
                if then == "the run is canceled":
                    await town.app.cancel(job)
                for path in library.outputs.rglob("*.part") if then == "its file is removed" else ():
                    path.unlink()
                aged(library.outputs)
                await town.settled(job)
                return True

            if town.play(scenario()):
                assert library.done() == library.books
                assert not town.play(town.rows("SELECT * FROM pages_staged"))
                assert len(asked(town)) == (2 if then == "its file is removed" else 1)
                return


def test_a_worker_that_lost_its_claim_does_not_remove_what_came_later(tmp_path: Path) -> None:
    (tmp_path / "B").mkdir()
    old, new = (outputs.staged_name("0001", f"job-{claim}-1") for claim in (1, 9))
    outputs.stage(tmp_path, [("B", old, b"{}")])
    assert not outputs.publish(tmp_path, [("B", "0001", old)], ("job", 2)).lost
    (tmp_path / "B" / "0001.json").unlink()
    outputs.stage(tmp_path, [("B", new, b"{}")])
    outputs.publish(tmp_path, [("B", "0001", old)], ("job", 1))
    assert not outputs.publish(tmp_path, [("B", "0001", new)], ("job", 9)).lost
    assert [path.name for path in (tmp_path / "B").iterdir()] == ["0001.json"]


def test_what_dead_workers_wrote_before_their_commit_is_removed(tmp_path: Path) -> None:
    torn, kept = (outputs.staged_name("0001", f"job-{claim}-1") for claim in (1, 2))
    other = outputs.staged_name("0002", "job-1-1")
    outputs.stage(tmp_path, [("B", torn, b"{"), ("B", kept, b"{}"), ("B", other, b"{}")])
    assert not outputs.publish(tmp_path, [("B", "0001", kept)], ("job", 2)).lost
    assert sorted(path.name for path in (tmp_path / "B").iterdir()) == [other, "0001.json"]


def test_a_page_whose_output_was_spoiled_is_asked_for_again_before_the_next_one() -> None:
    with town_of({OHIO: [1]}) as (town, library):
        run = library.run()
        town.play(town.whole_run(run))
        library.output(OHIO, 1).write_text("spoiled")
        library.add(OHIO, 2)
        assert town.play(town.whole_run(run)).status == "completed"
        assert asked(town) == [["Ohio 1"], ["Ohio 1"], ["Ohio 2"]]
        assert library.text(OHIO, 2) == said(OHIO, 2, 1)


@pytest.mark.parametrize("goes_wrong", ["its answer", "its batch"])
def test_an_output_that_somebody_writes_while_its_page_is_in_flight_is_adopted(goes_wrong: str) -> None:
    """The attempt fails; the page need not be paid for again."""
    faults = [{"kind": "stuck_running", "seconds": 60.0, "times": 1}]
    if goes_wrong == "its batch":
        faults.append({"kind": "fail", "times": 1})
    with town_of({OHIO: [1], MAINE: [1]}, faults=faults, tempo=Tempo(lease=60.0, sweep_every=5.0)) as (town, library):
        town.script(never("", times=2, error={"code": 13}))

        async def scenario() -> Job:
            job = await town.begun(library.run(batch={"poll_interval_seconds": 5.0}))
            await submitted(town)
            library.output(OHIO, 1).parent.mkdir(parents=True)
            library.output(OHIO, 1).write_text('{"text": "by hand"}')
            library.output(MAINE, 1).parent.mkdir(parents=True)
            library.output(MAINE, 1).write_text('{"text": 1}')
            aged(library.labels, library.outputs)
            return await town.settled(job)

        assert town.play(scenario()).result["done"] == 2
        assert asked(town) == [["Maine 1", "Ohio 1"], ["Maine 1"]], "what is not valid does not count"
        assert library.text(OHIO, 1) == "by hand"


# Other words.


@pytest.mark.parametrize("max_retries", [0, 1])
def test_fewer_retries_than_a_page_has_failed_already_end_it_unpaid(max_retries: int) -> None:
    with town_of({OHIO: [1], MAINE: [1]}) as (town, library):
        town.script(never("^Ohio"))

        async def scenario() -> Job:
            job = await town.begun(library.run())

            async def has_failed_twice() -> bool:
                return len(await attempts(town)) == 2

            await town.until(has_failed_twice)
            await town.app.cancel(job)
            await town.app.wait(job)
            nonlocal paid
            paid = len(await attempts(town)), len(town.batches())
            return await town.settled(await town.begun(library.run(execution={"max_retries": max_retries})))

        paid = (0, 0)
        assert town.play(scenario()).result["dead"] == 1
        assert (len(town.play(attempts(town))), len(town.batches())) == paid
        assert town.play(town.rows("SELECT dead FROM pages_failures")) == [(1,)]


def test_outputs_are_held_against_another_prompts_schema() -> None:
    with town_of({OHIO: [1, 2], MAINE: [1]}) as (town, library):
        town.play(town.whole_run(library.run()))
        aged(library.labels, library.outputs)
        town.play(town.whole_run(library.run()))
        heading, text = own_prompt(library, "heading"), own_prompt(library, "text")
        assert town.play(town.whole_run(library.run(prompt=text))).result["done"] == 3
        assert len(town.batches()) == 2, "they fit"
        town.script([{"json": {"heading": "h"}}])
        run = library.run(prompt=heading)
        assert town.play(town.whole_run(run)).result["done"] == 3
        assert asked(town)[2:] == [["Maine 1", "Ohio 1"], ["Ohio 2"]]
        assert json.loads(library.output(OHIO, 2).read_bytes())["heading"] == "h"


def test_a_rescan_looks_into_the_outputs() -> None:
    with town_of({OHIO: [1], MAINE: [1]}) as (town, library):
        run = library.run()
        job = town.play(town.whole_run(run))
        for book in (OHIO, MAINE):
            library.output(book, 1).write_text("spoiled")

        async def scenario() -> Job:
            await asking.rescan(town.app, job, {"state": "Ohio"})
            return await town.app.wait((await asking.newest_run(town.app, job)).id)

        assert town.play(scenario()).status == "completed"
        assert asked(town)[1:] == [["Ohio 1"]]
        assert library.text(OHIO, 1) == said(OHIO, 1)


def test_an_answer_to_an_earlier_prompt_is_held_against_the_runs_schema() -> None:
    with town_of({OHIO: [1]}) as (town, library):
        run = library.run(prompt=own_prompt(library, "heading"))

        async def scenario() -> Job:
            job = await town.begun(library.run())
            await submitted(town)
            await town.app.pause(job)
            await collected(town, 1)
            (library.outputs / MARK).rename(kept := library.outputs.with_name("mark"))
            (library.outputs / MARK).write_text("of another store\n")
            await town.app.resume(job)
            assert (await town.settled(job)).status == "failed"
            kept.replace(library.outputs / MARK)
            town.script([{"json": {"heading": "h"}}])
            return await town.settled(await town.begun(run))

        assert town.play(scenario()).result["done"] == 1
        written = json.loads(library.output(OHIO, 1).read_bytes())
        told = written.pop("_penstock")
        assert load_prompt(run.prompt).validate(written) is None
        assert told["prompt"]["name"] == "heading"
        assert asked(town) == [["Ohio 1"]] * 2


def test_the_age_up_to_which_an_upload_is_used_again_is_the_configurations() -> None:
    uploads = []
    for minutes in (0.001, 60.0):
        refused = [{"kind": "error", "where": "create", "code": 429, "times": 2}]
        with town_of({OHIO: [1]}, faults=refused) as (town, library):
            finished(town, library, files={"max_age_minutes": minutes})
            uploads.append(len(town.gemini.services.journal.read(operation="upload_start")))
    assert uploads[0] > uploads[1]


def test_books_whose_chains_are_alike_take_turns() -> None:
    with town_of({ALABAMA: [1, 3, 5], OHIO: [1, 3]}) as (town, library):
        finished(town, library, execution={"batch_size_limit": 1, "max_concurrent_batches": 1})
        assert asked(town) == [["Alabama 1"], ["Ohio 1"], ["Alabama 3"], ["Ohio 3"], ["Alabama 5"]]


def test_another_tree_of_labels_is_read_though_its_folders_have_the_same_times() -> None:
    with town_of({OHIO: [1]}) as (town, library):
        town.play(town.whole_run(library.run()))
        aged(library.labels, library.outputs)
        town.play(town.whole_run(library.run()))
        library.labels.rename(library.labels.with_name("labels before"))
        library.add(OHIO, 1, 2)
        library.labels.rename(other := library.labels.with_name("other labels"))
        aged(other, library.outputs)
        library.labels = other
        assert town.play(town.whole_run(library.run())).result["done"] == 2
        assert asked(town) == [["Ohio 1"], ["Ohio 2"]]
