"""What a run of ingestion does with documents that are new, changed, unchanged, empty, broken or gone, and with an
embedder that refuses, does not answer, or asks to wait."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock import Penstock
from penstock.engine.errors import Permanent, RateLimited, Transient
from penstock.pipelines.ingestion import control, filling
from penstock.pipelines.ingestion.model import Document
from penstock.store.protocol import Commit, unwrapped
from tests.support.house import in_a_loop
from tests.support.ingestion_room import SCRIPT, SHELVES, Room, Shelf, room


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/room.db"
    url: str = request.getfixturevalue("pgvector_url")
    return url


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/room.db"


class Writes:
    """The statements of ingestion's own that reach the store."""

    def __init__(self, app: Penstock) -> None:
        store: Any = app.engine.store
        apply = store.apply
        self.texts: list[str] = []

        async def applied(ops: Any, *, replay: bool = False) -> Any:
            for op in map(unwrapped, ops):
                if isinstance(op, Commit):
                    self.texts += [str(getattr(each, "statement", each)) for each in op.move.writes]
            return await apply(ops, replay=replay)

        store.apply = applied

    def to(self, table: str) -> int:
        ways = [f"{way} {table} " for way in ("INSERT INTO", "UPDATE", "DELETE FROM")]
        return sum(any(way in text for way in ways) for text in self.texts)


@in_a_loop
async def test_what_has_not_changed_is_neither_read_nor_embedded_nor_written(store: str, tmp_path: Path) -> None:
    async with room(store, tmp_path) as here:
        for number in range(30):
            here.shelf.put(f"{number:02}", f"apple {number}", f"pear {number}")
        first = await here.fill()
        assert (first.status, first.counters["docs_seen"], first.counters["chunks_processed"]) == ("completed", 30, 60)
        before, writes = await here.whole(), Writes(here.app)
        SCRIPT.asked.clear()
        here.shelf.loads.clear()
        again = await here.fill()
        assert again.status == "completed"
        assert {name: count for name, count in again.counters.items() if count} == {
            "docs_seen": 30,
            "docs_unchanged": 30,
        }
        assert SCRIPT.asked == [] and here.shelf.loads == []
        assert await here.whole() == before
        assert writes.to("kb_documents") == 1 and writes.to("kb_chunks") == writes.to("kb_pieces") == 0


@in_a_loop
async def test_a_document_that_was_only_touched_is_read_once_and_is_unchanged(file: str, tmp_path: Path) -> None:
    async with room(file, tmp_path) as here:
        here.shelf.put("a", "apple", "pear")
        await here.fill()
        SCRIPT.asked.clear()
        here.shelf.touch("a")
        told = await here.fill()
        assert (told.counters["docs_unchanged"], told.counters["chunks_seen"], SCRIPT.asked) == (1, 0, [])
        here.shelf.loads.clear()
        await here.fill()
        assert here.shelf.loads == [], "its new fingerprint is known"


@in_a_loop
async def test_a_changed_document_is_searchable_as_it_was_until_the_new_one_is_whole(
    store: str, tmp_path: Path
) -> None:
    async with room(store, tmp_path, group=1) as here:
        here.shelf.put("a", "old apple", "same plum", "old pear")
        await here.fill()
        here.shelf.put("a", "new apple", "same plum", "new pear")
        seen: list[tuple[str, list[str], list[str]]] = []

        async def look(texts: Sequence[str]) -> None:
            old, new = await here.found("old"), await here.found("new")
            seen.append((texts[0], sorted(old), sorted(new)))

        SCRIPT.before = look
        run = await here.start()
        await here.tick()  # what is hidden is not removed yet
        await here.tick()
        assert seen == [(text, ["old apple", "old pear"], []) for text in ("new apple", "new pear")]
        assert sorted(await here.found("new")) == ["new apple", "new pear"]
        assert await here.found("old") == [] and await here.found("plum") == ["same plum"]
        assert await here.count("kb_documents", "state = 'hidden'") == 1
        await here.advance()
        told = await here.told(run.id)
        assert (told.counters["docs_replaced"], told.counters["chunks_skipped"]) == (1, 1)
        assert await here.whole() == {"a": ["new apple", "same plum", "new pear"]}


