"""Ledger and index say the same, or `verify` tells and `repair` mends it; and what a search finds, and what not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock import InvalidRequest, NotFound
from penstock.engine.errors import Transient
from penstock.pipelines.ingestion import control, searching
from penstock.pipelines.ingestion.index import index_for
from penstock.pipelines.ingestion.model import hash_of
from penstock.pipelines.ingestion.searching import search
from tests.support.house import in_a_loop
from tests.support.ingestion_room import SCRIPT, SHELVES, Room, Shelf, room, vector


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/room.db"
    url: str = request.getfixturevalue("pgvector_url")
    return url


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/room.db"


async def filled(here: Room) -> None:
    here.shelf.put("a", "apple", "shared", "pear")
    here.shelf.put("b", "plum", "shared")
    here.shelf.put("c", "fig")
    await here.fill()


async def number_of(here: Room, text: str) -> int:
    ((n,),) = await here.tables("SELECT n FROM kb_chunks WHERE text = :text", text=text)
    return int(n)


async def plant(here: Room, fault: str) -> None:
    """Break the tables as a bad disk or a careless hand would."""
    edition, pear = await here.edition(), await number_of(here, "pear")
    index = index_for(here.app.engine)
    match fault:
        case "no_vector" | "no_text":
            await _without(here, edition, pear, fault)
        case "stray_vector" | "stray_text":
            number = 99 if fault == "stray_text" else 97
            await here.app.engine.write(*index.add(edition, [(number, "stray", vector("stray"))]))
            await _without(here, edition, number, "no_text" if fault == "stray_vector" else "no_vector", text="stray")
        case "orphan":
            await here.write(
                "INSERT INTO kb_chunks (edition, n, content_hash, text, tokens, run, indexed_at)"
                " VALUES (:edition, 98, :hash, 'lonely', 1, 'nobody', 0)", edition=edition, hash=hash_of("lonely"),
            )  # fmt: skip
            await here.app.engine.write(*index.add(edition, [(98, "lonely", vector("lonely"))]))
        case "dangling":
            await here.write("DELETE FROM kb_chunks WHERE edition = :edition AND n = :n", edition=edition, n=pear)
        case "nowhere":
            await here.write(
                "INSERT INTO kb_pieces (edition, document, seq, chunk, position) VALUES (:edition, 77, 0, :n, '{}')",
                edition=edition, n=pear,
            )  # fmt: skip
        case "wrong_hash" | "wrong_hash_of_another":
            text = "peat" if fault == "wrong_hash" else "fig"
            await here.write("UPDATE kb_chunks SET text = :text WHERE n = :n", n=pear, text=text)
        case "incomplete":
            await here.write("DELETE FROM kb_pieces WHERE edition = :edition AND chunk = :n", edition=edition, n=pear)
        case "too_much":
            await here.write(
                "INSERT INTO kb_pieces (edition, document, seq, chunk, position)"
                " SELECT edition, document, 9, chunk, position FROM kb_pieces WHERE chunk = :n", n=pear,
            )  # fmt: skip


async def _without(here: Room, edition: int, n: int, what: str, *, text: str = "pear") -> None:
    if here.app.engine.store.url.startswith("postgres"):  # type: ignore[attr-defined]
        column = "embedding" if what == "no_vector" else "words"
        await here.write(f"UPDATE kb{edition}_index SET {column} = NULL WHERE chunk = :n", n=n)
    elif what == "no_vector":
        await here.write(f"DELETE FROM kb{edition}_vectors WHERE chunk = :n", n=n)
    else:
        table = f"kb{edition}_text"
        await here.write(f"INSERT INTO {table} ({table}, rowid, text) VALUES ('delete', :n, :text)", n=n, text=text)


MENDED = {
    "no_vector": {"indexed": 1},
    "no_text": {"indexed": 1},
    "stray_vector": {"strays_removed": 1},
    "stray_text": {"strays_removed": 1},
    "orphan": {"orphans_removed": 1},
    "nowhere": {"dangling_removed": 1},
    "dangling": {"dangling_removed": 1, "strays_removed": 1, "documents_to_read_again": 1},
    "wrong_hash": {"indexed": 1, "documents_to_read_again": 1},
    "wrong_hash_of_another": {"indexed": 1, "documents_to_read_again": 1},
    "incomplete": {"orphans_removed": 1, "documents_to_read_again": 1},
    "too_much": {"documents_to_read_again": 1},
}


@pytest.mark.parametrize("fault", MENDED)
@in_a_loop
async def test_every_fault_is_found_and_mended(tmp_path: Path, fault: str) -> None:
    async with room(f"sqlite:///{tmp_path}/room.db", tmp_path) as here:
        await _found_and_mended(here, fault)


@pytest.mark.parametrize("fault", ["no_text", "stray_vector", "wrong_hash"])
@in_a_loop
async def test_every_fault_is_found_and_mended_in_postgresql(pgvector_url: str, tmp_path: Path, fault: str) -> None:
    async with room(pgvector_url, tmp_path) as here:
        await _found_and_mended(here, fault)


async def _found_and_mended(here: Room, fault: str) -> None:
    await filled(here)
    whole = await here.whole()
    for mode in ("text", "vector"):
        await here.found("pear", mode=mode)  # what is in memory is out of date, too, once it is mended
    await plant(here, fault)
    told = {"nowhere": "dangling", "too_much": "incomplete", "wrong_hash_of_another": "wrong_hash"}.get(fault, fault)
    assert told in (await here.verified()).faults
    SCRIPT.asked.clear()
    await control.start_repair(here.app, "kb", actor="ann")
    await here.advance()
    (job, *_) = await here.app.jobs(workflow="ingestion.repair", limit=1)
    assert (job.status, job.result) == ("completed", MENDED[fault])
    left = (await here.verified()).faults
    later = {"incomplete", "orphan", *(["wrong_hash"] if fault == "wrong_hash_of_another" else [])}
    assert set(left) <= later, "a document that lacks something is read again by the next run"
    await here.fill()
    await control.start_repair(here.app, "kb")  # what stood in its place before is left to it
    await here.advance()
    assert await here.whole() == whole
    assert await here.found("pear") == await here.found("pear", mode="vector", top=1) == ["pear"]


@in_a_loop
async def test_verify_and_repair_do_no_harm_to_a_run_at_work(store: str, tmp_path: Path) -> None:
    async with room(store, tmp_path, group=1) as here:
        await filled(here)
        for fault in ("no_vector", "stray_vector", "stray_text", "nowhere"):
            await plant(here, fault)
        seen: list[Any] = []

        async def meanwhile(texts: Sequence[str]) -> None:
            if texts == ["pear"]:
                return  # the repair's own
            seen.append((await here.verified()).faults)
            (job,) = await here.app.jobs(workflow="ingestion.repair", limit=1)
            for _ in range(2):
                await here.app.engine.advance(job.id)

        here.shelf.put("a", "apple", "pear", "lime")
        here.shelf.put("d", *(f"date {number}" for number in range(4)), "kiwi")
        await here.start()
        await control.start_repair(here.app, "kb")
        SCRIPT.before = meanwhile
        SCRIPT.at_once = 1
        await here.app.engine.advance((await here.run()).job)
        await here.app.engine.advance((await here.run()).job)
        SCRIPT.before = None
        assert set(seen[0]) == {"no_vector", "stray_vector", "stray_text", "dangling"}
        assert set(seen[-1]) <= {"stray_vector", "stray_text"}, "what is stray is left to the next repair"
        await here.advance()
        (job,) = await here.app.jobs(workflow="ingestion.repair", limit=1)
        assert job.result == {"dangling_removed": 1, "indexed": 1, "left_to_the_next_repair": 1}
        assert (await here.told()).status == "completed"
        await control.start_repair(here.app, "kb")
        await here.advance()
        assert (await here.whole())["d"] == [*(f"date {number}" for number in range(4)), "kiwi"]


@in_a_loop
async def test_a_repair_whose_embedder_refuses_or_is_away_says_so(file: str, tmp_path: Path) -> None:
    async with room(file, tmp_path) as here:
        await filled(here)
        await plant(here, "no_vector")
        SCRIPT.refuses = {"pear"}
        await control.start_repair(here.app, "kb")
        await here.advance()
        (job, *_) = await here.app.jobs(workflow="ingestion.repair", limit=1)
        assert (job.status, job.result) == ("completed", {"refused": 1})
        assert (await here.verified()).faults == {"no_vector": [await number_of(here, "pear")]}
        SCRIPT.refuses, SCRIPT.always = set(), Transient("nobody there")
        await control.start_repair(here.app, "kb")
        await here.advance()
        (job, *_) = await here.app.jobs(workflow="ingestion.repair", limit=1)
        assert job.status == "failed" and "nobody there" in (job.error or "")
        SCRIPT.always = None
        first, second = [await control.start_repair(here.app, "kb") for _ in range(2)]
        assert first.job_id == second.job_id and not second.created, "one at a time"
        await here.advance()
        assert len(await here.whole()) == 3
        with pytest.raises(NotFound):
            await control.start_repair(here.app, "other")


@in_a_loop
async def test_a_search_tells_where_a_chunk_stands_and_what_else_has_it(store: str, tmp_path: Path) -> None:
    async with room(store, tmp_path) as here:
        other = SHELVES.setdefault("two", Shelf())
        here.shelf.put("a", "apple", "shared words")
        here.shelf.put("b", "shared words", "pear", "shared words")
        other.put("c", "shared words")
        here.shelf.metadata |= {
            "a": {"lang": "EN", "tags": ["fruit", "tree"], "year": 2024},
            "b": {"lang": "de", "tags": [], "year": 2025},
        }
        await here.fill(shelf=["one", "two"])
        engine = here.app.engine
        (hit,) = await search(engine, "kb", "shared", mode="text")
        assert (hit.text, hit.source, hit.title, hit.also_in) == ("shared words", "a", "A", ("b", "c"))
        assert hit.position == {"start": 1} and hit.metadata["lang"] == "EN"
        (hit,) = await search(engine, "kb", "shared", mode="text", filter={"lang": "DE"})
        assert (hit.source, hit.also_in, hit.position) == ("b", (), {"start": 0})
        cases: list[tuple[dict[str, Any], list[str]]] = [
            ({"tags": "tree"}, ["a"]), ({"tags": "none"}, []), ({"year": "2025"}, ["b"]), ({"year": 2024}, ["a"]),
            ({"source": "shelf:two"}, ["c"]), ({"uri": "b*"}, ["b"]), ({"uri": "*"}, ["a", "b", "c"]),
            ({"lang": "e*", "year": 2024}, ["a"]), ({"lang": "en", "year": 2025}, []), ({"missing": "x"}, []),
            ({"uri": "b' OR 1=1 --"}, []),
        ]  # fmt: skip
        for wanted, expected in cases:
            for mode in ("text", "hybrid"):
                hits = await search(engine, "kb", "shared", mode=mode, filter=wanted)  # type: ignore[arg-type]
                found = [[hit.source, *hit.also_in] for hit in hits if hit.text == "shared words"]
                assert found == ([expected] if expected else []), (wanted, mode)


@in_a_loop
async def test_a_search_gives_as_many_as_asked_in_the_same_order_every_time(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "CANDIDATES", 3)
    async with room(file, tmp_path) as here:
        for number in range(40):
            here.shelf.put(f"{number:02}", f"same words {number}")
            here.shelf.metadata[f"{number:02}"] = {"rare": number == 37}
        await here.fill()
        engine = here.app.engine
        for mode in ("text", "vector", "hybrid"):
            first = await search(engine, "kb", "same words", mode=mode, top=10)  # type: ignore[arg-type]
            again = await search(engine, "kb", "same words", mode=mode, top=10)  # type: ignore[arg-type]
            assert first == again and len(first) == 10 == len({hit.chunk for hit in first})
            assert [hit.score for hit in first] == sorted((hit.score for hit in first), reverse=True)
            everything = await search(engine, "kb", "same words", mode=mode, top=100)  # type: ignore[arg-type]
            assert len(everything) == 40 and [hit.chunk for hit in everything[:10]] == [hit.chunk for hit in first]
            (only,) = await search(engine, "kb", "same words", mode=mode, filter={"rare": "true"}, top=1)  # type: ignore[arg-type]
            assert only.source == "37", "however far behind it is"
        for question, top, mode in [("", 1, "text"), (" \n", 1, "text"), ("x" * 20_001, 1, "text"),
                                    ("x", 0, "text"), ("x", 101, "text"), ("x", 1, "magic")]:  # fmt: skip
            with pytest.raises(InvalidRequest, match=r"question has 1 to|top must be|mode must be"):
                await search(engine, "kb", question, top=top, mode=mode)  # type: ignore[arg-type]
        with pytest.raises(NotFound):
            await search(engine, "other", "x")


HOSTILE = [
    "'; DROP TABLE kb_chunks; --", '"', '""" NEAR(a b) *', "apple*", "AND OR NOT", "col:apple ^apple -apple", "(", "\\",
    "\x00apple", "apple \udcff", "\U0001f600", "%", "$1 :v0 ?", "a" * 20_000, "apple " * 3000, "\u202e\u0301",
    "<->", "& | !",
]  # fmt: skip


