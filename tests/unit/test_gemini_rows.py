"""What became of each request of a batch: told from its line alone, joined by its key alone."""

from __future__ import annotations

import io
import json
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import pytest

from penstock.engine.call import Usage
from penstock.remote.gemini.lines import decoded, encoded, lines
from penstock.remote.gemini.results import Sorting, read_rows
from penstock.remote.gemini.rows import OUTCOMES, Row, answered, classify, lost_file, read_row, usage_of
from penstock.remote.gemini.schema import misfit
from penstock.remote.prices import Price, Rates

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def answer(text: str | None = "hello", finish: str | None = "STOP", **more: Any) -> dict[str, Any]:
    parts = [] if text is None else [{"text": text}]
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}}
    if finish is not None:
        candidate["finishReason"] = finish
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 2, "totalTokenCount": 17}
    return {"candidates": [candidate], "usageMetadata": usage, **more}


CASES: list[tuple[dict[str, Any], dict[str, Any] | None, str]] = [
    ({"key": "k", "response": answer()}, None, "ok"),
    ({"metadata": {"key": "k"}, "response": answer()}, None, "ok"),
    ({"key": "k", "response": answer('{"n": 3}')}, SCHEMA, "ok"),
    ({"key": "k", "response": answer('{"n": "3"}')}, SCHEMA, "invalid"),
    ({"key": "k", "response": answer('{"n": 3')}, SCHEMA, "invalid"),
    ({"key": "k", "response": answer("NaN")}, SCHEMA, "invalid"),
    ({"key": "k", "response": answer('{"n": 3', "MAX_TOKENS")}, SCHEMA, "truncated"),
    ({"key": "k", "response": answer('{"n": 3}', "MAX_TOKENS")}, SCHEMA, "truncated"),
    ({"key": "k", "response": answer("half", "CONTINUATION")}, None, "truncated"),
    ({"key": "k", "response": answer("half", None)}, None, "truncated"),
    ({"key": "k", "response": answer("half", "FINISH_REASON_UNSPECIFIED")}, None, "truncated"),
    ({"key": "k", "response": answer(None, "SAFETY")}, None, "blocked"),
    ({"key": "k", "response": answer("part of it", "RECITATION")}, None, "blocked"),
    ({"key": "k", "response": {"promptFeedback": {"blockReason": "SAFETY"}}}, None, "blocked"),
    ({"key": "k", "response": answer("what", "MALFORMED_FUNCTION_CALL")}, None, "invalid"),
    ({"key": "k", "response": answer("what", "SOMETHING_NEW")}, None, "invalid"),
    ({"key": "k", "response": answer(None)}, None, "invalid"),
    ({"key": "k", "response": answer("  \n")}, None, "invalid"),
    ({"key": "k", "response": {}}, None, "invalid"),
    ({"key": "k", "response": {"candidates": []}}, None, "invalid"),
    ({"key": "k", "response": {"candidates": ["no object"]}}, None, "invalid"),
    ({"key": "k", "response": None}, None, "invalid"),
    ({"key": "k"}, None, "invalid"),
    ({"key": "k", "error": {"code": 13, "message": "internal"}}, None, "api_error"),
    ({"key": "k", "status": {"code": 1, "message": "cancelled"}}, None, "api_error"),
    ({"key": "k", "error": {"details": [{"@type": "x"}]}}, None, "api_error"),
    ({"metadata": {"key": "k"}, "error": {"code": 13}}, None, "api_error"),
    ({"response": answer()}, None, "unknown"),
    ({"key": None, "response": answer()}, None, "unknown"),
    ({"key": 7, "response": answer()}, None, "unknown"),
    ({"key": "", "response": answer()}, None, "unknown"),
    ({"metadata": "text", "response": answer()}, None, "unknown"),
]


@pytest.mark.parametrize(("line", "schema", "outcome"), CASES)
def test_a_line_is_classified(line: dict[str, Any], schema: Any, outcome: str) -> None:
    row = classify(line, "generate", schema)
    assert row.outcome == outcome
    assert (row.error is None) == (outcome == "ok"), "what is not ok says why"


