"""Subtitle files as cues, and cues as text that can be read. WebVTT, SubRip (SRT) and YouTube's SBV go through one walk
over lines, which forgives what players forgive; a cue whose times cannot be read is left out and counted. Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from penstock.engine.errors import Permanent
from penstock.pipelines.ingestion.model import Mark

Kind = Literal["vtt", "srt", "sbv"]

MOST_CUES = 200_000
"""Of one file or video. A day of speech has some thirty thousand."""

PAUSE = 3.0
"""Seconds without a cue that end a paragraph."""

ENOUGH = 600
"""Characters after which a paragraph ends with the next sentence."""

LONGEST_PARAGRAPH = 1500
"""Captions made by a machine have no sentences."""

_CLOSE = 0.1
"""Seconds between two cues that may belong to one roll of captions."""

_LONGEST_TIMING = 1000

_ROLL = 8
"""Lines that rolling captions show at once, at most."""

# None of these can backtrack over more than a few characters: subtitles are other people's files.
_TIME = r"(?:([0-9]{1,4}):)?([0-9]{1,2}):([0-9]{1,2})(?:[.,]([0-9]{1,3}))?"
_ARROW = re.compile(rf"{_TIME}[ \t]{{0,20}}-->[ \t]{{0,20}}{_TIME}(?![^ \t])")
_COMMA = re.compile(rf"{_TIME}[ \t]{{0,20}},[ \t]{{0,20}}{_TIME}(?![^ \t])")
_BLOCK = re.compile(r"(?:NOTE|STYLE|REGION)(?![^ \t])")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?(?:\s([^<>]*))?>")
_BREAK = re.compile(r"<br[ ]?/?>|\[br\]", re.IGNORECASE)
_ANY_TAG = re.compile(r"<[^<>]*>")
_KNOWN_TAG = re.compile(
    r"</?(?:b|i|u|s|c|v|p|em|strong|font|span|lang|ruby|rt)(?=[\s./>])[^<>]*>|<[0-9:.]+>|\{\\[^{}]*\}", re.IGNORECASE
)
_HUGE_NUMBER = re.compile(r"&#[0-9]{8,};?")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
_HALVES = re.compile(r"[\ud800-\udfff]")
_SENTENCE_END = (".", "?", "!", "…", "。", "\uff1f", "\uff01", '."', '?"', '!"', ".”", "?”", "!”")
_DASHES = ("-", "–", "—")


@dataclass(slots=True, frozen=True)
class Cue:
    """What is shown from one second to another, and who says it where that is told."""

    start: float
    end: float
    lines: tuple[str, ...]
    speaker: str | None = None


@dataclass(slots=True, frozen=True)
class Subtitles:
    """What a file holds. `skipped`: cues left out because their times make no sense."""

    cues: tuple[Cue, ...]
    language: str | None = None
    skipped: int = 0


def decode(data: bytes) -> str:
    """By its byte order mark, else UTF-8, else what Windows wrote in the West before that."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def clean(text: str) -> str:
    """One line, without what no database takes: control characters and halves of characters."""
    return " ".join(_HALVES.sub("\ufffd", _CONTROL.sub("", text)).split())


def parse(text: str, kind: Kind) -> Subtitles:
    """`Permanent` where there are more cues than any video has. No cue at all is no error here."""
    walk = _Walk(kind)
    lines = text.removeprefix("\ufeff").replace("\x00", "").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, line in enumerate(lines):
        walk.line(line, first=number == 0)
    walk.close()
    return Subtitles(tuple(walk.cues), walk.language, walk.skipped)


def readable(cues: Iterable[Cue]) -> tuple[str, tuple[Mark, ...]]:
    """Paragraphs, and for each cue the place where its words begin. A paragraph ends where another speaks, after a
    pause, and with a sentence once it is long enough; lines that rolling captions show again are there once."""
    parts: list[str] = []
    marks: list[Mark] = []
    length = paragraph = 0
    until = 0.0
    last: Cue | None = None
    for cue in sorted(cues, key=lambda one: one.start):
        fresh = _fresh(last, cue)
        if fresh:
            ends = last is None or not parts or _ends(last, cue, parts, cue.start - until, length - paragraph)
            gap = ("\n\n" if parts else "") if ends else _joint(fresh[0])
            if ends:
                paragraph = length + len(gap)
            marks.append(Mark(length + len(gap), {"start": round(cue.start, 3)}))
            words = fresh[0] + "".join(_joint(line) + line for line in fresh[1:])
            said = f"{cue.speaker}: {words}" if ends and cue.speaker else words
            parts += (gap, said)
            length += len(gap) + len(said)
        # Also of a cue that showed nothing new: it carries the roll on.
        last, until = cue, max(until, cue.end)
    return "".join(parts), tuple(marks)


