"""Embedders: word vectors that are exact and quick, and what an embedder is known to be before anything is asked."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from penstock.config import Settings, load
from penstock.engine.errors import InvalidConfiguration, InvalidRequest, Permanent
from penstock.pipelines.ingestion.embedders import EMBEDDERS, make_embedder
from penstock.pipelines.ingestion.embedders.gemini import GeminiBatchEmbedder, GeminiEmbedder
from penstock.pipelines.ingestion.embedders.local import LocalEmbedder
from penstock.pipelines.ingestion.embedders.openai import OpenAIEmbedder
from penstock.pipelines.ingestion.model import EmbedderSpec
from penstock.remote.gemini.batch_input import BatchRequest
from penstock.wordvectors import DIMENSIONS, LONGEST, NAME, WordVectors, of_unit_length, word_vectors

TEXTS = [
    "A penstock is the gated pipe that feeds a turbine.",
    "def penstock(gate: int) -> None:\n    return  gate  # two blanks\n",
    "| a | table |\n|---|-------|\n| 1 |   2   |\n\n\n",
    "Straße, œuvre, ąžuolas, 日本語のテキスト, עברית, 👩‍🚀 and ▁ itself",
    " leading, trailing  ",
    "\n",
    "<s>marked</s> up <unk> <br/>",
]


def ids_of(text: str) -> list[int]:
    """As wordllama's own tokenizer has it, the text in one piece."""
    written = text.encode(errors="replace").decode()
    return list(word_vectors()._tokenizer.encode(written, add_special_tokens=False).ids)


def test_the_vectors_are_wordllamas_own() -> None:
    import wordllama

    theirs = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    ours = LocalEmbedder().vectors(TEXTS)
    assert np.allclose(ours, theirs.embed(TEXTS, norm=True), atol=1e-6)
    assert ours.dtype == np.float32 and ours.shape == (len(TEXTS), DIMENSIONS)


PIECES = [*" \n\t\r▁ab.,_1²é日👩\u200d\u3000<>/\x00\ud800", "  ", " \n", "<s>", "</s>", "<unk>", "the", "ing"]


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=60).map("".join))
@settings(max_examples=300, deadline=None)
def test_a_text_in_words_has_the_tokens_that_it_has_in_one_piece(text: str) -> None:
    assert word_vectors().tokens(text).tolist() == ids_of(text)


@pytest.mark.parametrize("text", [*TEXTS, "日" * 25_000, "word " * 20_000, Path(__file__).read_text()])
def test_so_do_real_and_long_texts(text: str) -> None:
    assert word_vectors().tokens(text).tolist() == ids_of(text)


