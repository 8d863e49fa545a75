"""Cutting a text into pieces that fit, each at the best place there is, and how much of one the next repeats."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from penstock.pipelines.ingestion.chunking_text import (
    INDENT,
    ITEM,
    PARAGRAPH,
    SENTENCE,
    SPACE,
    abbreviated,
    back,
    fit,
    lead,
    solid,
    whole,
    width,
    word,
)

Span = tuple[int, int]


@dataclass(slots=True, frozen=True)
class Room:
    """How many bytes a piece may have, and how many of them the next one repeats: at most half."""

    most: int
    again: int


class Blocks:
    """Stretches of a text that are better not cut: code and tables. In order, and none within another."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, spans: Sequence[Span] = ()) -> None:
        self._starts = [start for start, _ in spans]
        self._ends = [end for _, end in spans]

    def around(self, at: int) -> Span | None:
        """The block that a cut here would cut."""
        place = bisect_left(self._starts, at) - 1
        return (self._starts[place], self._ends[place]) if place >= 0 and at < self._ends[place] else None

    def before(self, at: int) -> int:
        """Where the last block ends that begins before here, or -1."""
        place = bisect_left(self._starts, at) - 1
        return self._ends[place] if place >= 0 else -1

    def first(self, low: int, high: int) -> Span | None:
        """The first block that begins between these."""
        place = bisect_left(self._starts, low)
        if place == len(self._starts) or self._starts[place] >= high:
            return None
        return self._starts[place], self._ends[place]


def pieces(text: str, start: int, end: int, room: Room, blocks: Blocks) -> Iterator[Span]:
    """Cut where paragraphs end, else before items of lists, after sentences, lines, words. A text that takes several
    pieces gets pieces of about one size: a full one and a rest that mostly repeats it would be of little use."""

    def cut(at: int, done: int, rest: int) -> int:
        hard = fit(text, at, room.most)
        count = -(-(rest - room.again) // (room.most - room.again))
        even = room.again + (rest - room.again) // count + room.most // 8
        aim = fit(text, at, even) if even < room.most else hard
        return _cut(text, at, done, aim if aim > done else hard, hard, room, blocks)

    def again(floor: int, cut: int, following: int) -> int:
        return _again(text, floor, cut, following, room, blocks)

    return _walk(text, start, end, room, cut, again)


def windows(text: str, start: int, end: int, room: Room) -> Iterator[Span]:
    """As large as may be, cut between words."""

    def cut(at: int, done: int, rest: int) -> int:
        hard = fit(text, at, room.most)
        return word(text, max(done + 1, (at + hard) // 2), hard, done)

    def again(floor: int, cut: int, following: int) -> int:
        space = SPACE.search(text, floor - 1, cut - 1)
        return space.end() if space else whole(text, floor, cut)

    return _walk(text, start, end, room, cut, again)


def _walk(
    text: str,
    start: int,
    end: int,
    room: Room,
    cut_after: Callable[[int, int, int], int],
    again_from: Callable[[int, int, int], int],
) -> Iterator[Span]:
    """From piece to piece. `done` is what earlier pieces hold: a cut is always after it, so that each has news."""
    at = done = lead(text, start, end)
    gap = room.most // 8
    rest = width(text, at, end)
    while at < end:
        if rest <= room.most:
            yield at, end
            return
        cut = cut_after(at, done, rest)
        if not text[at:cut].isspace():
            yield at, cut
        onward, following = lead(text, cut, end), solid(text, cut, end)
        # White space that the overlap bridges takes room from what is new.
        if room.again and following < end and width(text, cut, following) <= gap:
            onward = lead(text, again_from(max(back(text, cut, room.again), at + 1), cut, following), end)
        rest -= width(text, at, onward)
        at, done = onward, following


def _cut(text: str, start: int, done: int, aim: int, hard: int, room: Room, blocks: Blocks) -> int:
    """Between `done` and `hard`, best not far from `aim`."""
    low = max(done + 1, start + (aim - start) // 4)
    half = max(done + 1, start + (aim - start) // 2)
    block = blocks.around(aim)
    if block is not None:
        first, last = block
        if last <= hard:
            return last
        if first > done and (first >= low or width(text, first, last) <= room.most):
            return first
        line = text.rfind("\n", half, hard)
        return line if line > done else word(text, half, hard, done)
    if low >= aim:
        return word(text, low, hard, done)
    paragraph = max(_paragraph(text, low, aim, blocks), blocks.before(aim))
    if paragraph < low and aim < hard:
        after = PARAGRAPH.search(text, aim, hard)
        if after and blocks.around(after.start()) is None:
            paragraph = after.start()
    if paragraph >= low:
        return paragraph
    found = _item_or_sentence(text, half, aim, blocks)
    if found < 0:
        found = text.rfind("\n", half, aim)
    return found if found >= 0 and blocks.around(found) is None else word(text, half, hard, done)


def _paragraph(text: str, low: int, high: int, blocks: Blocks) -> int:
    """The last end of a paragraph, or -1. What ends in a colon belongs with what it announces."""
    for begin in (high - (high - low) // 4, low):
        for found in reversed(list(PARAGRAPH.finditer(text, begin, high))):
            place = found.start()
            if text[place - 1] != ":" and blocks.around(place) is None:
                return place
    return -1


def _item_or_sentence(text: str, low: int, high: int, blocks: Blocks) -> int:
    """The last beginning of an item, else the last end of a sentence, or -1. The last quarter is tried first: mostly
    it is there."""
    for begin in (high - (high - low) // 4, low):
        for pattern in (ITEM, SENTENCE):
            for found in reversed(list(pattern.finditer(text, begin, high + 1))):
                # The line break before an item is left to the next piece, which so keeps the indentation.
                place = found.start() if pattern is ITEM else found.end()
                if low <= place <= high and not abbreviated(text, found.start()) and blocks.around(place) is None:
                    return place
    return -1


def _again(text: str, floor: int, cut: int, following: int, room: Room, blocks: Blocks) -> int:
    """From where on the next piece repeats what is before the cut: whole sentences, lines or blocks."""
    block = blocks.around(cut)
    if block is not None:
        line = text.find("\n", max(floor, block[0]), cut)
        return line if line >= 0 else cut
    after = blocks.first(following, following + INDENT)
    if after is not None and width(text, following, after[1]) <= room.most:
        # The next block stays whole, with as much before it as there is room for.
        floor = max(floor, back(text, after[1], room.most))
    block = blocks.around(floor)
    if block is not None:
        floor = block[1]
    if floor >= cut:
        return cut
    kept = blocks.first(floor, cut)
    places = [kept[0]] if kept is not None else []
    for pattern in (PARAGRAPH, ITEM, SENTENCE):
        for found in pattern.finditer(text, floor - 1, cut):
            place = found.end()
            if floor <= place < cut and blocks.around(place) is None and not abbreviated(text, found.start()):
                places.append(max(floor, found.start()) if pattern is ITEM else place)
                break
    if places:
        return min(places)
    line = text.find("\n", floor, cut)
    if line >= 0:
        return line if blocks.around(line) is None else cut
    space = SPACE.search(text, floor - 1, cut - 1)
    return space.end() if space else whole(text, floor, cut)
