"""What people ask of a knowledge base: start, pause, resume, cancel, rebuild, refresh, forget; and what they are told
of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock import Conflict, NotFound
from penstock.engine.engine import Retention
from penstock.engine.errors import InvalidRequest, Permanent
from penstock.pipelines.ingestion import bases, control, planning, searching
from penstock.pipelines.ingestion.control import cron_of
from penstock.pipelines.ingestion.model import Configuration
from tests.support.house import in_a_loop
from tests.support.ingestion_room import SCRIPT, SHELVES, Room, RoomClock, Shelf, configured, room


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/room.db"
    url: str = request.getfixturevalue("pgvector_url")
    return url


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/room.db"


def asks(here: Room, word: str, act: Any) -> None:
    """Do this while a text with that word is embedded, once."""

    async def do(texts: Sequence[str]) -> None:
        if any(word in text for text in texts):
            SCRIPT.before = None
            await act(here.app, await here.run())

    SCRIPT.before = do


async def index_tables(here: Room) -> set[int]:
    """The editions that have tables."""
    if here.app.engine.store.url.startswith("sqlite"):  # type: ignore[attr-defined]
        rows = await here.tables("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'kb%_vectors'")
    else:
        rows = await here.tables("SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relname ~ '^kb[0-9]+_'")
    return {int(name.removeprefix("kb").partition("_")[0]) for (name,) in rows}


@in_a_loop
async def test_a_knowledge_base_has_one_run_at_a_time(store: str, tmp_path: Path) -> None:
    async with room(store, tmp_path) as here:
        here.shelf.put("a", "apple")
        both = await asyncio.gather(
            *(control.start(here.app, "kb", configured()) for _ in range(4)), return_exceptions=True
        )
        (started,) = [each for each in both if not isinstance(each, BaseException)]
        refused = [each for each in both if isinstance(each, Conflict)]
        assert len(refused) == 3 and all(each.job == started.job_id for each in refused), both
        with pytest.raises(Conflict, match=f"run {started.job_id} of 'kb' is running"):
            await control.start(here.app, "kb")
        await here.advance()
        again = await asyncio.gather(*(control.start(here.app, "kb") for _ in range(4)), return_exceptions=True)
        assert sum(isinstance(each, Conflict) for each in again) == 3
        assert await here.count("kb_runs") == 2
        await here.advance()
        assert (await here.told()).status == "completed"
        with pytest.raises(NotFound, match="no knowledge base 'other'"):
            await control.start(here.app, "other")
        with pytest.raises(InvalidRequest, match="letters, digits"):
            await control.start(here.app, "no/name", configured())


@in_a_loop
async def test_knowledge_bases_that_are_made_at_the_same_moment_do_not_meet(store: str, tmp_path: Path) -> None:
    async with room(store, tmp_path) as here:
        here.shelf.put("a", "apple")
        jobs = [(await control.start(here.app, f"kb{number}", configured())).job_id for number in range(5)]
        await asyncio.gather(*(here.app.engine.advance(job) for job in jobs))
        await here.advance()
        assert [(await here.told(job)).status for job in jobs] == ["completed"] * 5
        assert len({await here.edition(f"kb{number}") for number in range(5)}) == 5
        assert all([await here.whole(f"kb{number}") == {"a": ["apple"]} for number in range(5)])


@in_a_loop
async def test_a_worker_with_many_runs_keeps_the_sources_open_that_are_read(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.pipelines.ingestion.living._MOST_KEPT", 1)
    async with room(file, tmp_path) as here:
        for number in range(20):
            here.shelf.put(f"{number:02}", f"apple {number}")
        jobs = [(await control.start(here.app, f"kb{number}", configured())).job_id for number in range(4)]
        await asyncio.gather(*(here.app.engine.advance(job) for job in jobs))
        await here.advance()
        assert [(await here.told(job)).status for job in jobs] == ["completed"] * 4
        assert all(wait < 1 for wait in here.waits), "no tick has failed"


@pytest.mark.parametrize(
    ("told", "difference"),
    [
        ({"model": "other words"}, "model is words, not other words"),
        ({"embedder": "local"}, "embedder is scripted, not local"),
        ({"chunker": "backwards"}, "chunker is paragraphs, not backwards"),
        ({"size": 50}, "chunk size is 100, not 50"),
    ],
)
@in_a_loop
async def test_another_chunker_or_embedder_is_refused_with_what_differs(
    tmp_path: Path, told: dict[str, Any], difference: str
) -> None:
    async with room(f"sqlite:///{tmp_path}/room.db", tmp_path) as here:
        here.shelf.put("a", "apple")
        await here.fill()
        with pytest.raises(Conflict, match=difference):
            await here.start(**told)
        with pytest.raises(Conflict, match=difference):
            await planning.plan(here.app, "kb", configured(**told))
        assert (await here.fill()).counters["docs_unchanged"] == 1, "what is not said is as it was"
        plain = Configuration.model_validate({"sources": [{"type": "shelf", "path": "one"}]})
        await control.start(here.app, "kb", plain)
        await here.advance()
        assert (await here.told()).counters["docs_unchanged"] == 1


@in_a_loop
async def test_a_rebuild_makes_a_new_edition_beside_the_one_that_is_searched(store: str, tmp_path: Path) -> None:
    async with room(store, tmp_path, group=1) as here:
        here.shelf.put("a", "apple one", "apple two")
        await here.fill()
        first, seen = await here.edition(), []

        async def look(texts: Sequence[str]) -> None:
            seen.append((await here.edition(), sorted(await here.found("apple"))))

        SCRIPT.before = look
        SCRIPT.asked.clear()
        await here.start(rebuild=True, chunker="backwards", model="other words")
        await here.tick()
        await here.tick()
        assert seen == [(first, ["apple one", "apple two"])] * 2
        second = await here.edition()
        assert second != first and len(SCRIPT.asked) == 2
        assert (await here.told()).status == "completed"
        assert await here.texts() == {"a": ["apple two", "apple one"]}, "as the new chunker cuts it"
        assert await index_tables(here) == {first, second}
        await here.advance()
        assert await index_tables(here) == {second}
        assert await here.count("kb_documents", "edition = :n", n=first) == 0
        assert await here.whole() == {"a": ["apple two", "apple one"]}
        assert (await here.fill(chunker="backwards", model="other words")).counters["docs_unchanged"] == 1


@in_a_loop
async def test_a_rebuild_that_fails_is_left_behind_by_the_next_run_and_one_that_is_cancelled_at_once(
    file: str, tmp_path: Path
) -> None:
    async with room(file, tmp_path) as here:
        here.shelf.put("a", "apple")
        await here.fill()
        first = await here.edition()
        SCRIPT.always = ValueError("broken")
        told = await here.fill(rebuild=True, chunker="backwards")
        assert (told.status, await here.edition()) == ("failed", first)
        assert len(await index_tables(here)) == 2
        SCRIPT.always = None
        here.shelf.put("b", "pear one", "pear two")
        await control.start(here.app, "kb")
        await here.advance()
        assert await here.whole() == {"a": ["apple"], "b": ["pear one", "pear two"]}, "with the chunker it has"
        assert await index_tables(here) == {first}
        asks(here, "apple", control.cancel)
        told = await here.fill(rebuild=True, chunker="backwards")
        assert (told.status, await index_tables(here)) == ("not_started", {first})
        assert await here.whole() == {"a": ["apple"], "b": ["pear one", "pear two"]}
        kept = await bases.base_of(here.app.engine, "default", "kb")
        assert kept.config.chunker.name == "paragraphs", "what a cancelled run asked for is not kept"


@in_a_loop
async def test_cancel_leaves_what_earlier_runs_wrote_and_takes_all_that_this_one_did(
    store: str, tmp_path: Path
) -> None:
    async with room(store, tmp_path, group=2) as here:
        here.shelf.put("a", "apple", "shared")
        here.shelf.put("b", "pear")
        await here.fill()
        before = await here.whole()
        here.shelf.put("b", "shared", "plum", "apple")
        here.shelf.put("c", "shared", "fig", "lime", "date", "kiwi")
        asks(here, "date", control.cancel)
        run = await here.start(prune=True)
        await here.advance()
        told = await here.told(run.id)
        assert (told.status, told.last_error) == ("not_started", "Canceled by user")
        assert told.checkpoint is None and not any(told.counters.values()) and told.finished_at is not None
        assert await here.whole() == before
        assert await here.found("shared") == ["shared"] and await here.found("plum") == []
        with pytest.raises(Conflict, match="is not_started: it cannot be cancelled"):
            await control.cancel(here.app, await here.run(run.id))
        assert len((await here.fill()).counters) and len(await here.whole()) == 3, "it can be started again"


@in_a_loop
async def test_what_a_cancelled_run_hid_is_back_at_once_however_much_there_is_to_remove(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.pipelines.ingestion.removing.SLICE", 2)
    monkeypatch.setattr("penstock.pipelines.ingestion.finishing.AT_ONCE", 0.0)
    async with room(file, tmp_path, batch=1) as here:
        here.shelf.put("a", *[f"old {number}" for number in range(5)])
        await here.fill()
        before = await here.whole()
        here.shelf.put("a", *[f"new {number}" for number in range(9)])
        here.shelf.put("z", "the end")
        asks(here, "end", control.cancel)
        run = await here.start()
        while (await here.job(run.id)).status != "canceling":
            await here.tick()
        ticks = 0
        while (await here.job(run.id)).status == "canceling":
            await here.tick()
            ticks += 1
            assert await here.texts() == before and await here.found("new") == []
            assert (await here.told(run.id)).status in ("canceled", "not_started")
        assert ticks > 3, "slice by slice"
        assert await here.whole() == before


@in_a_loop
async def test_a_first_run_that_is_cancelled_leaves_nothing_however_large_its_edition_was(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.pipelines.ingestion.removing.SLICE", 1)
    monkeypatch.setattr("penstock.pipelines.ingestion.finishing.AT_ONCE", 0.0)
    async with room(file, tmp_path) as here:
        for number in range(12):
            here.shelf.put(f"{number:02}", f"apple {number}")
        asks(here, "apple 11", control.cancel)
        told = await here.fill()
        assert told.status == "not_started"
        for table in ("documents", "chunks", "pieces", "errors", "staged", "frontier", "retried"):
            assert await here.count(f"kb_{table}") == 0, table
        assert await index_tables(here) == set()
        assert await searching.search(here.app.engine, "kb", "apple") == []
        await here.fill()
        assert len(await here.whole()) == 12


@in_a_loop
async def test_a_failed_run_that_is_resumed_is_the_same_run_and_cancel_takes_all_of_it(
    store: str, tmp_path: Path
) -> None:
    async with room(store, tmp_path, batch=1, group=2) as here:
        here.shelf.put("0", "old")
        await here.fill()
        before = await here.whole()
        here.shelf.put("0", "new")
        for number in range(1, 6):
            here.shelf.put(f"{number}", f"apple {number}", f"pear {number}", f"plum {number}")
        SCRIPT.before = _breaking_at("pear 3")
        first = await here.fill()
        assert (first.status, first.counters["docs_seen"]) == ("failed", 3)
        assert "broken" in (first.last_error or "")
        SCRIPT.before = _breaking_at("apple 5")
        await control.resume(here.app, await here.run())
        await here.advance()
        second = await here.told(first.id)
        assert (second.id, second.status, second.counters["docs_seen"]) == (first.id, "failed", 5)
        assert second.job != first.job and (await here.run(second.job)).id == first.id, "found by its job, too"
        assert await here.count("kb_documents", "run = :run", run=first.id) == 5, "one run wrote all of it"
        await control.cancel(here.app, await here.run(first.id))
        await here.advance()
        assert ((await here.told(first.id)).status, await here.whole()) == ("not_started", before)


@in_a_loop
async def test_a_run_that_failed_before_it_had_begun_is_the_same_run_when_it_is_resumed(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with room(file, tmp_path) as here:
        here.shelf.put("a", "apple")

        async def count(source: Any) -> int:
            raise Permanent("the shelf is locked")

        with monkeypatch.context() as locked:
            locked.setattr("tests.support.ingestion_room.ShelfSource.count", count)
            told = await here.fill()
        assert told.status == "failed" and "the shelf is locked" in (told.last_error or "")
        await control.resume(here.app, await here.run())
        await here.advance()
        again = await here.told()
        assert (again.id, again.status) == (told.id, "completed")
        assert await here.tables("SELECT DISTINCT run FROM kb_documents") == [(told.id,)]
        assert (await here.told(again.job)).id == told.id
        with monkeypatch.context() as locked:
            locked.setattr("tests.support.ingestion_room.ShelfSource.count", count)
            told = await here.fill()
        await control.cancel(here.app, await here.run(told.id))
        await here.advance()
        again = await here.told(told.id)
        assert (again.status, again.last_error) == ("not_started", "Canceled by user")
        assert await here.whole() == {"a": ["apple"]}


@in_a_loop
async def test_what_a_failed_run_hid_is_not_removed_behind_the_run_before_it(store: str, tmp_path: Path) -> None:
    """The run before it has left something to remove, and gets at it only when the failed one has let go."""
    async with room(store, tmp_path, batch=1) as here:
        here.shelf.put("a", "apple")
        here.shelf.put("b", "pear")
        await here.fill()
        here.shelf.put("a", "new apple")
        await here.start()
        while (await here.told()).status != "completed":
            await here.tick()
        here.shelf.put("b", "new pear")
        here.shelf.put("c", "fig")
        SCRIPT.before = _breaking_at("fig")
        job = (await control.start(here.app, "kb")).job_id
        while (await here.app.job(job)).status != "failed":
            await here.app.engine.advance(job)
            here.clock.at += 10
        assert await here.count("kb_documents", "state = 'hidden'") == 2
        await here.advance()
        assert await here.count("kb_documents", "state = 'hidden'") == 1
        await control.cancel(here.app, await here.run())
        await here.advance()
        assert await here.whole() == {"a": ["new apple"], "b": ["pear"]}


@in_a_loop
async def test_what_a_failed_run_left_is_taken_over_by_the_next_and_the_old_one_cannot_come_back(
    file: str, tmp_path: Path
) -> None:
    async with room(file, tmp_path, group=1, batch=1) as here:
        here.shelf.put("a", "apple")
        await here.fill()
        here.shelf.put("a", "new apple")
        here.shelf.put("b", "pear", "poison", "plum")
        SCRIPT.at_once = 1
        SCRIPT.before = _breaking_at("plum")
        old = await here.fill()
        assert old.status == "failed" and await here.count("kb_documents", "state = 'writing'") == 1
        SCRIPT.before = None
        here.shelf.put("b", "fig")
        here.shelf.put("c", "date")
        told = await here.fill()
        assert (told.status, told.counters["docs_unchanged"]) == ("completed", 1)
        assert await here.whole() == {"a": ["new apple"], "b": ["fig"], "c": ["date"]}
        for act in (control.resume, control.cancel):
            with pytest.raises(Conflict, match=f"not the newest of 'kb': that is {told.id}"):
                await act(here.app, await here.run(old.id))
        job = await here.app.retry(old.job)  # as somebody might who does not know what the job is
        await here.advance()
        assert (await here.app.job(job.id)).status == "failed"
        job = await here.app.retry(job.id)
        await here.app.cancel(job.id)
        await here.advance()
        assert (await here.app.job(job.id)).status == "canceled"
        assert await here.whole() == {"a": ["new apple"], "b": ["fig"], "c": ["date"]}


def _breaking_at(word: str) -> Any:
    async def breaks(texts: Sequence[str]) -> None:
        if any(word in text for text in texts):
            raise ValueError("broken")

    return breaks


@in_a_loop
async def test_errors_that_were_taken_up_are_listed_again_when_that_run_is_cancelled(
    store: str, tmp_path: Path
) -> None:
    async with room(store, tmp_path, group=2) as here:
        SCRIPT.refuses = {"poison"}
        here.shelf.put("a", "apple", "poison 1", "shared")
        here.shelf.put("b", "poison 2", "poison 3")
        here.shelf.books["c"] = Permanent("the page is torn")
        here.shelf.put("d", "fig")
        await here.fill()
        before, rows = await here.whole(), await here.tables("SELECT * FROM kb_errors ORDER BY id")
        SCRIPT.refuses = {"poison 3"}
        here.shelf.put("c", "pear", "poison 1", "the end")
        asks(here, "end", control.cancel)
        await control.retry_errors(here.app, await here.run())
        await here.advance()
        assert (await here.told()).status == "not_started"
        assert await here.whole() == before
        assert await here.tables("SELECT * FROM kb_errors ORDER BY id") == rows
        await control.retry_errors(here.app, await here.run())
        await here.advance()
        assert (await here.told()).errors == 1 and await here.count("kb_retried") == 0
        whole = await here.whole()
        assert whole["a"] == ["apple", "poison 1", "shared"] and whole["c"] == ["pear", "poison 1", "the end"]


@in_a_loop
async def test_a_pause_survives_a_restart_and_every_state_has_its_word(file: str, tmp_path: Path) -> None:
    clock = RoomClock()
    async with room(file, tmp_path, clock=clock, group=1) as here:
        for number in range(4):
            here.shelf.put(f"{number}", f"apple {number}")
        run = await here.start()
        assert (await here.told()).status == "running", "queued"
        with pytest.raises(Conflict, match="is running: it cannot be resumed"):
            await control.resume(here.app, run)
        seen: list[Any] = []

        async def look(texts: Sequence[str]) -> None:
            clock.at += 3
            await here.app.engine.beat()
            clock.at += 2
            if "apple 1" in texts:
                await control.pause(here.app, run)
            seen.append(await here.told())

        SCRIPT.before = look
        await here.advance()
        told = await here.told()
        assert [each.status for each in seen] == ["running", "running"]
        assert (told.status, told.heartbeat_age, told.stalled) == ("paused", None, False)
        assert (told.counters["docs_seen"], told.documents_total) == (2, 4)
        assert told.checkpoint == {"last_batch_id": 0, "cursor": "1", "source": 0}
        with pytest.raises(Conflict, match="is paused: it cannot be paused"):
            await control.pause(here.app, run)
        SCRIPT.before = None
    async with room(file, tmp_path, clock=clock, fresh=False) as here:
        await here.advance()
        assert (await here.told()).status == "paused"
        await control.resume(here.app, await here.run())
        await here.advance()
        told = await here.told()
        assert (told.status, told.counters["docs_seen"], told.counters["chunks_seen"]) == ("completed", 4, 4)
        assert SCRIPT.asked == [f"apple {number}" for number in range(4)]
        for act, wish in ((control.pause, "paused"), (control.resume, "resumed"), (control.cancel, "cancelled")):
            with pytest.raises(Conflict, match=f"is completed: it cannot be {wish}"):
                await act(here.app, await here.run())


@in_a_loop
async def test_status_tells_the_heartbeat_of_the_worker_rates_and_what_is_left(file: str, tmp_path: Path) -> None:
    async with room(file, tmp_path, batch=1) as here:
        for number in range(4):
            here.shelf.put(f"{number}", f"apple {number}", f"pear {number}")
        seen: list[Any] = []

        async def look(texts: Sequence[str]) -> None:
            here.clock.at += 2.0
            seen.append(await here.told())

        SCRIPT.before = look
        told = await here.fill()
        ages = [each.heartbeat_age for each in seen]
        assert ages == [2.0, 4.0, 6.0, 8.0] and not any(each.stalled for each in seen)
        assert told.rates.docs_per_second == 0.5 and told.rates.chunks_per_second == 1.0
        assert [each.eta_seconds for each in seen[1:]] == [6.0, 4.0, 2.0]
        assert [phase.name for phase in told.phases] == ["load", "chunk", "embed", "index"]
        assert told.phases[2].seconds == 8.0 and told.phases[0].done == 4 and told.phases[3].done == 8

        here.shelf.put("5", "fig")

        async def hangs(texts: Sequence[str]) -> None:
            here.clock.at += 16.0
            seen.append(await here.told())

        SCRIPT.before = hangs
        await here.fill()
        assert seen[-1].stalled and seen[-1].heartbeat_age > 15


@in_a_loop
async def test_a_plan_says_what_the_run_then_counts_and_stands_beside_it(file: str, tmp_path: Path) -> None:
    async with room(file, tmp_path) as here:
        here.shelf.put("a", "apple", "pear", "pear")
        await here.fill()
        here.shelf.touch("a")
        here.shelf.put("b", "apple", "plum", "fig")
        here.shelf.put("c", "fig", "a  date", "a date", "")
        here.shelf.put("d", "")
        here.shelf.books["e"] = Permanent("torn")
        asked, rows = list(SCRIPT.asked), await here.count("kb_documents")
        plan = await planning.plan(here.app, "kb", configured())
        assert SCRIPT.asked == asked and await here.count("kb_documents") == rows, "nothing is done"
        told = await here.fill()
        counted = told.counters
        assert plan.exact and plan.documents == counted["docs_seen"] == 5
        assert plan.unchanged == counted["docs_unchanged"] == 1
        assert plan.unreadable == counted["docs_error"] == 1
        assert plan.chunks == counted["chunks_seen"] == 6
        assert plan.known_chunks == counted["chunks_skipped"] == 3
        assert plan.tokens == counted["tokens"] and plan.cost == 0
        assert told.plan is not None and told.plan["chunks"] == 6
        assert (await here.fill()).plan is None, "it was made for the run that followed"


@in_a_loop
async def test_a_plan_for_a_knowledge_base_that_is_not_there_yet_stands_beside_its_first_run(
    file: str, tmp_path: Path
) -> None:
    async with room(file, tmp_path) as here:
        here.shelf.put("a", "apple", "pear")
        plan = await planning.plan(here.app, "kb", configured())
        assert (plan.documents, plan.chunks) == (1, 2)
        assert await bases.bases(here.app.engine, "default") == [], "it is listed when it is started"
        told = await here.fill()
        assert told.plan is not None and told.plan["chunks"] == told.counters["chunks_seen"] == 2


@in_a_loop
async def test_status_is_told_when_retention_has_forgotten_the_jobs(file: str, tmp_path: Path) -> None:
    async with room(file, tmp_path) as here:
        here.app.engine._retention = Retention(completed=10.0, failed=10.0)
        here.shelf.put("a", "apple")
        done = await here.fill()
        failed = await here.fill("empty", shelf="two")
        assert failed.status == "failed"
        SHELVES["three"] = Shelf({"a": "fig"})
        canceled = await here.start("canceled", shelf="three")
        await control.cancel(here.app, canceled)
        await here.advance()
        here.clock.at += 1000
        await here.app.engine.sweep()
        assert not await here.app.jobs(limit=10)
        told = await here.told(done.id)
        assert (told.status, told.counters, told.finished_at) == ("completed", done.counters, done.finished_at)
        assert (await here.told(failed.id)).status == "failed"
        told = await here.told(canceled.id)
        assert (told.status, told.last_error) == ("not_started", "Canceled by user")
        with pytest.raises(Conflict, match="is over: start another"):
            await control.pause(here.app, await here.run("kb"))
        SHELVES["two"].put("a", "pear")
        assert (await here.fill("empty", shelf="two")).status == "completed"


@in_a_loop
async def test_forgetting_a_knowledge_base_removes_all_of_it_and_nothing_else(store: str, tmp_path: Path) -> None:
    async with room(store, tmp_path) as here:
        SCRIPT.refuses = {"poison"}
        here.shelf.put("a", "apple", "poison")
        await here.fill()
        await here.fill("other")
        await control.refresh_every(here.app, "kb", 86_400)
        other, tables = await here.texts("other"), await index_tables(here)
        mine = await here.edition()
        asks(here, "pear", _refused_while_active)
        here.shelf.put("b", "pear")
        await here.fill()
        run = await here.run()
        await control.forget(here.app, "kb", actor="ann")
        with pytest.raises(NotFound):
            await searching.search(here.app.engine, "kb", "apple")
        with pytest.raises(NotFound):
            await control.run_meant(here.app, "kb")
        with pytest.raises(NotFound):
            await control.forget(here.app, "kb")
        with pytest.raises(Conflict, match="'kb' is being deleted"):
            await control.start(here.app, "kb", configured())
        await here.advance()
        assert await index_tables(here) == tables - {mine}
        for table in ("documents", "chunks", "pieces", "errors"):
            assert await here.count(f"kb_{table}", "edition = :n", n=mine) == 0, table
        assert await here.count("kb_runs", "base = 'kb'") == await here.count("kb_bases", "id = 'kb'") == 0
        assert await here.count("kb_editions", "base = 'kb'") == 0
        assert not await here.app.schedules()
        with pytest.raises(NotFound):
            await control.run_meant(here.app, run.id)
        assert await here.texts("other") == other
        SCRIPT.refuses = set()
        assert (await here.fill()).counters["chunks_processed"] == 3
        assert await here.whole() == {"a": ["apple", "poison"], "b": ["pear"]}
        assert await here.edition() not in tables, "no number is used twice"


async def _refused_while_active(app: Any, run: Any) -> None:
    with pytest.raises(Conflict, match="is running"):
        await control.forget(app, run.base)


@in_a_loop
async def test_a_schedule_refreshes_from_what_is_kept_and_skips_while_a_run_is_active(
    file: str, tmp_path: Path
) -> None:
    async with room(file, tmp_path) as here:
        here.shelf.put("a", "apple")
        await here.fill(prune=True)
        cron = await control.refresh_every(here.app, "kb", 86_400)
        (schedule,) = await here.app.schedules()
        assert (schedule.cron, schedule.name) == (cron, "ingestion:kb")
        del here.shelf.books["a"]
        here.shelf.put("b", "pear")
        here.clock.at += 86_400
        await here.app.engine.sweep()
        await here.advance()
        assert await here.whole() == {"b": ["pear"]} and await here.count("kb_runs") == 2
        told = await here.told()
        assert (told.status, told.counters["docs_removed"]) == ("completed", 1)

        here.shelf.put("c", "fig")
        asks(here, "fig", control.pause)
        await here.fill()
        here.clock.at += 86_400
        await here.app.engine.sweep()
        await here.advance()
        assert await here.count("kb_runs") == 3
        (job, *_) = await here.app.jobs(workflow="ingestion.refresh", limit=1)
        assert job.result == {"skipped": f"run {(await here.run()).id} is paused"}
        await control.resume(here.app, await here.run())
        await here.advance()
        await control.forget(here.app, "kb")
        await here.advance()
        assert not await here.app.schedules()


@pytest.mark.parametrize(
    ("seconds", "cron"),
    [
        (60, "*/1 * * * *"), (900, "*/15 * * * *"), (1800, "*/30 * * * *"), (3600, "20 * * * *"),
        (6 * 3600, "20 */6 * * *"), (86_400, "20 3 * * *"), (7 * 86_400, "20 3 * * 4"),
        (0, None), (59, None), (90, None), (7 * 60, None), (5 * 3600, None), (2 * 86_400, None), (-3600, None),
        (float("nan"), None), (float("inf"), None),
    ],
)  # fmt: skip
def test_every_so_often_is_a_cron_expression_or_refused(seconds: float, cron: str | None) -> None:
    thursday = 3 * 3600.0 + 20 * 60
    if cron is None:
        with pytest.raises(InvalidRequest, match="15m, 1h, 6h, 1d, 1w"):
            cron_of(seconds, thursday)
    else:
        assert cron_of(seconds, thursday) == cron


@in_a_loop
async def test_tenants_with_knowledge_bases_of_the_same_name_never_meet(file: str, tmp_path: Path) -> None:
    async with room(file, tmp_path) as here:
        other = SHELVES.setdefault("two", Shelf())
        here.shelf.put("a", "apple", "shared")
        other.put("a", "pear", "shared")
        mine = await here.start()
        theirs = await here.start(tenant="acme", shelf="two")
        await asyncio.gather(*(here.app.engine.advance(run.job) for run in (mine, theirs)))
        await here.advance()
        assert len(SCRIPT.asked) == 4, "nobody has the others' vectors"
        assert await here.found("apple pear") == ["apple"]
        assert await here.found("apple pear", tenant="acme") == ["pear"]
        with pytest.raises(NotFound):
            await control.run_meant(here.app, theirs.id, tenant="default")
        assert (await here.run(tenant="acme")).id == theirs.id
        other.put("a", "new pear")
        other.put("b", "fig")
        asks_of = await here.start(tenant="acme", shelf="two")
        await control.cancel(here.app, asks_of)
        await here.advance()
        assert (await here.told(asks_of.id, tenant="acme")).status == "not_started"
        assert (await here.told()).status == "completed"
        with pytest.raises(NotFound):
            await control.forget(here.app, "kb", tenant="nobody")
        await control.forget(here.app, "kb", tenant="acme")
        await here.advance()
        with pytest.raises(NotFound):
            await searching.search(here.app.engine, "kb", "pear", tenant="acme")
        assert await here.whole() == {"a": ["apple", "shared"]}
        # A job of another tenant under the key of a run is none of the run's business.
        await here.app.submit("ingestion", {"ask": {"base": "kb", "config": configured()}}, key=mine.id, tenant="acme")
        assert (await here.told(mine.id)).status == "completed"
        assert (await here.fill()).status == "completed"
