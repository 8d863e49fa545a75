"""Files to Gemini and back, over lines that break; and the client that carries them. No network, no real time."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from google.genai import _api_client

from penstock.engine.call import Usage
from penstock.engine.errors import Ambiguous, InvalidRequest, PenstockError, Permanent, Transient
from penstock.remote.gemini.batch import GeminiBatch
from penstock.remote.gemini.caching import GeminiCache
from penstock.remote.gemini.client import GeminiClient
from penstock.remote.gemini.download import download
from penstock.remote.gemini.requests import file, generate_request
from penstock.remote.gemini.results import read_rows
from penstock.remote.gemini.settings import GeminiSettings, Transfers
from penstock.remote.gemini.shelf import Shelf, Wanted
from penstock.remote.gemini.single import GeminiEmbed, GeminiGenerate, generate
from penstock.remote.gemini.upload import upload
from penstock.remote.protocol import Found, Order, ResultGone

HOUR = 3600.0
CHUNK = 256 * 1024


class FakeClock:
    """Sleeping moves it on, at once. A sleep that an exchange is raced against must not win by itself: it lets the
    other side have a few turns first."""

    def __init__(self) -> None:
        self.time = 1_800_000_000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        for _ in range(200):
            await asyncio.sleep(0)
        self.slept.append(seconds)
        self.time += seconds


Handler = Callable[[httpx2.Request], Awaitable[httpx2.Response]]


async def directly(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


def client_of(handler: Any, clock: FakeClock | None = None, **settings: Any) -> GeminiClient:
    told = GeminiSettings(base_url="http://127.0.0.1:1", upload_chunk=CHUNK, attempts=3, api_key="KEY", **settings)  # type: ignore[arg-type]
    return GeminiClient(
        told,
        clock=clock or FakeClock(),
        transport=httpx2.MockTransport(handler),
        rng=random.Random(1),
        in_thread=directly,
    )


class Files:
    """Gemini's side of the Files API, which fails as told: `faults` are taken one for each chunk."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.faults: list[str] = []
        self.starts = 0
        self.sent = 0
        self.astray = 0
        self.uploads: dict[str, bytearray] = {}
        self.files: dict[str, dict[str, Any]] = {}
        self.deleted: list[str] = []
        self.live = 48 * HOUR
        self.busy = 0
        self.busiest = 0

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        await asyncio.sleep(0)
        try:
            return await self.answer(request)
        finally:
            self.busy -= 1

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        command = request.headers.get("x-goog-upload-command", "")
        if command == "start":
            assert request.headers["x-goog-api-key"] == "KEY"
            self.starts += 1
            number = f"u{self.starts}"
            self.uploads[number] = bytearray()
            self.files[number] = json.loads(await request.aread())["file"]
            return httpx2.Response(200, headers={"x-goog-upload-url": f"http://127.0.0.1:1/upload/x?id={number}"})
        if path.startswith("/upload/x"):
            assert "x-goog-api-key" not in request.headers, "the address is the key"
            return await self.chunk(request, request.url.params["id"], command)
        name = path.removeprefix("/v1beta/")
        if request.method == "DELETE":
            self.deleted.append(name)
            return self.file_reply(name) if name in self.files else httpx2.Response(403, json={})
        if name == "files":
            listed = [self.file_json(name) for name in self.files if name.startswith("files/")]
            return httpx2.Response(200, json={"files": listed})
        return (
            self.file_reply(name) if name in self.files and name not in self.deleted else httpx2.Response(403, json={})
        )

    async def chunk(self, request: httpx2.Request, number: str, command: str) -> httpx2.Response:
        if number not in self.uploads:
            return httpx2.Response(404, json={})
        held = self.uploads[number]
        if command == "query":
            headers = {"x-goog-upload-status": "active", "x-goog-upload-size-received": str(len(held))}
            return httpx2.Response(200, headers=headers)
        fault = self.faults.pop(0) if self.faults else ""
        content = await request.aread()
        if int(request.headers["x-goog-upload-offset"]) != len(held):
            self.astray += 1
            return httpx2.Response(400, json={})
        if fault == "lost":
            raise httpx2.ReadError("reset")
        if fault == "half":
            held += content[: len(content) // 2]
            raise httpx2.WriteError("reset")
        if fault == "forget":
            del self.uploads[number]
            return httpx2.Response(404, json={})
        if fault == "ignored, no status":
            return httpx2.Response(200)
        if fault.isdigit():
            return httpx2.Response(int(fault), json={})
        held += content
        self.sent += len(content)
        if fault == "stored, no status":
            return httpx2.Response(200)
        if "finalize" not in command:
            return httpx2.Response(200, headers={"x-goog-upload-status": "active"})
        name = f"files/f{len(self.files)}"
        self.files[name] = {**self.files[number], "size": len(held), "expires": self.clock.now() + self.live}
        return httpx2.Response(200, headers={"x-goog-upload-status": "final"}, json={"file": self.file_json(name)})

    def file_json(self, name: str) -> dict[str, Any]:
        told = self.files[name]
        return {
            "name": name,
            "displayName": told["displayName"],
            "sizeBytes": str(told["size"]),
            "uri": f"https://gemini/{name}",
            "state": "ACTIVE",
            "expirationTime": datetime.fromtimestamp(told["expires"], UTC).isoformat(),
        }

    def file_reply(self, name: str) -> httpx2.Response:
        return httpx2.Response(200, json=self.file_json(name))


def some_file(folder: Path, size: int, name: str = "big.bin") -> Path:
    path = folder / name
    path.write_bytes(random.Random(name).randbytes(size))
    return path


@pytest.mark.parametrize(
    ("faults", "starts"),
    [
        ([], 1),
        (["", "lost"], 1),
        (["half", "", "half"], 1),
        (["503", "500", ""], 1),
        (["", "", "stored, no status"], 1),
        (["", "ignored, no status"], 1),
        (["", "forget"], 2),
        (["429"], 1),
    ],
)
def test_an_upload_goes_on_where_it_broke_off(faults: list[str], starts: int, tmp_path: Path) -> None:
    clock = FakeClock()
    gemini = Files(clock)
    gemini.faults = faults[:]
    path = some_file(tmp_path, 3 * CHUNK + 17)
    done = asyncio.run(upload(client_of(gemini, clock), path, label="l", mime="x/y"))
    assert gemini.starts == starts
    assert gemini.astray == 0, "every chunk is sent from where Gemini is"
    assert any(bytes(held) == path.read_bytes() for held in gemini.uploads.values())
    assert done.size == 3 * CHUNK + 17
    assert done.expires == pytest.approx(gemini.files[done.name]["expires"])
    assert gemini.sent <= 3 * CHUNK + 17 + (CHUNK if starts == 2 else 0), "what Gemini has is not sent again"


@pytest.mark.parametrize("size", [1, CHUNK - 1, CHUNK, CHUNK + 1])
def test_uploads_of_any_size(size: int, tmp_path: Path) -> None:
    clock = FakeClock()
    gemini = Files(clock)
    path = some_file(tmp_path, size)
    done = asyncio.run(upload(client_of(gemini, clock), path, label="l", mime="x/y"))
    assert done.size == size
    assert bytes(gemini.uploads["u1"]) == path.read_bytes()


@pytest.mark.parametrize(
    ("faults", "error"), [(["503"] * 50, Transient), (["lost"] * 50, Transient), (["403"], Permanent)]
)
def test_an_upload_is_given_up_at_last(faults: list[str], error: type[Exception], tmp_path: Path) -> None:
    clock = FakeClock()
    gemini = Files(clock)
    gemini.faults = faults
    with pytest.raises(error):
        asyncio.run(upload(client_of(gemini, clock), some_file(tmp_path, 10), label="l", mime="x/y"))
    assert len(faults) >= 40 or error is Permanent


def test_files_are_uploaded_several_at_a_time(tmp_path: Path) -> None:
    clock = FakeClock()
    gemini = Files(clock)

    async def main() -> None:
        shelf = Shelf(client_of(gemini, clock, upload_parallel=4), tmp_path / "call", tenant="a")
        wanted = [(f"{n}", Wanted(some_file(tmp_path, 10, f"{n}.png"), "image/png")) for n in range(20)]
        files = await shelf.have_all(wanted)
        assert len({file.uri for file in files.values()}) == 20

    asyncio.run(main())
    assert 1 < gemini.busiest <= 4


def test_a_batch_says_how_many_files_go_at_once(tmp_path: Path) -> None:
    clock = FakeClock()
    gemini = Files(clock)
    client = client_of(gemini, clock, upload_parallel=1)
    shelf = Shelf(client, tmp_path / "call", tenant="a", transfers=Transfers(parallel=3))
    wanted = [(f"{n}", Wanted(some_file(tmp_path, 10, f"{n}.png"), "image/png")) for n in range(9)]
    asyncio.run(shelf.have_all(wanted))
    assert 1 < gemini.busiest <= 3


def test_a_file_that_lives_long_enough_is_used_again(tmp_path: Path) -> None:
    clock = FakeClock()
    gemini = Files(clock)
    wanted = Wanted(some_file(tmp_path, 10), "image/png")

    async def have() -> str:
        shelf = Shelf(client_of(gemini, clock, files_live_for=40 * HOUR), tmp_path / "call", tenant="a")
        await shelf.open()
        return (await shelf.have(wanted)).name

    async def main() -> None:
        first = await have()
        clock.time += 7 * HOUR
        assert await have() == first
        clock.time += 2 * HOUR
        second = await have()
        assert second != first, "39 hours are too few for a batch that may take 40"
        gemini.deleted.append(second)
        assert await have() not in (first, second), "deleted meanwhile"
        shelf = Shelf(client_of(gemini, clock), tmp_path / "call", tenant="a")
        gemini.deleted.clear()
        await shelf.clear()
        assert sorted(gemini.deleted) == sorted(name for name in gemini.files if name.startswith("files/"))

    asyncio.run(main())


def test_shared_files_are_found_by_their_content_and_left(tmp_path: Path) -> None:
    clock = FakeClock()
    gemini = Files(clock)
    wanted = Wanted(some_file(tmp_path, 10), "image/png", shared=True)

    async def have(call: str, tenant: str) -> str:
        shelf = Shelf(client_of(gemini, clock), tmp_path / call, tenant=tenant)
        name = (await shelf.have(wanted)).name
        await shelf.clear()
        return name

    async def main() -> None:
        first = await have("one", "acme")
        assert await have("two", "acme") == first
        assert await have("three", "other") != first, "tenants never meet"
        assert gemini.deleted == []

    asyncio.run(main())


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for path in (tmp_path / "none", tmp_path / "empty"):
        with pytest.raises(InvalidRequest):
            asyncio.run(Shelf(client_of(Files(FakeClock())), tmp_path, tenant="a").have(Wanted(path, "x/y")))


class Result:
    """A result at Gemini. `script` says what each request gets: how many bytes, or a status, or another trouble."""

    def __init__(self, content: bytes, script: list[Any], **options: Any) -> None:
        self.content = content
        self.script = script
        self.ranges: list[str | None] = []
        self.options = options

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        wanted = request.headers.get("range")
        self.ranges.append(wanted)
        step = self.script.pop(0) if self.script else None
        if isinstance(step, int) and step in (401, 403, 404, 503):
            return httpx2.Response(step, json={"error": {"message": "no"}})
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        if step == "from the start":
            start, wanted = 0, None
        if step == "elsewhere":
            start -= 1
        if wanted and start >= len(self.content):
            return httpx2.Response(416, headers={"content-range": f"bytes */{len(self.content)}"})
        rest = self.content[start:]
        sent = rest[: step if isinstance(step, int) else None]
        headers = {"etag": '"x"', **self.options.get("headers", {})}
        if self.options.get("length", True):
            headers["content-length"] = str(len(rest))
        if wanted:
            total = len(self.content) + (1 if step == "changed" else 0)
            headers["content-range"] = f"bytes {start}-{len(self.content) - 1}/{total}"

        async def body() -> Any:
            yield sent[: len(sent) // 2]
            yield sent[len(sent) // 2 :]
            if step == "breaks":
                raise httpx2.ReadError("reset")

        return httpx2.Response(206 if wanted else 200, headers=headers, content=body())


CONTENT = bytes(range(256)) * 40


@pytest.mark.parametrize(
    ("script", "ranges"),
    [
        ([], [None]),
        ([5000], [None, "bytes=5000-"]),
        ([1000, 1000, 0, 1000], [None, "bytes=1000-", "bytes=2000-", "bytes=2000-", "bytes=3000-"]),
        ([503, 5000, 503], [None, None, "bytes=5000-", "bytes=5000-"]),
        ([5000, "from the start"], [None, "bytes=5000-"]),
        ([5000, "elsewhere"], [None, "bytes=5000-", None]),
        ([5000, "changed"], [None, "bytes=5000-", None]),
        (["breaks"], [None, f"bytes={len(CONTENT)}-"]),
    ],
)
def test_a_download_goes_on_where_it_broke_off(script: list[Any], ranges: list[str | None], tmp_path: Path) -> None:
    gemini = Result(CONTENT, script)
    done = asyncio.run(download(client_of(gemini), "files/batch-x", tmp_path / "home" / "result"))
    assert (tmp_path / "home" / "result").read_bytes() == CONTENT
    assert (done.sha256, done.size, done.proved) == (hashlib.sha256(CONTENT).hexdigest(), len(CONTENT), True)
    assert gemini.ranges == ranges
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["result"]


@pytest.mark.parametrize(
    ("script", "options", "error", "said"),
    [
        ([0] * 20, {}, Transient, "0 of"),
        ([503] * 20, {}, Transient, "503"),
        ([404], {}, Permanent, "may not be there any more"),
        ([403], {}, Permanent, "may not be there any more"),
        ([401], {}, Permanent, "GEMINI_API_KEY"),
        ([], {"headers": {"content-encoding": "x-own"}}, Transient, "compressed"),
    ],
)
def test_a_download_that_fails_leaves_nothing(
    script: list[Any], options: dict[str, Any], error: type[Exception], said: str, tmp_path: Path
) -> None:
    (tmp_path / "result").write_bytes(b"before")
    with pytest.raises(error, match=said):
        asyncio.run(download(client_of(Result(CONTENT, script, **options)), "files/x", tmp_path / "result"))
    assert [path.name for path in tmp_path.iterdir()] == ["result"]
    assert (tmp_path / "result").read_bytes() == b"before"


def test_a_download_of_no_told_length_is_not_proved(tmp_path: Path) -> None:
    gemini = Result(CONTENT, [], length=False)
    done = asyncio.run(download(client_of(gemini), "files/x", tmp_path / "result"))
    assert not done.proved


def order(folder: Path, request: Any = None, **prepared: Any) -> Order:
    return Order("label", "acme", "job", "key", 1, request, folder, prepared)


CREATES = {"mode": "file", "kind": "generate", "model": "gemini-3.8-flash", "input": "files/x"}


async def submit_to(handler: Any, folder: Path, **settings: Any) -> Any:
    client = client_of(handler, **settings)
    try:
        return await GeminiBatch(client).submit(order(folder, **CREATES))
    finally:
        await client.close()


def test_the_sdk_sends_through_our_client_whatever_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_api_client, "has_aiohttp", True)
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_API_KEY", "another")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    seen: list[httpx2.Request] = []

    async def gemini(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json={"name": "batches/b1", "metadata": {"state": "BATCH_STATE_PENDING"}})

    accepted = asyncio.run(submit_to(gemini, tmp_path, create_timeout=77))
    assert accepted.provider_id == "batches/b1"
    [request] = seen
    assert request.url.path == "/v1beta/models/gemini-3.8-flash:batchGenerateContent"
    assert request.headers["x-goog-api-key"] == "KEY"
    assert request.headers["x-server-timeout"] == "77"
    assert request.extensions["timeout"] == {"connect": 10.0, "pool": 10.0, "read": 77.0, "write": 77.0}
    assert json.loads(request.content) == {"batch": {"inputConfig": {"fileName": "files/x"}, "displayName": "label"}}


def test_a_loopback_address_is_asked_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.engine.clock import SystemClock

    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    near = GeminiClient(GeminiSettings(base_url="http://127.0.0.1:1"), clock=SystemClock())
    far = GeminiClient(GeminiSettings(api_key="k"), clock=SystemClock())  # type: ignore[arg-type]
    assert near.http.trust_env is False
    assert far.http.trust_env is True


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (httpx2.ConnectError("no route"), Transient),
        (httpx2.ReadTimeout("slow"), Ambiguous),
        (httpx2.RemoteProtocolError("gone"), Ambiguous),
        (httpx2.Response(503, json={}), Ambiguous),
        (httpx2.Response(200, content=b"<html>"), Ambiguous),
        (httpx2.Response(200, json={"metadata": {}}), Ambiguous),
        (httpx2.Response(307, headers={"location": "http://evil/"}), Permanent),
        (httpx2.Response(429, json={}), Transient),
        (httpx2.Response(400, json={}), Permanent),
    ],
)
def test_a_create_is_sent_once_whatever_happens(trouble: Any, told: type[Exception], tmp_path: Path) -> None:
    sent = 0

    async def gemini(request: httpx2.Request) -> httpx2.Response:
        nonlocal sent
        sent += 1
        if isinstance(trouble, Exception):
            raise trouble
        return trouble  # type: ignore[no-any-return]

    with pytest.raises(told) as caught:
        asyncio.run(submit_to(gemini, tmp_path))
    assert type(caught.value).__mro__.index(told) <= 1
    assert sent == 1


