"""The process pool keeps the contract that every remote keeps; and a remote that breaks it is caught."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.call import Hold
from penstock.engine.errors import Ambiguous, InvalidRequest, PenstockError, Permanent, RateLimited, Transient
from penstock.remote.contract import Check, checks_for
from penstock.remote.pool import PoolLimits, PoolRemote, PoolRequest, ProcessPool, TooLong
from penstock.remote.protocol import Accepted, Collected, Found, Guarantee, Order, Plan, Polled, Remote, ResultGone

FUNCTIONS = "tests.support.pool_functions"


class PoolHarness:
    """The pool has no other side that could lose a reply; what runs is what it says it runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pool = ProcessPool(workers=2)
        self.remote: Remote = PoolRemote(self.pool)

    def good_request(self) -> Any:
        return PoolRequest(function=f"{FUNCTIONS}:echo", args={"page": 3}, files=(Path(__file__),))

    def slow_request(self) -> Any:
        return {"function": f"{FUNCTIONS}:sleep", "args": {"seconds": 600}}

    def bad_request(self) -> Any:
        return {"function": "no function at all"}

    async def live(self, label: str) -> int:
        return sum(self.pool.state.running.values())

    async def refuse_next(self) -> None:
        raise NotImplementedError

    async def lose_reply(self) -> None:
        raise NotImplementedError

    async def finish(self, provider_id: str) -> None:
        raise NotImplementedError

    async def runs(self, label: str) -> int:
        raise NotImplementedError

    def unknown_id(self) -> str:
        return "none"


@pytest.mark.parametrize("check", checks_for("repeatable"), ids=lambda check: check.__name__)
def test_contract(check: Check, tmp_path: Path) -> None:
    async def main() -> None:
        harness = PoolHarness(tmp_path)
        try:
            await check(harness)
        finally:
            await harness.remote.close()

    asyncio.run(main())


def order(folder: Path, request: Any) -> Order:
    return Order(label="x", tenant="acme", job="j", key="k", attempt=1, request=request, folder=folder)


def test_blobs_become_files_and_a_plain_value_stays_plain(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "page.png").write_bytes(b"png")
        async with ProcessPool(workers=1) as pool:
            remote = PoolRemote(pool)
            files = [str(tmp_path / "page.png")]
            sent = await remote.submit(
                order(tmp_path / "home", {"function": f"{FUNCTIONS}:echo", "args": 1, "files": files})
            )
            assert sent == Collected(result={"value": 1, "files": ["blob-0"]})
            assert (tmp_path / "home" / "blob-0").read_bytes() == b"png"
            sent = await remote.submit(order(tmp_path, {"function": f"{FUNCTIONS}:fork_and_return"}))
            assert sent.result == "once"
            with pytest.raises(TooLong):
                limits = {"seconds": 0.2}
                request = {"function": f"{FUNCTIONS}:sleep", "args": {"seconds": 600}, "limits": limits}
                await remote.submit(order(tmp_path, request))

    asyncio.run(main())


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        "text",
        {"function": "os.path"},
        {"function": "__main__:f"},
        {"function": "a:b", "limits": {"seconds": -1}},
        {"function": "a:b", "limits": {"seconds": 1e6}},
        {"function": "a:b", "limits": {"hours": 1}},
        {"function": "a:b", "files": ["/no/such/file"]},
        {"function": "a:b", "resource": ""},
        {"function": "a:b", "more": 1},
    ],
)
def test_wrong_requests_are_refused_when_prepared(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest):
        asyncio.run(PoolRemote(ProcessPool()).prepare(order(tmp_path, wrong)))


def test_a_call_holds_its_resource(tmp_path: Path) -> None:
    request = PoolRequest(function="a:b", resource="ocr", limits=PoolLimits(pages=3))
    plan = asyncio.run(PoolRemote(ProcessPool()).prepare(order(tmp_path, request)))
    assert plan.holds == (Hold("resource:ocr"),)


