"""The process pool keeps the contract that every remote keeps; and a remote that breaks it is caught."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.call import Hold
from penstock.engine.errors import InvalidRequest, Permanent, Transient
from penstock.remote.contract import Check, checks_for
from penstock.remote.pool import PoolLimits, PoolRemote, PoolRequest, ProcessPool, TooLong
from penstock.remote.protocol import Collected, Order, Remote

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
