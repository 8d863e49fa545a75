"""Prompts: those that ship, those of a user's folder, what a template may do, and the context of the page before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.errors import InvalidConfiguration
from penstock.pipelines.pages.model import PageIdentifier, Prompt
from penstock.pipelines.pages.prompts.catalogue import CataloguePage
from penstock.pipelines.pages.prompts.context import ContextCourse, PageContext, context_of, split_provenance
from penstock.pipelines.pages.prompts.registry import LoadedPrompt, load_prompt
from penstock.pipelines.pages.prompts.transcription import Transcription

PAGE = PageIdentifier(state="Alabama", school="Howard College", year=1849, page=14, name="0014")
CONTEXT = PageContext(
    text="and the Latin of Sallust.",
    courses=(ContextCourse(name="Sallust", department="School of Latin", level="Freshman Class", term="First Term"),),
)
SCHEMA = {"$schema": "x", "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
EMPTY_PAGE = {"page_kind": "blank", "printed_page": None, "headings": [], "text_blocks": [], "courses": []}
EMPTY_PAGE |= {"continues": None}


def put(folder: Path, template: str, name: str = "mine", version: str = "1", schema: object = SCHEMA) -> Path:
    (folder / name).mkdir(exist_ok=True)
    (folder / name / f"{version}.jinja").write_text(template)
    if schema is not None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        (folder / name / f"{version}.schema.json").write_text(text)
    return folder


def load(folder: Path | None, name: str = "mine", version: str = "1") -> LoadedPrompt:
    return load_prompt(Prompt(registry_dir=folder, name=name, version=version))


def refused(folder: Path | None, name: str = "mine", version: str = "1") -> str:
    with pytest.raises(InvalidConfiguration) as caught:
        load(folder, name, version)
    return str(caught.value)


@pytest.mark.parametrize("name", ["course_catalogue", "transcription"])
def test_what_ships_tells_the_page_and_the_context_if_there_is_one(name: str) -> None:
    prompt = load(None, name)
    alone = prompt.render(PAGE, None, skipped=None)
    assert "Howard College, Alabama, 1849" in alone
    assert "end_of_page_before" not in alone
    assert "not known" not in alone
    assert CONTEXT.text in prompt.render(PAGE, CONTEXT, skipped=None)
    skipped = prompt.render(PAGE, None, skipped="page 13 is dead")
    assert "The page before is not known (page 13 is dead)" in skipped
    assert "{" not in skipped, "nothing of the template is left"


def test_the_catalogue_prompt_says_what_the_last_courses_stood_under() -> None:
    told = load(None, "course_catalogue").render(PAGE, CONTEXT, skipped=None)
    assert "- Sallust (department: School of Latin; level: Freshman Class; term: First Term)" in told
    for field in (*CataloguePage.model_fields, "department", "level", "term", "textbooks", "hours", "number"):
        assert f"\n- {field}: " in told, f"{field} is explained"


def test_answers_are_held_against_the_schema() -> None:
    prompt = load(None, "course_catalogue")
    assert prompt.validate(CataloguePage.model_validate(EMPTY_PAGE).model_dump()) is None
    assert prompt.validate({**EMPTY_PAGE, "page_kind": "novel"}) is not None
    assert prompt.validate({**EMPTY_PAGE, "courses": [{}]}) == "courses.0: 'name' is missing"
    assert prompt.validate([]) == "must be object"
    assert load(None, "transcription").validate(Transcription(text="").model_dump()) is None


def test_an_output_file_is_the_answer_and_what_we_wrote_about_it() -> None:
    prompt = load(None, "transcription")
    data, provenance = split_provenance({"text": "x", "_penstock": {"model": "m"}})
    assert (data, provenance, prompt.validate(data)) == ({"text": "x"}, {"model": "m"}, None)
    assert prompt.validate({"text": "x", "_penstock": {}}) is not None
    assert split_provenance({"text": "x", "_penstock": 3}) == ({"text": "x"}, None)
    assert split_provenance([1]) == ([1], None)


def test_a_users_prompt_has_its_own_schema_and_comes_before_what_ships(tmp_path: Path) -> None:
    put(tmp_path, "{{ page.id_string }} {{ page.name }} {{ skipped or 'whole' }}")
    prompt = load(tmp_path)
    assert prompt.render(PAGE, None) == "Alabama:Howard College:1849:0014 0014 whole"
    assert (prompt.validate({"text": "x"}), prompt.validate({})) == (None, "'text' is missing")
    shipped = load(tmp_path, "transcription")
    put(tmp_path, "Read {{ page.page }}.", name="transcription", schema=None)
    put(tmp_path, "Read page {{ page.page }}.", name="transcription", version="2.b", schema=None)
    for version in ("1", "2.b"):
        own = load(tmp_path, "transcription", version)
        assert own.json_schema == shipped.json_schema == Transcription.model_json_schema()
        assert own.sha256 != shipped.sha256


def test_the_fingerprint_is_of_template_and_schema(tmp_path: Path) -> None:
    def fingerprint(template: str, schema: object) -> str:
        return load(put(tmp_path, template, schema=schema)).sha256

    wider = {**SCHEMA, "properties": {"text": {"type": "string"}, "note": {"type": "string"}}}
    first = fingerprint("a", SCHEMA)
    assert first == fingerprint("a", SCHEMA)
    assert len({first, fingerprint("b", SCHEMA), fingerprint("a", wider)}) == 3


def test_what_is_not_there_is_told_with_what_is(tmp_path: Path) -> None:
    assert refused(None, "catalogue", "3") == (
        "there is no prompt 'catalogue' version '3'; there are: course_catalogue 1, transcription 1"
    )
    put(tmp_path, "x")
    assert refused(tmp_path, "mine", "2") == (
        f"there is no prompt 'mine' version '2' in {tmp_path} or among those that ship with Penstock; "
        "there are: course_catalogue 1, mine 1, transcription 1"
    )
    assert "there is no folder" in refused(tmp_path / "none")


@pytest.mark.parametrize("name", ["../mine", "a/b", "", ".", "..", "a b", "a\n", "x" * 100, "/etc"])
def test_no_name_or_version_leads_out_of_the_registry(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path, name).startswith("prompt.name: must be")
    assert refused(tmp_path, "mine", name).startswith("prompt.version: must be")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (None, "has no schema: put the JSON Schema of its answers in"),
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ([], "must be a JSON Schema, an object"),
        ({"type": "array", "items": {}}, "must be an object with properties"),
        ({"type": "object", "properties": {"_penstock": {}}}, "the field _penstock is kept"),
        ({"type": "object", "properties": {"a": {"type": "object", "additionalProperties": True}}}, "any name"),
        ({"type": "object", "properties": {"a": {"const": 1}}}, "properties.a.const: Gemini knows no such keyword"),
        ({"type": "object", "properties": {"a": {"properties": []}}}, "Gemini"),
        ({"type": "OBJECT", "properties": {"a": {"enum": 5}}}, "cannot be told to Gemini: properties.a.enum"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, "a $ref must read #/$defs/NAME"),
        (
            {**SCHEMA, "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}},
            "itself",
        ),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_when_it_is_loaded(tmp_path: Path, schema: object, reason: str) -> None:
    assert reason in refused(put(tmp_path, "x", schema=schema))


def test_a_schema_that_would_grow_without_end_is_refused(tmp_path: Path) -> None:
    parts: dict[str, Any] = {
        f"d{n}": {"type": "array", "items": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 8}} for n in range(20)
    }
    parts["d20"] = {"type": "string"}
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": parts}
    assert "is too large" in refused(put(tmp_path, "x", schema=schema))


def test_a_schema_without_its_prompt_is_a_mistake(tmp_path: Path) -> None:
    put(tmp_path, "x", name="transcription")
    (tmp_path / "transcription" / "1.jinja").unlink()
    assert "is a schema without a prompt" in refused(tmp_path, "transcription")


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("a\n{{ page.stat }}", "has no attribute 'stat' (it is given page, context, skipped)"),
        ("{{ pages }}", "'pages' is undefined"),
        ("{{ context.text }}", "None"),
        ("a\n{% if %}", ":2: "),
        ("   ", "is empty"),
        ("{% include 'x' %}", "other templates cannot be used"),
        ("{% import '/etc/passwd' as x %}", "other templates cannot be used"),
        ("{% macro f() %}{% endmacro %}", "macros, calls and blocks cannot be used"),
        ("{{ range(10) }}", "nothing can be called"),
        ("{{ page.state.center(9999999999) }}", "nothing can be called"),
        ("{{ page.__class__ }}", "__class__"),
        ("{{ 'x' * 9999999999 }}", "cannot be used"),
        ("{{ '%9999999999d' % 1 }}", "cannot be used"),
        ("{{ 'x' | center(9999999999) }}", "No filter named 'center'"),
        ("{% set a %}x{% endset %}", "a block of text cannot be kept"),
        ("{% for a in [1] recursive %}{% endfor %}", "cannot be recursive"),
        ("(" * 10 + "{{" + "(" * 5000 + "1" + ")" * 5000 + "}}", "mine"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused_when_it_is_loaded(
    tmp_path: Path, template: str, reason: str
) -> None:
    assert reason in refused(put(tmp_path, template))


DOUBLED = ["{% set a = 'xxxxxxxxxx' %}", *["{% set a = a ~ a %}"] * 60]
TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 0]"


@pytest.mark.parametrize(
    "template",
    [
        "".join(DOUBLED),
        "".join(DOUBLED).replace("~", "+"),
        "".join(DOUBLED).replace("a ~ a", "[a, a]") + "x",
        "".join(DOUBLED[:14]) + "{{ a }}" * 5,
        "".join(DOUBLED[:14]) + "{{ a | replace('x', a) }}",
        "".join(DOUBLED[:14]) + "{{ a | list | join(a) }}",
        "".join(DOUBLED[:14]) + "{{ [a, a, a] }}",
        "".join(DOUBLED[:14]) + "{{ [a, a, a] | string | length }}",
        "".join(f"{{% for a{n} in {TEN} %}}" for n in range(12)) + "{% endfor %}" * 12 + "x",
        "".join(DOUBLED[:14]) + f"{{% for b in {TEN} %}}" * 3 + "{% if a | count %}{% endif %}" + "{% endfor %}" * 3,
    ],
)  # fmt: skip
def test_a_template_cannot_take_our_time_or_memory(tmp_path: Path, template: str) -> None:
    message = refused(put(tmp_path, template))
    assert "longer than 200000 characters" in message or "more than" in message


def test_a_name_that_is_not_utf_8_does_not_break_the_request(tmp_path: Path) -> None:
    page = PageIdentifier(state="Alabama", school=b"Coll\xe8ge".decode(errors="surrogateescape"), year=1849, page=1)
    assert load(put(tmp_path, "{{ page.school }}")).render(page, None) == "Coll?ge"


def test_the_context_is_the_end_of_the_text_and_the_last_courses() -> None:
    courses = [
        {"name": f"Course {n}", "department": "D", "level": None, "term": "T", "hours": "3", "textbooks": []}
        for n in range(5)
    ]
    blocks = [{"kind": "running_head", "text": "CATALOGUE"}, {"kind": "paragraph", "text": "First."}]
    blocks += [{"kind": "list", "text": "Last."}, {"kind": "page_number", "text": "14"}]
    context = context_of({**EMPTY_PAGE, "text_blocks": blocks, "courses": courses, "_penstock": {}})
    assert context is not None
    assert context.text == "First.\nLast."
    assert [course.name for course in context.courses] == ["Course 2", "Course 3", "Course 4"]
    assert context.courses[0] == ContextCourse(name="Course 2", department="D", term="T")


def test_the_text_is_cut_between_words_and_never_longer_than_500() -> None:
    for words in ("abcdefg " * 200, "\n".join(["word"] * 300), "字" * 900, "x" * 80 + " y" * 300):
        context = context_of({"text": words})
        assert context is not None
        assert 400 < len(context.text) <= 500
        assert words.strip().endswith(context.text)
        if "字" not in words:
            assert context.text.split()[0] in words.split(), "no half of a word"
    assert context_of({"text": "a" * 500}) == PageContext(text="a" * 500)


@pytest.mark.parametrize(
    ("output", "context"),
    [
        ({"text": "plain"}, PageContext(text="plain")),
        ({"text_blocks": ["a", "b"]}, PageContext(text="a\nb")),
        ({"courses": ["Greek", 7, None]}, PageContext(courses=(ContextCourse(name="Greek"), ContextCourse(name="7")))),
        ({"courses": [{"name": "G", "level": {}, "term": True}]}, PageContext(courses=(ContextCourse(name="G"),))),
        ({"text": "half \ud800"}, PageContext(text="half ?")),
        ({"text_blocks": [{"kind": ["x"], "text": "a"}, {"text": 3}, 4, None]}, PageContext(text="a")),
        ({"text": " \n", "courses": [{}]}, None),
        ({"text": None, "text_blocks": {}, "courses": "Greek"}, None),
        (EMPTY_PAGE, None),
        ({}, None), ([], None), (None, None), ("text", None), (3.5, None),
    ],
)  # fmt: skip
def test_strange_outputs_give_what_they_can(output: Any, context: PageContext | None) -> None:
    assert context_of(output) == context