def test_a_full_pool_gives_up_in_time_and_keeps_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with ProcessPool(workers=1) as pool:
            remote = PoolRemote(pool, submit_timeout=0.5)
            slow = order(tmp_path, {"function": f"{FUNCTIONS}:sleep", "args": {"seconds": 600}})
            both = await asyncio.gather(remote.submit(slow), remote.submit(slow), return_exceptions=True)
            assert [type(error) for error in both] == [Transient, Transient]
            found = await remote.find(slow)
            assert found.provider_ids == () and found.complete
            with pytest.raises(Permanent):
                await remote.collect(slow, "x")

    asyncio.run(main())


class Elsewhere:
    """A remote whose other side is a list: the smallest that keeps the contract, and a place to plant faults in."""

    name = "elsewhere"
    identity = "a list"
    keeps_files = False
    submit_timeout = listing_margin = poll_every = poll_at_most = overdue_after = 0.2

    def __init__(self, guarantee: Guarantee) -> None:
        self.guarantee: Guarantee = guarantee
        self.works: list[dict[str, Any]] = []
        self.next: str | None = None

    async def prepare(self, order: Order) -> Plan:
        if order.request == "bad":
            raise InvalidRequest("bad")
        return Plan(model="m", prepared={"size": 3})

    async def submit(self, order: Order) -> Accepted | Collected:
        assert order.prepared == {"size": 3}, "the engine hands back what was prepared"
        trouble, self.next = self.next, None
        if trouble == "refuse":
            raise RateLimited("later")
        known = [work for work in self.works if work["label"] == order.label]
        if self.guarantee == "findable" or not known:
            state = "running" if order.request == "slow" else "succeeded"
            known = [{"label": order.label, "id": f"w{len(self.works)}", "state": state}]
            self.works += known
        if trouble == "lose":
            raise Ambiguous("no reply")
        return Accepted(known[0]["id"])

    async def find(self, order: Order) -> Found:
        return Found(tuple(work["id"] for work in self.works if work["label"] == order.label), complete=True)

    async def poll(self, order: Order, provider_id: str) -> Polled:
        work = self.work(provider_id)
        return Polled(state=work["state"] if work else "gone")

    async def collect(self, order: Order, provider_id: str) -> Collected:
        if self.work(provider_id) is None:
            raise Transient("gone")
        trouble, self.next = self.next, None
        if trouble == "refuse":
            raise Permanent("a wrong key")
        return Collected(result={"id": provider_id})

    async def cancel(self, order: Order, provider_id: str) -> None:
        work = self.work(provider_id)
        if work and work["state"] == "running":
            work["state"] = "cancelled"

    async def tidy(self, order: Order, provider_id: str | None) -> None: ...

    async def close(self) -> None: ...

    def work(self, provider_id: str) -> dict[str, Any] | None:
        return next((work for work in self.works if work["id"] == provider_id), None)


class ElsewhereHarness:
    def __init__(self, folder: Path, remote: Elsewhere) -> None:
        self.folder = folder
        self.remote: Any = remote

    def good_request(self) -> Any:
        return "good"

    def slow_request(self) -> Any:
        return "slow"

    def bad_request(self) -> Any:
        return "bad"

    async def live(self, label: str) -> int:
        return sum(work["label"] == label and work["state"] == "running" for work in self.remote.works)

    async def refuse_next(self) -> None:
        self.remote.next = "refuse"

    async def lose_reply(self) -> None:
        self.remote.next = "lose"

    async def finish(self, provider_id: str) -> None:
        self.remote.work(provider_id)["state"] = "succeeded"

    async def refuse_collect(self) -> None:
        self.remote.next = "refuse"

    async def runs(self, label: str) -> int:
        return sum(work["label"] == label for work in self.remote.works)

    def unknown_id(self) -> str:
        return "w999"


@pytest.mark.parametrize("guarantee", ["findable", "callee_dedup"])
def test_the_contract_can_be_kept(guarantee: Guarantee, tmp_path: Path) -> None:
    for check in checks_for(guarantee):
        asyncio.run(check(ElsewhereHarness(tmp_path, Elsewhere(guarantee))))


class SearchesByPrefix(Elsewhere):
    async def find(self, order: Order) -> Found:
        return Found(tuple(work["id"] for work in self.works if work["label"].startswith(order.label)), complete=True)


class SeesOnlyPart(Elsewhere):
    async def find(self, order: Order) -> Found:
        return Found((await super().find(order)).provider_ids, complete=False)


