"""A document's way through the pipeline: the real engine, SQLite, the process pool, and a Gemini that counts what it is
asked."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock import Penstock
from penstock.config import Settings
from penstock.engine.errors import Conflict, NotFound
from penstock.engine.model import Job
from penstock.pipelines.documents import asking, contents, queue, reading, sharing
from penstock.pipelines.documents.contents import content_path
from penstock.pipelines.documents.samples import sample
from penstock.pipelines.documents.workflow import documents, export, many
from tests.support.gemini import Gemini, running_gemini

REPLY = {
    "vendor": "Larkspur Paper Ltd", "invoice_number": "INV-7", "date": "2026-03-01", "due_date": None,
    "subtotal": "1000.00", "tax_rate": "20", "tax_amount": "200.00", "total": "1.200,00", "currency": "GBP",
    "line_items": [{"item": "Paper", "quantity": "10", "unit_price": "100", "total": "1000.00"}],
}  # fmt: skip


@pytest.fixture(scope="module")
def running() -> Iterator[Gemini]:
    with running_gemini(backend="script") as gemini:
        yield gemini


@pytest.fixture
def gemini(running: Gemini) -> Gemini:
    running.reset()
    running.script([], {"json": REPLY})
    return running


class Desk:
    def __init__(self, app: Penstock, settings: Settings, folder: Path) -> None:
        self.app, self.settings, self._folder = app, settings, folder
        self._files = 0

    def file(self, seed: int = 1, kind: str = "pdf", **told: Any) -> Path:
        content, made = sample(seed, kind=kind, **told)  # type: ignore[arg-type]
        self._files += 1
        path = self._folder / f"{self._files}{made.path.suffix}"
        path.write_bytes(content)
        return path

    async def add(self, *paths: Path, tenant: str = "default") -> asking.AddedMany:
        largest = self.settings.documents.largest_file
        kept = [contents.copy_in(self.app.engine, tenant, path, largest=largest) for path in paths]
        return await asking.add(self.app, self.settings, kept, tenant=tenant, actor="ann")

    async def done(self, *paths: Path, tenant: str = "default") -> list[tuple[str, Job]]:
        """The documents of these files, and how their jobs ended."""
        added = await self.add(*paths, tenant=tenant)
        return [(each.document_id, await self.app.wait(each.job_id, timeout=60)) for each in added.documents]

    async def written(self, document: str) -> dict[str, Any]:
        """What stands in its JSON, once everything that writes files is done and public."""
        async with asyncio.timeout(30):
            while await self.app.jobs(workflow=export.name, status=("queued", "running", "waiting"), limit=1):
                await asyncio.sleep(0.01)
            seen = (await reading.document(self.app.engine, document)).document
            file = await self.app.outputs.shown(f"data/json/{seen.folder}/{document}.json")
        told: dict[str, Any] = json.loads(file.read_bytes())
        return told

    def path(self, folder: str, document: str, kind: str = "json") -> Path:
        return self.app.outputs.path(f"data/{kind}/{folder}/{document}.{kind}")


@asynccontextmanager
async def desk(tmp_path: Path, gemini: Gemini, *, works: bool = True, **told: Any) -> AsyncIterator[Desk]:
    settings = Settings.model_validate(
        {"home": tmp_path / "home", "gemini": {"base_url": gemini.url, "api_key": "key"}, "documents": told}
    )
    (tmp_path / "in").mkdir(exist_ok=True)
    app = Penstock(workflows=(documents, export, many))
    await app.open(settings=settings)
    try:
        if works:
            async with app.worker():
                yield Desk(app, settings, tmp_path / "in")
        else:
            yield Desk(app, settings, tmp_path / "in")
    finally:
        await app.close()


def asked(gemini: Gemini) -> int:
    return len(gemini.journal(method="POST", path="generateContent"))


def test_a_document_is_read_saved_twice_and_put_before_a_reviewer(tmp_path: Path, gemini: Gemini) -> None:
    async def main() -> None:
        async with desk(tmp_path, gemini) as there:
            ((document, job),) = await there.done(there.file())
            assert job.status == "completed", job.error
            seen = await reading.document(there.app.engine, document)
            told = await there.written(document)
            assert told["invoice_data"]["total"] == "1200.00"
            assert told["invoice_data"]["due_date"] is None
            assert told["review_status"] == "pending"
            assert [field["field_name"] for field in told["field_confidences"]]
            assert seen.result is not None and seen.result.usage.input_tokens > 0
            (row,) = pq.read_table(there.path(seen.document.folder or "", document, "parquet")).to_pylist()
            assert (row["total"], row["due_date"], row["num_line_items"]) == (Decimal("1200.000000"), None, 1)
            assert json.loads(row["line_items_json"])[0]["item"] == "Paper"
            assert row["content_hash"] == seen.document.content_hash
            (item,) = await reading.queue(there.app.engine)
            assert (item.id, item.document) == (job.result["review_item_id"], document)
        assert asked(gemini) == 1

    asyncio.run(main())


def test_the_same_bytes_are_paid_once_also_when_they_come_at_the_same_moment(tmp_path: Path, gemini: Gemini) -> None:
    gemini.script([], {"json": REPLY, "delay": 0.3})

    async def main() -> None:
        async with desk(tmp_path, gemini) as there:
            path = there.file()
            ended = await there.done(*[path] * 8)
            assert {job.status for _, job in ended} == {"completed"}
            assert sorted(job.result["cached"] for _, job in ended) == [False] + [True] * 7
            assert asked(gemini) == 1
            ((again, job),) = await there.done(path)
            assert job.result["cached"] and asked(gemini) == 1
            # Each has files and a review of its own.
            assert (await there.written(again))["document_id"] == again
            assert len(await reading.queue(there.app.engine)) == 9
            # Another tenant's bytes are nobody's business.
            ((_, theirs),) = await there.done(path, tenant="globex")
            assert not theirs.result["cached"] and asked(gemini) == 2

    asyncio.run(main())


def test_who_waits_for_a_twin_that_fails_tries_itself(tmp_path: Path, gemini: Gemini) -> None:
    gemini.script([{"times": 1, "blocked": "SAFETY", "delay": 0.2}], {"json": REPLY})

    async def main() -> None:
        async with desk(tmp_path, gemini) as there:
            path = there.file()
            ended = await there.done(path, path)
            assert sorted(job.status for _, job in ended) == ["completed", "failed"]
            assert "refused this document" in next(job.error or "" for _, job in ended if job.status == "failed")
        assert asked(gemini) == 2

    asyncio.run(main())


def test_an_e_invoice_costs_nothing_and_a_page_that_contradicts_it_is_told(tmp_path: Path, gemini: Gemini) -> None:
    async def main() -> None:
        async with desk(tmp_path, gemini) as there:
            ((good, _), (bad, _)) = await there.done(there.file(3, "facturx"), there.file(4, "facturx_conflict"))
            fine = await reading.document(there.app.engine, good)
            assert fine.result is not None and fine.result.source == "e-invoice"
            assert fine.result.findings == () and fine.result.overall_confidence > 0.9
            wrong = await reading.document(there.app.engine, bad)
            assert wrong.result is not None and "contradicts" in " ".join(wrong.result.findings)
            assert await sharing.batch_approve(there.app.engine, actor="ann", min_confidence=0.0) == [
                fine.document.review_item
            ]
        assert asked(gemini) == 0

    asyncio.run(main())


def test_useless_answers_are_asked_for_again_but_not_for_ever(tmp_path: Path, gemini: Gemini) -> None:
    gemini.script([{"times": 1, "reply": "I am sorry."}, {"model": "flash", "reply": "{}"}])

    async def main() -> None:
        async with desk(tmp_path, gemini) as there:
            ((_, job),) = await there.done(there.file())
            assert job.status == "failed"
            assert "tried 3 times" in (job.error or "")
        assert asked(gemini) == 3

    asyncio.run(main())


@pytest.mark.parametrize("trouble", ["truncated", "text", "locked", "no_pages", "huge_picture", "cut_picture"])
def test_a_file_that_cannot_be_read_fails_at_once_and_says_why(tmp_path: Path, gemini: Gemini, trouble: str) -> None:
    async def main() -> None:
        async with desk(tmp_path, gemini) as there:
            ((document, job),) = await there.done(there.file(2, "hostile", trouble=trouble))
            assert job.status == "failed" and job.attempt == 1
            assert job.error and "Traceback" not in job.error
            seen = (await reading.document(there.app.engine, document)).document
            assert (seen.status, seen.error) == ("failed", job.error)
            assert await reading.queue(there.app.engine) == []
        assert asked(gemini) == 0

    asyncio.run(main())


def test_many_have_one_result_and_work_on_a_few_at_once(tmp_path: Path, gemini: Gemini) -> None:
    gemini.script([], {"json": REPLY, "delay": 0.05})

    async def main() -> None:
        async with desk(tmp_path, gemini, max_concurrent_tasks=2) as there:
            paths = [there.file(seed) for seed in range(10, 15)]
            added = await there.add(*paths, there.file(2, "hostile", trouble="truncated"), paths[0])
            assert added.batch_id is not None
            most = 0
            async with asyncio.timeout(60):
                while (batch := await there.app.batch(added.batch_id)).finished is None or batch.follow_up is None:
                    begun = await there.app.jobs(batch=added.batch_id, status=("running", "waiting"), limit=50)
                    most = max(most, len(begun))
                    await asyncio.sleep(0.01)
            assert 1 <= most <= 2
            job = await there.app.wait(batch.follow_up, timeout=30)
            told = job.result
            assert {name: told[name] for name in ("documents", "completed", "failed", "cached")} == {
                "documents": 7, "completed": 6, "failed": 1, "cached": 1,
            }  # fmt: skip
            assert told["totals"] == {"GBP": "7200.00"}
            assert len(told["failures"]) == 1

    asyncio.run(main())


def test_a_correction_is_in_the_files_and_outlives_a_second_reading(tmp_path: Path, gemini: Gemini) -> None:
    async def main() -> None:
        async with desk(tmp_path, gemini) as there:
            path = there.file()
            ((document, job),) = await there.done(path)
            item = job.result["review_item_id"]
            await queue.claim(there.app.engine, item, actor="ann")
            await queue.submit(there.app.engine, item, "correct", actor="ann", corrections={"total": "1234.50"})
            told = await there.written(document)
            assert told["invoice_data"]["total"] == "1234.50"
            assert (told["review_status"], told["locked_fields"]) == ("corrected", ["total"])
            # A second reading is paid for, finds something else, and does not win.
            gemini.script([], {"json": {**REPLY, "total": "999.00", "vendor": "Larkspur"}})
            again = await asking.extract_again(there.app, there.settings, document, actor="ann")
            assert (await there.app.wait(again.job_id, timeout=60)).status == "completed"
            assert asked(gemini) == 2
            seen = await reading.document(there.app.engine, document)
            data = seen.document.data
            assert data is not None and (str(data.total), data.vendor) == ("1234.50", "Larkspur")
            assert [(each.locked, each.extracted) for each in seen.differences] == [("1234.50", "999.00")]
            assert seen.document.review_status == "pending", "what was decided about the first reading does not stand"
            # The same bytes under another name inherit it.
            ((other, _),) = await there.done(path)
            assert (await there.written(other))["invoice_data"]["total"] == "1234.50"
            with pytest.raises(NotFound):
                await asking.extract_again(there.app, there.settings, document, tenant="globex")

    asyncio.run(main())


def test_a_deleted_document_is_gone_everywhere(tmp_path: Path, gemini: Gemini) -> None:
    async def main() -> None:
        async with desk(tmp_path, gemini) as there:
            path = there.file()
            ((first, job), (second, _)) = await there.done(path, path)
            item = job.result["review_item_id"]
            await queue.claim(there.app.engine, item, actor="ann")
            await queue.submit(there.app.engine, item, "correct", actor="ann", corrections={"vendor": "Sekretarius"})
            await there.written(first)
            await asking.forget(there.app, first, actor="ann")
            with pytest.raises(NotFound):
                await reading.document(there.app.engine, first)
            # Its twin lives on, with what is known of their content.
            assert (await reading.document(there.app.engine, second)).document.data.vendor == "Sekretarius"  # type: ignore[union-attr]
            await asking.forget(there.app, second, actor="ann")
            entries = await there.app.audit(action="document.delete")
            assert {entry.target for entry in entries} == {f"document:{first}", f"document:{second}"}
        home = tmp_path / "home"
        left = [path for path in home.rglob("*") if (path.is_file() and first in path.name) or second in path.name]
        assert left == []

    async def asked_again() -> None:
        async with desk(tmp_path, gemini, works=False) as there:
            for table in ("documents", "document_extractions", "document_locks", "review_items", "review_audit"):
                assert await there.app.engine.read(f"SELECT COUNT(*) FROM {table}") == [(0,)], table
            for words in ("SELECT payload, result, error FROM jobs", "SELECT result, error FROM calls",
                          "SELECT text FROM logs", "SELECT note FROM history"):  # fmt: skip
                told = json.dumps(await there.app.engine.read(words))
                assert "Sekretarius" not in told and "Larkspur" not in told and "1.pdf" not in told, words

    asyncio.run(main())
    asyncio.run(asked_again())


def test_a_full_disk_leaves_nothing_half_and_is_tried_again(
    tmp_path: Path, gemini: Gemini, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk itself cannot be filled here: the call that writes to it fails as it would."""
    full = {"is": True}
    real = os.fsync

    def fsync(descriptor: int) -> None:
        name = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        if full["is"] and "/outputs/" in name:
            full["is"] = False
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    async def main() -> None:
        async with desk(tmp_path, gemini) as there:
            monkeypatch.setattr(os, "fsync", fsync)
            added = await there.add(there.file())
            job_id = added.documents[0].job_id
            async with asyncio.timeout(30):
                while full["is"] or (await there.app.job(job_id)).status != "waiting":
                    await asyncio.sleep(0.01)
            waiting = await there.app.job(job_id)
            assert waiting.step == "save" and "no space left" in (waiting.error or "")
            assert not list((tmp_path / "home" / "outputs").rglob("*.tmp"))
            await there.app.engine.write(("UPDATE jobs SET due = 0 WHERE id = :id", {"id": job_id}))
            assert (await there.app.wait(job_id, timeout=60)).status == "completed"
        assert asked(gemini) == 1

    asyncio.run(main())


def test_work_on_a_document_that_is_deleted_meanwhile_stores_nothing(tmp_path: Path, gemini: Gemini) -> None:
    gemini.script([], {"json": REPLY, "delay": 0.5})

    async def main() -> None:
        async with desk(tmp_path, gemini) as there:
            added = (await there.add(there.file())).documents[0]
            async with asyncio.timeout(30):
                while (await there.app.job(added.job_id)).step != "extract":
                    await asyncio.sleep(0.01)
            with pytest.raises(Conflict, match="still being worked on"):
                await asking.extract_again(there.app, there.settings, added.document_id)
            await asking.forget(there.app, added.document_id, actor="ann")
            assert (await there.app.job(added.job_id)).status == "canceled"
            assert await reading.documents(there.app.engine) == []
            assert not content_path(there.app.engine.home, "default", added.document_id).exists()
            assert not list((tmp_path / "home" / "outputs").rglob("*.json"))

    asyncio.run(main())
