"""Requests as they travel, what they come to in tokens, and the settings they travel by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from penstock.engine.errors import InvalidConfiguration, InvalidRequest
from penstock.remote.gemini.batch_input import BatchRequest, Scan
from penstock.remote.gemini.limits import enqueued_tokens
from penstock.remote.gemini.operation import read_operation
from penstock.remote.gemini.requests import (
    checked,
    data,
    embed_request,
    file,
    generate_request,
    json_schema,
    mime_of,
    placeholders,
    response_schema,
)
from penstock.remote.gemini.settings import GeminiSettings, from_environment
from penstock.remote.gemini.tokens import IMAGE_TOKENS_3, input_tokens, output_tokens


class Cell(BaseModel):
    text: str = Field(description="what it says", max_length=10)
    span: int | None = None


class Page(BaseModel):
    kind: Literal["a", "b"]
    cells: list[Cell] = Field(min_length=1)
    score: float = Field(ge=0, le=1)
    first: Cell | None = None


class Tree(BaseModel):
    children: list[Tree]


class Loose(BaseModel):
    fields: dict[str, int]


def test_a_request_is_plain_rest() -> None:
    request = generate_request(
        ["describe", file("page 1.png"), data(b"\xfb\xff", "image/png")],
        system="be brief",
        temperature=0.1,
        max_output_tokens=100,
        thinking_budget=0,
        cached="cachedContents/x",
        config={"topK": 3},
    )
    assert json.loads(json.dumps(request)) == {
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "describe"},
                    {"fileData": {"fileUri": "penstock-file:page 1.png", "mimeType": "image/png"}},
                    {"inlineData": {"data": "+/8=", "mimeType": "image/png"}},
                ],
            }
        ],
        "systemInstruction": {"parts": [{"text": "be brief"}]},
        "generationConfig": {
            "temperature": 0.1,
            "maxOutputTokens": 100,
            "thinkingConfig": {"thinkingBudget": 0},
            "topK": 3,
        },
        "cachedContent": "cachedContents/x",
    }
    assert generate_request("hi") == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    assert embed_request("hi", task="RETRIEVAL_DOCUMENT", dimensions=8) == {
        "content": {"parts": [{"text": "hi"}]},
        "taskType": "RETRIEVAL_DOCUMENT",
        "outputDimensionality": 8,
    }


def test_a_schema_is_told_in_geminis_words() -> None:
    """By the SDK's converter: a change in it shows here."""
    cell = {
        "type": "OBJECT",
        "properties": {
            "text": {"type": "STRING", "description": "what it says", "maxLength": 10},
            "span": {"type": "INTEGER", "nullable": True},
        },
        "required": ["text"],
        "propertyOrdering": ["text", "span"],
    }
    told = response_schema(Page)
    assert told == {
        "type": "OBJECT",
        "title": "Page",
        "properties": {
            "kind": {"type": "STRING", "title": "Kind", "enum": ["a", "b"]},
            "cells": {"type": "ARRAY", "title": "Cells", "items": cell, "minItems": 1},
            "score": {"type": "NUMBER", "title": "Score", "minimum": 0.0, "maximum": 1.0},
            "first": {**cell, "nullable": True},
        },
        "required": ["kind", "cells", "score"],
        "propertyOrdering": ["kind", "cells", "score", "first"],
    }
    assert response_schema(json_schema(Page)) == told
    assert response_schema(told) == told
    config = generate_request("x", schema=Page)["generationConfig"]
    assert config == {"responseMimeType": "application/json", "responseSchema": told}