@in_a_loop
async def test_what_has_vanished_is_removed_only_by_prune_and_only_of_sources_that_were_read_wholly(
    file: str, tmp_path: Path
) -> None:
    async with room(file, tmp_path) as here:
        other, third = SHELVES.setdefault("two", Shelf()), SHELVES.setdefault("three", Shelf())
        here.shelf.put("a", "apple")
        here.shelf.put("b", "pear")
        other.put("c", "plum")
        other.put("d", "fig")
        third.put("e", "date")
        await here.fill(shelf=["one", "two", "three"])
        everything = await here.whole()
        del here.shelf.books["a"], other.books["c"], third.books["e"]
        told = await here.fill(shelf=["one", "two"])
        assert told.counters["docs_removed"] == 0 and await here.whole() == everything, "not without prune"

        other.books["d"] = Permanent("the page is torn")
        other.touch("d")
        told = await here.fill(shelf=["one", "two"], prune=True)
        assert (told.status, told.counters["docs_removed"], told.counters["docs_error"]) == ("completed", 1, 1)
        assert list(await here.whole()) == ["b", "c", "d", "e"], "a source with errors may have more than it showed"

        other.put("d", "fig")
        told = await here.fill(shelf=["one", "two"], prune=True)
        assert told.counters["docs_removed"] == 1
        assert list(await here.whole()) == ["b", "d", "e"], "what other sources brought is theirs"


@in_a_loop
async def test_a_source_that_gives_nothing_at_all_is_not_pruned(file: str, tmp_path: Path) -> None:
    """A disk that is not mounted looks like an empty folder."""
    async with room(file, tmp_path) as here:
        other = SHELVES.setdefault("two", Shelf())
        here.shelf.put("a", "apple")
        other.put("c", "plum")
        await here.fill(shelf=["one", "two"])
        other.books.clear()
        told = await here.fill(shelf=["one", "two"], prune=True)
        assert (told.status, told.counters["docs_removed"]) == ("completed", 0)
        assert list(await here.whole()) == ["a", "c"]


@in_a_loop
async def test_a_chunk_that_several_documents_have_is_there_once_and_as_long_as_one_has_it(
    store: str, tmp_path: Path
) -> None:
    async with room(store, tmp_path) as here:
        other = SHELVES.setdefault("two", Shelf())
        here.shelf.put("a", "shared  by\nall", "apple")
        here.shelf.put("b", "shared by all", "pear", "pear")
        other.put("c", "shared by all ")
        told = await here.fill(shelf=["one", "two"])
        assert (told.counters["chunks_processed"], told.counters["chunks_skipped"]) == (3, 3)
        assert len(SCRIPT.asked) == 3, "white space is not what tells texts apart"
        assert await here.count("kb_chunks") == 3 and await here.count("kb_pieces") == 6
        del here.shelf.books["a"]
        await here.fill(prune=True)
        assert await here.found("shared") == ["shared  by\nall"]
        del here.shelf.books["b"]
        here.shelf.put("d", "fig")
        await here.fill(prune=True)
        assert await here.found("shared") == ["shared  by\nall"] and await here.found("pear") == []
        other.put("c", "something else")
        await here.fill(shelf="two")
        assert await here.found("shared") == []
        assert await here.whole() == {"c": ["something else"], "d": ["fig"]}


