"""Readers are found by the shape of the response schema, however it was sent; what breaks is passed over by name."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import httpx2
import jsonschema
import pytest
from google import genai
from google.genai import types
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model

from penstock.engine.errors import InvalidRequest
from penstock.gemini_local.backend import Answer, CannotAnswer, Part, Prompt, Turn
from penstock.gemini_local.readers import Documents, Line, Page, Reader, Registry, Word, all_readers, fingerprint, shape
from penstock.gemini_local.readers.language import language
from penstock.gemini_local.readers.schema import all_required, described, json_schema
from penstock.gemini_local.readers.transcription import text_field
from penstock.paper.ocr import parse_tsv
from penstock.paper.page import from_json, to_json


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    """One row."""

    text: str = Field(description="what it says", min_length=1)
    amount: float | None = None
    kind: Literal["a", "b"] = "a"
    only: Literal["x"] = "x"


class Invoice(BaseModel):
    """Everything that the SDK writes in two ways."""

    model_config = ConfigDict(title="An invoice")

    type: str
    items: list[Item]
    either: str | int
    either_or_none: str | int | None = None
    some: list[str] | None = Field(default=None, max_length=3)
    first: Item | None = None
    colour: Colour
    maybe_colour: Colour | None = None
    properties: bool = True
    nested: list[list[int]] = []


class Cell(BaseModel):
    text: str | None


class Whole(BaseModel):
    name: str
    cells: list[Cell]


class Node(BaseModel):
    name: str
    parent: Item | None = None


def sent(**config: Any) -> dict[str, Any]:
    """The response schema as the SDK puts it on the wire."""
    bodies: list[dict[str, Any]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(request.content))
        return httpx2.Response(200, json={"candidates": [{"content": {"parts": [{"text": "null"}]}}]})

    options = types.HttpOptions(client_args={"transport": httpx2.MockTransport(answer)})
    with genai.Client(api_key="none", http_options=options) as client:
        asked = types.GenerateContentConfig(response_mime_type="application/json", **config)
        client.models.generate_content(model="m", contents="hi", config=asked)
    told = bodies[0]["generationConfig"]
    found = told.get("responseSchema") or told["responseJsonSchema"]
    assert isinstance(found, dict)
    return found


def camel(value: Any) -> Any:
    """As other clients write the same request."""
    if isinstance(value, list):
        return [camel(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {{"any_of": "anyOf", "property_ordering": "propertyOrdering"}.get(k, k): camel(v) for k, v in value.items()}


@pytest.mark.parametrize("model", [Invoice, Item, Node, list[Item]])
def test_one_model_has_one_fingerprint_however_it_is_sent(model: Any) -> None:
    openapi, plain = sent(response_schema=model), TypeAdapter(model).json_schema()
    assert shape(openapi) == shape(sent(response_json_schema=plain)) == shape(plain) == shape(camel(openapi))
    assert fingerprint(openapi) == fingerprint(plain)


def test_a_fingerprint_is_about_the_answer_and_not_its_prose() -> None:
    class Other(BaseModel):
        """Another docstring and title."""

        text: str = Field(description="other words", min_length=7, title="Words")
        amount: float | None = Field(default=None, ge=0)
        kind: Literal["b", "a"] = "b"
        only: Literal["x"] = "x"

    class Renamed(BaseModel):
        words: str
        amount: float | None = None
        kind: Literal["a", "b"] = "a"
        only: Literal["x"] = "x"

    class Obliged(Item):
        amount: float | None = Field()

    assert fingerprint(Other.model_json_schema()) == fingerprint(Item.model_json_schema())
    assert len({fingerprint(model.model_json_schema()) for model in (Item, Renamed, Obliged)}) == 3


def test_a_schema_that_refers_to_itself_has_an_end() -> None:
    node = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}
    assert fingerprint({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    assert shape({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}) == {}
    assert shape({"$ref": "#/nowhere"}) == {}


def test_a_schema_of_a_few_lines_cannot_stand_for_billions() -> None:
    defs: dict[str, Any] = {"D0": {"type": "string"}}
    for number in range(1, 40):
        below = {"$ref": f"#/$defs/D{number - 1}"}
        defs[f"D{number}"] = {"type": "object", "properties": {"a": below, "b": below}}
    with pytest.raises(CannotAnswer, match="too large"):
        fingerprint({"$ref": "#/$defs/D39", "$defs": defs})
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(5000):
        deep = {"type": "array", "items": deep}
    for look in (fingerprint, json_schema):
        with pytest.raises(CannotAnswer, match="too deep"):
            look(deep)


@pytest.mark.parametrize(
    "strange",
    [
        {},
        {"type": None},
        {"properties": 3},
        {"anyOf": []},
        {"enum": [None]},
        {"items": []},
        {"properties": {"a": 1}, "required": 1},
    ],
)
def test_a_strange_schema_has_a_shape(strange: dict[str, Any]) -> None:
    assert isinstance(fingerprint(strange), str) and isinstance(described(strange), str)
    assert isinstance(all_required(json_schema(strange)), bool)


@pytest.mark.parametrize("form", ["openapi", "camel", "json"])
def test_any_form_becomes_json_schema_that_accepts_the_same_answers(form: str) -> None:
    openapi = sent(response_schema=Invoice)
    plain = json_schema({"openapi": openapi, "camel": camel(openapi), "json": Invoice.model_json_schema()}[form])
    checker = jsonschema.Draft202012Validator(plain)
    jsonschema.Draft202012Validator.check_schema(plain)
    good = Invoice(type="t", items=[Item(text="x")], either=3, colour=Colour.RED, first=None)
    checker.validate(good.model_dump(mode="json"))
    checker.validate(good.model_copy(update={"first": Item(text="y")}).model_dump(mode="json"))
    for broken in ({"items": "x"}, {"colour": "green"}, {"unheard": 1}, {"either": None}, {"some": list("abcd")}):
        assert not checker.is_valid({**good.model_dump(mode="json"), **broken}), f"{broken} was let through"


def test_properties_come_in_the_order_that_was_asked_for() -> None:
    asked = {"type": "OBJECT", "properties": {"b": {}, "a": {}, "c": {}}, "propertyOrdering": ["c", "b"]}
    assert list(json_schema(asked)["properties"]) == ["c", "b", "a"]


def test_strict_is_only_where_everything_is_required() -> None:
    assert all_required(json_schema(Whole.model_json_schema()))
    assert all_required(json_schema(sent(response_schema=Whole)))
    assert not all_required(json_schema(Invoice.model_json_schema()))


async def echo(prompt: Prompt, documents: Documents) -> Answer:
    return Answer("echo")


def ask(schema: dict[str, Any] | None = None, *, picture: bool = False) -> Prompt:
    parts = (Part(text="hello"), *((Part(mime="image/png", data=b"x"),) if picture else ()))
    return Prompt("m", (Turn("user", parts),), schema=schema)


def test_a_reader_is_found_by_its_schema() -> None:
    registry = Registry([Reader("items", echo, schemas=(Item.model_json_schema(),))])
    assert registry.find(ask(sent(response_schema=Item))).name == "items"
    with pytest.raises(CannotAnswer) as refused:
        registry.find(ask(sent(response_schema=Node)))
    assert refused.value.code == 12
    for word in ("{name, parent}", "penstock.readers", "openai:URL", "GEMINI_API_KEY", "items"):
        assert word in str(refused.value), f"the refusal does not say {word!r}: {refused.value}"


def test_the_reader_registered_last_is_asked_first() -> None:
    registry = all_readers()
    assert registry.find(ask(picture=True)).name == "transcription"
    registry.register(Reader("mine", echo, matches=lambda prompt: prompt.schema is None))
    assert registry.find(ask(picture=True)).name == "mine"
    registry.register(Reader("mine", echo, matches=lambda prompt: False))
    assert registry.find(ask(picture=True)).name == "transcription"


def test_text_alone_and_json_without_a_schema_are_refused_plainly() -> None:
    registry = all_readers()
    with pytest.raises(CannotAnswer, match="no language model"):
        registry.find(ask())
    prompt = Prompt("m", ask(picture=True).turns, config={"response_mime_type": "application/json"})
    with pytest.raises(CannotAnswer, match="no reader for this request"):
        registry.find(prompt)


def test_a_reader_that_fails_to_say_yes_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    def explode(prompt: Prompt) -> bool:
        raise RuntimeError("boom")

    registry = Registry([Reader("sound", echo, matches=lambda prompt: True), Reader("broken", echo, matches=explode)])
    assert registry.find(ask()).name == "sound"
    assert "'broken'" in caplog.text


def test_what_is_no_reader_is_refused() -> None:
    for wrong in (Reader("nothing", echo), "a string"):
        with pytest.raises(InvalidRequest, match="a reader needs"):
            Registry().register(wrong)  # type: ignore[arg-type]


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package with three entry points, two of them broken."""
    (tmp_path / "plugged.py").write_text(
        "from penstock.gemini_local.backend import Answer\n"
        "from penstock.gemini_local.readers import Reader\n"
        "async def read(prompt, documents): return Answer('plugged')\n"
        "def readers(): return [Reader('plugged', read, matches=lambda prompt: prompt.model == 'plug')]\n"
        "def explode(): raise ValueError('cannot be made')\n"
    )
    info = tmp_path / "plugged-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[penstock.readers]\nabsent = not_there:READERS\nbad = plugged:explode\ngood = plugged:readers\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("plugged", None)