def test_an_exchange_that_never_ends_is_ended_by_the_clock(tmp_path: Path) -> None:
    async def gemini(request: httpx2.Request) -> httpx2.Response:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(Ambiguous, match="within 120 s"):
        asyncio.run(submit_to(gemini, tmp_path))


def test_files_that_would_expire_too_soon_are_not_used(tmp_path: Path) -> None:
    """A batch that was prepared and then waited is prepared anew, not sent with files that vanish under it."""
    clock = FakeClock()
    gemini = Files(clock)
    (tmp_path / "page.png").write_bytes(b"png")
    request = {
        "requests": [{"key": "k", "request": generate_request(["read", file("page.png")])}],
        "uploads": {"page.png": str(tmp_path / "page.png")},
        "mode": "file",
    }

    async def main() -> None:
        remote = GeminiBatch(client_of(gemini, clock))
        asked = order(tmp_path / "call", request)
        first = await remote.prepare(asked)
        assert await remote.prepare(asked) == first
        assert gemini.starts == 2, "the page and the rows, once each"
        written = json.loads((tmp_path / "call" / "input.jsonl").read_text())
        assert written["request"]["contents"][0]["parts"][1] == {
            "fileData": {"fileUri": "https://gemini/files/f1", "mimeType": "image/png"}
        }
        clock.time += 9 * HOUR
        with pytest.raises(Transient, match="prepare it again"):
            await remote.submit(order(tmp_path / "call", request, **first.prepared))
        second = await remote.prepare(asked)
        assert second.prepared["input"] != first.prepared["input"]
        assert gemini.starts == 4
        assert gemini.deleted == ["files/f1"], "the page that was replaced takes no room any more"
        await remote.tidy(order(tmp_path / "call", **second.prepared), None)
        assert len(set(gemini.deleted)) == 4, "the old ones too"

    asyncio.run(main())


