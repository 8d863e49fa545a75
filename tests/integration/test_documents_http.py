"""The routes of the documents pipeline on a real service: e-invoices that are uploaded, extracted and reviewed by
people with tokens of their own, and what is refused on the way in."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import httpx2
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from PIL import Image

from penstock.pipelines.documents import exporting, rules, uploading
from penstock.pipelines.documents.exporting import guarded
from penstock.pipelines.documents.files import json_name, parquet_name
from penstock.pipelines.documents.samples import Sample, sample
from penstock.pipelines.documents.workflow import documents, export, many
from penstock.service.sections import found_sections
from tests.support.api import Api, serving
from tests.support.house import in_a_loop

PDF = b"%PDF-1.7\n" + b"x" * 3000
"""A PDF by its first bytes; nobody reads it here."""

Answer = httpx2.Response
File = tuple[str, bytes]


@asynccontextmanager
async def house(folder: Path, *, open_access: bool = True, also: Any = None, **service: Any) -> AsyncIterator[Api]:
    folder.mkdir(exist_ok=True)
    async with serving(
        folder,
        open_access=open_access,
        more=[documents, export, many],
        sections=found_sections(),
        also=also,
        **service,
    ) as api:
        yield api


async def upload(client: httpx2.AsyncClient, *files: File, query: str = "", **headers: str) -> Answer:
    form = [("file", (name, content, "application/octet-stream")) for name, content in files]
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post(f"/api/documents{query}", files=form, headers=named)


def stored(folder: Path) -> list[Path]:
    """Every file that uploads have left, whole or in part."""
    return [path for path in (folder / "documents").rglob("*") if path.is_file()]


@dataclass
class Office:
    """A service in which four documents were uploaded and extracted: `alone`, and a batch of `other` and two of the
    same bytes, `twin` and `again`."""

    api: Api
    folder: Path
    runner: asyncio.Runner
    truth: dict[str, Sample]
    people: dict[str, httpx2.AsyncClient] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    items: dict[str, str] = field(default_factory=dict)
    batch: str = ""

    def run(self, scene: Callable[[], Awaitable[None]]) -> None:
        self.runner.run(_awaited(scene()))

    async def item(self, name: str) -> dict[str, Any]:
        told: dict[str, Any] = (await self.people["reader"].get(f"/api/queue/{self.items[name]}")).json()
        return told

    async def work(self) -> None:
        """Until nothing is left to do."""
        jobs = await self.api.penstock.jobs(status=["queued", "running", "waiting"], limit=100)
        await self.api.run(*(job.id for job in jobs))


async def _awaited(work: Awaitable[None]) -> None:
    await work


SCOPES = {"clerk": "operate", "ann": "review", "bob": "review", "reader": "read"}


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("office") / "home"
    made = {name: sample(f"http:{name}", kind="facturx", language="en") for name in ("alone", "other", "twin")}
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()

        async def begin() -> Office:
            also = {"documents": {"reviewers": ["ann", "bob"]}}
            api = await stack.enter_async_context(house(folder, open_access=False, also=also))
            found = Office(api, folder, runner, {name: one for name, (_, one) in made.items()})
            tokens = {name: await api.secret(name, scope) for name, scope in SCOPES.items()}
            tokens["lead"] = await api.secret("lead", "review", "operate")
            tokens["foreign"] = await api.secret("foreign", "admin", tenant="bolt")
            for name, secret in tokens.items():
                found.people[name] = await stack.enter_async_context(api.client(secret))
            clerk = found.people["clerk"]
            first = (await upload(clerk, ("alone.pdf", made["alone"][0]))).json()
            names = [("other", "=other.pdf"), ("twin", "twin.pdf"), ("twin", "again.pdf")]
            several = (await upload(clerk, *((as_, made[name][0]) for name, as_ in names))).json()
            found.batch = several["batch_id"]
            told = [first["document_id"], *(each["document_id"] for each in several["documents"])]
            found.ids = dict(zip(("alone", "other", "twin", "again"), told, strict=True))
            await found.work()
            await found.work()
            for name, document in found.ids.items():
                shown = (await clerk.get(f"/api/documents/{document}")).json()["document"]
                assert shown["status"] == "completed", shown
                found.items[name] = shown["review_item_id"]
            return found

        try:
            yield runner.run(begin())
        finally:
            runner.run(stack.aclose())


def test_what_was_uploaded_is_listed_shown_drawn_and_downloaded(office: Office) -> None:
    async def scene() -> None:
        reader, ids = office.people["reader"], office.ids
        listed = (await reader.get("/api/documents?limit=3")).json()
        assert [one["document_id"] for one in listed["items"]] == sorted(ids.values(), reverse=True)[:3]
        rest = (await reader.get(f"/api/documents?limit=3&before={listed['before']}")).json()
        assert [one["document_id"] for one in rest["items"]] == [ids["alone"]] and rest["before"] is None
        for query, count in ((f"batch={office.batch}", 3), ("status=completed", 4), ("status=failed", 0)):
            assert len((await reader.get(f"/api/documents?{query}")).json()["items"]) == count, query

        shown = (await reader.get(f"/api/documents/{ids['alone']}")).json()
        truth = office.truth["alone"].truth
        assert shown["invoice_data"]["total"] == str(truth.total) and shown["document"]["vendor"] == truth.vendor
        assert shown["result"]["source"] == "e-invoice" and shown["result"]["invoice_data"] == shown["invoice_data"]
        total = next(one for one in shown["fields"] if one["field"] == "total")
        assert total["required"] and not total["locked"] and total["checks"] and total["evidence"]["page"] == 1
        assert len(total["evidence"]["box"]) == 4

        place = f"/api/documents/{ids['alone']}/preview"
        drawn = await reader.get(f"{place}?width=200")
        picture = Image.open(io.BytesIO(drawn.content))
        assert (picture.format, picture.width) == ("JPEG", 200)
        assert drawn.headers["cache-control"] == "private, no-cache"
        same = await reader.get(f"{place}?width=200", headers={"If-None-Match": drawn.headers["etag"]})
        assert same.status_code == 304 and not same.content
        other = await reader.get(f"{place}?width=210", headers={"If-None-Match": drawn.headers["etag"]})
        assert other.status_code == 200
        assert (await reader.get(f"{place}?page=9")).status_code == 404
        assert (await reader.get(f"{place}?width=99999")).status_code == 422

        document = (await office.api.penstock.engine.read("SELECT id, folder FROM documents ORDER BY id"))[0]
        outputs = office.api.penstock.outputs
        for ending, name in (("json", json_name), ("parquet", parquet_name)):
            got = await reader.get(f"/api/documents/{ids['alone']}/download/{ending}")
            assert got.content == outputs.path(name(document[1], document[0])).read_bytes()
        refused = await reader.get(f"/api/documents/{ids['alone']}/download/xml")
        assert (refused.status_code, refused.json()["errors"][0]["message"]) == (
            422, "there is no such format: use json or parquet",
        )  # fmt: skip

    office.run(scene)


def test_a_batch_counts_its_documents_and_adds_them_up(office: Office) -> None:
    async def scene() -> None:
        told = (await office.people["reader"].get(f"/api/batches/{office.batch}")).json()
        counted = {name: told[name] for name in ("state", "documents", "completed", "failed", "canceled", "open")}
        assert counted == {
            "state": "ended", "documents": 3, "completed": 3, "failed": 0, "canceled": 0, "open": 0,
        }  # fmt: skip
        # Of the two with the same bytes, one was read, and the other found what it had brought.
        assert (told["result"]["documents"], told["result"]["cached"]) == (3, 1)
        other = (await office.api.penstock.open_batch()).id
        assert (await office.people["reader"].get(f"/api/batches/{other}")).status_code == 404

    office.run(scene)


def test_all_documents_in_one_file(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "AT_ONCE", 2)

    async def scene() -> None:
        reader = office.people["reader"]
        table = (await reader.get("/api/documents/export")).text
        rows = list(csv.DictReader(io.StringIO(table, newline="")))
        assert [row["document_id"] for row in rows] == sorted(office.ids.values())
        assert rows[0]["total"] == str(office.truth["alone"].truth.total)
        assert rows[1]["filename"] == "'=other.pdf"
        parquet = (await reader.get("/api/documents/export?format=parquet")).content
        again = pq.read_table(io.BytesIO(parquet)).to_pylist()
        assert [row["document_id"] for row in again] == sorted(office.ids.values())
        assert again[1]["filename"] == "=other.pdf" and again[0]["total"] == office.truth["alone"].truth.total
        some = (await reader.get(f"/api/documents/export?batch={office.batch}&review_status=rejected")).text
        assert len(some.splitlines()) == 1
        empty = (await reader.get("/api/documents/export?format=parquet&batch=none")).content
        nothing = pq.read_table(io.BytesIO(empty))
        assert nothing.num_rows == 0 and "line_items_json" in nothing.column_names
        assert (await reader.get("/api/documents/export?format=xls")).status_code == 422

    office.run(scene)


def test_the_queue_is_told_with_its_length(office: Office) -> None:
    async def scene() -> None:
        reader = office.people["reader"]
        whole = (await reader.get("/api/queue")).json()
        assert whole["total"] == 4 and {one["review_item_id"] for one in whole["items"]} == set(office.items.values())
        priorities = [one["priority"] for one in whole["items"]]
        assert priorities == sorted(priorities, reverse=True)
        part = (await reader.get("/api/queue?limit=1&offset=2")).json()
        assert part["total"] == 4 and part["items"][0]["review_item_id"] == whole["items"][2]["review_item_id"]
        assert (await reader.get("/api/queue?offset=9")).json() == {"items": [], "total": 4, "limit": 50, "offset": 9}
        for query, total in (
            ("priority_min=99", 0),
            ("status=rejected", 0),
            ("assigned_to=zoe", 0),
            ("sort=newest", 4),
        ):
            assert (await reader.get(f"/api/queue?{query}")).json()["total"] == total, query
        for query in ("status=lost", "sort=luck", "priority_min=-1", "limit=0", "offset=-1", "asigned_to=ann"):
            assert (await reader.get(f"/api/queue?{query}")).status_code == 422, query

    office.run(scene)


def test_of_two_who_claim_or_decide_at_once_one_is_told_no(office: Office) -> None:
    async def scene() -> None:
        ann, bob, lead = (office.people[name] for name in ("ann", "bob", "lead"))
        place = f"/api/queue/{office.items['other']}"
        both = await asyncio.gather(ann.post(f"{place}/claim"), bob.post(f"{place}/claim"))
        assert sorted(one.status_code for one in both) == [200, 409]
        refused = next(one for one in both if one.status_code == 409).json()
        assert (refused["id"], refused["state"]) == (office.items["other"], "in_review")
        owner, loser = (ann, bob) if both[0].status_code == 200 else (bob, ann)
        name = "ann" if owner is ann else "bob"
        assert (await office.item("other"))["item"]["assigned_to"] == name

        until = (await office.item("other"))["item"]["claim_until"]
        assert (await owner.post(f"{place}/claim")).json()["claim_until"] >= until
        assert (await loser.put(f"{place}/submit", json={"action": "approve"})).status_code == 409
        assert (await loser.post(f"{place}/release")).status_code == 403
        decisions = [{"action": "approve"}, {"action": "reject", "reason": "not ours"}]
        answers = await asyncio.gather(*(owner.put(f"{place}/submit", json=one) for one in decisions))
        assert sorted(one.status_code for one in answers) == [200, 409]
        won = next(one for one in answers if one.status_code == 200).json()
        assert (won["decided_by"], won["status"] in ("approved", "rejected")) == (name, True)
        assert (await owner.post(f"{place}/claim")).status_code == 409

        reopened = await lead.post(f"{place}/claim", json={"reopen": True, "reviewer": "zoe"})
        assert reopened.json()["assigned_to"] == "zoe"
        assert (await ann.post(f"{place}/claim", json={"reviewer": "zoe"})).status_code == 403
        done = await lead.put(f"{place}/submit", json={"action": "reject", "reason": "a copy", "reviewer": "zoe"})
        assert (done.json()["decided_by"], done.json()["reason"]) == ("zoe", "a copy")
        lines = (await office.people["reader"].get(f"{place}/audit")).json()["items"]
        assert [(one["actor"], one["action"]) for one in lines][-2:] == [("zoe", "reopened"), ("zoe", "rejected")]
        via = await office.api.penstock.engine.read("SELECT via FROM audit WHERE action = 'review.rejected'")
        assert ("token of lead",) in via

    office.run(scene)


def test_a_correction_locks_counts_everywhere_and_can_be_undone(office: Office) -> None:
    async def scene() -> None:
        ann, reader = office.people["ann"], office.people["reader"]
        place, twin = f"/api/queue/{office.items['twin']}", office.ids["again"]
        before = (await office.item("twin"))["invoice_data"]
        assert (await ann.post(f"{place}/claim")).status_code == 200
        wrong: Sequence[Any] = (
            {"action": "correct"},
            {"action": "correct", "corrections": {"totl": "1"}},
            {"action": "correct", "corrections": {"total": "one"}},
            {"action": "correct", "corrections": {"total": before["total"]}},
            {"action": "correct", "corrections": {"vendor": None}},
            {"action": "approve", "corrections": {"total": "1"}},
            {"action": "reject"},
            {"action": "reject", "reason": "x" * 2001},
            {"action": "burn"},
            {"action": "approve", "surprise": 1},
        )
        for body in wrong:
            assert (await ann.put(f"{place}/submit", json=body)).status_code == 422, body
        assert (await ann.put(f"{place}/submit", content=b"action=approve")).status_code == 415
        body = {"action": "correct", "corrections": {"total": "1.234,56", "vendor": "-Ann & Co"}, "reason": "page 1"}
        assert (await ann.put(f"{place}/submit", json=body)).json()["status"] == "corrected"

        shown = (await reader.get(f"/api/documents/{twin}")).json()
        assert (shown["invoice_data"]["total"], shown["document"]["vendor"]) == ("1234.56", "-Ann & Co")
        assert [(one["field"], one["actor"]) for one in shown["locks"]] == [("total", "ann"), ("vendor", "ann")]
        total = next(one for one in shown["fields"] if one["field"] == "total")
        assert total["locked"] and not total["doubtful"] and total["value"] == "1234.56"
        assert {one["field"]: one["extracted"] for one in shown["differences"]}["total"] == before["total"]
        assert shown["result"]["invoice_data"]["total"] == before["total"]
        # Before the files are written anew, too.
        told = json.loads((await reader.get(f"/api/documents/{twin}/download/json")).content)
        assert (told["invoice_data"]["total"], told["locked_fields"]) == ("1234.56", ["total", "vendor"])
        assert "'-Ann & Co" in (await reader.get("/api/documents/export?review_status=corrected")).text

        unlock = f"/api/documents/{twin}/fields/total/unlock"
        assert (await reader.post(unlock)).status_code == 403
        assert (await ann.post(unlock)).json()["invoice_data"]["total"] == before["total"]
        assert (await ann.post(unlock)).status_code == 409
        assert (await ann.post(f"/api/documents/{twin}/fields/colour/unlock")).status_code == 422
        lines = (await reader.get(f"{place}/audit")).json()["items"]
        corrected = next(one for one in lines if one["field"] == "total")
        assert (corrected["before"], corrected["after"], corrected["reason"]) == (before["total"], "1234.56", "page 1")

    office.run(scene)


def test_items_are_given_to_people_released_and_approved_in_bulk(office: Office) -> None:
    async def scene() -> None:
        ann, bob, clerk, lead = (office.people[name] for name in ("ann", "bob", "clerk", "lead"))
        assert (await ann.post("/api/queue/auto-assign")).status_code == 403
        given = (await clerk.post("/api/queue/auto-assign")).json()["assigned"]
        assert {one["reviewer"] for one in given} <= {"ann", "bob"} and given
        assert (await clerk.post("/api/queue/auto-assign", json={"reviewers": []})).status_code == 422
        place = f"/api/queue/{office.items['alone']}"
        owner = (await office.item("alone"))["item"]["assigned_to"]
        mine, theirs = (ann, bob) if owner == "ann" else (bob, ann)
        assert (await theirs.post(f"{place}/claim")).status_code == 409
        assert (await mine.post(f"{place}/claim")).status_code == 200
        mine_now = (await ann.get(f"/api/queue?assigned_to={owner}&status=in_review")).json()
        assert [one["review_item_id"] for one in mine_now["items"]] == [office.items["alone"]]
        assert (await theirs.post(f"{place}/release")).status_code == 403
        assert (await lead.post(f"{place}/release")).json()["assigned_to"] is None
        assert (await lead.post(f"{place}/release")).status_code == 409

        assert (await clerk.post("/api/queue/batch-approve", json={"min_confidence": 0.5})).status_code == 403
        assert (await ann.post("/api/queue/batch-approve", json={"min_confidence": 2})).status_code == 422
        nothing = (await ann.post("/api/queue/batch-approve", json={"min_confidence": 1})).json()
        assert nothing == {"approved": []}
        approved = (await ann.post("/api/queue/batch-approve", json={"min_confidence": 0.5, "limit": 1})).json()
        assert len(approved["approved"]) == 1
        told = (await ann.get("/api/stats")).json()
        assert told["documents"]["completed"] == 4 and sum(told["queue"].values()) == 4
        assert told["queue"]["approved"] >= 1 and sum(told["bands"].values()) == told["queue"]["pending"]
        assert (told["overdue"], told["completed_last_hour"], told["failed_last_hour"]) == (0, 4, 0)
        load = next(one for one in told["reviewers"] if one["reviewer"] == "ann")
        assert load["decided_today"] >= 1 and told["p95_processing_seconds"] > 0

    office.run(scene)


def test_a_document_is_extracted_anew_and_deleted(office: Office) -> None:
    async def scene() -> None:
        clerk, ann, document = office.people["clerk"], office.people["ann"], office.ids["alone"]
        place = f"/api/documents/{document}"
        assert (await ann.post(f"{place}/re-extract")).status_code == 403
        started = await clerk.post(f"{place}/re-extract")
        assert started.status_code == 202 and started.json()["document_id"] == document
        twice = await clerk.post(f"{place}/re-extract")
        assert twice.status_code == 409 and twice.json()["id"] == document
        await office.api.run(started.json()["job_id"])
        assert (await clerk.get(place)).json()["document"]["job_id"] == started.json()["job_id"]

        before = len(stored(office.folder))
        assert (await ann.delete(place)).status_code == 403
        assert (await clerk.delete(place)).status_code == 204
        for path in (place, f"{place}/preview", f"{place}/download/json", f"/api/queue/{office.items['alone']}"):
            assert (await clerk.get(path)).status_code == 404, path
        assert (await clerk.delete(place)).status_code == 404
        assert len(stored(office.folder)) == before - 1
        lines = "SELECT action FROM audit WHERE target = :target ORDER BY id"
        audited = await office.api.penstock.engine.read((lines, {"target": f"document:{document}"}))
        assert [action for (action,) in audited] == ["document.add", "document.re-extract", "document.delete"]

    office.run(scene)


def test_a_file_that_cannot_be_read_fails_with_words_for_its_owner(office: Office) -> None:
    async def scene() -> None:
        clerk = office.people["clerk"]
        content, _ = sample("http:cut", kind="hostile", trouble="truncated")
        sent = (await upload(clerk, ("cut.pdf", content))).json()
        place = f"/api/documents/{sent['document_id']}"
        waiting = (await clerk.get(place)).json()
        assert (waiting["document"]["status"], waiting["invoice_data"], waiting["fields"]) == ("queued", None, [])
        assert (await clerk.get(f"{place}/download/json")).status_code == 404
        await office.api.run(sent["job_id"])
        failed = (await clerk.get(place)).json()["document"]
        assert failed["status"] == "failed" and failed["error"]
        assert [one["document_id"] for one in (await clerk.get("/api/documents?status=failed")).json()["items"]] == [
            sent["document_id"]
        ]
        drawn = await clerk.get(f"{place}/preview")
        assert drawn.status_code == 404 and "cannot be shown" in drawn.json()["detail"]

    office.run(scene)


def test_what_is_not_there_is_not_found_for_anybody(office: Office) -> None:
    async def scene() -> None:
        never, lead = "0" * 20, office.people["lead"]
        for method, path, body in (
            ("GET", "documents/{}", None),
            ("GET", "documents/{}/preview", None),
            ("GET", "documents/{}/download/json", None),
            ("POST", "documents/{}/re-extract", None),
            ("POST", "documents/{}/fields/total/unlock", None),
            ("DELETE", "documents/{}", None),
            ("GET", "queue/{}", None),
            ("GET", "queue/{}/audit", None),
            ("POST", "queue/{}/claim", {"reopen": True}),
            ("PUT", "queue/{}/submit", {"action": "approve"}),
            ("POST", "queue/{}/release", None),
            ("GET", "batches/{}", None),
        ):
            known = office.items["twin"] if path.startswith("queue") else office.ids["twin"]
            known = office.batch if path.startswith("batches") else known
            sent = {} if body is None else {"json": body}
            for client, id in ((lead, never), (office.people["foreign"], known)):
                answer = await client.request(method, f"/api/{path.format(id)}", **sent)
                assert answer.status_code == 404, (path, answer.text)
        foreign = office.people["foreign"]
        assert (await foreign.get("/api/documents")).json()["items"] == []
        assert (await foreign.get("/api/queue")).json()["total"] == 0
        assert (await foreign.get("/api/stats")).json()["documents"]["completed"] == 0
        assert len((await foreign.get("/api/documents/export")).text.splitlines()) == 1
        assert (await upload(foreign, ("a.pdf", PDF), query="?tenant=default")).status_code == 403
        assert (await upload(office.people["ann"], ("a.pdf", PDF))).status_code == 403

    office.run(scene)


@dataclass
class Desk:
    """A service that takes small files only, and nobody who works."""

    api: Api
    folder: Path
    runner: asyncio.Runner

    def run(self, scene: Callable[[Api, httpx2.AsyncClient], Awaitable[None]]) -> None:
        async def with_client() -> None:
            async with self.api.client() as client:
                await scene(self.api, client)

        self.runner.run(with_client())

    async def left(self) -> tuple[set[Path], int]:
        """The files and the number of jobs that uploads have brought so far."""
        return set(stored(self.folder)), len(await self.api.penstock.jobs(limit=500))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        also = {"documents": {"largest_mb": 0.4}}

        async def begin() -> Api:
            return await stack.enter_async_context(house(folder, also=also, upload_limit=2_000_000))

        try:
            yield Desk(runner.run(begin()), folder, runner)
        finally:
            runner.run(stack.aclose())


REFUSED = [
    ("notes.pdf", b"Invoice 4711\nTotal: 100.00 EUR\n", 400, "not a document"),
    ("sheet.pdf", b"PK\x03\x04" + b"\0" * 5000, 400, "ZIP"),
    ("page.png", b"<!DOCTYPE html><p>log in</p>", 400, "web page"),
    ("empty.pdf", b"", 400, "empty"),
    ("large.pdf", PDF + b"x" * 500_000, 413, "0.4 MB"),
]


def test_a_file_that_is_not_read_here_is_refused_with_all_that_came_with_it(desk: Desk) -> None:
    async def scene(api: Api, client: httpx2.AsyncClient) -> None:
        before = await desk.left()
        for name, content, status, words in REFUSED:
            bad, good = (name, content), ("good.pdf", PDF)
            for files in ([bad], [good, bad], [bad, good]):
                answer = await upload(client, *files)
                assert answer.status_code == status, answer.text
                assert name in answer.json()["detail"] and words in answer.json()["detail"]
        odd: Sequence[tuple[Any, int]] = (
            ({"json": {"file": "a.pdf"}}, 415),
            ({"content": b"%PDF-1.7", "headers": {"Content-Type": "application/pdf"}}, 415),
            ({"content": b"x", "headers": {"Content-Type": "multipart/form-data"}}, 415),
            ({"content": b"x", "headers": {"Content-Type": "multipart/form-data; boundary=a"}}, 400),
            ({"content": b"--a--\r\n", "headers": {"Content-Type": "multipart/form-data; boundary=a"}}, 400),
            ({"content": form(("cut.pdf", PDF))[:-200], "headers": FORM}, 400),
            ({"content": form(("cut.pdf", PDF))[:-10], "headers": FORM}, 400),
            ({"data": {"note": "hello"}, "files": [("file", ("a.pdf", PDF))]}, 400),
            ({"files": [("file", ("", b""))]}, 400),
        )
        for sent, status in odd:
            assert (await client.post("/api/documents", **sent)).status_code == status, sent
        assert (await client.post("/api/documents?batch=mine", files=[("file", ("a.pdf", PDF))])).status_code == 422
        assert await desk.left() == before

    desk.run(scene)


FORM = {"Content-Type": "multipart/form-data; boundary=edge"}


def form(*files: File, closed: bool = True) -> bytes:
    parts = [
        b'--edge\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\n%s' % (name.encode(), content)
        for name, content in files
    ]
    return b"\r\n".join(parts) + (b"\r\n--edge--\r\n" if closed else b"")


async def sent_slowly(api: Api, pieces: Sequence[bytes], *, cut: bool = False) -> tuple[int, int]:
    """The status of the answer, and how many pieces had been taken by then. `cut`: the client goes away in the end."""
    taken, status = 0, 0

    async def receive() -> dict[str, Any]:
        nonlocal taken
        if taken == len(pieces):
            return {"type": "http.disconnect"}
        taken += 1
        more = cut or taken < len(pieces)
        return {"type": "http.request", "body": pieces[taken - 1], "more_body": more}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)

    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "POST",
        "scheme": "http", "path": "/api/documents", "raw_path": b"/api/documents", "query_string": b"",
        "root_path": "", "client": ("203.0.113.9", 50_000), "server": ("127.0.0.1", 8800),
        "headers": [(b"host", b"127.0.0.1:8800"), (b"content-type", FORM["Content-Type"].encode()),
                    (b"transfer-encoding", b"chunked")],
    }  # fmt: skip
    await api.app(scope, receive, send)
    return status, taken


def test_an_upload_is_stopped_when_it_is_too_large_and_leaves_nothing_when_it_breaks_off(desk: Desk) -> None:
    async def scene(api: Api, client: httpx2.AsyncClient) -> None:
        before = await desk.left()
        start, piece = form(("a.pdf", PDF), closed=False), b"x" * 100_000
        status, taken = await sent_slowly(api, [start, *[piece] * 50])
        assert (status, taken < 12) == (413, True)
        assert await sent_slowly(api, [start, piece, piece], cut=True) == (400, 3)
        whole = form(("a.pdf", PDF), closed=False) + b"\r\n"
        status, taken = await sent_slowly(api, [whole + start, *[piece] * 3, *[b"\r\n" + start, *[piece] * 3] * 20])
        assert (status, taken < 30) == (413, True), "the request as a whole is too large"
        assert await desk.left() == before
        assert await sent_slowly(api, [start, b"\r\n--edge--", b"\r\n"]) == (202, 3)
        files, jobs = await desk.left()
        assert (len(files), jobs) == (len(before[0]) + 1, before[1] + 1)

    desk.run(scene)


def test_the_same_request_under_its_key_is_taken_in_once(desk: Desk) -> None:
    async def scene(api: Api, client: httpx2.AsyncClient) -> None:
        one, two = ("a.pdf", PDF), ("b.pdf", PDF + b"b")
        for files in ([one], [one, two]):
            key = f"key-{len(files)}"
            first = await upload(client, *files, Idempotency_Key=key)
            before = await desk.left()
            again = await asyncio.gather(*(upload(client, *files, Idempotency_Key=key) for _ in range(2)))
            assert first.status_code == 202 and all(each.json() == first.json() for each in again)
            assert await desk.left() == before
            reused = await upload(client, two, Idempotency_Key=key)
            assert (reused.status_code, reused.json()["type"]) == (422, "/problems/idempotency-key-reused")
            assert await desk.left() == before
        assert len(await api.penstock.batches()) == 1
        twins = await asyncio.gather(upload(client, one), upload(client, one))
        assert len({each.json()["document_id"] for each in twins}) == 2, "without a key each upload is one of its own"

    desk.run(scene)


def test_names_of_files_are_names_and_nothing_else(desk: Desk) -> None:
    async def scene(api: Api, client: httpx2.AsyncClient) -> None:
        for name, shown in (
            ("../../etc/passwd", "passwd"),
            ("C:\\invoices\\märz.pdf", "märz.pdf"),
            ("a\u202efdp.exe", "a fdp.exe"),
            ("x" * 900 + ".pdf", "x" * 200),
            ("..", "document"),
            ("<script>.pdf", "<script>.pdf"),
        ):
            content = form((name.replace("\\", "\\\\"), PDF))
            told = (await client.post("/api/documents", content=content, headers=FORM)).json()
            assert told["documents"][0]["filename"] == shown
        home = desk.folder / "documents" / "default"
        assert all(path.is_relative_to(home) and path.name.isalnum() for path in stored(desk.folder))
        raw = form(("n", PDF)).replace(b'"n"', b'"\xff\x00.pdf"')
        assert (await client.post("/api/documents", content=raw, headers=FORM)).status_code in (202, 400)

    desk.run(scene)


def test_files_of_one_request_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploading, "MOST_FILES", 3)

    @in_a_loop
    async def main() -> None:
        async with house(tmp_path, queue_limit=3) as api, api.client() as client:
            assert (await upload(client, *[("a.pdf", PDF)] * 4)).status_code == 413
            assert stored(tmp_path) == []
            assert (await upload(client, *[("a.pdf", PDF)] * 3)).status_code == 202
            full = await upload(client, ("a.pdf", PDF))
            assert (full.status_code, full.json()["type"]) == (429, "/problems/queue-full")
            assert len(stored(tmp_path)) == 3

    main()


def test_a_browser_brings_its_secret_in_the_header(desk: Desk) -> None:
    async def scene(api: Api, client: httpx2.AsyncClient) -> None:
        before, browser = await desk.left(), client
        browser.headers["Origin"] = "http://127.0.0.1:8800"
        answer = await browser.post("/api/documents", data={"csrf": "guess"}, files=[("file", ("a.pdf", PDF))])
        assert (answer.status_code, "X-CSRF-Token" in answer.json()["detail"]) == (403, True)
        assert (await upload(browser, ("a.pdf", PDF), X_CSRF_Token="guess")).status_code == 403
        assert await desk.left() == before

    desk.run(scene)


@in_a_loop
async def test_a_full_disk_is_said_and_leaves_nothing_partial(tmp_path: Path) -> None:
    home = tmp_path / "home"
    small = home / "documents"
    small.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        async with house(home) as api, api.client() as client:
            answer = await upload(client, ("a.pdf", PDF + b"x" * 500_000))
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")
            assert "a.pdf" in answer.json()["detail"] and stored(home) == []
            assert (await upload(client, ("a.pdf", PDF))).status_code == 202
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_bands_are_counted_as_priorities_are_now(desk: Desk) -> None:
    async def scene(api: Api, client: httpx2.AsyncClient) -> None:
        engine, now, wanted = api.penstock.engine, api.penstock.engine.clock.now(), Counter[str]()
        values = "'bands', '', '', :status, :rising, :rank, :turns, :weight, :deadline, 0, 0, 0, 0, :now, :until, :who"
        insert = (
            "INSERT INTO review_items (id, tenant, document, content_hash, status, rising, rank, turns, weight,"
            " deadline, confidence, line_count, total, approvable, created, claim_until, assigned_to)"
            f" VALUES (:id, {values})"
        )
        statements = []
        for number, (weight, hours, status) in enumerate(
            product((5.0, 39.0, 41.0, 45.0, 69.0), (-1, 1, 12, 23, 30), ("pending", "in_review", "approved"))
        ):
            deadline = now + hours * 3600
            stands = rules.standing(weight, deadline=deadline, now=now)
            told = {"rising": stands.rising, "rank": stands.rank, "turns": stands.turns, "weight": weight}
            held = {"until": now + 600, "who": "ann"} if status == "in_review" else {"until": None, "who": None}
            moment = {"deadline": deadline, "now": now, "id": f"bands{number:03}", "status": status}
            statements.append((insert, told | held | moment))
            if status != "approved":
                wanted[rules.band(rules.priority(weight, deadline=deadline, now=now))] += 1
        await engine.write(*statements)
        told = (await client.get("/api/stats?tenant=bands")).json()
        assert told["bands"] == wanted and len(wanted) == 3
        assert (told["overdue"], told["queue"]["in_review"]) == (10, 25)
        assert told["reviewers"] == [{"reviewer": "ann", "open": 25, "decided_today": 0, "mean_review_seconds": None}]

    desk.run(scene)


def test_cells_that_a_spreadsheet_would_carry_out_are_text() -> None:
    for cell in ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "＝1"):  # noqa: RUF001
        assert guarded(cell) == f"'{cell}"
    for cell in ("", "Müller", "a=b", "12-3", None, 3, 0.5):
        assert guarded(cell) == cell