@pytest.mark.parametrize(("schema", "said"), [(Tree, "holds itself"), (Loose, "any name")])
def test_a_schema_that_would_lose_something_is_refused(schema: Any, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        response_schema(schema)


def test_placeholders_are_found_wherever_they_are() -> None:
    request = {
        "contents": [{"parts": [{"fileData": {"fileUri": "penstock-file:a"}}, {"fileData": {"fileUri": "https://x"}}]}],
        "systemInstruction": {"parts": [{"file_data": {"file_uri": "penstock-file:b"}}]},
    }
    assert [place.get("fileUri") or place.get("file_uri") for place in placeholders(request)] == [
        "penstock-file:a",
        "penstock-file:b",
    ]


def test_what_a_file_is_told_by_its_name_or_not_at_all() -> None:
    assert [mime_of(name) for name in ("a.png", "b.PDF", "c.jsonl", "d.tif")] == [
        "image/png",
        "application/pdf",
        "application/jsonl",
        "image/tiff",
    ]
    with pytest.raises(InvalidRequest, match="mime type"):
        mime_of("noname")


def test_tokens_are_counted_here() -> None:
    words = generate_request("x" * 4000)
    assert 1000 <= input_tokens(words, "gemini-3.8-flash") < 1020
    picture = generate_request([data(b"x" * 10_000, "image/png")])
    assert input_tokens(picture, "gemini-3.8-flash") >= IMAGE_TOKENS_3
    pages = generate_request([file("a.pdf")])
    sized = {"penstock-file:a.pdf": 500_000}
    assert input_tokens(pages, "gemini-3.8-flash", sized) >= 10 * IMAGE_TOKENS_3
    assert output_tokens(words, 65_536) == 65_536
    assert output_tokens(generate_request("x", max_output_tokens=10), 65_536) == 10
    assert output_tokens(generate_request("x", config={"candidateCount": 3}), 10) == 30


def test_limits_are_those_of_the_tier_unless_told() -> None:
    assert enqueued_tokens("gemini-2.5-flash", 1, {}) == 3_000_000
    assert enqueued_tokens("models/gemini-2.5-flash", 3, {}) == 1_000_000_000
    assert enqueued_tokens("gemini-2.5-flash", 1, {"gemini-2.5-flash": 7}) == 7
    assert enqueued_tokens("gemini-99", 1, {}) is None


def scan(request: dict[str, Any]) -> Scan:
    scanned = Scan(checked(BatchRequest, request), model="gemini-3.8-flash", most_output=10, price=None, sample=1)
    while scanned.step():
        pass
    return scanned


def test_rows_are_counted(tmp_path: Path) -> None:
    rows = [{"key": f"k{number}", "request": generate_request("x" * 400)} for number in range(3)]
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    for counted in (scan({"requests": rows}).counted, scan({"file": tmp_path / "rows.jsonl"}).counted):
        assert counted.rows == 3
        assert counted.usage.output == 30
        assert len(counted.sample) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no rows"),
        ("{", "row 1: must be an object"),
        ("[]", "row 1: must be an object"),
        ('{"key": "a"}', "row 1: must be an object"),
        ('{"key": "a", "request": {"contents": [1]}, "note": 1}', "row 1: must be an object"),
        ('{"key": "", "request": {"contents": [1]}}', "row 1: its key"),
        ('{"key": 3, "request": {"contents": [1]}}', "row 1: its key"),
        ('{"key": "\\ud800", "request": {"contents": [1]}}', "row 1: must be an object"),
        ('{"key": "a", "request": {}}', "row 1 .*needs contents"),
        ('{"key": "a", "request": {"contents": [1]}}\n' * 2, "row 2: the key 'a' is there already"),
        ('{"key": "a", "request": {"contents": [{"fileData": {"fileUri": "penstock-file:x.png"}}]}}', "not among"),
    ],
)
def test_wrong_rows_are_refused_before_anything_is_sent(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(content)
    with pytest.raises(InvalidRequest, match=said):
        scan({"file": tmp_path / "rows.jsonl"})


def test_rows_reach_only_the_files_that_are_declared(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").write_bytes(b"a")
    (tmp_path / "secret.png").write_bytes(b"s")

    def rows(name: str) -> dict[str, Any]:
        return {
            "requests": [{"key": "k", "request": generate_request([file(name, "image/png")])}],
            "uploads_folder": tmp_path / "in",
            "uploads": {"given": tmp_path / "secret.png"},
        }

    assert scan(rows("a.png")).counted.wanted["a.png"].path == tmp_path / "in" / "a.png"
    assert scan(rows("given")).counted.wanted["given"].path == tmp_path / "secret.png"
    for name in ("../secret.png", str(tmp_path / "secret.png"), "none.png"):
        with pytest.raises(InvalidRequest):
            scan(rows(name))


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        "text",
        {"requests": [], "file": "x"},
        {"requests": [{"key": "a"}]},
        {"file": "x", "mode": "fast"},
        {"file": "x", "more": 1},
    ],
)
def test_wrong_requests_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidRequest, match="no BatchRequest"):
        checked(BatchRequest, wrong)
    assert BatchRequest(file=Path("x")).kind == "generate"


