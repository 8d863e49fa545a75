"""What holds the documents pipeline together: who is paid, and how often; what a lock, a reopening or a deletion brings
with it; and that nobody's document is touched by what is done to another's."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock import Context, Penstock, Workflow
from penstock.config import Settings
from penstock.engine.errors import Conflict, NotFound
from penstock.engine.model import Job
from penstock.engine.outcome import Again
from penstock.paper.unreadable import Unreadable
from penstock.pipelines.documents import asking, checking, contents, queue, reading, rules, sharing
from penstock.pipelines.documents.sla import Bounds
from penstock.pipelines.documents.watching import watch
from penstock.pipelines.documents.workflow import documents, export, many
from penstock.pipelines.documents.working import CREDIT_NOTE
from penstock.store.protocol import Tidy
from tests.support.documents import Office, office
from tests.support.documents_books import books_wrong
from tests.support.documents_town import REPLY, DocumentsTown, documents_town, invoice

GOOD_ANSWER = {"match": "", "json": REPLY}
BLOCKED = {"match": "", "blocked": "SAFETY"}
USELESS = {"match": "", "reply": "I am sorry."}


@contextmanager
def town(*script: dict[str, Any]) -> Iterator[DocumentsTown]:
    with documents_town() as there:
        if script:
            there.script(script)
        yield there


async def take(
    there: DocumentsTown, content: bytes | None = None, *, tenant: str = "default", settings: Settings | None = None
) -> asking.Added:
    with contents.receive(there.app.engine, tenant, "Sekret.pdf", largest=1 << 24) as incoming:
        incoming.write(invoice(1) if content is None else content)
        kept = incoming.keep()
    added = await asking.add(there.app, settings or there.config, [kept], tenant=tenant, actor="ann")
    return added.documents[0]


async def newest(there: DocumentsTown, document: str) -> Job:
    """The last run of the job that works on a document."""
    return await there.app.job((await reading.document(there.app.engine, document)).document.job)


async def result_of(there: DocumentsTown, document: str) -> Any:
    found = (await reading.document(there.app.engine, document)).result
    assert found is not None
    return found


def paid(there: DocumentsTown) -> int:
    return sum(there.paid.values())


async def file_of(there: DocumentsTown, folder: str, document: str, tenant: str = "default") -> dict[str, Any]:
    file = await there.app.outputs.shown(f"data/json/{folder}/{document}.json", tenant=tenant)
    told: dict[str, Any] = json.loads(file.read_bytes())
    return told


# What is paid.


@pytest.mark.parametrize(
    ("answers", "first", "in_all"),
    [
        ([BLOCKED | {"times": 1}], 1, 2),
        ([USELESS | {"times": 3}], 3, 4),
        ([USELESS | {"times": 5}], 3, 6),
    ],
)
def test_a_retry_of_what_the_model_would_not_read_asks_anew(answers: Any, first: int, in_all: int) -> None:
    with town(*answers, GOOD_ANSWER) as there:

        async def main() -> None:
            document = (await take(there)).document_id
            await there.over()
            assert (await newest(there, document)).status == "failed"
            assert paid(there) == first
            await asking.process_again(there.app, [document])
            await there.over()
            job = await newest(there, document)
            assert (job.status, job.run) == ("completed", 2), job.error
            assert paid(there) == in_all
            assert await books_wrong(there.app) == []

        there.play(main())


def test_a_retry_is_not_answered_for_ever_either() -> None:
    with town(USELESS) as there:

        async def main() -> None:
            document = (await take(there)).document_id
            await there.over()
            for times in (6, 9):
                await asking.process_again(there.app, [document])
                await there.over()
                job = await newest(there, document)
                assert job.status == "failed" and f"tried {times} times" in (job.error or "")
                assert paid(there) == times

        there.play(main())


def test_a_retry_after_a_twin_has_brought_the_answer_pays_nothing() -> None:
    with town(BLOCKED | {"times": 1}, GOOD_ANSWER) as there:

        async def main() -> None:
            first = (await take(there)).document_id
            await there.over()
            await take(there)
            await there.over()
            assert paid(there) == 2
            await asking.process_again(there.app, [first])
            await there.over()
            job = await newest(there, first)
            assert job.status == "completed" and job.result["cached"] is True
            assert paid(there) == 2
            assert (await result_of(there, first)).document_id == first
            assert await books_wrong(there.app) == []

        there.play(main())


@pytest.mark.parametrize("retry_first", [True, False])
def test_a_retry_and_a_twin_at_the_same_moment_pay_once(retry_first: bool) -> None:
    with town(BLOCKED | {"times": 1}, GOOD_ANSWER | {"delay": 3}) as there:

        async def main() -> None:
            first = (await take(there)).document_id
            await there.over()
            both = [asking.process_again(there.app, [first]), take(there)]
            for each in both if retry_first else reversed(both):
                await each  # type: ignore[misc]
            await there.over()
            rows = await there.rows("SELECT done FROM documents")
            assert rows == [(1,), (1,)]
            assert paid(there) == 2
            assert await books_wrong(there.app) == []

        there.play(main())


def test_what_is_known_costs_nothing_and_tells_of_nobody() -> None:
    own = Settings.model_validate({"local_gemini": {"use": "always"}})
    with town() as there:

        async def main() -> None:
            first, second = (await take(there)).document_id, (await take(there)).document_id
            await there.over()
            usages = [(await result_of(there, each)).usage for each in (first, second)]
            free, spent = sorted(usages, key=lambda usage: usage.input_tokens)
            assert (free.input_tokens, free.output_tokens, free.cost_usd) == (0, 0, 0)
            assert spent.input_tokens > 0 and spent.cost_usd > 0
            # Another Gemini is another answer. Penstock's own charges nobody.
            settings = own.model_copy(update={"home": there.config.home})
            third = (await take(there, settings=settings)).document_id
            await there.over()
            assert paid(there) == 2
            result = await result_of(there, third)
            assert result.usage.input_tokens > 0 and result.usage.cost_usd == 0
            kept = json.dumps(await there.rows("SELECT * FROM document_extractions"))
            assert "Sekret" not in kept and not any(each in kept for each in (first, second, third))
            assert len(await there.rows("SELECT 1 FROM document_extractions")) == 2

        there.play(main())


def test_an_answer_that_comes_while_one_waits_for_the_lock_is_not_paid_again() -> None:
    """Whoever held the lock until now stored its answer with letting go of it: that is what the trigger does."""
    with town() as there:

        async def main() -> None:
            await take(there)
            await there.over()
            for statement in (
                "CREATE TABLE kept AS SELECT * FROM document_extractions",
                "DELETE FROM document_extractions",
                "CREATE TRIGGER brought AFTER INSERT ON locks WHEN NEW.name LIKE 'document%'"
                " BEGIN INSERT OR REPLACE INTO document_extractions SELECT * FROM kept; END",
            ):
                await there.app.engine.write(statement)
            second = await take(there)
            await there.over()
            assert (await there.app.job(second.job_id)).result["cached"] is True
            assert paid(there) == 1

        there.play(main())


def test_a_file_that_changed_on_the_disk_is_not_read() -> None:
    with town() as there:

        async def main() -> None:
            engine = there.app.engine
            with contents.receive(engine, "default", "a.pdf", largest=1 << 24) as incoming:
                incoming.write(invoice(1))
                kept = incoming.keep()
            kept.path.write_bytes(invoice(2))
            added = (await asking.add(there.app, there.config, [kept])).documents[0]
            await there.over()
            job = await there.app.job(added.job_id)
            assert job.status == "failed" and "not what was uploaded" in (job.error or "")
            assert paid(there) == 0

        there.play(main())


def test_an_e_invoice_that_gives_money_back_says_so() -> None:
    with town() as there:

        async def main() -> None:
            document = (await take(there, invoice(1, "facturx", document_kind="credit_note"))).document_id
            await there.over()
            result = await result_of(there, document)
            assert (result.invoice_data.total or 0) > 0 and CREDIT_NOTE in result.findings
            plain = (await take(there, invoice(1, "facturx", document_kind="invoice"))).document_id
            await there.over()
            assert CREDIT_NOTE not in (await result_of(there, plain)).findings
            assert await sharing.batch_approve(there.app.engine, actor="ann", min_confidence=0.0) == [
                (await reading.document(there.app.engine, plain)).document.review_item
            ]
            assert paid(there) == 0

        there.play(main())


# What a decision brings with it.


def test_what_is_decided_anew_is_pending_until_then_and_the_files_say_so() -> None:
    with town() as there:

        async def main() -> None:
            engine = there.app.engine
            document = (await take(there)).document_id
            await there.over()

            async def shows(row: str, item: str) -> str:
                """What its files say, once they say what the row does."""
                await there.over()
                assert await books_wrong(there.app) == []
                found = (await reading.document(engine, document)).document
                assert found.review_status == row
                assert (await queue.item(engine, found.review_item or "")).status == item
                return str((await file_of(there, found.folder or "", document))["review_status"])

            await there.correct(document, total="1234.50")
            item = (await reading.document(engine, document)).document.review_item or ""
            assert await shows("corrected", "corrected") == "corrected"
            await queue.claim(engine, item, actor="bob", reopen=True)
            assert await shows("pending", "in_review") == "pending"
            await queue.release(engine, item, actor="bob")
            assert await shows("pending", "pending") == "pending"
            await queue.claim(engine, item, actor="bob")
            await queue.submit(engine, item, "approve", actor="bob")
            assert await shows("approved", "approved") == "approved"
            # What was approved was the value that a person had set.
            await queue.unlock(engine, document, "total", actor="cy")
            assert await shows("pending", "pending") == "pending"
            found = await queue.item(engine, item)
            assert (found.assigned_to, found.claim_until) == (None, None)

        there.play(main())


def test_who_has_it_in_hand_while_it_is_read_again_claims_it_again() -> None:
    with town() as there:

        async def main() -> None:
            engine = there.app.engine
            document = (await take(there)).document_id
            await there.over()
            item = (await reading.document(engine, document)).document.review_item or ""
            await queue.claim(engine, item, actor="ann")
            await asking.extract_again(there.app, there.config, document, actor="bob")
            await there.over()
            found = await queue.item(engine, item)
            assert (found.status, found.assigned_to, found.claim_until) == ("pending", "ann", None)
            with pytest.raises(Conflict, match="claim it first"):
                await queue.submit(engine, item, "approve", actor="ann")
            with pytest.raises(Conflict, match="assigned to ann"):
                await queue.claim(engine, item, actor="cy")
            await queue.claim(engine, item, actor="ann")
            assert (await queue.submit(engine, item, "approve", actor="ann")).status == "approved"
            assert paid(there) == 2

        there.play(main())


def test_the_same_content_is_surer_where_its_doubtful_fields_are_locked() -> None:
    """The page says nothing of what the model answers here, so everything is in doubt."""
    with town() as there:

        async def main() -> None:
            engine = there.app.engine
            first = (await take(there)).document_id
            await there.over()
            before = (await reading.document(engine, first)).document.confidence or 1.0
            result = await result_of(there, first)
            doubtful = rules.doubtful(result.field_confidences)
            assert {"vendor", "total"} <= set(doubtful)
            await there.correct(first, total="1300.00", vendor="Another Ltd")
            second = (await take(there)).document_id
            await there.over()
            for document in (first, second):
                (row,) = await there.rows(
                    "SELECT d.confidence, i.confidence FROM documents d JOIN review_items i ON i.id = d.review_item"
                    f" WHERE d.id = '{document}'"
                )
                assert row[0] == row[1] > before
                found = (await reading.document(engine, document)).document
                told = await file_of(there, found.folder or "", document)
                sure = {each["field_name"]: each["confidence"] for each in told["field_confidences"]}
                assert sure["total"] == sure["vendor"] == 1.0 and told["overall_confidence"] == row[0]
            await queue.unlock(engine, second, "total", actor="ann")
            await there.over()
            rows = await there.rows(
                "SELECT d.confidence, i.confidence, i.approvable FROM documents d JOIN review_items i"
                " ON i.id = d.review_item"
            )
            assert len(rows) == 2 and all(row[0] == row[1] and row[2] == 0 for row in rows)

        there.play(main())


# Nobody else's.


def test_what_one_tenant_corrects_is_nothing_to_another_with_the_same_bytes() -> None:
    with town() as there:

        async def main() -> None:
            engine = there.app.engine
            mine, theirs = (await take(there)).document_id, (await take(there, tenant="globex")).document_id
            await there.over()
            assert paid(there) == 2

            async def of_globex() -> list[Any]:
                tables = ("documents", "document_extractions", "document_locks", "review_items", "review_audit")
                rows = [await there.rows(f"SELECT * FROM {table} WHERE tenant = 'globex'") for table in tables]
                files = sorted((engine.home / "outputs" / "globex").rglob("*"))
                stamps = [(str(path), path.stat().st_ino, path.stat().st_mtime_ns) for path in files if path.is_file()]
                assert len(stamps) >= 2
                return [*rows, stamps]

            before = await of_globex()
            await there.correct(mine, total="1234.50")
            await there.over()
            found = (await reading.document(engine, mine)).document
            assert (await file_of(there, found.folder or "", mine))["invoice_data"]["total"] == "1234.50"
            assert await of_globex() == before
            # Nor when theirs is read, or written, after that.
            again = (await take(there, tenant="globex")).document_id
            item = (await reading.document(engine, theirs)).document.review_item or ""
            await queue.claim(engine, item, actor="gil")
            await queue.submit(engine, item, "approve", actor="gil")
            await there.over()
            for document in (theirs, again):
                detail = await reading.document(engine, document)
                assert str(detail.document.data.total) == "1200.00" and detail.locks == ()  # type: ignore[union-attr]
                told = await file_of(there, detail.document.folder or "", document, "globex")
                assert (told["invoice_data"]["total"], told["locked_fields"]) == ("1200.00", [])
            await queue.unlock(engine, mine, "total", actor="ann")
            await there.over()
            # What is known of the content stays with whoever still has it.
            await asking.forget(there.app, mine, actor="ann")
            assert await there.rows("SELECT tenant FROM document_extractions") == [("globex",)]
            await take(there, tenant="globex")
            await there.over()
            assert paid(there) == 2

        there.play(main())


def test_what_is_known_of_a_content_goes_with_its_last_document() -> None:
    with town() as there:

        async def main() -> None:
            first, second = (await take(there)).document_id, (await take(there)).document_id
            await there.over()
            await there.correct(first, total="1234.50")
            await there.over()

            async def known() -> list[int]:
                tables = ("document_extractions", "document_locks")
                return [len(await there.rows(f"SELECT 1 FROM {table}")) for table in tables]

            assert await known() == [1, 1]
            await asking.forget(there.app, first, actor="ann")
            assert await known() == [1, 1]
            third = (await take(there)).document_id
            await there.over()
            assert str((await reading.document(there.app.engine, third)).document.data.total) == "1234.50"  # type: ignore[union-attr]
            for document in (second, third):
                await asking.forget(there.app, document, actor="ann")
            assert await known() == [0, 0]
            assert paid(there) == 1

        there.play(main())


def test_a_document_that_is_deleted_while_its_files_are_written_leaves_none() -> None:
    with town() as there:

        async def main() -> None:
            added = await take(there)
            outputs = there.files_below

            def written() -> list[Path]:
                return [path for path in outputs.rglob(f"*{added.document_id}*") if path.is_file()]

            async with asyncio.timeout(600):
                while not written():
                    await asyncio.sleep(0)
            ((done,),) = await there.rows("SELECT done FROM documents")
            assert done == 0, "it was to be caught before its first files were committed"
            await asking.forget(there.app, added.document_id, actor="ann")
            await there.over()
            assert written() == [] and await there.rows("SELECT name FROM outputs") == []
            assert await there.rows("SELECT id FROM documents") == []

        there.play(main())


def test_a_batch_adds_up_when_one_of_it_was_deleted_and_names_no_files() -> None:
    with town(GOOD_ANSWER | {"delay": 2.5}) as there:

        async def main() -> None:
            broken = [invoice(2, "hostile", trouble=trouble) for trouble in ("truncated", "text")]
            added = await there.add(invoice(1), *broken)
            _, gone, failed = added.documents
            for each in (gone, failed):
                await there.app.wait(each.job_id, timeout=60)
            await asking.forget(there.app, gone.document_id, actor="ann")
            await there.over()
            batch = await there.app.batch(added.batch_id or "")
            told = (await there.app.job(batch.follow_up or "")).result
            assert (told["documents"], told["completed"], told["failed"]) == (3, 1, 2)
            assert told["totals"] == {"GBP": "1200.00"}
            words = dict(each.split(": ", 1) for each in told["failures"])
            assert set(words) == {gone.job_id, failed.document_id}
            assert words[gone.job_id] == "deleted" and ".pdf" not in json.dumps(told)
            lines = await there.app.audit(action="document.add")
            assert [line.detail for line in lines] == ["3 documents"]
            await take(there)
            lines = await there.app.audit(action="document.add")
            assert {line.detail for line in lines} == {"3 documents", "1 document"}

        there.play(main())


def test_a_document_that_failed_long_ago_is_still_one_that_failed() -> None:
    with town() as there:

        async def main() -> None:
            added = await take(there, invoice(2, "hostile", trouble="truncated"))
            await there.over()
            engine = there.app.engine
            assert (await reading.document(engine, added.document_id)).document.status == "failed"
            await there.store.apply([Tidy(keep_completed=0.0, keep_failed=0.0)])
            with pytest.raises(NotFound):
                await there.app.job(added.job_id)
            assert (await reading.document(engine, added.document_id)).document.status == "failed"
            assert [each.id for each in await reading.documents(engine, status="failed")] == [added.document_id]
            assert await reading.documents(engine, status="processing") == []
            # Nothing works on it, so it can be tried again.
            await asking.extract_again(there.app, there.config, added.document_id)

        there.play(main())


# What comes in.


def test_an_id_that_comes_twice_keeps_its_first_content(tmp_path: Path) -> None:
    async def main() -> None:
        async with office(tmp_path) as there:

            def bring(content: bytes) -> contents.Kept:
                (tmp_path / "in.pdf").write_bytes(content)
                return contents.copy_in(
                    there.engine, "default", tmp_path / "in.pdf", largest=100, document_id="invoice-1"
                )

            first = bring(b"one")
            assert bring(b"one") == first
            with pytest.raises(Conflict, match="with another content"):
                bring(b"two")
            assert first.path.read_bytes() == b"one"
            assert [path.name for path in first.path.parent.iterdir()] == ["invoice-1"]
            # Whoever reads a pipe waits for somebody who writes into it.
            os.mkfifo(tmp_path / "pipe")
            for nothing in ("pipe", "gone", "home"):
                with pytest.raises(Unreadable):
                    contents.copy_in(there.engine, "default", tmp_path / nothing, largest=100)

    asyncio.run(main())


# What looks after it by the clock.


holder = Workflow("holder", payload=str)


@holder.step
async def hold(lock: str, ctx: Context) -> Again:
    assert await ctx.lock(lock)
    return Again(lock, after=3600.0)


def test_files_that_were_given_up_are_asked_for_again_by_one_check_at_a_time(tmp_path: Path) -> None:
    async def main() -> None:
        settings = Settings(home=tmp_path / "home")
        app = await Penstock(workflows=(documents, export, many, watch, holder)).open(settings=settings)
        bounds = Bounds.of(settings.documents)
        try:
            there = Office(app, settings, app.engine.clock)  # type: ignore[arg-type]
            planted = {tenant: (await there.plant(tenant=tenant))[0] for tenant in ("default", "globex")}
            good = await app.engine.read("SELECT id, extraction FROM documents")
            await app.engine.write("UPDATE documents SET exported = 0, extraction = '{'")

            async def checked() -> list[Job]:
                """The exports that there are after a check."""
                job = await app.wait((await app.submit(watch, bounds)).job_id, timeout=30)
                assert job.status == "completed", job.error
                return await app.jobs(workflow="documents.export", limit=50)

            async with app.worker():
                keeper = (await app.submit(holder, checking.LOCK)).job_id
                async with asyncio.timeout(30):
                    while (await app.job(keeper)).status != "waiting":
                        await asyncio.sleep(0.01)
                assert await checked() == []
                await app.cancel(keeper)
                await app.wait(keeper, timeout=30)
                exports = await checked()
                assert sorted(job.tenant for job in exports) == ["default", "globex"]
                assert {job.id for job in await checked()} == {job.id for job in exports}, "those are under way"
                # They come to nothing.
                for job in exports:
                    await app.cancel(job.id)
                    assert (await app.wait(job.id, timeout=30)).status == "canceled"
                for id, extraction in good:
                    change = "UPDATE documents SET extraction = :extraction WHERE id = :id"
                    await app.engine.write((change, {"id": id, "extraction": extraction}))
                again = {job.id for job in await checked()} - {job.id for job in exports}
                assert [(await app.wait(job, timeout=30)).status for job in again] == ["completed"] * 2
                assert {job.id for job in await checked()} == again | {job.id for job in exports}
            for tenant, document in planted.items():
                file = await app.outputs.shown(f"data/json/2027/01/15/{document}.json", tenant=tenant)
                told = json.loads(file.read_bytes())
                assert told["document_id"] == document
            assert await app.engine.read("SELECT exported - revision FROM documents") == [(0,), (0,)]
        finally:
            await app.close()

    asyncio.run(main())
