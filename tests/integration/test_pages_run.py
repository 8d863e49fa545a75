"""Runs of the pages pipeline on the local Gemini: which pages go first, what counts as done, what people may ask, and
what a run does when its folders, its budget or its configuration are not what they were."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.errors import Conflict
from penstock.engine.model import Job
from penstock.gemini_local.settings import Pace
from penstock.pipelines.pages import asking, reading
from penstock.pipelines.pages.ledger import ledger_id
from penstock.pipelines.pages.model import Run
from penstock.pipelines.pages.walk import MARK
from tests.support.pages import SCRIPT, Library, books_wrong, said
from tests.support.pages_town import Tempo, Town, town_of

OHIO, ALABAMA, MAINE = "Ohio/Oberlin/1850", "Alabama/Howard College/1849", "Maine/Ob%er: x/1901"
HOURS = 3600.0
SLOW = Tempo(lease=4 * HOURS, sweep_every=HOURS, pace=Pace(expires_after=48 * HOURS))


def finished(town: Town, library: Library, **groups: Any) -> Job:
    """A whole run, with everything in order at its end."""
    run = library.run(**groups)
    job = town.play(town.whole_run(run))
    assert job.status == "completed", job.error
    in_order(town, library, run)
    return job


def in_order(town: Town, library: Library, run: Run) -> None:
    wrong = town.play(books_wrong(town.app, run, library))
    assert not wrong + town.paid_twice() + town.differing_outputs()


def asked(town: Town) -> list[list[str]]:
    """The pages of each batch that was made, as `book page`."""
    return [sorted(f"{key.split(':')[0]} {int(key.split(':')[3])}" for key in keys) for keys in town.keys.values()]


def never(key: str, **how: Any) -> list[dict[str, Any]]:
    """A script by which the pages whose keys fit are not answered as they should be."""
    return [{"key": key, **(how or {"error": {"code": 13, "message": "no"}})}, *SCRIPT]


async def attempts(town: Town) -> list[tuple[Any, ...]]:
    return await town.rows("SELECT key, type, counted FROM pages_attempts ORDER BY id")


def aged(*folders: Path) -> None:
    """Long untouched: only what changes from now on is looked at again."""
    for top in folders:
        for folder in (top, *(path for path in top.rglob("*") if path.is_dir())):
            os.utime(folder, (1_600_000_000, 1_600_000_000))


def test_an_empty_tree_is_done_at_once() -> None:
    with town_of({}) as (town, library):
        job = finished(town, library)
        assert job.result == {"books": 0, "pages": 0, "done": 0, "dead": 0, "ready": 0, "blocked": 0}
        assert not town.batches()


@pytest.mark.parametrize(
    ("books", "done", "expected"),
    [
        ({OHIO: [1, 2, 3]}, [], [["Ohio 1"], ["Ohio 2"], ["Ohio 3"]]),
        ({OHIO: [1, 2]}, [1], [["Ohio 2"]]),
        ({OHIO: [1, 2, 5]}, [], [["Ohio 1", "Ohio 5"], ["Ohio 2"]]),
        ({OHIO: [1, 2], MAINE: [7]}, [], [["Maine 7", "Ohio 1"], ["Ohio 2"]]),
    ],
)
def test_a_page_waits_for_the_one_before_it(
    books: dict[str, list[int]], done: list[int], expected: list[list[str]]
) -> None:
    with town_of(books) as (town, library):
        for number in done:
            library.output(OHIO, number).parent.mkdir(parents=True)
            library.output(OHIO, number).write_text(json.dumps({"text": said(OHIO, number)}))
        job = town.play(town.whole_run(library.run()))
        assert job.status == "completed"
        assert asked(town) == expected
        assert library.done() == books
        assert library.text(OHIO, 2) == said(OHIO, 2, 1), "its context is what is in the output, whoever wrote that"


def test_the_longest_chain_goes_first() -> None:
    with town_of({ALABAMA: [1], OHIO: [1, 2, 3], MAINE: [1, 2]}) as (town, library):
        finished(town, library, execution={"batch_size_limit": 1, "max_concurrent_batches": 1})
        assert asked(town) == [["Ohio 1"], ["Maine 1"], ["Ohio 2"], ["Alabama 1"], ["Maine 2"], ["Ohio 3"]]


def test_filters_leave_out_states_and_years_and_another_run_may_take_them_in() -> None:
    with town_of({OHIO: [1], ALABAMA: [1], MAINE: [1]}) as (town, library):
        filters = {"target_states": ["Ohio", "Maine"], "target_years": {"start": 1850, "end": 1900}}
        town.play(town.whole_run(library.run(filters=filters)))
        assert library.done() == {OHIO: [1]}
        finished(town, library)
        assert library.done() == library.books
        assert len(town.batches()) == 2, "what was done is not asked again"


@pytest.mark.parametrize(("max_retries", "tries"), [(3, 4), (0, 1)])
def test_a_page_is_dead_after_one_try_and_its_retries(max_retries: int, tries: int) -> None:
    with town_of({OHIO: [1, 2], MAINE: [1]}) as (town, library):
        town.script(never("Ohio:.*:0001"))
        job = finished(town, library, execution={"max_retries": max_retries})
        assert job.result == {"books": 2, "pages": 3, "done": 1, "dead": 1, "ready": 0, "blocked": 1}
        assert town.play(attempts(town)) == [(library.key(OHIO, 1), "api_error", 1)] * tries


def test_a_success_wipes_the_slate() -> None:
    with town_of({OHIO: [1]}) as (town, library):
        town.script(never("", times=3, error={"code": 13}))
        finished(town, library)
        assert len(town.play(attempts(town))) == 3
        assert not town.play(town.rows("SELECT * FROM pages_failures"))


def test_a_page_in_flight_is_not_sent_again_while_its_batch_is_stuck_for_thirty_hours() -> None:
    with town_of({OHIO: [1, 2]}, tempo=SLOW, gemini={"poll_at_most": 600.0}) as (town, library):
        run = library.run(batch={"poll_interval_seconds": 600, "poll_timeout_seconds": 24 * HOURS})
        town.faults({"kind": "stuck_running", "seconds": 30 * HOURS, "times": 1})

        async def scenario() -> Job:
            job = await town.begun(run)
            await asyncio.sleep(20 * HOURS)
            assert [call.state for call in await town.app.calls()] == ["running"]
            await asyncio.sleep(9 * HOURS)
            (call,) = await town.app.calls()
            assert (call.state, call.error) == ("overdue", "still running after 86400 s")
            (batch,) = await reading.batches(town.app.engine, ledger_id(library.outputs))
            assert (batch.state, batch.call_state) == ("submitted", "overdue")
            await asyncio.sleep(2 * HOURS)
            return await town.app.wait(job)

        assert town.play(scenario()).status == "completed"
        in_order(town, library, run)
        assert asked(town) == [["Ohio 1"], ["Ohio 2"]]


def test_a_poll_timeout_keeps_the_batch() -> None:
    with town_of({OHIO: [1]}, faults=[{"kind": "stuck_pending", "seconds": 20.0}]) as (town, library):
        finished(town, library, batch={"poll_timeout_seconds": 5.0})
        assert len(town.batches()) == 1


@pytest.mark.parametrize("on_dead_page", ["block", "skip"])
def test_a_missing_image_is_dead_at_once_and_holds_up_nobody_but_its_chain(on_dead_page: str) -> None:
    with town_of({OHIO: [1, 2, 3], MAINE: [1, 2]}) as (town, library):
        library.image(OHIO, 2).unlink()
        finished(town, library, execution={"on_dead_page": on_dead_page})
        assert town.play(attempts(town)) == [(library.key(OHIO, 2), "image", 0)]
        assert library.done()[MAINE] == [1, 2]
        if on_dead_page == "block":
            assert library.done()[OHIO] == [1]
        else:
            assert library.text(OHIO, 3) == said(OHIO, 3, "one not known")
            assert library.provenance(OHIO, 3)["without_context"] == "page 0002 is dead"


def test_an_image_that_goes_away_between_the_choice_and_the_upload_kills_its_page_alone() -> None:
    with town_of({OHIO: [1], MAINE: [1]}, plan=[("before request", 1)]) as (town, library):

        async def scenario() -> Job:
            job = await town.begun(library.run())
            await town.first_death()
            library.image(OHIO, 1).unlink()
            return await town.app.wait(job)

        assert town.play(scenario()).result["dead"] == 1
        in_order(town, library, library.run())
        assert library.done() == {MAINE: [1]}


@pytest.mark.parametrize(
    "reply",
    ['```json\n{{"text": "a"}}\n```', 'Here you are:\n```\n{{\n"text": "a"\n}}\n```\nAnything else?'],
)
def test_a_fence_around_the_answer_is_taken_off(reply: str) -> None:
    with town_of({OHIO: [1]}) as (town, library):
        town.script([{"reply": reply}])
        assert town.play(town.whole_run(library.run())).status == "completed"
        assert library.text(OHIO, 1) == "a"


def test_two_answers_in_one_are_none() -> None:
    with town_of({OHIO: [1]}) as (town, library):
        town.script([{"reply": '```\n{{"text": "a"}}\n```\nor\n```\n{{"text": "b"}}\n```'}])
        finished(town, library, execution={"max_retries": 0})
        assert town.play(attempts(town)) == [(library.key(OHIO, 1), "invalid_json", 1)]


def test_strange_separators_in_a_line_do_not_break_it() -> None:
    text = "one\u2028two\u2029three\x85four\x0bfive\x1c\r\nsix\x00"
    with town_of({OHIO: [1]}) as (town, library):
        town.script([{"json": {"text": text}}])
        assert town.play(town.whole_run(library.run())).status == "completed"
        assert library.text(OHIO, 1) == text


def test_of_two_answers_that_differ_neither_is_believed() -> None:
    with town_of({OHIO: [1], MAINE: [1]}) as (town, library):
        both = {"keys": "0001$", "count": None, "times": 1}
        town.faults({"kind": "duplicate_rows", "keys": "^Ohio", "times": 1}, {"kind": "swapped_rows", **both})
        run = library.run()
        assert town.play(town.whole_run(run)).status == "completed"
        assert town.play(attempts(town)) == [(library.key(OHIO, 1), "duplicate", 1)]
        assert library.text(OHIO, 1) == said(OHIO, 1)


def test_two_processes_send_each_page_once() -> None:
    with town_of({OHIO: [1, 2, 3], MAINE: [1, 2], ALABAMA: [1]}, processes=3) as (town, library):
        finished(town, library, execution={"batch_size_limit": 1})
        assert len(town.batches()) == 6


def test_a_batch_whose_answer_was_lost_is_found_again() -> None:
    with town_of({OHIO: [1, 2]}, faults=[{"kind": "drop_after", "where": "create"}]) as (town, library):
        finished(town, library)
        assert len(town.batches()) == 2
        creates = town.gemini.services.journal.read(operation="create")
        assert [entry["fault"] for entry in creates] == ["drop_after", "drop_after"]


@pytest.mark.parametrize("kind", ["fail", "expire"])
def test_a_batch_that_fails_whole_is_free_once_and_then_counted(kind: str) -> None:
    with town_of({OHIO: [1], MAINE: [1]}, faults=[{"kind": kind, "times": 2}]) as (town, library):
        finished(town, library)
        counted = [counts for _, _, counts in town.play(attempts(town))]
        assert counted == [0, 0, 1, 1]
    with town_of({OHIO: [1]}, faults=[{"kind": kind, "times": 2}]) as (town, library):
        assert finished(town, library, execution={"max_retries": 0}).result["dead"] == 1


def test_a_partial_success_brings_home_what_there_is() -> None:
    faults = [{"kind": "partially_succeeded"}, {"kind": "row_error", "keys": "^Maine", "times": 1}]
    with town_of({OHIO: [1], MAINE: [1]}, faults=faults) as (town, library):
        finished(town, library)
        assert asked(town) == [["Maine 1", "Ohio 1"], ["Maine 1"]]


def test_an_upload_that_fails_is_tried_again() -> None:
    with town_of({OHIO: [1]}, faults=[{"kind": "error", "where": "upload_start", "times": 2}]) as (town, library):
        finished(town, library)
        assert len(town.batches()) == 1


def test_an_image_that_gemini_lost_is_uploaded_again_without_blame_but_not_for_ever() -> None:
    lost = {"kind": "file_gone", "seconds": 0.2}
    with town_of({OHIO: [1]}, faults=[{**lost, "times": 1}]) as (town, library):
        finished(town, library)
        assert town.play(attempts(town)) == [(library.key(OHIO, 1), "file_lost", 0)]
    with town_of({OHIO: [1]}, faults=[lost]) as (town, library):
        assert finished(town, library).result["dead"] == 1
        assert [counts for _, _, counts in town.play(attempts(town))] == [0, 0, 0, 1, 1, 1, 1]


def test_a_deleted_output_is_work_again() -> None:
    with town_of({OHIO: [1, 2, 3]}) as (town, library):
        run = library.run()
        town.play(town.whole_run(run))
        library.output(OHIO, 2).unlink()
        assert town.play(town.whole_run(run)).status == "completed"
        assert asked(town)[3:] == [["Ohio 2"]]
        assert library.done() == library.books


def test_an_output_that_was_there_is_adopted_if_it_is_valid() -> None:
    with town_of({OHIO: [1, 2], MAINE: [1], ALABAMA: [1, 2]}) as (town, library):
        for book, content in ((OHIO, '{"text": "by hand"}'), (MAINE, '{"text": 1}'), (ALABAMA, '{"text": "torn')):
            library.output(book, 1).parent.mkdir(parents=True)
            library.output(book, 1).write_text(content)
        town.play(town.whole_run(library.run()))
        assert library.text(OHIO, 1) == "by hand"
        assert asked(town) == [["Alabama 1", "Maine 1", "Ohio 2"], ["Alabama 2"]]
        assert library.done() == library.books


def test_a_dead_page_whose_output_is_invalid_stays_dead() -> None:
    """And is not paid for whenever something else in its folder changes."""
    with town_of({OHIO: [1, 2, 7, 8, 9]}) as (town, library):
        library.output(OHIO, 1).parent.mkdir(parents=True)
        library.output(OHIO, 1).write_text("{}")
        town.script(never("0001$"))
        job = town.play(town.whole_run(library.run(execution={"max_retries": 0})))
        assert (job.result["done"], job.result["dead"], job.result["blocked"]) == (3, 1, 1)
        assert len(town.play(attempts(town))) == 1


def test_a_dead_page_that_somebody_wrote_by_hand_is_done_and_not_asked_for_again() -> None:
    with town_of({OHIO: [1, 2]}) as (town, library):
        run = library.run(execution={"max_retries": 0})
        town.script(never("0001$"))
        job = town.play(town.whole_run(run))
        library.output(OHIO, 1).parent.mkdir(parents=True, exist_ok=True)
        library.output(OHIO, 1).write_text(json.dumps({"text": said(OHIO, 1)}))
        town.play(town.whole_run(run))
        assert town.play(asking.retry(town.app, job, {})) == 0, "nothing stands against it any more"
        assert asked(town) == [["Ohio 1"], ["Ohio 2"]]


def test_dead_pages_are_tried_again_when_somebody_asks() -> None:
    with town_of({OHIO: [1, 2], MAINE: [1]}) as (town, library):
        town.script(never("0001$"))
        run = library.run(execution={"max_retries": 0})
        job = town.play(town.whole_run(run))
        town.script(SCRIPT)

        async def scenario() -> None:
            assert await asking.retry(town.app, job, {"state": "Ohio"}, dry_run=True) == 1
            assert await asking.retry(town.app, job, {"state": "Ohio"}) == 1
            newest = await asking.newest_run(town.app, job)
            assert newest.id != job.id
            assert (await town.app.wait(newest.id)).result["done"] == 2

        town.play(scenario())
        assert library.done() == {OHIO: [1, 2]}


def test_a_wish_is_granted_by_the_run_that_is_alive() -> None:
    with town_of({OHIO: [1], MAINE: [1]}) as (town, library):
        town.script(never("^Ohio", times=1, error={"code": 13}))
        town.faults({"kind": "stuck_running", "seconds": 30.0, "match": ".", "after": 1})
        library.image(MAINE, 1).unlink()

        async def scenario() -> Job:
            job = await town.app.job(await town.begun(library.run()))

            async def one_is_dead() -> bool:
                return bool(await reading.dead(town.app.engine, ledger_id(library.outputs)))

            await town.until(one_is_dead)
            library.add(MAINE, 1)
            assert await asking.retry(town.app, job, {"key": library.key(MAINE, 1)}) == 1
            assert (await asking.newest_run(town.app, job)).id == job.id
            return await town.app.wait(job.id)

        assert town.play(scenario()).result["done"] == 2


def test_a_wish_that_comes_when_a_run_is_about_to_end_is_granted() -> None:
    """Its last tick has looked for wishes, and stands still before it ends the run."""
    run_ends = {"plan": [], "tempo": Tempo(frozen_for=1.0)}
    with town_of({OHIO: [1]}, **run_ends) as (town, library):
        town.script(never(""))
        town.play(town.whole_run(library.run(execution={"max_retries": 0})))
        commits = town.lives[0].points["before commit"]
    for number in range(commits, 0, -1):
        with town_of({OHIO: [1]}, freezes=("before commit", number), **run_ends) as (town, library):
            town.script(never("", times=1, error={"code": 13}))

            async def scenario(town: Town = town, library: Library = library) -> bool:
                job = await town.begun(library.run(execution={"max_retries": 0}))
                await town.until(lambda: _stands_still(town))
                if (await town.app.job(job)).status != "running" or not await town.rows("SELECT * FROM pages_failures"):
                    return False
                assert await asking.retry(town.app, await town.app.job(job), {}) == 1
                newest = await asking.newest_run(town.app, await town.app.job(job))
                assert newest.id != job
                return (await town.app.wait(newest.id)).result["done"] == 1

            if town.play(scenario()):
                return
    raise AssertionError("no run was caught at its end")


async def _stands_still(town: Town) -> bool:
    return town.lives[0].frozen_until > 0


def test_a_rescan_finds_what_no_folder_time_betrays() -> None:
    with town_of({OHIO: [1, 2]}) as (town, library):
        run = library.run()
        town.play(town.whole_run(run))
        aged(library.labels, library.outputs)
        job = town.play(town.whole_run(run))
        library.output(OHIO, 2).unlink()
        aged(library.outputs)
        town.play(town.whole_run(run))
        assert len(town.batches()) == 2, "nobody noticed"

        async def scenario() -> None:
            await asking.rescan(town.app, job, {"state": "Ohio"})
            await town.app.wait((await asking.newest_run(town.app, job)).id)

        town.play(scenario())
        assert asked(town)[2:] == [["Ohio 2"]]


def test_a_label_that_comes_later_is_not_paid_for_if_its_output_is_there() -> None:
    with town_of({OHIO: [1]}) as (town, library):
        run = library.run()
        library.output(OHIO, 2).parent.mkdir(parents=True)
        library.output(OHIO, 2).write_text('{"text": "by hand"}')
        town.play(town.whole_run(run))
        aged(library.labels, library.outputs)
        town.play(town.whole_run(run))
        library.add(OHIO, 2)
        town.play(town.whole_run(run))
        assert asked(town) == [["Ohio 1"]]
        assert library.text(OHIO, 2) == "by hand"


def test_a_label_that_goes_and_comes_back_while_its_page_is_in_flight_is_not_sent_twice() -> None:
    faults = [{"kind": "stuck_running", "seconds": 20.0, "times": 1}]
    with town_of({OHIO: [1, 2], MAINE: [1]}, faults=faults) as (town, library):
        label = library.labels / OHIO / "0001.json"

        async def scenario() -> Job:
            job = await town.begun(library.run())
            await asyncio.sleep(2)
            label.unlink()
            await asyncio.sleep(2)
            label.write_text("{}")
            await asyncio.sleep(2)
            return await town.app.wait(job)

        assert town.play(scenario()).status == "completed"
        assert library.done() == library.books
        assert sum("Ohio 1" in pages for pages in asked(town)) == 1
        assert not town.paid_twice()


def test_another_configuration_waits_until_the_run_is_over() -> None:
    faults = [{"kind": "stuck_running", "seconds": 20.0, "times": 1}]
    with town_of({OHIO: [1]}, faults=faults) as (town, library):

        async def scenario() -> None:
            job = await town.begun(library.run())
            again = await asking.start(town.app, library.run())
            assert (again.job_id, again.created) == (job, False)
            with pytest.raises(Conflict, match=r"execution\.max_retries"):
                await asking.start(town.app, library.run(execution={"max_retries": 7}))
            await town.app.wait(job)
            other = await asking.start(town.app, library.run(execution={"max_retries": 7}))
            assert other.job_id != job
            await town.app.wait(other.job_id)

        town.play(scenario())
        assert len(town.batches()) == 1


@pytest.mark.parametrize("on_dead_page", ["block", "skip"])
def test_more_retries_bring_pages_back_that_died_of_fewer(on_dead_page: str) -> None:
    with town_of({OHIO: [1], MAINE: [1]}) as (town, library):
        library.image(MAINE, 1).unlink()
        town.script(never("", times=2, error={"code": 13}))
        assert town.play(town.whole_run(library.run(execution={"max_retries": 0}))).result["dead"] == 2
        other = {"max_retries": 5, "on_dead_page": on_dead_page}
        job = town.play(town.whole_run(library.run(execution=other)))
        assert (job.result["done"], job.result["dead"]) == (1, 1), "an image that is missing is missing"


def test_nothing_is_sent_while_the_output_folder_is_not_the_one_it_was() -> None:
    with town_of({OHIO: [1, 2]}) as (town, library):
        run = library.run()
        town.play(town.whole_run(run))
        away = library.outputs.with_name("not mounted")
        library.outputs.rename(away)
        library.outputs.mkdir()

        async def scenario() -> Job:
            job = await town.begun(run)
            await asyncio.sleep(60)
            waiting = await town.app.job(job)
            assert waiting.status == "waiting"
            assert waiting.error is not None and MARK in waiting.error and "is a disk not mounted?" in waiting.error
            assert not list(library.outputs.iterdir())
            library.outputs.rmdir()
            away.rename(library.outputs)
            return await town.app.wait(job)

        assert town.play(scenario()).status == "completed"
        in_order(town, library, run)
        assert len(town.batches()) == 2


def test_outputs_that_wait_for_their_names_are_not_missed_in_a_folder_that_is_not_mounted() -> None:
    """The process dies at each file operation in turn; one of them is the first that gives an output its name."""
    waited = 0
    for point in range(7, 13):
        with town_of({OHIO: [1, 2]}, plan=[("before file", point)]) as (town, library):
            run, away = library.run(), library.outputs.with_name("not mounted")

            async def scenario(town: Town = town, library: Library = library, away: Path = away) -> Job:
                job = await town.begun(library.run())
                await town.first_death()
                if await town.rows("SELECT * FROM pages_staged"):
                    nonlocal waited
                    waited += 1
                    library.outputs.rename(away)
                    library.outputs.mkdir()
                    await asyncio.sleep(30)
                    shutil.rmtree(library.outputs)
                    away.rename(library.outputs)
                return await town.app.wait(job)

            assert town.play(scenario()).status == "completed"
            in_order(town, library, run)
            assert len(town.batches()) == 2
    assert waited == 2


def test_an_output_folder_that_was_moved_here_is_worked_in() -> None:
    with town_of({OHIO: [1, 2]}) as (town, library):
        town.play(town.whole_run(library.run()))
        library.outputs.rename(moved := library.outputs.with_name("moved"))
        library.outputs = moved
        library.add(OHIO, 3)
        assert town.play(town.whole_run(library.run())).status == "completed"
        assert asked(town) == [["Ohio 1"], ["Ohio 2"], ["Ohio 3"]]
        assert library.text(OHIO, 3) == said(OHIO, 3, 2)


def test_a_paused_run_sends_nothing_and_still_takes_in_what_is_paid() -> None:
    with town_of({OHIO: [1, 2]}) as (town, library):
        run = library.run()

        async def scenario() -> Job:
            job = await town.begun(run)
            await town.until(lambda: _has_calls(town))
            await town.app.pause(job)
            await asyncio.sleep(30)
            assert (await town.app.job(job)).status == "paused"
            assert [call.state for call in await town.app.calls()] == ["collected"]
            await town.app.resume(job)
            return await town.app.wait(job)

        assert town.play(scenario()).status == "completed"
        in_order(town, library, run)
        assert len(town.batches()) == 2


async def _has_calls(town: Town) -> bool:
    return bool(await town.app.calls())


@pytest.mark.parametrize("kind", ["stuck_running", "unknown_state"])
def test_a_canceled_run_stops_its_batches_and_the_next_one_goes_on(kind: str) -> None:
    faults, gemini = [{"kind": kind, "times": 1}], {"poll_at_most": 60.0}
    with town_of({OHIO: [1, 2], MAINE: [1]}, faults=faults, gemini=gemini) as (town, library):
        run = library.run(batch={"poll_interval_seconds": 20.0})

        async def scenario() -> None:
            job = await town.begun(run)
            await town.until(lambda: _has_calls(town))
            await asyncio.sleep(5)
            await town.app.cancel(job)
            assert (await town.app.wait(job)).status == "canceled"

        town.play(scenario())
        if kind == "stuck_running":
            assert [batch["state"] for batch in town.batches()] == ["CANCELLED"]
            assert not town.play(attempts(town)), "nobody is to blame"
            assert not town.play(town.rows("SELECT * FROM pages_flights"))
            assert town.play(town.whole_run(run)).status == "completed"
            in_order(town, library, run)
            assert library.done() == library.books
        else:
            assert town.play(town.rows("SELECT * FROM pages_flights")), "Gemini has not said what became of them"


def test_a_budget_that_is_too_small_pauses_the_run_and_says_what_to_raise() -> None:
    with town_of({OHIO: [1, 2]}) as (town, library):
        run = library.run(budget={"max_usd": 0.000001})

        async def scenario() -> Job:
            job = await town.begun(run)
            paused = await town.app.wait(job, until=("paused",))
            assert paused.status == "paused"
            assert "raise it to at least $" in (paused.reason or "")
            assert not town.batches()
            await town.app.set_budget(f"job:{job}", 10.0)
            return await town.app.wait(job)

        assert town.play(scenario()).status == "completed"
        in_order(town, library, run)


def test_a_dry_run_looks_and_sends_nothing() -> None:
    with town_of({OHIO: [1, 2]}) as (town, library):
        job = town.play(town.whole_run(library.run(execution={"dry_run": True})))
        assert (job.status, job.result["ready"]) == ("completed", 1)
        assert not town.batches()
        assert finished(town, library).result["done"] == 2


def test_two_runs_that_share_room_for_one_batch_both_end() -> None:
    """A batch that was put together and has no room at Gemini is waited for."""
    with town_of({OHIO: [1, 2]}, gemini={"batch_jobs": 1}) as (town, library):
        other = Library(library.labels.parent.with_name("other"), {MAINE: [1, 2]})

        async def scenario() -> None:
            jobs = [(await asking.start(town.app, each.run())).job_id for each in (library, other)]
            for job in jobs:
                assert (await town.app.wait(job, timeout=600)).status == "completed"

        town.play(scenario())
        assert (library.done(), other.done()) == (library.books, other.books)
        assert not town.paid_twice()