class NewestFirst(Elsewhere):
    async def find(self, order: Order) -> Found:
        return Found((await super().find(order)).provider_ids[::-1], complete=True)


class CallsGoneFailed(Elsewhere):
    async def poll(self, order: Order, provider_id: str) -> Polled:
        polled = await super().poll(order, provider_id)
        return Polled(state="failed") if polled.state == "gone" else polled


class CallsLostRepliesTransient(Elsewhere):
    async def submit(self, order: Order) -> Accepted | Collected:
        try:
            return await super().submit(order)
        except Ambiguous as error:
            raise Transient("again") from error


class CallsRefusalsAmbiguous(Elsewhere):
    async def submit(self, order: Order) -> Accepted | Collected:
        try:
            return await super().submit(order)
        except RateLimited as error:
            raise Ambiguous("who knows") from error


class SendsAgainByItself(Elsewhere):
    async def submit(self, order: Order) -> Accepted | Collected:
        try:
            return await super().submit(order)
        except Ambiguous:
            return await super().submit(order)


class LetsRawErrorsOut(Elsewhere):
    async def cancel(self, order: Order, provider_id: str) -> None:
        if self.work(provider_id) is None:
            raise KeyError(provider_id)
        await super().cancel(order, provider_id)


class DoesNotCancel(Elsewhere):
    async def cancel(self, order: Order, provider_id: str) -> None: ...

    async def poll(self, order: Order, provider_id: str) -> Polled:
        polled = await super().poll(order, provider_id)
        return Polled(state="cancelled") if polled.state == "running" else polled


class CancelsTheEnded(Elsewhere):
    async def cancel(self, order: Order, provider_id: str) -> None:
        if work := self.work(provider_id):
            work["state"] = "cancelled"


class CollectsOnce(Elsewhere):
    async def collect(self, order: Order, provider_id: str) -> Collected:
        collected = await super().collect(order, provider_id)
        self.works.remove(self.work(provider_id))  # type: ignore[arg-type]
        return collected


class BeginsWhenPreparing(Elsewhere):
    async def prepare(self, order: Order) -> Plan:
        plan = await super().prepare(order)
        self.works.append({"label": order.label, "id": f"w{len(self.works)}", "state": "running"})
        return plan


class TakesAnything(Elsewhere):
    async def prepare(self, order: Order) -> Plan:
        return Plan(prepared={"size": 3})


class RunsEachTime(Elsewhere):
    async def submit(self, order: Order) -> Accepted | Collected:
        self.guarantee = "findable"
        return await super().submit(order)


class GivesUpWhatIsRefused(Elsewhere):
    async def collect(self, order: Order, provider_id: str) -> Collected:
        try:
            return await super().collect(order, provider_id)
        except Permanent as error:
            raise ResultGone("refused") from error


class EndsWhatItDoesNotKnow(Elsewhere):
    async def collect(self, order: Order, provider_id: str) -> Collected:
        if self.work(provider_id) is None:
            raise ResultGone("gone")
        return await super().collect(order, provider_id)


class ShowsItsPassword(Elsewhere):
    identity = "https://me:secret@elsewhere"


class CouldBeAnywhere(Elsewhere):
    identity = ""


class WaitsForEver(Elsewhere):
    poll_at_most = float("inf")


@pytest.mark.parametrize(
    "faulty",
    [
        SearchesByPrefix, SeesOnlyPart, NewestFirst, CallsGoneFailed, CallsLostRepliesTransient, CallsRefusalsAmbiguous,
        SendsAgainByItself, LetsRawErrorsOut, DoesNotCancel, CancelsTheEnded, CollectsOnce, BeginsWhenPreparing,
        TakesAnything, RunsEachTime, WaitsForEver, GivesUpWhatIsRefused, EndsWhatItDoesNotKnow, ShowsItsPassword,
        CouldBeAnywhere,
    ],
)  # fmt: skip
def test_a_remote_that_breaks_the_contract_is_caught(faulty: type[Elsewhere], tmp_path: Path) -> None:
    guarantee: Guarantee = "callee_dedup" if faulty is RunsEachTime else "findable"
    with pytest.raises((AssertionError, PenstockError)):
        for check in checks_for(guarantee):
            asyncio.run(check(ElsewhereHarness(tmp_path, faulty(guarantee))))
