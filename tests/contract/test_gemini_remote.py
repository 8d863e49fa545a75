"""Gemini's batches and single calls keep the contract that every remote keeps, against the local Gemini."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.clock import SystemClock
from penstock.remote.contract import Check, a_lost_reply_is_found, checks_for, work_comes_home
from penstock.remote.gemini.batch import GeminiBatch
from penstock.remote.gemini.caching import GeminiCache
from penstock.remote.gemini.client import GeminiClient
from penstock.remote.gemini.requests import embed_request, generate_request
from penstock.remote.gemini.settings import GeminiSettings
from penstock.remote.gemini.single import GeminiEmbed, GeminiGenerate
from penstock.remote.protocol import Remote
from tests.support.gemini import Gemini, running_gemini

DAY = 24 * 3600
STUCK = {"kind": "stuck_running", "seconds": DAY}
"""A batch that takes a day; moving the server's clock on ends that."""


@pytest.fixture(scope="module")
def server() -> Iterator[Gemini]:
    with running_gemini() as gemini:
        yield gemini


@pytest.fixture
def gemini(server: Gemini) -> Gemini:
    server.reset()
    return server


def client_of(gemini: Gemini) -> GeminiClient:
    settings = GeminiSettings(base_url=gemini.url, poll_every=0.05, request_timeout=10, create_timeout=10)
    return GeminiClient(settings, clock=SystemClock())


class GeminiHarness:
    def __init__(self, remote: Remote, gemini: Gemini, folder: Path, mode: str = "file") -> None:
        self.remote = remote
        self.folder = folder
        self._gemini = gemini
        self._mode = mode
        self._pace: list[dict[str, Any]] = []

    def good_request(self) -> Any:
        self._set_pace([])
        if self.remote.name == "gemini.embed":
            return {"texts": ["one", "two"]}
        if self.remote.name == "gemini.generate":
            return {"request": generate_request("hello")}
        if self.remote.name == "gemini.cache":
            return {"contents": generate_request("a long text " * 1000)["contents"], "ttl": 600}
        if self._mode.startswith("embed"):
            rows = [{"key": f"r{number}", "request": embed_request(f"page {number}")} for number in range(3)]
            return {"kind": "embed", "mode": self._mode.removeprefix("embed "), "requests": rows}
        rows = [{"key": f"r{number}", "request": generate_request(f"page {number}")} for number in range(3)]
        return {"mode": self._mode, "requests": rows}

    def slow_request(self) -> Any:
        request = self.good_request()
        self._set_pace([STUCK])
        return request

    def bad_request(self) -> Any:
        if self.remote.name == "gemini.embed":
            return {"texts": [""]}
        if self.remote.name == "gemini.generate":
            return {"request": {}}
        if self.remote.name == "gemini.cache":
            return {"contents": [{"parts": []}]}
        return {"requests": [{"key": "a", "request": {"contents": []}}]}

    async def live(self, label: str) -> int:
        view = self._gemini.http("GET", "/v1beta/batches?pageSize=1000&key=x")[1]
        return sum(
            operation["metadata"]["displayName"] == label and not operation.get("done")
            for operation in view.get("operations", ())
        )

    async def refuse_next(self) -> None:
        self._gemini.faults([*self._pace, {"kind": "error", "where": "create", "code": 429, "times": 1}])

    async def lose_reply(self) -> None:
        self._gemini.faults([*self._pace, {"kind": "drop_after", "where": "create", "times": 1}])

    async def refuse_collect(self) -> None:
        where = "download" if "file" in self._mode else "get"
        self._gemini.faults([*self._pace, {"kind": "error", "where": where, "code": 403, "times": 1}])

    async def finish(self, provider_id: str) -> None:
        self._gemini.advance(DAY + 1)

    async def runs(self, label: str) -> int:
        raise NotImplementedError

    def unknown_id(self) -> str:
        return "batches/" + "x" * 36

    def _set_pace(self, faults: list[dict[str, Any]]) -> None:
        self._pace = faults
        self._gemini.faults(faults)


def run(check: Check, remote: Any, gemini: Gemini, folder: Path, mode: str = "file") -> None:
    async def main() -> None:
        harness = GeminiHarness(remote(client_of(gemini)), gemini, folder, mode)
        try:
            await check(harness)
        finally:
            await harness.remote.close()

    asyncio.run(main())


@pytest.mark.parametrize("mode", ["file", "inline"])
@pytest.mark.parametrize("check", checks_for("findable"), ids=lambda check: check.__name__)
def test_batches(check: Check, mode: str, gemini: Gemini, tmp_path: Path) -> None:
    run(check, GeminiBatch, gemini, tmp_path, mode)


@pytest.mark.parametrize("mode", ["embed file", "embed inline"])
@pytest.mark.parametrize("check", [work_comes_home, a_lost_reply_is_found], ids=lambda check: check.__name__)
def test_batches_of_embeddings(check: Check, mode: str, gemini: Gemini, tmp_path: Path) -> None:
    run(check, GeminiBatch, gemini, tmp_path, mode)


@pytest.mark.parametrize("remote", [GeminiGenerate, GeminiEmbed, GeminiCache])
@pytest.mark.parametrize("check", checks_for("repeatable"), ids=lambda check: check.__name__)
def test_single_calls(check: Check, remote: Any, gemini: Gemini, tmp_path: Path) -> None:
    run(check, remote, gemini, tmp_path)