@in_a_loop
async def test_documents_without_text_are_counted_and_warned_about(file: str, tmp_path: Path) -> None:
    async with room(file, tmp_path) as here:
        here.shelf.put("a", "apple", "pear")
        here.shelf.put("b", " \n ")
        told = await here.fill()
        assert (told.status, told.counters["docs_empty"], told.counters["docs_seen"]) == ("completed", 1, 2)
        assert any("b has no text" in line.text for line in await here.app.logs(told.job))
        here.shelf.put("a", "")
        told = await here.fill()
        assert (told.counters["docs_empty"], told.counters["docs_replaced"]) == (1, 1)
        assert await here.whole() == {"a": [], "b": []} and await here.found("apple") == []
        here.shelf.put("a", "fig")
        await here.fill()
        assert (await here.whole())["a"] == ["fig"]


@in_a_loop
async def test_a_document_that_cannot_be_loaded_is_listed_kept_as_it_was_and_retried(file: str, tmp_path: Path) -> None:
    async with room(file, tmp_path) as here:
        here.shelf.put("a", "apple")
        here.shelf.put("b", "pear")
        await here.fill()
        here.shelf.books |= {"b": Permanent("the page is torn"), "c": Permanent("no such page")}
        here.shelf.put("d", "fig")
        told = await here.fill(prune=True)
        assert (told.status, told.errors, told.counters["docs_error"]) == ("completed", 2, 2)
        assert told.last_error == "c: no such page"
        assert await here.whole() == {"a": ["apple"], "b": ["pear"], "d": ["fig"]}
        rows = await here.tables("SELECT uri, error, run FROM kb_errors ORDER BY uri")
        assert rows == [("b", "the page is torn", told.id), ("c", "no such page", told.id)]

        here.shelf.put("b", "new pear")
        here.shelf.loads.clear()
        await control.retry_errors(here.app, await here.run())
        await here.advance()
        told = await here.told()
        assert (told.status, told.errors, told.counters["docs_seen"]) == ("completed", 1, 2)
        assert here.shelf.loads == ["b", "c"], "nothing but the errors"
        assert await here.whole() == {"a": ["apple"], "b": ["new pear"], "d": ["fig"]}
        assert await here.tables("SELECT uri, run FROM kb_errors") == [("c", told.id)]


@in_a_loop
async def test_what_an_earlier_run_could_not_load_is_no_error_any_more_once_a_run_has_read_it(
    file: str, tmp_path: Path
) -> None:
    async with room(file, tmp_path) as here:
        other = SHELVES.setdefault("two", Shelf())
        here.shelf.put("a", "apple")
        here.shelf.books["b"] = Permanent("the page is torn")
        other.books["z"] = Permanent("the page is torn")
        await here.fill(shelf=["two", "one"])
        for _ in range(2):
            await here.fill()
            rows = await here.tables("SELECT uri FROM kb_errors ORDER BY uri")
            assert rows == [("b",), ("z",)], "it is listed once, and of other sources nothing is known"
        here.shelf.put("b", "pear")
        await here.fill()
        assert await here.tables("SELECT uri FROM kb_errors") == [("z",)]
        other.put("z", "plum")
        await control.retry_errors(here.app, await here.run())
        await here.advance()
        assert await here.count("kb_errors") == 1, "the run that it is from had another source: one that is not asked"


