"""Asking a knowledge base: the hits as people read them, with where each stands and the words that were asked for; and
a file of questions, answered a line each."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.app import Penstock
from penstock.cli.ingest_shapes import hit_shape
from penstock.cli.output import Output, harmless
from penstock.engine.errors import InvalidRequest
from penstock.pipelines.ingestion.index.query import asked as words_asked
from penstock.pipelines.ingestion.searching import Hit, Mode, search

if TYPE_CHECKING:
    from rich.text import Text

SNIPPET = 320
"""Characters of a hit that are shown."""
BEFORE = 120
"""Characters before the words in which the sentence must begin."""
AT_ONCE = 8
"""Questions of a file that are answered at the same time."""
BAR = 10

_WORD = re.compile(r"\w+")
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.M)
_MARKS = re.compile(r"^(?:#{1,6}[ \t]+|```\w*[ \t]*$)", re.M)
_ENDINGS = ("ings", "ing", "ies", "ed", "es", "en", "er", "s", "e", "n")


@dataclass(slots=True, frozen=True)
class Snippet:
    """A part of a chunk on one line; `start` is where it begins in the chunk's text."""

    text: str
    start: int


def filters(written: Sequence[str]) -> dict[str, str]:
    """`key=value`, several of them: all must fit."""
    found: dict[str, str] = {}
    for each in written:
        name, equals, value = each.partition("=")
        if not equals or not name.strip() or not value:
            raise click.UsageError(f"--filter: {each!r} must be a name and a value, such as lang=en or uri=guides/*")
        if name.strip() in found:
            raise click.UsageError(f"--filter: {name.strip()} is named twice, and a document must fit all filters")
        found[name.strip()] = value
    return found