@pytest.mark.usefixtures("plugins")
def test_a_broken_plugin_takes_no_other_down(caplog: pytest.LogCaptureFixture) -> None:
    registry = all_readers()
    assert [reader.name for reader in registry.readers] == ["plugged", "invoice", "course catalogue", "transcription"]
    assert set(registry.broken) == {"absent", "bad"} and "cannot be made" in registry.broken["bad"]
    assert "'absent'" in caplog.text and "'bad'" in caplog.text
    found = registry.find(Prompt("plug", ask().turns))
    assert asyncio.run(found.read(ask(), None)).text == "plugged"  # type: ignore[arg-type]
    with pytest.raises(CannotAnswer, match="broke: absent, bad"):
        registry.find(ask())


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"text": str}, "text"),
        ({"transcription": (str | None, None)}, "transcription"),
        ({"text": str, "language": (str | None, None)}, "text"),
        ({"text": str, "transcription": str}, None),
        ({"text": str, "summary": (str, "")}, None),
        ({"text": list[str]}, None),
        ({"text": Literal["yes", "no"]}, None),
        ({"language": str}, None),
    ],
)
def test_only_a_schema_for_a_transcription_and_nothing_else_is_one(
    fields: dict[str, Any], expected: str | None
) -> None:
    made: Any = {name: kind if isinstance(kind, tuple) else (kind, ...) for name, kind in fields.items()}
    model: type[BaseModel] = create_model("Asked", **made)
    assert text_field(model.model_json_schema()) == expected
    assert text_field(sent(response_schema=model)) == expected