@in_a_loop
async def test_a_text_that_the_embedder_refuses_costs_the_others_nothing(file: str, tmp_path: Path) -> None:
    async with room(file, tmp_path, group=8) as here:
        SCRIPT.at_once = 8
        SCRIPT.refuses = {"poison"}
        here.shelf.put("a", *[f"apple {number}" for number in range(5)], "poison", "pear")
        here.shelf.put("b", "plum", "more poison")
        told = await here.fill()
        assert (told.status, told.counters["chunks_error"], told.counters["chunks_processed"]) == ("completed", 2, 7)
        assert told.errors == 2 and told.last_error == "poison is not embedded here"
        assert sorted(SCRIPT.asked) == sorted([*(f"apple {number}" for number in range(5)), "pear", "plum"])
        assert (await here.verified()).sound, "what is listed as an error is not missing"
        SCRIPT.asked.clear()
        await here.fill()
        assert SCRIPT.asked == [], "a run looks at what has changed, not at errors"
        SCRIPT.refuses = {"more"}
        await control.retry_errors(here.app, await here.run())
        await here.advance()
        told = await here.told()
        assert (told.counters["chunks_processed"], told.counters["chunks_error"], told.errors) == (1, 1, 1)
        assert SCRIPT.asked == ["poison"]
        SCRIPT.refuses = set()
        await control.retry_errors(here.app, await here.run())
        await here.advance()
        assert await here.whole() == {
            "a": [*(f"apple {number}" for number in range(5)), "poison", "pear"], "b": ["plum", "more poison"],
        }  # fmt: skip
        assert await here.count("kb_errors") == 0
        with pytest.raises(control.Conflict, match="no errors to retry"):
            await control.retry_errors(here.app, await here.run())


@in_a_loop
async def test_vectors_of_the_wrong_length_are_nobodys_fault_but_the_embedders(file: str, tmp_path: Path) -> None:
    async with room(file, tmp_path) as here:
        here.shelf.put("a", *(f"apple {number}" for number in range(4)))
        SCRIPT.length = 3
        told = await here.fill()
        assert told.status == "failed" and "gave 4 × 3 numbers for 4 texts, not 4 × 8" in (told.last_error or "")
        assert SCRIPT.calls == 1, "nobody looks for the culprit among the texts"


@in_a_loop
async def test_an_embedder_that_does_not_answer_is_asked_three_times_and_then_its_chunks_are_listed(
    file: str, tmp_path: Path
) -> None:
    async with room(file, tmp_path) as here:
        here.shelf.put("a", "apple", "pear")
        here.shelf.put("b", "plum", "fig", "date", "lime")
        SCRIPT.trouble = [Transient("nobody there") for _ in range(3)]
        told = await here.fill()
        assert here.waits == [4.0, 8.0]
        assert told.status == "completed" and told.last_error == "nobody there"
        assert (told.counters["chunks_error"], told.counters["chunks_processed"]) == (4, 2)
        assert told.counters["chunks_seen"] == 6 and told.errors == 4
        assert await here.tables("SELECT DISTINCT attempts FROM kb_errors") == [(3,)]
        here.waits.clear()
        SCRIPT.trouble = [Transient("nobody there") for _ in range(2)]
        await control.retry_errors(here.app, await here.run())
        await here.advance()
        assert here.waits == [4.0, 8.0]
        assert await here.whole() == {"a": ["apple", "pear"], "b": ["plum", "fig", "date", "lime"]}


@in_a_loop
async def test_a_source_that_does_not_answer_is_asked_three_times_and_then_the_document_is_listed(
    file: str, tmp_path: Path
) -> None:
    async with room(file, tmp_path) as here:
        here.shelf.put("a", "apple")
        here.shelf.books["b"] = Transient("the shelf is locked")
        here.shelf.put("c", "pear")
        told = await here.fill()
        assert here.waits == [4.0, 8.0] and here.shelf.loads.count("b") == 4, "once behind what came before it"
        assert (told.status, told.errors, told.counters["docs_seen"]) == ("completed", 1, 3)
        assert await here.whole() == {"a": ["apple"], "c": ["pear"]}

        here.shelf.books = {"d": _locked(2)}
        here.waits.clear()
        SCRIPT.trouble = [Transient("nobody there") for _ in range(2)]
        told = await here.fill()
        assert here.waits == [4.0, 8.0, 4.0, 8.0], "what the source and the embedder do is counted apart"
        assert (told.errors, (await here.whole())["d"]) == (0, ["fig"])


def _locked(times: int) -> Any:
    left = [times]

    def loads() -> Any:
        left[0] -= 1
        return Transient("the shelf is locked") if left[0] >= 0 else "fig"

    return loads


