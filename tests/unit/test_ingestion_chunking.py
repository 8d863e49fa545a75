"""Chunkers: nothing is lost, nothing is too large, the same document gives the same chunks; and cuts are where a reader
would make them."""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right
from itertools import pairwise
from operator import itemgetter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from penstock.engine.errors import InvalidConfiguration, InvalidRequest
from penstock.pipelines.ingestion.chunking import CHUNKERS, chunked
from penstock.pipelines.ingestion.chunking_markdown import MOST_TITLE, Outline
from penstock.pipelines.ingestion.model import Chunk, ChunkerSpec, Document, Format, Mark
from penstock.remote.gemini.tokens import text_tokens

SHARED = Path(os.environ.get("PENSTOCK_DATA", Path(__file__).parents[3] / "shared" / "data"))
SENTENCES = "The gate opens at dawn. Water falls for a long way. The wheel turns, and the lamps are lit. "


def cut(
    text: str, name: str = "markdown", size: int = 800, overlap: int = 0, *, form: Format = "markdown"
) -> list[Chunk]:
    return chunked(Document("a", "A", text, form), ChunkerSpec(name=name, size=size, overlap=overlap))


def paths(chunks: list[Chunk]) -> list[list[str]]:
    return [chunk.position.get("headings", []) for chunk in chunks]


def span(chunk: Chunk) -> tuple[int, int]:
    return chunk.position["start"], chunk.position["end"]


def assert_whole(text: str, chunks: list[Chunk], size: int) -> None:
    """Every character that is not blank is in a chunk, each chunk stands at its place, none is too large."""
    held = bytearray(len(text))
    for chunk in chunks:
        start, end = span(chunk)
        held[start:end] = b"\1" * (end - start)
        assert text_tokens(chunk.text) <= size
        assert chunk.text.strip() and len(chunk.text) == end - start
        if "\0" not in text and "\r" not in text and not re.search("[\ud800-\udfff\ufeff]", text):
            assert chunk.text == text[start:end]
    lost = [place for place, char in enumerate(text) if not (held[place] or char.isspace() or char in "\0\ufeff")]
    assert not lost, f"lost: {text[lost[0] : lost[0] + 40]!r} at {lost[0]}"


def assert_code_whole_or_told(text: str, chunks: list[Chunk]) -> None:
    blocks = Outline(text).blocks
    for chunk in chunks:
        first, last = span(chunk)
        for start, end in blocks[bisect_right(blocks, first, key=itemgetter(1)) :]:
            if start >= last:
                break
            assert (start >= first and end <= last) or chunk.position.get("split"), f"cut: {text[start:end]!r}"


# What holds for every text


FRAGMENTS = some.sampled_from([
    "# One\n", "## Two\n\n", "Title\n===\n", "\n\n", "\n", " ", "    ", " " * 70, "- item\n", "1. first\n", "```\n",
    "~~~~ x\n", "| a | b |\n|---|---|\n", "> quote\n", "> ```\n", "<pre>\n", "<!-- ", "---\n", SENTENCES, "word " * 9,
    "x" * 90, "漢字。" * 9, "かな" * 20, "👩‍👩‍👧‍👦" * 6, "🇩🇪" * 9, "e\u0301" * 30, "\u200d" * 40, "\u3000" * 20, "\0",
    "\ud83d", "\r\n", "\r", "\ufeff", "z. B. ", "…", "." * 30,
])  # fmt: skip
TEXTS = some.lists(FRAGMENTS | some.text(max_size=12), max_size=25).map("".join)