def test_a_search_that_breaks_off_proves_nothing(tmp_path: Path) -> None:
    pages: list[Any] = []
    account = ""

    async def gemini(request: httpx2.Request) -> httpx2.Response:
        page = pages[int(request.url.params.get("pageToken", "0"))]
        return httpx2.Response(page, json={}) if isinstance(page, int) else httpx2.Response(200, json=page)

    def operation(name: str, label: str, created: str) -> dict[str, Any]:
        return {"name": f"batches/{name}", "metadata": {"displayName": label, "createTime": created}}

    async def find() -> Any:
        client = client_of(gemini)
        return await GeminiBatch(client).find(order(tmp_path, account=account or client.account))

    new, old = operation("new", "label", "2026-11-15T10:00:00Z"), operation("old", "label", "2026-11-14T10:00:00Z")
    pages[:] = [
        {"operations": [new, operation("x", "label2", "")], "nextPageToken": "1"},
        {"nextPageToken": "2"},
        {"operations": [old]},
    ]
    assert asyncio.run(find()) == Found(("batches/old", "batches/new"), complete=True)
    account = "another"
    assert asyncio.run(find()) == Found(("batches/old", "batches/new"), complete=False)
    pages[:] = [{}]
    assert asyncio.run(find()) == Found((), complete=False), "another key does not see what ours made"
    account = ""
    assert asyncio.run(find()) == Found((), complete=True)
    pages[:] = [{"nextPageToken": "1"}, {"nextPageToken": "1"}]
    assert asyncio.run(find()).complete is False
    pages[:] = [{"operations": [new], "nextPageToken": "1"}, 503]
    found = asyncio.run(find())
    assert (found.provider_ids, found.complete) == (("batches/new",), False)
    pages[:] = [503]
    with pytest.raises(Transient):
        asyncio.run(find())
    pages[:] = [403]
    with pytest.raises(PenstockError):
        asyncio.run(find())


