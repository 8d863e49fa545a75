"""Statements that must change what they were made for: one that does not takes with it all that was to be stored with
it, and nothing else. On both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock import Context, Penstock, Workflow
from penstock.engine.errors import Conflict, Outdated
from penstock.engine.model import NewJob
from penstock.store.connect import store_from_url
from penstock.store.protocol import Expect, JobFilter, OpenBatch, Seal, Submit, Write

TABLE = "CREATE TABLE things (name TEXT PRIMARY KEY, number INTEGER NOT NULL)"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/things.db"
    told: str = request.getfixturevalue("postgres_url")
    return told


@asynccontextmanager
async def things(url: str) -> AsyncIterator[Any]:
    store = store_from_url(url)
    await store.open()
    try:
        await store.apply([Write((TABLE,))])
        yield store
    finally:
        await store.close()


def put(name: str, number: int = 0) -> tuple[str, dict[str, Any]]:
    return "INSERT INTO things VALUES (:name, :number) ON CONFLICT DO NOTHING", {"name": name, "number": number}


def counted(name: str, number: int, *, rows: int = 1) -> Expect:
    statement = ("UPDATE things SET number = number + 1 WHERE name LIKE :name AND number = :number", {
        "name": name, "number": number,
    })  # fmt: skip
    return Expect(statement, f"{name} is not {number} any more", rows)


def job(id: str, batch: str | None = None) -> NewJob:
    return NewJob(id, "draw", "one", "[]", "d", batch=batch)


async def held(store: Any) -> dict[str, int]:
    return dict(await store.own_rows("SELECT name, number FROM things"))


async def jobs(store: Any) -> set[str]:
    return {row.id for row in await store.jobs(JobFilter())}


def test_what_is_refused_keeps_nothing_and_leaves_the_rest_of_its_group_alone(url: str) -> None:
    async def main() -> None:
        async with things(url) as store:
            answers = (
                await store.apply(
                    [
                        Write((put("a"), put("b"), counted("a", 0)), (job("first"),)),
                        Write((put("c"), counted("a", 0), put("d")), (job("never"),)),
                        Submit((job("plain"),)),
                        # One that is there already is not put there by this statement.
                        Write((Expect(put("a"), "a is there already"), put("e")), (job("neither"),)),
                        Write((put("f"), counted("b", 0), counted("_", 1, rows=2)), (job("last"),)),
                        Write((counted("a", 2, rows=2),)),
                    ]
                )
            ).answers
            assert [[each.job_id for each in answer] for answer in (answers[0], answers[2], answers[4])] == [
                ["first"], ["plain"], ["last"],
            ]  # fmt: skip
            refused = [answers[1], answers[3], answers[5]]
            assert [type(answer) for answer in refused] == [Outdated] * 3 and isinstance(refused[0], Conflict)
            assert [str(answer) for answer in refused] == [
                "a is not 0 any more", "a is there already", "a is not 2 any more",
            ]  # fmt: skip
            assert await held(store) == {"a": 2, "b": 2, "f": 0}
            assert await jobs(store) == {"first", "plain", "last"}

    asyncio.run(main())


def test_jobs_for_a_sealed_batch_are_refused_before_anything_is_written(url: str) -> None:
    async def main() -> None:
        async with things(url) as store:
            await store.apply([OpenBatch("open", "default", "open"), OpenBatch("full", "default", "full")])
            await store.apply([Seal("full")])
            answers = (
                await store.apply(
                    [
                        Write((put("a"),), (job("good", "open"), job("bad", "full"))),
                        Write((put("b"),), (job("fine", "open"),)),
                    ]
                )
            ).answers
            assert isinstance(answers[0], Conflict) and "sealed" in str(answers[0])
            assert await held(store) == {"b": 0} and await jobs(store) == {"fine"}

    asyncio.run(main())


def test_a_step_that_is_refused_stores_nothing_and_looks_again(url: str) -> None:
    """What it wrote, spawned and decided goes; the job that commits beside it does not notice."""
    count = Workflow("count", payload=str)
    child = Workflow("child", payload=str)
    tries: list[int] = []

    @count.step
    async def one(name: str, ctx: Context) -> str:
        seen = dict(await ctx.read("SELECT name, number FROM things"))
        if name == "late":
            tries.append(seen["late"])
            if len(tries) == 1:
                await ctx._engine.write(counted("late", 0))
        ctx.write(put(f"{name} was {seen[name]}"))
        ctx.write(counted(name, seen[name]))
        ctx.spawn("child", f"{name} {seen[name]}")
        return "counted"

    @child.step
    async def nothing(name: str, ctx: Context) -> None: ...

    async def main() -> None:
        async with Penstock(workflows=[count, child], store=url) as app:
            await app.engine.write(TABLE)
            await app.engine.write(put("late"), put("other"))
            told = await app.submit_many("count", ["late", "other"])
            async with app.worker():
                ended = [await app.wait(each.job_id, timeout=30) for each in told]
            assert [each.status for each in ended] == ["completed", "completed"]
            assert tries == [0, 1]
            assert await held(app.engine.store) == {"late": 2, "other": 1, "late was 1": 0, "other was 0": 0}
            spawned = await app.jobs(workflow="child")
            assert sorted(each.payload for each in spawned) == ["late 1", "other 0"]
            history = [event.kind for event in await app.history(told[0].job_id)]
            assert "retry" in history

    asyncio.run(main())
