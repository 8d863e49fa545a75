"""What follows from what: pure functions over a book's pages and their states. No file, no clock, no database.

A book's pages are written as `0001-0200 0210`: runs of numbers, a gap between them starts a new chain. `states` has one
letter for each page in the same order, and a blank where a chain ends:

    w  to be done        f  in flight        d  done        ?  found done, not looked at yet        x  dead

So `dddfww ww` is a book of two chains: in the first three pages are done, the fourth is in flight and two wait for it,
the second can begin. A page can run when it is `w` and nothing before it in its chain is undone.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from penstock.pipelines.pages.model import OnDeadPage

WORK, FLYING, DONE, FOUND, DEAD = "w", "f", "d", "?", "x"
GAP = " "

STATE_NAMES: dict[str, str] = {
    WORK: "waiting", FLYING: "in flight", DONE: "done", FOUND: "found", DEAD: "dead",
}  # fmt: skip
"""What people call them; a waiting page that can run now is called ready."""

_READY: dict[OnDeadPage, re.Pattern[str]] = {
    "block": re.compile("(?<![wfx])w+"),
    "skip": re.compile("(?<![wf])w+"),
}


@dataclass(slots=True, frozen=True)
class _Stretch:
    """Pages that are numbered and spelled alike, and where their letters begin."""

    first: int
    count: int
    width: int
    place: int


class Numbering:
    """Which page a letter belongs to, and back."""

    __slots__ = ("_firsts", "_places", "_stretches", "size", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._stretches: list[_Stretch] = []
        place = 0
        for number, chain in enumerate(text.split(GAP) if text else ()):
            place += number > 0
            for written in chain.split(","):
                first, _, last = written.partition("-")
                stretch = _Stretch(int(first), int(last or first) - int(first) + 1, len(first), place)
                self._stretches.append(stretch)
                place += stretch.count
        self.size = place
        self._places = [stretch.place for stretch in self._stretches]
        self._firsts = [stretch.first for stretch in self._stretches]

    def place(self, number: int) -> int | None:
        """Where the letter of this page is."""
        at = bisect_right(self._firsts, number) - 1
        if at < 0:
            return None
        stretch = self._stretches[at]
        within = number - stretch.first
        return stretch.place + within if within < stretch.count else None

    def number(self, place: int) -> int:
        stretch = self._stretches[bisect_right(self._places, place) - 1]
        return stretch.first + place - stretch.place

    def name(self, number: int) -> str:
        """How the page's files spell it."""
        at = bisect_right(self._firsts, number) - 1
        return str(number).zfill(self._stretches[max(at, 0)].width)

    def names(self) -> list[str]:
        """How all pages are spelled, in the order of their letters; nothing where a chain ends."""
        found: list[str] = []
        for stretch in self._stretches:
            if stretch.place > len(found):
                found.append("")
            spelled = f"%0{stretch.width}d"
            found += [spelled % number for number in range(stretch.first, stretch.first + stretch.count)]
        return found

    def __iter__(self) -> Iterator[int]:
        for stretch in self._stretches:
            yield from range(stretch.first, stretch.first + stretch.count)


def numbered(names: list[str]) -> tuple[str, list[str]]:
    """The numbering of a book whose label files have these stems, each once, and those that are left out: what is no
    number, and a second spelling of a number that is there already."""
    if names and _uniform(names):
        first, last = min(names), max(names)
        if int(last) - int(first) + 1 == len(names):
            return _run(first, last), []
        return _with_gaps(sorted(names)), []
    found: dict[int, str] = {}
    left_out = []
    for name in sorted(names):
        if not _is_number(name) or int(name) in found:
            left_out.append(name)
        else:
            found[int(name)] = name
    parts: list[str] = []
    start = before = None
    for number in sorted(found):
        name = found[number]
        if before is not None and number == before + 1 and name == str(number).zfill(len(start or "")):
            before = number
            continue
        if start is not None:
            _close(parts, start, before or 0, GAP if before is None or number > before + 1 else ",")
        start, before = name, number
    if start is not None:
        _close(parts, start, before or 0, "")
    return "".join(parts), left_out


def _with_gaps(names: list[str]) -> str:
    """Of numbers of one length, in their order."""
    numbers = list(map(int, names))
    ends = [at for at, (one, other) in enumerate(pairwise(numbers), 1) if other - one > 1]
    return GAP.join(
        _run(names[start], names[end - 1]) for start, end in zip([0, *ends], [*ends, len(names)], strict=True)
    )


def _run(first: str, last: str) -> str:
    return first if first == last else f"{first}-{last}"


def _uniform(names: list[str]) -> bool:
    """Numbers of one length: then their order is that of their letters."""
    together = "".join(names)
    width = len(names[0])
    return width <= 9 and together.isascii() and together.isdigit() and set(map(len, names)) == {width}


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) <= 9


def _close(parts: list[str], start: str, last: int, separator: str) -> None:
    parts.append(_run(start, str(last).zfill(len(start))) + separator)


