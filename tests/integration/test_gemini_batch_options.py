"""What one batch may ask for itself: a name at Gemini, a pace of polls, a way of uploading. The local Gemini
sees what becomes of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from penstock import Again, Context, Penstock, Workflow
from penstock.engine.clock import SystemClock
from penstock.engine.errors import InvalidPayload, Transient
from penstock.gemini import BatchRequest, BatchRow, Row, Transfers, file, generate_request, lost_file, read_rows
from penstock.remote.desk import digest_of
from penstock.remote.gemini.batch import GeminiBatch
from penstock.remote.gemini.client import GeminiClient
from penstock.remote.gemini.planning import PLAN
from penstock.remote.gemini.settings import GeminiSettings
from penstock.remote.gemini.shelf import JOURNAL
from penstock.remote.protocol import Found, Order, Plan
from penstock.remote.tending import first_look, overdue_after, wait_after_look, wait_after_miss
from tests.support.gemini import Gemini, running_gemini
from tests.support.provider import Provider, answer

HOUR = 3600.0


@pytest.fixture(scope="module")
def server() -> Iterator[Gemini]:
    with running_gemini() as gemini:
        yield gemini


@pytest.fixture
def gemini(server: Gemini) -> Gemini:
    server.reset()
    server.script([])
    return server


class LaterClock(SystemClock):
    """The machine's clock, put forward by hand."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


class Desk:
    def __init__(self, gemini: Gemini, folder: Path) -> None:
        self.clock = LaterClock()
        settings = GeminiSettings(base_url=gemini.url, request_timeout=10, create_timeout=10, retry_base=0.01)
        self.client = GeminiClient(settings, clock=self.clock)
        self.remote = GeminiBatch(self.client)
        self.folder = folder

    def order(self, request: Any, label: str = "label-1") -> Order:
        return Order(label, "acme", "job", "key", 1, request, self.folder / label)

    async def prepared(self, request: Any, label: str = "label-1") -> Order:
        """As it comes back from the store."""
        plan = await self.remote.prepare(self.order(request, label))
        return replace(self.order(None, label), prepared=json.loads(json.dumps(dict(plan.prepared))))

    async def home(self, order: Order) -> list[Row]:
        sent = await self.remote.submit(order)
        while (await self.remote.poll(order, sent.provider_id)).state == "running":
            await asyncio.sleep(0.02)
        await self.remote.collect(order, sent.provider_id)
        await self.remote.tidy(order, sent.provider_id)
        return list(read_rows(order.folder / "rows.jsonl"))


def with_desk(gemini: Gemini, folder: Path, work: Callable[[Desk], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        ours = Desk(gemini, folder)
        try:
            await work(ours)
        finally:
            await ours.client.close()

    asyncio.run(main())


def pages(folder: Path, count: int, **options: Any) -> BatchRequest:
    for number in range(count):
        (folder / f"{number}.png").write_bytes(b"page %d" % number)
    rows = tuple(
        BatchRow(key=f"{number}", request=generate_request(["read", file(f"{number}.png")])) for number in range(count)
    )
    return BatchRequest(
        requests=rows,
        mode="file",
        uploads={f"{number}.png": folder / f"{number}.png" for number in range(count)},
        **options,
    )


def count(gemini: Gemini, operation: str) -> int:
    return len(gemini.journal(operation=operation))


ROW = BatchRow(key="a", request=generate_request("hello"))


@pytest.mark.parametrize("mode", ["file", "inline"])
def test_a_batch_with_a_name_of_its_own_is_found_again_by_it(gemini: Gemini, tmp_path: Path, mode: Any) -> None:
    async def work(ours: Desk) -> None:
        asked = BatchRequest(requests=(ROW,), mode=mode, display_prefix="catalogues 1890 – ")
        order = await ours.prepared(asked)
        plain = await ours.prepared(BatchRequest(requests=(ROW,), mode=mode), "label-2")
        sent = await ours.remote.submit(order)
        other = await ours.remote.submit(plain)
        _, listed = gemini.http("GET", "/v1beta/batches?key=x")
        names = {operation["metadata"]["displayName"] for operation in listed["operations"]}
        assert names == {"catalogues 1890 – label-1", "label-2"}
        assert await ours.remote.find(order) == Found((sent.provider_id,), complete=True)
        assert await ours.remote.find(plain) == Found((other.provider_id,), complete=True)
        assert await ours.remote.find(replace(order, prepared=plain.prepared)) == Found((), complete=True)

    with_desk(gemini, tmp_path, work)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"display_prefix": "x" * 65}, "display_prefix"),
        ({"display_prefix": " x"}, "display_prefix"),
        ({"display_prefix": "x\n"}, "display_prefix"),
        ({"poll_every": 0}, "poll_every"),
        ({"overdue_after": "soon"}, "overdue_after"),
        ({"transfers": {"parallel": 0}}, "transfers.parallel"),
        ({"transfers": {"attempts": 0}}, "transfers.attempts"),
        ({"transfers": {"pace": 1}}, "transfers.pace"),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_its_name(
    gemini: Gemini, tmp_path: Path, options: dict[str, Any], field: str
) -> None:
    async def work(ours: Desk) -> None:
        with pytest.raises(InvalidPayload, match=rf"{field}: "):
            await ours.remote.prepare(ours.order({"requests": [ROW.model_dump()], **options}))

    with_desk(gemini, tmp_path, work)
    assert gemini.journal() == []


