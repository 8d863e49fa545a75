"""What goes wrong over HTTP: every error is a problem document, and says nothing that is nobody's business."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import APIRouter, Request, UploadFile

from penstock.engine.errors import CommitUnknown, StoreFull, StoreReadOnly, StoreUnavailable
from penstock.service.api import bodies
from penstock.service.api.limits import UploadRoute
from tests.support.api import Api, serving
from tests.support.house import in_a_loop

JOBS = "/api/v1/jobs"
JSON = {"Content-Type": "application/json"}


def problem(answer: httpx2.Response, status: int, slug: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = answer.json()
    assert {"type", "title", "status", "detail", "instance"} <= told.keys()
    assert (told["type"], told["status"]) == (f"/problems/{slug}", status)
    assert told["instance"] == answer.request.url.path
    return told


@in_a_loop
async def test_a_path_or_method_that_no_route_has(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        problem(await client.get("/api/v1/moon"), 404, "not-found")
        problem(await client.get("/moon"), 404, "not-found")
        wrong = await client.delete(JOBS)
        problem(wrong, 405, "method-not-allowed")
        assert wrong.headers["allow"] == "GET, POST"
        assert (await client.put(f"{JOBS}/abc/pause")).headers["allow"] == "POST"


@in_a_loop
async def test_a_parameter_that_no_route_knows_is_refused_by_name(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        told = problem(await client.get(JOBS, params={"statsu": "failed", "limit": 1}), 422, "invalid-request")
        assert [error["location"] for error in told["errors"]] == ["query.statsu"]
        assert "status" in told["detail"]
        job = (await client.post(JOBS, json={"workflow": "notes"})).json()["job"]["id"]
        asked = [
            (method.upper(), path.format(job_id=job, batch_id=job, call_id=job, name="notes", scope="tenant:acme"))
            for method, path, _ in api.document.operations().values()
            if path.startswith("/api/v1")
        ]
        assert len(asked) > 30
        for method, path in asked:
            refused = await client.request(method, path, params={"moon": "full"})
            told = problem(refused, 422, "invalid-request")
            assert [error["location"] for error in told["errors"]] == ["query.moon"], path
        for path in ("/metrics", "/health/live", "/ui/jobs"):
            assert (await client.get(path, params={"moon": "full"})).status_code == 200, path


@in_a_loop
async def test_a_request_for_another_machine_is_misdirected(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client(host="penstock.example.com") as client:
        problem(await client.get(JOBS), 421, "misdirected")


HOSTILE = {
    "deep": b'{"workflow":"notes","payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep and open": b'{"workflow":"notes","payload":' + b'{"a":' * 50_000,
    "NaN": b'{"workflow":"notes","payload":NaN}',
    "-Infinity": b'{"workflow":"notes","payload":[-Infinity]}',
    "a number that is infinite": b'{"workflow":"notes","payload":[1e999]}',
    "a long number that is infinite": b'{"workflow":"notes","payload":' + b"9" * 400 + b".0}",
    "an int of ten thousand digits": b'{"workflow":"notes","payload":' + b"9" * 10_000 + b"}",
    "half of a surrogate pair": b'{"workflow":"notes","payload":"\\ud800"}',
    "half of a pair as a name": b'{"workflow":"notes","\\udfff":1}',
    "half of a pair in a key": b'{"workflow":"notes","key":"\\ud800"}',
    "NUL": b'{"workflow":"notes","payload":{"a":["x\\u0000y"]}}',
    "NUL after a backslash": b'{"workflow":"notes","payload":"\\\\\\u0000"}',
    "NUL in a key": b'{"workflow":"notes","key":"a\\u0000"}',
    "no UTF-8": b'{"workflow":"notes","payload":"\xff\xfe"}',
    "UTF-16": '{"workflow":"notes"}'.encode("utf-16"),
    "nothing": b"",
    "half": b'{"workflow":',
    "more than one": b'{"workflow":"notes"}{}',
    "a list": b"[]",
    "a string": b'"notes"',
    "null": b"null",
    "a huge priority": b'{"workflow":"notes","priority":' + b"9" * 4000 + b"}",
    "a tiny time": b'{"workflow":"notes","after":1e308}',
}


@in_a_loop
async def test_json_that_no_store_could_keep_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        for name, body in HOSTILE.items():
            answer = await client.post(JOBS, content=body, headers=JSON)
            assert answer.status_code == 422, f"{name}: {answer.text}"
            told = problem(answer, 422, "invalid-request")
            assert told["errors"] and len(answer.content) < 2000, name
        assert (await client.get("/api/v1/counts")).json()["total"] == 0


@in_a_loop
async def test_json_that_only_looks_hostile_is_taken(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        for payload in (b'"\\\\u0000"', b'"\\ud83d\\ude00"', b"9" * 400, b"1e300", b"[" * 100 + b"]" * 100, b'"1e999"'):
            answer = await client.post(JOBS, content=b'{"workflow":"notes","payload":%b}' % payload, headers=JSON)
            assert answer.status_code == 201, (payload, answer.text)


@in_a_loop
async def test_a_body_must_say_that_it_is_json(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        body = b'{"workflow":"notes"}'
        for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx", "application/xml"):
            answer = await client.post(JOBS, content=body, headers={"Content-Type": kind})
            problem(answer, 415, "unsupported-media-type")
        fine = {"Content-Type": "Application/JSON; charset=utf-8"}
        assert (await client.post(JOBS, content=body, headers=fine)).status_code == 201


async def pieces(size: int, count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b" " * size


@in_a_loop
async def test_a_body_that_is_too_large_is_refused_announced_or_not(tmp_path: Path) -> None:
    async with serving(tmp_path, body_limit=2000) as api, api.client() as client:
        big = {"workflow": "notes", "payload": "x" * 3000}
        told = problem(await client.post(JOBS, json=big), 413, "body-too-large")
        assert "2,000" in told["detail"]
        problem(await client.post(JOBS, content=pieces(500, 10), headers=JSON), 413, "body-too-large")
        lying = {**JSON, "Content-Length": "10"}
        problem(await client.post(JOBS, content=b" " * 3000, headers=lying), 413, "body-too-large")
        assert (await client.post(JOBS, json={"workflow": "notes", "payload": "x" * 100})).status_code == 201
        assert (await client.get("/api/v1/counts")).json()["total"] == 1


@in_a_loop
async def test_a_route_for_uploads_takes_more(tmp_path: Path) -> None:
    async with serving(tmp_path, body_limit=2000, upload_limit=5000) as api:
        uploads = APIRouter(route_class=UploadRoute)

        @uploads.post("/uploads")
        async def upload(request: Request) -> dict[str, int]:
            return {"bytes": sum([len(piece) async for piece in request.stream()])}

        api.app.include_router(uploads)
        async with api.client() as client:
            assert (await client.post("/uploads", content=pieces(500, 8))).json() == {"bytes": 4000}
            problem(await client.post("/uploads", content=pieces(500, 11)), 413, "body-too-large")
            problem(await client.post("/uploads", content=b" " * 6000), 413, "body-too-large")


@in_a_loop
async def test_nobody_uploads_without_a_token(tmp_path: Path) -> None:
    async with serving(tmp_path, open_access=False) as api:
        uploads = APIRouter(route_class=UploadRoute)

        @uploads.post("/uploads")
        async def upload(file: UploadFile) -> dict[str, int | None]:
            return {"bytes": file.size}

        api.app.include_router(uploads)
        read = 0

        async def counted() -> AsyncIterator[bytes]:
            nonlocal read
            async for piece in pieces(1000, 1000):
                read += 1
                yield piece

        async with api.client() as client:
            form = {"Content-Type": "multipart/form-data; boundary=x"}
            problem(await client.post("/uploads", content=counted(), headers=form), 401, "unauthorized")
            assert read == 0


async def broken(api: Api, error: Exception) -> None:
    """From now on the store answers every question so."""

    async def fail(*_: Any) -> Any:
        raise error

    store: Any = api.penstock.engine.store
    store.rows = fail


@pytest.mark.parametrize(
    ("error", "slug"),
    [
        (StoreUnavailable, "unavailable"), (StoreFull, "unavailable"), (StoreReadOnly, "unavailable"),
        (CommitUnknown, "outcome-unknown"),
    ],
)  # fmt: skip
def test_a_store_that_is_in_trouble_is_a_503_without_its_words(
    tmp_path: Path, error: type[Exception], slug: str
) -> None:
    @in_a_loop
    async def check() -> None:
        async with serving(tmp_path) as api, api.client() as client:
            await broken(api, error("postgresql://user:s3cret@db refused"))
            answer = await client.get(JOBS)
            problem(answer, 503, slug)
            assert int(answer.headers["retry-after"]) >= 1 and "s3cret" not in answer.text

    check()


@in_a_loop
async def test_a_mistake_of_our_own_says_where_the_log_tells_more_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        await broken(api, RuntimeError("s3cret in an unexpected place"))
        with caplog.at_level(logging.ERROR, "penstock"):
            answer = await client.get(JOBS)
        told = problem(answer, 500, "internal-error")
        assert "s3cret" not in answer.text and "Traceback" not in answer.text
        assert any(told["reference"] in record.getMessage() and record.exc_info for record in caplog.records)


@in_a_loop
async def test_what_was_sent_is_not_sent_back(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        secret = "s3cret" * 50
        for body in (
            {"workflow": "scans", "payload": {"pages": secret}},
            {"workflow": "notes", "priority": secret},
            {"workflow": "notes", "payload": 1, "after": secret},
            {"workflow": "notes", secret * 20: 1},
            [secret],
        ):
            answer = await client.post(JOBS, json=body)
            assert answer.status_code == 422 and len(answer.text) < 2000
            assert answer.text.count("s3cret") < 100
        many = {"jobs": [{"workflow": 5}] * 1000}
        assert len((await client.post(f"{JOBS}/many", json=many)).json()["errors"]) == 20


@in_a_loop
async def test_nothing_of_a_body_is_read_before_it_is_known_who_sends_it(tmp_path: Path) -> None:
    async with serving(tmp_path, open_access=False) as api:
        read = 0

        async def counted() -> AsyncIterator[bytes]:
            nonlocal read
            async for piece in pieces(1000, 1000):
                read += 1
                yield piece

        reader = await api.secret("watch", "read")
        async with api.client() as nobody, api.client(reader) as watcher, api.client("penstock_wrong") as liar:
            for path in (JOBS, f"{JOBS}/many", f"{JOBS}/{'0' * 20}/cancel", "/api/v1/dead-letters/retry"):
                for client, status, slug in (
                    (nobody, 401, "unauthorized"), (liar, 401, "unauthorized"), (watcher, 403, "forbidden")
                ):  # fmt: skip
                    problem(await client.post(path, content=counted(), headers=JSON), status, slug)
            problem(await watcher.put("/api/v1/budgets/tenant:a", content=counted(), headers=JSON), 403, "forbidden")
        assert read == 0
        assert len(await api.penstock.audit(action="token.refused")) == 4, "each is looked up once"


@in_a_loop
async def test_others_do_not_wait_while_a_large_body_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where: list[bool] = []
    parse = bodies.from_json

    def noting(body: bytes, **more: Any) -> Any:
        where.append(threading.current_thread() is threading.main_thread())
        return parse(body, **more)

    monkeypatch.setattr(bodies, "from_json", noting)
    async with serving(tmp_path) as api, api.client() as client:
        for size in (10, bodies.LARGE):
            answer = await client.post(JOBS, json={"workflow": "notes", "payload": "x" * size})
            assert answer.status_code == 201
    assert where == [True, False]


@in_a_loop
async def test_a_long_number_is_found_wherever_it_stands(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, api.client() as client:
        for number, status in (("1" * 299, 201), ("1" * 310, 422), ("-" + "9" * 400, 422), ("1e999", 422)):
            body = f'{{"workflow": "notes", "payload": [1, {number if "e" in number else number + ".0"}]}}'
            assert (await client.post(JOBS, content=body, headers=JSON)).status_code == status, number
