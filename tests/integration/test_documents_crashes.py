"""A process of the documents pipeline dies: at commits, requests to Gemini and file operations, while documents are
read, reviewed and read again. Another goes on, and in the end everything is there once, and files say what rows say.

Of the many places some are chosen, evenly; `PENSTOCK_EVERY_CRASH=1` takes them all.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

import pytest

from penstock import Context, Penstock, Workflow
from penstock.config import Settings
from penstock.engine.errors import Conflict
from penstock.pipelines.documents import asking, contents
from penstock.pipelines.documents.model import InvoiceData
from penstock.pipelines.documents.sweeping import ORPHANED_AFTER, sweep_orphans
from penstock.pipelines.documents.watching import snapshot
from penstock.pipelines.documents.workflow import documents, export, many
from penstock.store.protocol import Once
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
    twins = await town.rows(f"SELECT data FROM documents WHERE id IN ('{first}', '{added.documents[1].document_id}')")
    totals = [str(InvoiceData.model_validate_json(data).total) for (data,) in twins]
    found += [] if totals == [CORRECTED] * 2 else [f"a correction was lost: {totals}"]
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
            for turns in range(120) if EVERY else range(0, 64, 4):
                total = f"{1000 + turns}.25"
                await asking.extract_again(town.app, town.config, first, actor="ann")
                async with asyncio.TaskGroup() as group:
                    group.create_task(at(turns, first, total))
                    group.create_task(town.add(twin))
                await town.over()
                rows = await town.rows("SELECT data FROM documents WHERE done = 1")
                assert {str(InvoiceData.model_validate_json(data).total) for (data,) in rows} == {total}, turns
                assert await books_wrong(town.app) == [], turns

        town.play(main())


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


def test_a_publisher_that_is_stopped_does_not_stop_the_others(tmp_path: Path) -> None:
    write = Workflow("write", payload=str)

    @write.step
    async def write_one(name: str, ctx: Context) -> None:
        await ctx.output(name, name.encode())

    async def main() -> None:
        root = tmp_path / "out"
        async with Penstock(workflows=[write], store=f"sqlite:///{tmp_path}/jobs.db", outputs=root) as app:
            async with app.worker():
                for name in ("a", "b"):
                    await app.wait((await app.submit("write", name)).job_id, timeout=60)
            (root / "default" / "b").unlink()
            with (root / ".publishing").open("w") as gate:
                fcntl.flock(gate, fcntl.LOCK_EX)
                first = asyncio.create_task(app.outputs.publish(["default/a"]))
                second = asyncio.create_task(app.outputs.publish(["default/b"]))
                await asyncio.sleep(0)
                first.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await first
                assert not second.done()
            assert await asyncio.wait_for(second, 60) == 1
            assert await app.outputs.check("b")

    asyncio.run(main())


async def opened(folder: Path) -> tuple[Penstock, Settings]:
    settings = Settings.model_validate({"home": folder, "gemini": {"base_url": "http://127.0.0.1:9", "api_key": "key"}})
    app = await Penstock(workflows=(documents, export, many, snapshot)).open(settings=settings)
    return app, settings


def test_documents_that_are_refused_leave_no_batch_open(tmp_path: Path) -> None:
    async def main() -> None:
        app, settings = await opened(tmp_path / "home")
        try:
            (tmp_path / "in.pdf").write_bytes(invoice(1))
            kept = [contents.copy_in(app.engine, "default", tmp_path / "in.pdf", largest=1 << 24) for _ in range(3)]
            await asking.add(app, settings, kept[:1])
            once = Once(scope="default/upload", key="monday", digest="three")
            with pytest.raises(Conflict, match="there already"):
                await asking.add(app, settings, kept, once=once)
            assert await app.batches(open=True) == []
            assert await app.engine.read("SELECT COUNT(*) FROM documents") == [(1,)]
            # Asked again when nothing stands in the way any more, it is done, and done once.
            await app.engine.write(("DELETE FROM documents WHERE id = :id", {"id": kept[0].document_id}))
            for _ in range(2):
                told = await asking.add(app, settings, kept, once=once)
                batch = await app.batch(told.batch_id or "")
                assert (batch.members, batch.sealed is not None) == (3, True)
            assert await app.engine.read("SELECT COUNT(*) FROM documents") == [(3,)]
        finally:
            await app.close()

    asyncio.run(main())


def test_the_same_file_that_is_brought_many_times_at_once_is_one_document(tmp_path: Path) -> None:
    async def main() -> None:
        app, settings = await opened(tmp_path / "home")
        try:
            (tmp_path / "in.pdf").write_bytes(invoice(1))
            bring = partial(asking.process_file, app, settings, "invoice-1", str(tmp_path / "in.pdf"))
            answers = await asyncio.gather(*(bring() for _ in range(6)))
            assert len({answer.job_id for answer in answers}) == 1
            assert len(await app.jobs(workflow="documents")) == 1
            assert await leftovers(app) == []
        finally:
            await app.close()

    asyncio.run(main())


def test_what_died_with_its_process_is_removed_after_a_day(tmp_path: Path) -> None:
    async def main() -> None:
        app, settings = await opened(tmp_path / "home")
        engine = app.engine
        try:
            (tmp_path / "in.pdf").write_bytes(invoice(1))
            known, orphan, fresh, foreign = [
                contents.copy_in(engine, tenant, tmp_path / "in.pdf", largest=1 << 24)
                for tenant in ("default", "default", "default", "globex")
            ]
            await asking.add(app, settings, [known])
            part = known.path.with_name(f".{orphan.document_id}.abcd.part")
            shelf = engine.home / "outputs" / "default" / "data" / "json" / "2026" / "11" / "15"
            shelf.mkdir(parents=True)
            torn, public = shelf / ".0123456789abcdef.tmp", shelf / "kept.json"
            for path in (part, torn, public):
                path.write_bytes(b"half")
            for path in (known.path, orphan.path, foreign.path, part, torn, public):
                os.utime(path, times=(time.time() - 1.5 * ORPHANED_AFTER,) * 2)
            async with app.worker():
                # Its other documents wait for a Gemini that is not there.
                job = await app.wait((await app.submit(snapshot, {})).job_id, timeout=60)
            assert job.status == "completed", job.error
            assert [path for path in (orphan.path, foreign.path, part, torn) if path.exists()] == []
            assert [path for path in (known.path, fresh.path, public) if not path.exists()] == []
            # What became a day old before the last sweep was looked at by it.
            os.utime(fresh.path, times=(time.time() - 1.5 * ORPHANED_AFTER,) * 2)
            assert await sweep_orphans(engine, engine.home, now=time.time(), since=time.time()) == 0
            assert await sweep_orphans(engine, engine.home, now=time.time()) == 1
        finally:
            await app.close()

    asyncio.run(main())