@in_a_loop
async def test_no_question_is_anything_but_a_question(store: str, tmp_path: Path) -> None:
    async with room(store, tmp_path) as here:
        await filled(here)
        for question in HOSTILE:
            for mode in ("text", "vector", "hybrid"):
                hits = await search(here.app.engine, "kb", question, mode=mode)  # type: ignore[arg-type]
                assert all(hit.text for hit in hits)
        assert await here.found("\x00apple") == ["apple"]
        assert len(await here.whole()) == 3


@in_a_loop
async def test_a_search_goes_on_in_the_new_edition_when_the_old_one_goes_in_that_moment(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with room(file, tmp_path) as here:
        await filled(here)
        hits = searching._Search.hits
        rebuilt = 0

        async def slow(self: Any) -> Any:
            nonlocal rebuilt
            if not rebuilt:
                rebuilt += 1
                await here.fill(rebuild=True)
            return await hits(self)

        monkeypatch.setattr(searching._Search, "hits", slow)
        assert await here.found("apple") == ["apple"] and rebuilt == 1


@in_a_loop
async def test_hidden_and_half_written_documents_are_never_found_by_anybody(file: str, tmp_path: Path) -> None:
    async with room(file, tmp_path, group=1, batch=2) as here:
        SCRIPT.at_once = 1
        for number in range(6):
            here.shelf.put(f"{number}", f"old {number}", f"word {number}")
        await here.fill()
        for number in range(6):
            here.shelf.put(f"{number}", f"new {number}", f"word {number}", f"more {number}")
        seen: list[set[str]] = []

        async def look(texts: Sequence[str]) -> None:
            for mode in ("text", "vector", "hybrid"):
                hits = await search(here.app.engine, "kb", "old new more", top=100, mode=mode)  # type: ignore[arg-type]
                seen.append({hit.text for hit in hits if not hit.text.startswith("word")})

        SCRIPT.before = look
        await here.fill(prune=True)
        for found in seen:
            for number in range(6):
                of_it = {text for text in found if text.endswith(str(number))}
                assert of_it <= {f"old {number}"} or of_it <= {f"new {number}", f"more {number}"}, "not of both"
        assert any("new 5" not in found and "old 5" in found and "new 0" in found for found in seen)
        await asyncio.gather(look([""]), look([""]))
        assert seen[-1] == {f"{word} {number}" for number in range(6) for word in ("new", "more")}