def test_an_answer_in_parts_is_joined_and_bounded() -> None:
    bodies: list[dict[str, Any]] = []
    ends = True

    async def gemini(request: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(request.content))
        candidate = {"content": {"parts": [{"text": f"<{len(bodies)}>"}]}, "finishReason": "STOP"}
        if len(bodies) < 3 or not ends:
            candidate |= {"finishReason": "CONTINUATION", "continuationToken": "YWJj"}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5}
        return httpx2.Response(200, json={"candidates": [candidate], "usageMetadata": usage})

    row = asyncio.run(generate(client_of(gemini), "gemini-3.8-flash", generate_request("tell", temperature=0.5)))
    assert (row.outcome, row.text, row.usage) == ("ok", "<1><2><3>", Usage(input=30, output=15))
    assert [body.get("continuationToken") for body in bodies] == [None, "YWJj", "YWJj"]
    assert all(body["contents"] == generate_request("tell")["contents"] for body in bodies)
    assert bodies[0]["generationConfig"] == {"temperature": 0.5}
    bodies.clear()
    ends = False
    row = asyncio.run(generate(client_of(gemini), "gemini-3.8-flash", generate_request("tell")))
    assert (row.outcome, len(bodies)) == ("truncated", 8)


@pytest.mark.parametrize("later", [400, 401, 403, 404, 429, 503, "no route", "no object"])
def test_after_the_first_part_of_an_answer_every_error_is_ambiguous(later: Any) -> None:
    sent = 0

    async def gemini(request: httpx2.Request) -> httpx2.Response:
        nonlocal sent
        sent += 1
        if sent == 1:
            candidate = {"content": {"parts": [{"text": "a"}]}, "finishReason": "CONTINUATION"}
            return httpx2.Response(200, json={"candidates": [{**candidate, "continuationToken": "YWJj"}]})
        if later == "no route":
            raise httpx2.ConnectError("no route")
        return httpx2.Response(200, json=[]) if later == "no object" else httpx2.Response(later, json={})

    with pytest.raises(Ambiguous, match=r"paid|may have taken"):
        asyncio.run(generate(client_of(gemini), "gemini-3.8-flash", generate_request("tell")))
    assert sent == 2