@settings(max_examples=80, deadline=None)
@given(
    TEXTS,
    some.sampled_from(sorted(CHUNKERS)),
    some.sampled_from([(16, 0), (16, 8), (40, 10), (800, 150)]),
    some.sampled_from(["markdown", "plain"]),
)
def test_no_text_is_lost_and_no_chunk_too_large(text: str, name: str, room: tuple[int, int], form: Format) -> None:
    size, overlap = room
    chunks = cut(text, name, size, overlap, form=form)
    assert_whole(text, chunks, size)
    assert cut(text, name, size, overlap, form=form) == chunks
    json.dumps([dict(chunk.position) for chunk in chunks])
    assert not any("\0" in chunk.text for chunk in chunks)
    "".join(chunk.text for chunk in chunks).encode()
    for before, after in pairwise(chunks):
        assert span(before)[0] < span(after)[0] and span(before)[1] < span(after)[1], "each has news"
        assert text_tokens(before.text[span(after)[0] - span(before)[0] :]) <= overlap
    # Also without the cleaning, which only `chunked` does.
    spec = ChunkerSpec(name=name, size=size, overlap=overlap)
    assert all(text_tokens(chunk.text) <= size for chunk in CHUNKERS[name](Document("a", "A", text, form), spec))


@pytest.mark.parametrize("name", sorted(CHUNKERS))
@pytest.mark.parametrize("text", ["", " ", "\n\n\t \r\n", "\0\0", "\ufeff"])
def test_a_document_without_a_word_has_no_chunks(name: str, text: str) -> None:
    assert cut(text, name) == []


@pytest.mark.parametrize("name", sorted(CHUNKERS))
@pytest.mark.parametrize(
    ("piece", "unit"),
    [
        ("x", 1),
        ("漢", 1),
        ("👍🏽", 2),
        ("👩‍👩‍👧‍👦", 7),
        ("🇩🇪", 2),
        ("e\u0301", 2),
        ("\u1100\u1161\u11a8", 3),
        ("क्षि", 4),
    ],
    ids=ascii,
)
def test_what_has_no_spaces_is_cut_between_visible_characters(name: str, piece: str, unit: int) -> None:
    text = piece * 1000
    assert len(piece) == unit
    chunks = cut(text, name, 50, 10)
    assert_whole(text, chunks, 50)
    assert len(chunks) > 3 and all(place % unit == 0 for chunk in chunks for place in span(chunk))


def test_what_no_database_keeps_is_replaced_and_places_stay() -> None:
    text = "\ufeffone\0two \ud83d three\r\n\r\nfour\rfive"
    (chunk,) = cut(text, form="plain")
    assert chunk.text == "one two \ufffd three \n \nfour\nfive"
    assert text[slice(*span(chunk))].startswith("one") and span(chunk) == (1, len(text))


# Headings


def test_a_chunk_has_the_path_of_its_headings() -> None:
    text = (
        f"# Guide\n\nIntro.\n\n## Install\n\n{SENTENCES * 4}\n\nUsing it\n--------\n\n{SENTENCES * 4}\n\n"
        f"### Deep ###\n\n{SENTENCES * 4}\n\n# Other\n\n{SENTENCES * 4}\n"
    )
    chunks = cut(text, size=100)
    assert paths(chunks) == [["Guide"], ["Guide", "Using it"], ["Guide", "Using it", "Deep"], ["Other"]]
    assert [chunk.text.split("\n")[0] for chunk in chunks] == ["# Guide", "Using it", "### Deep ###", "# Other"]
    assert_whole(text, chunks, 100)


def test_a_title_over_one_section_is_not_alone_and_does_not_hide_it() -> None:
    chunks = cut(f"# Guide\n\n## Install\n\n{SENTENCES * 40}", size=100)
    assert len(chunks) > 3 and chunks[0].text.startswith("# Guide\n\n## Install\n\nThe gate")
    assert paths(chunks) == [["Guide", "Install"]] * len(chunks)


def test_small_sections_are_joined_with_their_siblings_only() -> None:
    small = "".join(f"### Step {number}\n\n{SENTENCES}\n\n" for number in range(8))
    text = f"# Guide\n\n## First\n\n{small}## Second\n\n{small}# Other\n\n{SENTENCES}\n"
    chunks = cut(text, size=100)
    assert all(text_tokens(chunk.text) >= 25 for chunk in chunks)
    for chunk in chunks:
        assert len(re.findall("(?m)^#{1,2} ", chunk.text)) <= 2, "parts of different parents in one chunk"
    assert paths(chunks)[-1] == ["Other"] and ["Guide", "Second"] in paths(chunks)
    assert len(chunks) < 17, "no step is alone"