@in_a_loop
async def test_a_run_that_embeds_nothing_three_times_in_a_row_fails_and_goes_on_where_it_was(
    file: str, tmp_path: Path
) -> None:
    async with room(file, tmp_path) as here:
        for number in range(5):
            here.shelf.put(f"{number}", *[f"apple {number} {place}" for place in range(4)])
        SCRIPT.always = Transient("nobody there")
        told = await here.fill()
        assert (told.status, told.counters["chunks_error"]) == ("failed", 8)
        assert "3 times in a row (nobody there)" in (told.last_error or "")
        assert "ingest resume kb" in (told.last_error or "")
        SCRIPT.always = None
        run = await here.run()
        job = await control.resume(here.app, run)
        assert job.id != told.job
        await here.advance()
        ended = await here.told(run.id)
        assert (ended.id, ended.status, ended.last_error) == (told.id, "completed", "nobody there")
        assert (ended.counters["chunks_processed"], ended.counters["chunks_error"]) == (12, 8)
        assert (ended.counters["docs_seen"], ended.counters["chunks_seen"], ended.errors) == (5, 20, 8)
        assert len(SCRIPT.asked) == len(set(SCRIPT.asked)) == 12
        await control.retry_errors(here.app, run)
        await here.advance()
        assert len(await here.whole()) == 5 and await here.count("kb_chunks") == 20


@in_a_loop
async def test_only_groups_in_a_row_make_a_run_fail(file: str, tmp_path: Path) -> None:
    async with room(file, tmp_path) as here:
        here.shelf.put("a", *(f"apple {number}" for number in range(16)))
        away: list[Exception | None] = [Transient("nobody there") for _ in range(6)]
        SCRIPT.trouble = [*away, None, *away[:3]]
        told = await here.fill()
        assert (told.status, told.counters["chunks_error"], told.errors) == ("completed", 12, 12)


@in_a_loop
async def test_an_errors_only_run_does_not_wait_for_an_embedder_that_is_away_for_every_group(
    file: str, tmp_path: Path
) -> None:
    async with room(file, tmp_path) as here:
        SCRIPT.refuses = {"apple"}
        for number in range(6):
            here.shelf.put(f"{number}", *[f"apple {number} {place}" for place in range(3)], f"pear {number}")
        await here.fill()
        SCRIPT.refuses, SCRIPT.always = set(), Transient("nobody there")
        here.waits.clear()
        await control.retry_errors(here.app, await here.run())
        await here.advance()
        told = await here.told()
        assert told.status == "failed" and "3 times in a row" in (told.last_error or "")
        assert here.waits == [4.0, 8.0] * 3
        SCRIPT.always = None
        await control.resume(here.app, await here.run())
        await here.advance()
        while await here.count("kb_errors"):
            await control.retry_errors(here.app, await here.run())
            await here.advance()
        assert await here.count("kb_chunks") == 24 and len(await here.whole()) == 6


@in_a_loop
async def test_being_asked_to_wait_is_no_failure_however_often(file: str, tmp_path: Path) -> None:
    async with room(file, tmp_path) as here:
        here.shelf.put("a", "apple", "pear")
        SCRIPT.trouble = [RateLimited("not so fast", retry_after=7.0) for _ in range(20)]
        here.shelf.books["b"] = _rate_limited(3)
        told = await here.fill()
        assert (told.status, told.errors) == ("completed", 0)
        assert here.waits == [7.0] * 20 + [5.0] * 3
        assert await here.whole() == {"a": ["apple", "pear"], "b": ["fig"]}


def _rate_limited(times: int) -> Any:
    """So often once everything that came before it is embedded."""
    left = [times]

    def loads() -> Any:
        left[0] -= bool(SCRIPT.asked)
        return RateLimited("not so fast", retry_after=5.0) if left[0] >= 0 else "fig"

    return loads