def test_a_request_without_options_is_known_as_before() -> None:
    """Calls made before there were options are looked up by the digest of their request."""
    plain = BatchRequest(requests=(ROW,))
    assert not {"display_prefix", "poll_every", "overdue_after", "transfers"} & set(plain.model_dump())
    assert digest_of(BatchRequest(requests=(BatchRow(key="a", request={"contents": "b"}),))) == (
        "0b3dc25f1b867b1ff4be405f55e681e3"
    )
    options = {"display_prefix": "p-", "poll_every": 20, "overdue_after": "2h", "transfers": Transfers(max_age=60)}
    told = plain.model_copy(update=BatchRequest(requests=(ROW,), **options).__dict__)
    assert BatchRequest.model_validate_json(told.model_dump_json()) == told, "what is used comes back"
    assert digest_of(told) != digest_of(plain)
    with pytest.raises(ValidationError):
        Transfers().max_age = 3  # type: ignore[misc]


def test_a_hundred_files_are_uploaded_once_while_the_batch_waits(gemini: Gemini, tmp_path: Path) -> None:
    async def work(ours: Desk) -> None:
        asked = pages(tmp_path, 100, transfers=Transfers(max_age=HOUR, parallel=4))
        first = await ours.prepared(asked)
        assert count(gemini, "upload_start") == 101, "the pages, and the rows that name them"
        before = len(gemini.journal())
        ours.clock.ahead = HOUR / 2
        for _ in range(3):
            assert await ours.prepared(asked) == first
        assert len(gemini.journal()) == before + 3, "a single look each time: are the files there?"

    with_desk(gemini, tmp_path, work)


def test_files_older_than_the_batch_wants_are_uploaded_anew(gemini: Gemini, tmp_path: Path) -> None:
    async def work(ours: Desk) -> None:
        asked = pages(tmp_path, 3, transfers=Transfers(max_age=HOUR))
        first = await ours.prepared(asked)
        ours.clock.ahead = HOUR + 60
        second = await ours.prepared(asked)
        assert second.prepared["input"] != first.prepared["input"]
        assert count(gemini, "upload_start") == 8
        assert count(gemini, "file_delete") == 3, "those that were replaced"
        assert await ours.prepared(asked) == second
        assert [row.outcome for row in await ours.home(second)] == ["ok"] * 3, "every row names a file that is there"
        _, left = gemini.http("GET", "/v1beta/files?key=x")
        assert [file["source"] for file in left["files"]] == ["GENERATED"]

    with_desk(gemini, tmp_path, work)


def test_without_a_wish_files_are_used_as_long_as_they_live(gemini: Gemini, tmp_path: Path) -> None:
    async def work(ours: Desk) -> None:
        asked = pages(tmp_path, 2)
        first = await ours.prepared(asked)
        ours.clock.ahead = 5 * HOUR
        assert await ours.prepared(asked) == first
        assert count(gemini, "upload_start") == 3

    with_desk(gemini, tmp_path, work)


def test_an_upload_of_which_nobody_knows_the_time_counts_as_old(gemini: Gemini, tmp_path: Path) -> None:
    """As journals and plans were written before the time was kept."""

    async def work(ours: Desk) -> None:
        asked = pages(tmp_path, 2, transfers=Transfers(max_age=HOUR))
        order = await ours.prepared(asked)
        journal, plan = order.folder / JOURNAL, order.folder / PLAN
        entries = [json.loads(line) for line in journal.read_text().splitlines()]
        for entry in entries:
            del entry["uploaded"]
        journal.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
        kept = json.loads(plan.read_text())
        del kept["prepared"]["uploaded"]
        plan.write_text(json.dumps(kept))
        await ours.prepared(asked)
        assert count(gemini, "upload_start") == 6
        await ours.prepared(asked.model_copy(update={"transfers": None}))
        assert count(gemini, "upload_start") == 6, "without a wish it does not matter"

    with_desk(gemini, tmp_path, work)


