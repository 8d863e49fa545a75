"""Embeddings that come in batches, hours later: what waits for them, and what happens to it meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.errors import Permanent
from penstock.pipelines.ingestion import collecting, control
from penstock.pipelines.ingestion.ticking import Tick
from tests.support.house import in_a_loop
from tests.support.ingestion_room import SCRIPT, Room, RoomClock, room


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/room.db"
    url: str = request.getfixturevalue("pgvector_url")
    return url


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/room.db"


async def asked_for(here: Room, **told: Any) -> None:
    """A run whose batch is out."""
    await here.start(batch=True, **told)
    await here.advance(longest=0.5)


async def home(here: Room, state: str = "succeeded") -> None:
    """The batch that is out ends, and somebody looks after it."""
    here.slow.finish(state)
    await looked_after(here)


async def looked_after(here: Room) -> None:
    for _ in range(3):
        here.clock.at += 60
        await here.app.engine.sweep()
        await here.advance(longest=0.5)


def texts(given: Sequence[str]) -> list[str]:
    return sorted(line.partition(" ")[2] for line in given)


@in_a_loop
async def test_chunks_wait_as_rows_and_are_indexed_when_their_batch_has_come(store: str, tmp_path: Path) -> None:
    async with room(store, tmp_path) as here:
        here.shelf.put("a", "apple", "known")
        await here.fill()
        SCRIPT.asked.clear()
        SCRIPT.refuses = {"poison"}
        here.shelf.put("a", "new apple", "known")
        here.shelf.put("b", "pear", "poison", "pear")
        here.shelf.put("c", "")
        await asked_for(here)
        told = await here.told()
        assert told.status == "running" and "waits for slow" in (told.reason or "")
        assert (told.counters["docs_seen"], told.counters["chunks_seen"], told.counters["docs_empty"]) == (3, 5, 1)
        assert told.counters["chunks_processed"] == 0 and await here.count("kb_staged") == 5
        assert [texts(given) for given in here.slow.given] == [["new apple", "pear", "poison"]], "each once"
        assert await here.found("apple") == ["apple"] and await here.found("new") == []
        assert not list((tmp_path / "scratch").glob("*/*")), "the file has been sent"
        await home(here)
        told = await here.told()
        assert (told.status, told.errors, told.last_error) == ("completed", 1, "poison is not embedded here")
        assert {name: count for name, count in told.counters.items() if count and name != "tokens"} == {
            "docs_seen": 3, "docs_replaced": 1, "docs_empty": 1, "chunks_seen": 5, "chunks_processed": 2,
            "chunks_skipped": 2, "chunks_error": 1,
        }  # fmt: skip
        assert await here.whole() == {"a": ["new apple", "known"], "b": ["pear", "pear"], "c": []}
        SCRIPT.refuses = set()
        await control.retry_errors(here.app, await here.run())
        await here.advance()
        assert (await here.whole())["b"] == ["pear", "poison", "pear"]
        assert here.slow.works and len(here.slow.works) == 1, "errors are few: they are asked for at once"


@in_a_loop
async def test_a_batch_is_paid_once_through_pauses_and_restarts_in_the_middle_of_it(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = RoomClock()
    async with room(file, tmp_path, clock=clock, group=2) as here:
        for number in range(5):
            here.shelf.put(f"{number}", f"apple {number}", f"pear {number}")
        await asked_for(here)
        await control.pause(here.app, await here.run())
        assert (await here.told()).status == "paused"
        works, given = here.slow.works, here.slow.given
    async with room(file, tmp_path, clock=clock, fresh=False, group=2) as here:
        here.slow.works, here.slow.given = works, given
        await control.resume(here.app, await here.run())
        group = collecting._group
        done = 0

        async def halting(*told: Any) -> Any:
            nonlocal done
            done += 1
            if done == 2:
                await control.pause(here.app, await here.run())
            return await group(*told)

        monkeypatch.setattr(collecting, "_group", halting)
        await home(here)
        told = await here.told()
        assert (told.status, told.counters["chunks_processed"]) == ("paused", 4), "some are indexed"
        monkeypatch.setattr(collecting, "_group", _breaking(group, 2))
        await control.resume(here.app, await here.run())
        await here.advance()
        assert (await here.told()).status == "failed" and await here.count("kb_staged") == 4
        monkeypatch.setattr(collecting, "_group", group)
        await control.resume(here.app, await here.run())
        await here.advance()
        told = await here.told()
        assert (told.status, told.counters["chunks_processed"]) == ("completed", 10), told.last_error
        assert len(here.slow.given) == 1, "what came home once is not asked for again"
        assert len(await here.whole()) == 5


def _breaking(group: Any, at: int) -> Any:
    done = 0

    async def breaks(*told: Any) -> Any:
        nonlocal done
        done += 1
        if done == at:
            raise Permanent("broken")
        return await group(*told)

    return breaks


@in_a_loop
async def test_a_run_may_have_several_batches_each_within_its_limits(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.ingestion_room.Deferred.batch_tokens", 20)
    async with room(file, tmp_path) as here:
        here.shelf.put("a", *(f"apple {number}" for number in range(6)), "a text that is longer than a batch may be")
        await asked_for(here)
        for _ in range(4):
            await home(here)
        assert (await here.told()).status == "completed"
        sizes = [len(given) for given in here.slow.given]
        assert sizes == [2, 2, 2, 1]
        assert len((await here.whole())["a"]) == 7


@in_a_loop
async def test_what_has_become_known_while_a_batch_was_out_is_not_indexed_twice(file: str, tmp_path: Path) -> None:
    async with room(file, tmp_path, batch=1) as here:
        here.shelf.put("a", "apple", "pear")
        here.shelf.put("b", "pear", "apple")
        await asked_for(here)
        await home(here)
        told = await here.told()
        assert (told.counters["chunks_processed"], told.counters["chunks_skipped"]) == (2, 2)
        here.shelf.put("c", "apple", "pear")
        told = await here.fill(batch=True)
        assert (told.status, told.counters["chunks_skipped"]) == ("completed", 2)
        assert len(here.slow.given) == 1, "nothing to ask for"
        assert len(await here.whole()) == 3


@in_a_loop
async def test_what_was_filled_in_batches_is_refreshed_by_its_name_alone(file: str, tmp_path: Path) -> None:
    async with room(file, tmp_path) as here:
        here.shelf.put("a", "apple")
        await asked_for(here)
        await home(here)
        here.shelf.put("b", "pear")
        await control.start(here.app, "kb")
        await here.advance(longest=0.5)
        await home(here)
        assert (await here.told()).status == "completed" and len(here.slow.given) == 2
        await control.refresh_every(here.app, "kb", 3600)
        here.shelf.put("c", "plum")
        here.clock.at += 3600
        await looked_after(here)
        await home(here)
        assert len(await here.whole()) == 3 and len(here.slow.given) == 3


@in_a_loop
async def test_a_batch_that_fails_is_asked_for_again_and_then_the_run_has_failed(file: str, tmp_path: Path) -> None:
    async with room(file, tmp_path) as here:
        here.shelf.put("a", "apple")
        await asked_for(here)
        for _ in range(3):
            await home(here, "failed")
        told = await here.told()
        assert told.status == "failed" and "the batch of embeddings failed: it broke" in (told.last_error or "")
        assert len(here.slow.given) == 3
        await control.resume(here.app, await here.run())
        await here.advance(longest=0.5)
        await home(here)
        assert (await here.told()).status == "completed" and await here.whole() == {"a": ["apple"]}


@in_a_loop
async def test_cancel_while_a_batch_is_out_stops_it_and_leaves_nothing(file: str, tmp_path: Path) -> None:
    async with room(file, tmp_path) as here:
        here.shelf.put("a", "apple")
        await here.fill()
        before = await here.whole()
        here.shelf.put("a", "new apple")
        here.shelf.put("b", "pear")
        await asked_for(here)
        await control.cancel(here.app, await here.run())
        await looked_after(here)
        assert (await here.told()).status == "not_started" and await here.whole() == before
        (work,) = here.slow.works.values()
        assert (work.cancels, work.state) == (1, "cancelled")
        await asked_for(here)
        await home(here)
        assert await here.whole() == {"a": ["new apple"], "b": ["pear"]}


@pytest.mark.parametrize("how", ["changed", "vanished", "same"])
@pytest.mark.parametrize("collected", [False, True])
@in_a_loop
async def test_a_document_that_changes_while_it_is_staged_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, collected: bool
) -> None:
    """`collected`: a batch has come home with its first chunks by then."""
    async with room(f"sqlite:///{tmp_path}/room.db", tmp_path, group=2) as here:
        here.shelf.put("a", "apple")
        here.shelf.put("b", *(f"new {number}" for number in range(6)))
        run = await here.start(batch=True)
        engine, staged, stage = here.app.engine, 0, Tick._staged

        def counting(self: Any, *told: Any) -> Any:
            nonlocal staged
            staged += 1
            return stage(self, *told)

        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(Tick, "_staged", counting)
            meanwhile.setattr(engine, "is_halting", lambda job: staged >= 2)
            await here.tick()
        await control.pause(here.app, run)
        assert (await here.told()).status == "paused" and await here.count("kb_staged") == 4
        if collected:
            monkeypatch.setattr("penstock.pipelines.ingestion.running.BATCH_TEXTS", 4)
        match how:
            case "changed":
                here.shelf.put("b", "other", "new 1")
            case "vanished":
                del here.shelf.books["b"]
        await control.resume(here.app, run)
        await here.advance(longest=0.5)
        for _ in range(3):
            await home(here)
        told = await here.told()
        assert told.status == "completed", told.last_error
        expected = {"changed": ["other", "new 1"], "vanished": [], "same": [f"new {number}" for number in range(6)]}
        whole = await here.whole()
        assert whole == {"a": ["apple"]} | ({"b": expected[how]} if how != "vanished" else {})
        pieces = 1 + len(expected[how])
        assert told.counters["chunks_seen"] == told.counters["chunks_processed"] == pieces
        assert told.counters["docs_seen"] == len(whole)