def test_an_answer_is_kept_with_what_it_used() -> None:
    row = classify({"key": "k", "response": answer('{"n": 3}')}, "generate", SCHEMA)
    assert (row.text, row.parsed, row.finish) == ('{"n": 3}', {"n": 3}, "STOP")
    assert row.usage == Usage(input=10, output=7, thinking=2)
    assert Row.from_json(json.loads(json.dumps(row.as_json()))) == row


def test_thoughts_are_no_part_of_the_answer() -> None:
    response = answer("the answer")
    response["candidates"][0]["content"]["parts"].insert(0, {"text": "hm", "thought": True})
    assert answered("k", response).text == "the answer"


def test_an_answer_of_something_else_than_text_is_one() -> None:
    response = answer(None)
    response["candidates"][0]["content"]["parts"] = [{"functionCall": {"name": "f"}}]
    assert answered("k", response).outcome == "ok"
    assert answered("k", response, SCHEMA).outcome == "invalid"


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        ({"embedding": {"values": [0.5, 1, -1]}, "tokenCount": "5"}, "ok"),
        ({"embedding": {"values": []}}, "invalid"),
        ({"embedding": {"values": ["0.5"]}}, "invalid"),
        ({"embedding": {"values": [True]}}, "invalid"),
        ({"embedding": None}, "invalid"),
        ({}, "invalid"),
    ],
)
def test_embeddings(response: dict[str, Any], outcome: str) -> None:
    row = classify({"key": "k", "response": response}, "embed")
    assert row.outcome == outcome
    if outcome == "ok":
        assert row.embedding == [0.5, 1.0, -1.0]
        assert row.usage == Usage(input=5)


def test_counts_come_as_numbers_and_as_text() -> None:
    told = {
        "promptTokenCount": "10",
        "candidatesTokenCount": 4,
        "cachedContentTokenCount": "3",
        "thoughtsTokenCount": -1,
    }
    assert usage_of(told) == Usage(input=10, output=4, cached=3)
    assert usage_of("nonsense") == Usage()


def raw(**fields: Any) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("line", "key", "outcome"),
    [
        (raw(key="k", response=answer("a\u2028b\u2029c\u0085d\x0be\x0cf")), "k", "ok"),
        (raw(key="k", response=answer("a\x00b")), "k", "ok"),
        (raw(key="k\u2028", response=answer()), "k\u2028", "ok"),
        (raw(key="k", response=answer()).replace(b"hello", b"h\xff\xfe"), "k", "invalid"),
        (raw(key="k", response=answer()).replace(b"hello", b"\\ud800"), "k", "invalid"),
        (raw(key="k", response=answer()).replace(b'"hello"', b"NaN"), "k", "invalid"),
        (raw(key="k", response=answer())[:-5], None, "unknown"),
        (b"[" * 100_000, None, "unknown"),
        (b'"text"', None, "unknown"),
        (b"\x00\x01\x02", None, "unknown"),
        (None, None, "unknown"),
    ],
)
def test_lines_of_any_kind(line: bytes | None, key: str | None, outcome: str) -> None:
    row = read_row(line, "generate")
    assert (row.key, row.outcome) == (key, outcome)
    assert len(encoded(row.as_json()).splitlines()) == 1, "a row is one line, whoever splits it"


def test_lines_end_at_line_feeds_only() -> None:
    content = b'{"a":"x\xe2\x80\xa8y"}\r\n\n  \n"\xc2\x85"\n' + b"z" * 50 + b"\n" + b"y" * 40
    assert list(lines(io.BytesIO(content), longest=40)) == [b'{"a":"x\xe2\x80\xa8y"}', b'"\xc2\x85"', None, b"y" * 40]
    assert list(lines(io.BytesIO(b"a" * 1000), longest=10)) == [None]
    assert list(lines(io.BytesIO(b""))) == []


