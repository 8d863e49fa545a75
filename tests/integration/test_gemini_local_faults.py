"""Each fault alone: what a client of the real SDK sees of it."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai import errors, types

from penstock.gemini_local.faults import KINDS
from tests.support.gemini import Gemini, running_gemini

FLASH = "gemini-2.5-flash"
ROWS = 6


@pytest.fixture(scope="module")
def server() -> Iterator[Gemini]:
    with running_gemini() as gemini:
        yield gemini


class Trial:
    """A server with a fault, and a client that has not met it yet."""

    def __init__(self, gemini: Gemini, client: genai.Client) -> None:
        self.gemini = gemini
        self.client = client

    def fault(self, kind: str, **options: Any) -> None:
        self.gemini.faults([{"kind": kind, **options}])

    def ask(self, text: str = "hello") -> types.GenerateContentResponse:
        return self.client.models.generate_content(model=FLASH, contents=text)

    def upload(self, content: bytes) -> types.File:
        return self.client.files.upload(file=io.BytesIO(content), config={"mime_type": "application/jsonl"})

    def create(self, rows: int = ROWS, reply: str = '{"n": 1}') -> types.BatchJob:
        lines = [
            {"key": f"k{n}", "request": {"contents": [{"parts": [{"text": reply.replace("1", str(n))}]}]}}
            for n in range(rows)
        ]
        file = self.upload(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        return self.client.batches.create(model=FLASH, src=file.name, config={"display_name": "the job"})

    def create_inline(self, rows: int = 3) -> types.BatchJob:
        requests = [
            types.InlinedRequest(contents=[types.Content(parts=[types.Part(text=str(n))])], metadata={"key": f"k{n}"})
            for n in range(rows)
        ]
        return self.client.batches.create(model=FLASH, src=requests)

    def operation(self, job: types.BatchJob) -> dict[str, Any]:
        """The operation as it is on the wire."""
        status, answer = self.gemini.http("GET", f"/v1/{job.name}?key=k")
        assert status == 200, answer
        found: dict[str, Any] = answer
        return found

    def ended(self, job: types.BatchJob) -> dict[str, Any]:
        for _ in range(500):
            operation = self.operation(job)
            if "endTime" in operation["metadata"]:
                return operation
            time.sleep(0.01)
        raise AssertionError(operation)

    def lines(self, job: types.BatchJob) -> list[dict[str, Any]]:
        name = self.ended(job)["metadata"]["output"]["responsesFile"]
        return [json.loads(line) for line in self.client.files.download(file=name).split(b"\n") if line]


@pytest.fixture(scope="module")
def client(server: Gemini) -> Iterator[genai.Client]:
    client = server.client()
    yield client
    client.close()


@pytest.fixture
def trial(server: Gemini, client: genai.Client) -> Trial:
    server.reset()
    return Trial(server, client)


def text_of(row: dict[str, Any]) -> str:
    text: str = row["response"]["candidates"][0]["content"]["parts"][0]["text"]
    return text


@pytest.mark.parametrize(
    ("code", "kind"), [(429, errors.ClientError), (500, errors.ServerError), (503, errors.ServerError)]
)
def test_error_is_any_code_as_often_as_asked(trial: Trial, code: int, kind: type[errors.APIError]) -> None:
    trial.fault("error", where="generate", code=code, times=2, after=1, retry=13, retry_after=7)
    trial.ask()
    for _ in range(2):
        with pytest.raises(kind) as raised:
            trial.ask()
        assert raised.value.code == code
        assert raised.value.details["error"]["details"][0]["retryDelay"] == "13s"
        assert raised.value.response.headers["retry-after"] == "7"
    assert trial.ask().text == "hello"
    assert [entry["status"] for entry in trial.gemini.journal(operation="generate")] == [200, code, code, 200]


@pytest.mark.parametrize("body", ["html", "none"])
def test_error_may_come_without_a_body_that_says_anything(trial: Trial, body: str) -> None:
    trial.fault("error", where="generate", code=502, body=body)
    with pytest.raises(errors.ServerError):
        trial.ask()


def test_error_after_the_work_was_done(trial: Trial) -> None:
    trial.fault("error", where="create", code=503, done=True, times=1)
    with pytest.raises(errors.ServerError):
        trial.create()
    assert len(list(trial.client.batches.list())) == 1


def test_not_json_is_a_page_where_an_answer_should_be(trial: Trial) -> None:
    trial.fault("not_json", where="generate")
    with pytest.raises(json.JSONDecodeError):
        trial.ask()


def test_delay_is_told_by_the_servers_clock(trial: Trial) -> None:
    trial.fault("delay", where="generate", seconds=0.05)
    before = trial.gemini.health()["now"]
    assert trial.ask().text == "hello"
    assert trial.gemini.health()["now"] >= before + 0.05


def test_hang_leaves_the_client_to_its_own_timeout(trial: Trial) -> None:
    trial.fault("hang", where="generate", times=1)
    with pytest.raises(httpx2.ReadTimeout):
        trial.client.models.generate_content(
            model=FLASH, contents="x", config={"http_options": types.HttpOptions(timeout=200)}
        )
    assert trial.ask().text == "hello"


def test_hang_for_a_while_ends_without_an_answer(trial: Trial) -> None:
    trial.fault("hang", where="create", seconds=0.05, done=True, times=1)
    with pytest.raises(httpx2.RemoteProtocolError):
        trial.create()
    assert len(list(trial.client.batches.list())) == 1


def test_drop_before_does_nothing(trial: Trial) -> None:
    trial.fault("drop_before", where="create", times=1)
    with pytest.raises(httpx2.RemoteProtocolError):
        trial.create()
    assert list(trial.client.batches.list()) == []
    [entry] = trial.gemini.journal(operation="create")
    assert (entry["status"], entry["fault"], entry["label"]) == (None, "drop_before", "the job")


def test_drop_after_does_it_and_says_nothing(trial: Trial) -> None:
    trial.fault("drop_after", where="create", times=1)
    with pytest.raises(httpx2.RemoteProtocolError):
        trial.create()
    assert [job.display_name for job in trial.client.batches.list()] == ["the job"]
    [entry] = trial.gemini.journal(operation="create")
    assert (entry["status"], entry["fault"]) == (None, "drop_after")


def test_half_download_breaks_off_and_can_be_resumed(trial: Trial) -> None:
    trial.fault("half_download", fraction=0.5, times=1)
    job = trial.create()
    name = trial.ended(job)["metadata"]["output"]["responsesFile"]
    url = f"{trial.gemini.url}/download/v1beta/{name}:download?alt=media&key=k"
    got = b""
    with pytest.raises(httpx2.RemoteProtocolError), httpx2.stream("GET", url) as answer:
        whole = int(answer.headers["content-length"])
        for piece in answer.iter_bytes():
            got += piece
    assert len(got) == whole // 2
    rest = httpx2.get(url, headers={"Range": f"bytes={len(got)}-"})
    assert rest.status_code == 206
    assert rest.headers["content-range"] == f"bytes {len(got)}-{whole - 1}/{whole}"
    assert got + rest.content == httpx2.get(url).content


@pytest.mark.parametrize("stored", [False, True])
def test_chunk_without_status_is_sent_again(trial: Trial, stored: bool) -> None:
    trial.fault("chunk_without_status", stored=stored, times=1)
    assert trial.upload(b"some bytes").size_bytes == 10
    assert len(trial.gemini.journal(operation="upload_chunk")) == 2
    assert len(list(trial.client.files.list())) == 1


def test_stream_error_comes_after_the_first_piece(trial: Trial) -> None:
    trial.fault("stream_error", code=503)
    seen = []
    with pytest.raises(errors.ServerError):
        for piece in trial.client.models.generate_content_stream(model=FLASH, contents="word " * 100):
            seen.append(piece.text)  # noqa: PERF401
    assert len(seen) == 1


def test_empty_list_page_with_token_leads_on(trial: Trial) -> None:
    trial.fault("empty_list_page_with_token", times=1)
    job = trial.create()
    _, page = trial.gemini.http("GET", "/v1/batches?key=k")
    assert page["operations"] == []
    _, page = trial.gemini.http("GET", f"/v1/batches?key=k&pageToken={page['nextPageToken']}")
    assert [operation["name"] for operation in page["operations"]] == [job.name]


def test_processing_files_cannot_be_used_yet(trial: Trial) -> None:
    trial.fault("processing", seconds=60)
    file = trial.upload(b"x")
    assert file.state == types.FileState.PROCESSING
    with pytest.raises(errors.ClientError, match="not in an ACTIVE state"):
        trial.client.models.generate_content(model=FLASH, contents=[file])
    trial.gemini.advance(61)
    assert file.name is not None
    assert trial.client.files.get(name=file.name).state == types.FileState.ACTIVE
    trial.client.models.generate_content(model=FLASH, contents=[file])


def test_processing_failed_is_for_ever(trial: Trial) -> None:
    trial.fault("processing_failed")
    file = trial.upload(b"x")
    assert (file.state, file.error is not None) == (types.FileState.FAILED, True)


def test_file_gone_before_its_time_is_an_error_of_the_row_that_needs_it(trial: Trial) -> None:
    trial.fault("file_gone", seconds=60, times=1)
    file = trial.upload(b"x")
    trial.gemini.advance(61)
    part = {"fileData": {"fileUri": file.uri, "mimeType": "image/png"}}
    line = json.dumps({"key": "k", "request": {"contents": [{"parts": [part]}]}})
    job = trial.client.batches.create(model=FLASH, src=str(trial.upload(line.encode()).name))
    [row] = trial.lines(job)
    assert row["error"]["code"] == 7


@pytest.mark.parametrize(("kind", "state"), [("stuck_pending", "PENDING"), ("stuck_running", "RUNNING")])
def test_stuck_jobs_stay_until_they_expire(trial: Trial, kind: str, state: str) -> None:
    trial.fault(kind)
    job = trial.create()
    trial.gemini.advance(47 * 3600)
    while trial.operation(job)["metadata"]["state"] != f"BATCH_STATE_{state}":
        time.sleep(0.01)
    trial.gemini.advance(3601)
    operation = trial.operation(job)
    assert operation["metadata"]["state"] == "BATCH_STATE_EXPIRED"
    assert (operation["done"], operation["error"]["code"]) == (True, 4)


@pytest.mark.parametrize("kind", ["stuck_pending", "stuck_running"])
def test_stuck_for_a_while(trial: Trial, kind: str) -> None:
    trial.fault(kind, seconds=600)
    job = trial.create()
    assert "endTime" not in trial.operation(job)["metadata"]
    trial.gemini.advance(601)
    assert trial.ended(job)["metadata"]["state"] == "BATCH_STATE_SUCCEEDED"


def test_expire_has_no_output(trial: Trial) -> None:
    trial.fault("expire")
    operation = trial.ended(trial.create())
    assert operation["metadata"]["state"] == "BATCH_STATE_EXPIRED"
    assert "output" not in operation["metadata"]


def test_fail_says_why(trial: Trial) -> None:
    trial.fault("fail", code=8, message="too much")
    operation = trial.ended(trial.create())
    assert operation["metadata"]["state"] == "BATCH_STATE_FAILED"
    assert operation["error"] == {"code": 8, "message": "too much"}


def test_unknown_state_is_never_done(trial: Trial) -> None:
    trial.fault("unknown_state", state="BATCH_STATE_DREAMING")
    operation = trial.ended(trial.create())
    assert operation["metadata"]["state"] == "BATCH_STATE_DREAMING"
    assert "done" not in operation


def test_partially_succeeded_has_output(trial: Trial) -> None:
    trial.fault("partially_succeeded")
    job = trial.create()
    assert len(trial.lines(job)) == ROWS
    assert trial.operation(job)["metadata"]["state"] == "BATCH_STATE_PARTIALLY_SUCCEEDED"


def test_succeeded_before_output(trial: Trial) -> None:
    trial.fault("succeeded_before_output", seconds=60)
    job = trial.create()
    operation = trial.ended(job)
    assert operation["metadata"]["state"] == "BATCH_STATE_SUCCEEDED"
    assert "output" not in operation["metadata"]
    trial.gemini.advance(61)
    assert len(trial.lines(job)) == ROWS


def test_list_lag_hides_a_job_for_a_while(trial: Trial) -> None:
    trial.fault("list_lag", seconds=60)
    job = trial.create()
    assert list(trial.client.batches.list()) == []
    assert trial.client.batches.get(name=job.name).name == job.name
    trial.gemini.advance(61)
    assert [found.name for found in trial.client.batches.list()] == [job.name]


def test_list_omits_a_job_for_ever(trial: Trial) -> None:
    trial.fault("list_omits")
    job = trial.create()
    trial.gemini.advance(47 * 3600)
    assert list(trial.client.batches.list()) == []
    assert trial.client.batches.get(name=job.name).name == job.name


def test_get_404_for_a_while_after_create(trial: Trial) -> None:
    trial.fault("get_404_for", seconds=60)
    job = trial.create()
    with pytest.raises(errors.ClientError) as missing:
        trial.client.batches.get(name=job.name)
    assert missing.value.code == 404
    trial.gemini.advance(61)
    assert trial.client.batches.get(name=job.name).name == job.name


def test_result_gone(trial: Trial) -> None:
    trial.fault("result_gone")
    with pytest.raises(errors.ClientError) as gone:
        trial.lines(trial.create())
    assert gone.value.code == 403


def test_result_gone_leaves_an_inline_batch_without_rows(trial: Trial) -> None:
    trial.fault("result_gone")
    job = trial.create_inline()
    metadata = trial.ended(job)["metadata"]
    assert (metadata["state"], metadata["output"]) == ("BATCH_STATE_SUCCEEDED", {"inlinedResponses": {}})
    assert trial.client.batches.get(name=job.name).state == types.JobState.JOB_STATE_SUCCEEDED


@pytest.mark.parametrize("under", ["error", "status"])
def test_row_error_is_for_some_rows(trial: Trial, under: str) -> None:
    trial.fault("row_error", code=1, under=under, keys="k[24]", message="no")
    job = trial.create()
    rows = {row["key"]: row for row in trial.lines(job)}
    assert {key for key, row in rows.items() if under in row} == {"k2", "k4"}
    assert rows["k2"][under] == {"code": 1, "message": "no"}
    assert trial.operation(job)["metadata"]["batchStats"] == {
        "requestCount": "6",
        "successfulRequestCount": "4",
        "failedRequestCount": "2",
    }


def test_row_errors_by_rate_are_some_but_not_all(trial: Trial) -> None:
    trial.fault("row_error", rate=0.5)
    rows = trial.lines(trial.create(rows=200))
    assert 50 < sum("error" in row for row in rows) < 150


def test_row_error_with_details_breaks_the_sdk_for_inline_jobs(trial: Trial) -> None:
    trial.fault("row_error", count=1, details=[{"@type": "type.googleapis.com/google.rpc.DebugInfo"}])
    job = trial.create_inline()
    trial.ended(job)
    with pytest.raises(ValueError, match="details"):
        trial.client.batches.get(name=job.name)


def test_truncate_cuts_json_and_says_so(trial: Trial) -> None:
    trial.fault("truncate", count=1)
    [cut, *_] = trial.lines(trial.create())
    assert cut["response"]["candidates"][0]["finishReason"] == "MAX_TOKENS"
    with pytest.raises(json.JSONDecodeError):
        json.loads(text_of(cut))


def test_block_has_no_candidates(trial: Trial) -> None:
    trial.fault("block", keys="k0", reason="PROHIBITED_CONTENT")
    [blocked, other, *_] = trial.lines(trial.create())
    assert blocked["response"]["promptFeedback"] == {"blockReason": "PROHIBITED_CONTENT"}
    assert "candidates" not in blocked["response"]
    assert json.loads(text_of(other)) == {"n": 1}


@pytest.mark.parametrize("kind", ["invalid_json", "wrong_mime"])
def test_answers_that_are_no_json(trial: Trial, kind: str) -> None:
    trial.fault(kind)
    for row in trial.lines(trial.create()):
        assert row["response"]["candidates"][0]["finishReason"] == "STOP"
        with pytest.raises(json.JSONDecodeError):
            json.loads(text_of(row))


def test_empty_answer_looks_like_success(trial: Trial) -> None:
    trial.fault("empty_answer")
    for row in trial.lines(trial.create()):
        assert row["response"]["candidates"] == [{"finishReason": "STOP", "index": 0}]


def test_single_answers_are_bent_too(trial: Trial) -> None:
    trial.fault("block", where="generate")
    answer = trial.ask()
    assert answer.prompt_feedback is not None
    assert (answer.candidates, answer.prompt_feedback.block_reason) == (None, types.BlockedReason.SAFETY)
    trial.fault("row_error", where="generate", code=14)
    with pytest.raises(errors.ServerError) as raised:
        trial.ask()
    assert raised.value.code == 503


def test_shuffle_keeps_every_key_with_its_answer(trial: Trial) -> None:
    trial.fault("shuffle")
    rows = trial.lines(trial.create(rows=50))
    numbers = [int(row["key"][1:]) for row in rows]
    assert numbers != sorted(numbers)
    assert sorted(numbers) == list(range(50))
    assert all(json.loads(text_of(row)) == {"n": number} for row, number in zip(rows, numbers, strict=True))


def test_missing_rows(trial: Trial) -> None:
    trial.fault("missing_rows", count=2)
    assert len({row["key"] for row in trial.lines(trial.create())}) == ROWS - 2


def test_duplicate_rows(trial: Trial) -> None:
    trial.fault("duplicate_rows", keys="k3")
    keys = [row["key"] for row in trial.lines(trial.create())]
    assert (len(keys), keys.count("k3")) == (ROWS + 1, 2)


def test_unknown_rows(trial: Trial) -> None:
    trial.fault("unknown_rows", count=2)
    keys = [row["key"] for row in trial.lines(trial.create())]
    assert len([key for key in keys if key.startswith("unknown-")]) == 2


def test_keyless_rows(trial: Trial) -> None:
    trial.fault("keyless_rows", count=2)
    assert sum("key" not in row for row in trial.lines(trial.create())) == 2


def test_swapped_rows_have_the_answers_of_others(trial: Trial) -> None:
    trial.fault("swapped_rows", keys="k[12]")
    numbers = {row["key"]: json.loads(text_of(row))["n"] for row in trial.lines(trial.create())}
    assert numbers == {"k0": 0, "k1": 2, "k2": 1, "k3": 3, "k4": 4, "k5": 5}


def test_cut_result_ends_in_the_middle_of_a_line(trial: Trial) -> None:
    trial.fault("cut_result", fraction=0.55)
    with pytest.raises(json.JSONDecodeError):
        trial.lines(trial.create())


@pytest.mark.parametrize(("fraction", "left"), [(0.5, ["k0"]), (0.7, ["k0", "k1"]), (0.1, [])])
def test_cut_result_takes_the_last_rows_of_an_inline_batch(trial: Trial, fraction: float, left: list[str]) -> None:
    trial.fault("cut_result", fraction=fraction)
    output = trial.ended(trial.create_inline())["metadata"]["output"]["inlinedResponses"]
    assert [row["metadata"]["key"] for row in output.get("inlinedResponses", [])] == left


def test_an_inline_result_that_is_broken_on_the_disk_can_still_be_looked_at(trial: Trial) -> None:
    job = trial.create_inline()
    trial.ended(job)
    (out,) = (trial.gemini.home / "gemini" / "blobs").glob("out-*")
    out.write_bytes(out.read_bytes()[:-20])
    assert len(trial.operation(job)["response"]["inlinedResponses"]["inlinedResponses"]) == 2
    out.unlink()
    assert trial.operation(job)["metadata"]["output"] == {"inlinedResponses": {}}


@pytest.mark.parametrize("kind", ["fail", "row_error", "shuffle"])
def test_the_journal_names_the_faults_that_a_batch_was_dealt(trial: Trial, kind: str) -> None:
    trial.fault(kind)
    trial.create_inline()
    (entry,) = trial.gemini.journal(operation="create")
    assert (entry["status"], entry["fault"]) == (200, kind)


def test_the_journal_names_the_faults_that_a_file_was_dealt(trial: Trial) -> None:
    trial.fault("processing", seconds=60)
    trial.upload(b"{}\n")
    assert [entry["fault"] for entry in trial.gemini.journal(operation="upload_chunk")] == ["processing"]


def test_faults_of_rows_reach_inline_batches(trial: Trial) -> None:
    trial.fault("keyless_rows", count=1)
    rows = trial.ended(trial.create_inline())["metadata"]["output"]["inlinedResponses"]["inlinedResponses"]
    assert sum("metadata" not in row for row in rows) == 1


def test_faults_can_be_for_some_labels_only(trial: Trial) -> None:
    trial.fault("fail", match="^other")
    assert trial.ended(trial.create())["metadata"]["state"] == "BATCH_STATE_SUCCEEDED"


def test_faults_and_how_often_they_hit_outlive_the_server() -> None:
    with running_gemini() as gemini:
        trial = Trial(gemini, gemini.client())
        trial.fault("error", where="generate", times=2)
        with pytest.raises(errors.ServerError):
            trial.ask()
        gemini.kill()
        gemini.start()
        with pytest.raises(errors.ServerError):
            trial.ask()
        assert trial.ask().text == "hello"
        trial.client.close()


def test_faults_that_cannot_be_are_refused(trial: Trial) -> None:
    headers = {"X-Penstock-Admin": "1"}
    for wrong in ({"kind": "earthquake"}, {"kind": "shuffle", "depth": 3}, {"kind": "error", "match": "("}):
        status, answer = trial.gemini.http("POST", "/_penstock/faults", [wrong], headers)
        assert (status, answer["error"]["status"]) == (400, "INVALID_ARGUMENT")


def test_every_fault_there_is_has_a_test_here() -> None:
    source = Path(__file__).read_text()
    assert [kind for kind in KINDS if f'"{kind}"' not in source] == []