def test_a_text_that_fits_is_one_chunk_unless_it_is_several_things() -> None:
    assert len(cut(f"# A\n\n{SENTENCES}\n\n## B\n\n{SENTENCES}\n")) == 1
    assert paths(cut(f"# A\n\n{SENTENCES * 6}\n\n# B\n\n{SENTENCES * 6}\n")) == [["A"], ["B"]]
    assert len(cut("# A\n\nOne line.\n\n# B\n\nAnother.\n")) == 1, "nothing is as small as that without need"


@pytest.mark.parametrize(
    "text",
    [
        "```\n# no\n```\n", "~~~~\n# no\n~~~\n# no\n~~~~\n", "    # no\n", "- item\n\n      # no\n", "#no\n",
        "> # no\n",
        "####### no\n", "<!--\n# no\n-->\n", "<pre>\n# no\n\n# no\n</pre>\n", "<div>\n# no\n</div>\n", "a\n\n---\nb\n",
        "- a\n---\n", "> a\n---\n", "> a\nb\n---\n", "- ```\n  # no\n  ```\n", "1. a\n\n    ```\n    # no\n\n    ```\n",
        "---\ntitle: no\n---\n", "| a |\n|---|\n| b |\n", "\\# no\n", "\t# no\n",
        "x" * MOST_TITLE + "\n---\n",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_heading_is_none(text: str) -> None:
    assert [heading.title for heading in Outline(f"{text}\n# Yes\n").headings] == ["Yes"]


def test_code_that_nothing_closes_goes_to_the_end() -> None:
    text = "# Yes\n\n```\n# no\n\n# no\n"
    found = Outline(text)
    assert [heading.title for heading in found.headings] == ["Yes"] and found.blocks == [(7, len(text))]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("#\n", (1, "")), ("## a `b` # c ##  \n", (2, "a `b` # c")), ("   # a#\n", (1, "a#")), ("- a\n# a\n", (1, "a")),
        ("a\nb\n  ===\n", (1, "a b")), ("# " + "x" * 500, (1, "x" * 199 + "…")), ("```\n```\n# a\n", (1, "a")),
        ("<a name='x'></a>\n# a\n", (1, "a")), ("    ```\n# a\n", (1, "a")), ("\t~~~\n\n# a\n~~~\n", (1, "a")),
    ],
)  # fmt: skip
def test_headings_are_read_as_commonmark_says(text: str, told: tuple[int, str]) -> None:
    (heading,) = Outline(text).headings
    assert (heading.level, heading.title) == told


def test_text_that_is_not_markdown_has_no_headings() -> None:
    text = f"# Not a heading\n\n{SENTENCES * 30}"
    assert not any(paths(cut(text, size=100, form="plain")))
    assert cut(text, size=100, form="plain") == cut(text, "sentence", 100)


# Code, tables, lists


def code(lines: int) -> str:
    return "```python\n" + "".join(f"    value_{number} = compute({number})\n\n" for number in range(lines)) + "```"


def test_code_and_tables_stay_whole_where_they_fit() -> None:
    table = "| a | b |\n|---|---|\n" + "| one | two |\n" * 12
    text = "\n\n".join([SENTENCES * 3, code(8), SENTENCES * 3, table, SENTENCES * 3, code(9), SENTENCES])
    chunks = cut(text, size=100, overlap=40)
    assert len(chunks) > 4 and not any("split" in chunk.position for chunk in chunks)
    assert_code_whole_or_told(text, chunks)
    assert_whole(text, chunks, 100)