def test_damage_is_told_and_the_rest_is_read() -> None:
    assert decoded(b'{"key": "a", "x": "\xff"}') == (
        {"key": "a", "x": "\ufffd"},
        decoded(b'{"key": "a", "x": "\xff"}')[1],
    )
    assert decoded(b'{"x": 1}') == ({"x": 1}, None)
    assert decoded(b"{")[0] is None


def sort(keys: list[str], result: bytes, **options: Any) -> tuple[Sorting, list[dict[str, Any]]]:
    rows = io.BytesIO()
    told = {"kind": "generate", **options}
    sorting = Sorting(keys=io.BytesIO(b"".join(map(encoded, keys))), result=io.BytesIO(result), rows=rows, **told)
    while sorting.read_keys():
        pass
    while sorting.step():
        pass
    return sorting, [json.loads(line) for line in rows.getvalue().split(b"\n") if line]


def line(key: str, text: str = "hello", **more: Any) -> bytes:
    return encoded({"key": key, "response": answer(text), **more})


def test_rows_are_joined_by_key_in_any_order() -> None:
    keys = [f"key {number}" for number in range(500)]
    shuffled = keys[:]
    Random(3).shuffle(shuffled)
    sorting, rows = sort(keys, b"".join(line(key, f"of {key}") for key in shuffled))
    assert sorting.tally() == {**dict.fromkeys(OUTCOMES, 0), "ok": 500}
    assert {row["key"]: row["text"] for row in rows} == {key: f"of {key}" for key in keys}


def test_what_is_missing_or_was_not_asked_is_told() -> None:
    broken = b'{"key": "d", "resp\n'
    sorting, rows = sort(["a", "b", "c", "d"], line("b") + line("stranger") + broken + encoded({"response": answer()}))
    assert sorting.tally() == {**dict.fromkeys(OUTCOMES, 0), "ok": 1, "unknown": 3, "missing": 3}
    assert [row["key"] for row in rows if row["outcome"] == "missing"] == ["a", "c", "d"]
    assert sorting.ends_broken


def test_the_first_line_of_a_key_counts() -> None:
    content = line("a", "one") + line("b") + line("a", "one") + line("a", "two")
    sorting, rows = sort(["a", "b"], content)
    assert [(row["key"], row["outcome"], row.get("conflict", False)) for row in rows] == [
        ("a", "ok", False),
        ("b", "ok", False),
        ("a", "duplicate", False),
        ("a", "duplicate", True),
    ]
    assert sorting.conflicts == 1
    assert rows[3]["text"] == "two", "what a duplicate says is kept, for whoever has to decide"
    assert sorting.usage == Usage(input=30, output=21, thinking=6), "the same line twice is paid once"


def test_every_row_is_paid_at_its_own_rate() -> None:
    price = Price("m", "batch", Rates(150_000, 1_250_000), long=Rates(300_000, 2_500_000))
    long = encoded({"key": "b", "response": {**answer(), "usageMetadata": {"promptTokenCount": 200_001}}})
    sorting, _ = sort(["a", "b"], line("a") + long, price=price)
    assert sorting.charge == 10 * 150_000 + 7 * 1_250_000 + 200_001 * 300_000


def test_a_number_that_is_none_is_invalid() -> None:
    sorting, rows = sort(["a"], b'{"key":"a","response":{"embedding":{"values":[1e999]}}}\n', kind="embed")
    assert [row["outcome"] for row in rows] == ["invalid"]
    assert sorting.tally()["invalid"] == 1


def test_rows_are_read_back(tmp_path: Path) -> None:
    _, rows = sort(["a", "b"], line("a", "x\u2028y\x00"))
    (tmp_path / "rows.jsonl").write_bytes(b"".join(map(encoded, rows)))
    read = list(read_rows(tmp_path / "rows.jsonl"))
    assert [(row.key, row.outcome, row.text) for row in read] == [("a", "ok", "x\u2028y\x00"), ("b", "missing", None)]