def test_an_answer_without_a_count_is_paid_all_the_same(tmp_path: Path) -> None:
    async def gemini(request: httpx2.Request) -> httpx2.Response:
        candidate = {"content": {"parts": [{"text": "a word"}]}, "finishReason": "STOP"}
        return httpx2.Response(200, json={"candidates": [candidate]})

    asked = order(tmp_path, {"request": generate_request("tell")})
    collected = asyncio.run(GeminiGenerate(client_of(gemini)).submit(asked))
    assert collected.result["estimated"] is True
    assert collected.cost > 0


def test_embeddings_that_cannot_be_used_are_paid(tmp_path: Path) -> None:
    """One vector for all texts: it is told in the result, not as a refusal, and nothing more is asked."""
    sent = 0

    async def gemini(request: httpx2.Request) -> httpx2.Response:
        nonlocal sent
        sent += 1
        return httpx2.Response(200, json={"embeddings": [{"values": [0.5, 0.5]}]})

    asked = order(tmp_path, {"texts": [f"text {number}" for number in range(150)]})
    collected = asyncio.run(GeminiEmbed(client_of(gemini)).submit(asked))
    assert sent == 1
    assert (collected.result["outcome"], collected.result["rows"]) == ("invalid", {"ok": 0, "invalid": 150})
    assert "gave 1 vectors" in collected.result["error"]
    assert collected.cost > 0
    assert {row.outcome for row in read_rows(tmp_path / "rows.jsonl")} == {"invalid"}


