"""Batches from the first row to the last: what their lines may be, their limits, and what a crash leaves of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gemini import Gemini, running_gemini

KEY = {"x-goog-api-key": "k"}
FLASH = "gemini-2.5-flash"


def request(text: str) -> dict[str, Any]:
    return {"contents": [{"parts": [{"text": text}]}]}


def row(key: str, text: str) -> dict[str, Any]:
    return {"key": key, "request": request(text)}


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in rows)


def create(gemini: Gemini, source: str | list[Any], title: str = "job", model: str = FLASH) -> tuple[int, Any]:
    config: dict[str, Any] = {"file_name": source} if isinstance(source, str) else {"requests": {"requests": source}}
    body = {"batch": {"input_config": config, "display_name": title}}
    return gemini.http("POST", f"/v1beta/models/{model}:batchGenerateContent", body, KEY)


def created(gemini: Gemini, source: str | list[Any], **options: Any) -> str:
    status, answer = create(gemini, source, **options)
    assert status == 200, answer
    name: str = answer["name"]
    return name


def get(gemini: Gemini, name: str) -> dict[str, Any]:
    status, answer = gemini.http("GET", f"/v1beta/{name}", headers=KEY)
    assert status == 200, answer
    found: dict[str, Any] = answer
    return found


def ended(gemini: Gemini, name: str) -> dict[str, Any]:
    for _ in range(1000):
        operation = get(gemini, name)
        if operation.get("done"):
            return operation
        time.sleep(0.01)
    raise AssertionError(operation)


def result(gemini: Gemini, name: str) -> list[dict[str, Any]]:
    assert ended(gemini, name)["metadata"]["state"] == "BATCH_STATE_SUCCEEDED"
    status, content = gemini.raw("GET", f"/v1beta/files/batch-{name[8:]}:download?alt=media", headers=KEY)
    assert status == 200, content
    return [json.loads(line) for line in content.split(b"\n") if line]


@pytest.fixture(scope="module")
def server() -> Iterator[Gemini]:
    with running_gemini(line_bytes=2000, row_delay=0) as gemini:
        yield gemini


@pytest.fixture
def gemini(server: Gemini) -> Gemini:
    server.reset()
    return server


def test_a_bad_line_is_an_error_of_its_row_and_of_no_other(gemini: Gemini) -> None:
    content = (
        lines(row("a", "one"))
        + b"this is not JSON\n"
        + b"\n"
        + b"[1, 2]\n"
        + b'{"key": "none"}\n'
        + b'{"key": "long", "x": "' + b"y" * 5000 + b'"}\n'
        + b'{"key": "\\ud800", "request": {}}\n'
        + lines({"key": "b", "request": {"contents": "text" * 2}}, {"key": "c", "request": {"contents": []}})
        + lines({"key": "f", "request": {"contents": [{"parts": [{"fileData": {"fileUri": "files/nothere"}}]}]}})
        + lines(row("z", "last"))[:-1]
    )  # fmt: skip
    name = created(gemini, gemini.upload(content))
    rows = result(gemini, name)
    well = {row["key"]: row for row in rows if "response" in row}
    assert set(well) == {"a", "z"}
    codes = [row["error"]["code"] for row in rows if "error" in row]
    assert codes == [3, 3, 3, 3, 3, 3, 3, 7]
    assert get(gemini, name)["metadata"]["batchStats"] == {
        "requestCount": "10",
        "successfulRequestCount": "2",
        "failedRequestCount": "8",
    }


def test_lines_may_repeat_keys_carry_more_and_have_none(gemini: Gemini) -> None:
    content = lines(row("a", "1"), row("a", "2"), {**row("b", "3"), "page": 7, "tags": ["x"]}, request("4"))
    rows = result(gemini, created(gemini, gemini.upload(content)))
    assert [row.get("key") for row in rows] == ["a", "a", "b", None]
    assert (rows[2]["page"], rows[2]["tags"]) == (7, [])


def test_lines_end_where_they_end_and_not_at_other_separators(gemini: Gemini) -> None:
    text = "a\u2028b\u0085c"
    [answer] = result(gemini, created(gemini, gemini.upload(lines(row("a", text)))))
    assert answer["response"]["candidates"][0]["content"]["parts"][0]["text"] == text


def test_the_input_file_may_go_once_the_batch_is_made(gemini: Gemini) -> None:
    gemini.script([{"delay": 0.05}])
    file = gemini.upload(lines(row("a", "1")))
    name = created(gemini, file)
    assert gemini.http("DELETE", f"/v1/{file}", headers=KEY)[0] == 200
    assert len(result(gemini, name)) == 1


def test_a_batch_of_nothing_is_refused(gemini: Gemini) -> None:
    for source in ([], gemini.upload(b"\n\n")):
        assert create(gemini, source)[0] == 400
    assert create(gemini, "files/nothere")[0] == 403
    assert gemini.http("POST", f"/v1/models/{FLASH}:batchGenerateContent", {}, KEY)[0] == 400
    assert create(gemini, [row("a", "1")], model="gemini-embedding-001")[0] == 400


def test_rows_a_backend_cannot_answer_are_errors_of_their_rows(gemini: Gemini) -> None:
    gemini.script([{"key": "^k1$", "error": {"code": 12, "message": "no reader for this"}}])
    rows = result(gemini, created(gemini, gemini.upload(lines(*[row(f"k{n}", "x") for n in range(3)]))))
    assert [row.get("error") for row in rows] == [None, {"code": 12, "message": "no reader for this"}, None]


def test_a_batch_waits_runs_and_ends_by_the_clock() -> None:
    with running_gemini(pending_for=100, running_for=200) as gemini:
        name = created(gemini, [row("a", "1")])
        assert get(gemini, name)["metadata"]["state"] == "BATCH_STATE_PENDING"
        gemini.advance(101)
        while get(gemini, name)["metadata"]["state"] == "BATCH_STATE_PENDING":
            time.sleep(0.01)
        assert get(gemini, name)["metadata"]["state"] == "BATCH_STATE_RUNNING"
        gemini.advance(201)
        assert ended(gemini, name)["metadata"]["state"] == "BATCH_STATE_SUCCEEDED"


def test_files_and_results_expire(gemini: Gemini) -> None:
    file = gemini.upload(lines(row("a", "1")))
    name = created(gemini, file)
    ended(gemini, name)
    gemini.advance(48 * 3600 + 1)
    assert gemini.http("GET", f"/v1/{file}", headers=KEY)[0] == 403
    assert gemini.http("GET", f"/v1/files/batch-{name[8:]}:download?alt=media", headers=KEY)[0] == 403
    assert gemini.http("GET", "/v1/files", headers=KEY) == (200, {})
    assert get(gemini, name)["metadata"]["state"] == "BATCH_STATE_SUCCEEDED"


def test_a_cancelled_batch_stops_and_frees_its_place(gemini: Gemini) -> None:
    gemini.script([{"delay": 3600}])
    name = created(gemini, [row("a", "1")])
    assert gemini.http("POST", f"/v1/{name}:cancel", headers=KEY) == (200, {})
    operation = get(gemini, name)
    assert (operation["done"], operation["error"]["code"]) == (True, 1)
    assert gemini.http("POST", f"/v1/{name}:cancel", headers=KEY) == (200, {})
    assert gemini.health()["unfinished_batches"] == 0


def test_listings_are_newest_first_and_leave_the_output_out(gemini: Gemini) -> None:
    names = [created(gemini, [row("a", str(n))], title=f"job {n}") for n in range(3)]
    for name in names:
        assert "output" in ended(gemini, name)["metadata"]
    _, page = gemini.http("GET", "/v1/batches?page_size=2", headers=KEY)
    assert [operation["name"] for operation in page["operations"]] == names[:0:-1]
    assert all("output" not in operation["metadata"] for operation in page["operations"])
    _, last = gemini.http("GET", f"/v1/batches?pageSize=2&pageToken={page['nextPageToken']}", headers=KEY)
    assert [operation["name"] for operation in last["operations"]] == names[:1]
    assert "nextPageToken" not in last
    assert gemini.http("GET", "/v1/batches?pageToken=nonsense", headers=KEY)[0] == 400


def test_quotas_answer_as_the_service_does() -> None:
    with running_gemini(
        active_batches=2, enqueued_tokens=100, storage_bytes=5000, file_bytes=3000, inline_bytes=4000
    ) as gemini:
        gemini.faults([{"kind": "stuck_pending"}])
        status, answer = create(gemini, [row("a", "x" * 500)])
        assert (status, answer["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
        assert answer["error"]["details"][0]["violations"][0]["quotaValue"] == "100"
        first = created(gemini, [row("a", "x" * 300)])
        assert create(gemini, [row("a", "x" * 300)])[0] == 429
        created(gemini, [row("a", "x")])
        assert create(gemini, [row("a", "x")])[0] == 429
        gemini.http("POST", f"/v1/{first}:cancel", headers=KEY)
        created(gemini, [row("a", "x")])
        assert create(gemini, [row("a", "x" * 5000)])[0] == 400

        for size, code in ((3001, 400), (3000, 200), (2500, 429)):
            headers = {
                **KEY,
                "X-Goog-Upload-Protocol": "resumable",
                "X-Goog-Upload-Command": "start",
                "X-Goog-Upload-Header-Content-Length": str(size),
            }
            assert gemini.http("POST", "/upload/v1/files", {}, headers)[0] == code
            if code == 200:
                gemini.upload(b"x" * size)


def test_too_many_requests_a_minute_are_told_when_to_come_back() -> None:
    with running_gemini(requests_per_minute=3) as gemini:
        path = f"/v1/models/{FLASH}:generateContent"
        assert [gemini.http("POST", path, request("x"), KEY)[0] for _ in range(4)] == [200, 200, 200, 429]
        _, answer = gemini.http("POST", path, request("x"), KEY)
        assert answer["error"]["details"][-1]["@type"] == "type.googleapis.com/google.rpc.RetryInfo"
        gemini.advance(61)
        assert gemini.http("POST", path, request("x"), KEY)[0] == 200


@pytest.mark.parametrize("rows_before", [1, 40])
def test_a_killed_server_goes_on_and_asks_no_row_twice(tmp_path: Path, rows_before: int) -> None:
    with running_gemini(tmp_path, row_delay=0.02, concurrency=4) as gemini:
        name = created(gemini, gemini.upload(lines(*[row(f"k{n}", str(n)) for n in range(120)])))
        spool = tmp_path / "gemini" / "blobs" / f"rows-{name[8:]}"
        while not spool.exists() or spool.read_bytes().count(b"\n") < rows_before:
            time.sleep(0.005)
        gemini.kill()
        kept = spool.read_bytes()
        answered = [line.split(b" ", 2)[2] for line in kept.split(b"\n")[:-1]]
        assert rows_before <= len(answered) < 120
        # A power cut in the middle of a write.
        spool.write_bytes(kept + b'119 1 {"key": "k1')
        gemini.start()
        rows = result(gemini, name)
        assert [row["key"] for row in rows] == [f"k{n}" for n in range(120)]
        # Every response has an id of its own: what was answered before the crash is there as it was.
        assert {json.loads(line)["response"]["responseId"] for line in answered} <= {
            row["response"]["responseId"] for row in rows
        }
        assert get(gemini, name)["metadata"]["batchStats"]["successfulRequestCount"] == "120"
        assert not spool.exists()


def test_a_killed_server_keeps_files_jobs_half_uploads_and_the_journal(tmp_path: Path) -> None:
    with running_gemini(tmp_path) as gemini:
        file = gemini.upload(lines(row("a", "1")))
        name = created(gemini, file, title="kept")
        done = result(gemini, name)
        gemini.advance(3600)
        before = gemini.journal()
        gemini.kill()
        gemini.start()
        assert gemini.journal()[: len(before)] == before
        assert [entry["label"] for entry in gemini.journal(operation="create")] == ["kept"]
        assert result(gemini, name) == done
        assert gemini.http("GET", f"/v1/{file}", headers=KEY)[0] == 200
        # The clock that was moved stays moved.
        gemini.advance(47 * 3600)
        assert gemini.http("GET", f"/v1/{file}", headers=KEY)[0] == 403


def test_a_stopped_server_goes_on_too(tmp_path: Path) -> None:
    with running_gemini(tmp_path, row_delay=0.02, concurrency=2) as gemini:
        name = created(gemini, gemini.upload(lines(*[row(f"k{n}", str(n)) for n in range(40)])))
        assert gemini.stop() == 0
        gemini.start()
        assert len(result(gemini, name)) == 40


def test_a_result_that_is_not_whole_is_not_served(tmp_path: Path) -> None:
    with running_gemini(tmp_path, running_for=3600) as gemini:
        name = created(gemini, gemini.upload(lines(row("a", "1"))))
        (tmp_path / "gemini" / "blobs" / f"out-{name[8:]}.part").write_bytes(b'{"key": "a", "respon')
        assert gemini.http("GET", f"/v1/files/batch-{name[8:]}:download?alt=media", headers=KEY)[0] == 403
        gemini.kill()
        gemini.start()
        assert gemini.http("GET", f"/v1/files/batch-{name[8:]}:download?alt=media", headers=KEY)[0] == 403
        gemini.advance(3601)
        assert len(result(gemini, name)) == 1


def test_ten_thousand_rows(gemini: Gemini) -> None:
    name = created(gemini, gemini.upload(lines(*[row(f"k{n}", f"text {n}") for n in range(10_000)])))
    rows = result(gemini, name)
    assert [row["key"] for row in rows] == [f"k{n}" for n in range(10_000)]
