"""Documents delivered by Celery as a user runs it: prefork workers, a real broker, a real PostgreSQL, and a Gemini that
counts what it is asked. Everything is killed in the middle once, and every document ends once all the same."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from penstock import Penstock
from penstock.builtin import installed_workflows
from penstock.delivery.celery.naming import celery_queue
from penstock.engine.errors import StoreError
from penstock.engine.model import FINAL
from penstock.pipelines.documents import asking, contents, reading
from penstock.pipelines.documents.samples import sample
from tests.support.celery_house import PATIENCE, House
from tests.support.documents_books import books_wrong, leftovers
from tests.support.documents_town import REPLY
from tests.support.gemini import Gemini, running_gemini
from tests.support.postgres import PostgresServer
from tests.support.redis import Missing, RedisServer

AT_ONCE = 4
DELAY = 0.3
"""Seconds that Gemini takes: long enough to be interrupted."""

READ, TWINS, HOSTILE = 9, 2, 1
"""Documents of the folder: of contents of their own, of one of these once more, and one that cannot be read."""


class Desk:
    """The client of a house: it takes documents in, and works on none."""

    def __init__(self, house: House, gemini: Gemini, app: Penstock, folder: Path) -> None:
        self.house, self.gemini, self.app, self._folder = house, gemini, app, folder

    def file(self, seed: int, kind: str = "pdf", **told: str) -> Path:
        content, made = sample(seed, kind=kind, **told)  # type: ignore[arg-type]
        path = self._folder / f"{seed}-{kind}{made.path.suffix}"
        path.write_bytes(content)
        return path

    def send(self, task: str, *args: Any) -> None:
        """As a program does that knows Celery and not Penstock."""
        with Celery(broker=self.house.broker, set_as_current=False) as client:
            client.send_task(task, args, queue=celery_queue("default"))

    async def add(self, *paths: Path) -> asking.AddedMany:
        settings = self.house.settings
        kept = [contents.copy_in(self.app.engine, "default", path, largest=1 << 24) for path in paths]
        return await asking.add(self.app, settings, kept, actor="ann")

    async def until(self, holds: Callable[[], Awaitable[object]], what: str) -> None:
        """The database may be away for a moment."""
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    try:
                        if await holds():
                            return
                    except StoreError:
                        pass
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"waited in vain for {what}: {self.house.log[-3000:]}") from None

    async def ended(self, batch: str, wanted: int) -> None:
        async def enough() -> bool:
            return (await self.app.batch(batch)).ended >= wanted

        await self.until(enough, f"{wanted} documents to end")

    async def status(self, document: str) -> str | None:
        found = [each for each in await reading.documents(self.app.engine) if each.id == document]
        return found[0].status if found else None

    def asked(self) -> int:
        return len(self.gemini.journal(method="POST", path="generateContent"))


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    try:
        server = RedisServer()
    except Missing as why:
        pytest.skip(f"needs Redis: {why}")
    yield server
    server.stop()


@pytest.mark.timeout(300)
def test_every_document_ends_once_whatever_dies(
    redis: RedisServer, postgres_server: PostgresServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In one go, since workers take their time to start."""
    house = House(redis, postgres_server.fresh_database(), tmp_path / "home")
    house.folder.mkdir()
    del house.told["app"]
    (tmp_path / "in").mkdir()

    async def main(gemini: Gemini) -> None:
        app = Penstock(workflows=installed_workflows())
        await app.open(store=house.store_url, settings=house.settings)
        desk = Desk(house, gemini, app, tmp_path / "in")
        try:
            await tasks_that_are_sent_by_name(desk)
            await a_folder_under_fire(desk, postgres_server)
            with caplog.at_level(logging.WARNING, "penstock.delivery"):
                await an_upload_without_a_broker(desk)
            assert "no hint was sent" in caplog.text
            assert await books_wrong(app) == []
            assert await leftovers(app) == []
        finally:
            await app.close()

    with running_gemini() as gemini:
        gemini.script([], {"json": REPLY, "delay": DELAY})
        house.told |= {
            "gemini.base_url": gemini.url,
            "gemini.api_key": "key",
            "documents.max_concurrent_tasks": str(AT_ONCE),
            "pool.workers": "1",
        }
        try:
            house.start()
            asyncio.run(main(gemini))
        finally:
            house.end(signal.SIGKILL)