@in_a_loop
async def test_a_source_that_gives_nothing_has_failed_and_is_read_again_on_resume(file: str, tmp_path: Path) -> None:
    async with room(file, tmp_path) as here:
        told = await here.fill()
        assert told.status == "failed" and told.finished_at is not None
        assert told.last_error is not None and "the source gave nothing (shelf:one)" in told.last_error
        here.shelf.put("a", "apple")
        await control.resume(here.app, await here.run())
        await here.advance()
        told = await here.told()
        assert (told.status, told.counters["docs_seen"], told.last_error) == ("completed", 1, None)
        assert await here.whole() == {"a": ["apple"]}


@in_a_loop
async def test_a_run_of_which_nothing_could_be_indexed_has_failed_and_begins_anew_on_resume(
    file: str, tmp_path: Path
) -> None:
    async with room(file, tmp_path) as here:
        here.shelf.books["a"] = Permanent("the page is torn")
        here.shelf.put("b", "poison", "poison too")
        SCRIPT.refuses = {"poison"}
        told = await here.fill()
        assert told.status == "failed" and told.errors == 3
        assert told.last_error is not None and "nothing could be indexed (a: the page is torn)" in told.last_error
        SCRIPT.refuses = set()
        await control.resume(here.app, await here.run())
        await here.advance()
        told = await here.told()
        assert (told.status, told.errors) == ("completed", 1)
        assert {name: count for name, count in told.counters.items() if count and name != "tokens"} == {
            "docs_seen": 2, "docs_error": 1, "chunks_seen": 2, "chunks_processed": 2,
        }  # fmt: skip
        assert await here.whole() == {"b": ["poison", "poison too"]}


@in_a_loop
async def test_hostile_documents_are_indexed_like_any_other(store: str, tmp_path: Path) -> None:
    async with room(store, tmp_path) as here:
        bad = "\x00 \udcff 'quoted'; DROP TABLE kb_chunks; -- \U0001f600 "
        here.shelf.books["a"] = Document(
            "a", f"title {bad}", f"apple {bad}", metadata={"who": bad, bad: [bad, {"x": bad}]}
        )
        here.shelf.put("b", ":v0 %s {} $1 pear")
        told = await here.fill()
        assert (told.status, told.errors) == ("completed", 0), told.last_error
        assert await here.found("apple") and await here.found("pear") == [":v0 %s {} $1 pear"]
        await here.fill()
        assert (await here.told()).counters["docs_unchanged"] == 2


async def _paused_at(here: Room, word: str, **told: Any) -> None:
    """A run that is paused while this word is embedded."""
    run = await here.start(**told)

    async def pause(texts: Sequence[str]) -> None:
        if any(word in text for text in texts):
            await control.pause(here.app, run)

    SCRIPT.before = pause
    await here.advance()
    SCRIPT.before = None
    assert (await here.told(run.id)).status == "paused"