OPERATION = {
    "name": "batches/x",
    "metadata": {
        "displayName": "ours",
        "createTime": "2026-11-15T10:00:00.123456789Z",
        "endTime": "2026-11-15T11:00:00Z",
        "batchStats": {"requestCount": "5", "successfulRequestCount": "3", "failedRequestCount": "1"},
    },
}


@pytest.mark.parametrize(
    ("state", "rest", "polled"),
    [
        ("BATCH_STATE_PENDING", {}, "running"),
        ("BATCH_STATE_RUNNING", {}, "running"),
        ("JOB_STATE_RUNNING", {}, "running"),
        ("BATCH_STATE_UNSPECIFIED", {}, "running"),
        ("BATCH_STATE_SUCCEEDED", {"output": {"responsesFile": "files/x"}}, "succeeded"),
        ("BATCH_STATE_SUCCEEDED", {"output": {"inlinedResponses": {"inlinedResponses": []}}}, "succeeded"),
        ("BATCH_STATE_SUCCEEDED", {"output": {"inlinedEmbedContentResponses": {}}}, "succeeded"),
        ("BATCH_STATE_SUCCEEDED", {}, "running"),
        ("BATCH_STATE_PARTIALLY_SUCCEEDED", {"output": {"responsesFile": "files/x"}}, "succeeded"),
        ("JOB_STATE_PARTIALLY_SUCCEEDED", {"output": {"responsesFile": "files/x"}}, "succeeded"),
        ("BATCH_STATE_FAILED", {"error": {"code": 13, "message": "broke"}}, "failed"),
        ("BATCH_STATE_CANCELLED", {"error": {"code": 1}}, "cancelled"),
        ("BATCH_STATE_EXPIRED", {}, "expired"),
        ("BATCH_STATE_RESTING", {}, "unknown"),
        ("BATCH_STATE_RESTING", {"done": True, "error": {"code": 1}}, "cancelled"),
        ("BATCH_STATE_RESTING", {"done": True, "error": {"code": 4}}, "failed"),
        ("BATCH_STATE_RESTING", {"done": True, "output": {"responsesFile": "files/x"}}, "succeeded"),
        ("", {}, "running"),
    ],
)
def test_the_raw_operation_is_read(state: str, rest: dict[str, Any], polled: str) -> None:
    metadata = {**OPERATION["metadata"], "state": state}  # type: ignore[dict-item]
    if "output" in rest:
        metadata["output"] = rest["output"]
    raw = {**OPERATION, "metadata": metadata, **{name: rest[name] for name in ("done", "error") if name in rest}}
    operation = read_operation(raw)
    told = operation.polled(now=operation.ended or 0.0)
    assert (told.state, told.done, told.total) == (polled, 4, 5)
    assert operation.label == "ours"
    assert (told.error is None) == ("error" not in rest)