def test_a_vector_depends_on_its_text_alone() -> None:
    embedder = LocalEmbedder()
    together = embedder.vectors(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        assert (embedder.vectors([text])[0] == vector).all()
    assert (embedder.vectors(TEXTS[::-1])[::-1] == together).all()


def test_more_words_than_are_remembered_change_nothing() -> None:
    before = LocalEmbedder().vectors(TEXTS)
    vectors = word_vectors()
    vectors.totals([" ".join(f"{start + number:x}" for number in range(33_000)) for start in (0, 10**9, 10**10)])
    assert len(vectors._known) <= 65_536
    assert (LocalEmbedder().vectors(TEXTS) == before).all()


def test_what_has_no_words_has_zeros_and_the_rest_unit_length() -> None:
    vectors = LocalEmbedder(64).vectors(["", "a", "b" * 5000, "\x00"])
    assert vectors.shape == (4, 64)
    assert not vectors[0].any()
    assert np.allclose(np.linalg.norm(vectors[1:], axis=1), 1.0, atol=1e-6)
    assert LocalEmbedder().vectors([]).shape == (0, DIMENSIONS)


def test_fewer_dimensions_are_the_first_ones_at_unit_length() -> None:
    whole, short = LocalEmbedder().vectors(TEXTS), LocalEmbedder(32).vectors(TEXTS)
    cut = whole[:, :32] / np.linalg.norm(whole[:, :32], axis=1, keepdims=True)
    assert np.allclose(short, cut, atol=1e-6)


def test_a_text_longer_than_any_book_is_refused() -> None:
    with pytest.raises(Permanent, match=r"text 2 of 2 has 1000001 characters; at most 1000000 are embedded"):
        LocalEmbedder().vectors(["a", "x" * (LONGEST + 1)])


def test_a_model_whose_tokens_reach_across_words_is_read_in_one_piece() -> None:
    vocabulary = {token: number for number, token in enumerate(["▁", "a", "b", "a▁", "a▁b"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[("a", "▁"), ("a▁", "b")]))
    table = np.eye(5, dtype=np.float32)
    assert WordVectors(tokenizer, table).totals(["a▁b", "▁a"]).tolist() == [[0, 0, 0, 0, 1], [1, 1, 0, 0, 0]]


def test_the_model_is_loaded_once_for_many_threads() -> None:
    found: list[WordVectors] = []
    threads = [threading.Thread(target=lambda: found.append(word_vectors())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(map(id, found))) == 1


def test_zeros_stay_zeros() -> None:
    assert of_unit_length(np.array([[0.0, 0.0], [3.0, 4.0]]), 2).tolist() == [[0.0, 0.0], [0.6, 0.8]]


def configured(**variables: str) -> Settings:
    names = {f"PENSTOCK_{name.upper()}" if name.islower() else name: value for name, value in variables.items()}
    return load(cwd=Path("/nowhere"), environ=names)


OWN = configured()
GOOGLE = configured(GEMINI_API_KEY="k")
ELSEWHERE = configured(GEMINI_API_KEY="k", gemini__base_url="http://127.0.0.1:1")
VERTEX = configured(gemini__vertex_project="p", gemini__vertex_location="l")
OPENAI = configured(OPENAI_API_KEY="k")


@pytest.mark.parametrize(
    ("spec", "where", "model", "dimension"),
    [
        ({}, OWN, NAME, 256),
        ({"dimension": 1}, OWN, NAME, 1),
        ({"model": NAME, "dimension": 256}, OWN, NAME, 256),
        ({"name": "gemini"}, OWN, "gemini-embedding-001@own", 256),
        ({"name": "gemini", "model": "gemini-embedding-001@own"}, OWN, "gemini-embedding-001@own", 256),
        ({"name": "gemini", "model": "models/gemini-embedding-2"}, OWN, "gemini-embedding-2@own", 256),
        ({"name": "gemini", "batch": True, "dimension": 8}, OWN, "gemini-embedding-001@own", 8),
        ({"name": "gemini"}, GOOGLE, "gemini-embedding-001", 768),
        ({"name": "gemini", "dimension": 3072}, GOOGLE, "gemini-embedding-001", 3072),
        ({"name": "gemini"}, ELSEWHERE, "gemini-embedding-001", 256),
        ({"name": "gemini"}, VERTEX, "gemini-embedding-001", 768),
        ({"name": "openai"}, OPENAI, "text-embedding-3-small", 1536),
        ({"name": "openai", "dimension": 256}, OPENAI, "text-embedding-3-small", 256),
        ({"name": "openai", "model": "nomic-embed-text:latest"}, OPENAI, "nomic-embed-text:latest", 768),
        ({"name": "openai", "model": "BAAI/bge-m3"}, OPENAI, "BAAI/bge-m3", 1024),
        ({"name": "openai", "model": "mine", "dimension": 12}, OPENAI, "mine", 12),
    ],
)
def test_model_and_dimension_are_known_before_anything_is_asked(
    spec: dict[str, Any], where: Settings, model: str, dimension: int
) -> None:
    embedder = make_embedder(EmbedderSpec(**spec), where)
    assert (embedder.name, embedder.model, embedder.dimension) == (spec.get("name", "local"), model, dimension)
    assert embedder.at_once >= 1
    pinned = EmbedderSpec(name=embedder.name, model=embedder.model, dimension=embedder.dimension)
    again = make_embedder(pinned, where)
    assert (again.model, again.dimension) == (model, dimension), "a knowledge base is asked as it was filled"


@pytest.mark.parametrize(
    ("spec", "where", "says"),
    [
        ({"name": "magic"}, OWN, r"there is no embedder 'magic'; there are: gemini, local, openai"),
        ({"model": "ada"}, OWN, f"has one model, {NAME}, not 'ada'"),
        ({"dimension": 257}, OWN, "1 to 256 dimensions, not 257"),
        ({"batch": True}, OWN, "leave `batch` out"),
        ({"name": "gemini", "dimension": 768}, OWN, "own Gemini gives vectors of at most 256 dimensions, not 768"),
        ({"name": "gemini", "dimension": 4000}, GOOGLE, "at most 3072 dimensions, not 4000"),
        ({"name": "gemini", "model": "gemini-embedding-001@own"}, GOOGLE, r"not Google's.*rebuild"),
        ({"name": "gemini", "batch": True}, VERTEX, "not Vertex AI"),
        ({"name": "openai", "model": "mine"}, OPENAI, r"vectors of 'mine' .* say the embedder's `dimension`"),
        ({"name": "openai", "dimension": 2000}, OPENAI, "at most 1536 dimensions, not 2000"),
        ({"name": "openai", "batch": True}, OPENAI, "only Gemini's embeddings come in batches"),
    ],
)
def test_what_an_embedder_cannot_do_is_refused_at_once(spec: dict[str, Any], where: Settings, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        make_embedder(EmbedderSpec(**spec), where)


def test_packages_bring_embedders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_embeds.py").write_text(
        "def mine(spec, settings):\n    return (spec.model, settings.openai.at_once)\n"
    )
    info = tmp_path / "mine_embeds-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine-embeds\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[penstock.embedders]\nmine = mine_embeds:mine\nbad = mine_embeds:none\n")
    monkeypatch.syspath_prepend(tmp_path)
    made: Any = make_embedder(EmbedderSpec(name="mine", model="m"), OWN)
    assert made == ("m", 64)
    with pytest.raises(InvalidConfiguration, match="cannot be loaded"):
        make_embedder(EmbedderSpec(name="bad"), OWN)


def test_making_one_imports_nothing_large(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from penstock.config import load\n"
        "from penstock.pipelines.ingestion.embedders import EMBEDDERS, make_embedder\n"
        "from penstock.pipelines.ingestion.model import EmbedderSpec\n"
        "for name in EMBEDDERS: make_embedder(EmbedderSpec(name=name), load(environ={}))\n"
        "print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert not {"google.genai", "wordllama", "tokenizers", "httpx2"} & set(ran.stdout.split())


def test_prices() -> None:
    def price(spec: EmbedderSpec, where: Settings = GOOGLE) -> int | None:
        return make_embedder(spec, where).price(1_000_000)

    assert price(EmbedderSpec()) == 0
    assert price(EmbedderSpec(name="gemini")) == 150_000
    assert price(EmbedderSpec(name="gemini", batch=True)) == 75_000
    assert price(EmbedderSpec(name="gemini"), OWN) == 150_000, "as its calls are counted"
    assert price(EmbedderSpec(name="openai")) == 20_000
    assert price(EmbedderSpec(name="openai", model="mine", dimension=3)) is None
    assert make_embedder(EmbedderSpec(name="gemini"), GOOGLE).price(1) == 1, "never rounded down"


def test_own_prices_count(tmp_path: Path) -> None:
    own = tmp_path / "prices.json"
    own.write_text('{"prices": [{"model": "mine", "tier": "standard", "input": 0, "output": 0}]}')
    where = configured(gemini__prices=str(own))
    assert make_embedder(EmbedderSpec(name="openai", model="mine", dimension=3), where).price(10**6) == 0


def of(kind: type[Any], **spec: Any) -> Any:
    embedder = make_embedder(EmbedderSpec(**spec), GOOGLE)
    assert type(embedder) is kind
    return embedder


def test_vectors_come_at_unit_length_and_of_the_promised_dimension() -> None:
    embedder = of(GeminiEmbedder, name="gemini", dimension=2)
    assert embedder.units([[3.0, 4.0], [0.0, 0.0]]).tolist() == pytest.approx(np.array([[0.6, 0.8], [0, 0]]))
    with pytest.raises(InvalidConfiguration, match=r"gives vectors of 3 dimensions, not 2: say `dimension: 3`"):
        embedder.units([[1.0, 2.0, 3.0]])
    with pytest.raises(Permanent, match="no number"):
        embedder.units([[1.0, float("nan")]])


def test_vectors_are_cut_where_the_server_is_not_asked_to() -> None:
    cut = of(OpenAIEmbedder, name="openai", model="mine", dimension=2)
    assert cut.units([[3.0, 4.0, 12.0]]).tolist() == [pytest.approx([0.6, 0.8])]
    with pytest.raises(InvalidConfiguration, match="vectors of 1 dimensions, not 2"):
        cut.units([[3.0]])
    asked = of(OpenAIEmbedder, name="openai", dimension=2)
    with pytest.raises(InvalidConfiguration):
        asked.units([[3.0, 4.0, 12.0]])
    assert asked._request(["a"]).dimensions == 2
    assert of(OpenAIEmbedder, name="openai")._request(["a"]).dimensions is None, "its own length need not be asked for"


def test_a_batch_is_asked_for_keys_and_texts() -> None:
    embedder = of(GeminiBatchEmbedder, name="gemini", batch=True)
    assert embedder.deferred and embedder.batch_tokens == 500_000 and embedder.batch_rows == 10_000
    request: BatchRequest = embedder.request([("h1", "one"), ("h2", "two")])
    assert (request.kind, request.model) == ("embed", "gemini-embedding-001")
    assert [row.key for row in request.requests or ()] == ["h1", "h2"]
    assert (request.requests or ())[0].request == {
        "content": {"parts": [{"text": "one"}]},
        "taskType": "RETRIEVAL_DOCUMENT",
        "outputDimensionality": 768,
    }
    assert embedder.request(Path("rows.jsonl")).file == Path("rows.jsonl")
    line = embedder.line("h1", "one\u2028two")
    assert line.startswith(b'{"key":"h1","request":{"content":') and line.count(b"\n") == 1
    assert embedder.tokens_of("x" * 400) > 100, "names count, too"


def test_gemini_is_told_what_a_text_is_for() -> None:
    request = of(GeminiEmbedder, name="gemini")._request(["one"])
    assert (request.task, request.dimensions, request.texts) == ("RETRIEVAL_DOCUMENT", 768, ("one",))
    assert of(GeminiEmbedder, name="gemini", model="gemini-embedding-2")._request(["one"]).task is None


def test_a_model_that_takes_no_task_is_told_in_the_text() -> None:
    embedder = of(GeminiBatchEmbedder, name="gemini", model="gemini-embedding-2", batch=True)
    row = (embedder.request([("k", "one")]).requests or ())[0].request
    assert row["content"] == {"parts": [{"text": "title: none | text: one"}]} and "taskType" not in row


@pytest.mark.parametrize("name", EMBEDDERS)
def test_an_embedder_says_how_many_it_takes(name: str) -> None:
    assert 1 <= make_embedder(EmbedderSpec(name=name), GOOGLE).at_once <= 500


def test_settings_of_openai_come_from_its_own_variables(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=from-file\n")
    environ = {"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1/", "PENSTOCK_OPENAI__TIMEOUT": "2m"}
    told = load(cwd=tmp_path, environ=environ).openai
    assert told.api_key is not None and told.api_key.get_secret_value() == "from-file"
    assert (told.base_url, told.timeout, told.on_loopback) == ("http://127.0.0.1:11434/v1", 120.0, True)
    assert (
        load(cwd=tmp_path, environ={"PENSTOCK_OPENAI__BASE_URL": "http://a", **environ}).openai.base_url == "http://a"
    )
    assert "from-file" not in repr(told)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("PENSTOCK_OPENAI__BASE_URL", "ftp://x", r"openai\.base_url: must be a URL like"),
        ("PENSTOCK_OPENAI__BASE_URL", "https://me:hush@x/v1", r"a key goes into openai\.api_key"),
        ("OPENAI_API_KEY", "hush hush", r"openai\.api_key: must be one word .*OPENAI_API_KEY"),
        ("PENSTOCK_OPENAI__AT_ONCE", "5000", r"openai\.at_once: must be less than or equal to 2048"),
    ],
)
def test_wrong_settings_of_openai_say_so_and_show_no_key(tmp_path: Path, name: str, value: str, says: str) -> None:
    with pytest.raises(InvalidConfiguration, match=says) as refused:
        load(cwd=tmp_path, environ={name: value})
    assert "hush" not in str(refused.value)
