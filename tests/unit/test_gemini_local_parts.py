"""The parts of the local Gemini that decide: wire formats, faults, arrangements, ranges, pages, guards, scripts."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.errors import InvalidConfiguration, SchemaMismatch
from penstock.gemini_local import tokens, wire
from penstock.gemini_local.backend import Answer, CannotAnswer, Part, Prompt, Turn
from penstock.gemini_local.backends.script import ScriptBackend
from penstock.gemini_local.bending import Line, arrange, bend
from penstock.gemini_local.calls import CALLS
from penstock.gemini_local.catalog import find_model
from penstock.gemini_local.downloads import NoSuchRange, read_range
from penstock.gemini_local.errors import ApiError
from penstock.gemini_local.faults import KINDS, BadFault, Fault, Faults, dump, load
from penstock.gemini_local.guards import check_admin, check_caller, own_address
from penstock.gemini_local.paging import decode_token, encode_token, page_size
from penstock.gemini_local.prompts import read_prompt, write_response
from penstock.gemini_local.routes import OPERATIONS, match
from penstock.gemini_local.rows import Spool, lines_of, request_of, scan
from penstock.gemini_local.settings import Settings, read_settings
from penstock.gemini_local.state import FolderTaken, State
from penstock.gemini_local.timepiece import Timepiece


def no_files(uri: str, mime: str | None) -> Part:
    raise AssertionError(uri)


@given(st.binary())
def test_bytes_are_read_in_either_alphabet_padded_or_not(data: bytes) -> None:
    standard, safe = base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()
    for text in (standard, safe, standard.rstrip("="), safe.rstrip("=")):
        assert wire.decode_bytes(text) == data


@pytest.mark.parametrize("text", ["a", "****", "ab\u00e9d", "="])
def test_what_is_no_base64_is_refused(text: str) -> None:
    if text == "=":
        assert wire.decode_bytes(text) == b""
        return
    with pytest.raises(ApiError):
        wire.decode_bytes(text)


def test_fields_are_found_in_either_casing() -> None:
    assert wire.field({"mime_type": "a"}, "mimeType") == wire.field({"mimeType": "a"}, "mimeType") == "a"
    assert (
        wire.whole_number({"size_bytes": "77"}, "sizeBytes") == wire.whole_number({"sizeBytes": 77}, "sizeBytes") == 77
    )
    with pytest.raises(ApiError):
        wire.field({"mimeType": 3}, "mimeType", str)


@given(st.floats(min_value=0, max_value=4e9))
def test_times_come_back_as_they_went(moment: float) -> None:
    assert abs(wire.read_rfc3339(wire.rfc3339(moment)) - moment) < 1e-5


@pytest.mark.parametrize(("uri", "name"), [("files/abc", "files/abc"), (wire.CANONICAL + "files/a-b", "files/a-b")])
def test_files_are_known_by_name_and_uri(uri: str, name: str) -> None:
    assert wire.file_name(uri) == name


@pytest.mark.parametrize("uri", ["", "files/", "files/../x", "gs://bucket/x", "files/A", "https://x/files/a/b"])
def test_other_uris_are_refused(uri: str) -> None:
    with pytest.raises(ApiError):
        wire.file_name(uri)


def test_tokens_are_a_quarter_of_the_characters_and_258_for_the_rest() -> None:
    turn = Turn("user", (Part(text="x" * 9), Part(mime="image/png", data=b""), Part(mime="application/pdf", data=b"")))
    assert tokens.of_turns([turn], "four") == {"TEXT": 1 + 3, "IMAGE": 258, "DOCUMENT": 258}
    request = {"contents": {"parts": [{"text": "x" * 9}, {"inline_data": {}}, {"fileData": {}}]}}
    assert tokens.estimate(request) == 3 + 258 + 258
    assert tokens.estimate([]) == tokens.estimate({"contents": [3]}) == tokens.estimate(None) == 0


def test_every_operation_has_a_route_and_a_call() -> None:
    assert set(CALLS) == OPERATIONS


@pytest.mark.parametrize(
    ("method", "path", "operation"),
    [
        ("POST", "/v1/models/m:generateContent", "generate"),
        ("POST", "/v1alpha/models/m:asyncBatchEmbedContent", "create"),
        ("GET", "/download/v1beta/files/batch-1:download", "download"),
        ("POST", "/v1/batches/b:cancel", "cancel"),
        ("POST", "/v1/batches/b:delete", "delete"),
        ("POST", "/upload/v1/files", "upload_start"),
    ],
)
def test_routes(method: str, path: str, operation: str) -> None:
    found = match(method, path, {}, {})
    assert found is not None
    assert found.operation == operation


@given(st.integers(min_value=0, max_value=2**62))
def test_page_tokens_come_back_as_they_went(before: int) -> None:
    assert decode_token(encode_token(before)) == before


@pytest.mark.parametrize("token", ["x", "AAAA", "é", encode_token(1) + "!!", encode_token(10**25)])
def test_other_page_tokens_are_refused(token: str) -> None:
    with pytest.raises(ApiError):
        decode_token(token)


def test_page_sizes() -> None:
    assert [page_size(text, default=10, most=100) for text in (None, "", "0", "7", "1000")] == [10, 10, 10, 7, 100]
    for wrong in ("-1", "x", "1" * 5000):
        with pytest.raises(ApiError):
            page_size(wrong, default=10, most=100)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (None, None),
        ("bytes=0-", (0, 9)),
        ("bytes=3-5", (3, 5)),
        ("bytes=3-50", (3, 9)),
        ("bytes=-4", (6, 9)),
        ("bytes=-40", (0, 9)),
        ("bytes=-", None),
        ("bytes=1-2,4-5", None),
    ],
)
def test_ranges(asked: str | None, found: tuple[int, int] | None) -> None:
    assert read_range(asked, 10) == found


@pytest.mark.parametrize("asked", ["bytes=10-", "bytes=5-3", "bytes=-0"])
def test_ranges_that_are_not_there(asked: str) -> None:
    with pytest.raises(NoSuchRange):
        read_range(asked, 10)


@pytest.mark.parametrize("kind", list(KINDS))
def test_faults_come_back_as_they_went(kind: str) -> None:
    fault = Fault.parse({"kind": kind, "times": 3, "rate": 0.5, "after": 1, "match": "x"})
    assert load(dump([fault])) == (fault,)


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        {"kind": "x"},
        {"kind": "error", "cod": 1},
        {"kind": "error", "times": "many"},
        {"kind": "row_error", "keys": "("},
        {"kind": "error", "where": "creat"},
        {"kind": "error", "where": 5},
        {"kind": "error", "match": 5},
        {"kind": "error", "after": -1},
        {"kind": "error", "times": 1.5},
        {"kind": "error", "code": "many"},
        {"kind": "cut_result", "fraction": 2},
        {"kind": "processing", "seconds": None},
        {"kind": ["error"]},
    ],
)
def test_faults_that_cannot_be(wrong: Any) -> None:
    with pytest.raises(BadFault):
        Fault.parse(wrong)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"kind": "drop_aftr"}, "there is no kind of fault 'drop_aftr'; did you mean 'drop_after'?"),
        ({"kind": "drop_after", "tims": 1}, "drop_after does not take 'tims'; did you mean 'times'?"),
        (
            {"kind": "drop_after", "zzz": 1},
            "drop_after does not take 'zzz'; there are: after, kind, match, rate, times, where",
        ),
        ({"kind": "fail", "where": "creat"}, "fail: where: there is no operation 'creat'; did you mean 'create'?"),
        ({"kind": "fail", "rate": 7}, "fail: rate is a number from 0 to 1; got 7"),
        ({"kind": "fail", "match": "("}, "fail: match: '(' is not a regular expression: "),
    ],
)
def test_what_is_wrong_with_a_fault_is_told_in_words(wrong: Any, told: str) -> None:
    with pytest.raises(BadFault) as raised:
        Fault.parse(wrong)
    assert str(raised.value).startswith(told)


def test_faults_on_the_disk_that_cannot_be_are_left_out(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.db.execute("""INSERT INTO faults (position, spec) VALUES (0, '{"kind": "fail", "rate": 7}')""")
    state.db.execute("""INSERT INTO faults (position, spec) VALUES (1, '{"kind": "fail"}')""")
    assert [fault["kind"] for fault in Faults(state, Random(1)).view()] == ["fail"]
    state.close()
    assert load('[{"kind": "fail", "rate": 7}]') == ()


def test_a_model_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(ApiError, match=r"is not found for API version v1beta.*knows gemini-2\.5-flash, .*--any-model"):
        find_model("gemini-0", any_model=False)


def test_faults_hit_after_so_many_and_so_often(tmp_path: Path) -> None:
    state = State(tmp_path)
    faults = Faults(state, Random(1))
    faults.replace([Fault.parse({"kind": "error", "where": ["get", "list"], "after": 1, "times": 2})])
    hits = [len(faults.take(operation, "", ("request",))) for operation in ("get", "create", "list", "get", "get")]
    assert hits == [0, 0, 1, 1, 0]
    assert [(fault["seen"], fault["applied"]) for fault in Faults(state, Random(1)).view()] == [(4, 2)]
    state.close()


@given(st.integers(1, 60), st.integers(0, 10), st.sampled_from([0.0, 0.3, 1.0]))
def test_an_arrangement_without_loss_has_every_row_once(rows: int, seed: int, rate: float) -> None:
    shuffled = arrange(rows, [], [Fault.parse({"kind": "shuffle"})], str(seed))
    assert sorted(line.key for line in shuffled) == list(range(rows))
    assert all(line.key == line.answer for line in shuffled)
    swapped = arrange(rows, [], [Fault.parse({"kind": "swapped_rows", "rate": rate, "count": None})], str(seed))
    assert [line.key for line in swapped] == list(range(rows))
    assert sorted(line.answer for line in swapped) == list(range(rows))


def test_arrangements_with_loss() -> None:
    keys = ["a", "b", "c"]
    assert arrange(3, keys, [Fault.parse({"kind": "missing_rows", "keys": "b"})], "s") == [Line(0, 0), Line(2, 2)]
    both = [Fault.parse({"kind": kind, "keys": "c"}) for kind in ("missing_rows", "duplicate_rows")]
    assert arrange(3, keys, both, "s") == [Line(0, 0), Line(1, 1)]
    assert len(arrange(3, [], [Fault.parse({"kind": "missing_rows", "count": 9})], "s")) == 0


def test_bent_answers() -> None:
    def bent(kind: str, **options: Any) -> Answer:
        return bend(Answer('{"a": 1}'), [Fault.parse({"kind": kind, **options})])

    assert bent("truncate") == Answer('{"a"', "MAX_TOKENS")
    assert bent("block").blocked == "SAFETY"
    assert bent("empty_answer").text == ""
    assert bent("shuffle") == Answer('{"a": 1}')


@pytest.mark.parametrize(
    ("headers", "let_in"),
    [
        ({"host": "127.0.0.1:80"}, True),
        ({"host": "[::1]:80"}, True),
        ({"host": "localhost"}, True),
        ({"host": "known.example"}, True),
        ({}, False),
        ({"host": "127.0.0.1.evil.example"}, False),
        ({"host": "evil.example"}, False),
        ({"host": "127.0.0.1", "origin": "null"}, False),
        ({"host": "127.0.0.1", "sec-fetch-site": "same-site"}, False),
        ({"host": "127.0.0.1", "sec-fetch-site": "none"}, True),
    ],
)
def test_callers(headers: dict[str, str], let_in: bool) -> None:
    settings = Settings(hosts=("known.example",))
    if let_in:
        check_caller(headers, settings)
    else:
        with pytest.raises(ApiError):
            check_caller(headers, settings)


def test_own_addresses_hold_nothing_but_an_address() -> None:
    assert own_address({"host": "a:1"}, "http") == "http://a:1"
    assert own_address({"host": "a:1", "x-forwarded-prefix": "/../x y"}, "http") == "http://a:1"
    for headers in ({"host": "a/b"}, {"host": "a@b"}, {"host": "a", "x-forwarded-proto": "javascript"}, {}):
        with pytest.raises(ApiError):
            own_address(headers, "http")


def test_responses_count_what_they_cost() -> None:
    prompt = read_prompt("m", {"contents": [{"parts": [{"text": "x" * 8}]}]}, no_files)
    response = write_response(prompt, Answer("y" * 4, thought_tokens=5), response_id="r", cached=1)
    assert response["usageMetadata"] == {
        "promptTokenCount": 2,
        "cachedContentTokenCount": 1,
        "candidatesTokenCount": 1,
        "thoughtsTokenCount": 5,
        "totalTokenCount": 8,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 2}],
    }
    blocked = write_response(prompt, Answer("", blocked="SAFETY"), response_id="r")
    assert (blocked["promptFeedback"], "candidates" in blocked) == ({"blockReason": "SAFETY"}, False)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(
    st.sampled_from(["contents", "parts", "text", "inlineData", "data", "mimeType", "role", "x"]), x)))  # fmt: skip
def test_no_json_breaks_the_reader_of_prompts(request: Any) -> None:
    tokens.estimate(request)
    tokens.estimate(request_of(request))
    if isinstance(request, dict):
        try:
            read_prompt("m", request, no_files)
        except ApiError as error:
            assert error.http == 400


def test_lines_are_counted_and_long_ones_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(b'{"request": {"contents": [{"parts": [{"text": "abcd"}]}]}}\n\n  \n' + b"x" * 3000 + b"\nlast")
    assert [line is None for line in lines_of(path, 1000)] == [False, True, False]
    assert scan(path, 1000) == (3, 1)


@given(cut=st.integers(0, 200))
def test_a_spool_cut_anywhere_keeps_its_whole_lines(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("spool") / "rows"
    with Spool(path, 5) as spool:
        for row in (3, 0, 4):
            spool.add(row, {"key": f"k{row}", "response": "r" * 20}, well=row != 4)
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    with Spool(path, 5) as spool:
        lines = whole[:cut].count(b"\n")
        assert [spool.has(row) for row in (3, 0, 4)] == [place < lines for place in range(3)]
        assert spool.succeeded + spool.failed == lines
    assert path.read_bytes() == b"".join(io.BytesIO(whole).readlines()[:lines])


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    state = State(tmp_path)
    with pytest.raises(FolderTaken):
        State(tmp_path)
    state.close()
    State(tmp_path).close()


def test_a_folder_of_another_version_is_left_alone(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.db.execute("PRAGMA user_version = 99")
    state.close()
    with pytest.raises(SchemaMismatch, match="another version"):
        State(tmp_path)


def test_a_clock_that_is_moved_wakes_who_waits() -> None:
    class Still:
        def now(self) -> float:
            return 100.0

        def monotonic(self) -> float:
            return 0.0

        async def sleep(self, seconds: float) -> None:
            await asyncio.Event().wait()

    async def run() -> None:
        clock = Timepiece(Still())
        waiting = asyncio.create_task(clock.until(150))
        await asyncio.sleep(0)
        clock.advance(49)
        await asyncio.sleep(0)
        assert not waiting.done()
        clock.advance(2)
        await asyncio.wait_for(waiting, 5)

    asyncio.run(run())


def test_models_are_known_or_any() -> None:
    assert find_model("models/gemini-embedding-2", any_model=False).embeds
    with pytest.raises(ApiError):
        find_model("llama", any_model=False)
    assert find_model("llama", any_model=True).id == "llama"


def test_settings_are_read_flat() -> None:
    settings = read_settings({"pending_for": 3, "active_batches": 5, "any_model": True, "hosts": ["a"]})
    assert (settings.pace.pending_for, settings.quotas.active_batches) == (3, 5)
    assert (settings.any_model, settings.hosts) == (True, ("a",))
    for wrong in ("pace", "quotas", "speed"):
        with pytest.raises(InvalidConfiguration):
            read_settings({wrong: 1})


class TestScript:
    def ask(self, backend: ScriptBackend, text: str, *, model: str = "m", key: str = "") -> Answer:
        return asyncio.run(backend.generate(Prompt(model, (Turn("user", (Part(text=text),)),), key=key)))

    def test_without_rules_the_prompt_comes_back(self) -> None:
        assert self.ask(ScriptBackend(), "hello {text}").text == "hello {text}"

    def test_the_first_rule_that_fits_answers(self, tmp_path: Path) -> None:
        script = tmp_path / "script.yaml"
        script.write_text(
            """
            rules:
              - {match: 'invoice (\\d+)', reply: "number {1} of {model}"}
              - {model: "pro$", times: 1, error: {code: 14, message: "try again"}}
              - {key: "^k1$", json: {"total": "{text}"}}
            default: {reply: "nothing"}
            """
        )
        backend = ScriptBackend(script)
        assert self.ask(backend, "an invoice 12").text == "number 12 of m"
        with pytest.raises(CannotAnswer, match="try again") as raised:
            self.ask(backend, "x", model="a-pro")
        assert raised.value.code == 14
        assert self.ask(backend, "x", model="a-pro").text == "nothing"
        assert json.loads(self.ask(backend, "x", key="k1").text) == {"total": "{text}"}
        backend.follow([{"finish": "SAFETY", "reply": "{{}}"}])
        assert self.ask(backend, "x") == Answer("{}", "SAFETY")
        backend.follow(None)
        assert self.ask(backend, "x").text == "nothing"

    @pytest.mark.parametrize(
        "wrong", [3, {"rulez": []}, [3], [{"mach": "x"}], [{"match": "("}], {"rules": [{"delay": []}]}]
    )
    def test_scripts_that_make_no_sense_are_refused(self, wrong: Any) -> None:
        backend = ScriptBackend()
        with pytest.raises(ValueError):
            backend.follow(wrong)
        assert self.ask(backend, "x").text == "x"

    def test_vectors_are_of_unit_length_and_always_the_same(self) -> None:
        def vectors() -> list[list[float]]:
            return asyncio.run(ScriptBackend().embed("m", ["a", "b"], dimensions=8, task=None))

        first, second = vectors()
        assert vectors() == [first, second]
        assert first != second
        assert abs(sum(value * value for value in first) - 1) < 1e-9


@pytest.mark.parametrize(
    ("peer", "headers", "key", "let_in"),
    [
        ("127.0.0.1", {}, None, True),
        ("127.0.0.1", {}, "secret", True),
        ("10.0.0.5", {}, "secret", False),
        ("10.0.0.5", {"x-goog-api-key": "wrong"}, "secret", False),
        ("10.0.0.5", {"x-goog-api-key": "secret"}, "secret", True),
        ("10.0.0.5", {}, None, False),
        ("127.0.0.1", {"x-forwarded-for": "10.0.0.5"}, None, False),
    ],
)
def test_the_administration_is_for_this_machine_or_for_who_has_the_key(
    peer: str, headers: dict[str, str], key: str | None, let_in: bool
) -> None:
    told = {"x-penstock-admin": "1", **headers}
    if let_in:
        check_admin(told, peer, Settings(key=key))
        return
    with pytest.raises(ApiError):
        check_admin(told, peer, Settings(key=key))
