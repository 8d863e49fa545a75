"""Subtitle files become cues, whatever people and programs have done to them, and cues become text with times."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.errors import Permanent
from penstock.pipelines.ingestion.sources import subtitles
from penstock.pipelines.ingestion.sources.subtitles import Cue, Kind, clean, decode, parse, readable

SHARED = Path(os.environ.get("PENSTOCK_DATA", Path(__file__).parents[3] / "shared" / "data")) / "transcripts_captions"

VTT = """\
WEBVTT - a talk
Kind: captions
Language: en-GB
Style:
::cue(c.a) { color: red }
##

NOTE
A commented cue:
00:00:00.000 --> 00:00:01.000
nobody says this

STYLE
::cue { color: green }

opening
00:01.500 --> 00:00:03.000 align:start position:0%
Water &amp; <b>steam</b> <00:02.000><c.x>flow</c>,
said the&nbsp;engineer.

00:00:03,000-->00:00:0x.000
lost

Just words, without a time.

00:00:04.000 --> 00:00:05.000

1:00:00.000 --> 01:00:01.5
- Two?
- Two.
"""


def shared(name: str) -> Path:
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"transcripts_captions/{name} is not here: set PENSTOCK_DATA to the folder that holds it")
    return folder


def said(text: str, kind: Kind = "vtt") -> list[tuple[float, float, str]]:
    return [(cue.start, cue.end, "\n".join(cue.lines)) for cue in parse(text, kind).cues]


def plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text))


def test_a_vtt_file_gives_its_cues_and_its_language_and_counts_what_it_lost() -> None:
    assert said(VTT) == [
        (1.5, 3.0, "Water & steam flow,\nsaid the engineer."),
        (3600.0, 3601.5, "- Two?\n- Two."),
    ]
    found = parse(VTT, "vtt")
    assert (found.language, found.skipped) == ("en-GB", 1)


def test_an_srt_file_may_lack_empty_lines_numbers_and_texts() -> None:
    text = (
        "1\n00:00:00,500 --> 00:00:01,000\n<font color='red'>One</font>{\\an8}\n"
        "2\n00:00:01,000 --> 00:00:02.000\nIf x <y and y> 2, go --> left\n\n\n"
        "3\n00:00:02,000 --> 00:00:03,000\n\n\n4\nno time here\n\n00:00:03,000 --> 00:00:04,000\n42\n"
    )
    assert said(text, "srt") == [(0.5, 1, "One"), (1, 2, "If x <y and y> 2, go --> left"), (3, 4, "42")]


def test_an_sbv_file_is_read_and_an_end_before_its_start_is_the_start() -> None:
    text = (
        "0:00:00.378,0:00:11.378\nOne[br]more\n \n0:00:13.f89,0:00:15.489\nlost\n\n"
        "0:00:17.484,0:00:16.543\nThree, four\n"
    )
    found = parse(text, "sbv")
    assert said(text, "sbv") == [(0.378, 11.378, "One\nmore"), (17.484, 17.484, "Three, four")]
    assert found.skipped == 1


def test_times_that_no_clock_shows_leave_the_cue_out() -> None:
    text = "00:00:61.000 --> 00:01:02.000\nA\n\n00:60:00.000 --> 01:01:00.000\nB\n\n--> 00:01.000\nC\n"
    found = parse(text, "vtt")
    assert (found.cues, found.skipped) == ((), 3)


@pytest.mark.parametrize("text", ["", "\n", "WEBVTT", "WEBVTT\n\nNOTE nothing", "1\n", "some text", "\x00\x00"])
@pytest.mark.parametrize("kind", ["vtt", "srt", "sbv"])
def test_a_file_without_cues_has_none(text: str, kind: Kind) -> None:
    found = parse(text, kind)
    assert (found.cues, found.skipped) == ((), 0)
    assert readable(found.cues) == ("", ())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encodings_and_line_ends_make_no_difference(encoding: str, end: str) -> None:
    data = "WEBVTT\n\n00:01.000 --> 00:02.000\nGrüße – „ja“\n".replace("\n", end).encode(encoding)
    assert said(decode(data)) == [(1, 2, "Grüße – „ja“")]


def test_what_no_database_takes_is_taken_out() -> None:
    assert clean("a\x00b \x1b[0m\u2028 \ud800c\u0085") == "ab [0m \ufffdc"
    huge = f"00:01.000 --> 00:02.000\n&#{'9' * 5000};a&#xD800;&#0;b&nosuch;"
    assert said(huge) == [(1, 2, "\ufffda\ufffd\ufffdb&nosuch;")]


def test_who_speaks_is_kept_and_begins_a_paragraph() -> None:
    text = (
        "00:00.000 --> 00:02.000\n<v.first.loud Esme &amp; Co>It is a\nblue tree!\n\n"
        "00:02.000 --> 00:04.000\n<v Esme &amp; Co>Really.</v> <i>laughs</i>\n\n"
        "00:04.000 --> 00:06.000\n<v Mary>No way!</v>\n<v Esme &amp; Co>Look.</v>\n\n"
        "00:06.000 --> 00:07.000\n<v>Who says this?\n"
    )
    told, marks = readable(parse(text, "vtt").cues)
    assert told == (
        "Esme & Co: It is a blue tree! Really. laughs\n\nMary: No way!\n\nEsme & Co: Look.\n\nWho says this?"
    )
    assert [(told[mark.offset :][:6], mark.position["start"]) for mark in marks] == [
        ("Esme &", 0), ("Really", 2), ("Mary: ", 4), ("Esme &", 4), ("Who sa", 6),
    ]  # fmt: skip


def test_rolling_captions_are_told_once_and_a_later_repetition_stays() -> None:
    text = """\