def test_an_embedding_that_cannot_be_kept_is_ambiguous(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def gemini(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={"embeddings": [{"values": [0.5, 0.5]}]})

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Ambiguous, match="are paid"):
        asyncio.run(GeminiEmbed(client_of(gemini)).submit(order(tmp_path, {"texts": ["one"]})))


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (400, Transient),
        (401, Transient),
        (403, Transient),
        (404, Transient),
        (503, Transient),
        ({}, Transient),
        ({"state": "BATCH_STATE_SUCCEEDED", "endTime": "2001-01-01T00:00:00Z"}, Transient),
        ({"state": "BATCH_STATE_FAILED"}, ResultGone),
        ({"state": "BATCH_STATE_CANCELLED"}, ResultGone),
        ({"state": "BATCH_STATE_EXPIRED"}, ResultGone),
    ],
)
def test_only_the_batch_itself_says_that_there_is_no_result(answer: Any, told: type[Exception], tmp_path: Path) -> None:
    sent = 0

    async def gemini(request: httpx2.Request) -> httpx2.Response:
        nonlocal sent
        sent += 1
        if isinstance(answer, int):
            return httpx2.Response(answer, json={})
        return httpx2.Response(200, json={"name": "batches/x", "metadata": answer})

    async def collect(folder: Path) -> None:
        await GeminiBatch(client_of(gemini)).collect(order(folder, kind="generate", model="m", tokens=1), "batches/x")

    (tmp_path / "keys.jsonl").write_bytes(b'"k"\n')
    with pytest.raises(told) as caught:
        asyncio.run(collect(tmp_path))
    assert type(caught.value) is told
    assert [path.name for path in tmp_path.iterdir()] == ["keys.jsonl"]
    sent = 0
    with pytest.raises(Transient, match="in another home"):
        asyncio.run(collect(tmp_path / "elsewhere"))
    assert sent == 0
    assert not (tmp_path / "elsewhere").exists()