VALUES: list[Any] = [
    None, True, 0, 3, 2.5, 2.0, -1, "", "text", "longer text", [], [1, 2], ["a"], [{"n": 1}], {}, {"n": 1}, {"n": "1"},
    {"n": None}, {"n": 1, "m": "a"}, {"m": {"n": 1}}, {"tree": {"tree": {}}},
]  # fmt: skip
SCHEMAS: list[dict[str, Any]] = [
    {},
    {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": ["string", "null"]},
    {"type": "number", "minimum": 0, "exclusiveMaximum": 3},
    {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^t"},
    {"type": "array", "items": {"type": "integer"}, "minItems": 1},
    {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "integer"}},
    {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    {"oneOf": [{"type": "string"}, {"type": "array"}]},
    {"allOf": [{"type": "object"}, {"required": ["m"]}]},
    {"enum": ["text", 3, None]},
    {"const": True},
    {"const": 1},
    {"$defs": {"T": {"type": "object", "properties": {"tree": {"$ref": "#/$defs/T"}}}}, "$ref": "#/$defs/T"},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
def test_a_misfit_is_what_jsonschema_says_it_is(schema: dict[str, Any]) -> None:
    for value in VALUES:
        fits = jsonschema.Draft202012Validator(schema).is_valid(value)
        assert (misfit(value, schema) is None) == fits, f"{value!r}: {misfit(value, schema)}"


def test_geminis_own_form_of_a_schema_is_understood() -> None:
    schema = {
        "type": "OBJECT",
        "properties": {"n": {"type": "INTEGER", "nullable": True}, "l": {"type": "ARRAY", "minItems": "1"}},
        "required": ["n"],
    }
    assert misfit({"n": None}, schema) is None
    assert misfit({"n": 1, "l": [1]}, schema) is None
    assert misfit({"n": 1, "l": []}, schema) == "l: must be a list of at least 1"
    assert misfit({"n": "x"}, schema) == "n: must be integer"
    assert misfit({}, schema) == "'n' is missing"


@pytest.mark.parametrize(
    ("code", "message", "lost"),
    [
        (7, "You do not have permission to access the File ivr2dmbl8tqz or it may not exist.", True),
        (403, "You do not have permission to access the File ivr2dmbl8tqz or it may not exist.", True),
        (None, "You do not have permission to access the File ivr2dmbl8tqz or it may not exist.", True),
        (5, "File not found: files/ivr2dmbl8tqz", True),
        (404, "The requested file https://generativelanguage.googleapis.com/v1beta/files/x was not found.", True),
        (3, "The file files/ivr2dmbl8tqz has expired.", True),
        (400, "File ivr2dmbl8tqz does not exist or has been deleted.", True),
        (7, "The caller does not have permission", False),
        (7, "Permission denied: Consumer 'api_key:AIza' has been suspended.", False),
        (7, "Your API key was reported as leaked. Please use another API key.", False),
        (3, "API key expired. Please renew the API key.", False),
        (3, "API key not found in the file that was given.", False),
        (7, "Method doesn't allow unregistered callers (callers without established identity).", False),
        (7, "CachedContent not found (or permission denied)", False),
        (5, "Requested entity was not found.", False),
        (5, "models/gemini-9 is not found for API version v1beta, or is not supported for generateContent.", False),
        (7, "You do not have permission to access the FileSearchStore x or it may not exist.", False),
        (9, "The File cxgja95z0ak1 is not in an ACTIVE state and usage is not allowed.", False),
        (3, "Unsupported MIME type: image/tiff for the file files/ivr2dmbl8tqz", False),
        (3, "Request contains an invalid argument.", False),
        (13, "File ivr2dmbl8tqz not found", False),
    ],
)
def test_a_row_that_lost_its_file_is_told_from_other_refusals(code: int | None, message: str, lost: bool) -> None:
    error = {"message": message} | ({} if code is None else {"code": code})
    assert lost_file(classify({"key": "k", "error": error}, "generate")) is lost


def test_only_a_failed_row_can_have_lost_its_file() -> None:
    told = "You do not have permission to access the File x or it may not exist."
    assert not lost_file(Row("k", "ok", text=told))
    assert not lost_file(Row("k", "invalid", error=told, code=7))
    assert not lost_file(Row("k", "api_error"))