@pytest.mark.parametrize("how", ["same", "changed", "vanished", "back", "torn", "before it"])
@in_a_loop
async def test_a_document_that_changes_while_the_run_rests_in_the_middle_of_it_leaves_nothing_behind(
    tmp_path: Path, how: str
) -> None:
    async with room(f"sqlite:///{tmp_path}/room.db", tmp_path, group=2) as here:
        here.shelf.put("b", "old 0", "old 1", "shared")
        here.shelf.put("d", "date")
        await here.fill()
        here.shelf.put("a", "apple")
        here.shelf.put("b", "new 0", "poison", "shared", "new 1", "new 2", "new 3")
        here.shelf.put("c", "plum")
        SCRIPT.refuses = {"poison"}
        await _paused_at(here, "new 1")
        told = await here.told()
        assert (told.counters["chunks_seen"], told.counters["docs_seen"]) == (6, 1)
        assert await here.count("kb_documents", "state = 'writing'") == 1
        assert await here.found("new") == [] and sorted(await here.found("old")) == ["old 0", "old 1"]
        asked = len(SCRIPT.asked)
        match how:
            case "changed":
                here.shelf.put("b", "new 0", "other", "shared")
            case "vanished":
                del here.shelf.books["b"]
            case "back":
                here.shelf.put("b", "old 0", "old 1", "shared")
            case "torn":
                here.shelf.books["b"] = Permanent("the page is torn")
            case "before it":
                here.shelf.put("aa", "fig")
        await control.resume(here.app, await here.run())
        await here.advance()
        ended = await here.told()
        assert ended.status == "completed"
        expected = {"a": ["apple"], "b": ["old 0", "old 1", "shared"], "c": ["plum"], "d": ["date"]}
        match how:
            case "same" | "before it":
                expected["b"] = ["new 0", "shared", "new 1", "new 2", "new 3"]
            case "changed":
                expected["b"] = ["new 0", "other", "shared"]
        if how == "before it":
            expected["aa"] = ["fig"]
        else:
            assert how != "same" or len(SCRIPT.asked) == asked + 2, "what is there is not embedded again"
        assert await here.whole() == expected
        # Counted as if it had not rested.
        counters = ended.counters
        pieces = sum(len(texts) for name, texts in expected.items() if name not in ("b", "d"))
        of_b = {"same": 6, "before it": 6, "changed": 3}.get(how, 0)
        assert counters["chunks_seen"] == pieces + of_b
        assert counters["chunks_error"] == ended.errors - (how == "torn") == (of_b == 6)
        assert counters["chunks_processed"] + counters["chunks_skipped"] + counters["chunks_error"] == pieces + of_b
        assert counters["docs_seen"] == len(here.shelf.books)


@in_a_loop
async def test_a_run_that_is_halted_before_it_has_read_anything_keeps_the_document_it_is_in(
    file: str, tmp_path: Path
) -> None:
    """A worker that stops, or a slow source, says nothing about the document."""
    async with room(file, tmp_path, group=1) as here:
        here.shelf.put("b", *[f"new {number}" for number in range(4)])
        await _paused_at(here, "new 1")
        job = await control.resume(here.app, await here.run())
        engine = here.app.engine
        halting, engine.is_halting = engine.is_halting, lambda job: True  # type: ignore[method-assign]
        try:
            await here.tick()
        finally:
            engine.is_halting = halting  # type: ignore[method-assign]
        assert (await here.app.job(job.id)).status == "queued"
        await here.advance()
        assert SCRIPT.asked == [f"new {number}" for number in range(4)], "nothing is embedded twice"
        assert (await here.told()).counters["chunks_seen"] == 4
        assert await here.whole() == {"b": [f"new {number}" for number in range(4)]}


@in_a_loop
async def test_a_large_document_is_taken_out_in_slices(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.pipelines.ingestion.removing.SLICE", 3)
    async with room(file, tmp_path) as here:
        here.shelf.put("a", *[f"apple {number}" for number in range(10)], "shared")
        here.shelf.put("b", "shared", "apple 7")
        await here.fill()
        del here.shelf.books["a"]
        told = await here.fill(prune=True)
        assert told.counters["docs_removed"] == 1
        assert await here.whole() == {"b": ["shared", "apple 7"]}


@in_a_loop
async def test_a_source_is_asked_and_looked_up_many_documents_at_a_time(file: str, tmp_path: Path) -> None:
    """No question to the store for each document."""
    async with room(file, tmp_path, batch=50) as here:
        for number in range(100):
            here.shelf.put(f"{number:03}", f"apple {number}")
        await here.fill()
        engine, asked = here.app.engine, []
        read = engine.read

        async def counted(statement: Any) -> Any:
            asked.append(statement)
            return await read(statement)

        engine.read = counted  # type: ignore[method-assign]
        await here.fill()
        assert len(asked) < 40
        assert await filling.held(here.app.engine, 1, "shelf:one", []) == []