def test_a_language_is_named_only_where_the_text_says_so() -> None:
    assert language("The cat of the house is in the garden and it was not for sale.") == "en"
    assert language("Der Hund und die Katze sind nicht auf dem Sofa, das ist eine Lüge.") == "de"
    assert language("12.50 EUR") == language("") == "und"


TSV = """level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext
1\t1\t0\t0\t0\t0\t0\t0\t200\t100\t-1\t
5\t1\t1\t1\t1\t1\t10\t10\t30\t12\t96.43\tOne
5\t1\t1\t1\t1\t2\t45\t10\t30\t12\t91\ttwo
5\t1\t1\t1\t2\t1\t10\t30\t30\t12\t90\tthree
5\t1\t1\t2\t1\t1\t10\t50\t30\t12\t90\t"four
5\t1\t2\t1\t1\t1\t110\t10\t30\t12\t95\t
5\t1\t2\t1\t1\t2\t110\t10\t30\t12\t80\tfive
"""


def test_a_table_of_words_becomes_a_page() -> None:
    page = parse_tsv(TSV, 200, 100)
    assert page.text == 'One two\nthree\n\n"four\n\nfive'
    assert page.lines[0].box == (10, 10, 75, 22) and page.lines[0].words[0].confidence == 96.4
    assert from_json(json.loads(json.dumps(to_json(page)))) == page
    assert parse_tsv("", 1, 1).text == "" and parse_tsv("", 1, 1).confidence == 0


def test_confidence_counts_long_words_more() -> None:
    words = (Word("abcdefghi", (0, 0, 1, 1), 100.0), Word("x", (0, 0, 1, 1), 0.0))
    assert Page(1, 1, (Line(words, 1, 1),), "ocr").confidence == 90.0