class _Walk:
    """Where the walk over a file's lines is: in a cue (`times`), in a block that is passed over, or between blocks."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.cues: list[Cue] = []
        self.language: str | None = None
        self.skipped = 0
        self._timing = _COMMA if kind == "sbv" else _ARROW
        self._times: tuple[float, float] | None = None
        self._payload: list[str] = []
        self._passing = False
        self._fresh = True
        self._header = False

    def line(self, line: str, *, first: bool) -> None:
        # In WebVTT a blank does not end a cue: captions that roll have an empty first line so.
        line, empty = line.strip(), not line
        if empty or (not line and self.kind != "vtt"):
            self.close()
            self._passing = self._header = False
            self._fresh = True
            return
        if self._passing or not line:
            return
        timing = self._timing.match(line) if len(line) <= _LONGEST_TIMING else None
        if timing is not None or self._broken(line):
            self._begin(timing)
        elif self._times is not None:
            self._payload.append(line)
        elif first and self.kind == "vtt" and line.startswith("WEBVTT"):
            self._header = True
        elif self._header:
            if line[:9].lower() == "language:":
                self.language = clean(line[9:])[:35] or None
        elif self.kind == "vtt" and self._fresh and _BLOCK.match(line):
            self._passing = True
        elif self.kind == "sbv" and self._fresh and line[0].isdigit() and line.count(":") >= 2 and "," in line:
            # SBV has no sign of its own: what stands where times belong and looks like them was meant as such.
            self.skipped += 1
        self._fresh = False

    def close(self) -> None:
        """The cue at hand is complete."""
        if self._times is None:
            return
        start, end = self._times
        for speaker, lines in _voices("\n".join(self._payload), self.kind):
            self.cues.append(Cue(start, max(start, end), lines, speaker))
        if len(self.cues) > MOST_CUES:
            raise Permanent(f"there are more than {MOST_CUES:,} cues: split it")
        self._times = None
        self._payload = []

    def _broken(self, line: str) -> bool:
        """Times that somebody has spoilt. An arrow alone may be part of what is said."""
        return self.kind != "sbv" and "-->" in line and (self._times is None or line[0].isdigit())

    def _begin(self, timing: re.Match[str] | None) -> None:
        if self.kind == "srt" and self._payload and self._payload[-1].isdecimal():
            # The number of the next cue, where the empty line before it was forgotten.
            self._payload.pop()
        self.close()
        self._times = None if timing is None else _seconds(timing)
        self.skipped += self._times is None


def _seconds(timing: re.Match[str]) -> tuple[float, float] | None:
    found = timing.groups()
    times: list[float] = []
    for hours, minutes, seconds, fraction in (found[:4], found[4:]):
        if int(minutes) > 59 or int(seconds) > 59:
            return None
        thousandths = int((fraction or "0").ljust(3, "0"))
        times.append(int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds) + thousandths / 1000)
    return times[0], times[1]


def _voices(payload: str, kind: Kind) -> Iterable[tuple[str | None, tuple[str, ...]]]:
    """Who says what within one cue."""
    before, *voices = _VOICE.split(payload)
    for name, words in [(None, before), *zip(voices[::2], voices[1::2], strict=True)]:
        lines = _lines(words, kind)
        if lines:
            yield clean(_unescaped(name or ""))[:100] or None, lines


def _lines(words: str, kind: Kind) -> tuple[str, ...]:
    bare = (_ANY_TAG if kind == "vtt" else _KNOWN_TAG).sub("", _BREAK.sub("\n", words))
    return tuple(line for line in map(clean, _unescaped(bare).split("\n")) if line)


def _unescaped(text: str) -> str:
    return html.unescape(_HUGE_NUMBER.sub("\ufffd", text)) if "&" in text else text


def _fresh(last: Cue | None, cue: Cue) -> Sequence[str]:
    """The lines of a cue that the one before did not show already as its last ones."""
    if last is None or cue.speaker != last.speaker or cue.start > last.end + _CLOSE:
        return cue.lines
    if last.lines == cue.lines:
        return ()
    for shared in range(min(len(last.lines), len(cue.lines), _ROLL), 0, -1):
        if last.lines[-shared:] == cue.lines[:shared]:
            return cue.lines[shared:]
    return cue.lines


def _ends(last: Cue, cue: Cue, parts: Sequence[str], pause: float, length: int) -> bool:
    """Whether the paragraph, of that length and with these last words, ends before this cue."""
    if cue.speaker != last.speaker or pause >= PAUSE or length >= LONGEST_PARAGRAPH:
        return True
    return length >= ENOUGH and parts[-1].endswith(_SENTENCE_END)


def _joint(line: str) -> str:
    """Lines of a dialogue stay lines."""
    return "\n" if line.startswith(_DASHES) else " "