def all_to_do(numbering: str) -> str:
    """The states of a book of which nothing is done."""
    letters = []
    for chain in numbering.split(GAP) if numbering else ():
        count = 0
        for written in chain.split(","):
            first, _, last = written.partition("-")
            count += int(last or first) - int(first) + 1
        letters.append(WORK * count)
    return GAP.join(letters)


@dataclass(slots=True, frozen=True)
class Head:
    """A page that can run now, and how many pages of its chain wait for it, itself included."""

    number: int
    remaining: int


def heads(numbering: Numbering, states: str, on_dead: OnDeadPage = "block") -> list[Head]:
    """Who can run: in each chain, each page with nothing undone before it."""
    return [Head(numbering.number(run.start()), run.end() - run.start()) for run in _READY[on_dead].finditer(states)]


@dataclass(slots=True, frozen=True)
class Ready:
    """A page that can run, among those of other books. `served`: the batch that last had a page of its book."""

    book: str
    number: int
    remaining: int
    served: int


def rank(page: Ready) -> tuple[int, int, str, int]:
    """Who goes first, lowest first: the longest remaining chain (Hu's rule), then the book that was served longest
    ago. `Ledger.next_pages` says the same in SQL."""
    return -page.remaining, page.served, page.book, page.number


def changed(numbering: Numbering, states: str, changes: Mapping[int, str]) -> str:
    """The states with some pages changed; a page that is not in the book any more is passed over."""
    if not changes:
        return states
    letters = list(states)
    for number, letter in changes.items():
        place = numbering.place(number)
        if place is not None:
            letters[place] = letter
    return "".join(letters)


def state_of(numbering: Numbering, states: str, number: int) -> str | None:
    place = numbering.place(number)
    return None if place is None else states[place]


def moved(old: Numbering, states: str, new: Numbering) -> str:
    """The states of a book whose label files have changed: pages that stayed keep theirs."""
    blank = list(all_to_do(new.text))
    for place, number in zip(_places(blank), new, strict=True):
        letter = state_of(old, states, number)
        if letter is not None:
            blank[place] = letter
    return "".join(blank)


def _places(letters: Iterable[str]) -> Iterator[int]:
    return (place for place, letter in enumerate(letters) if letter != GAP)


def seen(numbering: Numbering, states: str, outputs: Iterable[str], unpublished: frozenset[str] = frozenset()) -> str:
    """The states after a look into the book's output folder, which has files with these stems. One that nobody knew of
    is found; one that is gone is work again, unless it waits to be published."""
    there = set(outputs)
    letters = [
        _IF_THERE[letter] if name in there else _IF_GONE[letter]
        for name, letter in zip(numbering.names(), states, strict=True)
    ]
    for name in unpublished - there:
        place = numbering.place(int(name))
        if place is not None and states[place] == DONE and numbering.name(int(name)) == name:
            letters[place] = DONE
    return "".join(letters)


_IF_THERE = {WORK: FOUND, FLYING: FLYING, DONE: DONE, FOUND: FOUND, DEAD: FOUND, GAP: GAP}
_IF_GONE = {WORK: WORK, FLYING: FLYING, DONE: WORK, FOUND: WORK, DEAD: DEAD, GAP: GAP}


@dataclass(slots=True, frozen=True)
class Tally:
    total: int
    done: int
    flying: int
    dead: int
    found: int


def tally(states: str) -> Tally:
    found = states.count(FOUND)
    return Tally(
        total=len(states) - states.count(GAP),
        done=states.count(DONE) + found,
        flying=states.count(FLYING),
        dead=states.count(DEAD),
        found=found,
    )


FailureType = Literal[
    "api_error", "blocked", "truncated", "invalid_json", "schema", "missing", "duplicate", "unknown", "batch",
    "file_lost", "image", "output",
]  # fmt: skip

MOST_LOST_FILES = 3
"""How often a page may lose its uploaded image at Gemini before that is counted against it."""


@dataclass(slots=True, frozen=True)
class Strikes:
    """What stands against a page."""

    failures: int = 0
    batch_failures: int = 0
    file_failures: int = 0


@dataclass(slots=True, frozen=True)
class Judged:
    """What a failure means: the strikes after it, whether it was counted, and whether the page is dead now."""

    strikes: Strikes
    counted: bool
    dead: bool


def judge(strikes: Strikes, kind: FailureType, *, most_failures: int, batch_failures_free: int) -> Judged:
    """One failed attempt. A lost upload is not the page's fault, and neither is a batch that failed whole, a few
    times; a page without an image, or without a place for its output, can never work."""
    if kind in ("image", "output"):
        return Judged(strikes, counted=False, dead=True)
    files = strikes.file_failures + (kind == "file_lost")
    batches = strikes.batch_failures + (kind == "batch")
    if kind == "file_lost":
        counted = files > MOST_LOST_FILES
    elif kind == "batch":
        counted = batches > batch_failures_free
    else:
        counted = True
    failures = strikes.failures + counted
    return Judged(Strikes(failures, batches, files), counted=counted, dead=failures >= most_failures)