def read_questions(file: str) -> list[dict[str, Any]]:
    """A line each: a JSON string, or an object with `question`, and `id` where it has one. All are looked at before
    the first is asked."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        words = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidRequest(f"--questions: {file} cannot be read: {words.lower()}") from error
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"--questions: line {number} of {'stdin' if file == '-' else file}"
        try:
            told = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise InvalidRequest(f'{where} is not JSON: write "a question" or {{"question": "…"}}') from error
        question = told if isinstance(told, str) else told.get("question") if isinstance(told, dict) else None
        if not isinstance(question, str) or not question.strip():
            raise InvalidRequest(f'{where} has no question: write "a question" or {{"question": "…"}}')
        named = {"id": told["id"]} if isinstance(told, dict) and told.get("id") is not None else {}
        found.append({**named, "question": question})
    if not found:
        raise InvalidRequest(f"--questions: there is no question in {file}")
    return found


async def answer_all(
    app: Penstock,
    base: str,
    asked: Sequence[dict[str, Any]],
    *,
    tenant: str,
    top: int,
    mode: Mode,
    filter: Mapping[str, str],
) -> None:
    """One JSON line for each question, in their order."""
    for start in range(0, len(asked), AT_ONCE):
        some = asked[start : start + AT_ONCE]
        answers = await asyncio.gather(
            *(
                search(app.engine, base, each["question"], tenant=tenant, top=top, mode=mode, filter=filter)
                for each in some
            )
        )
        for each, hits in zip(some, answers, strict=True):
            click.echo(json.dumps({**each, "hits": [hit_shape(hit) for hit in hits]}, ensure_ascii=False))


def show_hits(out: Output, question: str, hits: Sequence[Hit]) -> None:
    if not out.fancy:
        for rank, hit in enumerate(hits, 1):
            shown = snippet(hit.text, question)
            title = " ".join(harmless(hit.title).split())
            place = f"{harmless(where(hit, shown))}  score {hit.score:.4f}"
            out.result(f"{rank}. {title}\n   {place}\n   {harmless(shown.text)}")
        return
    from rich.padding import Padding
    from rich.text import Text

    console, best = out.console(), max(hit.score for hit in hits) or 1.0
    for rank, hit in enumerate(hits, 1):
        shown = snippet(hit.text, question)
        full = max(round(BAR * hit.score / best), 0)
        head = Text(no_wrap=True, overflow="ellipsis")
        head.append(f"{rank:>2}  ", style="bright_black")
        head.append(" ".join(harmless(hit.title).split()), style="bold")
        head.append(f"  {'█' * full}{'░' * (BAR - full)}", style="cyan")
        head.append(f" {hit.score:.4f}", style="bright_black")
        console.print(head)
        console.print(Text(f"    {harmless(where(hit, shown))}", style="green", no_wrap=True, overflow="ellipsis"))
        console.print(Padding(emphasised(harmless(shown.text), question), (0, 0, 1 if rank < len(hits) else 0, 4)))


def where(hit: Hit, shown: Snippet) -> str:
    """`guides/alarms.md#Silence an alarm`, `manual.pdf, page 3`, `talk.vtt at 1:15`; and where it stands too."""
    position, place = hit.position, hit.source
    if isinstance(position.get("headings"), list):
        above = _HEADING.findall(hit.text[: shown.start])
        headings = [*position["headings"], *above]
        place += f"#{' '.join(str(headings[-1]).split())}" if headings else ""
    pages = position.get("pages")
    if isinstance(pages, list) and len(pages) > 1:
        place += f", pages {pages[0]} to {pages[-1]}"
    elif position.get("page") is not None:
        place += f", page {position['page']}"
    if isinstance(position.get("start_seconds"), (int, float)):
        place += f" at {_clock(position['start_seconds'])}"
    if hit.also_in:
        place += f" (and in {hit.also_in[0]}" + (f" and {len(hit.also_in) - 1} more)" if len(hit.also_in) > 1 else ")")
    return place


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def stems(question: str) -> tuple[str, ...]:
    """How the words that were asked for begin: `alarms` is shown in `alarm` too."""
    return tuple(dict.fromkeys(_stem(word) for word in words_asked(question).words))


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word.removesuffix(ending)
    return word


def _fits(word: str, wanted: Sequence[str]) -> bool:
    """The same word, but for how it ends."""
    folded = word.lower()
    return any(folded.startswith(stem) and len(folded) <= len(stem) + 4 for stem in wanted)


def snippet(text: str, question: str, most: int = SNIPPET) -> Snippet:
    """The part that has most of the words that were asked for, from the beginning of a line or a sentence."""
    if len(text) <= most:
        return Snippet(_plain(text), 0)
    wanted = stems(question)
    places = [(found.start(), found[0].lower()) for found in _WORD.finditer(text) if wanted and _fits(found[0], wanted)]
    best, most_words, narrowest = 0, 0, 0
    for number, (start, _) in enumerate(places):
        near = [(place, word) for place, word in places[number:] if place < start + most * 3 // 4]
        words, width = len({word for _, word in near}), near[-1][0] - start
        if words > most_words or (words == most_words and width < narrowest):
            best, most_words, narrowest = start, words, width
    begin = _beginning(text, best)
    part = text[begin : begin + most]
    end = begin + len(part)
    if end < len(text) and " " in part:
        part = part[: part.rindex(" ")]
    line = _plain(part)
    return Snippet(f"{'… ' if begin and text[:begin].strip() else ''}{line}{' …' if end < len(text) else ''}", best)


def _plain(text: str) -> str:
    """On one line, without the marks of headings and of code."""
    return " ".join(_MARKS.sub("", text).split())


def _beginning(text: str, place: int) -> int:
    """Where the sentence, the line or at least the word begins that stands here."""
    near = text[max(place - BEFORE, 0) : place]
    ends = [found + len(mark) for mark in (". ", "? ", "! ", ": ", "\n") if (found := near.rfind(mark)) >= 0]
    if ends:
        return place - len(near) + max(ends)
    return 0 if place < BEFORE else place - len(near) + near.rfind(" ") + 1


def emphasised(text: str, question: str) -> Text:
    from rich.text import Text

    shown, wanted = Text(text), stems(question)
    for found in _WORD.finditer(text):
        if wanted and _fits(found[0], wanted):
            shown.stylize("bold yellow", found.start(), found.end())
    return shown