def test_a_success_without_a_result_is_asked_for_at_last_and_never_failed() -> None:
    """By Google's clock, which may be another than ours: so nothing ends by it."""
    raw = {**OPERATION, "metadata": {**OPERATION["metadata"], "state": "BATCH_STATE_SUCCEEDED"}}  # type: ignore[dict-item]
    operation = read_operation(raw)
    assert operation.ended is not None
    assert operation.polled(operation.ended + 60).state == "running"
    assert operation.polled(operation.ended + 7200).state == "succeeded"
    assert operation.polled(operation.ended - 7200).state == "running"


@pytest.mark.parametrize("raw", [{}, {"metadata": None}, {"metadata": {"batchStats": {"requestCount": "many"}}}])
def test_an_operation_without_words_is_running(raw: dict[str, Any]) -> None:
    assert read_operation(raw).polled(0.0).state == "running"


def test_the_key_is_read_as_google_reads_it() -> None:
    settings = from_environment({"GEMINI_API_KEY": " abc \n", "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:1/"})
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == "abc"
    assert settings.base_url == "http://127.0.0.1:1"
    assert settings.on_loopback
    assert from_environment({"GOOGLE_API_KEY": "xyz"}).api_key is not None
    assert from_environment({"GEMINI_API_KEY": ""}).api_key is None
    assert from_environment({"GEMINI_API_KEY": "env"}, api_key="told").api_key.get_secret_value() == "told"  # type: ignore[union-attr]


def test_the_key_shows_nowhere() -> None:
    settings = GeminiSettings(api_key="AIzaSECRET")  # type: ignore[arg-type]
    assert "SECRET" not in f"{settings!r} {settings} {settings.model_dump_json()}"
    with pytest.raises(ValidationError) as caught:
        GeminiSettings(api_key="SECRET\nSECRET")  # type: ignore[arg-type]
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_url": "ftp://x"},
        {"base_url": "google"},
        {"base_url": "https://me:secret@proxy"},
        {"base_url": "https://me@proxy/gemini"},
        {"api_version": "../v1"},
        {"tier": 4},
        {"batch_jobs": 0},
        {"request_timeout": 0},
        {"request_timeout": "soon"},
        {"enqueued_tokens": "gemini=many"},
        {"vertex_project": "p"},
        {"upload_chunk": 1000},
        {"poll_every": 100, "poll_at_most": 10},
        {"colour": "red"},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        GeminiSettings(**wrong)


def test_an_address_with_a_password_is_not_shown_when_it_is_refused() -> None:
    with pytest.raises(ValidationError, match="it is shown") as caught:
        GeminiSettings(base_url="https://me:secret@proxy")
    assert "secret" not in str(caught.value)


def test_which_gemini_it_is() -> None:
    assert GeminiSettings(base_url="http://127.0.0.1:8801/").identity == "http://127.0.0.1:8801"
    assert GeminiSettings(vertex_project="p", vertex_location="l").identity == "vertex:p/l"
    unchecked = GeminiSettings().model_copy(update={"base_url": "https://me:secret@proxy/gemini"})
    assert unchecked.identity == "https://proxy/gemini"


def test_settings_come_from_text_too() -> None:
    settings = GeminiSettings(tier="2", request_timeout="2m", enqueued_tokens="a=5, b=1_000")  # type: ignore[arg-type]
    assert (settings.tier, settings.request_timeout, settings.enqueued_tokens) == (2, 120.0, {"a": 5, "b": 1000})


def test_vertex_and_missing_keys_are_told_clearly() -> None:
    from penstock.engine.clock import SystemClock
    from penstock.remote.gemini.batch import GeminiBatch
    from penstock.remote.gemini.client import GeminiClient

    with pytest.raises(InvalidConfiguration, match="GEMINI_API_KEY"):
        GeminiClient(GeminiSettings(), clock=SystemClock())
    vertex = GeminiClient(GeminiSettings(vertex_project="p", vertex_location="l"), clock=SystemClock())
    with pytest.raises(InvalidConfiguration, match="Cloud Storage"):
        GeminiBatch(vertex)