def test_a_plan_names_the_account_and_not_the_key(tmp_path: Path) -> None:
    async def gemini(request: httpx2.Request) -> httpx2.Response:
        raise AssertionError

    def client(key: str) -> GeminiClient:
        settings = GeminiSettings(base_url="http://127.0.0.1:1", api_key=key)  # type: ignore[arg-type]
        return GeminiClient(settings, clock=FakeClock(), transport=httpx2.MockTransport(gemini), in_thread=directly)

    asked = order(tmp_path, {"mode": "inline", "requests": [{"key": "k", "request": generate_request("read")}]})
    accounts = [
        asyncio.run(GeminiBatch(client(key)).prepare(asked)).prepared["account"] for key in ("A", "A", "SECRET")
    ]
    assert accounts[0] == accounts[1] != accounts[2]
    assert [len(account) for account in accounts] == [12, 12, 12]
    assert accounts[2] != hashlib.sha256(b"SECRET").hexdigest()[:12]
    assert not any(b"SECRET" in path.read_bytes() for path in tmp_path.iterdir())


def test_which_gemini_it_is_can_be_told() -> None:
    client = client_of(None)
    for remote in (GeminiBatch, GeminiGenerate, GeminiEmbed, GeminiCache):
        assert remote(client).identity == "http://127.0.0.1:1"
        assert remote(client, identity="own").identity == "own"
    assert [GeminiBatch.keeps_files, GeminiEmbed.keeps_files, GeminiGenerate.keeps_files] == [True, True, False]


def test_a_full_disk_leaves_nothing_and_may_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Transient, match="No space left"):
        asyncio.run(download(client_of(Result(CONTENT, [])), "files/x", tmp_path / "result"))
    assert list(tmp_path.iterdir()) == []