@pytest.mark.parametrize("where", ["upload_start", "upload_chunk"])
def test_an_upload_is_tried_as_often_as_the_batch_says(gemini: Gemini, tmp_path: Path, where: str) -> None:
    async def work(ours: Desk) -> None:
        gemini.faults([{"kind": "error", "where": where, "code": 503, "times": 3}])
        asked = pages(tmp_path, 1, transfers=Transfers(attempts=3, backoff=0.001))
        with pytest.raises(Transient):
            await ours.prepared(asked)
        assert count(gemini, where) == 3
        await ours.prepared(asked)
        gemini.faults([{"kind": "error", "where": where, "code": 503, "times": 4}])
        await ours.prepared(pages(tmp_path, 1), "label-2")

    with_desk(gemini, tmp_path, work)


def test_the_waits_between_tries_are_the_batchs_own(gemini: Gemini, tmp_path: Path) -> None:
    class NotingClock(SystemClock):
        waits: tuple[float, ...] = ()

        async def sleep(self, seconds: float) -> None:
            self.waits += (seconds,)

    async def work(ours: Desk) -> None:
        clock = ours.client.clock = NotingClock()
        gemini.faults([{"kind": "error", "where": "upload_start", "code": 503, "times": 2}])
        await ours.prepared(pages(tmp_path, 1, transfers=Transfers(backoff=2)))
        first, second = clock.waits
        assert 1 <= first <= 3 and 2 <= second <= 6, "2 and 4, give or take a half"

    with_desk(gemini, tmp_path, work)


def test_a_row_whose_file_vanished_says_so(gemini: Gemini, tmp_path: Path) -> None:
    async def work(ours: Desk) -> None:
        order = await ours.prepared(pages(tmp_path, 2))
        entries = [json.loads(line) for line in (order.folder / JOURNAL).read_text().splitlines()]
        status, _ = gemini.http("DELETE", f"/v1beta/{entries[0]['name']}?key=x")
        assert status == 200
        told = {(row.outcome, lost_file(row)) for row in await ours.home(order)}
        assert told == {("api_error", True), ("ok", False)}

    with_desk(gemini, tmp_path, work)


def test_a_call_may_have_a_pace_of_its_own() -> None:
    remote = Provider(poll_every=10.0, poll_at_most=60.0, overdue_after=100.0)
    own = {"poll_every": 20, "overdue_after": 7.5}
    assert [wait_after_look(remote, {}, looks) for looks in (0, 1, 9)] == [10, 15, 60]
    assert [wait_after_look(remote, own, looks) for looks in (0, 1, 9)] == [20, 20, 20]
    assert [wait_after_miss(remote, {}, strikes) for strikes in (1, 9)] == [15, 60]
    assert [wait_after_miss(remote, own, strikes) for strikes in (1, 9)] == [30, 60]
    assert wait_after_miss(remote, {"poll_every": 90}, 9) == 90
    assert [first_look(remote, {}), first_look(remote, own)] == [10, 20]
    assert [overdue_after(remote, {}), overdue_after(remote, own)] == [100, 7.5]
    for odd in (0, -1, True, "20", None, float("inf"), float("nan")):
        assert first_look(remote, {"poll_every": odd}) == 10, "something of the remote's own"


def test_a_call_is_polled_and_shown_as_overdue_at_its_own_pace(tmp_path: Path) -> None:
    """By the remote's own pace the first poll would be in an hour."""

    class Paced(Provider):
        async def prepare(self, order: Order) -> Plan:
            return replace(await super().prepare(order), prepared={"poll_every": 0.01, "overdue_after": 0.02})

    provider = Paced(finishes="running", poll_every=HOUR, poll_at_most=HOUR)
    workflow = Workflow("ask")

    @workflow.step
    async def ask(payload: int, ctx: Context) -> dict[str, Any] | Again:
        call = await ctx.call(provider, "it", payload)
        if call.state == "overdue":
            provider.finishes = "succeeded"
        return answer(call) if call.ended else Again(payload, until=call, after=0.02)

    async def main() -> None:
        app = Penstock(workflows=[workflow], store=f"sqlite:///{tmp_path}/it.db", remotes=[provider], outputs=tmp_path)
        async with app, app.worker():
            job = await app.wait((await app.submit("ask", 1)).job_id, timeout=30)
            assert job.result == {"state": "collected", "result": {"id": "work-1"}, "attempt": 1}
            assert "call overdue" in [event.kind for event in await app.history(job.id)]

    asyncio.run(main())
