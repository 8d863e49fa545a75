"""A book as a strip of small cells, one for each page. Pure.

Pages of the same state that follow each other are one rectangle, so that a book of a thousand pages is a handful of
them. Positions are per cent of the width and pixels of the height, as in `penstock.service.dashboard.charts`. A state
is told by height and pattern as well as by colour.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from penstock.pipelines.pages import rules
from penstock.pipelines.pages.reading import BookRow
from penstock.pipelines.pages.rules import Numbering
from penstock.service.dashboard.charts import percent

FEW, CELLS = 40, 100
"""Cells of a line: where all books are short, and else."""
LINES = 4
"""Lines of a book; one that has more pages gets narrower cells."""
TALL = 17
"""Pixels of a line."""

READY = "r"

_RUN = re.compile(r"(.)\1*")


@dataclass(slots=True, frozen=True)
class Kind:
    """A state of pages: what it is called, its letter, and where its cells stand in a line."""

    name: str
    slug: str
    letter: str
    y: float
    height: float
    pattern: bool = False


KINDS: dict[str, Kind] = {
    rules.DONE: Kind("done", "done", "D", 2, 13),
    rules.FOUND: Kind("found", "found", "?", 2, 13, pattern=True),
    rules.FLYING: Kind("in flight", "flying", "F", 2, 13, pattern=True),
    READY: Kind("ready", "ready", "R", 6, 9),
    rules.WORK: Kind("waiting", "waiting", "W", 11, 4),
    rules.DEAD: Kind("dead", "dead", "X", 0, 17, pattern=True),
}
BY_NAME = {kind.name: kind for kind in KINDS.values()}


@dataclass(slots=True, frozen=True)
class Stretch:
    """Pages that stand side by side in the same state. `first` is how the first of them is spelled."""

    kind: Kind
    x: str
    width: str
    y: str
    first: str
    count: int
    title: str


@dataclass(slots=True, frozen=True)
class Strip:
    """`dense`: cells are too narrow for a line between them."""

    book: BookRow
    stretches: tuple[Stretch, ...]
    lines: int
    per_line: int
    words: str

    @property
    def dense(self) -> bool:
        return self.per_line > CELLS

    @property
    def height(self) -> int:
        return self.lines * TALL

    @property
    def key(self) -> str:
        """How the keys of its pages begin, as it is written in an address."""
        return key_of(self.book)


def key_of(book: BookRow) -> str:
    """`state:school:year`, escaped as a key is, and again for an address."""
    state, school = (name.replace("%", "%25").replace(":", "%3A") for name in (book.state, book.school))
    return quote(f"{state}:{school}:{book.year}", safe=":")


def strips(books: Sequence[BookRow]) -> list[Strip]:
    """Books that are shown together have cells of one width."""
    longest = max((len(book.states) for book in books), default=0)
    return [strip(book, FEW if longest <= FEW else CELLS) for book in books]


def strip(book: BookRow, cells: int = CELLS) -> Strip:
    numbering = Numbering(book.pages)
    letters = _with_ready(book, numbering)
    per_line = max(cells, -(-len(letters) // LINES))
    stretches: list[Stretch] = []
    for line, start in enumerate(range(0, len(letters), per_line)):
        for run in _RUN.finditer(letters[start : start + per_line]):
            if run[1] != rules.GAP:
                at = (run.start(), len(run[0]), per_line, line)
                stretches.append(_stretch(KINDS[run[1]], numbering, start + run.start(), at))
    lines = max(-(-len(letters) // per_line), 1)
    return Strip(book, tuple(stretches), lines, per_line, _words(book))


def _with_ready(book: BookRow, numbering: Numbering) -> str:
    if not book.ready:
        return book.states
    letters = list(book.states)
    for number in book.ready:
        place = numbering.place(number)
        if place is not None and letters[place] == rules.WORK:
            letters[place] = READY
    return "".join(letters)


def _stretch(kind: Kind, numbering: Numbering, place: int, at: tuple[int, int, int, int]) -> Stretch:
    start, count, per_line, line = at
    first = numbering.number(place)
    name, last = numbering.name(first), numbering.name(first + count - 1)
    title = f"page {name}: {kind.name}" if count == 1 else f"pages {name} to {last}: {kind.name}"
    x, width = percent(start * 100 / per_line), percent(count * 100 / per_line)
    return Stretch(kind, x, width, f"{line * TALL + kind.y:g}", name, count, title)


def _words(book: BookRow) -> str:
    told = [f"{book.done} of {book.total} pages done"]
    told += [f"{book.flying} in flight"] if book.flying else []
    told += [f"{book.dead} dead"] if book.dead else []
    return f"{book.school} {book.year}: {', '.join(told)}"
