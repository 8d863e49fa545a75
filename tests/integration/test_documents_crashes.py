"""A process of the documents pipeline dies: at commits, requests to Gemini and file operations, while documents are read,
reviewed and read again. Another goes on, and in the end everything is there once, and files say what rows say.

Of the many places some are chosen, evenly; `PENSTOCK_EVERY_CRASH=1` takes them all.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from penstock import Context, Penstock, Workflow
from penstock.pipelines.documents import asking
from tests.support.documents_books import books_wrong, leftovers
from tests.support.documents_town import DocumentsTown, documents_town, invoice

EVERY = bool(os.environ.get("PENSTOCK_EVERY_CRASH"))
KINDS_OF_POINTS = ("before commit", "after commit", "before request", "after request", "before file", "torn file")
ALONE = 8
"""Places of each kind at which a process dies."""

CORRECTED = "1234.50"

Point = tuple[str, int]


def survived(plan: Sequence[Point], *, seed: int = 1) -> DocumentsTown:
    """Documents are read, one is corrected while it is read again, and the first processes die at the points of the
    plan."""
    with documents_town(plan=plan, seed=seed) as town:
        wrong = town.play(_scenario(town))
        assert wrong == [], (plan, seed)
        return town


async def _scenario(town: DocumentsTown) -> list[str]:
    twin = invoice(1)
    hostile = invoice(2, "hostile", trouble="truncated")
    added = await town.add(twin, twin, invoice(2), invoice(3, "facturx"), hostile)
    await town.over()
    jobs = [await town.app.job(each.job_id) for each in added.documents]
    found = [f"{job.id} is {job.status}: {job.error}" for job in jobs[:4] if job.status != "completed"]
    found += [] if jobs[4].status == "failed" else [f"what cannot be read is {jobs[4].status}"]
    batch = await town.app.batch(added.batch_id or "")
    told = (await town.app.job(batch.follow_up or "")).result
    if (told["documents"], told["completed"], told["failed"], told["cached"]) != (5, 4, 1, 1):
        found.append(f"the batch ended with {told}")
    items = await town.rows("SELECT document, COUNT(*) FROM review_items GROUP BY document")
    if items != [(each.document_id, 1) for each in added.documents[:4]]:
        found.append(f"review items: {items}")
    # Two contents were paid for; more only by processes that died with an answer under way.
    deaths = sum(life.dead for life in town.lives)
    if len(town.paid) != 2 or max(town.paid.values()) > 1 + deaths:
        found.append(f"paid {town.paid} with {deaths} deaths")
    first = added.documents[0].document_id
    await asking.extract_again(town.app, town.config, first, actor="ann")
    await town.correct(first, total=CORRECTED)
    await town.over()
    totals = await town.rows(f"SELECT data FROM documents WHERE id IN ('{first}', '{added.documents[1].document_id}')")
    found += [f"a correction was lost: {data}" for (data,) in totals if f'"total":"{CORRECTED}"' not in data]
    return found + await books_wrong(town.app) + await leftovers(town.app)


@cache
def points() -> dict[str, int]:
    """How many points of each kind a run passes by to which nothing happens."""
    return dict(survived([]).lives[0].points)


def chosen(kind: str) -> list[Point]:
    there = points()[kind]
    if EVERY or there <= ALONE:
        return [(kind, number) for number in range(1, there + 1)]
    return [(kind, 1 + round(place * (there - 1) / (ALONE - 1))) for place in range(ALONE)]


@pytest.mark.parametrize("kind", KINDS_OF_POINTS)
@pytest.mark.timeout(600)
def test_a_process_dies_at_every_point(kind: str, record_property: Callable[[str, object], None]) -> None:
    tried = chosen(kind)
    # Printed with what the simulation says of its seeds, at the end of the tests.
    record_property("simulation", f"documents: {len(tried)} of {points()[kind]} crashes {kind}")
    for point in tried:
        town = survived([point])
        assert town.lives[0].dead or point == (kind, points()[kind]), f"nobody died {point}"


@pytest.mark.timeout(600)
def test_processes_die_one_after_the_other() -> None:
    for seed in range(100 if EVERY else 6):
        rng = random.Random(f"deaths {seed}")
        kinds = rng.choices(KINDS_OF_POINTS, k=3)
        survived([(kind, rng.randint(1, points()[kind])) for kind in kinds], seed=seed)


def test_a_dead_process_does_not_keep_its_twin_waiting() -> None:
    """The one that asks for both dies with the question under way: the other takes over the job, and its lock."""
    with documents_town(plan=[("before request", 1)]) as town:

        async def main() -> None:
            twin = invoice(1)
            added = await town.add(*[twin] * 4)
            await town.over(within=120)
            ended = [await town.app.job(each.job_id) for each in added.documents]
            assert [job.status for job in ended] == ["completed"] * 4
            assert sorted(job.result["cached"] for job in ended) == [False, True, True, True]
            assert await books_wrong(town.app) == []

        town.play(main())
        assert town.lives[0].dead
        assert list(town.paid.values()) == [1]


def test_who_corrects_while_the_document_is_read_again_is_never_overruled() -> None:
    """At every moment of it, for the document itself and for a twin that is only just being read."""
    with documents_town() as town:

        async def at(turns: int, document: str, total: str) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            await town.correct(document, total=total)

        async def main() -> None:
            twin = invoice(1)
            (first,) = [each.document_id for each in (await town.add(twin)).documents]
            await town.over()
            for turns in range(0, 120, 1 if EVERY else 4):
                total = f"{1000 + turns}.25"
                await asking.extract_again(town.app, town.config, first, actor="ann")
                async with asyncio.TaskGroup() as group:
                    group.create_task(at(turns, first, total))
                    group.create_task(town.add(twin))
                await town.over()
                shown = {data.split('"total":"')[1].split('"')[0] for (data,) in await town.rows(TOTALS)}
                assert shown == {total}, turns
                assert await books_wrong(town.app) == [], turns

        town.play(main())


TOTALS = "SELECT substr(data, instr(data, '\"currency\"') - 30) FROM documents WHERE done = 1"


def test_many_jobs_that_end_at_once_publish_their_files_and_do_not_wait_for_ever(tmp_path: Path) -> None:
    """More of them than there are threads: whoever publishes needs one, and so does whoever waits for that."""
    write = Workflow("write", payload=int)

    @write.step
    async def write_two(number: int, ctx: Context) -> None:
        await ctx.output(f"{number}/a", b"a")
        await ctx.output(f"{number}/b", b"b")

    async def main() -> None:
        async with Penstock(workflows=[write], store=f"sqlite:///{tmp_path}/jobs.db", outputs=tmp_path / "out") as app:
            jobs = [told.job_id for told in await app.submit_many("write", list(range(50)))]
            async with app.worker(concurrency=50):
                for job in jobs:
                    assert (await app.wait(job, timeout=60)).status == "completed"
                async with asyncio.timeout(60):
                    while await app.engine.read("SELECT 1 FROM outputs WHERE published = 0"):
                        await asyncio.sleep(0.01)
            for number in range(50):
                assert await app.outputs.check(f"{number}/a") and await app.outputs.check(f"{number}/b")

    asyncio.run(main())
