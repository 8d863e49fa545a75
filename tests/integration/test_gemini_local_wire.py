"""The local Gemini without an SDK: uploads that are resumed, parts of downloads, callers it does not let in."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.support.gemini import Gemini, running_gemini

KEY = {"x-goog-api-key": "k"}
GENERATE = "/v1/models/gemini-2.5-flash:generateContent"
HELLO = {"contents": [{"parts": [{"text": "hello"}]}]}


@pytest.fixture(scope="module")
def server() -> Iterator[Gemini]:
    with running_gemini(body_bytes=100_000) as gemini:
        yield gemini


@pytest.fixture
def gemini(server: Gemini) -> Gemini:
    server.reset()
    return server


def start(gemini: Gemini, size: int, **headers: str) -> str:
    answer = httpx2.post(
        f"{gemini.url}/upload/v1beta/files",
        json={"file": {"displayName": "a file"}},
        headers={
            **KEY,
            "X-Goog-Upload-Protocol": "resumable",
            "X-Goog-Upload-Command": "start",
            "X-Goog-Upload-Header-Content-Length": str(size),
            "X-Goog-Upload-Header-Content-Type": "text/plain",
            **headers,
        },
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-goog-upload-status"] == "active"
    return answer.headers["x-goog-upload-url"]


def send(url: str, command: str, offset: int = 0, content: bytes = b"") -> httpx2.Response:
    headers = {"X-Goog-Upload-Command": command, "X-Goog-Upload-Offset": str(offset)}
    return httpx2.post(url, content=content, headers={**headers, "Content-Type": "application/json"})


def test_an_upload_is_resumed_where_it_broke_off(gemini: Gemini) -> None:
    content = bytes(range(256)) * 4000
    url = start(gemini, len(content))
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port)) as connection:
        head = (
            f"POST {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\nX-Goog-Upload-Command: upload\r\n"
            f"X-Goog-Upload-Offset: 0\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        connection.sendall(head.encode() + content[:300_000])
        while send(url, "query").headers["x-goog-upload-size-received"] == "0":
            pass
    gemini.restart()
    state = send(url, "query")
    received = int(state.headers["x-goog-upload-size-received"])
    assert state.headers["x-goog-upload-status"] == "active"
    assert 0 < received <= 300_000
    answer = send(url, "upload, finalize", received, content[received:])
    assert answer.headers["x-goog-upload-status"] == "final"
    file = answer.json()["file"]
    assert file["sizeBytes"] == str(len(content))
    assert base64.b64decode(file["sha256Hash"]).decode() == hashlib.sha256(content).hexdigest()
    # Told twice that it is over, it says the same again.
    again = send(url, "upload, finalize", received, content[received:])
    assert again.json()["file"] == file
    assert send(url, "query").headers["x-goog-upload-status"] == "final"


def test_a_chunk_that_comes_twice_changes_nothing(gemini: Gemini) -> None:
    url = start(gemini, 10)
    send(url, "upload", 0, b"01234")
    send(url, "upload", 0, b"01234")
    file = send(url, "upload, finalize", 5, b"56789").json()["file"]
    assert base64.b64decode(file["sha256Hash"]).decode() == hashlib.sha256(b"0123456789").hexdigest()


def test_chunks_that_do_not_fit_are_refused_with_a_status(gemini: Gemini) -> None:
    url = start(gemini, 10)
    for offset, content, command in ((3, b"x", "upload"), (0, b"x" * 11, "upload"), (0, b"x", "upload, finalize")):
        answer = send(url, command, offset, content)
        assert (answer.status_code, answer.headers["x-goog-upload-status"]) == (400, "active")
    assert send(url.replace("upload_id=", "upload_id=x"), "upload", 0, b"x").status_code == 404
    assert send(url, "cancel").headers["x-goog-upload-status"] == "cancelled"
    assert send(url, "upload", 0, b"x").status_code == 404


def test_the_upload_url_is_where_the_caller_came_from(gemini: Gemini) -> None:
    assert start(gemini, 1).startswith(gemini.url + "/upload/v1beta/files?upload_id=")
    forwarded = {"X-Forwarded-Host": "gemini.example:8443", "X-Forwarded-Proto": "https", "X-Forwarded-Prefix": "/g"}
    assert start(gemini, 1, **forwarded).startswith("https://gemini.example:8443/g/upload/v1beta/files?upload_id=")


def test_parts_of_a_result_can_be_asked_for(gemini: Gemini) -> None:
    url = start(gemini, 0)
    line = json.dumps({"key": "a", "request": HELLO}).encode()
    url = start(gemini, len(line))
    name = send(url, "upload, finalize", 0, line).json()["file"]["name"]
    body = {"batch": {"inputConfig": {"fileName": name}}}
    _, operation = gemini.http("POST", "/v1/models/gemini-2.5-flash:batchGenerateContent", body, KEY)
    while not operation.get("done"):
        _, operation = gemini.http("GET", f"/v1/{operation['name']}", headers=KEY)
    address = f"{gemini.url}/v1/{operation['response']['responsesFile']}:download?alt=media"

    def part(asked: str) -> httpx2.Response:
        return httpx2.get(address, headers={**KEY, "Range": asked})

    whole = httpx2.get(address, headers=KEY).content
    assert part("bytes=5-9").content == whole[5:10]
    assert part("bytes=5-").content == whole[5:]
    assert part("bytes=-5").content == whole[-5:]
    assert part("bytes=5-").status_code == 206
    assert part("lines=1-2").content == whole
    past = part(f"bytes={len(whole)}-")
    assert (past.status_code, past.headers["content-range"]) == (416, f"bytes */{len(whole)}")
    assert gemini.http("GET", f"/v1/{name}:download?alt=media", headers=KEY)[0] == 400


def test_keys_are_needed_and_may_have_to_be_the_right_one(gemini: Gemini) -> None:
    assert gemini.http("POST", GENERATE, HELLO)[0] == 403
    assert gemini.http("POST", GENERATE, HELLO, {"x-goog-api-key": ""})[0] == 403
    assert gemini.http("POST", f"{GENERATE}?key=any", HELLO)[0] == 200
    with running_gemini(key="the only one") as strict:
        status, answer = strict.http("POST", GENERATE, HELLO, KEY)
        assert (status, answer["error"]["details"][0]["reason"]) == (400, "API_KEY_INVALID")
        client = strict.client()
        assert client.models.generate_content(model="gemini-2.5-flash", contents="hi").text == "hi"
        client.close()


def test_web_pages_are_not_answered(gemini: Gemini) -> None:
    pages: list[dict[str, str]] = [
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
        {"Host": f"localhost.evil.example:{urlsplit(gemini.url).port}"},
    ]
    for headers in pages:
        assert gemini.http("POST", GENERATE, HELLO, {**KEY, **headers})[0] == 403
        assert gemini.http("GET", "/_penstock/health", None, {"X-Penstock-Admin": "1", **headers})[0] == 403
    assert gemini.http("GET", "/_penstock/health")[0] == 403
    assert gemini.http("GET", "/_penstock/health", None, {"X-Penstock-Admin": "1", "Host": "localhost"})[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[1]",
        b"\xff\xfe",
        b'{"contents": 3}',
        b'{"contents": [{"parts": [3]}]}',
        b'{"contents": [{"parts": {"text": 3}}]}',
        b'{"contents": [{"parts": [{"inlineData": {"mimeType": "image/png", "data": "***"}}]}]}',
        b'{"contents": [{"parts": [{"fileData": {"fileUri": "../../etc/passwd"}}]}]}',
        b'{"contents": [{"parts": [{"text": "x"}]}], "generationConfig": {"maxOutputTokens": "many"}}',
        b'{"contents": ' + b"[" * 50_000,
    ],
)
def test_nonsense_is_a_bad_request(gemini: Gemini, body: bytes) -> None:
    status, answer = gemini.http("POST", GENERATE, body, KEY)
    assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT")


def test_too_much_is_a_bad_request(gemini: Gemini) -> None:
    status, answer = gemini.http("POST", GENERATE, b'{"contents": "' + b"x" * 100_001, KEY)
    assert (status, answer["error"]["message"]) == (400, "Request payload size exceeds the limit: 100000 bytes.")

    def endless() -> Iterator[bytes]:
        for _ in range(2000):
            yield b" " * 1000

    answer = httpx2.post(gemini.url + GENERATE, content=endless(), headers=KEY)
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/v2/models"),
        ("GET", "/v1/nothing"),
        ("DELETE", "/v1/models/gemini-2.5-flash"),
        ("GET", "/v1/files/../../state.db:download"),
        ("GET", "/v1/files/..%2F..%2Fstate.db:download"),
        ("GET", "/_penstock/nothing"),
    ],
)
def test_what_is_not_there_is_not_found(gemini: Gemini, method: str, path: str) -> None:
    status, answer = gemini.http(method, path, headers={**KEY, "X-Penstock-Admin": "1"})
    assert (status, answer["error"]["status"]) == (404, "NOT_FOUND")


def test_both_casings_and_both_alphabets_are_understood(gemini: Gemini) -> None:
    for inline in (
        {"inlineData": {"mimeType": "image/png", "data": "-_--_-8="}},
        {"inline_data": {"mime_type": "image/png", "data": "+/++/+8"}},
    ):
        body = {"contents": [{"parts": [inline]}], "system_instruction": {"parts": {"text": "four"}}}
        status, answer = gemini.http("POST", GENERATE, body, KEY)
        assert (status, answer["usageMetadata"]["promptTokenCount"]) == (200, 259)


def test_the_journal_has_every_request_and_can_be_searched(gemini: Gemini) -> None:
    gemini.http("POST", GENERATE, HELLO, KEY)
    gemini.http("GET", "/v1/files", headers=KEY)
    gemini.http("GET", "/v1/files/none?key=secret")
    gemini.http("GET", "/nowhere")
    seen = [(entry["operation"], entry["status"]) for entry in gemini.journal()]
    assert seen == [("generate", 200), ("file_list", 200), ("file_get", 403), ("unknown", 404)]
    assert [entry["operation"] for entry in gemini.journal(method="POST")] == ["generate"]
    assert [entry["operation"] for entry in gemini.journal(path="/files")] == ["file_list", "file_get"]
    assert gemini.journal(operation="generate")[0]["size"] == len(json.dumps(HELLO))
    assert "secret" not in json.dumps(gemini.journal())


def test_the_clock_only_goes_forward(gemini: Gemini) -> None:
    def told(body: Any) -> int:
        return gemini.http("POST", "/_penstock/clock", body, {"X-Penstock-Admin": "1"})[0]

    assert [told(body) for body in ({"advance": -1}, {"advance": "x"}, [], {"advance": 1})] == [400, 400, 400, 200]


@pytest.mark.parametrize("seconds", ["NaN", "Infinity", "1e300", "-1", "true"])
def test_the_clock_takes_no_nonsense(gemini: Gemini, seconds: str) -> None:
    answer = httpx2.post(
        f"{gemini.url}/_penstock/clock", content=f'{{"advance": {seconds}}}', headers={"X-Penstock-Admin": "1"}
    )
    assert answer.status_code == 400, answer.text
    assert gemini.http("POST", GENERATE, HELLO, headers=KEY)[0] == 200