async def tasks_that_are_sent_by_name(desk: Desk) -> None:
    """Twice each, at the same moment: one document, one job, one paid call."""
    path, damaged = desk.file(100), desk.file(101, "hostile", trouble="truncated")
    for _ in range(2):
        desk.send("process_document_task", "invoice-4711", str(path))
        desk.send("process_document_task", "invoice-4712", str(damaged))

    async def both_ended() -> bool:
        return {await desk.status("invoice-4711"), await desk.status("invoice-4712")} == {"completed", "failed"}

    await desk.until(both_ended, "the documents of two tasks")
    # What failed is tried again, and what is done is left alone.
    desk.send("batch_process_task", ["invoice-4711", "invoice-4712"])
    desk.send("batch_process_task", ["invoice-4711", "nobody-knows-it"])
    desk.send("process_document_task", "../../escape", str(path))

    async def tried_again() -> bool:
        jobs = await desk.app.jobs(workflow="documents")
        return [job.status for job in jobs if job.status in FINAL].count("failed") == 2

    await desk.until(tried_again, "the second try")
    await desk.until(_said(desk, "there is no document nobody-knows-it"), "the refusal of an unknown document")
    await desk.until(_said(desk, "is not a valid name"), "the refusal of a name")
    jobs = await desk.app.jobs(workflow="documents")
    assert Counter(job.status for job in jobs) == {"completed": 1, "failed": 2}
    assert len(await reading.documents(desk.app.engine)) == 2
    assert desk.asked() == 1
    assert "was refused: document invoice-4711 is there already" not in desk.house.log


def _said(desk: Desk, words: str) -> Callable[[], Awaitable[bool]]:
    async def said() -> bool:
        return words in desk.house.log

    return said


async def a_folder_under_fire(desk: Desk, postgres: PostgresServer) -> None:
    paths = [desk.file(seed) for seed in range(READ)]
    paths += [*paths[:TWINS], desk.file(50, "hostile", trouble="locked")]
    before = desk.asked()
    added = await desk.add(*paths)
    assert added.batch_id is not None and len(added.documents) == READ + TWINS + HOSTILE
    house = desk.house
    await desk.ended(added.batch_id, 2)
    # The whole worker dies, with documents under way; another takes its place.
    await asyncio.to_thread(house.end, signal.SIGKILL)
    await asyncio.to_thread(house.start)
    await desk.ended(added.batch_id, 4)
    house.redis.kill()
    await asyncio.to_thread(house.redis.start, empty=True)
    await desk.ended(added.batch_id, 6)
    await asyncio.to_thread(postgres.shut_down, signal.SIGQUIT)
    await asyncio.to_thread(postgres.start)
    await desk.ended(added.batch_id, len(paths))

    async def added_up() -> bool:
        follow_up = (await desk.app.batch(added.batch_id or "")).follow_up
        return follow_up is not None and (await desk.app.job(follow_up)).status == "completed"

    await desk.until(added_up, "the batch's result")
    told = (await desk.app.job((await desk.app.batch(added.batch_id)).follow_up or "")).result
    assert {name: told[name] for name in ("documents", "completed", "failed", "cached")} == {
        "documents": len(paths), "completed": READ + TWINS, "failed": HOSTILE, "cached": TWINS,
    }  # fmt: skip
    items = await desk.app.engine.read(
        (
            "SELECT i.document, COUNT(*) FROM review_items i JOIN documents d ON d.id = i.document"
            " WHERE d.batch = :batch GROUP BY i.document",
            {"batch": added.batch_id},
        )
    )
    assert Counter(count for _, count in items) == {1: READ + TWINS}
    # Each content has one answer that counts; what was asked once more had died with its worker, and is written down.
    calls = await desk.app.engine.read(
        (
            "SELECT c.attempt, c.state FROM calls c JOIN documents d ON d.job = c.job WHERE d.batch = :batch",
            {"batch": added.batch_id},
        )
    )
    assert Counter(state for _, state in calls)["collected"] == READ
    assert max(attempt for attempt, _ in calls) <= 2
    assert READ <= desk.asked() - before <= len(calls) <= READ + AT_ONCE


async def an_upload_without_a_broker(desk: Desk) -> None:
    desk.house.redis.kill()
    (added,) = (await desk.add(desk.file(200))).documents
    assert (await desk.app.job(added.job_id)).status == "queued"
    await asyncio.to_thread(desk.house.redis.start)
    assert (await desk.app.wait(added.job_id, timeout=PATIENCE)).status == "completed"