def test_code_that_does_not_fit_is_cut_between_lines_and_says_so() -> None:
    text = f"# A\n\nSee:\n\n{code(60)}\n\n{SENTENCES}"
    chunks = cut(text, size=100, overlap=20)
    assert_code_whole_or_told(text, chunks)
    *inside, after = chunks
    assert len(inside) > 4 and all(chunk.position.get("split") for chunk in inside)
    assert all(chunk.text.startswith("    value_") for chunk in inside[1:]), "indentation is kept, lines are whole"
    assert after.text == SENTENCES.strip() and "split" not in after.position
    assert chunks[0].text.startswith("# A\n\nSee:\n\n```python\n"), "what announces it is with it"


def test_long_lists_are_cut_between_items() -> None:
    text = "Steps:\n\n" + "".join(f"- Item {number}. It has two sentences,\n  and two lines.\n" for number in range(40))
    chunks = cut(text, size=100, overlap=20)
    assert len(chunks) > 4 and all(chunk.text.startswith("- Item") for chunk in chunks[1:])
    assert_whole(text, chunks, 100)


# Sentences and paragraphs


def test_paragraphs_are_where_a_text_is_cut_first() -> None:
    chunks = cut("\n\n".join([SENTENCES.strip() * 2] * 20), "sentence", 100)
    assert all(chunk.text.startswith("The gate") and chunk.text.endswith("lit.") for chunk in chunks)


@pytest.mark.parametrize(
    "sentence",
    [
        "We met Dr. Miller and Mr. Smith Jr. at No. 12 in the U.S. Senate, e.g. on Monday, and paid 3.14 dollars. ",
        "Das gilt z. B. für Nr. 7 und Abs. 3, d. h. am 3. Oktober, vgl. Abb. 4 und Kap. 9 von Prof. Dr. Meier. ",
        "« M. Dupont, dit-elle, habite rue St. Honoré, cf. Fig. 2, chez J. P. Martin ! » ",
        "彼は「はい。」と言った、そして三・一四キロ歩いた。",
    ],
    ids=["English", "German", "French", "Japanese"],
)
def test_sentences_are_whole_and_abbreviations_end_none(sentence: str) -> None:
    text = sentence * 40
    chunks = cut(text, "sentence", 90, 45)
    assert len(chunks) > 5
    for chunk in chunks:
        assert chunk.text.startswith(sentence[:6]) and chunk.text.endswith(sentence.strip()[-6:]), chunk.text
    assert all(span(after)[0] < span(before)[1] for before, after in pairwise(chunks)), "something is repeated"


def test_the_overlap_is_whole_sentences_up_to_its_size() -> None:
    text = " ".join(f"Sentence number {number} stands here." for number in range(100))
    chunks = cut(text, "sentence", 100, 30)
    for before, after in pairwise(chunks):
        again = text[span(after)[0] : span(before)[1]]
        assert again.startswith("Sentence") and again.endswith("here.") and 20 < text_tokens(again) <= 30


def test_pieces_of_one_section_are_of_about_one_size() -> None:
    text = SENTENCES * 40
    chunks = cut(text, "sentence", text_tokens(text) - 10, 100)
    assert len(chunks) == 2 and all(350 < text_tokens(chunk.text) < 700 for chunk in chunks)


def test_windows_are_full_and_cut_between_words() -> None:
    text = "word " * 2000
    chunks = cut(text, "fixed", 100, 20)
    assert all(98 <= text_tokens(chunk.text) <= 100 for chunk in chunks[:-1])
    assert all(set(chunk.text.split()) == {"word"} for chunk in chunks)
    assert all(span(before)[1] - span(after)[0] in range(70, 81) for before, after in pairwise(chunks))


# Marks


def marked(*marks: Mark, size: int = 50) -> list[Chunk]:
    text = "\n\n".join(SENTENCES.strip() for _ in range(8))
    return chunked(Document("a", "A", text, marks=marks), ChunkerSpec(size=size, overlap=0))


def test_a_chunk_knows_its_pages() -> None:
    length = len(SENTENCES) + 1
    chunks = marked(Mark(0, {"page": 3}), Mark(3 * length, {"page": 4}), Mark(4 * length, {"page": 5}))
    told = [(chunk.position["page"], chunk.position.get("pages")) for chunk in chunks]
    assert told == [(3, None), (3, [3, 4]), (5, None), (5, None)]


