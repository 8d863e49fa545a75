"""The documents pipeline under watch: what `/metrics` tells of it, broken promises that are told of once, snapshots of
hours, and the schedules that a first document brings."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock import Penstock
from penstock.config.settings import DocumentsSettings, Settings
from penstock.engine.model import Job
from penstock.pipelines.documents import asking, measuring, metrics, queue, snapshots, watching
from penstock.pipelines.documents.contents import receive
from penstock.pipelines.documents.dashboard.needs import needs
from penstock.pipelines.documents.exposing import families
from penstock.pipelines.documents.samples import sample
from penstock.pipelines.documents.sla import HOUR, Bounds
from penstock.pipelines.documents.watching import snapshot, watch
from penstock.pipelines.documents.workflow import documents, export, many
from penstock.service.metrics import Metrics
from penstock.service.notices import WEBHOOK_WORKFLOW
from penstock.service.notifier import Notifier
from penstock.service.sections import found_sections
from penstock.store.protocol import SetCursor
from tests.support.api import Api, serving
from tests.support.house import in_a_loop

WORKFLOWS = [documents, export, many, watch, snapshot]
STRICT = Bounds.of(DocumentsSettings(sla_depth=0, sla_p95=1000.0))
LAX = Bounds.of(DocumentsSettings(sla_depth=1000, sla_p95=1000.0, sla_error_rate=1.0))


async def scraped(api: Api) -> dict[tuple[str, str], float]:
    """(name, the value of its one label, or "") → value, of what is not Penstock's own; `_bucket` left out. Nothing is
    kept from an earlier scrape."""
    text, _ = await Metrics(api.service).exposition()
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if not sample.name.startswith(("penstock_", "process_")) and not sample.name.endswith("_bucket")
    }


async def add(api: Api, name: str, content: bytes) -> asking.Added:
    engine = api.penstock.engine
    with receive(engine, "default", name, largest=10_000_000) as receiving:
        receiving.write(content)
        kept = receiving.keep()
    return (await asking.add(api.penstock, api.service.settings, [kept])).documents[0]


async def checked(api: Api, bounds: Bounds) -> Job:
    job = (await api.penstock.submit(watch, bounds)).job_id
    await api.run(job)
    return await api.penstock.job(job)


async def told(api: Api, job: Job) -> list[str | None]:
    return [event.note for event in await api.penstock.history(job.id) if event.kind == "sla breached"]


@dataclass
class Office:
    """Two documents were taken in: a good one was extracted, and another failed."""

    api: Api
    runner: asyncio.Runner
    good: asking.Added

    def run(self, scene: Callable[[], Awaitable[None]]) -> None:
        async def awaited() -> None:
            await scene()

        self.runner.run(awaited())


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("office")
    content, _ = sample("watched", kind="facturx", language="en")
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()

        async def begin() -> Office:
            api = await stack.enter_async_context(serving(folder, more=WORKFLOWS, sections=found_sections()))
            empty = await scraped(api)
            assert empty["documents_processed_total", "completed"] == empty["sla_breaches_total", "critical"] == 0
            good = await add(api, "good.pdf", content)
            bad = await add(api, "bad.pdf", b"%PDF-1.7\nnothing of the kind")
            await api.run(good.job_id, bad.job_id)
            await api.penstock.engine.store_meters()
            return Office(api, runner, good)

        try:
            yield runner.run(begin())
        finally:
            runner.run(stack.aclose())


def test_metrics_count_what_was_committed_and_tell_how_things_stand(office: Office) -> None:
    async def scene() -> None:
        api, engine = office.api, office.api.penstock.engine
        before = await scraped(api)
        assert before["documents_processed_total", "completed"] == 1
        assert before["documents_processed_total", "failed"] == 1
        assert before["documents_processed_total", "canceled"] == 0
        assert before["document_processing_seconds_count", ""] == before["extraction_confidence_count", ""] == 1
        assert 0 < before["extraction_confidence_sum", ""] <= 1 and before["document_processing_seconds_sum", ""] > 0
        assert before["review_queue_depth", "pending"] == 1 and before["review_queue_depth", "approved"] == 0
        assert before["documents_per_hour", ""] == 2
        assert ("review_duration_seconds_count", "") not in before
        item = (await api.penstock.job(office.good.job_id)).result["review_item_id"]
        await queue.claim(engine, item, actor="ann")
        await queue.submit(engine, item, "approve", actor="ann")
        after = await scraped(api)
        assert after["review_duration_seconds_count", ""] == 1
        assert after["review_queue_depth", "pending"] == 0 and after["review_queue_depth", "approved"] == 1
        await queue.claim(engine, item, actor="ann", reopen=True)

    office.run(scene)


def test_a_broken_promise_is_told_of_once_until_it_was_kept_again(office: Office) -> None:
    async def scene() -> None:
        api, engine = office.api, office.api.penstock.engine
        found = await checked(api, STRICT)
        assert found.result == {"breached": ["depth", "error_rate"]}
        (note,) = await told(api, found)
        assert note is not None and "depth (critical): 1 reviews are open" in note and "error_rate (critical)" in note
        assert [each.rule for each in await measuring.episodes(engine)] == ["depth", "error_rate"]
        assert (await scraped(api))["sla_breaches_total", "critical"] == 2
        titles = [need.title for need in await needs(engine, None)]
        assert "Too many documents fail" in titles
        assert "Too many documents fail" not in [need.title for need in await needs(engine, "default")]

        again = await checked(api, STRICT)
        assert again.result == {"breached": ["depth", "error_rate"]} and await told(api, again) == []
        kept = await checked(api, LAX)
        assert kept.result == {"breached": []} and await measuring.episodes(engine) == []
        assert (await scraped(api))["sla_breaches_total", "critical"] == 2
        anew = await checked(api, STRICT)
        assert len(await told(api, anew)) == 1
        assert (await scraped(api))["sla_breaches_total", "critical"] == 4
        rows = await engine.read("SELECT rule, ended IS NULL FROM document_breaches ORDER BY rule, began")
        assert [tuple(map(str, (rule, bool(open_now)))) for rule, open_now in rows] == [
            ("depth", "False"), ("depth", "True"), ("error_rate", "False"), ("error_rate", "True"),
        ]  # fmt: skip

    office.run(scene)


def test_a_check_gives_up_claims_that_have_lapsed(office: Office) -> None:
    async def scene() -> None:
        engine = office.api.penstock.engine
        item = (await office.api.penstock.job(office.good.job_id)).result["review_item_id"]
        await engine.write(
            ("UPDATE review_items SET status = 'in_review', assigned_to = 'ben', claim_until = 1 WHERE id = :id",
             {"id": item})
        )  # fmt: skip
        await checked(office.api, LAX)
        found = await queue.item(engine, item)
        assert (found.status, found.assigned_to) == ("pending", None)

    office.run(scene)


def test_each_hour_has_one_file_also_those_that_nobody_was_there_for(office: Office) -> None:
    async def scene() -> None:
        app = office.api.penstock
        engine = app.engine
        now = engine.clock.now()
        begun = now // HOUR * HOUR - 3 * HOUR
        await engine.group.do(SetCursor(watching.made_at(snapshot.name), f"{begun + 60:.3f}"))
        first, second = [(await app.submit(snapshot, {}, key=key)).job_id for key in ("first", "second")]
        await office.api.run(first, second)
        written = [(await app.job(job)).result["written"] for job in (first, second)]
        assert [] in written, "one found the other's files, or it at work"
        names = written[0] or written[1]
        assert names[:3] == [snapshots.name_of(begun + number * HOUR) for number in range(3)]
        table = pq.read_table(app.outputs.path(names[-1]))
        assert table.schema == snapshots.schema() and table.num_rows == 1
        assert table.column("queue_pending").to_pylist() == [1]
        older = pq.read_table(app.outputs.path(names[-2]))
        assert older.column("queue_pending").to_pylist() == [None], "nobody saw how deep the queue was"

        row = await snapshots.hour_of(engine, now // HOUR * HOUR) | {"hour": datetime.now(UTC)}
        earlier = await snapshots.hour_of(engine, now // HOUR * HOUR - HOUR)
        assert row["documents_completed"] + earlier["documents_completed"] == 1
        assert row["documents_failed"] + earlier["documents_failed"] == 1
        busy = row if row["documents_completed"] else earlier
        assert busy["confidence_mean"] == busy["confidence_min"] > 0
        assert busy["processing_seconds_p50"] == busy["processing_seconds_max"] > 0
        assert pq.read_table(io.BytesIO(snapshots.as_parquet([busy]))).num_rows == 1

    office.run(scene)


def test_the_first_document_brings_the_schedules_and_they_fire_when_due(office: Office) -> None:
    async def scene() -> None:
        app = office.api.penstock
        there = {each.name: each for each in await app.schedules()}
        assert set(there) == {"documents.watch", "documents.snapshot"}
        now = app.engine.clock.now()
        wait = there["documents.watch"].next_due - now
        assert wait <= 300 and there["documents.snapshot"].next_due - now <= HOUR
        assert there["documents.watch"].payload == Bounds.of(DocumentsSettings()).model_dump(mode="json")

    office.run(scene)


@in_a_loop
async def test_a_schedule_that_a_person_switched_off_or_removed_stays_so(tmp_path: Path) -> None:
    strict: dict[str, Any] = {"documents": {"sla_depth": 7}}
    for also in (None, strict):
        async with serving(tmp_path, more=WORKFLOWS, also=also) as api:
            app, settings = api.penstock, api.service.settings
            if also is None:
                assert await app.schedules() == [], "nobody has documents yet"
                await watching.ensure(app, settings)
                await watching.ensure(app, settings)
                (one,) = [each for each in await app.schedules() if each.name == watch.name]
                await app.schedule(watch.name, one.cron, watch, one.payload, enabled=False)
                await app.unschedule(snapshot.name)
                continue
            await watching.ensure(app, settings)
            (one,) = await app.schedules()
            assert (one.name, one.enabled) == (watch.name, False)
            assert one.payload["depth"] == 7, "what is promised is what is configured"


@in_a_loop
async def test_an_app_without_the_workflows_has_no_schedules(tmp_path: Path) -> None:
    async with serving(tmp_path, more=[documents]) as api:
        await watching.ensure(api.penstock, api.service.settings)
        assert await api.penstock.schedules() == []


@in_a_loop
async def test_on_postgres_too_and_webhooks_hear_of_the_breach_but_not_of_every_check(
    postgres_url: str, tmp_path: Path
) -> None:
    hook = {"url": "http://127.0.0.1:9/", "secret": "s" * 32}
    settings = Settings.model_validate({"home": tmp_path, "store": postgres_url, "webhooks": {"ops": hook}})
    app = await Penstock(workflows=[documents, watch, snapshot]).open(settings=settings)
    notifier = Notifier(app, settings, quiet=[name for section in found_sections() for name in section.quiet])
    try:
        await notifier.start()
        await notifier.read()
        async with app.worker():
            one = metrics.observed({metrics.SECONDS: 31.0, metrics.CONFIDENCE: 0.9})
            await app.engine.write(one, one, metrics.observed({metrics.SECONDS: 1.0, metrics.CONFIDENCE: 1.0}, part=1))
            broken = LAX.model_copy(update={"depth": -1})
            for workflow, payload in ((watch, broken), (watch, broken), (watch, LAX), (snapshot, {})):
                job = await app.wait((await app.submit(workflow, payload)).job_id, timeout=30)
                assert job.status == "completed", job.error
        await notifier.read()
        told = [job.payload for job in await app.jobs(workflow=WEBHOOK_WORKFLOW)]
        assert [(each["event"], each["about"]["job"]["workflow"]) for each in told] == [
            ("sla.breached", "documents.watch")
        ]
        rows = await app.engine.store.meters()
        found = {family.name: family.samples for family in await families(app.engine, rows)}
        assert {each.labels["status"]: each.value for each in found["documents_processed"]}["completed"] == 3
        assert {each.labels["severity"]: each.value for each in found["sla_breaches"]} == {"warning": 0, "critical": 1}
        within = {each.labels.get("le"): each.value for each in found["document_processing_seconds"]}
        assert (within["1.0"], within["30.0"], within["60.0"], within["+Inf"]) == (1, 1, 3, 3)
    finally:
        await notifier.stop()
        await app.close()