00:00:00.000 --> 00:00:02.000
@
we<00:00:00.500><c> take</c>

00:00:02.000 --> 00:00:02.010
we take
@

00:00:02.010 --> 00:00:04.000
we take
the<00:00:03.000><c> gate</c>
00:00:04.000 --> 00:00:04.010
the gate

00:00:04.010 --> 00:00:06.000
the gate
no

00:00:07.000 --> 00:00:08.000
no
""".replace("@", " ")
    told, marks = readable(parse(text, "vtt").cues)
    assert told == "we take the gate no no"
    assert [(mark.offset, mark.position["start"]) for mark in marks] == [(0, 0), (8, 2.01), (17, 4.01), (20, 7)]


def test_paragraphs_end_after_a_pause_with_a_sentence_or_when_they_are_too_long() -> None:
    sentence = Cue(0, 1, ("x" * 99 + ".",))
    spoken = [Cue(n, n + 1, sentence.lines if n % 2 else (f"word {n}",)) for n in range(20)]
    paragraphs = readable(spoken)[0].split("\n\n")
    assert all(subtitles.ENOUGH <= len(one) < subtitles.ENOUGH + 200 and one.endswith(".") for one in paragraphs[:-1])
    endless = readable(Cue(n, n + 1, (f"word {n}",)) for n in range(1000))[0].split("\n\n")
    assert len(endless) > 5 and max(map(len, endless)) < subtitles.LONGEST_PARAGRAPH + 20
    assert readable([Cue(9, 10, ("b",)), Cue(0, 6, ("a",)), Cue(1, 2, ("and",))])[0] == "a and\n\nb"


def test_every_mark_stands_where_its_words_begin() -> None:
    cues = [Cue(n * 2.0, n * 2.0 + 1, (f"cue{n} is",), "Ann" if n % 7 else None) for n in range(60)]
    told, marks = readable(cues)
    assert [told[mark.offset :].removeprefix("Ann: ").split()[0] for mark in marks] == [f"cue{n}" for n in range(60)]
    assert [mark.position["start"] for mark in marks] == [cue.start for cue in cues]


def test_more_cues_than_any_video_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subtitles, "MOST_CUES", 10)
    with pytest.raises(Permanent, match="more than 10 cues: split it"):
        parse("00:01.000 --> 00:02.000\nx\n\n" * 11, "vtt")


PIECES = st.sampled_from(
    ["WEBVTT", "\n", "\n\n", "NOTE ", "00:00:01.000", " --> ", "00:00:02,500", ",", "1", "<v ", "<v.x A>", "</v>", "<",
     ">", "<c>", "{\\", "}", "&amp;", "&#", "9" * 30, "\x00", "\ufeff", "\r", "text", "- ", "<br", "\ud800", "é"]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(pieces=st.lists(PIECES, max_size=60), kind=st.sampled_from(["vtt", "srt", "sbv"]))
def test_no_file_is_so_broken_that_it_crashes(pieces: list[str], kind: Kind) -> None:
    found = parse("".join(pieces), kind)
    told, marks = readable(found.cues)
    assert bool(told) == bool(found.cues) == bool(marks)
    assert [mark.offset for mark in marks] == sorted({mark.offset for mark in marks})
    assert not re.search("[\x00\ud800\r]", told)


@pytest.mark.parametrize("junk", ["<", "<v", "<v.", "<v ", "&#", "&#9", "{\\", "<br ", "0:", " ", "00:00 --> ", "a\n"])
@pytest.mark.parametrize("kind", ["vtt", "srt"])
def test_a_hostile_file_takes_time_in_proportion_to_its_length(junk: str, kind: Kind) -> None:
    """With a pattern that backtracks, or lines compared with lines, this would go on for hours."""
    body = "00:00:01.000 --> 00:00:02.000\n" + junk * (300_000 // len(junk)) + "\n\n"
    readable(parse(body + body + "x", kind).cues)


BAD = {
    "captions_with_bom.vtt": (4, 0), "comments.vtt": (3, 0), "cue_tags.vtt": (3, 0), "invalid_format.sbv": (0, 0),
    "invalid_format1.srt": (0, 0), "invalid_format2.srt": (0, 0), "invalid_timeframe.sbv": (4, 1),
    "invalid_timeframe.srt": (5, 0), "invalid_timeframe.vtt": (6, 1), "metadata_headers_multiline.vtt": (2, 0),
    "missing_caption_text.sbv": (4, 0), "missing_caption_text.srt": (4, 0), "missing_timeframe.srt": (4, 0),
    "missing_timeframe.vtt": (6, 0), "no_captions.vtt": (0, 0), "sample.sbv": (5, 0), "sample.srt": (5, 0),
    "sample.vtt": (16, 0), "using_identifiers.vtt": (6, 0), "youtube_dl.vtt": (4, 0),
}  # fmt: skip


def test_other_peoples_files_good_and_bad_give_what_can_be_read_in_them() -> None:
    folder = shared("subtitles")
    found = {path.name: parse(decode(path.read_bytes()), path.suffix[1:]) for path in sorted(folder.iterdir())}  # type: ignore[arg-type]
    assert {name: (len(one.cues), one.skipped) for name, one in found.items()} == BAD
    assert readable(found["youtube_dl.vtt"].cues)[0] == "yeah what this will happen is I'm telling"
    assert readable(found["cue_tags.vtt"].cues)[0].endswith("Like a big-a pizza pie That's amore")


def test_the_examples_of_the_standard_say_what_they_should() -> None:
    folder = shared("webvtt_w3c")
    for path in sorted(folder.glob("*.vtt")):
        told = readable(parse(decode(path.read_bytes()), "vtt").cues)[0]
        without_names = re.sub(r"^(?:Roger Bingham|Neil deGrasse Tyson|Esme|Mary): ", "", told, flags=re.MULTILINE)
        expected = path.with_suffix(".expected.md").read_text(encoding="utf-8")
        assert plain(without_names) == plain(expected)
    assert told.startswith("Esme: It’s a blue apple tree!\n\nMary: No way!\n\nEsme: Hee! laughter")


def test_the_captions_of_a_film_are_paragraphs_with_times() -> None:
    folder = shared("elephantsdream")
    for path in sorted(folder.glob("captions.*.vtt")):
        found = parse(decode(path.read_bytes()), "vtt")
        told, marks = readable(found.cues)
        assert found.skipped == 0 and len(found.cues) > 70 and "\n\n" in told
        # One place for each cue, but for the few that say again what has just been said.
        assert len(found.cues) - len(marks) <= 2
        assert {word for cue in found.cues for line in cue.lines for word in line.split()} == set(told.split())