def test_a_chunk_knows_its_seconds_and_what_else_a_mark_says() -> None:
    length = len(SENTENCES) + 1
    chunks = marked(*(Mark(number * length, {"start": number * 2.5, "speaker": f"S{number}"}) for number in range(8)))
    assert chunks[1].position == {
        "start": 2 * length, "end": 4 * length - 2, "start_seconds": 5.0, "end_seconds": 7.5, "speaker": "S2",
    }  # fmt: skip


def test_marks_come_in_any_order_and_need_not_begin_at_the_beginning() -> None:
    first, *_, last = marked(Mark(500, {"page": 2}), Mark(20, {"page": 1}))
    assert first.position["page"] == 1 and last.position["page"] == 2
    assert "page" not in marked(Mark(100_000, {"page": 9}))[0].position


# Chunkers of other packages


def test_another_package_can_bring_a_chunker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "penstock_verses.py").write_text(
        "from penstock.pipelines.ingestion.model import Chunk\n"
        "def verses(document, spec):\n"
        "    return [Chunk(line + chr(0), {}) for line in document.text.split('/')]\n"
        "def wrong(document, spec):\n"
        "    return ['text']\n"
        "nothing = None\n"
    )
    info = tmp_path / "penstock_verses-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: penstock-verses\nVersion: 1\n")
    names = "".join(f"{name} = penstock_verses:{name}\n" for name in ("verses", "wrong", "nothing"))
    (info / "entry_points.txt").write_text(f"[penstock.chunkers]\n{names}")
    monkeypatch.syspath_prepend(tmp_path)
    assert [chunk.text for chunk in cut("one/ /two", "verses")] == ["one ", "two "]
    with pytest.raises(InvalidConfiguration, match="'wrong' made str; it must make Chunk"):
        cut("one", "wrong")
    with pytest.raises(InvalidConfiguration, match="'nothing' is None; a chunker is a function"):
        cut("one", "nothing")
    with pytest.raises(InvalidRequest, match="no chunker 'poem'; there are: fixed, markdown, nothing, sentence, v"):
        cut("one", "poem")


# Documentation as it is


def shared(name: str) -> Path:
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"{name} is not here: set PENSTOCK_DATA to the folder that holds it")
    return folder


def read(path: Path) -> str:
    return path.read_bytes().decode()


@pytest.mark.parametrize(("size", "overlap"), [(800, 150), (100, 20)])
def test_documentation_keeps_its_text_its_code_and_its_headings(size: int, overlap: int) -> None:
    folder = shared("markdown_docs")
    files = [*folder.rglob("*.md"), folder / "commonmark" / "spec.txt"]
    told = 0
    for file in files:
        text = read(file)
        chunks = cut(text, size=size, overlap=overlap)
        assert_whole(text, chunks, size)
        assert_code_whole_or_told(text, chunks)
        titles = {heading.title for heading in Outline(text).headings}
        for chunk in chunks:
            assert titles.issuperset(chunk.position.get("headings", []))
            first = re.match(r"#{1,6} +(.*)", chunk.text)
            if first and not chunk.position.get("split"):
                told += 1
                assert first[1].strip() in chunk.position["headings"]
    assert len(files) > 20 and told > 100 * (size < 800)


def test_long_texts_keep_every_answer_within_reach() -> None:
    """A span that is asked for is in one chunk, mostly: sentences are whole, and the overlap is for the rest."""
    folder = shared("rag_chunk_spans")
    texts = {file.name: read(file) for file in (folder / "corpora").glob("*.md")}
    asked = [json.loads(line) for line in (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    for name in sorted(CHUNKERS):
        spans = {file: [span(chunk) for chunk in cut(text, name, 800, 150)] for file, text in texts.items()}
        found = [
            any(start <= told["start_index"] and told["end_index"] <= end for start, end in spans[question["corpus"]])
            for question in asked
            if question["corpus"] in texts
            for told in question["references"]
        ]
        assert sum(found) / len(found) > 0.98, name
